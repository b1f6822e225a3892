/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The image: structures and how to read them. Twin of engine::image::layout: same names, order and
 * numbers. Offsets are bytes from the start of the image; user space has checked all of them, so
 * the mask here only tells the verifier what it cannot know.
 */
#ifndef WEIR_IMAGE_H
#define WEIR_IMAGE_H

#include "abi.h"

#define WEIR_STEPS_MAX 1024
#define WEIR_CHUNKS_MAX 128
/*
 * Calls of lookup_step for one packet: 3 for each entry met, 9 for each chunk, and where rows say
 * which terms may hold, one for eight of those that don't.
 */
#define WEIR_VAIN_MAX 512
#define WEIR_CHUNK_STEPS (9 + WEIR_VAIN_MAX / 8)
#define WEIR_LOOKUPS_MAX (3 * WEIR_STEPS_MAX + WEIR_CHUNK_STEPS * WEIR_CHUNKS_MAX)
#define WEIR_SEARCH_STEPS_MAX 20
#define WEIR_TABLES_MAX 16
#define WEIR_GROUP_MAX 8
#define WEIR_SPLITS_MAX 8
#define WEIR_TESTS_MAX 8
#define WEIR_OPS_MAX 8
#define WEIR_RULES_MAX 64
#define WEIR_ROOTS 30
#define WEIR_NONE 0xffffffffu

/* Fields of weir_split.dim; addresses only of IPv4. */
#define WEIR_DIM_SRC 0
#define WEIR_DIM_DST 1
#define WEIR_DIM_SRC_PORT 2
#define WEIR_DIM_DST_PORT 3
#define WEIR_DIM_PROTO 4

/* Bits of weir_fold.used. */
#define WEIR_FOLD_PORTS 1
#define WEIR_FOLD_LINKS 2
#define WEIR_FOLD_APART 4	/* ports have rows of their own: services of tables */
/* Rows of a chunk: source, destination, all else; with five, also both ports. */
#define WEIR_ROWS_MAX 5

struct weir_header {
	__u32 magic;
	__u32 version;
	__u32 length;
	__u32 rule_count;
	__u64 checksum;
	__u64 budget;
	__u32 history_count;
	__u32 patterns_at;
	__u32 patterns;
	__u32 worst_loads;
	__u32 worst_steps;
	__u32 features;
	__u64 loaded_ms;	/* packet clock when user space put the image into its slot */
	__u32 roots[WEIR_ROOTS];
	__u32 shorts[WEIR_ROOTS];
	__u32 established[WEIR_ROOTS];
};

enum weir_feature {		/* bits of weir_header.features */
	WEIR_FEATURE_CHANGES = 1,	/* operations change packets or flows */
	WEIR_FEATURE_FLOW_FIELDS = 2,	/* tests of fields of flows */
	WEIR_FEATURE_HISTORY = 4,	/* tests that remember */
	WEIR_FEATURE_LIFETIMES = 8,	/* loaded_ms matters */
	WEIR_FEATURE_LEARNED = 16,	/* rules make states: learned.bpf.c */
	WEIR_FEATURE_TABLES = 32,	/* some root has hashed tables */
	WEIR_FEATURE_RARE = 64,		/* tests of what is not in struct weir_packet */
	WEIR_FEATURE_DYNAMIC = 128,	/* they do as ipfw's: dynamic.bpf.c */
	WEIR_FEATURE_METER = 256,	/* tests that are meters: meter.h */
	WEIR_FEATURE_ASIDE = 512,	/* tests of aside.h */
	WEIR_FEATURE_PAYLOAD = 1024,	/* some of them look into payloads: payload.h */
	WEIR_FEATURE_ICMP_HEAD = 2048,	/* states ask groups about ICMP errors: learned_error.h */
	WEIR_FEATURE_KEEP_ALIVE = 4096,	/* the agent keeps TCP states alive: alive.h */
	WEIR_FEATURE_ROUTES = 8192,	/* tests of routes to sources: reached.h */
	WEIR_FEATURE_CHUNKS = 16384,	/* tests of SCTP chunks, which are made readable: chunks.h */
	/* 1 << 17: WEIR_FEATURE_TIMES of maps.h, where images are not known */
	WEIR_FEATURE_BAD_SRC = 1 << 16,	/* sources are checked: learned_frag.h */
	WEIR_FEATURE_BOUNDS = 1 << 18,	/* some chunk has bounds */
};
/* Above those of images: hooks of IPv6 are needed (load.rs, FAMILY_V6), flows are kept (TRACKS). */
#define WEIR_FEATURE_V6 (1U << 31)
#define WEIR_FEATURE_TRACKS (1U << 25)

struct weir_pattern {
	__u64 name[2];
	__u64 mask[2];
};

struct weir_root {
	__u32 entries_at;
	__u32 entries;
	__u32 family;
	__u32 tables;
	__u32 tables_at;
	__u32 services_at;
	__u32 chunks;
	__u32 chunks_at;
	__u32 splits;
	__u32 splits_at;
	__u32 split_nodes;
	__u32 leaves_at;
	__u32 leaves;
	__u32 services;
	__u32 packed;		/* for vectors */
	__u32 brief_at;		/* a word for each entry, WEIR_BRIEF_*; 0: all are written out */
};

struct weir_split {
	__u32 dim;
	__u32 bound;
	__u32 next[2];		/* below the bound, from it on; highest bit: a leaf */
};
#define WEIR_LEAF (1u << 31)

struct weir_leaf {
	__u32 chunks_at;
	__u32 chunks;
};

struct weir_hash_table {		/* layout::HashTable */
	__u64 masks[4];
	__u64 ports;		/* of protocol << 32 | src_port << 16 | dst_port */
	__u32 shift;
	__u32 slots_at;
	__u32 record;
	__u32 groups_at;
	__u32 filters_at;	/* filters of all slots beside one another, or 0 */
	__u32 step;		/* positions of one rank */
};

/*
 * A slot: filter << 28 | rank << 26 | offset / 16 << 3 | records - 1, or 0; see image/slot.rs. No
 * record of its group stands before rank * step.
 */
#define WEIR_SLOT_OFFSET 0x07fffff0

struct weir_prefixes4 {
	__u32 src;
	__u32 dst;
	__u16 service;
	__u8 shifts[2];
	__u32 position;
};

struct weir_record4 {
	__u32 src[2];		/* first, last less first */
	__u32 dst[2];
	__u16 src_port[2];
	__u16 dst_port[2];
	__u32 position;
	__u32 service;
};

/* Of a term of IPv6 in a chunk with bounds; of IPv4 it is a record4. */
struct weir_bounds6 {
	__u64 src[2][2];	/* first, last; high, low */
	__u64 dst[2][2];
	__u16 src_port[2];	/* first, last less first */
	__u16 dst_port[2];
	__u64 padding;
};

struct weir_record6 {
	__u64 src[2];
	__u64 dst[2];
	__u16 src_port[2];
	__u16 dst_port[2];
	__u32 position;
	__u32 service;
	__u8 shifts[4];
	__u32 padding[3];
};

struct weir_map {
	__u32 table_at;
	__u32 blocks;
	__u32 rows_at;
	__u32 rows;
};

struct weir_address_map {
	__u64 base[2];
	__u32 shift;
	__u32 cell_last;
	__u32 index_at;
	__u32 bounds_at;
	__u32 bounds;
	__u32 classes_at;
	__u32 steps;
	__u32 rows_at;
	__u32 rows;
	__u32 tree_at;
	__u32 tree;
	__u32 wide_at;		/* cells that two steps lead to, by the first 16 bits; 0: none */
};

struct weir_fold {
	__u32 used;
	__u32 pairs_at;
	__u32 pairs;
	__u32 forms_at;
	__u32 forms;
	__u32 links_at;
	__u32 links;
	__u32 link_classes;
	__u32 smalls_at;
	__u32 smalls;
	__u32 small_classes;
	__u32 cells_at;
	__u32 cells;
	__u32 rows_at;
	__u32 rows;
	__u32 stride;
	__u32 small_at[5];
	__u32 direct_at[2];	/* classes by port; 0: none */
	__u32 padding;
	struct weir_map ports[2];
};

struct weir_chunk {
	__u32 rows;
	__u32 words;
	__u32 terms;
	__u32 positions_at;
	__u32 stride;
	__u32 shared;		/* small fields and ports have the classes of the root's services */
	__u32 bounds_at;	/* what terms say of addresses and ports, where rows say who may hold */
	__u32 vain_max;		/* of terms that rows let through, so many may not hold */
	struct weir_address_map addresses[2];
	struct weir_map ports[2];
	struct weir_fold fold;
};

struct weir_entry {
	__u8 verdict;		/* 0: go on; enum weir_verdict; WEIR_VERDICT_HOT_DROP */
	__u8 flags;		/* WEIR_FLAG_* */
	__u16 reject;
	__u32 rule;		/* with several rules: offset of their u32 ids */
	__u32 rules;
	__u32 tests_at;
	__u32 ops_at;
	__u16 tests;
	__u16 ops;
	__u32 next_match;
	__u32 next_fail;
};
#define WEIR_VERDICT_HOT_DROP 4
#define WEIR_FLAG_PROPOSE 0x80	/* the verdict in the lowest two bits stands from here on; 0: none */
#define WEIR_FLAG_STANDING 0x40	/* if a proposal stands it decides, and this does not count */
#define WEIR_FLAG_AS_LEARNED 0x20	/* the state just found gives verdict and deciding rule */
#define WEIR_FLAG_REFUSE 0x10	/* the verdict that stands becomes a drop */
#define WEIR_FLAG_AGAIN 0x08	/* who passes it looks anew: rules came behind it (engine::update) */
#define WEIR_FLAG_VERDICT 3

/*
 * The word of an entry: accept or drop in the highest two bits, and the rule that counts, as
 * WEIR_LANE_DECIDED; or WEIR_BRIEF_HOT_DROP; else its number among those written out.
 */
#define WEIR_BRIEF_VERDICT 30
#define WEIR_BRIEF_HOT_DROP 3	/* in the highest two bits */
#define WEIR_BRIEF_NUMBER ((1U << WEIR_BRIEF_VERDICT) - 1)

struct weir_residual {		/* layout::Test */
	__u8 kind;
	__u8 negate;
	__u16 small;
	__u32 a;
	__u32 b;
	__u32 at;
	__u32 count;
	__u32 padding[3];
};

enum weir_test_kind {
	WEIR_TEST_MARK = 1,
	WEIR_TEST_CONNMARK = 2,
	WEIR_TEST_SRC_MASKED = 3,
	WEIR_TEST_DST_MASKED = 4,
	WEIR_TEST_MAC = 5,
	WEIR_TEST_PACKET_TYPE = 6,
	WEIR_TEST_OWNER = 7,
	WEIR_TEST_LENGTH = 8,
	WEIR_TEST_TTL = 9,
	WEIR_TEST_TOS = 10,
	WEIR_TEST_TCP_OPTION = 11,
	WEIR_TEST_TCP_MSS = 12,
	WEIR_TEST_SPI = 13,
	WEIR_TEST_SCTP = 14,
	WEIR_TEST_ROUTING = 15,
	WEIR_TEST_CT = 16,
	WEIR_TEST_SRC_TYPE = 17,
	WEIR_TEST_HISTORY = 18,
	WEIR_TEST_UNTIL = 19,
	WEIR_TEST_MALFORMED = 20,
	WEIR_TEST_DST_TYPE = 21,
	WEIR_TEST_STATE = 22,
	WEIR_TEST_HANDLING = 23,
	WEIR_TEST_PROPOSED = 24,
	WEIR_TEST_LEARNED = 25,
	WEIR_TEST_LEARN = 26,
	WEIR_TEST_OUT_OF_WINDOW = 27,
	WEIR_TEST_IPF_WITH = 28,
	WEIR_TEST_DYNAMIC_LOOK = 29,
	WEIR_TEST_DYNAMIC_NOTE = 30,
	WEIR_TEST_DYNAMIC_OF = 31,
	WEIR_TEST_DYNAMIC_FORGET = 32,
	WEIR_TEST_ASIDE = 33,	/* `small`: enum weir_aside */
	WEIR_TEST_ICMP_HEAD = 34,	/* `small`: enum weir_icmp_head */
};

enum weir_icmp_head {		/* of an ICMP error that WEIR_TEST_LEARNED left to a group */
	WEIR_ICMP_HEAD_WAITS = 0,	/* it waits for group `a`; 0: for any */
	WEIR_ICMP_HEAD_REFUSED = 1,	/* the verdict that stands isn't to accept */
	WEIR_ICMP_HEAD_PASSES = 2,	/* the group passes it: a state takes it */
	WEIR_ICMP_HEAD_BLOCKED = 3,	/* the group blocks it: an older state takes it */
};

struct weir_dynamic {		/* layout::Dynamic */
	__u32 tcp[4];		/* seconds: acknowledged, opening, closed, reset or unknown */
	__u32 udp;
	__u32 other;
	__u32 states_max;
	__u32 parents_max;
	__u32 count;		/* rules that follow */
	__u32 icmp_errors;	/* an ICMP error is found by the state of the packet it quotes */
	__u32 reserved[6];
};

struct weir_dynamic_rule {	/* layout::DynamicRule */
	__u64 identity;
	__u32 rule;
	__u32 flags;		/* WEIR_DYNAMIC_OFF */
	__u32 name;
	__u32 limit;		/* flows with the same fields of `mask`; ~0: no limit */
	__u16 reject[2];
	__u8 verdict[2];
	__u8 mask;		/* source address 1 and port 2, destination address 4 and port 8 */
	__u8 padding;
};
#define WEIR_DYNAMIC_OFF 1

struct weir_learner {		/* layout::Learner */
	__u32 rule;
	__u32 flags;		/* WEIR_LEARN_* */
	__u32 limit;		/* states of this rule at once; ~0: no limit of its own */
	__u32 states_max;	/* of all rules */
	__u32 age[2];		/* seconds; ~0: as the protocol has it */
	__u16 reject[2];
	__u8 verdict[2];
	__u8 source_prefix[2];	/* first bits that hosts counted as one have in common */
	__u32 sources[2];	/* hosts at once, states of a host at once; ~0: no such limit */
	__u32 identity;		/* names the rule over changes of its limits */
	__u32 connections;	/* at once, with WEIR_LEARN_LIMITED */
	__u32 alerts;		/* records of those above: the first, then every so many; 0: none */
	__u32 kind;		/* HP's number of the kind of source */
	__u32 icmp_head;	/* group that judges ICMP errors about its packets; 0: none */
	__u32 reserved;
};
#define WEIR_LEARN_STRICT 1
#define WEIR_LEARN_LOOSE 2
#define WEIR_LEARN_NO_ICMP_ERRORS 4
#define WEIR_LEARN_ANY_INTERFACE 8
#define WEIR_LEARN_LOG 16
#define WEIR_LEARN_COUNT 32
#define WEIR_LEARN_STATE 64
#define WEIR_LEARN_FRAGMENTS 128
#define WEIR_LEARN_FRAGMENTS_STRICT 256
#define WEIR_LEARN_FRAGMENTS_ANYWAY 512
#define WEIR_LEARN_LIMITED 1024
#define WEIR_LEARN_CUMULATIVE 2048
#define WEIR_LEARN_RESETS 4096
#define WEIR_LEARN_FAILS_CLOSED 8192
#define WEIR_LEARN_OR_BLOCK 16384
#define WEIR_LEARN_SOURCES 32768

enum weir_lifetime {		/* layout::Lifetimes, in milliseconds; TCP by its state */
	LIFETIME_UDP = 12,	/* and behind it after a reply */
	LIFETIME_ICMP = 14,
	LIFETIME_OTHER = 16,
	LIFETIME_FRAGMENT = 17,
};

struct weir_ipf_with {		/* layout::IpfWith */
	__u32 attributes[2];	/* looked at, and what of it must be there */
	__u32 options[2];
	__u8 classes[2];
	__u16 headers[2];	/* must be there, must not */
	__u8 padding[2];
	__u32 reserved[2];
};

struct weir_op {
	__u8 kind;
	__u8 small;
	__u16 index;
	__u32 rule;
	__u32 a;
	__u32 b;
};

enum weir_op_kind {
	WEIR_OP_LOG = 1,
	WEIR_OP_NFLOG = 2,
	WEIR_OP_MARK = 3,
	WEIR_OP_CONNMARK = 4,
	WEIR_OP_SAVE_MARK = 5,
	WEIR_OP_RESTORE_MARK = 6,
	WEIR_OP_NOTRACK = 7,
	WEIR_OP_TOS = 8,
	WEIR_OP_CLASSIFY = 9,
	WEIR_OP_MSS = 10,
	WEIR_OP_TTL = 13,
};
#define WEIR_SHIFT_RIGHT 0x80	/* `small` of operations on marks of flows: how far, and where */

/*
 * A structure in the image. `image` is a map value, `at` an offset. Where
 * WEIR_SETTINGS_WRITTEN is defined, the mask is part of the instruction: load.rs writes it there
 * before loading, and each of the many reads of a packet is spared two or three instructions.
 */
#ifdef WEIR_SETTINGS_WRITTEN
static __always_inline __u64 image_offset(__u64 at)
{
	asm("%0 &= %1" : "+r"(at) : "i"(WEIR_MASK_PLACE));
	return at;
}
#define IMAGE_AT(type, image, mask, at) \
	((void)(mask), (const type *)((image) + image_offset(at)))
#else
#define IMAGE_AT(type, image, mask, at) ((const type *)((image) + ((at) & (mask))))
#endif
#define IMAGE_U16(image, mask, at) (*IMAGE_AT(__u16, image, mask, at))
#define IMAGE_U32(image, mask, at) (*IMAGE_AT(__u32, image, mask, at))
#define IMAGE_U64(image, mask, at) (*IMAGE_AT(__u64, image, mask, at))

/* Offset of the root of a family, hook and table; 0 when packets need not be judged there. */
static __always_inline __u32 image_root(const __u8 *image, const struct weir_packet *p, __u8 table)
{
	const struct weir_header *h = (const struct weir_header *)image;
	__u32 number = ((p->family == 6 ? 5 : 0) + p->hook) * 3 + table;

	if (number >= WEIR_ROOTS)
		return 0;
	return p->transport == WEIR_TRANSPORT_SHORT ? h->shorts[number] : h->roots[number];
}

#endif
