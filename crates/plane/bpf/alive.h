/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Keep-alives of the agent (plane::alive), which no rule judges and no state counts, as on FreeBSD:
 * did they refresh the state that they ask about, it would never end. On the way out they are known
 * by their socket, on the way in by their mark. Included by netfilter.bpf.c, for policies of ipfw.
 */
#ifndef WEIR_ALIVE_H
#define WEIR_ALIVE_H

#include "maps.h"
#include "meta.h"
#include "own_mark.h"

#define ALIVE_BARE_ACK 0x5010	/* data offset 5, of the flags ACK alone */

static __always_inline bool alive_is_ours(struct bpf_nf_ctx___local *ctx, bool v6)
{
	const struct weir_control *c = weir_get_control();
	const struct sk_buff___local *skb = ctx->skb;
	struct sock___local *sk;
	__u64 key = (__u64)skb;
	bool ours = false;

	if (!weir_may(WEIR_FEATURE_KEEP_ALIVE) || weir_testing)
		return false;
	if (likely(!own_has_size(skb, v6)) || !c || !c->own_mark)
		return false;
	if (ctx->state->hook == WEIR_HOOK_OUTPUT) {
		sk = skb->sk;
		ours = sk && sk->__sk_common.skc_cookie.counter &&
		       sk->__sk_common.skc_cookie.counter == c->keep_cookie[v6];
	} else if (ctx->state->hook == WEIR_HOOK_PREROUTING) {
		ours = own_comes_in(ctx, c, v6, ALIVE_BARE_ACK, 0);
	}
	/* What is there is another packet's, of this address. */
	if (ours)
		bpf_map_delete_elem(&handoff, &key);
	return ours;
}

#endif
