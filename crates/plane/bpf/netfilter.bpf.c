/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The programs on netfilter hooks. weir_judge: INPUT, FORWARD, OUTPUT at priority 0 (mangle, then
 * filter, then the flow is confirmed). weir_early: PREROUTING and OUTPUT at -300 (raw, mangle),
 * POSTROUTING at 0 (mangle).
 *
 * Netfilter programs run with preemption on when a process sends, so nothing is kept in per-CPU
 * memory between two instructions: all state of a packet is on the stack.
 */
#include "maps.h"
#include "meta.h"
#include "parse.h"
#include "report.h"
#include "stub.h"

static __always_inline int parse_at(struct weir_packet *p, const struct weir_bytes *bytes, __u8 pf)
{
	return pf == AF_INET ? parse_ipv4(bytes, 0, false, p) : parse_ipv6(bytes, 0, false, p);
}

/* Fill the walk's packet from the hook's context. */
static __always_inline int see(struct bpf_nf_ctx___local *ctx, struct walk *w,
			       struct weir_control *c, struct weir_scratch **scratch_place)
{
	struct sk_buff___local *skb = ctx->skb;
	__u8 pf = ctx->state->pf;
	int broken;

	w->seen.skb = (__u64)skb;
	w->seen.in = (__u64)ctx->state->in;
	w->seen.out = (__u64)ctx->state->out;
	w->seen.bytes.base = (__u64)skb->data;
	w->seen.bytes.wire = skb->len;
	w->seen.bytes.have = skb->len - skb->data_len;
	w->seen.bytes.zero = c->zero;
	broken = parse_at(&w->packet, &w->seen.bytes, pf);
	if (skb->data_len && (broken || w->packet.transport == WEIR_TRANSPORT_SHORT)) {
		*scratch_place = meta_copy(skb, &w->seen.bytes);
		if (*scratch_place)
			broken = weir_parse_again(&w->seen.bytes, &w->packet, pf == AF_INET ? 4 : 6);
	}
	w->packet.hook = ctx->state->hook;
	w->packet.mark = skb->mark;
	w->packet.packet_type = meta_packet_type(skb);
	if (weir_testing) {
		w->packet.mark = c->test.mark;
		w->packet.packet_type = c->test.packet_type;
	}
	return broken;
}

static __always_inline void testing_result(struct weir_control *c, const struct walk *w,
					   __u32 verdict)
{
	if (!weir_testing)
		return;
	c->test.packet = w->packet;
	c->test.verdict = verdict;
	c->test.deciding = w->deciding;
	c->test.result_mark = w->packet.mark;
}

/* The verdict of a table that did not accept, as what netfilter is to do. */
static __always_inline int refuse(struct weir_control *c, struct walk *w, int verdict)
{
	struct weir_report r = {
		.now_ms = w->now_ms,
		.kind = WEIR_EVENT_REJECT,
		.rule = w->deciding,
		.slot = w->slot,
		.op = w->reject,
		.mark = w->packet.mark,
	};
	enum weir_reason reason = WEIR_REASON_RULE;

	if (verdict == WEIR_VERDICT_REJECT) {
		reason = WEIR_REASON_REJECT_SILENT;
		if (c->answering && weir_report_event(&w->seen, &w->packet, &r))
			reason = WEIR_REASON_REJECT;
	}
	__sync_fetch_and_add(&c->reasons[reason], 1);
	return NF_DROP;
}

static __always_inline int walk_table(const __u8 *image, __u8 table, struct walk *w)
{
	__u32 root = image_root(image, w->packet.family, w->packet.hook, table);

	return root ? weir_walk(image, root, w) : WEIR_VERDICT_ACCEPT;
}

static __always_inline int judge_seen(struct bpf_nf_ctx___local *ctx, bool early,
				      struct weir_scratch **scratch_place)
{
	struct weir_control *c = weir_get_control();
	struct walk w = {};
	const __u8 *image;
	int verdict = WEIR_VERDICT_ACCEPT;

	if (!c)
		return NF_ACCEPT;
	w.slot = c->active & 1;
	w.deciding = ~0;
	image = weir_image(w.slot);
	if (!image)
		return NF_ACCEPT;
	if (see(ctx, &w, c, scratch_place)) {
		__sync_fetch_and_add(&c->reasons[WEIR_REASON_PARSE], 1);
		testing_result(c, &w, WEIR_VERDICT_DROP);
		if (weir_testing)
			c->test.parse_result = -1;
		return NF_DROP;
	}
	if (weir_testing) {
		c->test.parse_result = 0;
		c->test.inner_result = weir_parse_embedded(&w.seen.bytes, &w.packet, &c->test.inner);
		if (c->test.parse_only) {
			testing_result(c, &w, WEIR_VERDICT_ACCEPT);
			return NF_ACCEPT;
		}
	}
	w.now_ms = weir_now(c);
	if (w.packet.hook == WEIR_HOOK_OUTPUT && meta_is_answer(ctx->skb, c))
		w.packet.state = WEIR_STATE_RELATED;
	else if (weir_testing && c->test.state)
		w.packet.state = c->test.state;
	else
		flow_lookup(&w.packet, w.now_ms, &w.flow);
	if (early)
		verdict = walk_table(image, WEIR_TABLE_RAW, &w);
	if (verdict == WEIR_VERDICT_ACCEPT)
		verdict = walk_table(image, WEIR_TABLE_MANGLE, &w);
	if (verdict == WEIR_VERDICT_ACCEPT && !early)
		verdict = walk_table(image, WEIR_TABLE_FILTER, &w);
	testing_result(c, &w, verdict);
	if (verdict != WEIR_VERDICT_ACCEPT)
		return refuse(c, &w, verdict);
	if (!early)
		flow_confirm(&w.packet, &w.flow, w.now_ms);
	return NF_ACCEPT;
}

static __always_inline int judge(struct bpf_nf_ctx___local *ctx, bool early)
{
	struct weir_scratch *place = NULL;
	int verdict = judge_seen(ctx, early, &place);

	if (place)
		place->taken = 0;
	return verdict;
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
