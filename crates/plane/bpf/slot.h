/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which policy judges a packet. The one in force decides at the first hook that a packet comes to;
 * at later hooks it is the same one, though another may have come into force in between, so that no
 * packet sees a mixture of two. Remembered for each CPU, because a packet goes from hook to hook
 * without leaving it; where that does not hold (a sender was preempted, a packet waited in a queue)
 * the policy in force decides again.
 */
#ifndef WEIR_SLOT_H
#define WEIR_SLOT_H

#include "maps.h"

#define WEIR_PASSING 1024	/* a power of two */
#define WEIR_PASSING_MS 250	/* longer than a hypervisor takes a processor away */

/* The packet that last went on to another hook. */
struct weir_passing {
	__u64 skb;
	__u64 since_ms;		/* when: an address is soon used again */
	__u32 slot;
	__u32 generation;	/* of the slot's policy: it may have been overwritten */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_PASSING);
	__type(key, __u32);
	__type(value, struct weir_passing);
} passing SEC(".maps");

static __always_inline __u32 weir_slot(const struct weir_control *c, __u64 skb, __u32 hook)
{
	__u32 slot = c->active & 1, cpu;
	struct weir_passing *p;
	__u64 now;

	/* Policies whose packets meet one hook have nothing to remember. In test runs all packets
	 * have the same address. */
	if (!unlikely(!weir_testing &&
		      (c->slot_hooks[0] | c->slot_hooks[1]) & WEIR_POLICY_SEVERAL))
		return slot;
	cpu = bpf_get_smp_processor_id() & (WEIR_PASSING - 1);
	p = bpf_map_lookup_elem(&passing, &cpu);
	if (!p)
		return slot;
	now = weir_now(c);
	if (hook != WEIR_HOOK_PREROUTING && hook != WEIR_HOOK_OUTPUT && p->skb == skb &&
	    now - p->since_ms <= WEIR_PASSING_MS && p->generation == c->slot_generation[p->slot & 1])
		slot = p->slot & 1;
	/* Asked twice at a hook, on the short way and on the whole, it says the same. */
	if (hook == WEIR_HOOK_INPUT || hook == WEIR_HOOK_POSTROUTING)
		return slot;
	p->skb = skb;
	p->since_ms = now;
	p->slot = slot;
	p->generation = c->slot_generation[slot & 1];
	return slot;
}

/* At PREROUTING, for a packet that was judged before it by the policy in `slot`. */
static __always_inline void weir_slot_set(const struct weir_control *c, __u64 skb, __u32 slot)
{
	__u32 cpu = bpf_get_smp_processor_id() & (WEIR_PASSING - 1);
	struct weir_passing *p = bpf_map_lookup_elem(&passing, &cpu);

	if (!p)
		return;
	p->skb = skb;
	p->since_ms = weir_now(c);
	p->slot = slot;
	p->generation = c->slot_generation[slot & 1];
}

#endif
