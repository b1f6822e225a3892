/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets on the short way that begin, change or end a flow. The short way is gone twice: the first
 * time leaves the packet in a place in memory, where its state is worked out; the second time goes
 * on with that state. The flow is changed, or made, when the packet's verdict is known.
 */
#ifndef WEIR_LANE_MEET_H
#define WEIR_LANE_MEET_H

#include "lane.h"

/* The state of the packet that lane_ask left. */
static __always_inline __u32 lane_meet(struct lane_case *k, __u64 now)
{
	struct weir_packet *p = &k->packet;

	if (k->options)
		take_tcp_options(k->options, p->tcp_options, p);
	return flow_meet(p, &k->ref, &k->copy, now);
}

/* LANE_ASK answered: NF_ACCEPT, NF_DROP or LANE_WHOLE. */
static __always_inline int lane_again(__u32 have, __u32 hook, struct lane_job *job,
				      bool v6)
{
	struct weir_scratch *s = weir_scratch_at(job->place);
	struct weir_control *c = weir_get_control();
	__u8 *table = weir_flows();
	struct lane_case *k;
	int verdict;
	__u64 now;

	if (!s || !c || !table)
		return LANE_WHOLE;
	k = (struct lane_case *)s->walk;
	_Static_assert(sizeof(*k) <= WEIR_SCRATCH_WALK, "a case fits its place");
	now = weir_now(c);
	job->state = lane_meet(k, now);
	verdict = lane_run(have, hook, job, v6);
	if (verdict != LANE_WHOLE)
		flow_keep(table, &k->ref, &k->copy);
	if (verdict == NF_ACCEPT)
		flow_confirm(&k->packet, &k->ref, now);
	weir_scratch_give(s);
	return verdict;
}

#endif
