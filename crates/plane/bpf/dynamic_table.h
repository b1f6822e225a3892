/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counters of ipfw's limits, in the table of learned states. An entry with `used` 2 counts the
 * flows of one rule that have the same masked fields; it stays while there are any, and for the
 * short lifetime after somebody last asked. Included by learned_table.h.
 */
#ifndef WEIR_DYNAMIC_TABLE_H
#define WEIR_DYNAMIC_TABLE_H

#include "learned_abi.h"

#define DYNAMIC_DEAD 0x80000000u	/* in a count: the counter is being taken away */

static __always_inline struct learned_entry *learned_at(__u8 *table, __u64 slot);

/* One flow less. The last one leaves the counter to its lifetime. */
static __always_inline void dynamic_leave(struct learned_header *h, struct learned_entry *parent)
{
	__u64 until;

	if (__sync_fetch_and_add(&parent->dynamic.count, -1) != 1)
		return;
	until = parent->dynamic.until;
	parent->expires_ms = until;
	if (until < h->next_expiry)
		h->next_expiry = until;
}

/* A state goes: its limit counts one less. */
static __always_inline void dynamic_gone(__u8 *table, struct learned_entry *e)
{
	struct learned_entry *parent;

	if (!e->dynamic.limited)
		return;
	parent = learned_at(table, e->dynamic.slot);
	if (parent && parent->used == 2 && parent->number == e->dynamic.parent)
		dynamic_leave((struct learned_header *)table, parent);
}

/* Whether a counter may be taken away: nobody is counted, and from now on nobody can be. */
static __always_inline bool dynamic_unused(struct learned_entry *parent)
{
	return !__sync_val_compare_and_swap(&parent->dynamic.count, 0, DYNAMIC_DEAD);
}

#endif
