/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The first entry of a root that holds, where its leaf has one chunk at most: what the short way of
 * packets asks (lane_walk.h). Says the same as lookup_step. Words of rows are looked at without
 * branches, four at once: which of them has the first bit cannot be foretold, and a branch that was
 * guessed wrong costs as much as eight words.
 */
#ifndef WEIR_FIRST_H
#define WEIR_FIRST_H

#include "classify.h"

/* Programs with room on the stack spare the verifier: see leaf_of. */
#ifndef LANE_ROOMY
#define LANE_ROOMY 0
#endif

/* What a lookup found: the first position, and where it is known which come after it. */
struct weir_first {
	__u64 rest;		/* terms behind the first */
	__u32 positions_at;	/* of the terms */
	__u32 position;
	__u64 beyond;		/* 0: no entries hold but those of the terms, and the last */
};

/* All ones when the word is 0. */
static __always_inline __u64 is_zero(__u64 word)
{
	word |= -word;
	OPAQUE(word);
	word = (word >> 63) - 1;
	OPAQUE(word);
	return word;
}

/* b where a mask has ones, else a. */
static __always_inline __u64 either(__u64 a, __u64 b, __u64 mask)
{
	return a ^ ((a ^ b) & mask);
}

/* The first word that is not zero of the AND of all rows; 0 without. `at` becomes its number. */
static __always_inline __u64 first_word(const __u8 *image, __u64 mask,
					const struct weir_chunk *chunk,
					const __u64 rows[WEIR_ROWS_MAX], __u32 *at)
{
	const __u64 *r[WEIR_ROWS_MAX];
	__u32 words = chunk->words;
	/* A whole word: of a smaller one on the stack, verifiers before 6.9 forget what was asked. */
	__u64 five = chunk->rows > 3;
	__u64 none;

	r[0] = IMAGE_AT(__u64, image, mask, rows[0]);
	r[1] = IMAGE_AT(__u64, image, mask, rows[1]);
	r[2] = IMAGE_AT(__u64, image, mask, rows[2]);
	r[3] = IMAGE_AT(__u64, image, mask, rows[3]);
	r[4] = IMAGE_AT(__u64, image, mask, rows[4]);
	OPAQUE(five);
#pragma clang loop unroll(disable)
	for (int i = 0; i < 64; i += 4) {
		__u64 w0 = r[0][0] & r[1][0] & r[2][0], w1 = r[0][1] & r[1][1] & r[2][1];
		__u64 w2 = r[0][2] & r[1][2] & r[2][2];
		__u64 w3 = r[0][3] & r[1][3] & r[2][3];

		if (five) {
			w0 &= r[3][0] & r[4][0];
			w1 &= r[3][1] & r[4][1];
			w2 &= r[3][2] & r[4][2];
			w3 &= r[3][3] & r[4][3];
			r[3] += 4;
			r[4] += 4;
		}
		if (w0 | w1 | w2 | w3) {
			none = is_zero(w0 | w1);
			w0 = either(w0, w2, none);
			w1 = either(w1, w3, none);
			*at = i + (2 & none);
			none = is_zero(w0);
			*at += 1 & none;
			return either(w0, w1, none);
		}
		if (i + 4 >= words)
			break;
		r[0] += 4;
		r[1] += 4;
		r[2] += 4;
	}
	*at = 0;
	return 0;
}

/*
 * Rows of one or two words: those of short lists, which often don't ask about a field at all. A map
 * of one row asks nothing of the packet.
 */
static __always_inline void two_words(const __u8 *image, __u64 mask, __u32 row_at, __u64 word[2])
{
	const __u64 *row = IMAGE_AT(__u64, image, mask, row_at);

	word[0] &= row[0];
	word[1] &= row[1];
}

static __always_inline void two_of_port(const __u8 *image, __u64 mask, __u32 stride,
					const struct weir_map *m, __u16 port, __u64 word[2])
{
	__u32 at = m->rows_at;

	if (m->rows > 1)
		at += port_class(image, mask, m, port) * stride;
	two_words(image, mask, at, word);
}

static __always_inline void two_of_address(const __u8 *image, __u64 mask, __u32 stride,
					   const struct weir_address_map *m, bool v6,
					   const __u64 address[2], __u64 word[2])
{
	__u32 at = m->rows_at;

	if (m->rows > 1)
		at += address_class(image, mask, m, v6, address) * stride;
	two_words(image, mask, at, word);
}

/* As first_word. Rows of one word have others behind them, which are left out. */
static __always_inline __u64 first_of_two(const __u8 *image, __u64 mask, const struct weir_chunk *c,
					  bool v6, const struct weir_packet *p, __u32 *at,
					  __u64 *beyond)
{
	__u64 word[2] = { ~0ULL, below32(1, c->words) }, none;
	__u32 stride = c->stride, fold_at = c->fold.rows_at;

	two_of_address(image, mask, stride, &c->addresses[0], v6, p->src, word);
	two_of_address(image, mask, stride, &c->addresses[1], v6, p->dst, word);
	if (c->fold.rows > 1)
		fold_at += fold_class(image, mask, &c->fold, p) * stride;
	two_words(image, mask, fold_at, word);
	if (c->rows > 3) {
		two_of_port(image, mask, stride, &c->ports[0], p->src_port, word);
		two_of_port(image, mask, stride, &c->ports[1], p->dst_port, word);
	}
	none = is_zero(word[0]);
	*at = 1 & none;
	*beyond = word[1] & ~none;
	return either(word[0], word[1], none);
}

/* The classes of a packet in the services of a root's tables, where it has any. */
static __always_inline __u64 lookup_classes(const __u8 *image, __u64 mask,
					    const struct weir_root *root,
					    const struct weir_packet *p)
{
	return root->tables ? service_classes(image, mask, root, p) : 0;
}

/* The entries of one chunk that hold. `shares`, `classes`: see lookup_first. */
static __always_inline void chunk_first(const __u8 *image, __u64 mask, __u32 chunk_at, bool v6,
					const struct weir_packet *p, bool shares, __u64 classes,
					struct weir_first *f)
{
	const struct weir_chunk *c = IMAGE_AT(struct weir_chunk, image, mask, chunk_at);
	__u64 rows[WEIR_ROWS_MAX], summary, word, beyond;
	__u32 at;

	if (c->words < 3) {
		word = first_of_two(image, mask, c, v6, p, &at, &beyond);
	} else {
		if (shares && c->shared)
			summary = shared_rows(image, mask, c, v6, p, classes, rows);
		else
			summary = chunk_rows(image, mask, c, v6, p, rows);
		word = first_word(image, mask, c, rows, &at);
		beyond = summary >> (at & 63) >> 1;
	}
	f->positions_at = c->positions_at + at * 256;
	if (!word)
		return;
	f->position = IMAGE_U32(image, mask, f->positions_at + lowest_bit(word) * 4);
	f->rest = word & (word - 1);
	f->beyond |= beyond;
}

#define BOUNDED_LOOKS 16	/* words and terms that are looked at */
#define WEIR_UNKNOWN (WEIR_NONE - 1)	/* no position either */

/*
 * The first position of a chunk with bounds; WEIR_NONE without, WEIR_UNKNOWN after so many looks. One
 * way through a look goes on to the next, so that the verifier follows each once.
 */
static __always_inline __u32 bounded_first(const __u8 *image, __u64 mask, __u32 chunk_at, bool v6,
					   const struct weir_packet *p)
{
	const struct weir_chunk *c = IMAGE_AT(struct weir_chunk, image, mask, chunk_at);
	__u32 bounds_at = c->bounds_at, positions_at = c->positions_at;
	__u64 rows[WEIR_ROWS_MAX], word = 0, at = 0;
	__u64 summary = chunk_rows(image, mask, c, v6, p, rows);

	/* Counted in a whole word: of a smaller one on the stack, verifiers before 6.9 forget it. */
#pragma clang loop unroll(disable)
	for (__u64 i = 0; i < BOUNDED_LOOKS; i++) {
		__u64 next = lowest_bit(summary), none = is_zero(word);
		__u32 term;

		OPAQUE(i);

		/* Of a word that is used up, the next one that rows have; without any, none. */
		at = either(at, next, none);
		word = either(word, rows_and(image, mask, rows, at * 8) & ~is_zero(summary), none);
		summary &= summary - (1 & none);
		term = at * 64 + lowest_bit(word);
		if (!(out_of_bounds(image, mask, bounds_at, v6, p, term) | is_zero(word)))
			return IMAGE_U32(image, mask, positions_at + term * 4);
		word &= word - 1;
		if (!(word | summary))
			return WEIR_NONE;
	}
	return WEIR_UNKNOWN;
}

/* The first position in the tables of a root, where it has any. */
static __always_inline __u32 tables_first(const __u8 *image, __u64 mask,
					  const struct weir_root *root, bool v6,
					  const struct weir_packet *p, __u64 classes, __u32 zero)
{
	return root->tables ? probe_tables(image, mask, root, v6, p, classes, 0, zero) : WEIR_NONE;
}

/* Whether a leaf has one chunk only, in which rows say which terms may hold. */
static __always_inline bool has_bounds(const __u8 *image, __u64 mask, const struct weir_leaf *leaf)
{
	return leaf->chunks == 1 &&
	       IMAGE_AT(struct weir_chunk, image, mask, leaf->chunks_at)->bounds_at;
}

/* bounded_first in the leaf of a packet, where it has such a chunk. */
static __always_inline __u32 leaf_bounded(const __u8 *image, __u64 mask,
					  const struct weir_root *root, bool v6,
					  const struct weir_packet *p)
{
	struct weir_leaf leaf = leaf_of(image, mask, root, v6, p);

	if (!has_bounds(image, mask, &leaf))
		return WEIR_NONE;
	return bounded_first(image, mask, leaf.chunks_at, v6, p);
}

/* The earlier of two positions, either of which may not be known. */
static __always_inline __u32 earlier(__u32 hashed, __u32 bounded)
{
	return bounded < hashed || bounded == WEIR_UNKNOWN ? bounded : hashed;
}

/* What is known of a packet before its chunk is asked. */
struct weir_asked {
	__u64 classes;		/* of services: lookup_classes */
	__u32 hashed;		/* the first position in tables and in a chunk with bounds */
};

/*
 * The first entry that holds. False: not known this way, because there are several chunks. Tables
 * are asked before, because a verifier that follows them here follows what comes after them once for
 * each, and so is a chunk with bounds, for which the stack has no room here. `shares`: whether chunks
 * may have the classes of services; without, their rows are found as all others are.
 */
static __always_inline bool lookup_first(const __u8 *image, __u64 mask, const struct weir_root *root,
					 bool shares, const struct weir_asked *asked, bool v6,
					 const struct weir_packet *p, struct weir_first *f)
{
	struct weir_leaf leaf = { .chunks_at = root->chunks_at, .chunks = root->chunks };
	__u32 last = root->entries - 1, hashed = asked->hashed;

	if (unlikely(root->splits))
		leaf = leaf_of(image, mask, root, v6 && !LANE_ROOMY, p);
	if (unlikely(leaf.chunks > 1 || hashed == WEIR_UNKNOWN))
		return false;
	f->position = WEIR_NONE;
	f->positions_at = 0;
	f->rest = 0;
	f->beyond = root->tables;
	if (WEIR_BOUNDS && has_bounds(image, mask, &leaf))
		f->beyond |= 1;
	else if (leaf.chunks)
		chunk_first(image, mask, leaf.chunks_at, v6, p, shares, asked->classes, f);
	f->position = hashed < f->position ? hashed : f->position;
	f->position = f->position < last ? f->position : last;
	return true;
}

#endif
