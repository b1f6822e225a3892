/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors about packets of states: the states that they may belong to are tried, the newest
 * first, until one takes it or asks a group (`icmp-head`), which WEIR_TEST_ICMP_HEAD answers for.
 * Twin of Learned::of_error in policy's eval::learned. Included by learned.h.
 */
#ifndef WEIR_LEARNED_ERROR_H
#define WEIR_LEARNED_ERROR_H

/* What learned_try_error is called for. */
enum learned_error {
	LEARNED_ERROR_NEW = 0,
	LEARNED_ERROR_PASSED = 1,	/* its group passes it */
	LEARNED_ERROR_FOUND = 2,	/* a newer state has taken it */
};
#define LEARNED_ASKS 2		/* beside 0 and 1, its answers */

/*
 * Whether the quoted packet is of an entry. What its group passes was found so before, and by that
 * may have fixed the entry's destination: a second look would not be the same.
 */
static __always_inline bool learned_error_fits(struct walk *w, struct learned_entry *e, __u32 why)
{
	if (why == LEARNED_ERROR_PASSED)
		return e->number == w->search.below;
	return (learned_has_ports(e->proto) || w->about.dst_port == e->dst_port) &&
	       learned_matches(e, &w->about, &w->quoted, LEARNED_REPEATED_QUOTED);
}

/* An ICMP error about a packet of the entry in a slot: whether it belongs there. */
__noinline int learned_try_error(struct walk *w, __u32 slot, __u32 why)
{
	struct weir_control *c = weir_get_control();
	__u8 *table = learned_table();
	struct learned_entry *e;
	bool held, of_policy;
	__u32 own, original;
	int fits = 0;

	if (!w || !table || !c)
		return 0;
	e = learned_at(table, slot);
	if (!e)
		return 0;
	held = learned_lock(e);
	if (e->used == 1 && e->expires_ms > w->now_ms && learned_error_fits(w, e, why) &&
	    why != LEARNED_ERROR_FOUND) {
		/* Backward: the quoted packet went from the destination to the source. */
		bool backward = !learned_same(e->src, w->about.src);
		bool out = !w->quoted.out;

		own = ((1 - backward) * 2 + out) & 3;
		original = (backward * 2 + (1 - out)) & 3;
		of_policy = e->generation == c->slot_generation[w->slot & 1];
		/* The group of an earlier policy is gone: then it is as if it had blocked. */
		if (e->icmp_head && why != LEARNED_ERROR_PASSED) {
			fits = weir_may(WEIR_FEATURE_ICMP_HEAD) && of_policy ? LEARNED_ASKS : 0;
			if (!fits)
				learned_note(table, LEARNED_ICMP_BLOCKED);
		} else if (e->flags & WEIR_LEARN_NO_ICMP_ERRORS) {
			learned_note(table, LEARNED_ICMP_BANNED);
		} else if (e->icmp_packets[own] > e->counts[original][0]) {
			learned_note(table, LEARNED_ICMP_TOO_MANY);
		} else {
			learned_note(table, LEARNED_ICMP_HITS);
			e->icmp_packets[own]++;
			learned_count(e, &w->packet, !backward, out);
			fits = 1;
		}
	}
	learned_unlock(e, held);
	return fits;
}

/*
 * The state that an ICMP error belongs to, whose packet is seen. With `goes_on` the rest of the
 * search; `found`: the slot of one that took it, plus 1. Verified on its own, and one function,
 * because calls are as deep as they may be.
 */
__noinline int learned_of_error(struct walk *w, __u32 goes_on, __u32 found)
{
	if (!w)
		return 0;
	if (!goes_on) {
		/* Not on the stack: it goes on when a group has answered. */
		w->search.now_ms = w->now_ms;
		learned_search_begin(&w->search, &w->about, learned_ports(&w->about));
	}
	for (int i = 0; i < LEARNED_TRIES; i++) {
		int fit;

		if (!learned_next(&w->search))
			break;
		/* Those behind the one found fix what they see of it for the first time, too. */
		fit = learned_try_error(w, w->search.slot,
					found ? LEARNED_ERROR_FOUND : LEARNED_ERROR_NEW);
		if (fit == LEARNED_ASKS) {
			w->learned_bits |= LEARNED_WAITS;
			return 0;
		}
		if (fit)
			found = w->search.slot + 1;
	}
	w->learned = found;
	return found != 0;
}

/* One of enum weir_icmp_head. */
__noinline int learned_icmp_head(struct walk *w, __u32 asked, __u32 group)
{
	__u8 *table = learned_table();
	struct learned_entry *e;
	__u32 slot, found = 0;

	if (!w || !table)
		return 0;
	if (asked == WEIR_ICMP_HEAD_REFUSED)
		return w->proposed > WEIR_VERDICT_ACCEPT;
	if (!(w->learned_bits & LEARNED_WAITS))
		return 0;
	slot = w->search.slot;
	e = learned_at(table, slot);
	if (!e)
		return 0;
	if (asked == WEIR_ICMP_HEAD_WAITS)
		return !group || e->icmp_head == group;
	w->learned_bits &= ~LEARNED_WAITS;
	if (asked == WEIR_ICMP_HEAD_BLOCKED)
		learned_note(table, LEARNED_ICMP_BLOCKED);
	if (asked == WEIR_ICMP_HEAD_PASSES && learned_try_error(w, slot, LEARNED_ERROR_PASSED))
		found = slot + 1;
	if (!learned_of_error(w, 1, found))
		return 0;
	w->learned_bits &= LEARNED_VIEWED;
	if (w->view.attributes & IPF_FRAG)
		learned_keep_of_state(w, table);
	return 1;
}

#endif
