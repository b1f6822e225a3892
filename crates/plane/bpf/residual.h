/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The tests of an entry that are run, each in a function that the verifier follows once. Twin of
 * engine::run::test. Answers: WEIR_FAILS also where the packet has no such field, negated or not.
 */
#ifndef WEIR_RESIDUAL_H
#define WEIR_RESIDUAL_H

#include "flow.h"
#include "classify.h"
#include "locals.h"
#include "maps.h"
#include "meta.h"
#include "history.h"

enum weir_answer {
	WEIR_FAILS = 0,
	WEIR_HOLDS = 1,
	WEIR_HOT_DROP = 2,
	WEIR_ABSENT = 3,
};

#define WEIR_TCP_OPTIONS_STEPS 40

/* The mask as a whole register: spilled as half a stack slot, the verifier would forget it. */
static __always_inline __u64 image_mask(void)
{
	__u64 mask = weir_image_mask;

	OPAQUE(mask);
	return mask;
}

/* A byte of the packet at an offset from its network header. The caller has checked `have`. */
static __always_inline __u8 packet_byte(const struct weir_seen *seen, __u32 at)
{
	return BYTES_AT(seen->bytes.base + at)->in6_u.u6_addr8[0];
}

/* Whether a value is in one of `count` sorted (first, last) pairs of the image. */
static __always_inline bool in_pairs(const __u8 *image, __u64 mask, __u32 at, __u32 count,
				     __u32 value)
{
	__u32 low = 0;

	for (int i = 0; i < 18; i++) {
		__u32 half = count >> 1, pair = at + (low + half) * 8;

		if (!count)
			break;
		if (value < IMAGE_U32(image, mask, pair)) {
			count = half;
		} else if (value > IMAGE_U32(image, mask, pair + 4)) {
			low += half + 1;
			count -= half + 1;
		} else {
			return true;
		}
	}
	return false;
}

static __always_inline bool in_mask(const __u8 *image, __u64 mask, __u32 at, const __u64 value[2])
{
	const __u64 *w = IMAGE_AT(__u64, image, mask, at);

	return (value[0] & w[2]) == w[0] && (value[1] & w[3]) == w[1];
}

#include "flow_fields.h"	/* reads the image with the functions above */

/* A TCP option (RFC 9293 section 3.2): whether it is there, and the two bytes of an MSS. */
__noinline int test_tcp_option(struct walk *w, __u32 wanted, __u32 start)
{
	__u32 at = start, length;

	if (!w || w->packet.transport != WEIR_TRANSPORT_TCP)
		return -1;
	length = w->packet.tcp_options;
	start = w->packet.transport_offset + 20;
	if (start + length > w->seen.bytes.have)
		length = start < w->seen.bytes.have ? w->seen.bytes.have - start : 0;
	for (int i = 0; i < WEIR_TCP_OPTIONS_STEPS; i++) {
		__u32 kind, size = 0, from, to;

		if (at >= length)
			return -1;
		kind = packet_byte(&w->seen, start + at);
		if (kind < 2) {
			if (kind == wanted)
				return 0;
			at++;
			continue;
		}
		if (at + 1 < length)
			size = packet_byte(&w->seen, start + at + 1);
		if (!size)
			size = 1;
		if (kind == wanted) {
			from = at + 2 < length ? at + 2 : length;
			to = at + size < length ? at + size : length;
			if (from + 2 != to)
				return 0;
			return 0x10000 | (__u32)packet_byte(&w->seen, start + from) << 8 |
			       packet_byte(&w->seen, start + from + 1);
		}
		at += size;
	}
	return -1;
}

static __always_inline int test_owner(const struct walk *w, const struct weir_residual *t)
{
	__u32 uid, gid;

	if (!meta_owner(&w->seen, &uid, &gid))
		return WEIR_FAILS;
	if (t->small == 2)
		uid = gid;
	return uid >= t->a && uid <= t->b;
}

static __always_inline int test_mac(const struct walk *w, const struct weir_residual *t)
{
	__u64 mac = meta_mac(&w->seen);

	if (mac == ~0ULL)
		return WEIR_ABSENT;
	return mac == ((__u64)t->small << 32 | t->a);
}

#define WEIR_FEATURE_ROUTE_BACK (1U << 26)	/* plane::load::ROUTE_BACK */

/*
 * The way back to the packet's source, as route.bpf.c has looked it up on the way in. A packet that
 * it has not met has none. `marked`: as packets with its mark are routed, which no rule may have
 * changed.
 */
__noinline int test_route_back(struct walk *w, __u32 bits, __u32 marked)
{
	const struct weir_packet *p;
	struct weir_way way = {};
	__u32 mark, *found;

	if (!w)
		return 0;
	p = &w->packet;
	if (weir_testing) {
		struct weir_control *c = weir_get_control();

		return c && c->test.handling & bits && !(marked && p->mark != c->test.mark);
	}
	mark = SKB_AT(w->seen.skb)->mark;
	if (!w->seen.in || (marked && p->mark != mark))
		return 0;
	way.src[0] = p->src[0];
	way.src[1] = p->src[1];
	way.dst[0] = p->dst[0];
	way.dst[1] = p->dst[1];
	way.ifindex = DEVICE_AT(w->seen.in)->ifindex;
	way.mark = marked ? mark : 0;
	way.family = p->family;
	found = bpf_map_lookup_elem(&ways_back, &way);
	return found && *found & bits;
}

#include "reached.h"

/* Tests of what is not in struct weir_packet. */
__noinline int test_rare(struct walk *w, __u32 test_at)
{
	const struct weir_residual *t;
	const struct weir_packet *p;
	const __u8 *image;
	__u64 mask = image_mask();
	__u32 mark;
	int option;

	if (!w)
		return WEIR_ABSENT;
	image = weir_image(w->slot & 1);
	if (!image)
		return WEIR_ABSENT;
	t = IMAGE_AT(struct weir_residual, image, mask, test_at);
	p = &w->packet;
	switch (t->kind) {
	case WEIR_TEST_CONNMARK:
		if (!flow_mark(&w->flow, &mark))
			return WEIR_ABSENT;
		return (mark & t->b) == t->a;
	case WEIR_TEST_MAC:
		return test_mac(w, t);
	case WEIR_TEST_OWNER:
		return test_owner(w, t);
	case WEIR_TEST_TCP_OPTION:
		if (p->transport != WEIR_TRANSPORT_TCP)
			return WEIR_ABSENT;
		return test_tcp_option(w, t->a, 0) >= 0;
	case WEIR_TEST_TCP_MSS:
		if (p->transport != WEIR_TRANSPORT_TCP)
			return WEIR_ABSENT;
		option = test_tcp_option(w, 2, 0);
		/* As in xt_tcpmss: without the option it is in no range, so "not" holds. */
		if (option < 0x10000)
			return 0;
		return in_pairs(image, mask, t->at, t->count, option & 0xffff);
	case WEIR_TEST_SRC_TYPE:
		return !!(weir_address_types(p->src[0], p->src[1], p->family) & t->a);
	case WEIR_TEST_DST_TYPE:
		return !!(weir_address_types(p->dst[0], p->dst[1], p->family) & t->a);
	case WEIR_TEST_STATE:
		return !!((p->state | (meta_handling(&w->seen) & WEIR_TRANSLATED)) & t->a);
	case WEIR_TEST_HANDLING:
		if (t->a == WEIR_SOURCE_REACHED)
			return source_reached(w);
		if (t->a & WEIR_WAY_BACK)
			return weir_may(WEIR_FEATURE_ROUTE_BACK) ?
				       test_route_back(w, t->a, t->b) :
				       WEIR_FAILS;
		return !!(meta_handling(&w->seen) & t->a);
	case WEIR_TEST_CT:
		return weir_may(WEIR_FEATURE_FLOW_FIELDS) ?
			       flow_field_test(w->slot, test_at, p, &w->flow, w->now_ms) :
			       WEIR_ABSENT;
	}
	return WEIR_ABSENT;
}

/* Tests of what is in struct weir_packet. */
__noinline int test_packet(struct walk *w, __u32 test_at)
{
	const struct weir_residual *t;
	const struct weir_packet *p;
	const __u8 *image;
	__u64 mask = image_mask();
	__u32 a, b;

	if (!w)
		return WEIR_ABSENT;
	image = weir_image(w->slot & 1);
	if (!image)
		return WEIR_ABSENT;
	t = IMAGE_AT(struct weir_residual, image, mask, test_at);
	p = &w->packet;
	a = t->a;
	b = t->b;
	switch (t->kind) {
	case WEIR_TEST_MARK:
		return (p->mark & b) == a;
	case WEIR_TEST_PROPOSED:
		return w->proposed && w->proposed_by == a;
	case WEIR_TEST_SRC_MASKED:
		return in_mask(image, mask, t->at, p->src);
	case WEIR_TEST_DST_MASKED:
		return in_mask(image, mask, t->at, p->dst);
	case WEIR_TEST_PACKET_TYPE:
		return p->packet_type == a;
	case WEIR_TEST_LENGTH:
		return in_pairs(image, mask, t->at, t->count, p->length);
	case WEIR_TEST_TTL:
		if (t->small == 0)
			return p->ttl == a;
		return t->small == 1 ? p->ttl < a : p->ttl > a;
	case WEIR_TEST_TOS:
		return (p->tos & b) == a;
	case WEIR_TEST_SPI:
		if (p->transport != WEIR_TRANSPORT_SPI)
			return WEIR_ABSENT;
		return in_pairs(image, mask, t->at, t->count, p->sequence);
	case WEIR_TEST_ROUTING:
		if (!p->has_routing)
			return WEIR_ABSENT;
		return (t->small > 255 || t->small == p->routing_type) &&
		       p->routing_left >= a && p->routing_left <= b;
	case WEIR_TEST_UNTIL:
		return w->now_ms < ((const struct weir_header *)image)->loaded_ms + (__u64)a * 1000;
	}
	return WEIR_ABSENT;
}

#include "aside.h"	/* answers as above */
#include "chunks.h"

/*
 * Any test. Which function it is in is decided here and not there: at most 8 frames may be open,
 * and those of histories are deep.
 */
static __always_inline int test_any(struct walk *w, const struct weir_residual *t, __u32 test_at)
{
	if (weir_may(WEIR_FEATURE_HISTORY) && t->kind == WEIR_TEST_HISTORY)
		return history_test(w->slot, t->at, &w->packet, &w->flow, w->now_ms);
	if (weir_may(WEIR_FEATURE_ASIDE) && t->kind == WEIR_TEST_ASIDE)
		return test_aside(w, t, test_at);
	if (weir_may(WEIR_FEATURE_CHUNKS) && t->kind == WEIR_TEST_SCTP)
		return test_chunks(w, t->at, t->small, t->count);
	switch (t->kind) {
	case WEIR_TEST_CONNMARK:
	case WEIR_TEST_MAC:
	case WEIR_TEST_OWNER:
	case WEIR_TEST_TCP_OPTION:
	case WEIR_TEST_TCP_MSS:
	case WEIR_TEST_SRC_TYPE:
	case WEIR_TEST_DST_TYPE:
	case WEIR_TEST_STATE:
	case WEIR_TEST_HANDLING:
	case WEIR_TEST_CT:
		return weir_may(WEIR_FEATURE_RARE) ? test_rare(w, test_at) : WEIR_ABSENT;
	}
	return test_packet(w, test_at);
}

#endif
