/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What became of packets under a policy of IPFilter, for `ipfstat`: what goes the whole way is
 * counted in the memory of the place that it has taken, which is nobody else's meanwhile. What goes
 * the short way counts at rules alone; plane::tally adds that up. A place counts for one policy.
 */
#ifndef WEIR_TALLY_H
#define WEIR_TALLY_H

#include "maps.h"
#include "walk.h"

FLAT_ARRAY(tallies, WEIR_SCRATCH_COUNT, sizeof(struct weir_tally));

#if defined(WEIR_LEARNED) && !defined(WEIR_DYNAMIC)
/* Whether a packet can be short: then IPFilter's view of it says. */
static __always_inline bool tally_may_be_short(const struct weir_packet *p)
{
	if (p->transport == WEIR_TRANSPORT_SHORT || p->fragment == WEIR_FRAGMENT_LATER)
		return true;
	/* Of the last, a chain of headers that is cut short has nothing behind it. */
	return p->proto == IPPROTO_ICMP || p->proto == IPPROTO_ICMPV6 || p->proto == IPPROTO_AH ||
	       (p->proto == IPPROTO_UDP && p->transport == WEIR_TRANSPORT_NONE) ||
	       p->proto == IPPROTO_NONE;
}
#endif

/* What was noted on the packet's way. Verified on its own. */
__noinline int weir_tally_noted(struct walk *w, __u32 place, __u32 accepted)
{
	struct weir_tally *t;
	__u32 out;

	if (!w)
		return 0;
	place &= WEIR_SCRATCH_COUNT - 1;
	t = bpf_map_lookup_elem(&tallies, &place);
	if (!t)
		return 0;
	out = w->packet.hook != WEIR_HOOK_PREROUTING;
	for (int i = 0; i < WEIR_NOTED_MAX; i++)
		t->noted[i][out & 1] += w->noted[i];
	if (w->noted[WEIR_NOTED_LOGGED])
		t->logged[!!accepted][out & 1]++;
	if (accepted)
		return 0;
	if (w->noted[WEIR_NOTED_REFUSED]) {
		__u32 state = !!w->noted[WEIR_NOTED_STATE_LOST];

		t->refused[state][out & 1]++;
	}
#if defined(WEIR_LEARNED) && !defined(WEIR_DYNAMIC)
	if (w->learned_bits & LEARNED_OVERLAP)
		t->overlaps[out & 1]++;
#endif
	return 0;
}

static __always_inline bool tally_is_noted(const struct walk *w)
{
	const __u64 *noted = (const __u64 *)w->noted;

	_Static_assert(sizeof(w->noted) == 16 && __builtin_offsetof(struct walk, noted) % 8 == 0,
		       "two words");
	return noted[0] | noted[1];
}

/* The packet that a place was taken for has its verdict. */
static __always_inline void tally(const struct weir_control *c, struct weir_scratch *s, __u32 place,
				  bool accepted)
{
	struct walk *w = (struct walk *)s->walk;
	__u32 generation = c->slot_generation[w->slot & 1], hook = w->packet.hook, out;
	struct weir_tally *t;

	if (!(c->slot_hooks[w->slot & 1] & WEIR_POLICY_ANSWERS_PASS) || hook == WEIR_HOOK_INPUT ||
	    hook == WEIR_HOOK_POSTROUTING)
		return;
	t = bpf_map_lookup_elem(&tallies, &place);
	if (!t)
		return;
	if (t->generation != generation) {
		/* Packets of the policy before may still be on their way. */
		if ((w->slot ^ c->active) & 1)
			return;
		__builtin_memset(t, 0, sizeof(*t));
		t->generation = generation;
	}
	out = hook != WEIR_HOOK_PREROUTING;
	t->packets[accepted][w->packet.family == 6][out]++;
#if defined(WEIR_LEARNED) && !defined(WEIR_DYNAMIC)
	if (tally_may_be_short(&w->packet) && !w->noted[WEIR_NOTED_BAD]) {
		learned_see(w);
		if (w->view.attributes & IPF_SHORT)
			w->noted[WEIR_NOTED_SHORT] = 1;
	}
#endif
#if defined(WEIR_LEARNED) && !defined(WEIR_DYNAMIC)
	if (w->seen.wrong_sum && w->packet.proto == IPPROTO_TCP) {
		learned_see(w);
		t->wrong_tcp_sums[out] += w->view.wrong_sum;
	}
#endif
	/* Dropped in front of the lists: policy::dialect::ipf::lower::around. */
	if (!accepted && w->packet.transport == WEIR_TRANSPORT_SHORT)
		w->noted[WEIR_NOTED_BAD] = 1;
	if (tally_is_noted(w))
		weir_tally_noted(w, place, accepted);
}

#endif
