/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Answers of rejects on their way out. iptables' rules judge them like other packets of the host;
 * IPFilter sends them past its lists, ipfw its resets. Included by netfilter.bpf.c.
 */
#ifndef WEIR_ANSWER_H
#define WEIR_ANSWER_H

#include "lane_parse.h"
#include "maps.h"
#include "meta.h"

static __always_inline bool answer_passes(const struct sk_buff___local *skb, __u32 hook, bool v6)
{
	const struct weir_control *c = weir_get_control();
	__u64 head;
	__u32 bits;

	if (likely(hook != WEIR_HOOK_OUTPUT) || weir_testing || !c)
		return false;
	bits = c->slot_hooks[c->active & 1];
	if (!(bits & (WEIR_POLICY_ANSWERS_PASS | WEIR_POLICY_RESETS_PASS)))
		return false;
	if (!meta_is_answer(skb, c))
		return false;
	if (bits & WEIR_POLICY_ANSWERS_PASS)
		return true;
	/* The agent writes no options and no extension headers. */
	head = lane_load((__u64)skb->data, v6 ? 0 : 4);
	return (v6 ? head >> 48 & 0xff : head >> 40 & 0xff) == IPPROTO_TCP;
}

#endif
