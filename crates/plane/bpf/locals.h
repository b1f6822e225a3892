/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Routing type of an address, from the table that user space keeps (map locals). Twin of
 * policy::eval::Locals::kind.
 */
#ifndef WEIR_LOCALS_H
#define WEIR_LOCALS_H

#include "maps.h"

/* One bit of enum weir_address_type; what the table does not name is UNICAST. */
static __noinline __u64 weir_address_types(__u64 high, __u64 low, __u8 family)
{
	struct weir_control *c = weir_get_control();
	__u32 slot = c ? c->locals_active & 1 : 0, from, to;
	struct weir_locals *l = bpf_map_lookup_elem(&locals, &slot);

	if (!l)
		return 0;
	from = family == 4 ? 0 : l->count_v4;
	to = family == 4 ? l->count_v4 : l->count_v4 + l->count_v6;
	for (int i = 0; i < 11; i++) {
		__u32 middle = (from + to) / 2;
		struct weir_local *e;

		if (from >= to || middle >= WEIR_LOCALS_MAX)
			break;
		e = &l->entries[middle];
		if (high < e->first[0] || (high == e->first[0] && low < e->first[1]))
			to = middle;
		else if (high > e->last[0] || (high == e->last[0] && low > e->last[1]))
			from = middle + 1;
		else
			return e->types;
	}
	return WEIR_ADDRESS_UNICAST;
}

#endif
