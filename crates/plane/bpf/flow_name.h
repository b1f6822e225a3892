/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The name of a packet's flow: both ends and the protocol, the same for both directions. Twin of
 * engine::flow::hash and of the first half of engine::flow::table.
 */
#ifndef WEIR_FLOW_NAME_H
#define WEIR_FLOW_NAME_H

#include "flow_abi.h"
#include "flow_table.h"
#include "hash.h"

/* The request type of an ICMP query; *asks: whether `kind` is the request. -1 for other types. */
static __always_inline int flow_icmp_query(__u8 proto, __u8 kind, bool *asks)
{
	if (proto == IPPROTO_ICMP) {
		*asks = kind == 8 || kind == 13 || kind == 15 || kind == 17;
		if (*asks)
			return kind;
		if (kind == 14 || kind == 16 || kind == 18)
			return kind - 1;
		return kind == 0 ? 8 : -1;
	}
	*asks = kind == 128 || kind == 139;
	if (*asks)
		return kind;
	return kind == 129 || kind == 140 ? kind - 1 : -1;
}

/*
 * All bits set when `bit` is 1, none when it is 0. Opaque, so that choices by it stay arithmetic:
 * the direction of packets is as good as random, and a branch on it is mispredicted half of the
 * time.
 */
static __always_inline __u64 flow_mask_of(__u64 bit)
{
	__u64 mask = -bit;

	FLOW_ONE_COPY(mask);
	return mask;
}

/* Exchanges two words where the mask is set. */
#define FLOW_EXCHANGE(a, b, mask)                                                                  \
	do {                                                                                       \
		__u64 difference = ((a) ^ (b)) & (mask);                                           \
		(a) ^= difference;                                                                 \
		(b) ^= difference;                                                                 \
	} while (0)

/* 1 when a < b; both below 2^63. */
static __always_inline __u64 flow_less(__u64 a, __u64 b)
{
	__u64 difference = a - b;

	FLOW_ONE_COPY(difference);
	return difference >> 63;
}

/* 1 when x, which is below 2^63, is 0. */
static __always_inline __u64 flow_is_zero(__u64 x)
{
	return flow_less(x, 1);
}

/* 1 when the 128-bit a < b, or when they are equal and `otherwise`. */
static __always_inline __u64 flow_less_address(const __u64 *a, const __u64 *b, __u64 otherwise)
{
	if (a[0] != b[0])
		return a[0] < b[0];
	if (a[1] != b[1])
		return a[1] < b[1];
	return otherwise;
}

/*
 * The name of a packet's flow, in ref, by what stands for its ports. `query`: of ICMP, as in ref.
 * `zero`: see flow_forget.
 */
static __always_inline void flow_name_of(const struct weir_packet *p, struct flow_ref *ref,
					 __u64 src_port, __u64 dst_port, __u64 query, bool v6,
					 __u32 zero)
{
	__u64 from_high, mask, src, dst;

	src_port ^= zero;
	dst_port ^= zero;
	src = (__u32)p->src[1];
	dst = (__u32)p->dst[1];
	ref->meta = p->proto;
	if (v6)
		from_high = flow_less_address(p->dst, p->src, flow_less(dst_port, src_port));
	else
		from_high = flow_less(dst << 16 | dst_port, src << 16 | src_port);
	from_high = (from_high ^ zero) & 1;
	mask = flow_mask_of(from_high);
	if (query) {
		bool to_itself = src_port == dst_port && p->src[0] == p->dst[0] &&
				 p->src[1] == p->dst[1];

		if (!to_itself && from_high == (query == 1))
			ref->meta |= FLOW_META_REQUESTER_HIGH;
	}
	FLOW_EXCHANGE(src_port, dst_port, mask);
	ref->ports = src_port | dst_port << 16;
	if (v6) {
		ref->meta |= FLOW_META_V6;
		ref->pair = from_high ? hash_addresses(p->dst, p->src) :
					hash_addresses(p->src, p->dst);
	} else {
		FLOW_EXCHANGE(src, dst, mask);
		ref->pair = src | dst << 32;
	}
	ref->pair ^= zero;
	ref->meta ^= zero;
	ref->from_high = from_high;
	ref->query = query;
}

/* The name of a packet's flow, in ref; false when it can't be told. */
static __always_inline bool flow_name(const struct weir_packet *p, struct flow_ref *ref,
				      __u32 zero)
{
	__u64 src_port = p->src_port, dst_port = p->dst_port, query = 0;

	if (p->fragment == WEIR_FRAGMENT_LATER || p->transport == WEIR_TRANSPORT_SHORT)
		return false;
	if (p->transport == WEIR_TRANSPORT_ICMP) {
		bool asks;
		int request = flow_icmp_query(p->proto, p->src_port >> 8, &asks);
		__u32 marker = request << 8 | (p->src_port & 0xff);

		if (request < 0)
			return false;
		src_port = asks ? p->dst_port : marker;
		dst_port = asks ? marker : p->dst_port;
		query = asks ? 1 : 2;
	} else if (p->transport < WEIR_TRANSPORT_TCP || p->transport > WEIR_TRANSPORT_SCTP) {
		src_port = 0;
		dst_port = 0;
	}
	flow_name_of(p, ref, src_port, dst_port, query ^ zero, p->family == 6, zero);
	return true;
}

/*
 * Whether the flow is between the packet's addresses. An IPv6 name has only a keyed 64-bit hash of
 * them; should two pairs of addresses ever meet in one, the second pair is not tracked.
 */
static __always_inline bool flow_between(const struct flow_cold *cold, const struct flow_ref *ref,
					 const struct weir_packet *p)
{
	const __u64 *low = p->src, *high = p->dst;

	if (!(ref->meta & FLOW_META_V6))
		return true;
	if (ref->from_high) {
		low = p->dst;
		high = p->src;
	}
	return !((cold->low[0] ^ low[0]) | (cold->low[1] ^ low[1]) | (cold->high[0] ^ high[0]) |
		 (cold->high[1] ^ high[1]));
}

/* Whether a packet of this name goes in the reply direction of a flow. */
static __always_inline bool flow_direction(const struct flow_ref *ref, __u32 control)
{
	if (ref->query)
		return ref->query == 2;
	return (ref->from_high ^ control >> 5) & 1;
}

#endif
