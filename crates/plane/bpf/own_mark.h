/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Segments of the agent to this host itself. They come in by the loopback interface, where no
 * socket is known any more; they are known there by a number that the agent draws, in two fields
 * that nobody reads: the identification of a packet in one piece (IPv6: the flow label) and the
 * urgent pointer of a segment that isn't urgent. Included by netfilter.bpf.c.
 */
#ifndef WEIR_OWN_MARK_H
#define WEIR_OWN_MARK_H

#include "lane_parse.h"
#include "maps.h"
#include "meta.h"

#define OWN_LOOPBACK 1	/* number of the loopback interface in every namespace */

/* Both headers and nothing else: hardly any segment, as most carry time stamps. */
static __always_inline bool own_has_size(const struct sk_buff___local *skb, bool v6)
{
	return skb->len == (v6 ? 60 : 40) && !skb->data_len;
}

/* Protocol, from the word at `own_head`: IPv4 from the identification on, IPv6 from the start. */
static __always_inline __u8 own_protocol(__u64 head, bool v6)
{
	return v6 ? head >> 48 : head >> 40;
}

static __always_inline __u64 own_head(__u64 base, bool v6)
{
	return lane_load(base, v6 ? 0 : 4);
}

/*
 * The fields that nobody reads, of a bare segment; 0 for what else has its size. `form`: its data
 * offset and flags, but for those in `either`.
 */
static __always_inline __u32 own_mark_of(__u64 base, bool v6, __u16 form, __u16 either)
{
	__u64 head = own_head(base, v6);
	__u64 tail = lane_load(base, v6 ? 52 : 32);	/* of the TCP header: data offset on */
	__u16 number = v6 ? head >> 16 : head;

	if (own_protocol(head, v6) != IPPROTO_TCP || (bpf_ntohs((__u16)tail) & ~either) != form)
		return 0;
	return (__u32)bpf_ntohs(number) << 16 | bpf_ntohs((__u16)(tail >> 48));
}

/* At PREROUTING, of a packet of that size: whether the agent sent it. `form`: as above. */
static __always_inline bool own_comes_in(struct bpf_nf_ctx___local *ctx,
					 const struct weir_control *c, bool v6, __u16 form,
					 __u16 either)
{
	const struct nf_hook_state___local *met = MET_AT((__u64)ctx->state);

	return met->in && DEVICE_AT((__u64)met->in)->ifindex == OWN_LOOPBACK &&
	       own_mark_of((__u64)ctx->skb->data, v6, form, either) == c->own_mark;
}

#endif
