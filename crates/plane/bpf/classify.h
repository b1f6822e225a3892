/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which entries of a root hold for a packet: lookup_next gives the first position from a given one
 * on. Twin of engine::lookup. No helper is called; comparisons of packet fields are subtractions
 * whose sign is hidden from the compiler, because the verifier would follow both sides of a branch.
 */
#ifndef WEIR_CLASSIFY_H
#define WEIR_CLASSIFY_H

#include "image.h"

#define OPAQUE(x) asm volatile("" : "+r"(x))

/* All ones when a < b, else 0. */
static __always_inline __u64 below32(__u32 a, __u32 b)
{
	__s64 d = (__s64)((__u64)a - (__u64)b);

	OPAQUE(d);
	d >>= 63;
	OPAQUE(d);
	return d;
}

/* All ones when the 128-bit value a is below b: the borrow of a - b. */
static __always_inline __u64 below128(const __u64 a[2], __u64 high, __u64 low)
{
	__u64 borrow = ((~a[1] & low) | ((~a[1] | low) & (a[1] - low))) >> 63, d;
	__s64 out;

	OPAQUE(borrow);
	d = a[0] - high - borrow;
	out = (~a[0] & high) | ((~a[0] | high) & d);
	OPAQUE(out);
	out >>= 63;
	OPAQUE(out);
	return out;
}

/* Number of the lowest bit that is set (Leiserson, Prokop, Randall 1998). */
static const __u8 weir_bit_numbers[64] = {
	0,  1,	48, 2,	57, 49, 28, 3,	61, 58, 50, 42, 38, 29, 17, 4,
	62, 55, 59, 36, 53, 51, 43, 22, 45, 39, 33, 30, 24, 18, 12, 5,
	63, 47, 56, 27, 60, 41, 37, 16, 54, 35, 52, 21, 44, 32, 23, 11,
	46, 26, 40, 15, 34, 20, 31, 10, 25, 14, 19, 9,	13, 8,	7,  6,
};

static __always_inline __u32 lowest_bit(__u64 word)
{
	return weir_bit_numbers[((word & -word) * 0x03f79d71b4cb0a89ULL) >> 58];
}

/* Interval of an address, then its class. */
static __always_inline __u32 address_class_v4(const __u8 *image, __u64 mask,
					      const struct weir_address_map *m, __u32 address)
{
	__u32 base = m->base[1], cell, cell_last = m->cell_last, low, count, steps = m->steps;
	__u32 bounds_at = m->bounds_at;

	cell = ((address - base) & ~(__u32)below32(address, base)) >> (m->shift & 31);
	cell = cell_last ^ ((cell ^ cell_last) & (__u32)below32(cell, cell_last));
	low = IMAGE_U32(image, mask, m->index_at + cell * 4);
	count = IMAGE_U32(image, mask, m->index_at + cell * 4 + 4) - low + 1;
	for (int i = 0; i < WEIR_SEARCH_STEPS_MAX; i++) {
		__u32 half = count >> 1, bound;

		if (i >= steps)
			break;
		bound = IMAGE_U32(image, mask, bounds_at + (low + half) * 8);
		low += half & ~(__u32)below32(address, bound);
		count -= half;
	}
	return IMAGE_U32(image, mask, bounds_at + low * 8 + 4);
}

static __always_inline __u32 address_class_v6(const __u8 *image, __u64 mask,
					      const struct weir_address_map *m,
					      const __u64 address[2])
{
	__u32 cell_last = m->cell_last, shift = m->shift, cell, low, count, steps = m->steps;
	__u32 bounds_at = m->bounds_at;
	__u64 keep = ~below128(address, m->base[0], m->base[1]), high, rest;

	rest = address[1] - m->base[1];
	high = address[0] - m->base[0] -
	       ((((~address[1] & m->base[1]) | ((~address[1] | m->base[1]) & rest))) >> 63);
	high &= keep;
	rest &= keep;
	if (shift >= 64) {
		rest = high >> (shift & 63);
		high = 0;
	} else {
		rest = rest >> shift | high << 1 << (63 - shift);
		high = high >> shift;
	}
	/* Beyond the last cell is the last cell. */
	{
		const __u64 wide[2] = { high, rest };
		__u64 in = below128(wide, 0, cell_last);

		cell = cell_last ^ (((__u32)rest ^ cell_last) & (__u32)in);
	}
	low = IMAGE_U32(image, mask, m->index_at + cell * 4);
	count = IMAGE_U32(image, mask, m->index_at + cell * 4 + 4) - low + 1;
	for (int i = 0; i < WEIR_SEARCH_STEPS_MAX; i++) {
		__u32 half = count >> 1;
		const __u64 *bound;

		if (i >= steps)
			break;
		bound = IMAGE_AT(__u64, image, mask, bounds_at + (low + half) * 16);
		low += half & ~(__u32)below128(address, bound[0], bound[1]);
		count -= half;
	}
	return IMAGE_U32(image, mask, m->classes_at + low * 4);
}

static __always_inline __u32 port_class(const __u8 *image, __u64 mask, const struct weir_map *m,
					__u16 port)
{
	__u32 block = IMAGE_U16(image, mask, m->table_at + (port >> 8) * 2);

	return IMAGE_U16(image, mask, m->table_at + 512 + block * 512 + (port & 255) * 2);
}

/* The kind byte: transport, fragment, number of the state's bit. */
static __always_inline __u32 kind_of(const struct weir_packet *p)
{
	__u32 s = p->state;
	__u32 state = ((s >> 1 | s >> 3) & 1) | ((s >> 2 | s >> 3) & 1) << 1 | (s >> 4 & 1) << 2;

	return (p->transport & 7) | (p->fragment & 3) << 3 | state << 5;
}

/* Offsets of the rows that a packet's fields lead to. */
struct weir_rows {
	__u64 at[WEIR_DIMS];	/* whole words: the verifier tells half-written slots apart */
};

/*
 * Which dimensions a chunk uses: read anew wherever it is asked, because the verifier would keep
 * what it learned from the last time apart for every combination.
 */
static __always_inline __u32 chunk_used(const struct weir_chunk *c)
{
	return *(const volatile __u32 *)&c->used;
}

/*
 * The row of a class, or of no use. Both are masked loads of their own: what becomes a pointer must
 * look the same to the verifier whether the dimension is used or not, and must not be a copy of
 * another register, or it would follow every combination.
 */
#define ROW(dim, m, class)                                                                         \
	if (used & (1 << (dim)))                                                                   \
		r->at[dim] = ((m)->rows_at + stride * (class)) & mask;                             \
	else                                                                                       \
		r->at[dim] = *(const volatile __u32 *)&(m)->rows_at & mask;
#define SMALL_ROW(dim, value)                                                                      \
	ROW(dim, &c->small[(dim) - WEIR_DIM_PROTO],                                                \
	    IMAGE_U16(image, mask, c->small[(dim) - WEIR_DIM_PROTO].table_at + (value) * 2))

static __always_inline void chunk_rows(const __u8 *image, __u64 mask, const struct weir_chunk *c,
				       bool v6, const struct weir_packet *p, struct weir_rows *r)
{
	__u32 used = chunk_used(c), stride = c->stride;

	ROW(WEIR_DIM_SRC, &c->addresses[0],
	    v6 ? address_class_v6(image, mask, &c->addresses[0], p->src) :
		 address_class_v4(image, mask, &c->addresses[0], p->src[1]))
	ROW(WEIR_DIM_DST, &c->addresses[1],
	    v6 ? address_class_v6(image, mask, &c->addresses[1], p->dst) :
		 address_class_v4(image, mask, &c->addresses[1], p->dst[1]))
	ROW(WEIR_DIM_SRC_PORT, &c->ports[0], port_class(image, mask, &c->ports[0], p->src_port))
	ROW(WEIR_DIM_DST_PORT, &c->ports[1], port_class(image, mask, &c->ports[1], p->dst_port))
	SMALL_ROW(WEIR_DIM_PROTO, p->proto)
	SMALL_ROW(WEIR_DIM_KIND, kind_of(p))
	SMALL_ROW(WEIR_DIM_FLAGS, p->tcp_flags)
	SMALL_ROW(WEIR_DIM_IN, p->in_class)
	SMALL_ROW(WEIR_DIM_OUT, p->out_class)
}
#undef ROW
#undef SMALL_ROW

/* The AND of all rows at an offset within them. */
static __always_inline __u64 rows_and(const __u8 *image, __u64 mask, const struct weir_chunk *c,
				      const struct weir_rows *r, __u32 at)
{
	__u32 used = chunk_used(c);
	__u64 word = *(const volatile __u64 *)&c->ones;

#pragma unroll
	for (int dim = 0; dim < WEIR_DIMS; dim++)
		if (used & (1 << dim))
			word &= IMAGE_U64(image, mask, r->at[dim] + at);
	return word;
}

/* The first term of a chunk whose entry is at `from` or later. */
static __always_inline __u32 chunk_from(const __u8 *image, __u64 mask, const struct weir_chunk *c,
					__u32 from)
{
	__u32 low = 0, count = c->terms, at = c->positions_at;

	for (int i = 0; i < 13; i++) {
		__u32 half = count >> 1, middle = low + half;

		if (!count)
			break;
		if (IMAGE_U32(image, mask, at + middle * 4) < from) {
			low = middle + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return low;
}

/* The first position from `from` on in one chunk. */
static __always_inline __u32 chunk_next(const __u8 *image, __u64 mask, __u32 chunk_at, bool v6,
					const struct weir_packet *p, __u32 from)
{
	const struct weir_chunk *c = IMAGE_AT(struct weir_chunk, image, mask, chunk_at);
	__u32 first = *(const volatile __u32 *)&c->zero, positions_at = c->positions_at;
	struct weir_rows r;
	__u64 word, summary;

	if (from) {
		first = chunk_from(image, mask, c, from);
		if (first >= c->terms)
			return WEIR_NONE;
	}
	chunk_rows(image, mask, c, v6, p, &r);
	word = rows_and(image, mask, c, &r, 0);
	if (c->words == 1) {
		word &= ~0ULL << (first & 63);
		if (!word)
			return WEIR_NONE;
		return IMAGE_U32(image, mask, positions_at + lowest_bit(word) * 4);
	}
	summary = word & (~0ULL << (first / 64 & 63));
	for (int i = 0; i < WEIR_CHUNK_WORDS_MAX; i++) {
		__u32 at;

		if (!summary)
			break;
		at = lowest_bit(summary);
		summary &= summary - 1;
		word = rows_and(image, mask, c, &r, 8 + at * 8);
		if (at == first / 64)
			word &= ~0ULL << (first & 63);
		if (word)
			return IMAGE_U32(image, mask,
					 positions_at + (at * 64 + lowest_bit(word)) * 4);
	}
	return WEIR_NONE;
}

/* Where a lookup stands. Chunks follow each other in evaluation order, so the cursor moves on. */
struct weir_cursor {
	__u32 root_at;
	__u32 chunk_at;
	__u32 chunk_end;
	__u32 position;		/* looked for from here; found: where */
};

static __always_inline void lookup_begin(const __u8 *image, __u64 mask, __u32 root_at,
					 struct weir_cursor *cursor)
{
	const struct weir_root *root = IMAGE_AT(struct weir_root, image, mask, root_at);

	cursor->root_at = root_at;
	cursor->chunk_at = root->chunks_at;
	cursor->chunk_end = root->chunks_at + root->chunks * sizeof(struct weir_chunk);
	cursor->position = 0;
}

/*
 * Look for the next entry that holds, in one chunk. Returns true when cursor->position is it; the
 * last entry of a root, the chain policy, holds for every packet. False: call again. At most
 * WEIR_CHUNKS_MAX calls come to nothing in one walk.
 */
static __always_inline bool lookup_step(const __u8 *image, __u64 mask, const struct weir_packet *p,
					struct weir_cursor *cursor)
{
	const struct weir_root *root = IMAGE_AT(struct weir_root, image, mask, cursor->root_at);
	__u32 last = root->entries - 1, position;

	if (cursor->chunk_at >= cursor->chunk_end) {
		cursor->position = last;
		return true;
	}
	position = chunk_next(image, mask, cursor->chunk_at, root->family == 6, p,
			      cursor->position);
	if (position == WEIR_NONE) {
		cursor->chunk_at += sizeof(struct weir_chunk);
		return false;
	}
	cursor->position = position;
	return true;
}

#endif
