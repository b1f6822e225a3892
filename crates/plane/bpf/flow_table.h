/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where the entries of the flow table are. Twin of engine::flow::table::Layout. */
#ifndef WEIR_FLOW_TABLE_H
#define WEIR_FLOW_TABLE_H

#include "maps.h"
#include "flow_abi.h"

#define FLOW_LINE_SLOTS 64
#define FLOW_NO_SLOT 0xffffffffU
#define FLOW_TIMEOUT_MAX (1U << 29)
#define flow_lines() WEIR_SETTING(flow_lines)
#define flow_slots() (WEIR_SETTING(flow_lines) * FLOW_LINE_SLOTS)

/* Keeps the compiler from comparing one copy of an index and using another, which the verifier
 * would not see to be bounded. */
#define FLOW_ONE_COPY(x) asm volatile("" : "+r"(x))

static __always_inline struct flow_entry *flow_entry_at(__u8 *table, __u64 slot)
{
	FLOW_ONE_COPY(slot);
	if (slot >= flow_slots())
		return NULL;
	return (struct flow_entry *)(table + WEIR_SETTING(flow_entries) + slot * 64);
}

static __always_inline struct flow_cold *flow_cold_at(__u8 *table, __u64 slot)
{
	FLOW_ONE_COPY(slot);
	if (slot >= flow_slots())
		return NULL;
	return (struct flow_cold *)(table + WEIR_SETTING(flow_cold) + slot * 64);
}

static __always_inline void flow_count(struct weir_control *c, enum flow_statistic which)
{
	__sync_fetch_and_add(&c->flow_statistics[which], 1);
}

static __always_inline bool flow_lives(const struct flow_entry *e, __u32 now)
{
	return e->control & FLOW_USED && e->expires - now - 1 < FLOW_TIMEOUT_MAX;
}

#endif
