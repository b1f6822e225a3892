/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets on the short way that begin, change or end a flow. They wait in a place in memory, where
 * their state is worked out and from where the rules take them. The flow is changed, or made, when
 * the packet's verdict is known.
 */
#ifndef WEIR_LANE_MEET_H
#define WEIR_LANE_MEET_H

#include "lane.h"

/* Works out the state of the packet that lane_ask left; the place stays taken. */
__noinline int weir_lane_meet(struct lane_job *job)
{
	struct weir_control *c = weir_get_control();
	struct weir_scratch *s;
	struct lane_case *k;

	_Static_assert(sizeof(*k) <= WEIR_SCRATCH_WALK, "a case fits its place");
	if (!job || !c)
		return 0;
	s = weir_scratch_at(job->place);
	if (!s)
		return 0;
	k = (struct lane_case *)s->walk;
	if (k->options)
		take_tcp_options(k->options, k->packet.tcp_options, &k->packet);
	k->packet.state = flow_meet(&k->packet, &k->ref, &k->copy, weir_now(c));
	return 0;
}

/* The packet's way ends, with NF_ACCEPT or NF_DROP, or is to be gone whole: LANE_WHOLE. */
__noinline int weir_lane_end(struct lane_job *job, int verdict)
{
	struct weir_control *c = weir_get_control();
	__u8 *table = weir_flows();
	struct weir_scratch *s;
	struct lane_case *k;

	if (!job || !c || !table)
		return 0;
	s = weir_scratch_at(job->place);
	if (!s)
		return 0;
	k = (struct lane_case *)s->walk;
	if (verdict != LANE_WHOLE)
		flow_keep(table, &k->ref, &k->copy);
	if (verdict == NF_ACCEPT)
		flow_confirm(&k->packet, &k->ref, weir_now(c));
	weir_scratch_give(s);
	return 0;
}

/* LANE_ASK answered: NF_ACCEPT, NF_DROP or LANE_WHOLE. */
static __always_inline int lane_again(struct lane_job *job, bool v6)
{
	struct weir_control *c = weir_get_control();
	const struct weir_lane *lane;
	int verdict = LANE_WHOLE;
	struct weir_scratch *s;
	struct lane_case *k;
	__u32 decided;

	weir_lane_meet(job);
	s = weir_scratch_at(job->place);
	if (!c || !s)
		return LANE_WHOLE;
	k = (struct lane_case *)s->walk;
	lane = lane_at(c, job->slot & 1, (v6 ? 4 : 0) | k->packet.hook);
	decided = lane_rules(job, c, lane, job->slot & 1, &k->packet, v6, true);
	if (decided)
		verdict = lane_verdict(c, job->slot, &k->packet, decided);
	weir_lane_end(job, verdict);
	return verdict;
}

#endif
