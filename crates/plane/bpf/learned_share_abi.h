/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The bytes of what states count for (map `shares`) and of records about states (map
 * `state_records`). Twin of plane::shares and plane::records, which list them.
 */
#ifndef WEIR_LEARNED_SHARE_ABI_H
#define WEIR_LEARNED_SHARE_ABI_H

#include "learned_abi.h"

#define SHARE_LINE_PLACES 16
#define SHARE_LINES 4096		/* a power of two */
#define SHARE_PLACES (SHARE_LINES * SHARE_LINE_PLACES)
#define SHARE_LINKS_AT 0x1000
#define SHARE_PLACES_AT (SHARE_LINKS_AT + LEARNED_SLOTS * 4)
#define SHARE_BYTES (SHARE_PLACES_AT + SHARE_PLACES * 128)

enum share_statistic {
	SHARE_ADDED = 0,
	SHARE_FULL = 1,			/* both lines of a name are full */
	SHARE_RECORDS = 2,		/* records of limits */
	SHARE_RECORDS_LOST = 3,
};

struct share_header {
	__u32 listening;		/* somebody reads records */
	__u32 count;			/* shares there are */
	__u64 swept_ms;
	__u64 statistics[8];
};

enum share_kind {			/* beside HP's numbers of limits: 2, 4, 6, 8 */
	SHARE_HOST = 1,			/* states of a host, for max-per-src */
	SHARE_HOSTS = 3,		/* hosts of a rule, for max-srcs */
	SHARE_CUMULATIVE = 4,
};

/* What states count for. */
struct learned_share {
	__u64 name;			/* 0: free */
	__u64 src[2];
	__u64 dst[2];
	__u64 first_ms;
	__u64 exceeded;
	__u32 current;
	__u32 configured;		/* 0: being written */
	__u32 resets;
	__u32 alerts;
	__u32 rule;
	__u32 generation;		/* of the policy that the rule is of */
	__u32 learner;
	__u32 record_at;		/* its parameters, in that policy's image */
	__u32 of;			/* place of the rule's SHARE_HOSTS, plus 1 */
	__u16 port;
	__u8 family;
	__u8 kind;
	__u64 reserved[4];
};

enum record_kind {
	RECORD_NEW = 1,
	RECORD_EXPIRE = 2,
	RECORD_ALERT = 3,		/* a connection above a limit */
	RECORD_SUMMARY = 4,		/* the last one of a limit ended */
};

struct learned_record {
	__u64 time_ms;			/* packet clock */
	__u64 src[2];
	__u64 dst[2];
	__u64 counts[4][2];		/* as in a state */
	__u64 first_ms;
	__u64 exceeded;
	__u32 rule;
	__u32 generation;
	__u32 configured;
	__u32 current;
	__u32 alerts;
	__u32 interface;
	__u16 src_port;
	__u16 dst_port;
	__u8 family;
	__u8 proto;
	__u8 kind;			/* enum record_kind */
	__u8 limit;			/* enum share_kind */
	__u8 tcp_flags;
	__u8 padding[7];
};

_Static_assert(sizeof(struct learned_share) == 128, "plane::shares");
_Static_assert(sizeof(struct share_header) <= SHARE_LINKS_AT, "plane::shares");
_Static_assert(sizeof(struct learned_record) == 160, "plane::records");

#endif
