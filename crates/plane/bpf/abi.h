/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Structures that the programs and user space share. Nothing else may define them: Rust mirrors
 * them and asserts sizes and offsets. Numbers: 0 is "unset" unless said. Host byte order.
 */
#ifndef WEIR_ABI_H
#define WEIR_ABI_H

#include <linux/types.h>

#define WEIR_ABI_VERSION 12

enum weir_hook {
	WEIR_HOOK_PREROUTING = 0,	/* numbers of NF_INET_* */
	WEIR_HOOK_INPUT = 1,
	WEIR_HOOK_FORWARD = 2,
	WEIR_HOOK_OUTPUT = 3,
	WEIR_HOOK_POSTROUTING = 4,
};

/* Stages within a hook, in evaluation order (model::Table without nat and security). */
enum weir_table {
	WEIR_TABLE_RAW = 0,
	WEIR_TABLE_MANGLE = 1,
	WEIR_TABLE_FILTER = 2,
	__WEIR_TABLE_MAX = 3,
};

enum weir_transport {
	WEIR_TRANSPORT_NONE = 1,	/* later fragment, or no fields to read */
	WEIR_TRANSPORT_SHORT = 2,	/* cut short, or TCP fragment at offset 1 */
	WEIR_TRANSPORT_TCP = 3,
	WEIR_TRANSPORT_UDP = 4,		/* UDP, UDP-Lite, DCCP */
	WEIR_TRANSPORT_SCTP = 5,
	WEIR_TRANSPORT_ICMP = 6,	/* ICMP, ICMPv6 */
	WEIR_TRANSPORT_SPI = 7,		/* AH, ESP */
};

enum weir_fragment {
	WEIR_FRAGMENT_WHOLE = 1,
	WEIR_FRAGMENT_FIRST = 2,
	WEIR_FRAGMENT_LATER = 3,
};

/* Bits of model::CtState. */
enum weir_state {
	WEIR_STATE_INVALID = 1,
	WEIR_STATE_NEW = 2,
	WEIR_STATE_ESTABLISHED = 4,
	WEIR_STATE_RELATED = 8,
	WEIR_STATE_UNTRACKED = 16,
};

enum weir_verdict {
	WEIR_VERDICT_ACCEPT = 1,
	WEIR_VERDICT_DROP = 2,
	WEIR_VERDICT_REJECT = 3,
};

/*
 * One parsed packet: twin of model::Packet (and of engine::packet::Key). Filled by parse.h; the
 * last block by the program (interfaces, mark) and by the flow table (state).
 */
struct weir_packet {
	__u64 src[2];		/* [0] high 64 bits, [1] low; IPv4 in the low 32 of [1] */
	__u64 dst[2];
	__u32 length;		/* layer 3 bytes */
	__u32 sequence;		/* TCP; AH/ESP: the SPI */
	__u32 acknowledgement;
	__u32 payload;		/* bytes after the TCP header */
	__u16 src_port;		/* TCP, UDP, SCTP; ICMP: type << 8 | code */
	__u16 dst_port;		/* TCP, UDP, SCTP; ICMP: identifier of a query */
	__u16 window;
	__u16 transport_offset;	/* from the start of the network header */
	__u16 fragment_offset;	/* units of 8 bytes */
	__u8 family;		/* 4 or 6 */
	__u8 hook;		/* enum weir_hook */
	__u8 proto;
	__u8 transport;		/* enum weir_transport */
	__u8 fragment;		/* enum weir_fragment */
	__u8 tcp_flags;
	__u8 tcp_options;	/* bytes of options, at transport_offset + 20 */
	__u8 ttl;
	__u8 tos;
	__u8 packet_type;	/* PACKET_HOST 0, BROADCAST 1, MULTICAST 2, OTHERHOST 3, ... */
	__u8 state;		/* one bit of enum weir_state */
	__u8 malformed;		/* TCP data offset out of bounds */
	__u8 tcp_scale;		/* window scale option (at most 14) + 1; 0 without */
	__u8 tcp_sack_permitted;	/* SACK-permitted option */
	/* set by the program */
	__u32 mark;
	__u16 in_class;		/* interface class of the active image: see classify.h */
	__u16 out_class;
	/* IPv6 routing header, the first one */
	__u8 has_routing;
	__u8 routing_type;
	__u8 routing_left;
	__u8 reserved;
	__u32 sack;		/* TCP: highest of acknowledgement and right edges of SACK blocks */
};

/*
 * What programs have in their instructions until load.rs writes something else there: the mask of
 * offsets into an image (image.h), and settings of four bytes, by their number (maps.h).
 */
#define WEIR_MASK_PLACE 0x5eed0a00
#define WEIR_SETTING_PLACE 0x5eed0b00

/* Read-only data of the programs, written before they are loaded. */
struct weir_settings {
	__u32 image_mask;	/* bytes of an image slot less one, a power of two less one */
	__u32 rule_capacity;	/* rules (counters) in a slot */
	__u32 shards;		/* counters of a rule, chosen by CPU: see weir_count */
	__u32 history_mask;	/* bytes of a history slot less one, a power of two less one */
	__u32 flow_lines;	/* lines of 64 slots of the flow table: see flow_abi.h */
	__u32 testing;		/* loaded for BPF_PROG_TEST_RUN: weir_control.test is read */
	__u64 jiffy_multiplier;	/* milliseconds = jiffies * multiplier >> 20 */
	__u64 hash_seed[2];	/* of the flow table */
	__u32 flow_entries;	/* offsets in the flow table */
	__u32 flow_cold;
	__u32 features;		/* enum weir_feature: what policies may use; the rest is not loaded */
	__u32 exclusive;	/* each CPU has a shard of its own, and there is one more */
};

/* Bytes after the end of a slot, so that a masked offset plus a record stays inside. */
#define WEIR_SLACK 4096

/* Why a packet was dropped (or not tracked): indexes of weir_control.reasons. */
enum weir_reason {
	WEIR_REASON_RULE = 0,		/* a rule or chain policy said drop */
	WEIR_REASON_REJECT = 1,		/* a rule said reject, the answer was handed on */
	WEIR_REASON_REJECT_SILENT = 2,	/* a rule said reject, nobody could answer */
	WEIR_REASON_SHORT = 3,		/* transport header cut short where a rule reads it */
	WEIR_REASON_PARSE = 4,		/* no valid network header */
	WEIR_REASON_IMAGE = 5,		/* the image broke a bound: never happens with checked images */
	WEIR_REASON_EVENT_LOST = 6,	/* not a drop: an event found its ring buffer full */
	WEIR_REASON_EVENT_LIMITED = 7,	/* not a drop: an event was over the rate */
	WEIR_REASON_FLOW_FULL = 8,	/* not a drop: no room for a new flow */
	WEIR_REASON_HANDOFF = 9,	/* not a drop: an edit could not be handed on */
	WEIR_REASON_SCRATCH = 10,	/* too many programs interrupted each other at once */
	WEIR_REASON_WHOLE = 11,		/* the program for the whole way is gone: while all is removed */
	__WEIR_REASON_MAX = 16,
};

/* What the kernel does with a packet beside the filter; the translations are bits of states. */
enum weir_handling {
	WEIR_IPSEC_IN = 1,
	WEIR_IPSEC_OUT = 2,
	WEIR_ROUTE_BACK = 4,
	WEIR_ROUTE_BACK_LOOSE = 8,
	WEIR_REVERSE_PATH = 16,
	WEIR_SOURCE_TRANSLATED = 32,
	WEIR_DESTINATION_TRANSLATED = 64,
	WEIR_NOT_SPOOFED = 128,
	WEIR_SOURCE_REACHED = 256,
	WEIR_TRANSLATED = WEIR_SOURCE_TRANSLATED | WEIR_DESTINATION_TRANSLATED,
	WEIR_WAY_BACK = WEIR_ROUTE_BACK | WEIR_ROUTE_BACK_LOOSE | WEIR_REVERSE_PATH |
			WEIR_NOT_SPOOFED,
};

/* model::Facts of a test run. */
enum weir_known {
	WEIR_KNOWN_SOCKET = 1,
	WEIR_KNOWN_CLASS = 2,
	WEIR_KNOWN_BRIDGE = 4,
};
struct weir_facts {
	__u32 groups[4];
	__u32 group_count;
	__u32 known;		/* enum weir_known */
	__u32 class;
	__u32 cpu;
	__u32 device_groups[2];
	__u32 realm;
	__u32 control_group_count;
	__u64 control_groups[3];
	char ports[2][16];
};

/* What BPF_PROG_TEST_RUN pretends; only programs loaded with weir_testing read it. */
struct weir_test {
	char in_name[16];
	char out_name[16];
	__u64 mac;		/* 48 bits, or ~0 for none */
	__u32 mark;
	__u32 uid;
	__u32 gid;
	__u8 has_owner;
	__u8 packet_type;
	__u8 state;		/* enum weir_state: instead of the flow table; 0: ask the flow table */
	__u8 way;		/* enum weir_test_way */
	__u32 handling;		/* enum weir_handling */
	__u32 summed;		/* enum weir_summed */
	struct weir_facts facts;
	/* results */
	struct weir_packet packet;
	struct weir_packet inner;
	__u32 verdict;
	__u32 deciding;		/* rule that decided, or ~0 */
	__u32 result_mark;
	__s32 parse_result;
	__s32 inner_result;
	__u32 short_way;	/* 1: it went the short way */
};
enum weir_summed {		/* sk_buff.ip_summed: who has looked at the transport checksum */
	WEIR_SUMMED_NONE = 0,
	WEIR_SUMMED_RIGHT = 1,
	WEIR_SUMMED_COMPLETE = 2,	/* nobody, but sk_buff.csum is the sum of all bytes */
	WEIR_SUMMED_LATER = 3,	/* it will be filled in */
	WEIR_SUMMED_KNOWN = 1,	/* the bit that says that there is nothing to look at */
};
enum weir_test_way {
	WEIR_TEST_SHORT = 0,	/* the short way, where the packet can go it */
	WEIR_TEST_WHOLE = 1,
	WEIR_TEST_PARSE = 2,	/* copy the parsed packet out, accept */
};

/*
 * The short way of packets at one hook, worked out when a policy is put into its slot (plane::lanes):
 * what lane.h needs to know, in half a cache line.
 */
struct weir_lane {
	__u32 root;		/* of the filter table; 0: all packets go the whole way */
	__u32 established;	/* for packets of established flows; STATES: lifetimes */
	__u32 flags;		/* enum weir_lane_flag */
	__u32 counts;		/* chain policies of tables without rules, which count first */
	__u32 count[2];		/* STATES: the look at states */
	__u32 decided[2];	/* what one rule decides for all, by root: WEIR_LANE_DECIDED */
};
/* verdict << 30 | rule; 0: the packet must be looked up. First of root, then of established. */
#define WEIR_LANE_DECIDED 30
#define WEIR_LANE_RULE ((1U << WEIR_LANE_DECIDED) - 1)
enum weir_lane_flag {
	WEIR_LANE_TRACK = 1,	/* rules ask about flows */
	WEIR_LANE_CLASSES = 2,	/* rules ask about interfaces */
	WEIR_LANE_STATES = 4,	/* root is 0; packets of states are known: lane_learned.h */
};

/* One per instance, mapped by user space. The first part is read for every packet, hardly written. */
struct weir_control {
	__u32 active;		/* slot of images, counters, histories: 0 or 1 */
	__u32 slot_generation[2];	/* number of the policy in each slot; 0: none */
	__u32 slot_hooks[2];	/* hooks that it needs: see plane::hooks */
	__u32 locals_active;	/* slot of locals */
	__u32 answering;	/* an answer process takes rejects */
	__u32 zero;		/* always 0, which the verifier does not know: see parse.h */
	__u64 answer_cookie[2];	/* its sockets: what they send is RELATED */
	__u64 keep_cookie[2];	/* those for keep-alives, IPv4 and IPv6: see alive.h */
	__u64 clock_ms;		/* tests: the time; 0: the kernel's */
	__u32 event_limit;	/* events a second (1024 ms) */
	__u32 abi;		/* WEIR_ABI_VERSION */
	__u32 settings[32];	/* see flow.h */
	__u32 forwarding;	/* switches that were turned on for route.bpf.c: plane::wayback */
	__u32 own_mark;	/* what the agent's segments to this host carry: see own_mark.h */
	__u8 pad[40];
	struct weir_lane lanes[2][8];	/* by slot; IPv4, IPv6; hooks up to OUTPUT */
	/* written by packets */
	__u64 event_window;
	__u64 event_count;
	__u64 reasons[__WEIR_REASON_MAX];
	__u64 flow_statistics[16];	/* see flow.h */
	__u64 told_ms;		/* the packet clock, when weir_clock ran */
	__u64 short_drops[2];	/* by slot: dropped by a rule on the short way */
	__u64 preset_passes[2];	/* by slot: what plane::tally found in counters when they began */
	__u8 pad_end[8];
	struct weir_test test;
	struct weir_settings loaded;	/* what the programs were loaded with */
};

/* Addresses with a routing type of their own, sorted, disjoint: who is LOCAL, who BROADCAST. */
#define WEIR_LOCALS_MAX 1024
enum weir_address_type {	/* bits, as model::AddrType counts */
	WEIR_ADDRESS_LOCAL = 1,
	WEIR_ADDRESS_BROADCAST = 2,
	WEIR_ADDRESS_MULTICAST = 4,
	WEIR_ADDRESS_UNICAST = 8,
	WEIR_ADDRESS_UNSPECIFIED = 16,
	WEIR_ADDRESS_ANYCAST = 32,
};
struct weir_local {
	__u64 first[2];
	__u64 last[2];
	__u64 types;		/* enum weir_address_type */
};
struct weir_locals {
	__u32 count_v4;		/* entries 0 .. count_v4 */
	__u32 count_v6;		/* then these */
	struct weir_local entries[WEIR_LOCALS_MAX];
};

enum weir_event_kind {
	WEIR_EVENT_LOG = 1,
	WEIR_EVENT_NFLOG = 2,
	WEIR_EVENT_REJECT = 3,
};

enum weir_event_flag {
	WEIR_EVENT_OWNED = 1,		/* uid, gid */
	WEIR_EVENT_WRONG_SUM = 2,	/* the checksum of its transport header: learned_sum.h */
};

/* A record in a ring buffer. */
#define WEIR_EVENT_BYTES 1232	/* what an ICMPv6 error may carry */
struct weir_event {
	__u64 time_ms;		/* packet clock */
	__u32 kind;		/* enum weir_event_kind */
	__u32 rule;
	__u32 slot;		/* whose rule numbers and texts these are: */
	__u32 generation;
	__u32 op;		/* LOG, NFLOG: offset of the op in the image; REJECT: enum weir_reject */
	__u32 mark;
	__u32 uid;
	__u32 gid;
	__u32 skb_length;
	__u16 captured;		/* bytes of the packet that follow, from the network header */
	__u8 flags;		/* enum weir_event_flag */
	__u8 mac_length;	/* bytes of link header before it */
	char in_name[16];
	char out_name[16];
	__u8 mac[32];
	struct weir_packet packet;
	__u8 bytes[WEIR_EVENT_BYTES];
};

/*
 * Memory of one packet while it is judged: netfilter programs have 512 bytes of stack, and can be
 * interrupted by others on the same CPU, so per-CPU memory would not do. A place is taken by one
 * exchange of a word.
 */
#define WEIR_SCRATCH_COUNT 256	/* a power of two */
#define WEIR_SCRATCH_TRIES 16
#define WEIR_SCRATCH_COPY 256	/* headers that the driver left outside the linear part */
#define WEIR_SCRATCH_WALK 1024
#define WEIR_SCRATCH_PIECE 128	/* of a packet that is read through: learned_sum.h */
struct weir_scratch {
	__u64 taken;
	__u64 reserved[7];
	__u8 copy[WEIR_SCRATCH_COPY];
	struct weir_packet about;	/* in an ICMP error */
	__u8 walk[WEIR_SCRATCH_WALK];	/* struct walk */
	__u8 piece[WEIR_SCRATCH_PIECE];
};

/* Counts of what is noted of a packet on the whole way: struct walk.noted, see tally.h. */
enum weir_noted {
	WEIR_NOTED_STOOD = 0,		/* accepted behind the list of its way out */
	WEIR_NOTED_LOOKED = 1,		/* belongs to a state */
	WEIR_NOTED_BAD = 2,		/* no valid network header, or for IPFilter unreadable */
	WEIR_NOTED_SHORT = 3,
	WEIR_NOTED_LOGGED = 4,		/* for its verdict */
	WEIR_NOTED_RECORD = 5,		/* log records, for whatever reason */
	WEIR_NOTED_RECORD_LOST = 6,
	WEIR_NOTED_STATE = 7,
	WEIR_NOTED_STATE_LOST = 8,	/* could not be made */
	WEIR_NOTED_FRAGMENT = 9,	/* a datagram is remembered */
	WEIR_NOTED_FRAGMENT_LOST = 10,
	WEIR_NOTED_REFUSED = 11,	/* a proposal above its rate, or without its state */
	WEIR_NOTED_UNLOGGED = 12,	/* dropped because it could not be logged */
	WEIR_NOTED_RESET = 13,		/* answered so */
	WEIR_NOTED_UNREACHABLE = 14,
	WEIR_NOTED_LOOKED_V6 = 15,
	WEIR_NOTED_MAX = 16,
};
/* For each place of a packet that is judged: what became of those that had it. In, out. */
struct weir_tally {
	__u32 generation;	/* of the policy that is counted for */
	__u32 reserved;
	__u64 packets[2][2][2];	/* dropped, accepted; IPv4, IPv6 */
	__u64 noted[WEIR_NOTED_MAX][2];
	__u64 logged[2][2];	/* dropped, accepted */
	__u64 refused[2][2];	/* a rate, a state that could not be made */
	__u64 overlaps[2];	/* fragments */
	__u64 wrong_tcp_sums[2];
	__u64 pad[11];
};

/*
 * A remembered class of an interface name. `value` is number of the policy << 16 | class; the name
 * is kept mixed with it, so that halves of two entries written at once belong to no name.
 */
#define WEIR_INTERFACE_CACHE 64
struct weir_interface {
	__u64 value;
	__u64 name[2];
};

/*
 * Kinds of reject: 0 TCP RST, 0x100 | code ICMP type 3, 0x200 | code ICMPv6 type 1; 0x300 and 0x400
 * the same in the name of the packet's destination; 0x8000 | MTU "fragmentation needed" of ICMP.
 */
#define WEIR_REJECT_RESET 0
#define WEIR_REJECT_ICMP 0x100
#define WEIR_REJECT_ICMP6 0x200
#define WEIR_REJECT_MTU 0x8000

/* Bits of weir_control.slot_hooks: where programs are attached (IPv6: shifted by 8), and more. */
enum weir_policy_bits {
	WEIR_AT_INPUT = 1 << 0,
	WEIR_AT_FORWARD = 1 << 1,
	WEIR_AT_OUTPUT = 1 << 2,
	WEIR_AT_PREROUTING = 1 << 3,
	WEIR_AT_POSTROUTING = 1 << 4,
	WEIR_POLICY_FRAMES = 1 << 5,	/* frames have roots of their own */
	WEIR_POLICY_ANSWERS_PASS = 1 << 6,	/* answers of rejects leave past the rules */
	WEIR_POLICY_RESETS_PASS = 1 << 7,	/* of those the resets do */
	WEIR_POLICY_READS_IPF = 1 << 13,	/* headers are read as IPFilter reads them: reading.h */
	WEIR_POLICY_READS_IPFW = 1 << 14,	/* as ipfw does */
	WEIR_POLICY_DEFRAGMENT = 1 << 16,	/* IPv6: one bit higher */
	WEIR_POLICY_HANDOFF = 1 << 18,	/* rules change what later hooks or the wire must see */
	WEIR_POLICY_EARLY_STATE = 1 << 19,	/* PREROUTING or POSTROUTING ask about flows */
	WEIR_POLICY_TRACK = 1 << 20,	/* some rule asks about flows */
	WEIR_POLICY_EGRESS = 1 << 21,	/* tcx programs are needed */
	WEIR_POLICY_SEVERAL = 1 << 22,	/* a packet may come to more than one of our hooks */
	/* 1 << 23: see plane::hooks, of no matter here */
	WEIR_POLICY_INGRESS = 1 << 24,	/* PREROUTING is judged at tcx ingress */
	WEIR_POLICY_XDP = 1 << 25,	/* its drops are made at XDP where they can be */
	WEIR_POLICY_ROUTE_BACK = 1 << 26,	/* rules ask for the way back to a source */
	WEIR_POLICY_ROUTE_MARKED = 1 << 27,	/* as packets with its mark are routed */
	/* 1 << 28, 1 << 29: see plane::hooks, of no matter here */
	WEIR_POLICY_REVERSE_PATH = 1 << 30,	/* rules of ipfw ask for it, of every source */
	WEIR_POLICY_NOT_SPOOFED = 1U << 31,	/* and whether a source's network is connected */
};

/* Whose way back was looked up (map ways_back): all that a look depends on. */
struct weir_way {
	__u64 src[2];
	__u64 dst[2];
	__u32 ifindex;
	__u32 mark;	/* of packets with this mark; 0: of those without */
	__u32 family;
	__u32 pad;
};

/* What one hook tells a later one about a packet (map handoff, key: address of the sk_buff). */
enum weir_edit {
	WEIR_EDIT_MARK = 1,
	WEIR_EDIT_TOS = 2,		/* tos = (tos & ~tos_mask) ^ tos_value */
	WEIR_EDIT_MSS = 4,		/* lower the MSS option to mss; 0: clamp to the path MTU */
	WEIR_EDIT_PRIORITY = 8,
	WEIR_EDIT_NOTRACK = 16,
	WEIR_EDIT_TTL = 32,		/* ttl = ttl + ttl_change, within 0 and 255 */
	WEIR_EDIT_TTL_SET = 64,		/* first of all, ttl = ttl_set */
};
struct weir_handoff {
	__u32 edits;		/* enum weir_edit */
	__u32 mark;
	__u32 priority;
	__u16 mss;
	__u8 tos_value;
	__u8 tos_mask;
	__u32 length;		/* of the packet: an sk_buff's address is used again */
	__u16 mtu;		/* of the receiving interface, for MSS clamping; 0: none */
	__u8 state;		/* what the first hook found, 0: did not look */
	__u8 family;
	__u32 connmark;		/* of a conversation that this packet begins */
	__s16 ttl_change;
	__u8 ttl_set;
	__u8 reserved;
};

/*
 * A packet that tcx ingress has judged for PREROUTING (map judged, key: address of its network
 * header, which a copy of the sk_buff shares).
 */
struct weir_judged {
	struct weir_handoff handoff;
	__u64 since_ms;
	__u32 ifindex;
	__u32 length;		/* layer 3 bytes */
	__u32 slot;		/* of the policy that judged */
	__u32 generation;
};

/* The same numbers as in plane::abi, so that neither side can change alone. */
_Static_assert(sizeof(struct weir_packet) == 88, "plane::abi");
_Static_assert(sizeof(struct weir_settings) == 64, "plane::abi");
_Static_assert(sizeof(struct weir_test) == 368, "plane::abi");
_Static_assert(sizeof(struct weir_lane) == 32, "plane::abi");
_Static_assert(sizeof(struct weir_control) == 1520, "plane::abi");
_Static_assert(__builtin_offsetof(struct weir_control, event_window) == 768, "plane::abi");
_Static_assert(__builtin_offsetof(struct weir_control, test) == 1088, "plane::abi");
_Static_assert(sizeof(struct weir_local) == 40, "plane::abi");
_Static_assert(sizeof(struct weir_tally) == 512, "plane::abi");
_Static_assert(sizeof(struct weir_event) == 1432, "plane::abi");

#endif
