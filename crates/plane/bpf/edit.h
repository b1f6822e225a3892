/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Changes of headers on the way out, with their checksums: TOS byte or traffic class, TTL, and the
 * maximum segment size of a SYN (RFC 9293 section 3.7.1). Packets that are not cut up yet stay
 * whole: their headers are copied to every segment. For programs on tcx.
 */
#ifndef WEIR_EDIT_H
#define WEIR_EDIT_H

#include "kernel.h"
#include "abi.h"

#define TCP_OPTIONS_MAX 40

static __always_inline int edit_tos(struct __sk_buff *skb, __u32 at, const struct weir_handoff *h)
{
	__u16 word, changed;
	__u8 tos;

	if (bpf_skb_load_bytes(skb, at, &word, 2))
		return -1;
	word = bpf_ntohs(word);
	tos = h->family == 4 ? word : word >> 4;
	tos = (tos & ~h->tos_mask) ^ h->tos_value;
	changed = h->family == 4 ? (word & 0xff00) | tos : (word & 0xf00f) | tos << 4;
	if (changed == word)
		return 0;
	word = bpf_htons(word);
	changed = bpf_htons(changed);
	if (h->family == 4 && bpf_l3_csum_replace(skb, at + 10, word, changed, 2))
		return -1;
	/* What the network card summed up covers an IPv6 header, in which nothing makes up for it. */
	return bpf_skb_store_bytes(skb, at, &changed, 2, h->family == 4 ? 0 : BPF_F_RECOMPUTE_CSUM);
}

static __always_inline int edit_ttl(struct __sk_buff *skb, __u32 at, const struct weir_handoff *h)
{
	__u32 place = at + (h->family == 4 ? 8 : 7);
	__u8 bytes[2] = {}, old;
	__u16 before, after;
	__s32 ttl;

	/* In IPv4 with the protocol behind it, because checksums are of words. */
	if (bpf_skb_load_bytes(skb, place, bytes, 1) ||
	    (h->family == 4 && bpf_skb_load_bytes(skb, place, bytes, 2)))
		return -1;
	old = bytes[0];
	ttl = (h->edits & WEIR_EDIT_TTL_SET ? h->ttl_set : old) + h->ttl_change;
	ttl = ttl < 0 ? 0 : ttl > 255 ? 255 : ttl;
	if (ttl == old)
		return 0;
	before = bpf_htons((__u16)old << 8 | bytes[1]);
	after = bpf_htons((__u16)ttl << 8 | bytes[1]);
	if (h->family == 4 && bpf_l3_csum_replace(skb, at + 10, before, after, 2))
		return -1;
	bytes[0] = ttl;
	return bpf_skb_store_bytes(skb, place, bytes, 1, 0);
}

struct mss_walk {
	__u8 options[64];
	__u32 at;
	__u32 length;
	__u32 found;		/* offset of the value behind the fixed header, or 0 */
};

/* One option; 1 ends the walk. A callback, so that the verifier follows it once. */
static long find_mss(__u32 step, struct mss_walk *w)
{
	__u32 at = w->at & 63;
	__u8 kind = w->options[at], size = w->options[(at + 1) & 63];

	if (at + 4 > w->length || kind == 0)
		return 1;
	if (kind == 1) {
		w->at = at + 1;
		return 0;
	}
	if (size < 2)
		return 1;
	if (kind == 2 && size == 4) {
		w->found = at + 2;
		return 1;
	}
	w->at = at + size;
	return 0;
}

/* `at`: of the TCP header; `mtu`: of the interface. */
static __always_inline int edit_mss(struct __sk_buff *skb, __u32 at, __u32 mtu,
				    const struct weir_handoff *h)
{
	__u32 wanted = h->mss, length, place, headers = h->family == 4 ? 40 : 60;
	struct mss_walk walk = {};
	__u8 fixed[20];
	__u16 old, new;

	if (!wanted) {
		if (h->mtu && h->mtu < mtu)
			mtu = h->mtu;
		if (mtu <= headers)
			return 0;
		wanted = mtu - headers;
	}
	if (bpf_skb_load_bytes(skb, at, fixed, sizeof(fixed)) || !(fixed[13] & 2))
		return 0;
	length = (fixed[12] >> 4) * 4;
	if (length <= 20 || length > 60)
		return 0;
	length -= 20;
	if (length > TCP_OPTIONS_MAX || length < 4 ||
	    bpf_skb_load_bytes(skb, at + 20, walk.options, length))
		return 0;
	walk.length = length;
	bpf_loop(TCP_OPTIONS_MAX, find_mss, &walk, 0);
	place = walk.found;
	if (!place || place > TCP_OPTIONS_MAX - 2)
		return 0;
	at += 20 + place;
	if (bpf_skb_load_bytes(skb, at, &old, 2) || bpf_ntohs(old) <= wanted)
		return 0;
	new = bpf_htons(wanted);
	if (bpf_l4_csum_replace(skb, at - place - 20 + 16, old, new, 2))
		return -1;
	return bpf_skb_store_bytes(skb, at, &new, 2, 0);
}

#endif
