/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The short way of a packet: most are TCP or UDP in one whole piece, and meet rules without tests
 * or operations. In: where the packet is. Out: NF_ACCEPT, NF_DROP; LANE_WHOLE: nothing was changed,
 * go the whole way (netfilter.bpf.c), which says the same about the same packet; LANE_ASK: the
 * packet begins, changes or ends a flow, which must be worked out first (lane_meet.h). Which
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
	__u64 in;
	__u64 out;
	__u32 state;	/* what LANE_ASK asked for; 0: not known */
	__u32 place;	/* of struct lane_case, with LANE_ASK */
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
	const struct weir_seen seen = { .in = job->in, .out = job->out };
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
				      const struct lane_trail *trail)
{
	c->test.packet = *p;
	c->test.verdict = trail->verdict;
	c->test.deciding = trail->deciding;
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
				    const struct flow_ref *ref, __u64 options, struct lane_job *job)
{
	struct weir_scratch *s;
	struct lane_case *k;

	/* What the agent sends is RELATED. */
	if (p->hook == WEIR_HOOK_OUTPUT && p->tcp_flags & TCP_RST && c->answering)
		return LANE_WHOLE;
	s = weir_scratch_numbered(&job->place);
	if (!s)
		return LANE_WHOLE;
	k = (struct lane_case *)s->walk;
	k->packet = *p;
	k->ref = *ref;
	k->options = options;
	return LANE_ASK;
}

static __always_inline int lane_judge(__u32 have, __u32 hook, struct lane_job *job,
				      bool v6)
{
	struct weir_control *c = weir_get_control();
	struct lane_trail trail = {};
	struct weir_packet p = {};
	const struct weir_lane *lane;
	struct lane_flow flow = {};
	__u32 root_at, slot, now;
	__u64 base = job->base;
	const __u8 *image;
	int parsed;
	bool track;
	__u64 mask;

	if (!c || hook > WEIR_HOOK_OUTPUT)
		return LANE_WHOLE;
	/* What it looks at is hidden, or the verifier would follow the rest once for each way. */
	slot = (weir_slot(c, job->skb, hook ^ c->zero) ^ c->zero) & 1;
	lane = lane_at(c, slot, (v6 ? 4 : 0) | hook);
	image = weir_image(slot);
	if (!lane->root || !image || (weir_testing && c->test.way))
		return LANE_WHOLE;
	track = lane->flags & WEIR_LANE_TRACK;
	parsed = v6 ? lane_parse_v6(base, have, track, &p) : lane_parse_v4(base, have, track, &p);
	if (parsed == LANE_PARSED_NOT)
		return LANE_WHOLE;
	p.hook = hook;
	p.state = job->state ? job->state : WEIR_STATE_INVALID;
	root_at = lane->root;
	mask = image_mask();
	if (lane->flags & WEIR_LANE_CLASSES && !lane_classes(job, c, slot, &p))
		return LANE_WHOLE;
	if (weir_testing && c->test.state)
		p.state = c->test.state;
	now = weir_now(c);
	if (track) {
		track = !job->state && !(weir_testing && c->test.state);
		if (track && !lane_flow_of(&p, c, &flow))
			return LANE_WHOLE;
		if (track && (parsed == LANE_PARSED_OPTIONS || !lane_passes(&p, c, now, &flow)))
			return lane_ask(&p, c, &flow.ref,
					parsed == LANE_PARSED_OPTIONS ? base + (v6 ? 60 : 40) : 0,
					job);
		if (lane_is_known(&p))
			root_at = lane->established;
	}
	if (!lane_walk(image, mask, root_at, v6, &p, c->zero, &trail))
		return LANE_WHOLE;
	if (track)
		lane_touch(&p, c, now, &flow);
	lane_count_all(image, mask, slot, lane, &trail, p.length);
	if (weir_testing)
		lane_tell(c, &p, &trail);
	if (trail.verdict == WEIR_VERDICT_ACCEPT)
		return NF_ACCEPT;
	__sync_fetch_and_add(&c->reasons[WEIR_REASON_RULE], 1);
	return NF_DROP;
}

/* Two functions, each with one family, verified once though they are called twice. */
__noinline int weir_lane4(__u32 have, __u32 hook, struct lane_job *job)
{
	return job ? lane_judge(have, hook, job, false) : LANE_WHOLE;
}

__noinline int weir_lane6(__u32 have, __u32 hook, struct lane_job *job)
{
	return job ? lane_judge(have, hook, job, true) : LANE_WHOLE;
}

static __always_inline int lane_run(__u32 have, __u32 hook, struct lane_job *job,
				    bool v6)
{
	return v6 ? weir_lane6(have, hook, job) : weir_lane4(have, hook, job);
}

#endif
