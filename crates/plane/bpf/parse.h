/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Bytes of a packet, from the network header on, to struct weir_packet. Twin of
 * engine::packet::{parse, network, transport}: same names, same order, same limits.
 *
 * Headers are read where they are (bpf_rdonly_cast: no copy, no helper) up to `have` bytes; when
 * the driver left the headers outside the linear part, weir_parse copies them to the stack first.
 * Sources: RFC 791, 8200, 9293, 768, 792, 4443, 4302, 4303, 9260.
 */
#ifndef WEIR_PARSE_H
#define WEIR_PARSE_H

#include "abi.h"
#include "kernel.h"
#include "options.h"
#include "reading.h"

#define WEIR_EXTENSIONS_MAX 8	/* IPv6 extension headers looked at */
/*
 * Bytes of the longest IPv6 packet that is no jumbogram (RFC 2675). What says no length and is
 * longer is a segment that isn't cut up yet.
 */
#define WEIR_LENGTH_MAX (40 + 0xffff)

#define IPV4_AT(a) ((const struct iphdr___local *)bpf_rdonly_cast( \
	(const void *)(a), bpf_core_type_id_kernel(struct iphdr___local)))
#define IPV6_AT(a) ((const struct ipv6hdr___local *)bpf_rdonly_cast( \
	(const void *)(a), bpf_core_type_id_kernel(struct ipv6hdr___local)))

/* Whether an ICMP or ICMPv6 type carries the packet that it is about. */
static __always_inline bool icmp_is_error(__u8 proto, __u8 kind)
{
	if (proto == IPPROTO_ICMPV6)
		return kind < 128;
	return kind == 3 || kind == 4 || kind == 5 || kind == 11 || kind == 12;
}

static __always_inline bool icmp_is_query(__u8 proto, __u8 kind)
{
	if (proto == IPPROTO_ICMPV6)
		return kind == 128 || kind == 129;
	return kind == 0 || kind == 8 || (kind >= 13 && kind <= 18);
}

/* Bytes of transport header that must be there for its fields to count as read. */
static __always_inline __u32 transport_needs(__u8 proto, bool inner)
{
	switch (proto) {
	case IPPROTO_TCP:
		return inner ? 8 : 20;
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
	case IPPROTO_ESP:
		return 8;
	case IPPROTO_SCTP:
		return inner ? 8 : 12;
	case IPPROTO_DCCP:
	case IPPROTO_AH:
		return inner ? 8 : 12;
	}
	return 0;
}

/* What options at an address say about a packet. `length`: at most WEIR_TCP_OPTIONS_MAX. */
static __always_inline void take_tcp_options(__u64 base, __u32 length, struct weir_packet *p)
{
	__u64 said = weir_tcp_options(base, length, p->acknowledgement);

	p->sack = said;
	p->tcp_scale = said >> WEIR_OPTION_SCALE;
	p->tcp_sack_permitted = said >> WEIR_OPTION_PERMITTED & 1;
}

/* The only option that most segments have: two NOPs, kind 8, length 10. */
#define WEIR_TIMESTAMP bpf_htonl(0x0101080a)

/* What tracking asks of the options. */
static __always_inline void parse_tcp_options(const struct weir_bytes *b, __u32 at,
					      struct weir_packet *p)
{
	p->sack = p->acknowledgement;
	if (!p->tcp_options || at + p->tcp_options > b->have)
		return;
	if (p->tcp_options == 12 &&
	    BYTES_AT(b->base + at)->in6_u.u6_addr32[0] == WEIR_TIMESTAMP)
		return;
	take_tcp_options(b->base + at, p->tcp_options, p);
}

static __always_inline void parse_tcp(const struct weir_bytes *b,
				      const struct in6_addr___local *h, __u32 available,
				      struct weir_packet *p)
{
	__u32 header = (h->in6_u.u6_addr8[12] >> 4) * 4;

	p->acknowledgement = bpf_ntohl(h->in6_u.u6_addr32[2]);
	p->tcp_flags = h->in6_u.u6_addr8[13];
	p->window = bpf_ntohs(h->in6_u.u6_addr16[7]);
	if (header < 20 || header > available) {
		p->malformed = 1 + b->zero;
		/* IPFilter looks no further than to the length. */
		if (header < 20 && b->reading & WEIR_POLICY_READS_IPF)
			p->tcp_flags = 0;
		return;
	}
	p->tcp_options = header - 20;
	p->payload = available - header;
	parse_tcp_options(b, p->transport_offset + 20, p);
}

/* The transport header at p->transport_offset. `end`: of the packet by its network header. */
static __always_inline void parse_transport(const struct weir_bytes *b, __u32 end, bool inner,
					    struct weir_packet *p)
{
	__u32 readable = end < b->have ? end : b->have;
	const struct in6_addr___local *h;
	__u32 at = p->transport_offset;
	__u32 word;
	int needs;

	p->transport = WEIR_TRANSPORT_NONE + b->zero;
	if (p->fragment == WEIR_FRAGMENT_LATER) {
		/*
		 * RFC 3128; ip6_tables counts offsets in bytes, so there this never happens.
		 * IPFilter has rules for it (`with short`).
		 */
		if (p->proto == IPPROTO_TCP && p->fragment_offset == 1 && p->family == 4 &&
		    !(b->reading & WEIR_POLICY_READS_IPF))
			p->transport = WEIR_TRANSPORT_SHORT + b->zero;
		return;
	}
	needs = !inner && b->reading ? weir_reading_needs(b, p, end) :
				       (int)transport_needs(p->proto, inner);
	if (!needs)
		return;
	if (needs < 0 || at + needs > readable) {
		p->transport = WEIR_TRANSPORT_SHORT + b->zero;
		return;
	}
	h = BYTES_AT(b->base + at);
	word = bpf_ntohl(h->in6_u.u6_addr32[0]);
	switch (p->proto) {
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		p->transport = WEIR_TRANSPORT_ICMP + b->zero;
		p->src_port = word >> 16;
		/* ipfw doesn't need the identifier to be there. */
		if (icmp_is_query(p->proto, word >> 24) && at + 8 <= readable)
			p->dst_port = bpf_ntohs(h->in6_u.u6_addr16[2]);
		return;
	case IPPROTO_AH:
	case IPPROTO_ESP:
		p->transport = WEIR_TRANSPORT_SPI + b->zero;
		p->sequence = p->proto == IPPROTO_AH ? bpf_ntohl(h->in6_u.u6_addr32[1]) : word;
		return;
	}
	p->src_port = word >> 16;
	p->dst_port = word;
	if (p->proto == IPPROTO_TCP) {
		p->transport = WEIR_TRANSPORT_TCP + b->zero;
		p->sequence = bpf_ntohl(h->in6_u.u6_addr32[1]);
		if (!inner)
			parse_tcp(b, h, end - at, p);
	} else if (p->proto == IPPROTO_SCTP) {
		p->transport = WEIR_TRANSPORT_SCTP + b->zero;
	} else {
		p->transport = WEIR_TRANSPORT_UDP + b->zero;
	}
}

/* 0, or -1 when there is no valid IPv4 header. */
static __always_inline int parse_ipv4(const struct weir_bytes *b, __u32 start, bool inner,
				      struct weir_packet *p)
{
	const struct iphdr___local *h;
	__u32 header, total, fragment;

	if (start + 20 > b->have)
		return -1;
	h = IPV4_AT(b->base + start);
	header = *(const __u8 *)h;
	if (header >> 4 != 4)
		return -1;
	header = (header & 15) * 4;
	total = bpf_ntohs(h->tot_len);
	if (!total)		/* a segment above 64 KiB that is not cut up yet */
		total = b->wire - start;
	if (header < 20 || total < header)
		return -1;
	p->family = 4 + b->zero;
	p->length = total;
	p->tos = h->tos;
	p->ttl = h->ttl;
	p->proto = h->protocol;
	p->src[1] = bpf_ntohl(h->saddr);
	p->dst[1] = bpf_ntohl(h->daddr);
	p->transport_offset = start + header;
	fragment = bpf_ntohs(h->frag_off);
	p->fragment_offset = fragment & 0x1fff;
	p->fragment = WEIR_FRAGMENT_WHOLE + b->zero;
	if (p->fragment_offset)
		p->fragment = WEIR_FRAGMENT_LATER + b->zero;
	else if (fragment & 0x2000)
		p->fragment = WEIR_FRAGMENT_FIRST + b->zero;
	parse_transport(b, start + total, inner, p);
	return 0;
}

/*
 * Walk the extension headers. Returns 1 when the upper-layer protocol was reached; if not, the
 * chain is cut short or too long, and p->proto is where it stopped. For IPFilter there is nothing
 * behind a header that is cut short or can't be. A function of its own because few packets need it.
 * `reading`: as in struct weir_bytes.
 */
__noinline int weir_parse_extensions(const struct weir_bytes *b, struct weir_packet *p, __u32 end,
				     __u32 reading)
{
	bool ipf = reading & WEIR_POLICY_READS_IPF;
	__u32 readable, at;

	if (!b || !p)
		return 0;
	readable = end < b->have ? end : b->have;
	at = p->transport_offset;

	for (int i = 0; i < WEIR_EXTENSIONS_MAX; i++) {
		const struct in6_addr___local *h;
		__u8 next = p->proto;
		__u32 size;

		p->transport_offset = at;
		if (!is_extension(reading, next))
			return 1;
		if (at + extension_needs(reading, next) > readable) {
			if (!ipf || at + 8 <= end)
				return 0;
			p->proto = IPPROTO_NONE;
			if (next == IPPROTO_FRAGMENT)
				p->fragment = WEIR_FRAGMENT_FIRST + b->zero;
			return 1;
		}
		h = BYTES_AT(b->base + at);
		size = (h->in6_u.u6_addr8[1] + 1) * 8;
		p->proto = h->in6_u.u6_addr8[0];
		if (next == IPPROTO_AH) {
			size = (h->in6_u.u6_addr8[1] + 2) * 4;
		} else if (next == IPPROTO_ROUTING &&
			   (!p->has_routing || unknown_route(b, reading, at))) {
			p->has_routing = 1 + b->zero;
			p->routing_type = h->in6_u.u6_addr8[2];
			p->routing_left = h->in6_u.u6_addr8[3];
		} else if (next == IPPROTO_FRAGMENT) {
			__u32 word = bpf_ntohs(h->in6_u.u6_addr16[1]);

			size = 8;
			p->fragment_offset = word >> 3;
			if (p->fragment_offset) {
				p->fragment = WEIR_FRAGMENT_LATER + b->zero;
				p->transport_offset = at + 8;
				return 1;
			}
			/* IPFilter's `frag` is a header of this kind, also of a whole packet. */
			if (word & 1 || ipf)
				p->fragment = WEIR_FRAGMENT_FIRST + b->zero;
		}
		if (ipf && (at + size > end || (next == IPPROTO_ROUTING && is_odd_route(b, at)))) {
			p->proto = IPPROTO_NONE;
			return 1;
		}
		at += size;
	}
	p->transport_offset = at;
	return 0;
}

/* 0, or -1 when there is no valid IPv6 header. */
static __always_inline int parse_ipv6(const struct weir_bytes *b, __u32 start, bool inner,
				      struct weir_packet *p)
{
	__u32 reading = inner ? 0 : b->reading;
	const struct ipv6hdr___local *h;
	__u32 total;
	__u16 first;

	if (start + 40 > b->have)
		return -1;
	h = IPV6_AT(b->base + start);
	first = (*(const __u8 *)h) << 8 | ((const __u8 *)h)[1];
	if (first >> 12 != 6)
		return -1;
	total = bpf_ntohs(h->payload_len);
	total = total ? total + 40 : b->wire - start;	/* 0: a jumbogram, or not cut up yet */
	p->family = 6 + b->zero;
	p->length = total;
	p->tos = first >> 4;
	p->ttl = h->hop_limit;
	p->proto = h->nexthdr;
	p->src[0] = bpf_be64_to_cpu(*(const __u64 *)&h->saddr.in6_u.u6_addr32[0]);
	p->src[1] = bpf_be64_to_cpu(*(const __u64 *)&h->saddr.in6_u.u6_addr32[2]);
	p->dst[0] = bpf_be64_to_cpu(*(const __u64 *)&h->daddr.in6_u.u6_addr32[0]);
	p->dst[1] = bpf_be64_to_cpu(*(const __u64 *)&h->daddr.in6_u.u6_addr32[2]);
	p->fragment = WEIR_FRAGMENT_WHOLE + b->zero;
	p->transport_offset = start + 40;
	/* What says no length is a jumbogram for IPFilter, of which it handles none. */
	if ((reading & WEIR_POLICY_READS_IPF && !h->payload_len && total <= WEIR_LENGTH_MAX) ||
	    (is_extension(reading, p->proto) &&
	     !weir_parse_extensions(b, p, start + total, reading))) {
		p->transport = WEIR_TRANSPORT_SHORT + b->zero;
		return 0;
	}
	parse_transport(b, start + total, inner, p);
	return 0;
}

/* Parse once more, from copied headers. A function of its own because few packets need it. */
__noinline int weir_parse_again(const struct weir_bytes *b, struct weir_packet *p, __u32 version)
{
	if (!b || !p)
		return -1;
	__builtin_memset(p, 0, sizeof(*p));
	return version == 4 ? parse_ipv4(b, 0, false, p) : parse_ipv6(b, 0, false, p);
}

/*
 * The packet that an ICMP error speaks of, in `inner`; offsets count from the start of the outer
 * packet. Of its transport header only the first 8 bytes are looked at. -1: none to be read.
 */
__noinline int weir_parse_embedded(const struct weir_bytes *b, const struct weir_packet *outer,
				   struct weir_packet *inner)
{
	__u32 start;

	if (!b || !outer || !inner)
		return -1;
	__builtin_memset(inner, 0, sizeof(*inner));
	start = outer->transport_offset + 8;
	if (outer->transport != WEIR_TRANSPORT_ICMP ||
	    !icmp_is_error(outer->proto, outer->src_port >> 8))
		return -1;
	inner->hook = outer->hook;
	if (outer->proto == IPPROTO_ICMPV6)
		return parse_ipv6(b, start, true, inner);
	return parse_ipv4(b, start, true, inner);
}

#endif
