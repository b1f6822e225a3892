/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * SCTP chunks and their flags (RFC 9260 section 3.2). A packet whose chunks end before it does is
 * dropped, as by xt_sctp. Twin of engine::run::test; see
 * engine::image::layout, TEST_SCTP.
 */
#ifndef WEIR_CHUNKS_H
#define WEIR_CHUNKS_H

#include "residual.h"

#define WEIR_SCTP_CHUNKS_MAX 16384	/* of the longest packet */
#define WEIR_CHUNK_FLAGS_MAX 4

enum weir_chunks {
	WEIR_CHUNKS_ALL = 0,
	WEIR_CHUNKS_ANY = 1,
	WEIR_CHUNKS_ONLY = 2,
};

struct sctp_walk {
	__u64 base;
	__u64 missing[4];
	__u64 wanted[4];
	__u32 at;		/* of the next chunk */
	__u32 readable;
	__u32 length;
	__u32 how;
	__u32 rows;
	__u32 flags[WEIR_CHUNK_FLAGS_MAX];
	__s32 answer;		/* -1: none yet */
};

/* Whether a chunk has the flags that its type must have. */
static __always_inline bool sctp_flags_fit(const struct sctp_walk *c, __u32 kind, __u32 flags)
{
	for (int i = 0; i < WEIR_CHUNK_FLAGS_MAX; i++) {
		__u32 row = c->flags[i];

		if (i < c->rows && (row & 255) == kind)
			return (flags & (row >> 8 & 255)) == (row >> 16 & 255);
	}
	return true;
}

static long sctp_chunk(__u32 number, struct sctp_walk *c)
{
	const struct in6_addr___local *head;
	__u32 kind, size;
	__u64 bit;
	bool fits;

	if (c->at + 4 > c->readable) {
		c->answer = WEIR_HOT_DROP;
		return 1;
	}
	head = BYTES_AT(c->base + c->at);
	kind = head->in6_u.u6_addr8[0];
	size = bpf_ntohl(head->in6_u.u6_addr32[0]) & 0xffff;
	if (!size) {
		c->answer = WEIR_HOT_DROP;
		return 1;
	}
	bit = 1ULL << (kind & 63);
	fits = c->wanted[kind >> 6 & 3] & bit && sctp_flags_fit(c, kind, head->in6_u.u6_addr8[1]);
	if (fits)
		c->missing[kind >> 6 & 3] &= ~bit;
	if (fits ? c->how == WEIR_CHUNKS_ANY : c->how == WEIR_CHUNKS_ONLY) {
		c->answer = fits ? WEIR_HOLDS : WEIR_FAILS;
		return 1;
	}
	c->at += (size + 3) & ~3U;
	return c->at >= c->length;
}

__noinline int test_chunks(struct walk *w, __u32 at, __u32 how, __u32 rows)
{
	struct sctp_walk c = { .answer = -1 };
	const __u64 *wanted;
	const __u32 *flags;
	const __u8 *image;

	if (!w || w->packet.transport != WEIR_TRANSPORT_SCTP)
		return WEIR_ABSENT;
	image = weir_image(w->slot & 1);
	if (!image)
		return WEIR_ABSENT;
	wanted = IMAGE_AT(__u64, image, image_mask(), at);
	flags = IMAGE_AT(__u32, image, image_mask(), at + sizeof(c.wanted));
	for (int i = 0; i < 4; i++) {
		c.missing[i] = wanted[i];
		c.wanted[i] = wanted[i];
		c.flags[i] = flags[i];
	}
	c.base = w->seen.bytes.base;
	c.at = w->packet.transport_offset + 12;
	c.length = w->packet.length;
	c.readable = c.length < w->seen.bytes.have ? c.length : w->seen.bytes.have;
	c.how = how;
	c.rows = rows;
	bpf_loop(WEIR_SCTP_CHUNKS_MAX, sctp_chunk, &c, 0);
	if (c.answer >= 0)
		return c.answer;
	if (how == WEIR_CHUNKS_ALL && c.missing[0] | c.missing[1] | c.missing[2] | c.missing[3])
		return WEIR_FAILS;
	return how == WEIR_CHUNKS_ANY ? WEIR_FAILS : WEIR_HOLDS;
}

#endif
