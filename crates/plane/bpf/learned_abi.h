/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The bytes of the table of learned states (map `learned`): a header; tags, sixteen to a cache
 * line; entries of four lines, as many as tags. Twin of plane::learned, which lists them.
 */
#ifndef WEIR_LEARNED_ABI_H
#define WEIR_LEARNED_ABI_H

#include <linux/types.h>

#define LEARNED_LINE_SLOTS 16
#define LEARNED_LINES 8192		/* a power of two: twice the states that a policy may ask for */
#define LEARNED_SLOTS (LEARNED_LINES * LEARNED_LINE_SLOTS)
#define LEARNED_LEARNERS 4096		/* learners that can have a limit of their own */
#define LEARNED_TAGS_AT 0x9000
#define LEARNED_ENTRIES_AT (LEARNED_TAGS_AT + LEARNED_SLOTS * 4)
#define LEARNED_BYTES (LEARNED_ENTRIES_AT + LEARNED_SLOTS * 256)

enum learned_statistic {
	LEARNED_MADE = 0,
	LEARNED_EXPIRED = 1,
	LEARNED_NO_ROOM = 2,		/* a limit of the policy */
	LEARNED_FULL = 3,		/* both lines of a name are full */
	LEARNED_SWEEPS = 4,
	LEARNED_BUSY = 5,		/* a lock was not to be had */
	/* IPFilter's, each counted where something seldom happens: */
	LEARNED_RULE_FULL = 6,		/* of NO_ROOM: a limit of the rule */
	LEARNED_HOSTS_FULL = 7,		/* of NO_ROOM: `max-srcs`, `max-per-src` */
	LEARNED_ENDED = 8,		/* of EXPIRED: TCP, both ends were done */
	LEARNED_MADE_TCP = 9,		/* of MADE */
	LEARNED_MADE_UDP = 10,
	LEARNED_MADE_ICMP = 11,
	LEARNED_MADE_ICMP6 = 12,
	LEARNED_ADD_BAD = 13,		/* packets that begin no state: short, bad, bodies */
	LEARNED_ADD_OOW = 14,		/* out of a state's window, and no SYN */
	LEARNED_ADD_RESET = 15,		/* TCP with RST */
	LEARNED_ADD_SMALL = 16,		/* TCP without a whole header */
	LEARNED_ADD_NO_QUERY = 17,	/* ICMP of other types */
	LEARNED_OUT_OF_WINDOW_SEEN = 18,
	LEARNED_ICMP_HITS = 19,		/* errors about packets of states */
	LEARNED_ICMP_BANNED = 20,	/* `no-icmp-err` */
	LEARNED_ICMP_BLOCKED = 21,	/* by the group of `icmp-head` */
	LEARNED_ICMP_TOO_MANY = 22,	/* more errors than packets */
	LEARNED_STATISTICS = 24,
};

struct learned_header {
	__u64 next_number;
	__u64 next_expiry;	/* no entry's time is up before */
	__u32 count;
	__u32 open;		/* entries whose destination is not known yet, ever made */
	__u32 sweeping;
	__u32 fragments;	/* datagrams remembered */
	__u64 statistics[LEARNED_STATISTICS];
	__u32 of_learner[2][LEARNED_LEARNERS];	/* by slot of the policy: its entries */
};

/* One end of a TCP connection: policy's eval::ipf::tcp::End. */
struct learned_end {
	__u32 end;
	__u32 max_end;
	__u32 max_window;
	__u8 scale;
	__u8 scale_seen;
	__u8 scale_first;
	__u8 sack;
};

/* eval::ipf::tcp::Machine. */
struct learned_machine {
	struct learned_end ends[2];	/* who began, and the other */
	__u8 states[2];
	__u8 queue;
	__u8 from_syn;
	__u8 strict;
	__u8 loose;
	__u8 kept_time;
	__u8 deleted;
};

/* What ipfw's states have in its place (dynamic.h), and counters of limits (dynamic_table.h). */
struct dynamic_state {
	__u64 identity;		/* of the rule, in every policy */
	union {
		__u64 parent;	/* number of the limit's counter */
		__u64 until;	/* a counter's time, once it counts nobody */
	};
	__u32 ack[2];		/* acknowledged by who began, and by the other */
	union {
		__u32 slot;	/* of the limit's counter */
		__u32 count;
	};
	__u8 flags[2];		/* SYN, FIN, RST seen */
	__u8 acked;		/* a bit for each end */
	__u8 limited;
	__u8 padding[8];	/* machine.deleted among them */
};

/* eval::ipf::state::State, and whose it is. */
struct learned_entry {
	__u64 src[2];
	__u64 dst[2];
	__u16 src_port;		/* ICMP: type */
	__u16 dst_port;		/* ICMP: identifier */
	__u8 family;		/* 4 or 6 */
	__u8 proto;
	__u8 used;		/* 0: being written, or free; 1: a state; 2: fragments, see learned_frag.h */
	__u8 open;		/* the destination is not known yet */
	__u32 lock;
	__u32 rule;
	__u32 generation;	/* of the policy that the rule is of */
	__u32 learner;
	__u64 number;		/* never used twice */

	__u64 expires_ms;
	union {
		struct learned_machine machine;
		struct dynamic_state dynamic;
	};
	__u16 reject;
	__u8 verdict;
	__u8 classes;		/* of security options */
	__u16 flags;		/* WEIR_LEARN_* */
	__u8 reply_options;	/* those of replies are known */
	__u8 icmp_head;		/* group that judges ICMP errors about its packets; 0: none */
	__u32 age[2];		/* seconds, ~0: as the protocol has it */

	__u32 interfaces[4];	/* in forward, in reverse, out forward, out reverse; 0: not known */
	__u32 options[2];
	__u16 headers[2];
	__u32 made_s;		/* packet clock in seconds */
	__u32 seen[2][2];	/* attributes: in or out, forward or reverse */
	__u32 icmp_packets[4];

	__u64 counts[4][2];	/* in forward, out forward, in reverse, out reverse: packets, bytes */
};
#define LEARNED_ANY_INTERFACE 0xffffffffu

_Static_assert(sizeof(struct learned_machine) == 40, "plane::learned");
_Static_assert(sizeof(struct dynamic_state) == 40, "plane::learned");
_Static_assert(sizeof(struct learned_entry) == 256, "four cache lines");
_Static_assert(__builtin_offsetof(struct learned_entry, expires_ms) == 64, "plane::learned");
_Static_assert(__builtin_offsetof(struct learned_entry, interfaces) == 128, "plane::learned");
_Static_assert(__builtin_offsetof(struct learned_entry, counts) == 192, "plane::learned");
_Static_assert(sizeof(struct learned_header) <= LEARNED_TAGS_AT, "plane::learned");

#endif
