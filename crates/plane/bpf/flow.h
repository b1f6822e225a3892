/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The flow table: connection state of packets, in flat memory of fixed size. Twin of engine::flow
 * and engine::flow::table, which say what happens when a line is full.
 *
 * flow_lookup before the rules sets p->state; flow_confirm after the packet was accepted by the
 * last hook makes the flow that it begins. For an ICMP error, flow_lookup answers INVALID: parse
 * the packet inside and call flow_related. A packet must be looked up once; where a second hook
 * sees it again (loopback, PREROUTING before INPUT), flow_peek asks without changing anything.
 *
 * Readers take no lock. A slot is written under the lock of its line by insertion and sweeping
 * only; while it is rewritten its control word is 0, so that nobody takes it for a flow. A lock
 * that can't be had soon (its holder may be what this program interrupted) means no insertion.
 */
#ifndef WEIR_FLOW_H
#define WEIR_FLOW_H

#include "maps.h"
#include "hash.h"
#include "flow_abi.h"
#include "flow_table.h"
#include "flow_tcp.h"

#define FLOW_NO_SLOT 0xffffffffU
#define FLOW_UDP_STREAM_AFTER 2000
#define FLOW_TIMEOUT_MAX (1U << 29)
#define FLOW_LOCK_TRIES 64
#define FLOW_EQUAL_TAGS 3		/* of the eight slots of a word */
#define FLOW_SWEEP 2
#define FLOW_PEEK_AFTER 1000		/* ms for which flow_peek still finds a flow that ended */

static __always_inline void flow_count(struct weir_control *c, enum flow_statistic which)
{
	__sync_fetch_and_add(&c->flow_statistics[which], 1);
}

static __always_inline bool flow_lives(const struct flow_entry *e, __u32 now)
{
	return e->control & FLOW_USED && e->expires - now - 1 < FLOW_TIMEOUT_MAX;
}

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

/* The name of a packet's flow, in ref; false when it can't be told. `zero`: see flow_forget. */
static __always_inline bool flow_name(const struct weir_packet *p, struct flow_ref *ref,
				      __u32 zero)
{
	__u64 src_port = p->src_port, dst_port = p->dst_port, from_high, mask, src, dst, query = 0;

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
	src_port ^= zero;
	dst_port ^= zero;
	query ^= zero;
	src = (__u32)p->src[1];
	dst = (__u32)p->dst[1];
	ref->meta = p->proto;
	if (p->family == 6)
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
	if (p->family == 6) {
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
	return true;
}

/* Bytes of `word` that equal `tag`, as their highest bits. */
static __always_inline __u64 flow_matching(__u64 word, __u8 tag)
{
	__u64 low = 0x7f7f7f7f7f7f7f7fULL, x = word ^ tag * 0x0101010101010101ULL;

	return ~(((x & low) + low) | x | low);
}

/* Number of the lowest byte that is marked; `hits` is not 0. */
static __always_inline __u32 flow_lowest(__u64 hits)
{
	__u64 lowest = (hits & -hits) >> 7;

	return lowest * 0x0001020304050607ULL >> 56 & 7;
}

struct flow_place {
	__u32 first;	/* first of the line's eight tag words */
	__u32 home;	/* the one at which to begin */
	__u32 within;	/* slot of it at which to begin */
	__u8 tag;
};

static __always_inline void flow_place_of(__u64 pair, __u32 ports, __u16 meta,
					  struct flow_place *place)
{
	__u64 hash = hash_words(pair, ports | (__u64)meta << 32);
	__u64 line = (hash & 0xffffffff) * flow_lines() >> 32;
	__u8 tag = hash >> 32;

	place->first = line * 8;
	place->home = hash >> 40 & 7;
	place->within = hash >> 43 & 7;
	place->tag = tag ? tag : 1;
}

static __always_inline volatile __u64 *flow_tags(__u8 *table, __u64 word)
{
	FLOW_ONE_COPY(word);
	if (word >= flow_lines() * 8)
		return NULL;
	return (volatile __u64 *)(table + word * 8);
}

/* Whether a slot has this name; one branch, because this is the inner loop. */
static __always_inline bool flow_named(const struct flow_entry *e, const struct flow_ref *ref)
{
	__u64 wrong = e->pair ^ ref->pair;

	wrong |= e->ports ^ ref->ports;
	wrong |= e->meta ^ ref->meta;
	wrong |= ~e->control & FLOW_USED;
	return !wrong;
}

/*
 * The slot of a name, living or not, or FLOW_NO_SLOT. Unrolled, because the verifier seldom sees
 * that two ways through a loop have met again. A word never has more equal tags than are looked
 * at: see flow_free_slot.
 */
static __always_inline __u32 flow_find(__u8 *table, const struct flow_ref *ref,
				       const struct flow_place *place)
{
#pragma clang loop unroll(full)
	for (__u32 step = 0; step < 8; step++) {
		__u32 word = place->first + (place->home ^ step);
		volatile __u64 *tags = flow_tags(table, word);
		__u64 hits;

		if (!tags)
			return FLOW_NO_SLOT;
		hits = flow_matching(*tags, place->tag);
#pragma clang loop unroll(full)
		for (int i = 0; i < FLOW_EQUAL_TAGS; i++) {
			__u32 slot = word * 8 + flow_lowest(hits);
			struct flow_entry *e;

			if (!hits)
				break;
			e = flow_entry_at(table, slot);
			if (e && flow_named(e, ref))
				return slot;
			hits &= hits - 1;
		}
	}
	return FLOW_NO_SLOT;
}

/*
 * The same, when it is in one of the two words nearest to where it begins. Most flows are in the
 * very slot where they begin or in the one beside it, which needs no tags: one miss less.
 */
static __always_inline __u32 flow_find_near(__u8 *table, const struct flow_ref *ref,
					    const struct flow_place *place)
{
	__u32 begin = (place->first + place->home) * 8 + place->within;
	struct flow_entry *guess = flow_entry_at(table, begin);

	if (guess && flow_named(guess, ref))
		return begin;
	guess = flow_entry_at(table, begin ^ 1);
	if (guess && flow_named(guess, ref))
		return begin ^ 1;
#pragma clang loop unroll(full)
	for (__u32 step = 0; step < 2; step++) {
		__u32 word = place->first + (place->home ^ step);
		volatile __u64 *tags = flow_tags(table, word);
		__u64 hits;

		if (!tags)
			return FLOW_NO_SLOT;
		hits = flow_matching(*tags, place->tag);
#pragma clang loop unroll(full)
		for (int i = 0; i < 2; i++) {
			__u32 slot = word * 8 + flow_lowest(hits);
			struct flow_entry *e;

			if (!hits)
				break;
			e = flow_entry_at(table, slot);
			if (e && flow_named(e, ref))
				return slot;
			hits &= hits - 1;
		}
	}
	return FLOW_NO_SLOT;
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

/* The timeout of flows that are not TCP, or not yet UDP streams. */
static __always_inline __u32 flow_protocol_timeout(__u8 proto)
{
	if (proto == IPPROTO_UDP || proto == IPPROTO_UDPLITE)
		return FLOW_TIMEOUT_UDP;
	if (proto == IPPROTO_ICMP)
		return FLOW_TIMEOUT_ICMP;
	return proto == IPPROTO_ICMPV6 ? FLOW_TIMEOUT_ICMP6 : FLOW_TIMEOUT_GENERIC;
}

/* What a packet does to its flow: a timeout below 16, or FLOW_OUTCOME_*. */
static __always_inline __u32 flow_touch(struct flow_work *w, const struct weir_packet *p, __u32 now,
					bool tcp)
{
	__u32 timeout;

	if (tcp)
		return flow_tcp_segment(w, p, now);
	timeout = flow_protocol_timeout(p->proto) ^ w->zero;
	if (timeout == FLOW_TIMEOUT_UDP && w->control & FLOW_SEEN_REPLY &&
	    (__s32)(now - w->e->side[0].end) > 0) {
		w->control |= FLOW_ASSURED;
		return FLOW_TIMEOUT_UDP_STREAM;
	}
	return timeout;
}

static __always_inline bool flow_tcp_possible(const struct weir_packet *p)
{
	return p->transport == WEIR_TRANSPORT_TCP && !p->malformed &&
	       FLOW_FLAGS_POSSIBLE >> (p->tcp_flags & 0x37) & 1;
}

/* A packet of a flow that lives: its state, or 0 when it begins a new flow in its place. */
static __always_inline __u8 flow_known(__u8 *table, const struct weir_packet *p,
				       struct flow_ref *ref, struct flow_entry *e, __u32 now,
				       __u32 zero, bool tcp)
{
	struct flow_work w = {
		.e = e,
		.slot = ref->slot,
		.control = e->control,
		.recent = e->recent,
		.me = (flow_direction(ref, e->control) ^ zero) & 1,
		.zero = zero,
	};
	struct flow_cold *cold;
	struct weir_control *c;
	__u32 outcome, answered;

	outcome = flow_touch(&w, p, now, tcp);
	flow_forget(&w);
	c = weir_get_control();
	if (!c)
		return WEIR_STATE_INVALID;
	answered = w.control & FLOW_SEEN_REPLY;
	if (w.me && outcome != FLOW_OUTCOME_INVALID && outcome != FLOW_OUTCOME_SHRINK &&
	    outcome != FLOW_OUTCOME_REOPEN)
		w.control |= FLOW_SEEN_REPLY;
	/* Unchanged words are not written: the line stays shared between CPUs. */
	if (e->recent != w.recent)
		e->recent = w.recent;
	if (e->control != w.control)
		e->control = w.control;
	if (outcome < 16) {
		e->expires = now + c->settings[outcome & 15];
	} else if (outcome != FLOW_OUTCOME_IGNORE) {
		if (outcome == FLOW_OUTCOME_REOPEN) {
			e->expires = now;
			return 0;
		}
		if (outcome != FLOW_OUTCOME_GONE) {
			if (outcome == FLOW_OUTCOME_SHRINK)
				e->expires = now + c->settings[FLOW_TIMEOUT_TCP_UNACKNOWLEDGED];
			ref->slot = FLOW_NO_SLOT;
			return WEIR_STATE_INVALID;
		}
		e->expires = now;
	}
	cold = flow_cold_at(table, ref->slot);
	if (c->settings[FLOW_SETTING_ACCOUNTING] && cold)
		__sync_fetch_and_add(&cold->packets[w.me & 1], 1);
	ref->found = FLOW_FOUND_KNOWN;
	ref->reply = w.me;
	return answered || w.me ? WEIR_STATE_ESTABLISHED : WEIR_STATE_NEW;
}

/*
 * A segment of a flow that lives, for which flow_fits has no answer. Verified on its own. Returns
 * as flow_known.
 */
__noinline int flow_slow(struct weir_packet *p, struct flow_ref *ref, __u64 now_ms)
{
	struct weir_control *c = weir_get_control();
	__u8 *table = weir_flows();
	struct flow_entry *e;

	if (!p || !ref || !c || !table)
		return WEIR_STATE_INVALID;
	e = flow_entry_at(table, ref->slot);
	if (!e)
		return WEIR_STATE_INVALID;
	return flow_known(table, p, ref, e, now_ms, c->zero, true);
}

/*
 * Most segments: an acknowledgement, with data or without, of a connection that is established in
 * both directions, and that fits. The same as flow_slow for these, as arithmetic. False: ask
 * flow_slow. Changes nothing but `fit`; flow_note_fit does, once it is known that the packet's way
 * ends here.
 */
struct flow_fit {
	__u32 me;
	__u32 sack;
};

static __always_inline bool flow_fits(const struct weir_packet *p, const struct flow_ref *ref,
				      const struct flow_entry *e, __u32 zero, struct flow_fit *fit)
{
	__u32 control = e->control, me, wanted, looked_at, mask, age, sack, fits;
	__u32 sequence = p->sequence, end = sequence + p->payload, ack = p->acknowledgement;
	__u32 sender_window, receiver_window, receiver_end;
	const struct flow_side *sender, *receiver;

	me = (flow_direction(ref, control) ^ zero) & 1;
	looked_at = FLOW_STATE | FLOW_SEEN_REPLY | FLOW_ASSURED |
		    (FLOW_LIBERAL | FLOW_MAX_ACK_SET) << (8 * me);
	wanted = TCP_STATE_ESTABLISHED | FLOW_SEEN_REPLY | FLOW_ASSURED |
		 FLOW_MAX_ACK_SET << (8 * me);
	if ((p->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST | TCP_ACK)) != TCP_ACK ||
	    (control & looked_at) != wanted)
		return false;
	sender = &e->side[me];
	receiver = &e->side[1 - me];
	sender_window = sender->max_window;
	receiver_window = receiver->max_window;
	if (!sender_window || !receiver_window)
		return false;
	receiver_end = receiver->end;
	mask = flow_mask_of(control >> (8 * (1 - me) + 10) & 1);
	sack = ack + ((p->sack - ack) & mask);
	/* The larger of the sender's window and the least age. */
	mask = flow_mask_of(flow_less(sender_window, FLOW_ACK_AGE_MIN));
	age = sender_window ^ ((sender_window ^ FLOW_ACK_AGE_MIN) & mask);
	/* Four conditions, each true when the difference is negative. */
	fits = (sequence - sender->max_end - 1) & (sack - receiver_end - 1) &
	       (sender->end - receiver_window - 1 - end) & (receiver_end - age - 1 - sack);
	fit->me = me;
	fit->sack = sack;
	return (__s32)fits < 0;
}

/* What a segment that fits does to its flow. */
static __always_inline void flow_note_fit(const struct weir_packet *p, struct flow_entry *e,
					  const struct flow_fit *fit, const __u32 *timeouts,
					  __u32 now)
{
	__u32 me = fit->me, sack = fit->sack, recent = e->recent, ack = p->acknowledgement;
	__u32 sequence = p->sequence, end = sequence + p->payload;
	struct flow_side *sender = &e->side[me & 1], *receiver = &e->side[(1 - me) & 1];
	__u32 sender_end = sender->end, sender_max_end = sender->max_end;
	__u32 window, wide, allowed, print, count, mask, value, limit, age;
	__u64 same;

	window = (__u32)p->window << (e->scales >> (4 * me) & 15);
	wide = window + (sack - ack);
	if (sender->max_window < wide)
		sender->max_window = wide;
	/* New data: the end moves on, and there is something to acknowledge. */
	same = (sender_end - end) >> 31;
	mask = flow_mask_of(same);
	sender->end = sender_end ^ ((sender_end ^ end) & mask);
	recent |= mask & FLOW_RECENT_UNACKNOWLEDGED << me;
	mask = flow_mask_of((sender->max_ack - ack) >> 31);
	sender->max_ack ^= (sender->max_ack ^ ack) & mask;
	if (seq_after(end, sender_max_end))
		receiver->max_window += end - sender_max_end;
	allowed = sack + window;
	if (seq_after(allowed, receiver->max_end - 1))
		receiver->max_end = allowed + (window == 0);
	/* Everything is acknowledged. */
	same = flow_is_zero(ack ^ receiver->end);
	recent &= ~(flow_mask_of(same) & FLOW_RECENT_UNACKNOWLEDGED << (1 - me));

	print = flow_print(sequence, ack, end, p->window, me);
	mask = FLOW_RECENT_REPEAT | ~0U << FLOW_RECENT_FINGERPRINT_SHIFT;
	same = flow_is_zero((recent & mask) ^ print);
	count = (recent >> 4 & 3) + 1;
	count = (count - (count >> 2)) & flow_mask_of(same);
	recent &= FLOW_RECENT_UNACKNOWLEDGED | FLOW_RECENT_UNACKNOWLEDGED << 1;
	recent |= print | count << 4 | TCP_KIND_ACK | me << 3;
	if (!p->window)
		recent |= FLOW_RECENT_WINDOW_ZERO;
	e->last_end = end;
	e->recent = recent;

	/* The timeout: see flow_tcp_timeout, from the last choice to the first. */
	value = timeouts[FLOW_TIMEOUT_TCP_ESTABLISHED];
	limit = timeouts[FLOW_TIMEOUT_TCP_RETRANSMISSION];
	same = flow_less(limit, value);
	mask = flow_mask_of(recent >> 8 & same);
	age = value ^ ((value ^ limit) & mask);
	mask = flow_mask_of((recent >> 6 | recent >> 7) &
			    flow_less(timeouts[FLOW_TIMEOUT_TCP_UNACKNOWLEDGED], value) & 1);
	age ^= (age ^ timeouts[FLOW_TIMEOUT_TCP_UNACKNOWLEDGED]) & mask;
	mask = flow_mask_of(recent >> 4 & recent >> 5 & same & 1);
	age ^= (age ^ limit) & mask;
	e->expires = now + age;
}

/* Looks at a packet before the rules. Sets p->state and returns it. */
static __always_inline __u8 flow_lookup(struct weir_packet *p, __u64 now_ms, struct flow_ref *ref)
{
	struct weir_control *c = weir_get_control();
	__u8 *table = weir_flows();
	__u32 now = now_ms, kind;
	struct flow_place place;
	struct flow_entry *e;
	struct flow_fit fit;
	__u8 state;

	ref->found = FLOW_FOUND_NONE;
	ref->reply = 0;
	ref->mark = 0;
	ref->slot = FLOW_NO_SLOT;
	p->state = WEIR_STATE_INVALID;
	if (!c || !table)
		return p->state;
	if (p->proto == IPPROTO_ICMPV6 && p->transport == WEIR_TRANSPORT_ICMP) {
		__u8 type = p->src_port >> 8;

		if ((type >= 130 && type <= 136) || type == 143) {
			p->state = WEIR_STATE_UNTRACKED;
			return p->state;
		}
	}
	if (!flow_name(p, ref, c->zero) || (p->proto == IPPROTO_TCP && !flow_tcp_possible(p)))
		return p->state;
	flow_place_of(ref->pair, ref->ports, ref->meta, &place);
	ref->slot = flow_find(table, ref, &place);
	e = flow_entry_at(table, ref->slot);
	if (e && flow_lives(e, now)) {
		struct flow_cold *cold = flow_cold_at(table, ref->slot);

		if (ref->meta & FLOW_META_V6 && (!cold || !flow_between(cold, ref, p))) {
			ref->slot = FLOW_NO_SLOT;
			return p->state;
		}
		if (p->proto == IPPROTO_TCP && flow_fits(p, ref, e, c->zero, &fit)) {
			flow_note_fit(p, e, &fit, c->settings, now);
			ref->reply = fit.me;
			if (c->settings[FLOW_SETTING_ACCOUNTING] && cold)
				__sync_fetch_and_add(&cold->packets[ref->reply & 1], 1);
			ref->found = FLOW_FOUND_KNOWN;
			p->state = WEIR_STATE_ESTABLISHED;
			return p->state;
		}
		if (p->proto == IPPROTO_TCP)
			state = flow_slow(p, ref, now_ms);
		else
			state = flow_known(table, p, ref, e, now, c->zero, false);
		state ^= c->zero;
		if (state) {
			p->state = state;
			return state;
		}
	}
	ref->slot = FLOW_NO_SLOT;
	kind = flow_tcp_kind(p->tcp_flags);
	if ((p->proto == IPPROTO_TCP && kind != TCP_KIND_SYN && kind != TCP_KIND_ACK) ||
	    ref->query == 2)
		return p->state;
	ref->found = FLOW_FOUND_NEW;
	p->state = WEIR_STATE_NEW;
	return p->state;
}

/*
 * The same for an ICMP error: `about` is the packet that it speaks of. Sets p->state to RELATED or
 * INVALID. Verified on its own.
 */
__noinline int flow_related(struct weir_packet *p, const struct weir_packet *about, __u64 now_ms,
			    struct flow_ref *ref)
{
	struct weir_control *c = weir_get_control();
	__u8 *table = weir_flows();
	struct flow_place place;
	struct flow_cold *cold;
	struct flow_entry *e;

	if (!p || !about || !ref)
		return 0;
	ref->found = FLOW_FOUND_NONE;
	/* What this host says about a packet that it could not deliver is RELATED without a flow. */
	p->state = p->hook == WEIR_HOOK_OUTPUT ? WEIR_STATE_RELATED : WEIR_STATE_INVALID;
	if (!table || !c || p->family != about->family || p->dst[0] != about->src[0] ||
	    p->dst[1] != about->src[1] || !flow_name(about, ref, c->zero))
		return 0;
	flow_place_of(ref->pair, ref->ports, ref->meta, &place);
	ref->slot = flow_find(table, ref, &place);
	e = flow_entry_at(table, ref->slot);
	cold = flow_cold_at(table, ref->slot);
	if (!e || !cold || !flow_lives(e, now_ms) || !flow_between(cold, ref, about))
		return 0;
	ref->found = FLOW_FOUND_KNOWN;
	ref->reply = !flow_direction(ref, e->control);
	p->state = WEIR_STATE_RELATED;
	return 0;
}

/*
 * The state of a packet that was looked up at an earlier hook, without changing its flow. INVALID
 * for what has no flow; a flow that the packet itself ended a moment ago still counts.
 */
__noinline int flow_peek(struct weir_packet *p, __u64 now_ms, struct flow_ref *ref, bool began)
{
	struct weir_control *c = weir_get_control();
	__u8 *table = weir_flows();
	struct flow_place place;
	struct flow_cold *cold;
	struct flow_entry *e;
	__u32 over;
	bool reply;

	if (!p || !ref)
		return 0;
	ref->found = FLOW_FOUND_NONE;
	p->state = WEIR_STATE_INVALID;
	if (!table || !c || !flow_name(p, ref, c->zero))
		return 0;
	flow_place_of(ref->pair, ref->ports, ref->meta, &place);
	ref->slot = flow_find(table, ref, &place);
	e = flow_entry_at(table, ref->slot);
	cold = flow_cold_at(table, ref->slot);
	/* What began a flow at the hook before does not belong to one that ended in its place. */
	over = began ? 0 : FLOW_PEEK_AFTER;
	if (!e || !cold || !flow_lives(e, (__u32)now_ms - over) || !flow_between(cold, ref, p))
		return 0;
	reply = flow_direction(ref, e->control);
	ref->found = FLOW_FOUND_KNOWN;
	ref->reply = reply;
	p->state = reply || e->control & FLOW_SEEN_REPLY ? WEIR_STATE_ESTABLISHED : WEIR_STATE_NEW;
	return 0;
}

static __always_inline volatile __u32 *flow_lock_at(__u8 *table, __u64 line)
{
	FLOW_ONE_COPY(line);
	if (line >= flow_lines())
		return NULL;
	return (volatile __u32 *)(table + flow_slots() + line * 4);
}

static __always_inline bool flow_lock(volatile __u32 *lock, int tries)
{
	for (int i = 0; i < FLOW_LOCK_TRIES && i < tries; i++) {
		if (!*lock && !__sync_val_compare_and_swap((__u32 *)lock, 0, 1))
			return true;
	}
	return false;
}

static __always_inline void flow_unlock(volatile __u32 *lock)
{
	barrier();
	*lock = 0;
}

/* Under the lock of the slot's line. */
static __always_inline void flow_set_tag(__u8 *table, __u32 slot, __u64 tag)
{
	volatile __u64 *tags = flow_tags(table, slot / 8);
	__u32 shift = (slot & 7) * 8;

	if (tags)
		*tags = (*tags & ~(0xffULL << shift)) | tag << shift;
}

/* Whether a word has as many slots with this tag as are looked at. */
static __always_inline bool flow_crowded(__u64 tags, __u8 tag)
{
	__u64 hits = flow_matching(tags, tag);

	hits &= hits - 1;
	hits &= hits - 1;
	return hits != 0;
}

/*
 * A slot that is free: where the name begins, or beside it (there flow_find_near looks without
 * reading tags), or any in the nearest word that has one.
 */
static __always_inline __u32 flow_free_slot(__u8 *table, const struct flow_place *place)
{
	__u32 home = place->first + place->home;
	volatile __u64 *begin = flow_tags(table, home);

	if (!begin)
		return FLOW_NO_SLOT;
	if (!flow_crowded(*begin, place->tag)) {
		__u64 tags = *begin;
		__u32 within = place->within;

		if (!(tags >> within * 8 & 0xff))
			return home * 8 + within;
		within ^= 1;
		if (!(tags >> within * 8 & 0xff))
			return home * 8 + within;
	}
	for (__u32 step = 0; step < 8; step++) {
		__u32 word = place->first + (place->home ^ step);
		volatile __u64 *tags = flow_tags(table, word);
		__u64 free;

		if (!tags)
			break;
		free = flow_matching(*tags, 0);
		if (free && !flow_crowded(*tags, place->tag))
			return word * 8 + flow_lowest(free);
	}
	return FLOW_NO_SLOT;
}

/* A slot whose flow may be pushed out. */
static __always_inline __u32 flow_victim(__u8 *table, struct weir_control *c,
					 const struct flow_place *place, __u32 now)
{
	__u32 best = FLOW_NO_SLOT ^ c->zero, least = ~0U ^ c->zero, better;

	for (__u32 step = 0; step < 16; step++) {
		__u32 word = place->first + (place->home ^ step >> 3);
		__u32 slot = word * 8 + (step & 7), left;
		struct flow_entry *e = flow_entry_at(table, slot);
		volatile __u64 *tags = flow_tags(table, word);

		if (!e || !tags)
			break;
		if (flow_crowded(*tags, place->tag))
			continue;
		if (!flow_lives(e, now)) {
			flow_count(c, FLOW_EXPIRED);
			return slot;
		}
		left = e->expires - now;
		/* Unanswered, with less time left; without branches, see flow_mask_of. */
		better = flow_mask_of(flow_less(left, least) & ~(e->control >> 6) & 1);
		best ^= (best ^ slot) & better;
		least ^= (least ^ left) & better;
	}
	if (best != FLOW_NO_SLOT)
		flow_count(c, FLOW_EVICTED);
	return best;
}

/* Frees a slot whose flow is over; see sweep.h. */
static __always_inline void flow_sweep_slot(__u8 *table, struct weir_control *c, __u32 slot,
					    __u32 now)
{
	struct flow_entry *e = flow_entry_at(table, slot);
	volatile __u32 *lock = flow_lock_at(table, slot / FLOW_LINE_SLOTS);

	if (!e || !lock || !(e->control & FLOW_USED) || flow_lives(e, now))
		return;
	if (!flow_lock(lock, 1))
		return;
	if (e->control & FLOW_USED && !flow_lives(e, now)) {
		e->control = 0;
		flow_set_tag(table, slot, 0);
		flow_count(c, FLOW_EXPIRED);
	}
	flow_unlock(lock);
}

/* The same for the next so many slots. */
static __always_inline void flow_sweep(__u8 *table, struct weir_control *c, __u32 now)
{
	__u64 cursor = __sync_fetch_and_add(&c->flow_statistics[FLOW_CURSOR], FLOW_SWEEP);

	for (int i = 0; i < FLOW_SWEEP; i++)
		flow_sweep_slot(table, c, (cursor + i) % flow_slots(), now);
}

/* Writes a new flow, under the lock of its line. */
static __always_inline void flow_fill(__u8 *table, struct weir_control *c, __u32 slot,
				      const struct weir_packet *p, const struct flow_ref *ref,
				      __u32 now)
{
	struct flow_entry *e = flow_entry_at(table, slot);
	struct flow_cold *cold = flow_cold_at(table, slot);
	struct flow_work w = { .e = e, .slot = slot };
	__u32 timeout = flow_protocol_timeout(p->proto);

	if (!e || !cold)
		return;
	*(volatile __u32 *)&e->control = 0;
	barrier();
	e->pair = ref->pair;
	e->ports = ref->ports;
	e->meta = ref->meta;
	e->scales = 0;
	e->last_end = 0;
	__builtin_memset(e->side, 0, sizeof(e->side));
	__builtin_memset(cold, 0, sizeof(*cold));
	cold->mark = ref->mark;
	cold->packets[0] = c->settings[FLOW_SETTING_ACCOUNTING] ? 1 : 0;
	if (ref->meta & FLOW_META_V6) {
		cold->low[0] = ref->from_high ? p->dst[0] : p->src[0];
		cold->low[1] = ref->from_high ? p->dst[1] : p->src[1];
		cold->high[0] = ref->from_high ? p->src[0] : p->dst[0];
		cold->high[1] = ref->from_high ? p->src[1] : p->dst[1];
	}
	w.control = FLOW_USED | (ref->from_high ? FLOW_ORIGINAL_HIGH : 0);
	if (p->proto == IPPROTO_TCP)
		timeout = flow_tcp_open(&w, p, c->settings);
	e->expires = now + c->settings[timeout & 15];
	e->recent = w.recent;
	if (p->proto == IPPROTO_UDP || p->proto == IPPROTO_UDPLITE)
		e->side[0].end = now + FLOW_UDP_STREAM_AFTER;
	barrier();
	*(volatile __u32 *)&e->control = w.control;
}

/* The slot of a flow that may be pushed out by the one of this name; verified on its own. */
__noinline int flow_push_out(const struct flow_ref *ref, __u64 now_ms)
{
	struct weir_control *c = weir_get_control();
	__u8 *table = weir_flows();
	struct flow_place place;

	if (!ref || !c || !table)
		return FLOW_NO_SLOT;
	flow_place_of(ref->pair, ref->ports, ref->meta, &place);
	return flow_victim(table, c, &place, now_ms);
}

/* Makes the flow that a packet begins; verified on its own. */
__noinline int flow_insert(struct weir_packet *p, struct flow_ref *ref, __u64 now_ms)
{
	struct weir_control *c = weir_get_control();
	__u8 *table = weir_flows();
	__u32 now = now_ms, slot, old;
	struct flow_place place;
	volatile __u32 *lock;
	struct flow_entry *e;

	if (!p || !ref || !c || !table)
		return 0;
	flow_place_of(ref->pair, ref->ports, ref->meta, &place);
	lock = flow_lock_at(table, place.first / 8);
	if (!lock)
		return 0;
	if (!flow_lock(lock, FLOW_LOCK_TRIES)) {
		flow_count(c, FLOW_BUSY);
		return 0;
	}
	old = flow_find(table, ref, &place) ^ c->zero;
	e = flow_entry_at(table, old);
	if (e && flow_lives(e, now)) {
		flow_unlock(lock);
		flow_count(c, FLOW_EXISTS);
		return 0;
	}
	slot = old;
	if (e) {
		flow_count(c, FLOW_EXPIRED);
	} else {
		slot = flow_free_slot(table, &place);
		if (slot == FLOW_NO_SLOT)
			slot = flow_push_out(ref, now_ms);
	}
	slot ^= c->zero;
	if (slot == FLOW_NO_SLOT) {
		flow_unlock(lock);
		flow_count(c, FLOW_FULL);
		weir_reason(WEIR_REASON_FLOW_FULL);
		return 0;
	}
	flow_fill(table, c, slot, p, ref, now);
	flow_set_tag(table, slot, place.tag);
	flow_unlock(lock);
	flow_count(c, FLOW_INSERTED);
	flow_sweep(table, c, now);
	return 0;
}

/* The packet was accepted: a flow that it begins exists from now on. */
static __always_inline void flow_confirm(struct weir_packet *p, struct flow_ref *ref, __u64 now_ms)
{
	if (ref->found == FLOW_FOUND_NEW)
		flow_insert(p, ref, now_ms);
}

/* The flow's mark; false without a flow. */
static __always_inline bool flow_mark(const struct flow_ref *ref, __u32 *mark)
{
	__u8 *table = weir_flows();
	struct flow_cold *cold;

	if (ref->found == FLOW_FOUND_NEW) {
		*mark = ref->mark;
		return true;
	}
	if (ref->found != FLOW_FOUND_KNOWN || !table)
		return false;
	cold = flow_cold_at(table, ref->slot);
	if (!cold)
		return false;
	*mark = cold->mark;
	return true;
}

/* Sets the flow's mark; nothing without a flow. */
static __always_inline void flow_set_mark(struct flow_ref *ref, __u32 mark)
{
	__u8 *table = weir_flows();
	struct flow_cold *cold;

	if (ref->found == FLOW_FOUND_NEW) {
		ref->mark = mark;
		return;
	}
	if (ref->found != FLOW_FOUND_KNOWN || !table)
		return;
	cold = flow_cold_at(table, ref->slot);
	if (cold)
		cold->mark = mark;
}

#endif
