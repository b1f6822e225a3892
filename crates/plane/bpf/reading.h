/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Transport headers as IPFilter and ipfw read them: which must be there, or the packet is dropped
 * before the rules. Twin of engine::packet::reading: same names, same order.
 */
#ifndef WEIR_READING_H
#define WEIR_READING_H

#include "abi.h"
#include "kernel.h"

/*
 * Readable bytes of a packet: `have` at address `base`, of `wire` that the packet has. `zero` is 0
 * read from a map: added to a constant it keeps the verifier from knowing the constant, and so
 * from following every later test of the field once for each value that it may have. `reading`: as
 * whose language they are read, WEIR_POLICY_READS_IPF or WEIR_POLICY_READS_IPFW; 0 is ip_tables.
 */
struct weir_bytes {
	__u64 base;
	__u32 have;
	__u32 wire;
	__u32 zero;
	__u32 reading;
};

#define WEIR_READINGS (WEIR_POLICY_READS_IPF | WEIR_POLICY_READS_IPFW)

#define WEIR_PROTO_CARP 112
#define WEIR_CARP_ADVERTISEMENT 0x21	/* of version 2 */
#define WEIR_AH_MIN 12			/* RFC 4302, without its check value */

/* What is left of a packet from some header on. */
struct weir_rest {
	__u32 at;
	__u32 data;	/* bytes by the network header */
	__u32 there;	/* bytes that can be read */
};

/* Combinations of TCP flags that no healthy host sends. */
static __always_inline bool ipf_bad_flags(__u32 flags, __u32 urgent)
{
	bool without_ack = !(flags & 16) && (!(flags & 6) || flags & 0x29);

	return (flags & 32 && !urgent) || (flags & 3 && (flags & 20) == 4) ||
	       (flags & 2 && flags & 0x28) || without_ack;
}

static __always_inline __u8 bytes_u8(const struct weir_bytes *b, __u32 at)
{
	return BYTES_AT(b->base + at)->in6_u.u6_addr8[0];
}

static __always_inline __u32 bytes_u16(const struct weir_bytes *b, __u32 at)
{
	return (__u32)bytes_u8(b, at) << 8 | bytes_u8(b, at + 1);
}

static __always_inline int reading_whole(const struct weir_rest *rest, __u32 needs)
{
	return rest->there >= needs ? (int)needs : -1;
}

/* Must be there, and is not looked at. */
static __always_inline int reading_unread(const struct weir_rest *rest, __u32 needs)
{
	return rest->there >= needs ? 0 : -1;
}

static __always_inline int reading_ipfw6(const struct weir_bytes *b, const struct weir_rest *rest,
					 __u8 proto)
{
	switch (proto) {
	case IPPROTO_ICMPV6:
		return reading_whole(rest, 8);
	case IPPROTO_NONE:
		return 0;
	case IPPROTO_PIM:
	case IPPROTO_GRE:
	case IPPROTO_ESP:
		return reading_unread(rest, 4);
	case WEIR_PROTO_CARP:
		if (rest->there < 36 || bytes_u8(b, rest->at) != WEIR_CARP_ADVERTISEMENT)
			return -1;
		return 0;
	case IPPROTO_IPV6:
		return reading_unread(rest, 40);
	case IPPROTO_IPIP:
		return reading_unread(rest, 20);
	}
	/* OSPF, and headers that it doesn't know but may be told to let pass. */
	return reading_unread(rest, 2);
}

static __always_inline int reading_ipfw(const struct weir_bytes *b, const struct weir_rest *rest,
					const struct weir_packet *p)
{
	switch (p->proto) {
	case IPPROTO_TCP:
		return reading_whole(rest, 20);
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
		return reading_whole(rest, 8);
	case IPPROTO_SCTP:
		return reading_whole(rest, 12);
	}
	if (p->family == 6)
		return reading_ipfw6(b, rest, p->proto);
	return p->proto == IPPROTO_ICMP ? reading_whole(rest, 4) : 0;
}

static __always_inline int reading_ipf(const struct weir_bytes *b, const struct weir_rest *rest,
				       __u8 family, __u8 proto)
{
	__u32 at = rest->at;

	switch (proto) {
	case IPPROTO_UDP:
		/* Fewer bytes than ports are no reason to drop it: it has none. */
		return rest->data < 4 ? 0 : reading_whole(rest, 8);
	case IPPROTO_TCP:
		if (rest->there < 20)
			return -1;
		/* Of flags that can't be, it is told that they are `bad`, and the rules are read. */
		if ((bytes_u8(b, at + 12) >> 4) * 4 > rest->there &&
		    !ipf_bad_flags(bytes_u8(b, at + 13), bytes_u16(b, at + 18)))
			return -1;
		return 20;
	case IPPROTO_ICMP:
		return family == 4 ? reading_whole(rest, 8) : 0;
	case IPPROTO_ICMPV6:
		return family == 6 ? reading_whole(rest, 8) : 0;
	case IPPROTO_GRE:
	case IPPROTO_ESP:
		return reading_unread(rest, 8);
	}
	return 0;
}

/*
 * An IPv4 authentication header is stepped over; rules see its own protocol, and nothing of what is
 * behind it, but that must be whole.
 */
static __always_inline int reading_ipf_behind_ah(const struct weir_bytes *b, struct weir_rest *rest)
{
	__u32 size;
	__u8 proto;

	if (rest->data < WEIR_AH_MIN)
		return 0;
	if (rest->there < WEIR_AH_MIN)
		return -1;
	proto = bytes_u8(b, rest->at);
	size = (bytes_u8(b, rest->at + 1) + 2) * 4;
	if (rest->there < size)
		return -1;
	rest->at += size;
	rest->data -= size;
	rest->there -= size;
	return reading_ipf(b, rest, 4, proto) < 0 ? -1 : 0;
}

/*
 * Bytes of the transport header that are read, 0 for none; -1: it is cut short. `end`: of the packet
 * by its network header. Verified on its own.
 */
__noinline int weir_reading_needs(const struct weir_bytes *b, const struct weir_packet *p,
				  __u32 end)
{
	struct weir_rest rest = {};
	__u32 readable;

	if (!b || !p)
		return -1;
	readable = end < b->have ? end : b->have;
	rest.at = p->transport_offset;
	rest.data = end > rest.at ? end - rest.at : 0;
	rest.there = readable > rest.at ? readable - rest.at : 0;
	if (b->reading & WEIR_POLICY_READS_IPFW)
		return reading_ipfw(b, &rest, p);
	if (p->family == 4 && p->proto == IPPROTO_AH)
		return reading_ipf_behind_ah(b, &rest);
	return reading_ipf(b, &rest, p->family, p->proto);
}

/* An extension header, and how IPFilter or ipfw judge it. */

#define IPPROTO_MOBILITY 135	/* RFC 6275 */

/* Bytes of an extension header that must be there. */
static __always_inline __u32 extension_needs(__u32 reading, __u8 header)
{
	if (reading & WEIR_POLICY_READS_IPF || header == IPPROTO_FRAGMENT)
		return 8;
	return header == IPPROTO_ROUTING ? 4 : 2;
}

static __always_inline bool is_extension(__u32 reading, __u8 next)
{
	if (next == IPPROTO_MOBILITY)
		return reading & WEIR_POLICY_READS_IPF;
	return next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_FRAGMENT ||
	       next == IPPROTO_AH || next == IPPROTO_DSTOPTS;
}

/* A routing header of type 0 that leads further than its addresses. */
static __always_inline bool is_odd_route(const struct weir_bytes *b, __u32 at)
{
	__u32 length = bytes_u8(b, at + 1), left = bytes_u8(b, at + 3);

	return !bytes_u8(b, at + 2) && (length / 2 < left || (left && length & 1));
}

/* A routing header of a type that ipfw doesn't know: it looks for those, whatever came before. */
static __always_inline bool unknown_route(const struct weir_bytes *b, __u32 reading, __u32 at)
{
	__u32 kind = bytes_u8(b, at + 2);

	return reading & WEIR_POLICY_READS_IPFW && kind != 0 && kind != 2;
}

#endif
