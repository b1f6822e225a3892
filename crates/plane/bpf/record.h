/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What one term says of addresses and ports, compared with a packet without a branch: records of
 * hashed tables, and the bounds of terms whose rows are coarse. Twin of engine::lookup::hashed.
 */
#ifndef WEIR_RECORD_H
#define WEIR_RECORD_H

#include "fields.h"

/* The sign bit is set when the value is not in the range. */
static __always_inline __s64 outside(__u32 first, __u32 span, __u32 value)
{
	return (__s64)((__u64)span - (__u64)(__u32)(value - first));
}

static __always_inline __s64 outside16(const __u16 range[2], __u16 value)
{
	return (__s64)((__u64)range[1] - (__u64)(__u16)(value - range[0]));
}

static __always_inline __s64 record4_misses(const struct weir_record4 *r,
					    const struct weir_packet *p)
{
	return outside(r->src[0], r->src[1], p->src[1]) | outside(r->dst[0], r->dst[1], p->dst[1]) |
	       outside16(r->src_port, p->src_port) | outside16(r->dst_port, p->dst_port);
}

/* A shift by 0 to 64 bits. */
static __always_inline __u64 without(__u64 bits, __u8 shift)
{
	return bits >> (shift >> 1 & 63) >> ((shift - (shift >> 1)) & 63);
}

static __always_inline __s64 record6_misses(const struct weir_record6 *r,
					    const struct weir_packet *p)
{
	__u64 differs = without(r->src[0] ^ p->src[0], r->shifts[0]) |
			without(r->src[1] ^ p->src[1], r->shifts[1]) |
			without(r->dst[0] ^ p->dst[0], r->shifts[2]) |
			without(r->dst[1] ^ p->dst[1], r->shifts[3]);

	/* Any bit of the difference to the sign bit. */
	return (__s64)(differs | (0 - differs)) | outside16(r->src_port, p->src_port) |
	       outside16(r->dst_port, p->dst_port);
}

/* The sign bit is the borrow of a - b: whether a number of two words is below another. */
static __always_inline __u64 borrow(const __u64 a[2], const __u64 b[2])
{
	__u64 low = a[1] - b[1], high;

	low = ((~a[1] & b[1]) | ((~a[1] | b[1]) & low)) >> 63;
	high = a[0] - b[0] - low;
	return (~a[0] & b[0]) | ((~a[0] | b[0]) & high);
}

/* All ones when a term that rows let through does not hold, by the bounds of its chunk. */
static __always_inline __u64 out_of_bounds(const __u8 *image, __u64 mask, __u32 bounds_at, bool v6,
					  const struct weir_packet *p, __u32 term)
{
	const struct weir_bounds6 *b;
	__u64 beyond;

	if (!v6)
		return record4_misses(IMAGE_AT(struct weir_record4, image, mask,
					       bounds_at + term * sizeof(struct weir_record4)),
				      p) >> 63;
	b = IMAGE_AT(struct weir_bounds6, image, mask, bounds_at + term * sizeof(*b));
	beyond = borrow(p->src, b->src[0]) | borrow(b->src[1], p->src) |
		 borrow(p->dst, b->dst[0]) | borrow(b->dst[1], p->dst);
	return ((__s64)beyond | outside16(b->src_port, p->src_port) |
		outside16(b->dst_port, p->dst_port)) >> 63;
}

#endif
