/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether the checksum of a packet's transport header is wrong, which makes it `bad` to IPFilter.
 * Mostly the device has said so, or the packet comes from this host and has none yet; what nobody
 * has looked at is read through. Twin of engine::packet::ipf's `checksum`, of one whole packet.
 * Sources: RFC 1071, 768, 8200 section 8.1; nf_ip_checksum(), nf_ip6_checksum().
 */
#ifndef WEIR_LEARNED_SUM_H
#define WEIR_LEARNED_SUM_H

#include "meta.h"
#include "parse.h"
#include "sum.h"

#define SUM_PIECES (65536 / WEIR_SCRATCH_PIECE + 1)

/* What a checksum covers. */
struct sum_field {
	__u32 at;
	__u32 length;
	__u32 proto;
};

/* A packet that is read through. */
struct sum_walk {
	struct bpf_dynptr packet;
	__u8 *piece;
	__u64 sum;
	__u32 at;
	__u32 end;
	__u32 unread;
};

static __always_inline __u64 sum_addresses(const struct weir_packet *p)
{
	__u64 sum = (p->src[1] >> 32) + (__u32)p->src[1] + (p->dst[1] >> 32) + (__u32)p->dst[1];

	if (p->family == 6)
		sum += (p->src[0] >> 32) + (__u32)p->src[0] + (p->dst[0] >> 32) +
		       (__u32)p->dst[0];
	return sum;
}

/* The first of these bytes, and the rest behind them. */
static long sum_piece(__u32 number, struct sum_walk *s)
{
	const __u32 *word = (const __u32 *)s->piece;
	__u32 size = s->end - s->at;
	__u64 sum = 0;

	if (s->at >= s->end)
		return 1;
	if (size >= WEIR_SCRATCH_PIECE)
		size = WEIR_SCRATCH_PIECE;
	else
		__builtin_memset(s->piece, 0, WEIR_SCRATCH_PIECE);
	if (bpf_dynptr_read(s->piece, size, &s->packet, s->at, 0)) {
		s->unread = 1;
		return 1;
	}
	for (int i = 0; i < WEIR_SCRATCH_PIECE / 4; i++)
		sum += word[i];
	s->sum += sum;
	s->at += size;
	return 0;
}

/* What is covered; false where there is nothing to check, or the packet is bad without. */
static __always_inline bool sum_find(const struct weir_bytes *b, const struct weir_packet *p,
				     struct sum_field *f)
{
	__u32 needs = 8;

	f->at = p->transport_offset;
	f->proto = p->proto;
	if (p->fragment != WEIR_FRAGMENT_WHOLE || p->malformed)
		return false;
	/* IPFilter looks behind an IPv4 authentication header. */
	if (p->family == 4 && f->proto == IPPROTO_AH) {
		if (p->length < f->at + WEIR_AH_MIN)
			return false;
		f->proto = bytes_u8(b, f->at);
		f->at += (bytes_u8(b, f->at + 1) + 2) * 4;
	}
	switch (f->proto) {
	case IPPROTO_TCP:
		needs = 20;
		break;
	case IPPROTO_UDP:
		break;
	case IPPROTO_ICMP:
		if (p->family != 4)
			return false;
		break;
	case IPPROTO_ICMPV6:
		if (p->family != 6)
			return false;
		break;
	default:
		return false;
	}
	if (p->length < f->at + needs || b->have < f->at + needs)
		return false;
	f->length = p->length - f->at;
	/* A sender of datagrams may do without. */
	return f->proto != IPPROTO_UDP || bytes_u16(b, f->at + 6);
}

/*
 * Whether a sum of all bytes, made by the device, says that the checksum is right. `all`: that sum;
 * `base`: address of the packet as it was received; `at`: of its transport header. Verified on its
 * own.
 */
__noinline int sum_is_right(__u32 all, __u64 base, const struct weir_packet *p, __u32 at)
{
	const struct in6_addr___local *head = BYTES_AT(base);
	__u64 sum;

	/* What is behind an authentication header is summed on its own. */
	if (!p || p->proto == IPPROTO_AH)
		return 0;
	sum = bpf_ntohs(sum_fold(all));
	if (p->family == 4) {
		/* The sum of the network header is nothing: IP has checked it. */
		if (p->proto != IPPROTO_ICMP)
			sum += sum_addresses(p) + p->proto + (p->length - at);
		return sum_fold(sum) == 0xffff;
	}
	/* The addresses are in both headers. */
	if (at != 40)
		return 0;
	sum += 0xffff ^ sum_fold((__u64)bpf_ntohl(head->in6_u.u6_addr32[0]) +
				 bpf_ntohl(head->in6_u.u6_addr32[1]));
	sum += p->proto + (p->length - at);
	return sum_fold(sum) == 0xffff;
}

/* Whether the checksum is known to be right, or there is none that could be wrong. */
static __always_inline bool sum_is_known(const struct sk_buff___local *skb, __u64 base,
					 const struct weir_packet *p, __u32 at)
{
	__u32 summed = meta_summed(skb);

	if (summed & WEIR_SUMMED_KNOWN)
		return true;
	return summed == WEIR_SUMMED_COMPLETE && p->hook == WEIR_HOOK_PREROUTING &&
	       sum_is_right(skb->csum, base, p, at);
}

/* Reads the packet through. What can't be read is not said to be wrong. */
static __noinline int sum_is_wrong(struct sk_buff___local *skb, struct weir_scratch *s,
				   const struct weir_bytes *b, const struct weir_packet *p)
{
	struct sum_field f = {};
	struct sum_walk walk = {};
	__u64 sum;

	if (sum_is_known(skb, b->base, p, p->transport_offset) || !sum_find(b, p, &f) ||
	    bpf_dynptr_from_skb(skb, 0, &walk.packet))
		return 0;
	walk.piece = s->piece;
	walk.at = f.at;
	walk.end = p->length;
	bpf_loop(SUM_PIECES, sum_piece, &walk, 0);
	sum = bpf_ntohs(sum_fold(walk.sum));
	if (f.proto != IPPROTO_ICMP)
		sum += sum_addresses(p) + f.proto + f.length;
	return !walk.unread && sum_fold(sum) != 0xffff;
}

#endif
