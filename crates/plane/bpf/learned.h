/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * States that rules made: the tests WEIR_TEST_LEARNED, WEIR_TEST_LEARN, WEIR_TEST_OUT_OF_WINDOW and
 * what WEIR_FLAG_AS_LEARNED decides. Twin of policy's eval::ipf::state and eval::learned. Included
 * by walk.h, only in programs for policies that learn.
 */
#ifndef WEIR_LEARNED_H
#define WEIR_LEARNED_H

/* Bits of walk.learned_bits. */
#define LEARNED_OUT_OF_WINDOW 1
#define LEARNED_VIEWED 2	/* the view is filled in */
#define LEARNED_OVERLAP 4	/* a fragment that overlaps the first one */
#define LEARNED_WAITS 8		/* an ICMP error whose state, at w->search, asks a group */

#include "learned_table.h"
#include "learned_tcp.h"
#include "learned_view.h"
#include "learned_quoted.h"
#include "learned_frag.h"
#include "learned_limit.h"

/* Entries of one conversation that a packet is tried on: all that its three names have places for. */
#define LEARNED_TRIES (3 * 2 * LEARNED_LINE_SLOTS)

/* Attributes that must repeat within one direction. */
#define LEARNED_REPEATED (IPF_IPOPTS | IPF_MCAST | IPF_BCAST | IPF_MBCAST | IPF_BAD_SRC | \
			  IPF_LOWTTL | IPF_V6HDRS | IPF_AH)
#define LEARNED_REPEATED_QUOTED (IPF_IPOPTS | IPF_AH)
#define LEARNED_NOTED (1u << 31)

/* What stands for ports in names: those of TCP and UDP, the identifier of echo and the like. */
static __always_inline __u32 learned_ports(const struct weir_packet *p)
{
	__u32 kind = p->src_port >> 8;

	if (learned_has_ports(p->proto))
		return p->src_port | (__u32)p->dst_port << 16;
	if (p->proto == IPPROTO_ICMP && p->family == 4)
		return p->dst_port;
	if (p->proto == IPPROTO_ICMPV6 && p->family == 6 && (kind == 128 || kind == 129))
		return p->dst_port;
	return 0;
}

static __always_inline __u32 learned_noted(const struct ipf_view *v, __u8 proto)
{
	return (v->attributes & LEARNED_REPEATED) | (learned_has_ports(proto) ? LEARNED_NOTED : 0);
}

static __always_inline bool learned_same(const __u64 *a, const __u64 *b)
{
	return !((a[0] ^ b[0]) | (a[1] ^ b[1]));
}

/*
 * Whether a packet fits addresses, ports, interface and options of an entry: 0, or 1 for forward,
 * 2 for reverse. What is seen for the first time is fixed. The caller has the lock.
 */
__noinline int learned_matches(struct learned_entry *e, const struct weir_packet *p,
			       const struct ipf_view *v, __u32 compared)
{
	__u32 reverse, slot, noted, seen, known, out;
	const __u64 *near, *far;

	if (!e || !p || !v)
		return 0;
	if (e->proto != p->proto || e->family != p->family)
		return 0;
	out = v->out & 1;
	reverse = !learned_same(p->dst, e->dst);
	if (learned_has_ports(e->proto))
		reverse |= p->src_port != e->src_port || p->dst_port != e->dst_port;
	slot = WITHIN(out * 2 + reverse, 3);
	known = e->interfaces[slot];
	if (known && known != LEARNED_ANY_INTERFACE && known != v->interface)
		return 0;
	near = reverse ? p->dst : p->src;
	far = reverse ? p->src : p->dst;
	if (!learned_same(near, e->src) || !(e->open || learned_same(far, e->dst)))
		return 0;
	if (learned_has_ports(e->proto) && reverse &&
	    (p->src_port != e->dst_port || p->dst_port != e->src_port))
		return 0;
	noted = learned_noted(v, p->proto);
	seen = e->seen[out][reverse & 1];
	compared |= LEARNED_NOTED;
	if (seen && (seen & compared) != (noted & compared))
		return 0;
	if ((!reverse || e->reply_options) &&
	    (e->options[reverse & 1] != v->options || e->headers[reverse & 1] != (v->headers & ~IPF_HEADER_FRAG)))
		return 0;
	if (e->classes != v->classes)
		return 0;
	if (e->open && (reverse || !(v->attributes & IPF_MBCAST))) {
		e->dst[0] = far[0];
		e->dst[1] = far[1];
		e->open = 0;
	}
	if (!seen) {
		e->seen[out][reverse & 1] = noted;
		if (reverse && !e->reply_options) {
			e->reply_options = 1;
			e->options[1] = v->options;
			e->headers[1] = v->headers & ~IPF_HEADER_FRAG;
		}
	}
	if (!known)
		e->interfaces[slot] = v->interface;
	return 1 + reverse;
}

/* Whether an ICMP packet is the query again or its reply. */
static __always_inline bool learned_pairs(const struct learned_entry *e,
					  const struct weir_packet *p, bool reverse)
{
	__u32 kind = e->src_port, wanted = kind, is = p->src_port >> 8;
	bool v4 = e->family == 4;

	if (p->transport != WEIR_TRANSPORT_ICMP)
		return false;
	if (reverse) {
		if (v4)
			wanted = kind == 8 ? 0 : kind + 1;
		else
			wanted = kind + 1;
	}
	return is == wanted && (!(v4 || kind == 128) || p->dst_port == e->dst_port);
}

/* How long an entry lives from now on, in milliseconds. */
static __always_inline __u64 learned_lifetime(__u32 slot, __u32 lifetimes_at,
					      const struct learned_entry *e, bool reverse)
{
	__u32 age = e->age[reverse & 1], number = LIFETIME_OTHER;

	if (e->age[0] != ~0U)
		return (__u64)age * 1000;
	switch (e->proto) {
	case IPPROTO_TCP:
		number = e->machine.queue & 15;
		break;
	case IPPROTO_UDP:
		number = LIFETIME_UDP + reverse;
		break;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		number = LIFETIME_ICMP + reverse;
		break;
	}
	return learned_lifetime_of(slot, lifetimes_at, number);
}

static __always_inline void learned_count(struct learned_entry *e, const struct weir_packet *p,
					  bool reverse, bool out)
{
	__u32 at = (reverse * 2 + out) & 3;

	e->counts[at][0]++;
	e->counts[at][1] += p->length;
}

/* Whether an entry is of another identifier, where that is part of its name. */
static __always_inline bool learned_misnamed(const struct learned_entry *e,
					     const struct weir_packet *p)
{
	bool named = e->family == 4 || e->src_port == 128;

	if (e->proto != IPPROTO_ICMP && e->proto != IPPROTO_ICMPV6)
		return false;
	return (named ? e->dst_port : 0) != learned_ports(p);
}

/* Whether a packet belongs to the entry in a slot: 0, enum learned_fit. */
__noinline int learned_try(struct walk *w, __u32 slot)
{
	__u8 *table = learned_table();
	struct learned_entry *e;
	int way, fit = 0;
	bool held, reverse;

	if (!w || !table)
		return 0;
	e = learned_at(table, slot);
	if (!e)
		return 0;
	held = learned_lock(e);
	if (e->used == 1 && e->expires_ms > w->now_ms && !learned_misnamed(e, &w->packet) &&
	    (way = learned_matches(e, &w->packet, &w->view, LEARNED_REPEATED))) {
		reverse = way == 2;
		fit = LEARNED_INSIDE;
		if (w->packet.proto == IPPROTO_TCP)
			fit = w->packet.transport == WEIR_TRANSPORT_TCP ?
				      learned_step(&e->machine, &w->packet, reverse) :
				      LEARNED_WRONG;
		else if ((w->packet.proto == IPPROTO_ICMP || w->packet.proto == IPPROTO_ICMPV6) &&
			 !learned_pairs(e, &w->packet, reverse))
			fit = LEARNED_WRONG;
		if (fit == LEARNED_INSIDE) {
			learned_count(e, &w->packet, reverse, w->view.out);
			if (e->proto != IPPROTO_TCP || !e->machine.kept_time)
				learned_until(table, e, w->now_ms + learned_lifetime(w->slot,
								      w->lifetimes_at, e, reverse));
		}
	}
	learned_unlock(e, held);
	return fit;
}

#include "learned_error.h"

/* Entries of the packet's conversation. */
__noinline int learned_look_up(struct walk *w)
{
	struct learned_search s = {};

	if (!w)
		return 0;
	s.now_ms = w->now_ms;
	learned_search_begin(&s, &w->packet, learned_ports(&w->packet));
	for (int i = 0; i < LEARNED_TRIES; i++) {
		int fit;

		if (!learned_next(&s))
			break;
		fit = learned_try(w, s.slot);
		if (fit == LEARNED_INSIDE) {
			w->learned = s.slot + 1;
			return 1;
		}
		if (fit == LEARNED_OUTSIDE) {
			w->learned_bits |= LEARNED_OUT_OF_WINDOW;
			learned_note(learned_table(), LEARNED_OUT_OF_WINDOW_SEEN);
		}
	}
	return 0;
}

/* Whether the packet belongs to a state, which notes it. */
__noinline int learned_look(struct walk *w)
{
	__u8 *table = learned_table();
	struct weir_control *c = weir_get_control();
	struct learned_header *h = (struct learned_header *)table;
	const struct weir_packet *p;

	if (!w || !table || !c)
		return 0;
	w->learned = 0;
	w->learned_bits &= LEARNED_VIEWED;
	p = &w->packet;
	w->limited = 0;
	if (!h->count && !h->fragments)
		return 0;
	learned_see(w);
	if (w->view.attributes & IPF_FRAG && h->fragments && learned_fragment(w))
		return 1;
	if (!h->count || !learned_see(w))
		return 0;
	if (!learned_look_up(w) &&
	    (p->transport != WEIR_TRANSPORT_ICMP || !learned_quoted(w) ||
	     !learned_of_error(w, 0, 0))) {
		if (!limit_known(w, c->slot_generation[w->slot & 1]))
			return 0;
		if (w->share && w->limited == WEIR_VERDICT_ACCEPT)
			learned_keep_of_learner(w);
		return 1;
	}
	w->learned_bits &= LEARNED_VIEWED;
	if (w->view.attributes & IPF_FRAG)
		learned_keep_of_state(w, table);
	return 1;
}

/* Why a state can't begin with this packet: enum learned_statistic; 0: it can. */
static __always_inline __u32 learned_may_begin(const struct walk *w)
{
	const struct weir_packet *p = &w->packet;
	__u32 kind = p->src_port >> 8;

	if (w->learned_bits & LEARNED_OUT_OF_WINDOW && !(p->tcp_flags & TCP_SYN))
		return LEARNED_ADD_OOW;
	if (p->proto == IPPROTO_TCP) {
		if (p->transport != WEIR_TRANSPORT_TCP)
			return LEARNED_ADD_SMALL;
		return p->tcp_flags & TCP_RST ? LEARNED_ADD_RESET : 0;
	}
	if (p->proto != IPPROTO_ICMP && p->proto != IPPROTO_ICMPV6)
		return 0;
	if (p->transport != WEIR_TRANSPORT_ICMP)
		return LEARNED_ADD_NO_QUERY;
	if (p->family == 4 ? kind == 8 || kind == 13 || kind == 15 || kind == 17 :
			     kind == 128 || kind == 130 || kind == 133 || kind == 135 ||
				     kind == 139)
		return 0;
	return LEARNED_ADD_NO_QUERY;
}

/* Fill in an entry that nobody sees yet. */
__noinline int learned_fill(struct walk *w, struct learned_entry *e)
{
	const struct weir_learner *l;
	const struct weir_packet *p;
	const struct ipf_view *v;
	__u32 out, v6;

	if (!w || !e)
		return 0;
	l = &w->learner;
	p = &w->packet;
	v = &w->view;
	out = v->out & 1;
	v6 = p->family == 6;
	__builtin_memset(&e->expires_ms, 0, sizeof(*e) - 64);
	e->src[0] = p->src[0];
	e->src[1] = p->src[1];
	e->dst[0] = p->dst[0];
	e->dst[1] = p->dst[1];
	e->src_port = p->src_port;
	e->dst_port = p->dst_port;
	if (p->transport == WEIR_TRANSPORT_ICMP)
		e->src_port = p->src_port >> 8;
	e->family = p->family;
	e->proto = p->proto;
	e->open = v6 ? p->proto == IPPROTO_ICMPV6 && p->dst[0] >> 56 == 0xff :
		       !!(v->attributes & (IPF_MCAST | IPF_BCAST | IPF_MBCAST));
	e->rule = l->rule;
	e->flags = l->flags;
	e->verdict = l->verdict[v6];
	e->reject = l->reject[v6];
	e->icmp_head = l->icmp_head;
	e->age[0] = l->age[0];
	e->age[1] = l->age[1];
	e->classes = v->classes;
	e->options[0] = v->options;
	e->headers[0] = v->headers & ~IPF_HEADER_FRAG;
	e->made_s = w->now_ms / 1000;
	e->interfaces[out * 2] = l->flags & WEIR_LEARN_ANY_INTERFACE ? LEARNED_ANY_INTERFACE :
								       v->interface;
	e->seen[out][0] = learned_noted(v, p->proto);
	e->machine.strict = !!(l->flags & WEIR_LEARN_STRICT);
	e->machine.loose = !!(l->flags & WEIR_LEARN_LOOSE);
	if (p->transport == WEIR_TRANSPORT_TCP)
		learned_begin(&e->machine, p);
	learned_count(e, p, false, out);
	return 1;
}

/*
 * Make a state of w->learner, which has a number, for a packet that has been seen; whether that was
 * possible. LEARNED_AGAIN: not within the limits; perhaps when nothing counts that is over.
 */
__noinline int learned_make(struct walk *w, __u32 number)
{
	__u8 *table = learned_table();
	struct weir_control *c = weir_get_control();
	struct learned_header *h = (struct learned_header *)table;
	struct learned_entry *e;
	__u32 slot;
	__u64 name;

	if (!w || !table || !c)
		return 0;
	if (w->view.attributes & IPF_UNTRACKABLE) {
		learned_note(table, LEARNED_ADD_BAD);
		return 0;
	}
	slot = learned_may_begin(w);
	if (slot) {
		learned_note(table, slot);
		return 0;
	}
	if (!learned_admit(w->slot, number, w->learner.limit, w->learner.states_max))
		return LEARNED_AGAIN;
	if (!(w->learner.flags & WEIR_LEARN_LIMITED))
		w->share = 0;
	if (w->learner.flags & WEIR_LEARN_SOURCES && !limit_host(w)) {
		learned_dismiss(table, w->slot, number);
		return LEARNED_HOSTS_AGAIN;
	}
	name = learned_name(w->packet.src, w->packet.dst, learned_ports(&w->packet),
			    w->packet.proto, w->packet.family);
	if (w->packet.family == 6 ?
		    w->packet.proto == IPPROTO_ICMPV6 && w->packet.dst[0] >> 56 == 0xff :
		    !!(w->view.attributes & (IPF_MCAST | IPF_BCAST | IPF_MBCAST))) {
		name = learned_open_name(w->packet.src, learned_ports(&w->packet),
					 w->packet.proto, w->packet.family);
		__sync_fetch_and_add(&h->open, 1);
	}
	slot = learned_take(name, w->now_ms);
	e = learned_at(table, slot);
	if (!e) {
		learned_dismiss(table, w->slot, number);
		learned_unshare(w);
		learned_note(table, LEARNED_FULL);
		return 0;
	}
	learned_fill(w, e);
	e->learner = number;
	e->generation = c->slot_generation[w->slot & 1];
	e->number = __sync_fetch_and_add(&h->next_number, 1) + 1;
	learned_until(table, e, w->now_ms + learned_lifetime(w->slot, w->lifetimes_at, e,
							    false));
	learned_link(w, slot, e->generation);
	barrier();
	e->used = 1;
	learned_note(table, LEARNED_MADE);
	switch (e->proto) {
	case IPPROTO_TCP:
		learned_note(table, LEARNED_MADE_TCP);
		break;
	case IPPROTO_UDP:
		learned_note(table, LEARNED_MADE_UDP);
		break;
	case IPPROTO_ICMP:
		learned_note(table, LEARNED_MADE_ICMP);
		break;
	case IPPROTO_ICMPV6:
		learned_note(table, LEARNED_MADE_ICMP6);
		break;
	}
	return 1;
}

/*
 * Make a state, and remember a fragment's datagram, as a learner says (its number and its record in
 * the image); 0 where a state can't be made.
 */
__noinline int learned_learn(struct walk *w, __u32 number, __u32 record_at)
{
	struct weir_control *c = weir_get_control();
	const __u8 *image;
	__u32 flags, made;

	if (!w || !c)
		return 0;
	image = weir_image(w->slot & 1);
	if (!image)
		return 0;
	w->learner = *IMAGE_AT(struct weir_learner, image, image_mask(), record_at);
	flags = w->learner.flags;
	/* Not in learned_make: calls are too deep there. */
	learned_see(w);
	if (flags & WEIR_LEARN_LIMITED) {
		if (!limit_of_rule(w, number, record_at, c->slot_generation[w->slot & 1]))
			return 0;
		if (w->share && w->limited == WEIR_VERDICT_ACCEPT)
			learned_keep_of_learner(w);
		return 1;
	}
	made = flags & WEIR_LEARN_STATE ? limit_make(w, number) : 1;
	if (w->packet.fragment == WEIR_FRAGMENT_WHOLE)
		return made;
	if (made ? flags & (WEIR_LEARN_STATE | WEIR_LEARN_FRAGMENTS) :
		   (flags & WEIR_LEARN_FRAGMENTS) && flags & WEIR_LEARN_FRAGMENTS_ANYWAY) {
		learned_keep(w, number, c->slot_generation[w->slot & 1]);
	}
	return made;
}

/* A packet is logged; false where it should have been, and can't be. */
static __always_inline bool learned_log(struct walk *w, __u32 rule, __u32 flags)
{
	struct weir_report r = {
		.now_ms = w->now_ms,
		.kind = WEIR_EVENT_LOG,
		.rule = rule,
		.slot = w->slot,
		.mark = w->packet.mark,
	};

	if (!(flags & WEIR_LEARN_LOG))
		return true;
	w->noted[WEIR_NOTED_LOGGED] = 1;
	if (weir_report_event(&w->seen, &w->packet, &r)) {
		w->noted[WEIR_NOTED_RECORD]++;
		return true;
	}
	w->noted[WEIR_NOTED_RECORD_LOST]++;
	if (!(flags & WEIR_LEARN_OR_BLOCK))
		return true;
	w->noted[WEIR_NOTED_UNLOGGED] = 1;
	return false;
}

/* What comes in is answered, and of what leaves only connections of this host. */
static __always_inline bool learned_answers(__u32 hook, __u32 reject, __u8 proto)
{
	if (reject != WEIR_REJECT_RESET)
		return hook == WEIR_HOOK_PREROUTING;
	return proto == IPPROTO_TCP &&
	       (hook == WEIR_HOOK_PREROUTING || hook == WEIR_HOOK_OUTPUT);
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
	if (w->learned_bits & LEARNED_OVERLAP)
		return WEIR_VERDICT_DROP;
	if (w->limited) {
		w->deciding = w->learner.rule;
		w->reject = WEIR_REJECT_RESET;
		if (!learned_log(w, w->deciding, w->learner.flags))
			return WEIR_VERDICT_DROP;
		return w->limited & 3;
	}
	e = learned_at(table, (__u64)w->learned - 1);
	if (!e)
		return WEIR_VERDICT_DROP;
	verdict = e->verdict & 3;
	w->reject = e->reject;
	if (e->generation == c->slot_generation[w->slot & 1]) {
		w->deciding = e->rule;
		if (e->flags & WEIR_LEARN_COUNT)
			weir_count(w->slot, w->packet.hook, e->rule, w->packet.length);
		if (!learned_log(w, e->rule, e->flags))
			return WEIR_VERDICT_DROP;
	}
	/* An answer that can't be given is a drop. */
	if (verdict == WEIR_VERDICT_REJECT &&
	    !learned_answers(w->packet.hook, w->reject, w->packet.proto))
		verdict = WEIR_VERDICT_DROP;
	return verdict;
}

/* What IPFilter's `with` asks for. */
__noinline int learned_with(struct walk *w, __u32 record_at)
{
	const struct weir_ipf_with *with;
	const struct ipf_view *v;
	const __u8 *image;

	if (!w)
		return 0;
	image = weir_image(w->slot & 1);
	if (!image)
		return 0;
	learned_see(w);
	v = &w->view;
	with = IMAGE_AT(struct weir_ipf_with, image, image_mask(), record_at);
	return (v->attributes & with->attributes[0]) == with->attributes[1] &&
	       (v->options & with->options[0]) == with->options[1] &&
	       (v->classes & with->classes[0]) == with->classes[1] &&
	       (v->headers & with->headers[0]) == with->headers[0] &&
	       !(v->headers & with->headers[1]);
}

/* One of the tests. */
static __always_inline int learned_test(struct walk *w, const struct weir_residual *t)
{
	switch (t->kind) {
	case WEIR_TEST_LEARNED:
		w->lifetimes_at = t->at;
		return learned_look(w);
	case WEIR_TEST_LEARN:
		return learned_learn(w, t->a, t->at);
	case WEIR_TEST_IPF_WITH:
		return learned_with(w, t->at);
	case WEIR_TEST_ICMP_HEAD:
		return weir_may(WEIR_FEATURE_ICMP_HEAD) ? learned_icmp_head(w, t->small, t->a) : 0;
	}
	return !!(w->learned_bits & LEARNED_OUT_OF_WINDOW);
}

#endif
