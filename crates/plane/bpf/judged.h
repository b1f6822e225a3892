/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A packet judged at tcx ingress, at the hook PREROUTING: it is not judged, counted or tracked
 * again; what ingress left for later hooks goes the way that PREROUTING itself would use.
 */
#ifndef WEIR_JUDGED_H
#define WEIR_JUDGED_H

#include "maps.h"
#include "meta.h"
#include "slot.h"
#include "walk.h"

#define JUDGED_MS 250	/* between the two: an address is soon used again */

/* Whether the packet was judged; then it goes on. The policy may have been replaced in between. */
static __always_inline bool judged_take(struct bpf_nf_ctx___local *ctx,
					const struct weir_control *c, struct walk *w)
{
	__u32 bits = c->slot_hooks[0] | c->slot_hooks[1];
	__u64 key = (__u64)ctx->skb->data;
	struct weir_judged *j;
	bool is_it;

	if (weir_testing || !(bits & WEIR_POLICY_INGRESS))
		return false;
	j = bpf_map_lookup_elem(&judged, &key);
	if (!j)
		return false;
	is_it = j->length == w->packet.length && w->seen.in &&
		j->ifindex == DEVICE_AT(w->seen.in)->ifindex && w->now_ms - j->since_ms <= JUDGED_MS;
	if (is_it) {
		if (j->generation == c->slot_generation[j->slot & 1] && bits & WEIR_POLICY_SEVERAL)
			weir_slot_set(c, w->seen.skb, j->slot);
		if (!j->handoff.edits && !j->handoff.state) {
			bpf_map_delete_elem(&handoff, &w->seen.skb);
		} else {
			w->handoff = j->handoff;
			w->handoff.length = w->seen.bytes.wire;
			if (bpf_map_update_elem(&handoff, &w->seen.skb, &w->handoff, BPF_ANY))
				weir_reason(WEIR_REASON_HANDOFF);
		}
	}
	bpf_map_delete_elem(&judged, &key);
	return is_it;
}

#endif
