/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Answers of rejects that no rule judges. iptables' rules judge them like other packets of the
 * host; IPFilter sends them past its lists, ipfw its resets. A reset for a connection of this host
 * that IPFilter's out list blocks stands for the error that the original returns to the program:
 * it comes in by the loopback interface past the lists, too. Included by netfilter.bpf.c.
 */
#ifndef WEIR_ANSWER_H
#define WEIR_ANSWER_H

#include "maps.h"
#include "meta.h"
#include "own_mark.h"

#define ANSWER_RESET 0x5004	/* data offset 5, RST */
#define ANSWER_EITHER 0x0010	/* with ACK or without */

/* A packet that leaves. */
static __always_inline bool answer_leaves(const struct sk_buff___local *skb,
					  const struct weir_control *c, __u32 bits, bool v6)
{
	if (!(bits & (WEIR_POLICY_ANSWERS_PASS | WEIR_POLICY_RESETS_PASS)))
		return false;
	if (!meta_is_answer(skb, c))
		return false;
	if (bits & WEIR_POLICY_ANSWERS_PASS)
		return true;
	/* The agent writes no options and no extension headers. */
	return own_protocol(own_head((__u64)skb->data, v6), v6) == IPPROTO_TCP;
}

static __always_inline bool answer_passes(struct bpf_nf_ctx___local *ctx, __u32 hook, bool v6)
{
	const struct weir_control *c = weir_get_control();
	const struct sk_buff___local *skb = ctx->skb;
	__u32 bits;

	if (weir_testing || !c)
		return false;
	if (likely(hook != WEIR_HOOK_OUTPUT) &&
	    likely(hook != WEIR_HOOK_PREROUTING || !own_has_size(skb, v6)))
		return false;
	bits = c->slot_hooks[c->active & 1];
	if (hook == WEIR_HOOK_OUTPUT)
		return answer_leaves(skb, c, bits, v6);
	return bits & WEIR_POLICY_ANSWERS_PASS && c->own_mark &&
	       own_comes_in(ctx, c, v6, ANSWER_RESET, ANSWER_EITHER);
}

#endif
