/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Keep-alives of the agent (plane::alive), which no rule judges and no state counts, as on FreeBSD:
 * did they refresh the state that they ask about, it would never end. On the way out they are known
 * by their socket. One to this host itself comes in again by the loopback interface, where no
 * socket is known any more; it is known there by a number that the agent draws, in two fields that
 * nobody reads: the identification of a packet in one piece (IPv6: the flow label) and the urgent
 * pointer of a segment that isn't urgent. Included by netfilter.bpf.c, for policies of ipfw.
 */
#ifndef WEIR_ALIVE_H
#define WEIR_ALIVE_H

#include "lane_parse.h"
#include "maps.h"
#include "meta.h"

#define ALIVE_LOOPBACK 1	/* number of the loopback interface in every namespace */
#define ALIVE_BARE_ACK 0x5010	/* data offset 5, of the flags ACK alone */

/* The fields that nobody reads, of a bare ACK without options; 0 for what else has its size. */
static __always_inline __u32 alive_mark(__u64 base, bool v6)
{
	__u64 head = lane_load(base, v6 ? 0 : 4);	/* IPv4: identification on */
	__u64 tail = lane_load(base, v6 ? 52 : 32);	/* of the TCP header: data offset on */
	__u8 proto = v6 ? head >> 48 : head >> 40;
	__u16 number = v6 ? head >> 16 : head;

	if (proto != IPPROTO_TCP || bpf_ntohs((__u16)tail) != ALIVE_BARE_ACK)
		return 0;
	return (__u32)bpf_ntohs(number) << 16 | bpf_ntohs((__u16)(tail >> 48));
}

static __always_inline bool alive_is_ours(struct bpf_nf_ctx___local *ctx, bool v6)
{
	const struct weir_control *c = weir_get_control();
	const struct sk_buff___local *skb = ctx->skb;
	const struct nf_hook_state___local *met;
	__u32 size = v6 ? 60 : 40;
	struct sock___local *sk;
	__u64 key = (__u64)skb;
	bool ours = false;

	if (!weir_may(WEIR_FEATURE_KEEP_ALIVE) || weir_testing)
		return false;
	/* Both headers and nothing else: hardly any segment, as most carry time stamps. */
	if (likely(skb->len != size) || skb->data_len || !c || !c->keep_mark)
		return false;
	met = MET_AT((__u64)ctx->state);
	if (ctx->state->hook == WEIR_HOOK_OUTPUT) {
		sk = skb->sk;
		ours = sk && sk->__sk_common.skc_cookie.counter &&
		       sk->__sk_common.skc_cookie.counter == c->keep_cookie[v6];
	} else if (ctx->state->hook == WEIR_HOOK_PREROUTING && met->in &&
		   DEVICE_AT((__u64)met->in)->ifindex == ALIVE_LOOPBACK) {
		ours = alive_mark((__u64)skb->data, v6) == c->keep_mark;
	}
	/* What is there is another packet's, of this address. */
	if (ours)
		bpf_map_delete_elem(&handoff, &key);
	return ours;
}

#endif
