/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A packet as IPFilter sees it, beside struct weir_packet: attributes, IP options, IPv6 headers.
 * Twin of engine::packet::ipf. Sources: as there.
 */
#ifndef WEIR_LEARNED_VIEW_H
#define WEIR_LEARNED_VIEW_H

#include "learned_interface.h"
#include "meta.h"
#include "parse.h"

enum ipf_attribute {		/* policy's dialect::ipf::words::attribute */
	IPF_IPOPTS = 1 << 0,
	IPF_SHORT = 1 << 1,
	IPF_FRAG = 1 << 2,
	IPF_FRAG_BODY = 1 << 3,
	IPF_LOWTTL = 1 << 5,
	IPF_BAD = 1 << 6,
	IPF_BAD_SRC = 1 << 7,
	IPF_MBCAST = 1 << 10,
	IPF_BCAST = 1 << 11,
	IPF_MCAST = 1 << 12,
	IPF_V6HDRS = 1 << 14,
	IPF_AH = 1 << 15,
};
#define IPF_UNTRACKABLE (IPF_SHORT | IPF_FRAG_BODY | IPF_BAD)
#define IPF_MIN_TTL 4
#define IPF_OPTIONS_MAX 40
#define IPPROTO_IPV6_IN 41

struct ipf_view {
	__u32 attributes;	/* enum ipf_attribute */
	__u32 options;		/* bits of IPv4 options */
	__u32 interface;
	__u32 data;		/* bytes behind the headers of the network layer */
	__u16 headers;		/* bits of IPv6 headers */
	__u8 classes;		/* bits of security classes */
	__u8 out;
	__u32 id;		/* of fragments */
	__u32 wrong_sum;	/* bad for nothing else */
};

/* The bit of an IPv4 option: policy's dialect::ipf::words::IP_OPTIONS. */
static __always_inline __u32 ipf_option_bit(__u8 kind)
{
	switch (kind) {
	case 1: return 1 << 0;
	case 7: return 1 << 1;
	case 10: return 1 << 2;
	case 11: return 1 << 3;
	case 12: return 1 << 4;
	case 15: return 1 << 5;
	case 68: return 1 << 6;
	case 82: return 1 << 7;
	case 130: return 1 << 8;
	case 131: return 1 << 9;
	case 133: return 1 << 10;
	case 134: return 1 << 11;
	case 136: return 1 << 12;
	case 137: return 1 << 13;
	case 147: return 1 << 14;
	case 142: return 1 << 15;
	case 144: return 1 << 16;
	case 145: return 1 << 17;
	case 205: return 1 << 18;
	case 151: return 1 << 19;
	case 149: return 1 << 20;
	case 150: return 1 << 21;
	case 148: return 1 << 22;
	case 152: return 1 << 23;
	}
	return 0;
}
#define IPF_OPTION_SEC (1 << 8)
#define IPF_OPTION_CIPSO (1 << 11)

/* The bit of a security class (RFC 1108). */
static __always_inline __u8 ipf_class_bit(__u8 value)
{
	switch (value) {
	case 0x01: return 1 << 0;
	case 0x3d: return 1 << 1;
	case 0x5a: return 1 << 2;
	case 0x66: return 1 << 3;
	case 0x96: return 1 << 4;
	case 0xab: return 1 << 5;
	case 0xcc: return 1 << 6;
	case 0xf1: return 1 << 7;
	}
	return 0;
}

/* A CIPSO option of `size` bytes: whether it is well formed. */
static __always_inline int ipf_cipso(const struct weir_bytes *b, __u32 at, __u32 size)
{
	__u32 place = 6;

	if (!b || size < 6 || size > 40)
		return 0;
	for (int i = 0; i < 12; i++) {
		__u32 tag, length;

		if (place + 2 > size)
			return 1;
		tag = bytes_u8(b, at + place);
		length = bytes_u8(b, at + place + 1);
		if (place + length > size || length < 4 || length > 34)
			return 0;
		if (tag < 128 && !((tag == 1 || tag == 2 || tag == 5) && !bytes_u8(b, at + place + 2)))
			return 0;
		place += length;
	}
	return 1;
}

/* The options between the header and `end`. */
__noinline int ipf_options(const struct weir_bytes *b, struct ipf_view *v, __u32 start, __u32 end)
{
	__u32 at = start;

	if (!b || !v)
		return 0;
	v->attributes |= IPF_IPOPTS;
	for (int i = 0; i < IPF_OPTIONS_MAX; i++) {
		__u32 kind, size = 1, bit;

		if (at >= end)
			break;
		kind = bytes_u8(b, at);
		if (kind == 0)
			break;
		if (kind != 1) {
			if (at + 1 >= end)
				break;
			size = bytes_u8(b, at + 1);
			if (size < 2 || at + size > end)
				break;
		}
		bit = ipf_option_bit(kind);
		if (bit == IPF_OPTION_SEC) {
			if (v->options & bit)
				v->attributes |= IPF_BAD;
			else if (size > 2)
				v->classes |= ipf_class_bit(bytes_u8(b, at + 2));
		} else if (bit == IPF_OPTION_CIPSO) {
			if (v->options & bit || !ipf_cipso(b, at, size))
				v->attributes |= IPF_BAD;
		}
		v->options |= bit;
		at += size;
	}
	return 0;
}

/* The bit of an IPv6 header: policy's dialect::ipf::words::HEADERS. */
static __always_inline __u32 ipf_header_bit(__u8 proto)
{
	switch (proto) {
	case 0: return 1 << 0;
	case 41: return 1 << 1;
	case 43: return 1 << 2;
	case 44: return 1 << 3;
	case 50: return 1 << 4;
	case 51: return 1 << 5;
	case 59: return 1 << 6;
	case 60: return 1 << 7;
	case 135: return 1 << 8;
	}
	return 0;
}
#define IPF_HEADER_FRAG (1 << 3)

/*
 * A fragment header: what it is part of, and whether it can be true. `total`: of the packet. Gives
 * its offset.
 */
static __always_inline __u32 ipf_fragment_header(const struct weir_bytes *b, struct ipf_view *v,
						 __u32 at, __u32 end, __u32 total)
{
	__u32 place = bytes_u16(b, at + 2), offset = place & ~7;

	v->id = bytes_u16(b, at + 4) << 16 | bytes_u16(b, at + 6);
	if ((place & 1 && total & 7) || offset + (end - at - 8) > 65535)
		v->attributes |= IPF_BAD;
	return offset;
}

/*
 * IPv6 extension headers from `at`, the end of the network header, to `end`, that of the packet;
 * gives the protocol behind them.
 */
__noinline int ipf_extensions(const struct weir_bytes *b, struct ipf_view *v, __u32 proto, __u32 at,
			      __u32 end)
{
	__u32 fragment = 0, total = end - at + 40;

	if (!b || !v)
		return 0;
	for (int i = 0; i < WEIR_EXTENSIONS_MAX; i++) {
		__u32 length, size = 8, bit = ipf_header_bit(proto);

		if (!is_extension(WEIR_POLICY_READS_IPF, proto))
			return proto;
		v->attributes |= IPF_V6HDRS;
		if (proto == IPPROTO_AH)
			v->attributes |= IPF_AH;
		if (at + 8 > end) {
			v->attributes |= IPF_SHORT;
			/* A first fragment that ends before its transport header. */
			if (fragment || proto == IPPROTO_FRAGMENT)
				v->attributes |= IPF_BAD;
			return proto;
		}
		if (at + 8 > b->have)
			return proto;
		length = bytes_u8(b, at + 1);
		if (proto == IPPROTO_AH)
			size = (length + 2) * 4;
		else if (proto != IPPROTO_FRAGMENT)
			size = 8 + length * 8;
		if (at + size > end) {
			v->attributes |= IPF_BAD;
			return IPPROTO_NONE;
		}
		if (!fragment || proto == IPPROTO_FRAGMENT) {
			if (v->headers & bit)
				v->attributes |= IPF_BAD;
			v->headers |= bit;
		}
		if (proto == IPPROTO_ROUTING && is_odd_route(b, at)) {
			v->attributes |= IPF_BAD;
			return IPPROTO_NONE;
		}
		if (proto == IPPROTO_FRAGMENT) {
			fragment = 1;
			/* What is behind it in a later fragment is no header. */
			if (ipf_fragment_header(b, v, at, end, total))
				return bytes_u8(b, at);
		}
		proto = bytes_u8(b, at);
		at += size;
	}
	return proto;
}

/* An ICMP message of `data` bytes: bytes that its type needs; whether the error can be true. */
static __always_inline void ipf_icmp4(const struct weir_bytes *b, const struct weir_packet *p,
				      struct ipf_view *v, __u32 at, __u32 data)
{
	__u32 kind = bytes_u8(b, at), size = 28, quote = at + 8;

	if (kind == 0 || (kind >= 8 && kind <= 10))
		size = 8;
	else if (kind == 13 || kind == 14)
		size = 20;
	else if (kind >= 15 && kind <= 18)
		size = 12;
	if (data < size)
		v->attributes |= IPF_SHORT;
	if (!icmp_is_error(IPPROTO_ICMP, kind))
		return;
	if (quote + 20 <= b->have) {
		__u32 source = bytes_u16(b, quote + 12) << 16 | bytes_u16(b, quote + 14);

		if (bytes_u16(b, quote + 6) & 0x1fff || source != (__u32)p->dst[1])
			v->attributes |= IPF_BAD;
	}
	if (bytes_u16(b, at) == 0x0304 && bytes_u16(b, at + 6) < 68)
		v->attributes |= IPF_BAD;
}

static __always_inline void ipf_icmp6(const struct weir_bytes *b, const struct weir_packet *p,
				      struct ipf_view *v)
{
	__u32 kind = p->src_port >> 8, quote = p->transport_offset + 8;
	bool error = kind >= 1 && kind <= 4;

	if (v->data < (error ? 48 : 8))
		v->attributes |= IPF_SHORT;
	if (error && p->length >= 88 && quote + 40 <= b->have) {
		const struct in6_addr___local *from = BYTES_AT(b->base + quote + 8);
		__u64 high = (__u64)bpf_ntohl(from->in6_u.u6_addr32[0]) << 32 |
			     bpf_ntohl(from->in6_u.u6_addr32[1]);
		__u64 low = (__u64)bpf_ntohl(from->in6_u.u6_addr32[2]) << 32 |
			    bpf_ntohl(from->in6_u.u6_addr32[3]);

		if (high != p->dst[0] || low != p->dst[1])
			v->attributes |= IPF_BAD;
	}
}

/* Whether IPFilter knows how long a protocol's header is. */
static __always_inline bool ipf_has_header(__u8 proto)
{
	switch (proto) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
	case IPPROTO_ESP:
	case IPPROTO_AH:
	case IPPROTO_GRE:
		return true;
	}
	return false;
}

/*
 * What is behind an IPv4 authentication header: no rule sees it, but it may be short or bad. The
 * parser has dropped what ends before what is read here.
 */
static __always_inline void ipf_behind_ah(const struct weir_bytes *b, const struct weir_packet *p,
					  struct ipf_view *v)
{
	__u32 at = p->transport_offset, data = v->data, size;
	__u8 proto;

	if (data < WEIR_AH_MIN) {
		v->attributes |= IPF_SHORT;
		return;
	}
	proto = bytes_u8(b, at);
	size = (bytes_u8(b, at + 1) + 2) * 4;
	at += size;
	data -= size;
	if (proto == IPPROTO_UDP && data < 8)
		v->attributes |= IPF_SHORT;
	if (proto == IPPROTO_ICMP)
		ipf_icmp4(b, p, v, at, data);
	if (proto != IPPROTO_TCP)
		return;
	if (bytes_u8(b, at + 12) >> 4 < 5 ||
	    ipf_bad_flags(bytes_u8(b, at + 13), bytes_u16(b, at + 18)))
		v->attributes |= IPF_BAD;
}

static __always_inline void ipf_transport(const struct weir_bytes *b, const struct weir_packet *p,
					  struct ipf_view *v)
{
	__u32 at = p->transport_offset;
	bool later = p->fragment == WEIR_FRAGMENT_LATER;

	if (p->transport == WEIR_TRANSPORT_SHORT) {
		if (ipf_has_header(p->proto))
			v->attributes |= IPF_SHORT;
		return;
	}
	/* Shorter than it may be, or longer than the packet and with flags that can't be. */
	if (p->malformed) {
		v->attributes |= IPF_BAD;
		return;
	}
	switch (p->proto) {
	case IPPROTO_TCP:
		if (p->transport == WEIR_TRANSPORT_TCP && at + 20 <= b->have &&
		    ipf_bad_flags(p->tcp_flags, bytes_u16(b, at + 18)))
			v->attributes |= IPF_BAD;
		break;
	case IPPROTO_ICMP:
		if (p->transport == WEIR_TRANSPORT_ICMP)
			ipf_icmp4(b, p, v, at, v->data);
		break;
	case IPPROTO_ICMPV6:
		if (p->transport == WEIR_TRANSPORT_ICMP)
			ipf_icmp6(b, p, v);
		break;
	case IPPROTO_AH:
		v->attributes |= IPF_AH;
		if (p->family == 4 && !later)
			ipf_behind_ah(b, p, v);
		break;
	case IPPROTO_UDP:
		if (p->family == 4 && !later && v->data < 8)
			v->attributes |= IPF_SHORT;
		break;
	}
}

/* What a fragment of IPv4 is part of, and whether it can be true. */
static __always_inline void ipf_fragment(const struct weir_bytes *b, const struct weir_packet *p,
					 struct ipf_view *v, __u32 start)
{
	__u32 offset = p->fragment_offset * 8;
	bool more = bytes_u16(b, start + 6) & 0x2000;

	v->id = bytes_u16(b, start + 4);
	if (p->fragment != WEIR_FRAGMENT_LATER)
		return;
	if (p->proto == IPPROTO_TCP && offset < 20)
		v->attributes |= IPF_SHORT;
	if (p->proto == IPPROTO_AH && offset < 12)
		v->attributes |= IPF_SHORT;
	if (offset + v->data > 65535 || !v->data || (more && v->data & 7))
		v->attributes |= IPF_BAD;
}

/* Fill in the view. `start`: of the network header; `quoted`: inside an ICMP error. */
__noinline int ipf_see(const struct weir_seen *seen, const struct weir_packet *p,
		       struct ipf_view *v, __u32 start)
{
	const struct weir_bytes *b;
	__u32 end;

	if (!seen || !p || !v)
		return 0;
	b = &seen->bytes;
	v->out = p->hook != WEIR_HOOK_PREROUTING;
	v->interface = learned_interface(seen, v->out);
	end = start + p->length;
	v->data = end - p->transport_offset;
	if (p->fragment != WEIR_FRAGMENT_WHOLE)
		v->attributes |= IPF_FRAG;
	if (p->fragment == WEIR_FRAGMENT_LATER)
		v->attributes |= IPF_FRAG_BODY;
	if (p->family == 4) {
		if (v->attributes & IPF_FRAG)
			ipf_fragment(b, p, v, start);
		if ((__u32)p->dst[1] >> 28 == 0xe)
			v->attributes |= IPF_MCAST | IPF_MBCAST;
		if (p->transport_offset > start + 20 && p->transport_offset <= b->have)
			ipf_options(b, v, start + 20, p->transport_offset);
	} else {
		if (p->dst[0] >> 56 == 0xff)
			v->attributes |= IPF_MCAST | IPF_MBCAST;
		__u32 last = p->proto, next = bytes_u8(b, start + 6);

		if (is_extension(WEIR_POLICY_READS_IPF, next))
			last = ipf_extensions(b, v, next, start + 40, end);
		if (last == IPPROTO_IPV6_IN || last == IPPROTO_NONE || last == IPPROTO_ESP)
			v->headers |= ipf_header_bit(last);
	}
	if (start)
		return 0;
	if (!v->out) {
		if (p->ttl < IPF_MIN_TTL)
			v->attributes |= IPF_LOWTTL;
		if (p->packet_type == 1)
			v->attributes |= IPF_BCAST | IPF_MBCAST;
		if (p->packet_type == 2)
			v->attributes |= IPF_MCAST | IPF_MBCAST;
	}
	ipf_transport(b, p, v);
	if (seen->wrong_sum && !(v->attributes & (IPF_SHORT | IPF_BAD))) {
		v->attributes |= IPF_BAD;
		v->wrong_sum = 1;
	}
	return !(v->attributes & IPF_UNTRACKABLE);
}

#endif
