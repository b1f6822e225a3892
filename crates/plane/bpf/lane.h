/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The short way of a packet: most are TCP or UDP in one whole piece, meet rules without tests or
 * operations, and belong to an established flow or to none. Everything here is in one function:
 * the packet's fields stay in registers and on the stack, nothing is called.
 *
 * In: the hook's context. Out: NF_ACCEPT, NF_DROP, or LANE_WHOLE: nothing was changed, go the whole
 * way (netfilter.bpf.c), which says the same about the same packet. Which packets may come here is
 * decided when a policy is put into its slot: plane::lanes.
 */
#ifndef WEIR_LANE_H
#define WEIR_LANE_H

#include "classes.h"
#include "classify.h"
#include "flow.h"
#include "maps.h"
#include "parse.h"
#include "slot.h"
#include "walk.h"

#define LANE_WHOLE -1
#define LANE_STEPS 4		/* entries that are looked at */
#define LANE_RULES 4		/* rules that count with one of them */
#define LANE_TIMESTAMP bpf_htonl(0x0101080a)	/* the only TCP option: two NOPs, kind 8, length 10 */

/* What the way found, before anything is counted. */
struct lane_trail {
	__u32 entry_at[LANE_STEPS];	/* 0: none */
	__u32 deciding;
	int verdict;
};

/* The flow of the packet, and what the packet does to it. */
struct lane_flow {
	struct flow_ref ref;
	struct flow_fit fit;
	struct flow_entry *e;
	__u32 control;		/* of UDP: what the entry's becomes */
	__u32 timeout;
};

/* Eight bytes of a header at an offset that is a multiple of 4. */
static __always_inline __u64 lane_load(__u64 base, __u32 at)
{
	return *(const __u64 *)&BYTES_AT(base + at)->in6_u.u6_addr32[0];
}

/*
 * TCP and UDP behind `before` bytes of network header. `words`: the first eight bytes of the
 * transport header. `have`: readable bytes, `end`: of the packet by its network header.
 */
static __always_inline bool lane_transport(__u64 base, __u32 before, __u32 have, __u32 end,
					   __u32 ports, bool track, struct weir_packet *p)
{
	__u32 readable = end < have ? end : have, header;
	__u64 word;

	ports = bpf_ntohl(ports);
	p->src_port = ports >> 16;
	p->dst_port = ports;
	p->fragment = WEIR_FRAGMENT_WHOLE;
	if (p->proto == IPPROTO_UDP) {
		p->transport = WEIR_TRANSPORT_UDP;
		return before + 8 <= readable;
	}
	if (p->proto != IPPROTO_TCP || before + 20 > readable)
		return false;
	p->transport = WEIR_TRANSPORT_TCP;
	word = lane_load(base, before + 12);
	header = (word >> 4 & 15) * 4;
	if (header < 20 || header > end - before)
		return false;
	p->tcp_flags = word >> 8;
	if (!track)
		return true;
	p->window = bpf_ntohs((__u16)(word >> 16));
	p->payload = end - before - header;
	word = lane_load(base, before + 4);
	p->sequence = bpf_ntohl((__u32)word);
	p->acknowledgement = bpf_ntohl((__u32)(word >> 32));
	p->sack = p->acknowledgement;
	if (header == 20)
		return true;
	/* Options that the tracker asks about are read on the whole way. */
	return header == 32 && before + 32 <= have &&
	       (__u32)lane_load(base, before + 20) == LANE_TIMESTAMP;
}

static __always_inline bool lane_parse_v4(const struct sk_buff___local *skb, bool track,
					  struct weir_packet *p)
{
	__u32 have = skb->len - skb->data_len, total;
	__u64 base = (__u64)skb->data, word;

	if (have < 28)
		return false;
	word = lane_load(base, 0);
	/* No options, not a fragment. */
	if ((word & 0xff) != 0x45 || word >> 48 & 0xff3f)
		return false;
	total = bpf_ntohs((__u16)(word >> 16));
	p->family = 4;
	p->length = total;
	word = lane_load(base, 8);
	p->proto = word >> 8;
	p->src[1] = bpf_ntohl((__u32)(word >> 32));
	word = lane_load(base, 16);
	p->dst[1] = bpf_ntohl((__u32)word);
	return lane_transport(base, 20, have, total, word >> 32, track, p);
}

static __always_inline bool lane_parse_v6(const struct sk_buff___local *skb, bool track,
					  struct weir_packet *p)
{
	__u32 have = skb->len - skb->data_len, total;
	__u64 base = (__u64)skb->data, word;

	if (have < 48)
		return false;
	word = lane_load(base, 0);
	total = bpf_ntohs((__u16)(word >> 32));
	if ((word & 0xf0) != 0x60 || !total)
		return false;
	p->family = 6;
	p->length = total + 40;
	p->proto = word >> 48;
	p->src[0] = bpf_be64_to_cpu(lane_load(base, 8));
	p->src[1] = bpf_be64_to_cpu(lane_load(base, 16));
	p->dst[0] = bpf_be64_to_cpu(lane_load(base, 24));
	p->dst[1] = bpf_be64_to_cpu(lane_load(base, 32));
	word = lane_load(base, 40);
	return lane_transport(base, 40, have, total + 40, word, track, p);
}

/*
 * The flow of the packet, when it is one whose packets are ESTABLISHED, or UDP without an answer
 * yet. False: the whole way. Changes nothing.
 */
static __always_inline bool lane_flow_of(struct weir_packet *p, __u8 *table,
					 const struct weir_control *c, __u32 now,
					 struct lane_flow *f)
{
	struct flow_ref *ref = &f->ref;
	struct flow_place place;

	if (c->settings[FLOW_SETTING_ACCOUNTING] || !flow_name(p, ref, c->zero))
		return false;
	flow_place_of(ref->pair, ref->ports, ref->meta, &place);
	ref->slot = flow_find_near(table, ref, &place);
	f->e = flow_entry_at(table, ref->slot);
	if (!f->e || !flow_lives(f->e, now))
		return false;
	if (p->family == 6) {
		struct flow_cold *cold = flow_cold_at(table, ref->slot);

		if (!cold || !flow_between(cold, ref, p))
			return false;
	}
	if (p->proto == IPPROTO_TCP) {
		p->state = WEIR_STATE_ESTABLISHED;
		return flow_fits(p, ref, f->e, c->zero, &f->fit);
	}
	f->control = f->e->control;
	f->timeout = FLOW_TIMEOUT_UDP;
	if (!(f->control & FLOW_SEEN_REPLY)) {
		p->state = WEIR_STATE_NEW;
		/* The first answer changes the flow. */
		return !flow_direction(ref, f->control);
	}
	p->state = WEIR_STATE_ESTABLISHED;
	if ((__s32)(now - f->e->side[0].end) > 0) {
		f->control |= FLOW_ASSURED;
		f->timeout = FLOW_TIMEOUT_UDP_STREAM;
	}
	return true;
}

/* What the packet does to its flow. */
static __always_inline void lane_touch(const struct weir_packet *p, const struct weir_control *c,
				       __u32 now, struct lane_flow *f)
{
	__u32 expires;

	if (p->proto == IPPROTO_TCP) {
		flow_note_fit(p, f->e, &f->fit, c->settings, now);
		return;
	}
	if (f->e->control != f->control)
		f->e->control = f->control;
	expires = now + c->settings[f->timeout & 15];
	if (f->e->expires != expires)
		f->e->expires = expires;
}

/* The classes of both interfaces, from what is remembered. False: ask on the whole way. */
static __always_inline bool lane_class_of(const __u64 name[2], __u32 number, __u16 *class)
{
	__u32 place = ((name[0] ^ name[1]) * CLASS_MIX) >> 58;
	const struct weir_interface *e = bpf_map_lookup_elem(&interfaces, &place);
	__u64 value;

	if (!e)
		return false;
	value = e->value;
	*class = value;
	return value >> 16 == number && (e->name[0] ^ value * CLASS_MIX) == name[0] &&
	       (e->name[1] ^ (value + 1) * CLASS_MIX) == name[1];
}

static __always_inline bool lane_classes(struct bpf_nf_ctx___local *ctx,
					 const struct weir_control *c, __u32 slot,
					 struct weir_packet *p)
{
	const struct weir_seen seen = {
		.in = (__u64)ctx->state->in,
		.out = (__u64)ctx->state->out,
	};
	__u32 number = c->slot_generation[slot & 1];
	__u64 name[2];

	meta_name(&seen, false, name);
	if (!lane_class_of(name, number, &p->in_class))
		return false;
	meta_name(&seen, true, name);
	return lane_class_of(name, number, &p->out_class);
}

/* What a lookup found: the first position, and where it is known which come after it. */
struct lane_found {
	__u64 rest;		/* terms behind the first */
	__u32 positions_at;	/* of the terms */
	__u32 position;
	bool complete;		/* no entries hold but those of the terms, and the last */
};

#define LANE_WORDS 3

/* The entries of one chunk that hold. False: it takes many words to say. */
static __always_inline bool lane_chunk(const __u8 *image, __u64 mask, __u32 chunk_at, bool v6,
				       const struct weir_packet *p, struct lane_found *f)
{
	const struct weir_chunk *c = IMAGE_AT(struct weir_chunk, image, mask, chunk_at);
	__u32 stride = c->stride, at = 0;
	struct weir_cursor rows;
	__u64 word, summary = 0;

	rows.rows[0] = c->addresses[0].rows_at +
		       stride * address_class(image, mask, &c->addresses[0], v6, p->src);
	rows.rows[1] = c->addresses[1].rows_at +
		       stride * address_class(image, mask, &c->addresses[1], v6, p->dst);
	rows.rows[2] = fold_row(image, mask, &c->fold, p);
	rows.rows[3] = rows.rows[4] = rows.rows[2];
	if (c->rows > 3) {
		rows.rows[3] = c->ports[0].rows_at +
			       stride * port_class(image, mask, &c->ports[0], p->src_port);
		rows.rows[4] = c->ports[1].rows_at +
			       stride * port_class(image, mask, &c->ports[1], p->dst_port);
	}
	word = rows_and(image, mask, &rows, 0);
	f->positions_at = c->positions_at;
	if (c->words > 1) {
		summary = word;
		word = 0;
		for (int i = 0; i < LANE_WORDS && summary && !word; i++) {
			at = lowest_bit(summary);
			summary &= summary - 1;
			word = rows_and(image, mask, &rows, 8 + at * 8);
		}
		f->positions_at += at * 256;
	}
	if (!word)
		return !summary;
	f->position = IMAGE_U32(image, mask, f->positions_at + lowest_bit(word) * 4);
	f->rest = word & (word - 1);
	f->complete &= !summary;
	return true;
}

/* The first entry that holds. False: the whole way. */
static __always_inline bool lane_first(const __u8 *image, __u64 mask, const struct weir_root *root,
				       bool v6, const struct weir_packet *p, __u32 zero,
				       struct lane_found *f)
{
	__u32 last = root->entries - 1, hashed = WEIR_NONE;

	struct weir_leaf leaf = leaf_of(image, mask, root, p);

	if (leaf.chunks > 1)
		return false;
	f->position = WEIR_NONE;
	f->rest = 0;
	f->complete = true;
	if (root->tables) {
		hashed = probe_tables(image, mask, root, v6, p, 0, zero);
		f->complete = false;
	}
	if (leaf.chunks && !lane_chunk(image, mask, leaf.chunks_at, v6, p, f))
		return false;
	f->position = hashed < f->position ? hashed : f->position;
	f->position = f->position < last ? f->position : last;
	return true;
}

/*
 * The entries that the packet meets in one root. False: the whole way. Of entries that hold, some
 * may lie before the one with which an earlier one goes on; they are looked at, and left out.
 */
static __always_inline bool lane_walk(const __u8 *image, __u64 mask, __u32 root_at, bool v6,
				      const struct weir_packet *p, __u32 zero,
				      struct lane_trail *trail)
{
	const struct weir_root *root = IMAGE_AT(struct weir_root, image, mask, root_at);
	__u32 entries_at = root->entries_at, last = root->entries - 1, from = 0;
	struct lane_found f;

	if (!lane_first(image, mask, root, v6, p, zero, &f))
		return false;
#pragma clang loop unroll(full)
	for (int i = 0; i < LANE_STEPS; i++) {
		__u32 at = entries_at + f.position * sizeof(struct weir_entry);
		const struct weir_entry *e = IMAGE_AT(struct weir_entry, image, mask, at);

		if (f.position >= from) {
			if (e->tests | e->ops | (e->flags & WEIR_FLAG_PROPOSE) ||
			    e->rules > LANE_RULES || e->verdict > WEIR_VERDICT_DROP)
				return false;
			trail->entry_at[i] = at;
			if (e->verdict) {
				trail->verdict = e->verdict;
				return true;
			}
			from = e->next_match;
		}
		if (!f.complete)
			return false;
		f.position = last;
		if (f.rest)
			f.position = IMAGE_U32(image, mask,
					       f.positions_at + lowest_bit(f.rest) * 4);
		f.rest &= f.rest - 1;
	}
	return false;
}

/* Counts the rules of one entry. */
static __always_inline __u32 lane_count(const __u8 *image, __u64 mask, __u32 slot, __u32 entry_at,
					__u32 bytes)
{
	const struct weir_entry *e = IMAGE_AT(struct weir_entry, image, mask, entry_at);
	__u32 rule = e->rule, rules = e->rules, at = rule;

	if (rules == 1) {
		weir_count(slot, rule, bytes);
		return rule;
	}
	for (int i = 0; i < LANE_RULES; i++) {
		if (i >= rules)
			break;
		rule = IMAGE_U32(image, mask, at + i * 4);
		weir_count(slot, rule, bytes);
	}
	return rule;
}

static __always_inline void lane_count_all(const __u8 *image, __u64 mask, __u32 slot,
					   const struct weir_lane *lane, struct lane_trail *trail,
					   __u32 bytes)
{
	if (lane->counts) {
		weir_count(slot, lane->count[0], bytes);
		if (lane->counts > 1)
			weir_count(slot, lane->count[1], bytes);
	}
#pragma clang loop unroll(full)
	for (int i = 0; i < LANE_STEPS; i++) {
		if (!trail->entry_at[i])
			continue;
		trail->deciding = lane_count(image, mask, slot, trail->entry_at[i], bytes);
	}
}

/* What a test run wants to know. */
static __always_inline void lane_tell(struct weir_control *c, const struct weir_packet *p,
				      const struct lane_trail *trail)
{
	c->test.packet = *p;
	c->test.verdict = trail->verdict;
	c->test.deciding = trail->deciding;
	c->test.result_mark = c->test.mark;
	c->test.short_way = 1;
}

/* `number`: family and hook. */
static __always_inline const struct weir_lane *lane_at(const struct weir_control *c, __u32 slot,
						       __u64 number)
{
	number |= slot << 3;
	OPAQUE(number);
	return &c->lanes[0][number & 15];
}

static __always_inline int lane_judge(struct bpf_nf_ctx___local *ctx, bool v6)
{
	struct weir_control *c = weir_get_control();
	__u32 hook = ctx->state->hook, slot, now = 0;
	struct lane_trail trail = {};
	struct weir_packet p = {};
	const struct weir_lane *lane;
	struct lane_flow flow = {};
	const __u8 *image;
	__u32 root_at;
	__u64 mask;
	__u8 *table;
	bool track;

	if (!c || hook > WEIR_HOOK_OUTPUT)
		return LANE_WHOLE;
	/* What it looks at is hidden, or the verifier would follow the rest once for each way. */
	slot = (weir_slot(c, (__u64)ctx->skb, hook ^ c->zero) ^ c->zero) & 1;
	lane = lane_at(c, slot, (v6 ? 4 : 0) | hook);
	image = weir_image(slot);
	if (!lane->root || !image || (weir_testing && c->test.way))
		return LANE_WHOLE;
	track = lane->flags & WEIR_LANE_TRACK;
	if (!(v6 ? lane_parse_v6(ctx->skb, track, &p) : lane_parse_v4(ctx->skb, track, &p)))
		return LANE_WHOLE;
	p.hook = hook;
	p.state = WEIR_STATE_INVALID;
	root_at = lane->root;
	mask = image_mask();
	if (lane->flags & WEIR_LANE_CLASSES && !lane_classes(ctx, c, slot, &p))
		return LANE_WHOLE;
	if (weir_testing && c->test.state) {
		p.state = c->test.state;
		track = false;
	}
	if (track) {
		now = weir_now(c);
		table = weir_flows();
		if (!table || !lane_flow_of(&p, table, c, now, &flow))
			return LANE_WHOLE;
		if (p.state == WEIR_STATE_ESTABLISHED)
			root_at = lane->established;
	}
	if (!lane_walk(image, mask, root_at, v6, &p, c->zero, &trail))
		return LANE_WHOLE;
	if (track)
		lane_touch(&p, c, now, &flow);
	lane_count_all(image, mask, slot, lane, &trail, p.length);
	if (weir_testing)
		lane_tell(c, &p, &trail);
	if (trail.verdict == WEIR_VERDICT_ACCEPT)
		return NF_ACCEPT;
	__sync_fetch_and_add(&c->reasons[WEIR_REASON_RULE], 1);
	return NF_DROP;
}

#endif
