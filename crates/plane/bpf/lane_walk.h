/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rules of the packets that go the short way: the first few entries that hold, without tests or
 * operations, and their counters. Says the same as walk.h, in fewer instructions: at a handful of
 * rules these are the whole cost.
 */
#ifndef WEIR_LANE_WALK_H
#define WEIR_LANE_WALK_H

#include "classify.h"
#include "walk.h"

/* Programs with room on the stack spare the verifier: see leaf_of. */
#ifndef LANE_ROOMY
#define LANE_ROOMY 0
#endif
#define LANE_STEPS 4		/* entries that are looked at */
#define LANE_RULES 4		/* rules that count with one of them */

/* What a lookup found: the first position, and where it is known which come after it. */
struct lane_found {
	__u64 rest;		/* terms behind the first */
	__u32 positions_at;	/* of the terms */
	__u32 position;
	bool complete;		/* no entries hold but those of the terms, and the last */
};

#define LANE_WORDS 3

/*
 * The class of an address. A tree is left at the first leaf, unlike in tree_class: most packets of
 * most lists leave it at the first or second byte, and the branches are foreseen.
 */
static __always_inline __u32 lane_class(const __u8 *image, __u64 mask,
					const struct weir_address_map *m, bool v6,
					const __u64 address[2])
{
	__u32 at = m->tree_at, low = address[1], cell;

	if (unlikely(!m->tree))
		return v6 ? search_v6(image, mask, m, address) : search_v4(image, mask, m, low);
	cell = IMAGE_U32(image, mask, at + (m->rows + (low >> 24)) * 4);
	if (cell & 255)
		cell = IMAGE_U32(image, mask, at + ((cell >> 8) + (low >> 16 & 255)) * 4);
	if (cell & 255)
		cell = IMAGE_U32(image, mask, at + ((cell >> 8) + (low >> 8 & 255)) * 4);
	if (cell & 255)
		cell = IMAGE_U32(image, mask, at + ((cell >> 8) + (low & 255)) * 4);
	return cell >> 8;
}

/* As rows_and, for chunks with three rows and with five. */
static __always_inline __u64 lane_rows_and(const __u8 *image, __u64 mask,
					   const struct weir_cursor *cursor, bool five, __u32 at)
{
	__u64 word = IMAGE_U64(image, mask, cursor->rows[0] + at) &
		     IMAGE_U64(image, mask, cursor->rows[1] + at) &
		     IMAGE_U64(image, mask, cursor->rows[2] + at);

	if (five)
		word &= IMAGE_U64(image, mask, cursor->rows[3] + at) &
			IMAGE_U64(image, mask, cursor->rows[4] + at);
	return word;
}

/* The entries of one chunk that hold. False: it takes many words to say. */
static __always_inline bool lane_chunk(const __u8 *image, __u64 mask, __u32 chunk_at, bool v6,
				       const struct weir_packet *p, struct lane_found *f)
{
	const struct weir_chunk *c = IMAGE_AT(struct weir_chunk, image, mask, chunk_at);
	__u32 stride = c->stride, at = 0;
	struct weir_cursor rows;
	bool five;
	__u64 word, summary = 0;

	rows.rows[0] = c->addresses[0].rows_at +
		       stride * lane_class(image, mask, &c->addresses[0], v6, p->src);
	rows.rows[1] = c->addresses[1].rows_at +
		       stride * lane_class(image, mask, &c->addresses[1], v6, p->dst);
	rows.rows[2] = fold_row(image, mask, &c->fold, p);
	rows.rows[3] = rows.rows[4] = 0;
	five = c->rows > 3;
	if (five) {
		rows.rows[3] = c->ports[0].rows_at +
			       stride * port_class(image, mask, &c->ports[0], p->src_port);
		rows.rows[4] = c->ports[1].rows_at +
			       stride * port_class(image, mask, &c->ports[1], p->dst_port);
	}
	word = lane_rows_and(image, mask, &rows, five, 0);
	f->positions_at = c->positions_at;
	if (c->words > 1) {
		summary = word;
		word = 0;
		for (int i = 0; i < LANE_WORDS && summary && !word; i++) {
			at = lowest_bit(summary);
			summary &= summary - 1;
			word = lane_rows_and(image, mask, &rows, five, 8 + at * 8);
		}
		f->positions_at += at * 256;
	}
	if (!word)
		return !summary;
	f->position = IMAGE_U32(image, mask, f->positions_at + lowest_bit(word) * 4);
	f->rest = word & (word - 1);
	f->complete &= !summary;
	return true;
}

/* The first entry that holds. False: the whole way. `tables`: whether there may be any. */
static __always_inline bool lane_first(const __u8 *image, __u64 mask, const struct weir_root *root,
				       bool v6, const struct weir_packet *p, __u32 zero,
				       bool tables, struct lane_found *f)
{
	__u32 last = root->entries - 1, hashed = WEIR_NONE;
	struct weir_leaf leaf = { .chunks_at = root->chunks_at, .chunks = root->chunks };

	if (unlikely(root->splits))
		leaf = leaf_of(image, mask, root, v6 && !LANE_ROOMY, p);
	if (unlikely(leaf.chunks > 1))
		return false;
	f->position = WEIR_NONE;
	f->rest = 0;
	f->complete = true;
	if (tables && weir_may(WEIR_FEATURE_TABLES) && root->tables) {
		hashed = probe_tables(image, mask, root, v6, p, 0, zero);
		f->complete = false;
	}
	if (leaf.chunks && !lane_chunk(image, mask, leaf.chunks_at, v6, p, f))
		return false;
	f->position = hashed < f->position ? hashed : f->position;
	f->position = f->position < last ? f->position : last;
	return true;
}

/* Whether an entry can't be met here. */
static __always_inline bool lane_is_hard(const struct weir_entry *e)
{
	return e->tests | e->ops | (e->flags & WEIR_FLAG_PROPOSE) || e->rules > LANE_RULES ||
	       e->verdict > WEIR_VERDICT_DROP;
}

/*
 * The entries that the packet meets from what lane_first found on: `entry_at`, 0 for none. Returns
 * the verdict of the last; 0: the whole way. Of entries that hold, some may lie before the one with
 * which an earlier one goes on; they are looked at, and left out.
 */
static __always_inline __u32 lane_trail_on(const __u8 *image, __u64 mask, __u32 entries_at,
					   __u32 last, struct lane_found *f,
					   __u32 entry_at[LANE_STEPS])
{
	__u32 from = 0;

#pragma clang loop unroll(full)
	for (int i = 0; i < LANE_STEPS; i++) {
		__u32 at = entries_at + f->position * sizeof(struct weir_entry);
		const struct weir_entry *e = IMAGE_AT(struct weir_entry, image, mask, at);

		if (f->position >= from) {
			if (lane_is_hard(e))
				return 0;
			entry_at[i] = at;
			if (e->verdict)
				return e->verdict;
			from = e->next_match;
		}
		if (!f->complete)
			return 0;
		f->position = last;
		if (f->rest)
			f->position = IMAGE_U32(image, mask,
						f->positions_at + lowest_bit(f->rest) * 4);
		f->rest &= f->rest - 1;
	}
	return 0;
}

/* The same from the root on. */
static __always_inline __u32 lane_trail(const __u8 *image, __u64 mask, __u32 root_at, bool v6,
					const struct weir_packet *p, __u32 zero,
					__u32 entry_at[LANE_STEPS])
{
	const struct weir_root *root = IMAGE_AT(struct weir_root, image, mask, root_at);
	__u32 entries_at = root->entries_at, last = root->entries - 1;
	struct lane_found f;

	if (!lane_first(image, mask, root, v6, p, zero, true, &f))
		return 0;
	return lane_trail_on(image, mask, entries_at, last, &f, entry_at);
}

/* Counts the rules of one entry; returns the last. */
static __always_inline __u32 lane_count(const __u8 *image, __u64 mask, __u32 slot, __u32 entry_at,
					const struct weir_packet *p)
{
	const struct weir_entry *e = IMAGE_AT(struct weir_entry, image, mask, entry_at);
	__u32 rules = e->rules, at = e->rule, rule = at;

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
 * way. Most packets of short lists meet one entry, which decides.
 */
static __always_inline __u32 lane_walk(__u32 slot, __u32 root_at, const struct weir_packet *p,
				       __u32 zero, bool v6, bool tables)
{
	__u32 entry_at[LANE_STEPS] = {}, entries_at, last, at, verdict, rule = 0;
	const __u8 *image = weir_image(slot);
	__u64 mask = image_mask();
	const struct weir_root *root;
	const struct weir_entry *e;
	struct lane_found f;

	if (!image)
		return 0;
	root = IMAGE_AT(struct weir_root, image, mask, root_at);
	entries_at = root->entries_at;
	last = root->entries - 1;
	if (!lane_first(image, mask, root, v6, p, zero, tables, &f))
		return 0;
	at = entries_at + f.position * sizeof(struct weir_entry);
	e = IMAGE_AT(struct weir_entry, image, mask, at);
	if (!unlikely(!e->verdict || e->rules != 1 || lane_is_hard(e))) {
		rule = e->rule;
		weir_count(slot, p->hook, rule, p->length);
		return (__u32)e->verdict << WEIR_LANE_DECIDED | rule;
	}
	verdict = lane_trail_on(image, mask, entries_at, last, &f, entry_at);
	if (!verdict)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < LANE_STEPS; i++) {
		if (entry_at[i])
			rule = lane_count(image, mask, slot, entry_at[i], p);
	}
	return verdict << WEIR_LANE_DECIDED | rule;
}

/* Functions that are verified on their own, each with one family. */
__noinline __u32 weir_lane_walk4(__u32 slot, __u32 root_at, const struct weir_packet *p)
{
	struct weir_control *c = weir_get_control();

	return p && c ? lane_walk(slot & 1, root_at, p, c->zero, false, true) : 0;
}

__noinline __u32 weir_lane_walk6(__u32 slot, __u32 root_at, const struct weir_packet *p)
{
	struct weir_control *c = weir_get_control();

	return p && c ? lane_walk(slot & 1, root_at, p, c->zero, true, true) : 0;
}

#endif
