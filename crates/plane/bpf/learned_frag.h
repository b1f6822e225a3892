/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Datagrams whose fragments are remembered (`keep frags`): the verdict of one fragment for the
 * rest. Twin of policy's eval::ipf::frag. Entries are in the table of states, with `used` 2:
 *
 *	ports		the identification
 *	interfaces[0]	the interface
 *	machine		ends[0].end: where the first fragment's data ends, ends[0].max_end: where the
 *			next fragment should begin (units of 8 bytes); from_syn: the first was seen
 */
#ifndef WEIR_LEARNED_FRAG_H
#define WEIR_LEARNED_FRAG_H

#include "learned_table.h"
#include "learned_view.h"

#define LEARNED_FRAGMENT_TRIES 4
#define LEARNED_COPIED 0x00ffff00	/* options that every fragment repeats (RFC 791) */

/* Whether the policy checks sources, and the packet's is best reached by another interface. */
static __always_inline bool learned_has_bad_source(struct walk *w)
{
	const __u8 *image = weir_image(w->slot & 1);
	const struct weir_header *header;

	if (!image || w->view.out)
		return false;
	header = IMAGE_AT(struct weir_header, image, image_mask(), 0);
	return header->features & WEIR_FEATURE_BAD_SRC && !test_route_back(w, WEIR_REVERSE_PATH, 0);
}

/* Fill in the packet's view; whether states are any matter of it. */
static __always_inline bool learned_see(struct walk *w)
{
	if (!(w->learned_bits & LEARNED_VIEWED)) {
		__builtin_memset(&w->view, 0, sizeof(w->view));
		ipf_see(&w->seen, &w->packet, &w->view, 0);
		if (weir_may(WEIR_FEATURE_BAD_SRC) && learned_has_bad_source(w))
			w->view.attributes |= IPF_BAD_SRC;
		w->learned_bits |= LEARNED_VIEWED;
	}
	return !(w->view.attributes & IPF_UNTRACKABLE);
}

/* One of struct weir_lifetimes. */
static __always_inline __u64 learned_lifetime_of(__u32 slot, __u32 lifetimes_at, __u32 number)
{
	const __u8 *image = weir_image(slot & 1);

	return image ? IMAGE_U64(image, image_mask(), lifetimes_at + number * 8) : 0;
}

/* The newest entry of the packet's datagram, or LEARNED_NONE. */
static __always_inline __u32 learned_datagram(struct walk *w)
{
	__u8 *table = learned_table();
	struct learned_search *s;
	const struct weir_packet *p;

	if (!w || !table)
		return LEARNED_NONE;
	p = &w->packet;
	/* Not on the stack, which is full in the deepest calls. */
	s = &w->search;
	s->below = ~0ULL;
	s->count = 1;
	s->now_ms = w->now_ms;
	s->names[0] = learned_datagram_name(p, w->view.id);
	for (int i = 0; i < LEARNED_FRAGMENT_TRIES; i++) {
		struct learned_entry *e;

		if (!learned_next(s))
			break;
		e = learned_at(table, s->slot);
		if (e && e->used == 2 && e->family == p->family && e->proto == p->proto &&
		    (e->src_port | (__u32)e->dst_port << 16) == w->view.id &&
		    !((e->src[0] ^ p->src[0]) | (e->src[1] ^ p->src[1]) | (e->dst[0] ^ p->dst[0]) |
		      (e->dst[1] ^ p->dst[1])) &&
		    e->interfaces[0] == w->view.interface &&
		    e->options[0] == (w->view.options & LEARNED_COPIED) &&
		    e->classes == w->view.classes)
			return s->slot;
	}
	return LEARNED_NONE;
}

/* What is known of a fragment: 1 when that decides, with w->learned or LEARNED_OVERLAP. */
__noinline int learned_fragment(struct walk *w)
{
	__u8 *table = learned_table();
	struct learned_machine *m;
	struct learned_entry *e;
	__u32 slot, at;

	if (!w || !table || w->view.attributes & (IPF_SHORT | IPF_BAD))
		return 0;
	slot = learned_datagram(w);
	e = learned_at(table, slot);
	if (!e)
		return 0;
	m = &e->machine;
	at = w->packet.fragment_offset;
	if (m->from_syn) {
		if (!at)
			return 0;
		if (m->ends[0].end && at < m->ends[0].end) {
			w->learned_bits |= LEARNED_OVERLAP;
			return 1;
		}
	} else if (!at) {
		m->from_syn = 1;
	}
	if (at == m->ends[0].max_end)
		m->ends[0].max_end = at + w->view.data / 8;
	else if (m->strict)
		return 0;
	w->learned = slot + 1;
	return 1;
}

/* Remember a fragment's datagram, with the verdict of w->learner. */
__noinline int learned_keep(struct walk *w, __u32 number, __u32 generation)
{
	__u8 *table = learned_table();
	struct learned_header *h = (struct learned_header *)table;
	const struct weir_packet *p;
	struct learned_entry *e;
	__u32 slot, v6, strict;

	if (!w || !table)
		return 0;
	p = &w->packet;
	strict = !!(w->learner.flags & WEIR_LEARN_FRAGMENTS_STRICT);
	if (!(w->view.attributes & IPF_FRAG))
		return 0;
	/* Taken back when it is remembered. */
	w->noted[WEIR_NOTED_FRAGMENT_LOST]++;
	if (w->view.attributes & IPF_BAD ||
	    (strict && p->fragment_offset) || learned_datagram(w) != LEARNED_NONE)
		return 0;
	slot = learned_take(learned_datagram_name(p, w->view.id), w->now_ms);
	e = learned_at(table, slot);
	if (!e)
		return 0;
	v6 = p->family == 6;
	__builtin_memset(&e->expires_ms, 0, sizeof(*e) - 64);
	e->src[0] = p->src[0];
	e->src[1] = p->src[1];
	e->dst[0] = p->dst[0];
	e->dst[1] = p->dst[1];
	e->src_port = w->view.id;
	e->dst_port = w->view.id >> 16;
	e->family = p->family;
	e->proto = p->proto;
	e->rule = w->learner.rule;
	e->flags = w->learner.flags;
	e->verdict = w->learner.verdict[v6];
	e->reject = w->learner.reject[v6];
	e->classes = w->view.classes;
	e->options[0] = w->view.options & LEARNED_COPIED;
	e->interfaces[0] = w->view.interface;
	e->machine.strict = strict;
	e->machine.from_syn = !p->fragment_offset;
	if (!p->fragment_offset)
		e->machine.ends[0].end = w->view.data / 8;
	e->machine.ends[0].max_end = p->fragment_offset + w->view.data / 8;
	e->learner = number;
	e->generation = generation;
	e->number = __sync_fetch_and_add(&h->next_number, 1) + 1;
	__sync_fetch_and_add(&h->fragments, 1);
	learned_until(table, e, w->now_ms +
			      learned_lifetime_of(w->slot, w->lifetimes_at, LIFETIME_FRAGMENT));
	barrier();
	e->used = 2;
	w->noted[WEIR_NOTED_FRAGMENT_LOST]--;
	w->noted[WEIR_NOTED_FRAGMENT]++;
	return 1;
}

/* A state was made for a fragment within a limit of connections. */
static __always_inline void learned_keep_of_learner(struct walk *w)
{
	struct weir_control *c = weir_get_control();

	if (c && w->packet.fragment != WEIR_FRAGMENT_WHOLE)
		learned_keep(w, 0, c->slot_generation[w->slot & 1]);
}

/* A fragment belongs to a state, whose rule said `keep frags`. */
static __always_inline void learned_keep_of_state(struct walk *w, __u8 *table)
{
	struct learned_entry *e = learned_at(table, (__u64)w->learned - 1);
	__u32 v6 = w->packet.family == 6;

	if (!e || e->verdict != WEIR_VERDICT_ACCEPT || !(e->flags & WEIR_LEARN_FRAGMENTS))
		return;
	w->learner.rule = e->rule;
	w->learner.flags = e->flags;
	w->learner.verdict[v6] = e->verdict;
	w->learner.reject[v6] = e->reject;
	learned_keep(w, e->learner, e->generation);
}

#endif
