/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The short way of packets of states that IPFilter's rules made: UDP, and TCP of established
 * connections, in one whole piece. Says the same of them as learned.h; what isn't as simple goes
 * the whole way, and nothing was changed by then but what the whole way would change, too. Which
 * hooks' lists begin with the look at states is told by plane::lanes.
 */
#ifndef WEIR_LANE_LEARNED_H
#define WEIR_LANE_LEARNED_H

#include "lane.h"
#include "learned_sum.h"

/* A packet, and what IPFilter sees of it. */
struct lane_seen {
	struct weir_packet packet;
	struct ipf_view view;
	__u32 slot;		/* of the policy */
	__u32 lifetimes_at;	/* in its image */
	__u64 now_ms;
};

#define LANE_FLAGS (TCP_SYN | TCP_FIN | TCP_RST | TCP_ACK | 0x20)

/* Whether a packet of an established connection fits; then it is taken in. */
static __always_inline bool lane_fits(struct learned_machine *m, const struct weir_packet *p,
				      __u32 from)
{
	if (m->states[0] != LEARNED_ESTABLISHED || m->states[1] != LEARNED_ESTABLISHED)
		return false;
	/* Nothing is changed for a segment outside the window, once these are known. */
	if (m->deleted || m->loose || m->ends[from & 1].scale_first || !m->ends[from & 1].end ||
	    !learned_in_window(m, p, from))
		return false;
	/* learned_moved: an ACK leaves it established. */
	m->kept_time = 0;
	m->queue = LEARNED_ESTABLISHED;
	return true;
}

/* The packet is of the state in a place: its verdict and rule as WEIR_LANE_DECIDED, or 0. */
static __always_inline __u32 lane_of_state(struct lane_seen *seen, __u32 place)
{
	struct weir_control *c = weir_get_control();
	__u8 *table = learned_table();
	const struct weir_packet *p;
	struct learned_entry *e;
	__u32 decided = 0;
	bool held, reverse;
	int way;

	if (!table || !c)
		return 0;
	p = &seen->packet;
	e = learned_at(table, place);
	if (!e || e->used != 1 || e->verdict != WEIR_VERDICT_ACCEPT ||
	    e->flags & (WEIR_LEARN_LOG | WEIR_LEARN_COUNT) ||
	    e->generation != c->slot_generation[seen->slot & 1])
		return 0;
	held = learned_lock(e);
	if (e->used == 1 && e->expires_ms > seen->now_ms &&
	    (way = learned_matches(e, p, &seen->view, LEARNED_REPEATED))) {
		reverse = way == 2;
		if (p->proto != IPPROTO_TCP || lane_fits(&e->machine, p, reverse)) {
			learned_count(e, p, reverse, seen->view.out);
			learned_until(table, e, seen->now_ms +
				      learned_lifetime(seen->slot, seen->lifetimes_at, e, reverse));
			decided = WEIR_VERDICT_ACCEPT << WEIR_LANE_DECIDED | e->rule;
		}
	}
	learned_unlock(e, held);
	return decided;
}

/* The interface, and whether there is nothing to see of the packet that states must know. */
static __always_inline bool lane_view(const struct weir_control *c, const struct lane_job *job,
				      const struct weir_packet *p, bool v6, struct ipf_view *v)
{
	const struct nf_hook_state___local *met = MET_AT(job->met);
	const struct weir_seen seen = { .in = (__u64)met->in, .out = (__u64)met->out };

	v->out = p->hook != WEIR_HOOK_PREROUTING;
	v->interface = learned_interface(&seen, v->out);
	if (v6 ? p->dst[0] >> 56 == 0xff : (__u32)p->dst[1] >> 28 == 0xe)
		return false;
	if (v->out)
		return true;
	if (weir_testing ? c->test.packet_type : meta_packet_type(SKB_AT(job->skb)))
		return false;
	return (v6 ? lane_load(job->base, 0) >> 56 : lane_load(job->base, 8) & 0xff) >= IPF_MIN_TTL;
}

/* Whether it may be of a state whose destination isn't known yet. */
static __always_inline bool lane_is_open(const struct learned_header *h,
					 const struct weir_packet *p)
{
	__u32 ports = learned_ports(p);

	if (!h->open)
		return false;
	return learned_hits(learned_open_name(p->src, ports, p->proto, p->family)) |
	       learned_hits(learned_open_name(p->dst, ports, p->proto, p->family));
}

/* As lane_judge. A function of its own, because the stack has no room for both. */
__noinline int lane_states(struct lane_job *job, __u32 have, __u32 hook, __u32 v6)
{
	struct weir_control *c = weir_get_control();
	__u8 *table = learned_table();
	const struct learned_header *h = (const struct learned_header *)table;
	struct lane_seen seen = {};
	struct weir_packet *p = &seen.packet;
	const struct weir_lane *lane;
	__u32 slot, hits, decided;
	__u64 name;
	int parsed;

	if (!job || !c || !table || hook > WEIR_HOOK_OUTPUT)
		return LANE_WHOLE;
	slot = (weir_slot(c, job->skb, hook) ^ c->zero) & 1;
	lane = lane_at(c, slot, (v6 ? 4 : 0) | hook);
	if (!(lane->flags & WEIR_LANE_STATES) || !h->count ||
	    unlikely(weir_testing && c->test.way))
		return LANE_WHOLE;
	parsed = v6 ? lane_parse_v6(job->base, have, true, p) :
		      lane_parse_v4(job->base, have, true, p);
	/* TCP options matter only where a connection begins. */
	if (parsed == LANE_PARSED_NOT)
		return LANE_WHOLE;
	if (p->proto == IPPROTO_TCP && (p->tcp_flags & LANE_FLAGS) != TCP_ACK)
		return LANE_WHOLE;
	p->hook = hook;
	if (!sum_is_known(SKB_AT(job->skb), job->base, p, v6 ? 40 : 20))
		return LANE_WHOLE;
	if (!lane_view(c, job, p, v6, &seen.view))
		return LANE_WHOLE;
	name = learned_name(p->src, p->dst, learned_ports(p), p->proto, p->family);
	hits = learned_equal(table, name);
	/* With several, the newest that fits decides. */
	if (!hits || hits & (hits - 1) || lane_is_open(h, p))
		return LANE_WHOLE;
	seen.slot = slot;
	seen.lifetimes_at = lane->established;
	seen.now_ms = weir_now(c);
	decided = lane_of_state(&seen, learned_place(name, lowest_bit(hits)));
	if (!decided)
		return LANE_WHOLE;
	/* The look itself. */
	weir_count(slot, hook, lane->count[0], p->length);
	return lane_verdict(c, slot, p, decided);
}

#endif
