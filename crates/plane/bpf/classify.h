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

static __always_inline __u64 table_hash(bool v6, const __u64 src[2], const __u64 dst[2], __u32 ports)
{
	__u64 hash = src[1] * 0x9e3779b97f4a7c15ULL + dst[1] * 0xbf58476d1ce4e5b9ULL +
		     ports * 0x94d049bb133111ebULL;

	if (v6)
		hash += src[0] * 0xd6e8feb86659fd93ULL + dst[0] * 0xa0761d6478bd642fULL;
	hash ^= hash >> 29;
	return hash * 0xe7037ed1a0b428dbULL;
}

/* The sign bit is set when the value is not in the range. */
static __always_inline __s64 outside(__u32 first, __u32 span, __u32 value)
{
	return (__s64)((__u64)span - (__u64)(__u32)(value - first));
}

static __always_inline __s64 outside16(const __u16 range[2], __u16 value)
{
	return (__s64)((__u64)range[1] - (__u64)(__u16)(value - range[0]));
}

/* The sign bit is set when the packet's service word has not the bit. */
static __always_inline __s64 not_served(__u64 services, __u32 service)
{
	return (__s64)(services >> (service & 63) & 1) - 1;
}

static __always_inline __s64 record4_misses(const struct weir_record4 *r,
					    const struct weir_packet *p, __u64 services)
{
	return outside(r->src[0], r->src[1], p->src[1]) | outside(r->dst[0], r->dst[1], p->dst[1]) |
	       outside16(r->src_port, p->src_port) | outside16(r->dst_port, p->dst_port) |
	       not_served(services, r->service);
}

/* A shift by 0 to 64 bits. */
static __always_inline __u64 without(__u64 bits, __u8 shift)
{
	return bits >> (shift >> 1 & 63) >> ((shift - (shift >> 1)) & 63);
}

static __always_inline __s64 record6_misses(const struct weir_record6 *r,
					    const struct weir_packet *p, __u64 services)
{
	__u64 differs = without(r->src[0] ^ p->src[0], r->shifts[0]) |
			without(r->src[1] ^ p->src[1], r->shifts[1]) |
			without(r->dst[0] ^ p->dst[0], r->shifts[2]) |
			without(r->dst[1] ^ p->dst[1], r->shifts[3]);

	/* Any bit of the difference to the sign bit. */
	return (__s64)(differs | (0 - differs)) | outside16(r->src_port, p->src_port) |
	       outside16(r->dst_port, p->dst_port) | not_served(services, r->service);
}

/* The first position from `from` on in one hashed table. Groups are sorted by position. */
static __always_inline __u32 table_next(const __u8 *image, __u64 mask, __u32 table_at, bool v6,
					const struct weir_packet *p, __u64 services, __u32 from)
{
	const struct weir_hash_table *t = IMAGE_AT(struct weir_hash_table, image, mask, table_at);
	const __u64 src[2] = { v6 ? p->src[0] & t->masks[0] : 0, p->src[1] & t->masks[1] };
	const __u64 dst[2] = { v6 ? p->dst[0] & t->masks[2] : 0, p->dst[1] & t->masks[3] };
	__u32 ports = ((__u32)p->src_port << 16 | p->dst_port) & t->ports, slot, at;

	slot = table_hash(v6, src, dst, ports) >> (t->shift & 63);
	slot = IMAGE_U32(image, mask, t->slots_at + slot * 4);
	at = t->groups_at + (slot & ~31U);
	slot &= 31;
	for (int i = 0; i < WEIR_GROUP_MAX; i++) {
		__s64 misses;
		__u32 position;

		if (i >= slot)
			break;
		if (v6) {
			const struct weir_record6 *r =
				IMAGE_AT(struct weir_record6, image, mask, at);

			misses = record6_misses(r, p, services);
			position = r->position;
			at += sizeof(*r);
		} else {
			const struct weir_record4 *r =
				IMAGE_AT(struct weir_record4, image, mask, at);

			misses = record4_misses(r, p, services);
			position = r->position;
			at += sizeof(*r);
		}
		OPAQUE(misses);
		if (misses >= 0 && position >= from)
			return position;
	}
	return WEIR_NONE;
}

/* Which services hold: the bit vector of one word in front of the tables. */
static __always_inline __u64 root_services(const __u8 *image, __u64 mask, __u32 chunk_at,
					   const struct weir_packet *p)
{
	const struct weir_chunk *c = IMAGE_AT(struct weir_chunk, image, mask, chunk_at);
	__u32 used = chunk_used(c), stride = c->stride;
	__u64 word = *(const volatile __u64 *)&c->ones;

#define AND_ROW(dim, value)                                                                        \
	if (used & (1 << (dim))) {                                                                 \
		const struct weir_map *m = &c->small[(dim) - WEIR_DIM_PROTO];                      \
		word &= IMAGE_U64(image, mask, m->rows_at + stride *                               \
				  IMAGE_U16(image, mask, m->table_at + (value) * 2));              \
	}
	AND_ROW(WEIR_DIM_PROTO, p->proto)
	AND_ROW(WEIR_DIM_KIND, kind_of(p))
	AND_ROW(WEIR_DIM_FLAGS, p->tcp_flags)
	AND_ROW(WEIR_DIM_IN, p->in_class)
	AND_ROW(WEIR_DIM_OUT, p->out_class)
#undef AND_ROW
	return word;
}

/* The first position from `from` on in all hashed tables of a root. */
static __always_inline __u32 tables_next(const __u8 *image, __u64 mask,
					 const struct weir_root *root, bool v6,
					 const struct weir_packet *p, __u32 from)
{
	__u64 services = root_services(image, mask, root->services_at, p);
	__u32 tables = root->tables, table_at = root->tables_at, best = WEIR_NONE;

	for (int i = 0; i < WEIR_TABLES_MAX; i++) {
		__u32 position;

		if (i >= tables)
			break;
		position = table_next(image, mask, table_at, v6, p, services, from);
		best = position < best ? position : best;
		table_at += sizeof(struct weir_hash_table);
	}
	return best;
}

/* Where a lookup stands. Chunks follow each other in evaluation order, so the cursor moves on. */
struct weir_cursor {
	__u32 root_at;
	__u32 chunk_at;
	__u32 chunk_end;
	__u32 position;		/* looked for from here; found: where */
	__u32 hashed;		/* the tables' next position, when not below that one */
	__u32 stale;		/* whether the tables have to be asked first: lookup_probe */
};

static __always_inline void lookup_begin(const __u8 *image, __u64 mask, __u32 root_at,
					 const struct weir_packet *p, struct weir_cursor *cursor)
{
	const struct weir_root *root = IMAGE_AT(struct weir_root, image, mask, root_at);
	__u32 chunks_at = root->chunks_at, chunks = root->chunks, splits = root->splits, next = 0;

	if (splits) {
		const struct weir_leaf *leaf;

		for (int i = 0; i < WEIR_SPLITS_MAX; i++) {
			const struct weir_split *node;
			__u32 value;

			if (next & WEIR_LEAF)
				break;
			node = IMAGE_AT(struct weir_split, image, mask,
					root->splits_at + next * sizeof(*node));
			value = node->dim == WEIR_DIM_SRC_PORT ? p->src_port :
				node->dim == WEIR_DIM_DST_PORT ? p->dst_port : p->proto;
			next = value < node->bound ? node->next[0] : node->next[1];
		}
		leaf = IMAGE_AT(struct weir_leaf, image, mask,
				root->leaves_at + (next & ~WEIR_LEAF) * sizeof(*leaf));
		chunks_at = leaf->chunks_at;
		chunks = leaf->chunks;
	}
	cursor->root_at = root_at;
	cursor->chunk_at = chunks_at;
	cursor->chunk_end = chunks_at + chunks * sizeof(struct weir_chunk);
	cursor->position = 0;
	cursor->hashed = WEIR_NONE;
	cursor->stale = root->tables != 0;
}

/* Look on from a later position. */
static __always_inline void cursor_move(struct weir_cursor *cursor, __u32 to)
{
	cursor->position = to;
	cursor->stale = cursor->hashed < to;
}

/* Ask the hashed tables for the first position from the cursor's on. */
static __always_inline void lookup_probe(const __u8 *image, __u64 mask, const struct weir_packet *p,
					 struct weir_cursor *cursor)
{
	const struct weir_root *root = IMAGE_AT(struct weir_root, image, mask, cursor->root_at);

	cursor->hashed =
		tables_next(image, mask, root, root->family == 6, p, cursor->position);
	cursor->stale = false;
}

/*
 * Look for the next entry that holds, in one chunk. Returns true when cursor->position is it; the
 * last entry of a root, the chain policy, holds for every packet. False: call again, after
 * lookup_probe when cursor->stale (the two are apart because the verifier multiplies what follows
 * each other). At most two calls for each chunk and each entry come to nothing.
 */
static __always_inline bool lookup_step(const __u8 *image, __u64 mask, const struct weir_packet *p,
					struct weir_cursor *cursor)
{
	const struct weir_root *root = IMAGE_AT(struct weir_root, image, mask, cursor->root_at);
	__u32 last = root->entries - 1, from = cursor->position, hashed = cursor->hashed;
	__u32 position = WEIR_NONE;

	if (hashed < from) {
		cursor->stale = true;
		return false;
	}
	if (cursor->chunk_at < cursor->chunk_end) {
		position = chunk_next(image, mask, cursor->chunk_at, root->family == 6, p, from);
		if (position == WEIR_NONE) {
			cursor->chunk_at += sizeof(struct weir_chunk);
			return false;
		}
	}
	position = hashed < position ? hashed : position;
	cursor->position = position < last ? position : last;
	return true;
}

#endif
