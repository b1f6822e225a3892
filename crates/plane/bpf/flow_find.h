/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where in the table a flow is. A line has 64 slots and a byte of tag for each; a name has a slot
 * of its line at which it likes to be. Twin of engine::flow::table.
 */
#ifndef WEIR_FLOW_FIND_H
#define WEIR_FLOW_FIND_H

#include "flow_name.h"

#define FLOW_EQUAL_TAGS 3		/* of the eight slots of a word */

/* Bytes of `word` that equal `tag`, as their highest bits. */
static __always_inline __u64 flow_matching(__u64 word, __u8 tag)
{
	__u64 low = 0x7f7f7f7f7f7f7f7fULL, x = word ^ tag * 0x0101010101010101ULL;

	return ~(((x & low) + low) | x | low);
}

/* Number of the lowest byte that is marked; `hits` is not 0. */
static __always_inline __u32 flow_lowest(__u64 hits)
{
	__u64 lowest = (hits & -hits) >> 7;

	return lowest * 0x0001020304050607ULL >> 56 & 7;
}

struct flow_place {
	__u32 first;	/* first of the line's eight tag words */
	__u32 home;	/* the one at which to begin */
	__u32 within;	/* slot of it at which to begin */
	__u8 tag;
};

static __always_inline void flow_place_of(__u64 pair, __u32 ports, __u16 meta,
					  struct flow_place *place)
{
	__u64 hash = hash_words(pair, ports | (__u64)meta << 32);
	__u64 line = (hash & 0xffffffff) * flow_lines() >> 32;
	__u8 tag = hash >> 32;

	place->first = line * 8;
	place->home = hash >> 40 & 7;
	place->within = hash >> 43 & 7;
	place->tag = tag ? tag : 1;
}

static __always_inline volatile __u64 *flow_tags(__u8 *table, __u64 word)
{
	FLOW_ONE_COPY(word);
	if (word >= flow_lines() * 8)
		return NULL;
	return (volatile __u64 *)(table + word * 8);
}

/* Whether a slot has this name; one branch, because this is the inner loop. */
static __always_inline bool flow_named(const struct flow_entry *e, const struct flow_ref *ref)
{
	__u64 wrong = e->pair ^ ref->pair;

	wrong |= e->ports ^ ref->ports;
	wrong |= e->meta ^ ref->meta;
	wrong |= ~e->control & FLOW_USED;
	return !wrong;
}

/*
 * The slot of a name, living or not, or FLOW_NO_SLOT. Unrolled, because the verifier seldom sees
 * that two ways through a loop have met again. A word never has more equal tags than are looked
 * at: see flow_free_slot.
 */
static __always_inline __u32 flow_find(__u8 *table, const struct flow_ref *ref,
				       const struct flow_place *place)
{
#pragma clang loop unroll(full)
	for (__u32 step = 0; step < 8; step++) {
		__u32 word = place->first + (place->home ^ step);
		volatile __u64 *tags = flow_tags(table, word);
		__u64 hits;

		if (!tags)
			return FLOW_NO_SLOT;
		hits = flow_matching(*tags, place->tag);
#pragma clang loop unroll(full)
		for (int i = 0; i < FLOW_EQUAL_TAGS; i++) {
			__u32 slot = word * 8 + flow_lowest(hits);
			struct flow_entry *e;

			if (!hits)
				break;
			e = flow_entry_at(table, slot);
			if (e && flow_named(e, ref))
				return slot;
			hits &= hits - 1;
		}
	}
	return FLOW_NO_SLOT;
}

/* The same, as a function that is verified once: few packets need it, see flow_guess. */
__noinline int flow_seek(const struct flow_ref *ref)
{
	__u8 *table = weir_flows();
	struct flow_place place;

	if (!ref || !table)
		return FLOW_NO_SLOT;
	flow_place_of(ref->pair, ref->ports, ref->meta, &place);
	return flow_find(table, ref, &place);
}

/*
 * The slot of a name when it is where it likes to be, or beside. So are nine flows of ten in a
 * table that is full by a quarter, and it needs no tags: one miss less.
 */
static __always_inline __u32 flow_guess(__u8 *table, const struct flow_ref *ref)
{
	struct flow_place place;
	struct flow_entry *e;
	__u32 slot;

	flow_place_of(ref->pair, ref->ports, ref->meta, &place);
	slot = (place.first + place.home) * 8 + place.within;
	e = flow_entry_at(table, slot);
	if (e && flow_named(e, ref))
		return slot;
	slot ^= 1;
	e = flow_entry_at(table, slot);
	return e && flow_named(e, ref) ? slot : FLOW_NO_SLOT;
}

#endif
