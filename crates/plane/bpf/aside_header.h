/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fields of headers that few rules ask for. They stand where parse.h has read before, so nothing is
 * copied for them. Twin of engine::packet::beside; see engine::image::aside.
 */
#ifndef WEIR_ASIDE_HEADER_H
#define WEIR_ASIDE_HEADER_H

#include "parse.h"

enum weir_tcp_number {
	WEIR_TCP_SEQUENCE = 1,
	WEIR_TCP_ACKNOWLEDGEMENT = 2,
	WEIR_TCP_WINDOW = 3,
	WEIR_TCP_DATA = 4,
};

enum weir_ip_option {
	WEIR_IP_STRICT_ROUTE = 1,
	WEIR_IP_LOOSE_ROUTE = 2,
	WEIR_IP_RECORD_ROUTE = 4,
	WEIR_IP_TIMESTAMP = 8,
	WEIR_IP_BROKEN = 0x80,	/* they can't be told apart */
};

enum weir_extension {
	WEIR_EXTENSION_FRAGMENT = 0x01,
	WEIR_EXTENSION_HOPOPTS = 0x02,
	WEIR_EXTENSION_ROUTING = 0x04,
	WEIR_EXTENSION_AH = 0x08,
	WEIR_EXTENSION_ESP = 0x10,
	WEIR_EXTENSION_DSTOPTS = 0x20,
	WEIR_EXTENSION_ROUTING_0 = 0x40,
	WEIR_EXTENSION_ROUTING_2 = 0x80,
};

#define WEIR_IP_OPTIONS_STEPS 40

/* Of a packet whose TCP header was read. */
static __always_inline __u32 tcp_number(const struct walk *w, __u32 number)
{
	const struct weir_packet *p = &w->packet;
	__u32 header;

	switch (number) {
	case WEIR_TCP_SEQUENCE:
		return p->sequence;
	case WEIR_TCP_ACKNOWLEDGEMENT:
		return p->acknowledgement;
	case WEIR_TCP_WINDOW:
		return p->window;
	}
	header = packet_byte(&w->seen, p->transport_offset + 12) >> 4;
	return (p->length - p->transport_offset - header * 4) & 0xffff;
}

__noinline int test_tcp_number(struct walk *w, __u32 test_at)
{
	const struct weir_residual *t;
	const __u8 *image;
	__u64 mask = image_mask();

	if (!w || w->packet.transport != WEIR_TRANSPORT_TCP)
		return WEIR_ABSENT;
	image = weir_image(w->slot & 1);
	if (!image)
		return WEIR_ABSENT;
	t = IMAGE_AT(struct weir_residual, image, mask, test_at);
	return in_pairs(image, mask, t->at, t->count, tcp_number(w, t->a));
}

static __always_inline __u32 ip_option_bit(__u32 kind)
{
	switch (kind) {
	case 137:
		return WEIR_IP_STRICT_ROUTE;
	case 131:
		return WEIR_IP_LOOSE_ROUTE;
	case 7:
		return WEIR_IP_RECORD_ROUTE;
	case 68:
		return WEIR_IP_TIMESTAMP;
	}
	return 0;
}

/* IPv4 options (RFC 791 section 3.1). */
__noinline int test_ip_options(struct walk *w, __u32 value, __u32 mask)
{
	__u32 at = 20, bits, end;

	if (!w)
		return WEIR_FAILS;
	bits = w->seen.bytes.zero;
	/* IPv6 packets have none of them. */
	end = w->packet.family == 4 ? w->packet.transport_offset : 0;
	if (end > w->seen.bytes.have)
		bits = WEIR_IP_BROKEN;
	for (int i = 0; i < WEIR_IP_OPTIONS_STEPS; i++) {
		__u32 kind, size = 1;

		if (at >= end || bits & WEIR_IP_BROKEN)
			break;
		kind = packet_byte(&w->seen, at);
		if (!kind)
			break;
		if (kind > 1)
			size = at + 1 < end ? packet_byte(&w->seen, at + 1) : 0;
		if (!size || size > end - at)
			bits = WEIR_IP_BROKEN;
		else
			bits |= ip_option_bit(kind);
		at += size;
	}
	return (bits & mask) == value;
}

/* What one extension header is, and how long. */
static __always_inline __u32 extension_bits(__u32 next, __u32 kind)
{
	switch (next) {
	case IPPROTO_FRAGMENT:
		return WEIR_EXTENSION_FRAGMENT;
	case IPPROTO_HOPOPTS:
		return WEIR_EXTENSION_HOPOPTS;
	case IPPROTO_AH:
		return WEIR_EXTENSION_AH;
	case IPPROTO_ROUTING:
		if (kind == 0)
			return WEIR_EXTENSION_ROUTING | WEIR_EXTENSION_ROUTING_0;
		if (kind == 2)
			return WEIR_EXTENSION_ROUTING | WEIR_EXTENSION_ROUTING_2;
		return WEIR_EXTENSION_ROUTING;
	}
	return WEIR_EXTENSION_DSTOPTS;
}

/* IPv6 extension headers, of a packet whose upper layer was reached (RFC 8200 section 4). */
__noinline int test_extensions(struct walk *w, __u32 wanted)
{
	__u32 at = 40, next, found = 0;

	if (!w || w->packet.family != 6 || w->packet.transport == WEIR_TRANSPORT_SHORT)
		return WEIR_FAILS;
	next = packet_byte(&w->seen, 6);
	for (int i = 0; i < WEIR_EXTENSIONS_MAX; i++) {
		__u32 size;

		/* A routing header was reached, so it has its type. */
		if (at >= w->packet.transport_offset || at + 2 > w->seen.bytes.have)
			break;
		found |= extension_bits(next, packet_byte(&w->seen, at + 2)) & wanted;
		size = packet_byte(&w->seen, at + 1);
		if (next == IPPROTO_AH)
			size = (size + 2) * 4;
		else
			size = next == IPPROTO_FRAGMENT ? 8 : (size + 1) * 8;
		next = packet_byte(&w->seen, at);
		at += size;
	}
	/* Of a later fragment nothing behind the fragment header is looked at. */
	if (w->packet.proto == IPPROTO_ESP && w->packet.fragment != WEIR_FRAGMENT_LATER)
		found |= WEIR_EXTENSION_ESP & wanted;
	return found ? WEIR_HOLDS : WEIR_FAILS;
}

enum weir_header_bit {
	WEIR_HEADER_HOPOPTS = 1,
	WEIR_HEADER_DSTOPTS = 2,
	WEIR_HEADER_ROUTING = 4,
	WEIR_HEADER_FRAGMENT = 8,
	WEIR_HEADER_AH = 16,
	WEIR_HEADER_ESP = 32,
	WEIR_HEADER_NOTHING = 64,
	WEIR_HEADER_UPPER = 128,
};
#define WEIR_HEADERS_MAX 256

struct headers_walk {
	__u64 base;
	__u32 at;		/* of the next header */
	__u32 next;		/* and what it is */
	__u32 length;
	__u32 readable;
	__u32 found;
	__u32 lost;		/* they can't be followed */
};

static __always_inline __u32 header_bit(__u32 next)
{
	switch (next) {
	case IPPROTO_HOPOPTS:
		return WEIR_HEADER_HOPOPTS;
	case IPPROTO_DSTOPTS:
		return WEIR_HEADER_DSTOPTS;
	case IPPROTO_ROUTING:
		return WEIR_HEADER_ROUTING;
	case IPPROTO_FRAGMENT:
		return WEIR_HEADER_FRAGMENT;
	case IPPROTO_AH:
		return WEIR_HEADER_AH;
	case IPPROTO_ESP:
		return WEIR_HEADER_ESP;
	case IPPROTO_NONE:
		return WEIR_HEADER_NOTHING;
	}
	return WEIR_HEADER_UPPER;
}

static long header_next(__u32 number, struct headers_walk *h)
{
	const struct in6_addr___local *head;
	__u32 bit = header_bit(h->next), size;

	if (bit == WEIR_HEADER_NOTHING)
		h->found |= bit;
	if (bit >= WEIR_HEADER_NOTHING)
		return 1;
	if (h->at + 2 > h->readable) {
		h->lost = 1;
		return 1;
	}
	h->found |= bit;
	if (bit == WEIR_HEADER_ESP)
		return 1;
	head = BYTES_AT(h->base + h->at);
	size = head->in6_u.u6_addr8[1];
	if (h->next == IPPROTO_AH)
		size = (size + 2) * 4;
	else
		size = h->next == IPPROTO_FRAGMENT ? 8 : (size + 1) * 8;
	h->next = head->in6_u.u6_addr8[0];
	h->at += size;
	return h->at > h->length;
}

/* What an IPv6 packet consists of; a fragment's payload is followed as if it were whole. */
__noinline int test_headers(struct walk *w, __u32 value, __u32 mask)
{
	struct headers_walk h = { .at = 40 };

	if (!w || w->packet.family != 6)
		return WEIR_ABSENT;
	h.base = w->seen.bytes.base;
	h.length = w->packet.length;
	h.readable = h.length < w->seen.bytes.have ? h.length : w->seen.bytes.have;
	h.next = packet_byte(&w->seen, 6);
	bpf_loop(WEIR_HEADERS_MAX, header_next, &h, 0);
	if (h.lost)
		return WEIR_ABSENT;
	if (h.next != IPPROTO_ESP && h.next != IPPROTO_NONE)
		h.found |= WEIR_HEADER_UPPER;
	return (h.found & mask) == value;
}

#endif
