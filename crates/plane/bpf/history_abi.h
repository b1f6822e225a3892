/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Parameters of a history, in the image, and its memory, in `histories`. Twin of
 * engine::history::record and ::tables, which say what each number means.
 */
#ifndef WEIR_HISTORY_ABI_H
#define WEIR_HISTORY_ABI_H

#include <linux/types.h>

enum history_kind {
	HISTORY_LIMIT = 1,
	HISTORY_HASH_LIMIT = 2,
	HISTORY_RECENT = 3,
	HISTORY_CONN_LIMIT = 4,
	HISTORY_RANDOM = 5,
	HISTORY_NTH = 6,
	HISTORY_QUOTA = 7,
	HISTORY_TIME = 8,
	HISTORY_PER_SECOND = 9,
	HISTORY_METER = 10,
};

enum history_flag {
	HISTORY_NEVER = 1,
	HISTORY_ABOVE = 1 << 1,
	HISTORY_NEGATED = 1 << 2,
	HISTORY_BYTES = 1 << 3,
	HISTORY_SRC = 1 << 4,
	HISTORY_SRC_PORT = 1 << 5,
	HISTORY_DST = 1 << 6,
	HISTORY_DST_PORT = 1 << 7,
	HISTORY_DESTINATION = 1 << 8,
	HISTORY_REAP = 1 << 9,
	HISTORY_TTL = 1 << 10,
	HISTORY_CONTIGUOUS = 1 << 11,
	HISTORY_SET = 1 << 12,
	HISTORY_UPDATE = 1 << 13,
	HISTORY_REMOVE = 1 << 14,
	HISTORY_KEYED = 1 << 15,
	HISTORY_SAMPLED = 1 << 16,
};

struct history_record {
	__u32 kind;		/* enum history_kind */
	__u32 flags;		/* enum history_flag */
	__u32 memory;		/* offset of its memory, a multiple of 64 */
	__u32 bucket_mask;
	__u32 stride;		/* bytes of a place, a multiple of 64 */
	__u32 room;		/* stamps or members of a place */
	__u8 prefixes[2];
	__u16 proto;
	__u32 span;
	__u64 a;
	__u64 b;
	__u64 c;
	__u64 d;
};

_Static_assert(sizeof(struct history_record) == 64, "a cache line");

/* Bits of word 4 of a place. */
#define HISTORY_USED (1ULL << 32)
#define HISTORY_V6 (1ULL << 33)
#define HISTORY_LOCK (1ULL << 63)	/* of the first place: the bucket is being worked on */

/* Bit of word 5 of a hash limit that counts: the time before this one had too many packets. */
#define HISTORY_EXCEEDED (1ULL << 63)
#define HISTORY_PASSED_MAX (1ULL << 43)	/* so that products with a rate fit */

#define HISTORY_HASH_BUCKET 8
#define HISTORY_LIST_BUCKET 4
#define HISTORY_HITS_MAX 256
#define HISTORY_MEMBERS_MAX 540

#endif
