/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Flows of the packets that go the short way. Most belong to one that is established in both
 * directions, and are judged and noted by arithmetic.
 */
#ifndef WEIR_LANE_FLOW_H
#define WEIR_LANE_FLOW_H

#include "flow.h"
#include "maps.h"

/* The flow of the packet, and what the packet does to it. */
struct lane_flow {
	struct flow_ref ref;
	struct flow_fit fit;
	struct flow_entry *e;
	__u32 control;		/* of UDP: what the entry's becomes */
	__u32 timeout;
};

/*
 * Names the flow of a TCP or UDP packet, and guesses where it is. False: the whole way.
 */
static __always_inline bool lane_flow_of(const struct weir_packet *p, bool v6,
					 const struct weir_control *c, __u8 *table,
					 struct lane_flow *f)
{
	struct flow_ref *ref = &f->ref;

	flow_begin_ref(ref);
	if (!table || unlikely(c->settings[FLOW_SETTING_ACCOUNTING]))
		return false;
	flow_name_of(p, ref, p->src_port, p->dst_port, 0, v6, c->zero);
	ref->slot = flow_guess(table, ref);
	if (unlikely(ref->slot == FLOW_NO_SLOT)) {
		ref->slot = flow_seek(ref);
		ref->sought = 1;
	}
	f->e = flow_entry_at(table, ref->slot);
	return true;
}

/*
 * Whether the packet does nothing but pass in its flow: TCP that fits, UDP that is not the first
 * answer. Changes nothing but p->state.
 */
static __always_inline bool lane_passes(struct weir_packet *p, bool v6,
					const struct weir_control *c, __u32 now, __u8 *table,
					struct lane_flow *f)
{
	struct flow_ref *ref = &f->ref;

	if (!table || !f->e || !flow_lives(f->e, now))
		return false;
	if (v6) {
		struct flow_cold *cold = flow_cold_at(table, ref->slot);

		if (!cold || !flow_between(cold, ref, p))
			return false;
	}
	p->state = WEIR_STATE_ESTABLISHED;
	if (p->proto == IPPROTO_TCP)
		return flow_fits(p, ref, f->e, c->zero, &f->fit);
	f->control = f->e->control;
	f->timeout = FLOW_TIMEOUT_UDP;
	if (!(f->control & FLOW_SEEN_REPLY)) {
		p->state = WEIR_STATE_NEW;
		return !flow_direction(ref, f->control);
	}
	if ((__s32)(now - f->e->side[0].end) > 0) {
		f->control |= FLOW_ASSURED;
		f->timeout = FLOW_TIMEOUT_UDP_STREAM;
	}
	return true;
}

/* What the packet does to its flow. */
static __always_inline void lane_touch(const struct weir_packet *p, const struct weir_control *c,
				       __u32 now, struct lane_flow *f)
{
	__u32 expires;

	if (p->proto == IPPROTO_TCP) {
		flow_note_fit(p, f->e, &f->fit, c->settings, now);
		return;
	}
	if (f->e->control != f->control)
		f->e->control = f->control;
	expires = now + c->settings[WITHIN(f->timeout, 15)];
	if (f->e->expires != expires)
		f->e->expires = expires;
}

#endif
