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
 * The short way (lane.h) asks flow_meet, which changes a copy of the flow's entry, and puts the
 * copy in force by flow_keep once it knows that the packet's way ends there.
 */
#ifndef WEIR_FLOW_H
#define WEIR_FLOW_H

#include "maps.h"
#include "flow_abi.h"
#include "flow_find.h"
#include "flow_fit.h"
#include "flow_insert.h"
#include "flow_table.h"
#include "flow_tcp.h"

#define FLOW_PEEK_AFTER 1000		/* ms for which flow_peek still finds a flow that ended */

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

/*
 * A packet of a flow that lives, in a copy of its entry: its state, or 0 when it begins a new flow
 * in its place.
 */
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
	e->recent = w.recent;
	e->control = w.control;
	if (outcome < 16) {
		e->expires = now + c->settings[WITHIN(outcome, 15)];
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

/* A segment of a flow that lives. Verified on its own. Returns as flow_known. */
__noinline int flow_segment(struct weir_packet *p, struct flow_ref *ref, struct flow_entry *e,
			    __u64 now_ms)
{
	struct weir_control *c = weir_get_control();
	__u8 *table = weir_flows();

	if (!p || !ref || !e || !c || !table)
		return WEIR_STATE_INVALID;
	return flow_known(table, p, ref, e, now_ms, c->zero, true);
}

/* Any other packet of one. Apart from flow_meet for the stack of that. */
__noinline int flow_datagram(struct weir_packet *p, struct flow_ref *ref, struct flow_entry *e,
			     __u64 now_ms)
{
	struct weir_control *c = weir_get_control();
	__u8 *table = weir_flows();

	if (!p || !ref || !e || !c || !table)
		return WEIR_STATE_INVALID;
	return flow_known(table, p, ref, e, now_ms, c->zero, false);
}

/*
 * The state of a packet whose name is in `ref`, and whose flow is in ref->slot or must be looked
 * for. What the packet does to the flow is done in `copy`, for flow_keep. Verified on its own.
 */
__noinline int flow_meet(struct weir_packet *p, struct flow_ref *ref, struct flow_entry *copy,
			 __u64 now_ms)
{
	struct weir_control *c = weir_get_control();
	__u8 *table = weir_flows();
	struct flow_entry *e;
	__u32 kind, state;

	if (!p || !ref || !copy || !c || !table)
		return WEIR_STATE_INVALID;
	if (p->proto == IPPROTO_TCP && !flow_tcp_possible(p))
		return WEIR_STATE_INVALID;
	if (ref->slot == FLOW_NO_SLOT && !ref->sought)
		ref->slot = flow_seek(ref);
	e = flow_entry_at(table, ref->slot);
	if (e && flow_lives(e, now_ms)) {
		struct flow_cold *cold = flow_cold_at(table, ref->slot);

		if (ref->meta & FLOW_META_V6 && (!cold || !flow_between(cold, ref, p))) {
			ref->slot = FLOW_NO_SLOT;
			return WEIR_STATE_INVALID;
		}
		ref->changed = ref->slot;
		*copy = *e;
		if (p->proto == IPPROTO_TCP)
			state = flow_segment(p, ref, copy, now_ms);
		else
			state = flow_datagram(p, ref, copy, now_ms);
		state ^= c->zero;
		if (state)
			return state;
	}
	ref->slot = FLOW_NO_SLOT;
	kind = flow_tcp_kind(p->tcp_flags);
	if ((p->proto == IPPROTO_TCP && kind != TCP_KIND_SYN && kind != TCP_KIND_ACK) ||
	    ref->query == 2)
		return WEIR_STATE_INVALID;
	ref->found = FLOW_FOUND_NEW;
	return WEIR_STATE_NEW;
}

/* Puts in force what flow_meet has changed, word by word: other CPUs may change others. */
static __always_inline void flow_keep(__u8 *table, const struct flow_ref *ref,
				      const struct flow_entry *copy)
{
	struct flow_entry *e = flow_entry_at(table, ref->changed);

	if (!e || !flow_named(e, ref))
		return;
	if (e->scales != copy->scales)
		e->scales = copy->scales;
#pragma clang loop unroll(full)
	for (int side = 0; side < 2; side++) {
		const __u64 *from = (const __u64 *)&copy->side[side];
		__u64 *to = (__u64 *)&e->side[side];

		if (to[0] != from[0])
			to[0] = from[0];
		if (to[1] != from[1])
			to[1] = from[1];
	}
	if (e->last_end != copy->last_end)
		e->last_end = copy->last_end;
	/* Unchanged words are not written: the line stays shared between CPUs. */
	if (e->recent != copy->recent)
		e->recent = copy->recent;
	if (e->control != copy->control)
		e->control = copy->control;
	if (e->expires != copy->expires)
		e->expires = copy->expires;
}

/* A ref before the first question. */
static __always_inline void flow_begin_ref(struct flow_ref *ref)
{
	ref->found = FLOW_FOUND_NONE;
	ref->reply = 0;
	ref->sought = 0;
	ref->mark = 0;
	ref->slot = FLOW_NO_SLOT;
	ref->changed = FLOW_NO_SLOT;
}

/* Most segments of a connection, judged and noted at once: see flow_fit.h. */
static __always_inline bool flow_passes(__u8 *table, const struct weir_control *c,
					const struct weir_packet *p, struct flow_ref *ref,
					__u32 now)
{
	struct flow_entry *e = flow_entry_at(table, ref->slot);
	struct flow_cold *cold = flow_cold_at(table, ref->slot);
	struct flow_fit fit;

	if (!e || !cold || p->proto != IPPROTO_TCP || p->malformed ||
	    c->settings[FLOW_SETTING_ACCOUNTING] ||
	    !flow_lives(e, now) || !flow_between(cold, ref, p) ||
	    !flow_fits(p, ref, e, c->zero, &fit))
		return false;
	flow_note_fit(p, e, &fit, c->settings, now);
	ref->found = FLOW_FOUND_KNOWN;
	ref->reply = fit.me;
	return true;
}

/*
 * Names the packet's flow in `ref`, and guesses where it is. Returns the state of those packets
 * that need no more, or 0: ask flow_meet. Verified on its own.
 */
__noinline int flow_glance(struct weir_packet *p, struct flow_ref *ref, __u64 now_ms)
{
	struct weir_control *c = weir_get_control();
	__u8 *table = weir_flows();

	if (!p || !ref || !c || !table)
		return WEIR_STATE_INVALID;
	flow_begin_ref(ref);
	if (p->proto == IPPROTO_ICMPV6 && p->transport == WEIR_TRANSPORT_ICMP) {
		__u8 type = p->src_port >> 8;

		if ((type >= 130 && type <= 136) || type == 143)
			return WEIR_STATE_UNTRACKED;
	}
	if (!flow_name(p, ref, c->zero))
		return WEIR_STATE_INVALID;
	ref->slot = flow_guess(table, ref);
	return flow_passes(table, c, p, ref, now_ms) ? WEIR_STATE_ESTABLISHED : 0;
}

/* Looks at a packet before the rules. Sets p->state. `copy`: room for an entry. */
static __always_inline void flow_lookup(struct weir_packet *p, __u64 now_ms, struct flow_ref *ref,
					struct flow_entry *copy)
{
	int state = flow_glance(p, ref, now_ms);
	__u8 *table;

	if (!state) {
		state = flow_meet(p, ref, copy, now_ms);
		table = weir_flows();
		if (table)
			flow_keep(table, ref, copy);
	}
	p->state = state;
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
	ref->slot = flow_seek(ref);
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
	ref->slot = flow_seek(ref);
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
