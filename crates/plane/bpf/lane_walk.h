/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rules of the packets that go the short way: the first few entries that hold, without tests or
 * operations, and their counters. Says the same as walk.h, in fewer instructions: at a handful of
 * rules these are the whole cost.
 */
#ifndef WEIR_LANE_WALK_H
#define WEIR_LANE_WALK_H

#include "first.h"
#include "walk.h"

#define LANE_STEPS 4		/* entries that are looked at */
#define LANE_RULES 4		/* rules that count with one of them */

/* Whether an entry can't be met here. */
static __always_inline bool lane_is_hard(const struct weir_entry *e)
{
	return e->tests | e->ops | (e->flags & WEIR_FLAG_PROPOSE) || e->rules > LANE_RULES ||
	       e->verdict > WEIR_VERDICT_DROP;
}

/*
 * Whether an entry does nothing but count one rule and decide: accept or drop, which are 1 and 2.
 * What must be 0 is looked at in one, and so are its counts of tests and operations.
 */
static __always_inline bool lane_decides(const struct weir_entry *e)
{
	__u32 wrong = (e->rules ^ 1) | *(const __u32 *)&e->tests | (e->flags & WEIR_FLAG_PROPOSE);

	_Static_assert(__builtin_offsetof(struct weir_entry, tests) % 4 == 0, "one word with ops");
	return !(wrong | ((__u32)(e->verdict - 1) >> 1));
}

/* The verdict of an entry whose word says it; 0: none that can be met here. */
static __always_inline __u32 lane_brief(__u32 word)
{
	__u32 verdict = word >> WEIR_BRIEF_VERDICT;

	_Static_assert(WEIR_BRIEF_VERDICT == WEIR_LANE_DECIDED, "what is decided");
	return verdict == WEIR_BRIEF_HOT_DROP ? 0 : verdict;
}

/*
 * The entries that the packet meets from what lookup_first found on: `entry_at`, where they are, 0
 * for none, or the word of the last. Returns the last one's verdict; 0: the whole way. Of entries
 * that hold, some may lie before the one with which an earlier one goes on; they are left out.
 */
static __always_inline __u32 lane_trail_on(const __u8 *image, __u64 mask,
					   const struct weir_root *root, struct weir_first *f,
					   __u32 entry_at[LANE_STEPS])
{
	__u32 from = 0, last = root->entries - 1;

#pragma clang loop unroll(full)
	for (int i = 0; i < LANE_STEPS; i++) {
		if (f->position >= from) {
			__u32 word = entry_word(image, mask, root, f->position);
			__u32 at = entry_place(root, word);
			const struct weir_entry *e = IMAGE_AT(struct weir_entry, image, mask, at);

			if (word >> WEIR_BRIEF_VERDICT) {
				entry_at[i] = word;
				return lane_brief(word);
			}
			if (lane_is_hard(e))
				return 0;
			entry_at[i] = at;
			if (e->verdict)
				return e->verdict;
			from = e->next_match;
		}
		if (f->beyond)
			return 0;
		f->position = last;
		if (f->rest)
			f->position = IMAGE_U32(image, mask,
						f->positions_at + lowest_bit(f->rest) * 4);
		f->rest &= f->rest - 1;
	}
	return 0;
}

/* What the tables of a root say, in functions that are verified on their own, each with one family. */
static __always_inline __u32 lane_tables(__u32 slot, __u32 root_at, const struct weir_packet *p,
					 __u64 classes, bool v6)
{
	const __u8 *image = weir_image(slot);
	struct weir_control *c = weir_get_control();
	__u64 mask = image_mask();

	if (!c || !image)
		return WEIR_NONE;
	return tables_first(image, mask, IMAGE_AT(struct weir_root, image, mask, root_at), v6, p,
			    classes, c->zero);
}

__noinline __u32 weir_lane_tables4(__u32 slot, __u32 root_at, const struct weir_packet *p,
				   __u64 classes)
{
	return p ? lane_tables(slot & 1, root_at, p, classes, false) : WEIR_NONE;
}

__noinline __u32 weir_lane_tables6(__u32 slot, __u32 root_at, const struct weir_packet *p,
				   __u64 classes)
{
	return p ? lane_tables(slot & 1, root_at, p, classes, true) : WEIR_NONE;
}

/* What a leaf's only chunk says, where it has bounds: in functions too, which have a stack. */
static __always_inline __u32 lane_bounded(__u32 slot, __u32 root_at, const struct weir_packet *p,
					  bool v6)
{
	const __u8 *image = weir_image(slot);
	__u64 mask = image_mask();

	if (!image)
		return WEIR_UNKNOWN;
	return leaf_bounded(image, mask, IMAGE_AT(struct weir_root, image, mask, root_at), v6, p);
}

__noinline __u32 weir_lane_bounded4(__u32 slot, __u32 root_at, const struct weir_packet *p)
{
	return p ? lane_bounded(slot & 1, root_at, p, false) : WEIR_UNKNOWN;
}

__noinline __u32 weir_lane_bounded6(__u32 slot, __u32 root_at, const struct weir_packet *p)
{
	return p ? lane_bounded(slot & 1, root_at, p, true) : WEIR_UNKNOWN;
}

/* Asks the tables of a root, in programs of either family. */
static __always_inline struct weir_asked lane_ask_tables(__u32 slot, __u32 root_at, bool v6,
						   const struct weir_packet *p)
{
	struct weir_asked asked = { .hashed = WEIR_NONE };
	__u64 mask = image_mask();
	const __u8 *image;
	__u32 hashed;

	if (weir_may(WEIR_FEATURE_BOUNDS))
		asked.hashed = v6 ? weir_lane_bounded6(slot, root_at, p) :
				    weir_lane_bounded4(slot, root_at, p);
	if (!weir_may(WEIR_FEATURE_TABLES))
		return asked;
	image = weir_image(slot);
	if (!image)
		return asked;
	asked.classes = lookup_classes(image, mask,
				       IMAGE_AT(struct weir_root, image, mask, root_at), p);
	hashed = v6 ? weir_lane_tables6(slot, root_at, p, asked.classes) :
		      weir_lane_tables4(slot, root_at, p, asked.classes);
	asked.hashed = weir_may(WEIR_FEATURE_BOUNDS) ? earlier(hashed, asked.hashed) : hashed;
	return asked;
}

/*
 * lane_trail_on from the root on. `hashed`: see lane_ask_tables. For rows by shared classes the stack
 * has no room here: they are found as others are.
 */
static __always_inline __u32 lane_trail(const __u8 *image, __u64 mask, __u32 root_at, bool v6,
					const struct weir_packet *p, __u32 hashed,
					__u32 entry_at[LANE_STEPS])
{
	const struct weir_asked asked = { .hashed = hashed };
	const struct weir_root *root = IMAGE_AT(struct weir_root, image, mask, root_at);
	struct weir_first f;

	if (!lookup_first(image, mask, root, false, &asked, v6, p, &f))
		return 0;
	return lane_trail_on(image, mask, root, &f, entry_at);
}

/* Counts the rules of one entry; returns the last. */
static __always_inline __u32 lane_count(const __u8 *image, __u64 mask, __u32 slot, __u32 entry_at,
					const struct weir_packet *p)
{
	const struct weir_entry *e = IMAGE_AT(struct weir_entry, image, mask, entry_at);
	__u32 rules, at, rule = entry_at & WEIR_BRIEF_NUMBER;

	if (entry_at >> WEIR_BRIEF_VERDICT) {
		weir_count(slot, p->hook, rule, p->length);
		return rule;
	}
	rules = e->rules;
	at = rule = e->rule;
#pragma clang loop unroll(disable)
	for (int i = 0; i < LANE_RULES; i++) {
		if (i >= rules)
			break;
		if (rules > 1)
			rule = IMAGE_U32(image, mask, at + i * 4);
		weir_count(slot, p->hook, rule, p->length);
	}
	return rule;
}

/*
 * What the rules of a root say about the packet, as WEIR_LANE_DECIDED, and counted; 0: the whole
 * way. `asked`: see lane_ask_tables. Most packets of short lists meet one entry, which decides.
 */
static __always_inline __u32 lane_walk(__u32 slot, __u32 root_at, const struct weir_packet *p,
				       bool v6, const struct weir_asked *asked)
{
	__u32 entry_at[LANE_STEPS] = {}, word, verdict, rule = 0;
	const __u8 *image = weir_image(slot);
	__u64 mask = image_mask();
	const struct weir_root *root;
	const struct weir_entry *e;
	struct weir_first f;

	if (!image)
		return 0;
	root = IMAGE_AT(struct weir_root, image, mask, root_at);
	if (!lookup_first(image, mask, root, weir_may(WEIR_FEATURE_TABLES), asked, v6, p, &f))
		return 0;
	word = entry_word(image, mask, root, f.position);
	if (likely(lane_brief(word))) {
		weir_count(slot, p->hook, word & WEIR_BRIEF_NUMBER, p->length);
		return word;
	}
	e = IMAGE_AT(struct weir_entry, image, mask, entry_place(root, word));
	if (lane_decides(e)) {
		rule = e->rule;
		weir_count(slot, p->hook, rule, p->length);
		return (__u32)e->verdict << WEIR_LANE_DECIDED | rule;
	}
	verdict = lane_trail_on(image, mask, root, &f, entry_at);
	if (!verdict)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < LANE_STEPS; i++) {
		if (entry_at[i])
			rule = lane_count(image, mask, slot, entry_at[i], p);
	}
	return verdict << WEIR_LANE_DECIDED | rule;
}

/* The same as functions, where the stack has no room for it. */
__noinline __u32 weir_lane_walk4(__u32 slot, __u32 root_at, const struct weir_packet *p,
				__u32 hashed, __u64 classes)
{
	const struct weir_asked asked = { .classes = classes, .hashed = hashed };

	return p ? lane_walk(slot & 1, root_at, p, false, &asked) : 0;
}

__noinline __u32 weir_lane_walk6(__u32 slot, __u32 root_at, const struct weir_packet *p,
				__u32 hashed, __u64 classes)
{
	const struct weir_asked asked = { .classes = classes, .hashed = hashed };

	return p ? lane_walk(slot & 1, root_at, p, true, &asked) : 0;
}

#endif
