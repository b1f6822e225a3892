/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The program on netfilter hooks: PREROUTING at priority -300 (raw, mangle; at -150 where rules ask
 * about flows there: translated.h), the others at 0 (OUTPUT: raw, mangle, filter; INPUT, FORWARD:
 * mangle, filter; POSTROUTING: mangle). Where a packet leaves the filter, its flow is confirmed.
 * One program, because the kernel verifies each anew.
 *
 * Netfilter programs run with preemption on when a process sends, so nothing is kept in per-CPU
 * memory between two instructions: all state of a packet is on the stack.
 */
#define WEIR_SETTINGS_WRITTEN
#include "maps.h"
#include "flow.h"
#include "meta.h"
#include "parse.h"
#include "payload.h"
#include "refuse.h"
#include "report.h"
#include "sweep.h"
#include "testing.h"
#include "walk.h"
#include "classes.h"
#include "answer.h"
#include "judge.h"
#include "judged.h"
#include "lane_meet.h"
#if defined(WEIR_LEARNED) && !defined(WEIR_DYNAMIC)
#include "lane_learned.h"
#include "learned_sum.h"
#endif
#include "tally.h"
#include "translated.h"
#ifdef WEIR_DYNAMIC
#include "alive.h"
#endif

static __always_inline int parse_at(struct weir_packet *p, const struct weir_bytes *bytes, __u8 pf)
{
	return pf == AF_INET ? parse_ipv4(bytes, 0, false, p) : parse_ipv6(bytes, 0, false, p);
}

/* What a packet brought along, to be compared with what became of it. */
struct brought {
	struct weir_scratch *scratch;
	__u32 mark;
	__u8 place;		/* number of the scratch, below WEIR_SCRATCH_COUNT */
	__u8 tos;
};

/* Fill the walk's packet from the hook's context. */
static __noinline int see(struct bpf_nf_ctx___local *ctx, struct walk *w,
			       struct weir_control *c, struct brought *b)
{
	struct sk_buff___local *skb = ctx->skb;
	const struct nf_hook_state___local *state = ctx->state, *met = MET_AT((__u64)state);
	__u8 pf = state->pf;
	int broken;

	w->seen.skb = (__u64)skb;
	/* Not from `state`: for each pointer there the verifier looks through all types by name. */
	w->seen.in = (__u64)met->in;
	w->seen.out = (__u64)met->out;
	w->seen.bytes.base = (__u64)skb->data;
	w->seen.bytes.wire = skb->len;
	w->seen.bytes.have = skb->len - skb->data_len;
	w->seen.bytes.zero = c->zero;
	w->seen.bytes.reading = c->slot_hooks[w->slot & 1] & WEIR_READINGS;
	broken = parse_at(&w->packet, &w->seen.bytes, pf);
	if (skb->data_len &&
	    (weir_may(WEIR_FEATURE_PAYLOAD) ||
	     (weir_may(WEIR_FEATURE_CHUNKS) && w->packet.proto == IPPROTO_SCTP))) {
		if (!payload_copy(skb, b->place, &w->seen.bytes))
			return -1;
		broken = weir_parse_again(&w->seen.bytes, &w->packet, pf == AF_INET ? 4 : 6);
	} else if (skb->data_len && (broken || w->packet.transport == WEIR_TRANSPORT_SHORT)) {
		int copied = meta_copy(skb, b->scratch);

		if (copied) {
			w->seen.bytes.base = (__u64)b->scratch->copy;
			w->seen.bytes.have = copied;
			broken = weir_parse_again(&w->seen.bytes, &w->packet,
						  pf == AF_INET ? 4 : 6);
		}
	}
	w->packet.hook = state->hook;
	w->packet.mark = skb->mark;
	w->packet.packet_type = meta_packet_type(skb);
	if (weir_testing) {
		w->packet.mark = c->test.mark;
		w->packet.packet_type = c->test.packet_type;
	}
	b->mark = w->packet.mark;
	b->tos = w->packet.tos;
#if defined(WEIR_LEARNED) && !defined(WEIR_DYNAMIC)
	if (!broken && w->seen.bytes.reading & WEIR_POLICY_READS_IPF)
		w->seen.wrong_sum = sum_is_wrong(skb, b->scratch, &w->seen.bytes, &w->packet);
#endif
	return broken;
}

/* Whether no hook of ours has seen the packet before: what handoff has is of another packet. */
static __always_inline bool is_first(const struct weir_packet *p, __u32 bits)
{
	if (p->family == 6)
		bits >>= 8;
	switch (p->hook) {
	case WEIR_HOOK_INPUT:
	case WEIR_HOOK_FORWARD:
		return !(bits & WEIR_AT_PREROUTING);
	case WEIR_HOOK_POSTROUTING:
		return false;
	}
	return true;
}

/* What earlier hooks left about the packet. */
static __always_inline void take_handoff(struct walk *w, struct brought *b)
{
	struct weir_handoff *h = bpf_map_lookup_elem(&handoff, &w->seen.skb);

	if (!h || h->length != w->seen.bytes.wire)
		return;
	w->handoff = *h;
	if (h->edits & WEIR_EDIT_MARK)
		w->packet.mark = h->mark;
	if (h->edits & WEIR_EDIT_TOS)
		w->packet.tos = (w->packet.tos & ~h->tos_mask) ^ h->tos_value;
}

/* Leave what later hooks and the way out must know. */
static __noinline void give_handoff(struct walk *w, const struct brought *b, bool first)
{
	if (w->packet.mark != b->mark) {
		w->handoff.edits |= WEIR_EDIT_MARK;
		w->handoff.mark = w->packet.mark;
	}
	if (w->packet.tos != b->tos) {
		w->handoff.edits |= WEIR_EDIT_TOS;
		w->handoff.tos_mask = 0xff;
		w->handoff.tos_value = w->packet.tos;
	}
	if (!w->handoff.edits && !w->handoff.state) {
		if (first)
			bpf_map_delete_elem(&handoff, &w->seen.skb);
		return;
	}
	w->handoff.connmark = w->flow.found == FLOW_FOUND_NEW ? w->flow.mark : 0;
	w->handoff.length = w->seen.bytes.wire;
	w->handoff.family = w->packet.family;
	if (w->seen.in) {
		__u32 mtu = DEVICE_AT(w->seen.in)->mtu;

		w->handoff.mtu = mtu > 0xffff ? 0xffff : mtu;
	}
	if (bpf_map_update_elem(&handoff, &w->seen.skb, &w->handoff, BPF_ANY))
		weir_reason(WEIR_REASON_HANDOFF);
}

/* Tests of the parser: the packet, and the one in an ICMP error. */
static __always_inline void testing_parse(struct weir_control *c, struct walk *w, int broken)
{
	c->test.parse_result = broken;
	c->test.inner_result =
		broken ? -1 :
			 weir_parse_embedded(&w->seen.bytes, &w->packet, &c->test.inner);
	testing_result(c, w, 0);
}

/*
 * The tables of a hook. At PREROUTING a flow is looked for as later hooks know it; raw and mangle of
 * OUTPUT see where the sender wanted the packet to go.
 */
static __always_inline int judge_tables(const __u8 *image, struct walk *w, struct weir_control *c,
					struct brought *b, bool last, __u32 bits)
{
	bool output = w->packet.hook == WEIR_HOOK_OUTPUT;
	bool received = w->packet.hook == WEIR_HOOK_PREROUTING;
	int verdict = WEIR_VERDICT_ACCEPT, end = WEIR_END_SAME;

	if (output || (received && bits & WEIR_POLICY_EARLY_STATE))
		end = weir_other_end(w, received);
	if (output)
		weir_turn(w, end);
	if (received || output)
		verdict = walk_table(image, WEIR_TABLE_RAW, w);
	if (verdict != WEIR_VERDICT_ACCEPT)
		return verdict;
	weir_turn(w, end);
	track(w, c, &b->scratch->about, last, bits);
	weir_turn(w, end);
	if (received && end == WEIR_END_RELATED && w->packet.state == WEIR_STATE_INVALID)
		w->packet.state = w->handoff.state = WEIR_STATE_RELATED;
	verdict = walk_table(image, WEIR_TABLE_MANGLE, w);
	if (output)
		weir_turn(w, end);
	if (verdict != WEIR_VERDICT_ACCEPT)
		return verdict;
	return walk_table(image, WEIR_TABLE_FILTER, w);
}

static __always_inline int judge_seen(struct bpf_nf_ctx___local *ctx, struct weir_control *c,
				      struct brought *b)
{
	struct walk *w = (struct walk *)b->scratch->walk;
	int verdict, broken;
	const __u8 *image;
	bool first, carries, last;
	__u32 bits;

	__builtin_memset(w, 0, sizeof(*w));
	w->slot = weir_slot(c, (__u64)ctx->skb, ctx->state->hook);
	w->deciding = ~0;
	bits = c->slot_hooks[w->slot & 1];
	image = weir_image(w->slot);
	if (!image)
		return NF_ACCEPT;
	broken = see(ctx, w, c, b);
	if (weir_testing && c->test.way == WEIR_TEST_PARSE) {
		testing_parse(c, w, broken);
		return NF_ACCEPT;
	}
	if (broken) {
		w->noted[WEIR_NOTED_BAD] = 1;
		__sync_fetch_and_add(&c->reasons[WEIR_REASON_PARSE], 1);
		testing_result(c, w, WEIR_VERDICT_DROP);
		return NF_DROP;
	}
	w->now_ms = weir_now(c);
	if (w->packet.hook == WEIR_HOOK_PREROUTING && judged_take(ctx, c, w))
		return NF_ACCEPT;
	classes(image, &w->seen, w->slot, c->slot_generation[w->slot & 1], &w->packet);
	/* In test runs every packet has the address of the one before. */
	carries = !weir_testing && bits & (WEIR_POLICY_HANDOFF | WEIR_POLICY_EARLY_STATE);
	first = is_first(&w->packet, bits);
	if (carries && !first)
		take_handoff(w, b);
	w->packet.state = WEIR_STATE_INVALID;
	/* The hooks at which the filter table ends a packet's way through us, but for POSTROUTING. */
	last = w->packet.hook >= WEIR_HOOK_INPUT && w->packet.hook <= WEIR_HOOK_OUTPUT;
	verdict = judge_tables(image, w, c, b, last, bits);
	testing_result(c, w, verdict);
	if (verdict != WEIR_VERDICT_ACCEPT)
		return refuse(c, w, verdict) + NF_DROP;
	if (last && weir_may(WEIR_FEATURE_TRACKS) && (weir_testing || bits & WEIR_POLICY_TRACK))
		flow_confirm(&w->packet, &w->flow, w->now_ms);
	if (carries && w->packet.hook != WEIR_HOOK_INPUT)
		give_handoff(w, b, first);
	return NF_ACCEPT;
}

SEC("netfilter")
int weir_whole(struct bpf_nf_ctx___local *ctx)
{
	struct brought b = {};
	struct weir_control *c = weir_get_control();
	__u32 place = 0;
	int verdict;

	_Static_assert(sizeof(struct walk) <= WEIR_SCRATCH_WALK, "a walk fits its place");
	b.scratch = weir_scratch_numbered(&place);
	b.place = place;
	if (!b.scratch || !c) {
		weir_reason(WEIR_REASON_SCRATCH);
		return NF_DROP;
	}
	verdict = judge_seen(ctx, c, &b);
	if (!weir_testing)
		tally(c, b.scratch, place, verdict == NF_ACCEPT);
	weir_scratch_give(b.scratch);
	return verdict;
}

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, int(void *));
} stages SEC(".maps") = {
	.values = { [0] = (void *)&weir_whole },
};

/*
 * What is attached: the short way, or else the whole. Programs for each family, and others for
 * policies that keep no flows: these are all in one piece, without calls and without what they
 * don't need, which is half of what a packet costs in a short list.
 */
static __always_inline int judge(struct bpf_nf_ctx___local *ctx, bool v6, bool tracks)
{
	const struct sk_buff___local *skb = ctx->skb;
	struct lane_job job = {
		.base = (__u64)skb->data,
		.skb = (__u64)skb,
		.met = (__u64)ctx->state,
	};
	__u32 have = skb->len - skb->data_len, hook = ctx->state->hook;
	int verdict;

#ifdef WEIR_DYNAMIC
	if (alive_is_ours(ctx, v6))
		return NF_ACCEPT;
#endif
	if (answer_passes(ctx, hook, v6))
		return NF_ACCEPT;
#if defined(WEIR_LEARNED) && !defined(WEIR_DYNAMIC)
	verdict = tracks ? LANE_WHOLE : lane_states(&job, have, hook, v6);
	if (verdict == LANE_WHOLE)
#endif
		verdict = lane_judge(have, hook, &job, v6, tracks);
	if (tracks && verdict == LANE_ASK)
		verdict = lane_again(&job, v6);
	if (verdict != LANE_WHOLE)
		return verdict & 1;
	bpf_tail_call(ctx, &stages, 0);
	weir_reason(WEIR_REASON_WHOLE);
	return NF_DROP;
}

SEC("netfilter")
int weir_judge(struct bpf_nf_ctx___local *ctx)
{
	return judge(ctx, false, true);
}

SEC("netfilter")
int weir_judge6(struct bpf_nf_ctx___local *ctx)
{
	return judge(ctx, true, true);
}

SEC("netfilter")
int weir_plain(struct bpf_nf_ctx___local *ctx)
{
	return judge(ctx, false, false);
}

SEC("netfilter")
int weir_plain6(struct bpf_nf_ctx___local *ctx)
{
	return judge(ctx, true, false);
}

/* Tells user space the packet clock. */
SEC("syscall")
int weir_clock(void *ctx)
{
	struct weir_control *c = weir_get_control();

	if (!c)
		return 0;
	c->told_ms = weir_now(c);
#if defined(WEIR_LEARNED) && !defined(WEIR_DYNAMIC)
	/* Who asks lists states, or reads their records: those whose time is up go first. */
	learned_expire(c->told_ms);
#endif
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
