/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tests of fields of a packet's flow. Twin of engine::run::test's flow_field; the meaning is
 * weir-policy's eval::track::Tracker::field. Addresses are not translated here, so the reply
 * direction is the original one turned round.
 */
#ifndef WEIR_FLOW_FIELDS_H
#define WEIR_FLOW_FIELDS_H

#include "flow.h"
#include "image.h"

/* weir_residual.small of WEIR_TEST_CT (layout::CT_*). */
enum {
	WEIR_CT_PROTO = 1,
	WEIR_CT_ORIG_SRC = 2,
	WEIR_CT_ORIG_DST = 3,
	WEIR_CT_REPL_SRC = 4,
	WEIR_CT_REPL_DST = 5,
	WEIR_CT_ORIG_SRC_PORT = 6,
	WEIR_CT_ORIG_DST_PORT = 7,
	WEIR_CT_REPL_SRC_PORT = 8,
	WEIR_CT_REPL_DST_PORT = 9,
	WEIR_CT_STATUS = 10,
	WEIR_CT_EXPIRE = 11,
	WEIR_CT_DIRECTION = 12,
};

/* What a test asks about, worked out from the entry or, for a new flow, from its packet. */
struct flow_fields {
	__u64 originator[2];
	__u64 responder[2];
	__u32 status;		/* 2 SEEN_REPLY, 4 ASSURED, 8 CONFIRMED */
	__u32 seconds_left;
	__u16 originator_port;	/* ICMP query: the identifier */
	__u16 responder_port;	/* ICMP query: type and code of the request */
	__u16 meta;
	__u16 pad;
};

static __always_inline void flow_fields_of_entry(const struct flow_entry *e,
						 const struct flow_cold *cold, __u64 now_ms,
						 struct flow_fields *f)
{
	bool high = e->control & FLOW_ORIGINAL_HIGH;
	__u32 left = e->expires - (__u32)now_ms;

	if (e->meta & FLOW_META_V6) {
		f->originator[0] = high ? cold->high[0] : cold->low[0];
		f->originator[1] = high ? cold->high[1] : cold->low[1];
		f->responder[0] = high ? cold->low[0] : cold->high[0];
		f->responder[1] = high ? cold->low[1] : cold->high[1];
	} else {
		f->originator[1] = high ? e->pair >> 32 : e->pair & 0xffffffff;
		f->responder[1] = high ? e->pair & 0xffffffff : e->pair >> 32;
	}
	f->originator_port = high ? e->ports >> 16 : e->ports;
	f->responder_port = high ? e->ports : e->ports >> 16;
	f->meta = e->meta;
	f->status = 8 | (e->control & FLOW_SEEN_REPLY ? 2 : 0) | (e->control & FLOW_ASSURED ? 4 : 0);
	if (left - 1 < FLOW_TIMEOUT_MAX)
		f->seconds_left = left / 1000;
}

/* A flow that the packet begins. */
static __always_inline void flow_fields_of_new(const struct flow_ref *ref,
					       const struct weir_packet *p, struct flow_fields *f)
{
	f->originator[0] = p->src[0];
	f->originator[1] = p->src[1];
	f->responder[0] = p->dst[0];
	f->responder[1] = p->dst[1];
	f->originator_port = ref->from_high ? ref->ports >> 16 : ref->ports;
	f->responder_port = ref->from_high ? ref->ports : ref->ports >> 16;
	f->meta = ref->meta;
}

/* Whether an address is in one of `count` sorted (first, last) pairs of the image. */
static __always_inline bool flow_in_addresses(const __u8 *image, __u64 mask, __u32 at, __u32 count,
					      const __u64 *address)
{
	__u32 low = 0;

	for (int i = 0; i < 18; i++) {
		__u32 half = count >> 1;
		const __u64 *pair = IMAGE_AT(__u64, image, mask, at + (low + half) * 32);

		if (!count)
			break;
		if (flow_less_address(address, pair, 0)) {
			count = half;
		} else if (flow_less_address(pair + 2, address, 0)) {
			low += half + 1;
			count -= half + 1;
		} else {
			return true;
		}
	}
	return false;
}

/* The destination port of answers: of an ICMP query, the type that answers and the code. */
static __always_inline __u16 flow_answer_port(const struct flow_fields *f)
{
	__u8 proto = f->meta, kind = f->responder_port >> 8;

	if (proto != IPPROTO_ICMP && proto != IPPROTO_ICMPV6)
		return f->originator_port;
	kind = proto == IPPROTO_ICMP && kind == 8 ? 0 : kind + 1;
	return kind << 8 | (f->responder_port & 0xff);
}

static __always_inline bool flow_is_icmp(const struct flow_fields *f)
{
	return (f->meta & 0xff) == IPPROTO_ICMP || (f->meta & 0xff) == IPPROTO_ICMPV6;
}

/* The test at `test_at` of the image in that slot: an enum weir_answer. */
__noinline int flow_field_test(__u32 slot, __u32 test_at, const struct weir_packet *p,
			       const struct flow_ref *ref, __u64 now_ms)
{
	const struct weir_residual *t;
	struct flow_fields f = {};
	const __u8 *image = weir_image(slot & 1);
	__u64 mask = image_mask();
	const __u64 *address;
	__u32 port;

	if (!image || !p || !ref || ref->found == FLOW_FOUND_NONE)
		return WEIR_ABSENT;
	if (ref->found == FLOW_FOUND_KNOWN) {
		__u8 *table = weir_flows();
		const struct flow_entry *e = table ? flow_entry_at(table, ref->slot) : NULL;
		const struct flow_cold *cold = table ? flow_cold_at(table, ref->slot) : NULL;

		if (!e || !cold)
			return WEIR_ABSENT;
		flow_fields_of_entry(e, cold, now_ms, &f);
	} else {
		flow_fields_of_new(ref, p, &f);
	}
	t = IMAGE_AT(struct weir_residual, image, mask, test_at);
	switch (t->small) {
	case WEIR_CT_PROTO:
		return (f.meta & 0xff) >= t->a && (f.meta & 0xff) <= t->b;
	case WEIR_CT_STATUS:
		return !!(f.status & t->a);
	case WEIR_CT_EXPIRE:
		return f.seconds_left >= t->a && f.seconds_left <= t->b;
	case WEIR_CT_DIRECTION:
		return !ref->reply == !!t->a;
	case WEIR_CT_ORIG_SRC_PORT:
		port = f.originator_port;
		break;
	case WEIR_CT_ORIG_DST_PORT:
		port = f.responder_port;
		break;
	case WEIR_CT_REPL_SRC_PORT:
		port = flow_is_icmp(&f) ? f.originator_port : f.responder_port;
		break;
	case WEIR_CT_REPL_DST_PORT:
		port = flow_answer_port(&f);
		break;
	default:
		address = f.responder;
		if (t->small == WEIR_CT_ORIG_SRC || t->small == WEIR_CT_REPL_DST)
			address = f.originator;
		if (t->b)
			return in_mask(image, mask, t->at, address);
		return flow_in_addresses(image, mask, t->at, t->count, address);
	}
	return in_pairs(image, mask, t->at, t->count, port);
}

#endif
