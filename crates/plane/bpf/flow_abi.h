/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The bytes of the flow table. Twin of engine::flow::entry (bits) and engine::flow::table::Layout
 * (places): tags, one byte a slot; locks, one word for 64 slots; from weir_settings.flow_entries
 * on entries of a cache line; from weir_settings.flow_cold on one more line for each slot.
 */
#ifndef WEIR_FLOW_ABI_H
#define WEIR_FLOW_ABI_H

#include <linux/types.h>

struct flow_side {
	__u32 end;		/* UDP, original side: when the stream begins */
	__u32 max_end;
	__u32 max_window;	/* 0 before the first segment */
	__u32 max_ack;
};

struct flow_entry {
	__u64 pair;		/* IPv4: lower | higher address << 32; IPv6: a hash of both */
	__u32 ports;		/* lower | higher end's port << 16 */
	__u16 meta;		/* protocol, FLOW_META_* */
	__u8 scales;		/* original side's window scale | reply side's << 4 */
	__u8 pad;
	__u32 control;		/* FLOW_*: what few packets change */
	__u32 recent;		/* FLOW_RECENT_*: about the last packet */
	__u32 expires;		/* milliseconds, modulo 2^32 */
	__u32 last_end;
	struct flow_side side[2];	/* original, reply */
};

struct flow_cold {
	__u64 low[2];		/* IPv6 addresses */
	__u64 high[2];
	__u64 packets[2];	/* by direction, when FLOW_SETTING_ACCOUNTING is set */
	__u32 mark;
	__u32 last_ack;
	__u16 last_window;
	__u8 last_scale;
	__u8 pad;
	__u32 reserved;
};

_Static_assert(sizeof(struct flow_entry) == 64, "a cache line");
_Static_assert(sizeof(struct flow_cold) == 64, "a cache line");

enum {
	FLOW_META_V6 = 0x100,
	FLOW_META_REQUESTER_HIGH = 0x200,

	FLOW_STATE = 0xf,
	FLOW_USED = 1 << 4,
	FLOW_ORIGINAL_HIGH = 1 << 5,
	FLOW_SEEN_REPLY = 1 << 6,
	FLOW_ASSURED = 1 << 7,
	FLOW_MAX_ACK_SET = 1 << 8,	/* original side; reply side 8 bits higher */
	FLOW_SCALES = 1 << 9,
	FLOW_SACK = 1 << 10,
	FLOW_LIBERAL = 1 << 11,
	FLOW_CLOSE_INIT = 1 << 12,
	FLOW_SIDE = 0xff00,
	FLOW_SIMULTANEOUS = 1 << 24,
	FLOW_CHALLENGE = 1 << 25,
	FLOW_LAST_SCALES = 1 << 26,
	FLOW_LAST_SACK = 1 << 27,

	FLOW_RECENT_KIND = 7,
	FLOW_RECENT_REPLY = 1 << 3,
	FLOW_RECENT_RETRANSMISSIONS = 3 << 4,
	FLOW_RECENT_RETRANSMISSION = 1 << 4,
	FLOW_RECENT_UNACKNOWLEDGED = 1 << 6,	/* original side; reply side one bit higher */
	FLOW_RECENT_WINDOW_ZERO = 1 << 8,
	FLOW_RECENT_REPEAT = 1 << 9,
	FLOW_RECENT_FINGERPRINT_SHIFT = 10,
};

/* Indexes of weir_control.settings: timeouts in milliseconds (eval::track::timeouts), switches. */
enum flow_setting {
	FLOW_TIMEOUT_GENERIC = 0,
	FLOW_TIMEOUT_TCP = 0,		/* plus the TCP state, 1 to 9 */
	FLOW_TIMEOUT_TCP_ESTABLISHED = 3,
	FLOW_TIMEOUT_TCP_CLOSE = 8,
	FLOW_TIMEOUT_TCP_RETRANSMISSION = 10,
	FLOW_TIMEOUT_TCP_UNACKNOWLEDGED = 11,
	FLOW_TIMEOUT_UDP = 12,
	FLOW_TIMEOUT_UDP_STREAM = 13,
	FLOW_TIMEOUT_ICMP = 14,
	FLOW_TIMEOUT_ICMP6 = 15,
	FLOW_SETTING_ACCOUNTING = 16,	/* count packets of flows */
	/* Wall clock less packet clock, in ms: low and high word of a signed number. */
	WEIR_SETTING_WALL_OFFSET = 18,
};

/* Indexes of weir_control.flow_statistics (engine::flow::entry::statistic). */
enum flow_statistic {
	FLOW_INSERTED = 0,
	FLOW_EXPIRED = 1,
	FLOW_EVICTED = 2,
	FLOW_FULL = 3,
	FLOW_EXISTS = 4,
	FLOW_BUSY = 5,
	FLOW_CURSOR = 15,
};

enum flow_found {
	FLOW_FOUND_NONE = 0,
	FLOW_FOUND_KNOWN = 1,
	FLOW_FOUND_NEW = 2,
};

/* The flow of a packet, from flow_lookup to flow_confirm. All bytes must be set before lookup. */
struct flow_ref {
	__u64 pair;
	__u32 ports;
	__u16 meta;
	__u8 from_high;		/* the packet comes from the higher end */
	__u8 query;		/* ICMP query: 1 request, 2 answer */
	__u32 slot;		/* of a known flow */
	__u32 mark;		/* flow mark of a new flow */
	__u8 found;		/* enum flow_found */
	__u8 reply;		/* direction */
	__u8 sought;		/* flow_seek has looked for it */
	__u8 pad;
	__u32 changed;		/* slot of the flow that flow_keep is to change */
};

#endif
