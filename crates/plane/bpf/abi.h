/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Structures that the programs and user space share. Nothing else may define them: Rust mirrors
 * them and asserts sizes and offsets. Numbers: 0 is "unset" unless said. Host byte order.
 */
#ifndef WEIR_ABI_H
#define WEIR_ABI_H

#include <linux/types.h>

#define WEIR_ABI_VERSION 1

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
	/* set by the program */
	__u32 mark;
	__u16 in_class;		/* interface class of the active image: see classify.h */
	__u16 out_class;
};

#endif
