/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets whose bytes are asked for and that the driver, or the sending process, left in pieces:
 * they are copied to where all of it can be read. One place for each of the scratch places.
 */
#ifndef WEIR_PAYLOAD_H
#define WEIR_PAYLOAD_H

#include "maps.h"
#include "meta.h"

#define WEIR_PAYLOAD_MAX 65536	/* of this much the kernel's own string match sees no more either */

/* Made for no packet where no rule looks into payloads; load.rs gives the number of places. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, WEIR_PAYLOAD_MAX);
} payloads SEC(".maps");

/* The packet in one piece. False: it can't be read, and must not pass as if nothing stood there. */
static __noinline int payload_copy(struct sk_buff___local *skb, __u32 place,
				   struct weir_bytes *bytes)
{
	__u8 *to = bpf_map_lookup_elem(&payloads, &place);
	__u32 length = skb->len;
	struct bpf_dynptr whole;

	if (length > WEIR_PAYLOAD_MAX)
		length = WEIR_PAYLOAD_MAX;
	if (!to || !length || bpf_dynptr_from_skb(skb, 0, &whole) ||
	    bpf_dynptr_read(to, length, &whole, 0, 0))
		return 0;
	bytes->base = (__u64)to;
	bytes->have = length;
	return 1;
}

#endif
