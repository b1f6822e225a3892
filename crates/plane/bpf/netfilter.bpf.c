/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "maps.h"
#include "parse.h"

static __always_inline int judge(struct bpf_nf_ctx___local *ctx, bool early)
{
	struct sk_buff___local *skb = ctx->skb;
	struct weir_packet p = {};
	struct weir_control *c = weir_get_control();
	struct weir_bytes b;
	int r;

	if (!c)
		return NF_ACCEPT;
	b.base = (__u64)skb->data;
	b.wire = skb->len;
	b.have = skb->len - skb->data_len;
	if (ctx->state->pf == AF_INET)
		r = parse_ipv4(&b, 0, false, &p);
	else
		r = parse_ipv6(&b, 0, false, &p);
	if (weir_testing) {
		c->test.packet = p;
		c->test.parse_result = r;
	}
	if (r)
		return NF_DROP;
	return NF_ACCEPT;
}

SEC("netfilter")
int weir_judge(struct bpf_nf_ctx___local *ctx)
{
	return judge(ctx, false);
}

SEC("netfilter")
int weir_early(struct bpf_nf_ctx___local *ctx)
{
	return judge(ctx, true);
}

char _license[] SEC("license") = "Dual BSD/GPL";
