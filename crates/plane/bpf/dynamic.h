/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * States of ipfw: the tests WEIR_TEST_DYNAMIC_* and what WEIR_FLAG_AS_LEARNED decides. Twin of
 * policy's eval::ipfw::states and eval::dynamic. Included by walk.h, only in programs for policies
 * that note flows as ipfw does. Entries are those of the table of learned states, `used` 1:
 *
 *	options[0]	name of the flow
 *	interfaces[0]	zone: the interface, where addresses mean nothing without it
 *	counts		[0] forward, [2] reverse
 *	rule, verdict, reject	of the policy in `generation`; looked up anew in any other
 *
 * Times are whole seconds: an entry lives until its second has come.
 */
#ifndef WEIR_DYNAMIC_H
#define WEIR_DYNAMIC_H

/* Bits of walk.learned_bits. */
#define DYNAMIC_LOOKED 1	/* somebody has looked, under walk.looked */
#define DYNAMIC_NOTED 2		/* a flow was noted since */

#include "learned_interface.h"
#include "learned_table.h"
#include "dynamic_limit.h"

#define DYNAMIC_RULES_STEPS 21	/* of a search among the rules of an image */
#define DYNAMIC_FLAGS (TCP_FIN | TCP_SYN | TCP_RST)
#define DYNAMIC_NO_LIMIT 0xffffffffu
#define DYNAMIC_AS_IT_IS 0xffffffffu

/* Whether a living state in a slot is of the packet's flow and has this name: its number. */
__noinline __u64 dynamic_fits(struct walk *w, __u32 slot, __u32 name)
{
	__u8 *table = learned_table();
	const struct weir_packet *p;
	struct learned_entry *e;
	__u32 ports, own;

	if (!w || !table)
		return 0;
	e = learned_at(table, slot);
	if (!e)
		return 0;
	p = &w->packet;
	if (e->used != 1 || e->expires_ms <= w->now_ms || (name && e->options[0] != name))
		return 0;
	if (e->proto != p->proto || e->family != p->family ||
	    e->interfaces[0] != dynamic_zone(w))
		return 0;
	ports = dynamic_ports(p);
	own = e->src_port | (__u32)e->dst_port << 16;
	if (ports == own && dynamic_same(p->src, e->src) && dynamic_same(p->dst, e->dst))
		return e->number;
	if (ports == (own >> 16 | own << 16) && dynamic_same(p->src, e->dst) &&
	    dynamic_same(p->dst, e->src))
		return e->number;
	return 0;
}

/* The newest state of the packet's flow under a name (0: any): its slot, or LEARNED_NONE. */
__noinline int dynamic_find(struct walk *w, __u32 name)
{
	__u32 best = LEARNED_NONE, hits;
	__u64 newest = 0, flow;

	if (!w)
		return LEARNED_NONE;
	flow = dynamic_name(w);
	hits = learned_hits(flow);
	for (int i = 0; i < 2 * LEARNED_LINE_SLOTS; i++) {
		__u64 slot, number;

		if (!hits)
			break;
		slot = learned_place(flow, lowest_bit(hits));
		hits &= hits - 1;
		number = dynamic_fits(w, slot, name);
		if (number > newest) {
			newest = number;
			best = slot;
		}
	}
	return best;
}

struct dynamic_search {
	__u64 identity;
	__u32 slot;		/* of images */
	__u32 rules_at;		/* in the image */
	__u32 low, high;	/* where it can be */
	__u32 found;		/* where it is */
	__u32 reserved;
};

/* One step of a search among the rules of an image. A callback: verified once. */
static long dynamic_search_step(__u32 i, struct dynamic_search *s)
{
	const __u8 *image = weir_image(s->slot & 1);
	const struct weir_dynamic_rule *r;
	__u32 middle = (s->low + s->high) / 2;

	if (!image || s->low >= s->high)
		return 1;
	r = IMAGE_AT(struct weir_dynamic_rule, image, image_mask(),
		     s->rules_at + middle * sizeof(*r));
	if (r->identity == s->identity) {
		s->found = s->rules_at + middle * sizeof(*r);
		return 1;
	}
	if (r->identity < s->identity)
		s->low = middle + 1;
	else
		s->high = middle;
	return 0;
}

/* The rule of an identity in the policy that judges; an entry of another is made its own. */
__noinline int dynamic_adopt(struct walk *w, __u32 slot, __u32 directory)
{
	__u8 *table = learned_table();
	struct weir_control *c = weir_get_control();
	const struct weir_dynamic_rule *r;
	struct dynamic_search s = {};
	struct learned_entry *e;
	__u32 generation, v6;
	const __u8 *image;

	if (!w || !table || !c)
		return 0;
	e = learned_at(table, slot);
	image = weir_image(w->slot & 1);
	if (!e || !image)
		return 0;
	generation = c->slot_generation[w->slot & 1];
	if (e->generation == generation)
		return 1;
	s.identity = e->dynamic.identity;
	s.slot = w->slot & 1;
	s.rules_at = directory + sizeof(struct weir_dynamic);
	s.high = IMAGE_AT(struct weir_dynamic, image, image_mask(), directory)->count;
	bpf_loop(DYNAMIC_RULES_STEPS, dynamic_search_step, &s, 0);
	if (!s.found)
		return 0;
	r = IMAGE_AT(struct weir_dynamic_rule, image, image_mask(), s.found);
	if (r->flags & WEIR_DYNAMIC_OFF)
		return 0;
	v6 = e->family == 6;
	e->rule = r->rule;
	e->verdict = r->verdict[v6];
	e->reject = r->reject[v6];
	e->generation = generation;
	return 1;
}

/* Seconds that a TCP state lives from now on, or DYNAMIC_AS_IT_IS. */
static __always_inline __u32 dynamic_tcp(struct dynamic_state *s, const struct weir_packet *p,
					 __u32 reverse, const struct weir_dynamic *d)
{
	bool segment = p->transport == WEIR_TRANSPORT_TCP;
	__u32 forward, back, both;

	reverse &= 1;
	if (segment)
		s->flags[reverse] |= p->tcp_flags & DYNAMIC_FLAGS;
	forward = s->flags[0];
	back = s->flags[1];
	both = forward | back;
	if (forward == TCP_SYN && !back)
		return d->tcp[1];
	if (forward == (TCP_SYN | TCP_FIN) && back == forward)
		return d->tcp[2];
	/* Both have begun, and at most one has ended. */
	if (!(forward & back & TCP_SYN) || both & TCP_RST)
		return d->tcp[3];
	if (!segment)
		return DYNAMIC_AS_IT_IS;
	if (!s->ack[reverse] || (__s32)(p->acknowledgement - s->ack[reverse]) >= 0) {
		s->ack[reverse] = p->acknowledgement;
		s->acked |= 1 << reverse;
	}
	if (s->acked != 3)
		return DYNAMIC_AS_IT_IS;
	/* Only the newer of the two is remembered, so that both must go on talking. */
	s->acked = 1 << reverse;
	return d->tcp[0];
}

/* A packet of a state passes: its counts and its time. The caller has the lock. */
static __always_inline void dynamic_update(__u8 *table, struct learned_entry *e,
					   const struct walk *w, __u32 reverse,
					   const struct weir_dynamic *d)
{
	__u32 seconds = d->other;

	switch (e->proto) {
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
		seconds = d->udp;
		break;
	case IPPROTO_TCP:
		seconds = dynamic_tcp(&e->dynamic, &w->packet, reverse, d);
		break;
	}
	if (seconds != DYNAMIC_AS_IT_IS)
		learned_until(table, e, (w->now_ms / 1000 + seconds) * 1000);
	e->counts[(reverse & 1) * 2][0]++;
	e->counts[(reverse & 1) * 2][1] += w->packet.length;
}

/* A packet was found to be of the state in a slot. */
__noinline int dynamic_touch(struct walk *w, __u32 slot, __u32 directory)
{
	__u8 *table = learned_table();
	struct learned_entry *e;
	const __u8 *image;
	__u32 reverse;
	bool held;

	if (!w || !table)
		return 0;
	e = learned_at(table, slot);
	image = weir_image(w->slot & 1);
	if (!e || !image)
		return 0;
	reverse = !dynamic_same(w->packet.src, e->src) || !dynamic_same(w->packet.dst, e->dst) ||
		  dynamic_ports(&w->packet) != (e->src_port | (__u32)e->dst_port << 16);
	held = learned_lock(e);
	if (e->used == 1)
		dynamic_update(table, e, w, reverse,
			       IMAGE_AT(struct weir_dynamic, image, image_mask(), directory));
	learned_unlock(e, held);
	return 1;
}

/* The packet and the one that it quotes change places: then states are found as they are for both. */
__noinline int dynamic_exchange(struct walk *w)
{
	volatile __u64 *one, *other;

	if (!w)
		return 0;
	one = (__u64 *)&w->packet;
	other = (__u64 *)&w->about;
#pragma clang loop unroll(full)
	for (int i = 0; i < sizeof(w->packet) / 8; i++) {
		__u64 word = one[i];

		one[i] = other[i];
		other[i] = word;
	}
	return 0;
}

/* Whether a packet that has no state of its own quotes one that can have a state. */
static __always_inline bool dynamic_quotes(struct walk *w, __u32 directory)
{
	const __u8 *image = weir_image(w->slot & 1);

	if (!image || w->packet.transport != WEIR_TRANSPORT_ICMP ||
	    !IMAGE_AT(struct weir_dynamic, image, image_mask(), directory)->icmp_errors)
		return false;
	return !weir_parse_embedded(&w->seen.bytes, &w->packet, &w->about) &&
	       w->about.transport != WEIR_TRANSPORT_SHORT;
}

/* Whether a state is found under a name; nobody asks twice under one name. */
__noinline int dynamic_look(struct walk *w, __u32 name, __u32 directory)
{
	__u8 *table = learned_table();
	bool quoted = false;
	__u32 slot;

	if (!w || !table)
		return 0;
	if (w->learned_bits & DYNAMIC_LOOKED && (!w->looked || w->looked == name))
		return 0;
	w->looked = name;
	w->learned_bits = DYNAMIC_LOOKED;
	w->learned = 0;
	if (w->packet.transport == WEIR_TRANSPORT_SHORT ||
	    !((struct learned_header *)table)->count)
		return 0;
	slot = dynamic_find(w, name);
	if (slot == LEARNED_NONE && dynamic_quotes(w, directory)) {
		quoted = true;
		dynamic_exchange(w);
		slot = dynamic_find(w, name);
		dynamic_exchange(w);
	}
	if (slot == LEARNED_NONE || !dynamic_adopt(w, slot, directory))
		return 0;
	/* An error refreshes nothing. */
	if (!quoted)
		dynamic_touch(w, slot, directory);
	w->learned = slot + 1;
	return 1;
}

/* Fill in an entry that nobody sees yet, for w->rule. */
__noinline int dynamic_fill(struct walk *w, __u32 slot, __u32 directory)
{
	__u8 *table = learned_table();
	struct weir_control *c = weir_get_control();
	const struct weir_packet *p;
	struct learned_entry *e;
	const __u8 *image;
	__u32 ports, v6;

	if (!w || !table || !c)
		return 0;
	e = learned_at(table, slot);
	image = weir_image(w->slot & 1);
	if (!e || !image)
		return 0;
	p = &w->packet;
	v6 = p->family == 6;
	ports = dynamic_ports(p);
	__builtin_memset(&e->expires_ms, 0, sizeof(*e) - 64);
	e->src[0] = p->src[0];
	e->src[1] = p->src[1];
	e->dst[0] = p->dst[0];
	e->dst[1] = p->dst[1];
	e->src_port = ports;
	e->dst_port = ports >> 16;
	e->family = p->family;
	e->proto = p->proto;
	e->open = 0;
	e->rule = w->rule.rule;
	e->verdict = w->rule.verdict[v6];
	e->reject = w->rule.reject[v6];
	e->learner = ~0U;
	e->generation = c->slot_generation[w->slot & 1];
	e->number = __sync_fetch_and_add(&((struct learned_header *)table)->next_number, 1) + 1;
	e->options[0] = w->rule.name;
	e->interfaces[0] = dynamic_zone(w);
	e->made_s = w->now_ms / 1000;
	e->dynamic.identity = w->rule.identity;
	dynamic_update(table, e, w, 0,
		       IMAGE_AT(struct weir_dynamic, image, image_mask(), directory));
	return 1;
}

/* Make a state of w->rule, whose limit has counted it in `parent`. */
__noinline int dynamic_make(struct walk *w, __u32 parent, __u32 directory, __u32 states_max)
{
	__u8 *table = learned_table();
	struct learned_header *h = (struct learned_header *)table;
	struct learned_entry *e, *counter;
	__u32 slot;

	if (!w || !table)
		return 0;
	if (!learned_admit(w->slot, ~0U, ~0U, states_max)) {
		learned_expire(w->now_ms);
		if (!learned_admit(w->slot, ~0U, ~0U, states_max)) {
			__sync_fetch_and_add(&h->statistics[LEARNED_NO_ROOM], 1);
			return 0;
		}
	}
	slot = learned_take(dynamic_name(w), w->now_ms);
	e = learned_at(table, slot);
	if (!e) {
		learned_dismiss(table, w->slot, ~0U);
		__sync_fetch_and_add(&h->statistics[LEARNED_FULL], 1);
		return 0;
	}
	dynamic_fill(w, slot, directory);
	counter = learned_at(table, parent);
	if (counter) {
		e->dynamic.limited = 1;
		e->dynamic.slot = parent;
		e->dynamic.parent = counter->number;
	}
	barrier();
	e->used = 1;
	__sync_fetch_and_add(&h->statistics[LEARNED_MADE], 1);
	return 1;
}

/* Note the packet's flow for the rule in a place of the directory; 0 where that can't be. */
__noinline int dynamic_note(struct walk *w, __u32 place, __u32 directory)
{
	__u8 *table = learned_table();
	const struct weir_dynamic *d;
	__u64 mask = image_mask();
	struct learned_entry *counter;
	__u32 parent = LEARNED_NONE, noted = 0, slot;
	const __u8 *image;

	if (!w || !table || w->packet.transport == WEIR_TRANSPORT_SHORT)
		return 0;
	image = weir_image(w->slot & 1);
	if (!image)
		return 0;
	d = IMAGE_AT(struct weir_dynamic, image, mask, directory);
	w->rule = *IMAGE_AT(struct weir_dynamic_rule, image, mask,
			    directory + sizeof(*d) + place * sizeof(struct weir_dynamic_rule));
	if (w->rule.limit != DYNAMIC_NO_LIMIT) {
		parent = dynamic_enter(w, d->other, d->parents_max);
		if (parent == LEARNED_NONE)
			return 0;
	}
	slot = LEARNED_NONE;
	if (!(w->learned_bits & DYNAMIC_LOOKED) || w->looked != w->rule.name ||
	    w->learned_bits & DYNAMIC_NOTED)
		slot = dynamic_find(w, w->rule.name);
	if (slot == LEARNED_NONE)
		noted = dynamic_make(w, parent, directory, d->states_max);
	if (!noted) {
		counter = learned_at(table, parent);
		if (counter)
			dynamic_leave((struct learned_header *)table, counter);
	}
	if (slot != LEARNED_NONE)
		noted = dynamic_touch(w, slot, directory);
	if (noted)
		w->learned_bits |= DYNAMIC_NOTED;
	return noted;
}

/* What the state says that was found: enum weir_verdict. */
__noinline int learned_decide(struct walk *w)
{
	__u8 *table = learned_table();
	struct weir_control *c = weir_get_control();
	struct learned_entry *e;
	__u32 verdict;

	if (!w || !table || !c)
		return WEIR_VERDICT_DROP;
	w->deciding = ~0;
	e = learned_at(table, (__u64)w->learned - 1);
	if (!e)
		return WEIR_VERDICT_DROP;
	verdict = e->verdict & 3;
	w->reject = e->reject;
	if (e->generation == c->slot_generation[w->slot & 1]) {
		w->deciding = e->rule;
		weir_count(w->slot, w->packet.hook, e->rule, w->packet.length);
	}
	/* What can't be reset is dropped. */
	if (verdict == WEIR_VERDICT_REJECT && w->reject == WEIR_REJECT_RESET &&
	    (w->packet.transport != WEIR_TRANSPORT_TCP || w->packet.tcp_flags & TCP_RST))
		verdict = WEIR_VERDICT_DROP;
	return verdict;
}

/* Whether the state that was found is of a rule. */
__noinline int dynamic_of(struct walk *w, __u32 rule)
{
	__u8 *table = learned_table();
	struct learned_entry *e;

	if (!w || !table)
		return 0;
	e = learned_at(table, (__u64)w->learned - 1);
	return e && e->rule == rule;
}

/* One of the tests. */
static __always_inline int learned_test(struct walk *w, const struct weir_residual *t)
{
	switch (t->kind) {
	case WEIR_TEST_DYNAMIC_LOOK:
		return dynamic_look(w, t->a, t->at);
	case WEIR_TEST_DYNAMIC_NOTE:
		return dynamic_note(w, t->a, t->at);
	case WEIR_TEST_DYNAMIC_OF:
		return dynamic_of(w, t->a);
	case WEIR_TEST_DYNAMIC_FORGET:
		w->learned_bits = 0;
		return 1;
	}
	return 0;
}

#endif
