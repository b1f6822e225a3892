/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From the values of fields to classes and rows: address trees and searches, port blocks, folds.
 * Twin of engine::lookup::class. No helper is called; comparisons of packet fields are subtractions
 * whose sign is hidden from the compiler, because the verifier would follow both sides of a branch.
 */
#ifndef WEIR_FIELDS_H
#define WEIR_FIELDS_H

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

/* The class of an IPv4 address in a tree of bytes. */
static __always_inline __u32 tree_class(const __u8 *image, __u64 mask,
					const struct weir_address_map *m, __u32 address)
{
	__u32 at = m->tree_at, cell;

	/*
	 * Many packets of short lists leave at the first byte. How far the others go cannot be foretold,
	 * so these go all the way: the cell of a class leads to itself. Long lists have no branch.
	 */
	if (m->wide_at) {
		cell = IMAGE_U32(image, mask, m->wide_at + (address >> 16) * 4);
		cell = IMAGE_U32(image, mask, at + ((cell >> 8) + (address >> 8 & cell & 255)) * 4);
		cell = IMAGE_U32(image, mask, at + ((cell >> 8) + (address & cell & 255)) * 4);
		return cell >> 8;
	}
	cell = IMAGE_U32(image, mask, at + (m->rows + (address >> 24)) * 4);
	if (cell & 255) {
		cell = IMAGE_U32(image, mask, at + ((cell >> 8) + (address >> 16 & 255)) * 4);
		cell = IMAGE_U32(image, mask, at + ((cell >> 8) + (address >> 8 & cell & 255)) * 4);
		cell = IMAGE_U32(image, mask, at + ((cell >> 8) + (address & cell & 255)) * 4);
	}
	return cell >> 8;
}

/* Interval of an address, then its class. */
static __always_inline __u32 search_v4(const __u8 *image, __u64 mask,
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

static __always_inline __u32 search_v6(const __u8 *image, __u64 mask,
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

static __always_inline __u32 address_class(const __u8 *image, __u64 mask,
					   const struct weir_address_map *m, bool v6,
					   const __u64 address[2])
{
	if (m->tree)
		return tree_class(image, mask, m, address[1]);
	if (v6)
		return search_v6(image, mask, m, address);
	return search_v4(image, mask, m, address[1]);
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

/* The class of all fields but addresses and ports. */
static __always_inline __u32 fold_small(const __u8 *image, __u64 mask, const struct weir_fold *f,
					const struct weir_packet *p)
{
	__u32 small;

#define SMALL(at, value) IMAGE_U16(image, mask, f->small_at[at] + (value) * 2)
	small = SMALL(0, p->proto) + SMALL(1, kind_of(p)) + SMALL(2, p->tcp_flags);
	small = IMAGE_U16(image, mask, f->forms_at + small * 2);
	if (f->used & WEIR_FOLD_LINKS) {
		__u32 link = SMALL(3, p->in_class) + SMALL(4, p->out_class);

		link = IMAGE_U16(image, mask, f->links_at + link * 2);
		small = IMAGE_U16(image, mask, f->smalls_at + (small * f->link_classes + link) * 2);
	}
#undef SMALL
	return small;
}

/* The number of the row that all fields but the addresses lead to. */
static __always_inline __u32 fold_class(const __u8 *image, __u64 mask, const struct weir_fold *f,
					const struct weir_packet *p)
{
	__u32 cell = fold_small(image, mask, f, p);

	if (f->used & WEIR_FOLD_PORTS) {
		__u32 pair;

		if (f->direct_at[1]) {
			pair = IMAGE_U16(image, mask, f->direct_at[0] + p->src_port * 2) *
				       f->ports[1].rows +
			       IMAGE_U16(image, mask, f->direct_at[1] + p->dst_port * 2);
		} else {
			pair = port_class(image, mask, &f->ports[1], p->dst_port);
			if (f->ports[0].rows > 1)
				pair += port_class(image, mask, &f->ports[0], p->src_port) *
					f->ports[1].rows;
		}
		cell += IMAGE_U16(image, mask, f->pairs_at + pair * 2) * f->small_classes;
	}
	return IMAGE_U16(image, mask, f->cells_at + cell * 2);
}

#endif
