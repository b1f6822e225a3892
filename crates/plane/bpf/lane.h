/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The short way of a packet: most are TCP, UDP or ICMP in one whole piece, and meet rules without
 * tests or operations. In: where the packet is. Out: NF_ACCEPT, NF_DROP; LANE_WHOLE: nothing was
 * changed, go the whole way (netfilter.bpf.c), which says the same about the same packet; LANE_ASK:
 * the packet begins, changes or ends a flow, which must be worked out first (lane_meet.h). Which
 * packets may come here is decided when a policy is put into its slot: plane::lanes.
 */
#ifndef WEIR_LANE_H
#define WEIR_LANE_H

#include "classes.h"
#include "lane_flow.h"
#include "lane_parse.h"
#include "lane_walk.h"
#include "maps.h"
#include "slot.h"

#define LANE_WHOLE -1
#define LANE_ASK -2

/* Where a packet is met, and what is known of its flow. Addresses, numbers to those who read. */
struct lane_job {
	__u64 base;	/* of the network header */
	__u64 skb;
	__u64 met;	/* struct nf_hook_state */
	__u32 place;	/* of struct lane_case, with LANE_ASK */
	__u32 slot;	/* of the policy that judges it, with LANE_ASK */
};

/* What is worked out about a packet and its flow: in the walk of a scratch place. */
struct lane_case {
	struct weir_packet packet;
	struct flow_ref ref;
	struct flow_entry copy;
	__u64 options;	/* where TCP options are to be read; 0: nowhere */
};

/* The classes of both interfaces, from what is remembered. False: ask on the whole way. */
static __always_inline bool lane_class_of(const __u64 name[2], __u32 number, __u16 *class)
{
	__u32 place = ((name[0] ^ name[1]) * CLASS_MIX) >> 58;
	const struct weir_interface *e = bpf_map_lookup_elem(&interfaces, &place);
	__u64 value;

	if (!e)
		return false;
	value = e->value;
	*class = value;
	return value >> 16 == number && (e->name[0] ^ value * CLASS_MIX) == name[0] &&
	       (e->name[1] ^ (value + 1) * CLASS_MIX) == name[1];
}

static __always_inline bool lane_classes(const struct lane_job *job, const struct weir_control *c,
					 __u32 slot, struct weir_packet *p)
{
	const struct nf_hook_state___local *met = MET_AT(job->met);
	const struct weir_seen seen = { .in = (__u64)met->in, .out = (__u64)met->out };
	__u32 number = c->slot_generation[slot & 1];
	__u64 name[2];

	meta_name(&seen, false, name);
	if (!lane_class_of(name, number, &p->in_class))
		return false;
	meta_name(&seen, true, name);
	return lane_class_of(name, number, &p->out_class);
}

/* What a test run wants to know. */
static __always_inline void lane_tell(struct weir_control *c, const struct weir_packet *p,
				      __u32 decided)
{
	c->test.packet = *p;
	c->test.verdict = decided >> WEIR_LANE_DECIDED;
	c->test.deciding = decided & WEIR_LANE_RULE;
	c->test.result_mark = c->test.mark;
	c->test.short_way = 1;
}

/* `number`: family and hook. */
static __always_inline const struct weir_lane *lane_at(const struct weir_control *c, __u32 slot,
						       __u64 number)
{
	number |= slot << 3;
	OPAQUE(number);
	return &c->lanes[0][number & 15];
}

/*
 * Whether the list for established flows says all about the packet. It is made for UDP, and for TCP
 * with ACK, without RST, and not with both SYN and FIN: engine::compile::known.
 */
static __always_inline bool lane_is_known(const struct weir_packet *p)
{
	if (p->state != WEIR_STATE_ESTABLISHED)
		return false;
	return p->proto != IPPROTO_TCP ||
	       ((p->tcp_flags & (TCP_ACK | TCP_RST)) == TCP_ACK &&
		(p->tcp_flags & (TCP_SYN | TCP_FIN)) != (TCP_SYN | TCP_FIN));
}

/* Leaves the packet where lane_meet finds it. */
static __always_inline int lane_ask(const struct weir_packet *p, const struct weir_control *c,
				    __u32 slot, const struct flow_ref *ref, bool options,
				    struct lane_job *job)
{
	struct weir_scratch *s;
	struct lane_case *k;

	/* What the agent sends is RELATED. */
	if (p->hook == WEIR_HOOK_OUTPUT && p->tcp_flags & TCP_RST && c->answering)
		return LANE_WHOLE;
	s = weir_scratch_numbered(&job->place);
	if (!s)
		return LANE_WHOLE;
	job->slot = slot;
	k = (struct lane_case *)s->walk;
	k->packet = *p;
	k->ref = *ref;
	k->options = options ? job->base + (p->family == 6 ? 60 : 40) : 0;
	return LANE_ASK;
}

/* Counts the chain policies of tables without rules. */
static __always_inline void lane_count_first(__u32 slot, const struct weir_lane *lane,
					     const struct weir_packet *p)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < 2; i++) {
		if (i >= lane->counts)
			break;
		weir_count(slot, p->hook, lane->count[i], p->length);
	}
}

/* Where states are learned, lane_states has the stack that the walk would need. */
#if defined(WEIR_LEARNED) && !defined(WEIR_DYNAMIC)
#define LANE_CALLS true
#else
#define LANE_CALLS false
#endif

/*
 * What the rules say about a packet whose state is known; counted. 0: the whole way. `tracks`:
 * whether the program is for policies that keep flows; then the stack has no room for the walk.
 */
static __always_inline __u32 lane_rules(const struct lane_job *job, const struct weir_control *c,
					const struct weir_lane *lane, __u32 slot,
					struct weir_packet *p, bool v6, bool tracks)
{
	bool follows = tracks && lane->flags & WEIR_LANE_TRACK && lane_is_known(p);
	__u32 root = follows ? lane->established : lane->root;
	__u32 decided = follows ? lane->decided[1] : lane->decided[0];
	struct weir_asked asked;

	if (decided) {
		weir_count(slot, p->hook, decided & WEIR_LANE_RULE, p->length);
	} else {
		if (unlikely(lane->flags & WEIR_LANE_CLASSES) &&
		    !lane_classes(job, c, slot, p))
			return 0;
		asked = lane_ask_tables(slot, root, v6, p);
		if (!tracks && !LANE_CALLS)
			decided = lane_walk(slot, root, p, v6, &asked);
		else
			decided = v6 ? weir_lane_walk6(slot, root, p, asked.hashed, asked.classes) :
				       weir_lane_walk4(slot, root, p, asked.hashed, asked.classes);
		if (!decided)
			return 0;
	}
	if (unlikely(lane->counts))
		lane_count_first(slot, lane, p);
	return decided;
}

/* The verdict, once the rules have said it. */
static __always_inline int lane_verdict(struct weir_control *c, __u32 slot,
					const struct weir_packet *p, __u32 decided)
{
	if (unlikely(weir_testing))
		lane_tell(c, p, decided);
	if (decided >> WEIR_LANE_DECIDED == WEIR_VERDICT_ACCEPT)
		return NF_ACCEPT;
	__sync_fetch_and_add(&c->short_drops[slot & 1], 1);
	return NF_DROP;
}

/* `tracks`: as of lane_rules. */
static __always_inline int lane_judge(__u32 have, __u32 hook, struct lane_job *job, bool v6,
				      bool tracks)
{
	struct weir_control *c = weir_get_control();
	__u32 slot, now = 0, decided;
	const struct weir_lane *lane;
	struct lane_flow flow = {};
	struct weir_packet p = {};
	int parsed;
	bool track;

	if (!c || hook > WEIR_HOOK_OUTPUT)
		return LANE_WHOLE;
	/* What it looks at is hidden, or the verifier would follow the rest once for each way. */
	slot = (weir_slot(c, job->skb, hook ^ c->zero) ^ c->zero) & 1;
	lane = lane_at(c, slot, (v6 ? 4 : 0) | hook);
	if (unlikely(!lane->root || (weir_testing && c->test.way)))
		return LANE_WHOLE;
	track = tracks && lane->flags & WEIR_LANE_TRACK;
	parsed = v6 ? lane_parse_v6(job->base, have, track, &p) :
		      lane_parse_v4(job->base, have, track, &p);
	if (parsed == LANE_PARSED_NOT)
		return LANE_WHOLE;
	p.hook = hook;
	p.state = WEIR_STATE_INVALID;
	if (unlikely(weir_testing && c->test.state)) {
		if (!tracks)
			return LANE_WHOLE;
		p.state = c->test.state;
		track = false;
	}
	if (track) {
		__u8 *table = weir_flows();

		now = weir_now(c);
		if (!lane_flow_of(&p, v6, c, table, &flow))
			return LANE_WHOLE;
		if (parsed == LANE_PARSED_OPTIONS || !lane_passes(&p, v6, c, now, table, &flow))
			return lane_ask(&p, c, slot, &flow.ref, parsed == LANE_PARSED_OPTIONS,
					job);
	}
	/* Worked out again, or it would be kept on the stack meanwhile, which is full. */
	if (tracks)
		lane = lane_at(c, slot, (v6 ? 4 : 0) | p.hook);
	decided = lane_rules(job, c, lane, slot, &p, v6, tracks);
	if (!decided)
		return LANE_WHOLE;
	if (tracks && flow.e)
		lane_touch(&p, c, now, &flow);
	return lane_verdict(c, slot, &p, decided);
}

#endif
