/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What states count for: connections of a source (HP-UX `keep limit`), states of a host, hosts of
 * a rule. Twin of policy's eval::ipf::limit and of sources_fit. A share belongs to two lines of
 * sixteen places, by its name; a state's slot has a link to its share. Who takes the last state of
 * a share away gives its place free.
 */
#ifndef WEIR_LEARNED_SHARE_H
#define WEIR_LEARNED_SHARE_H

#include "hash.h"
#include "learned_share_abi.h"
#include "maps.h"

#define SHARE_NONE 0xffffffffu
#define SHARE_SWEEP_MS 10		/* sweeps for the sake of shares are so far apart */

FLAT_ARRAY(shares, 1, SHARE_BYTES);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} state_records SEC(".maps");

static __always_inline __u8 *share_table(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&shares, &zero);
}

static __always_inline struct learned_share *share_at(__u8 *table, __u64 place)
{
	asm volatile("" : "+r"(place));
	if (place >= SHARE_PLACES)
		return NULL;
	return (struct learned_share *)(table + SHARE_PLACES_AT +
					place * sizeof(struct learned_share));
}

/* The share of the state in a slot: its place, plus 1. */
static __always_inline __u32 *share_link(__u8 *table, __u64 slot)
{
	asm volatile("" : "+r"(slot));
	if (slot >= LEARNED_SLOTS)
		return NULL;
	return (__u32 *)(table + SHARE_LINKS_AT + slot * 4);
}

/* Names are never 0. */
static __always_inline __u64 share_limit_name(const struct weir_packet *p)
{
	__u64 from = hash_words(p->src[0], p->src[1]), to = hash_words(p->dst[0], p->dst[1]);

	return hash_words(hash_words(from, to), (__u64)p->dst_port << 16 | p->family << 8 | 8) | 1;
}

static __always_inline __u64 share_rule_name(__u32 identity, __u32 kind)
{
	return hash_words(identity, (__u64)kind << 32) | 1;
}

static __always_inline __u64 share_host_name(const __u64 *part, __u32 identity, __u32 family)
{
	return hash_words(hash_words(part[0], part[1]),
			  (__u64)identity << 16 | family << 8 | SHARE_HOST) | 1;
}

struct share_search {
	__u64 name;
	__u32 place;		/* what was found, or SHARE_NONE */
	__u32 reserved;
};

/* One place of a name's lines; twice where a free one will do. Verified once, as a callback. */
static long share_look_at(__u32 i, struct share_search *s)
{
	__u8 *table = share_table();
	__u64 line = (s->name >> 8 & (SHARE_LINES - 1)) ^ (i >> 4 & 1);
	__u64 place = line * SHARE_LINE_PLACES + (i & 15);
	struct learned_share *share;

	if (!table)
		return 1;
	share = share_at(table, place);
	if (!share)
		return 1;
	if (share->name != s->name &&
	    (i < 2 * SHARE_LINE_PLACES || share->name ||
	     __sync_val_compare_and_swap(&share->name, 0, s->name)))
		return 0;
	s->place = place;
	return 1;
}

/*
 * The place of a name's share, with `take` a new one if there is none; SHARE_NONE. Part of its
 * caller where calls are too deep already.
 */
static __always_inline __u32 share_seek(__u64 name, bool take)
{
	struct share_search s = { .name = name, .place = SHARE_NONE };

	bpf_loop(take ? 4 * SHARE_LINE_PLACES : 2 * SHARE_LINE_PLACES, share_look_at, &s, 0);
	return s.place;
}

__noinline int share_find(__u64 name, __u32 take)
{
	return share_seek(name, take);
}

/* A record, for who reads them; it is to be submitted. */
static __always_inline struct learned_record *record_begin(__u8 *table, __u32 kind)
{
	struct share_header *h = (struct share_header *)table;
	struct learned_record *r;

	if (!h->listening)
		return NULL;
	r = bpf_ringbuf_reserve(&state_records, sizeof(*r), 0);
	if (!r) {
		__sync_fetch_and_add(&h->statistics[SHARE_RECORDS_LOST], 1);
		return NULL;
	}
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = kind;
	if (kind >= RECORD_ALERT)
		__sync_fetch_and_add(&h->statistics[SHARE_RECORDS], 1);
	return r;
}

static __always_inline void record_share(struct learned_record *r, const struct learned_share *s)
{
	r->src[0] = s->src[0];
	r->src[1] = s->src[1];
	r->dst[0] = s->dst[0];
	r->dst[1] = s->dst[1];
	r->first_ms = s->first_ms;
	r->exceeded = s->exceeded;
	r->rule = s->rule;
	r->generation = s->generation;
	r->configured = s->configured;
	r->current = s->current;
	r->alerts = s->alerts;
	r->dst_port = s->port;
	r->family = s->family;
	r->proto = IPPROTO_TCP;
	r->limit = s->kind;
}

static __always_inline void share_free(__u8 *table, struct learned_share *s)
{
	s->configured = 0;
	s->exceeded = 0;
	s->resets = 0;
	s->current = 0;
	s->of = 0;
	barrier();
	s->name = 0;
	__sync_fetch_and_add(&((struct share_header *)table)->count, -1);
}

/* One state less. Cumulative limits stay until somebody asks for their summary. */
static __always_inline void share_give(__u8 *table, __u32 place, __u64 now_ms)
{
	struct learned_share *s = share_at(table, place), *hosts;
	struct learned_record *r;

	if (!s || !s->name || __sync_fetch_and_add(&s->current, -1) != 1 ||
	    s->kind == SHARE_CUMULATIVE)
		return;
	if (s->kind == SHARE_HOST) {
		hosts = share_at(table, (__u64)s->of - 1);
		if (hosts && __sync_fetch_and_add(&hosts->current, -1) == 1)
			share_free(table, hosts);
	} else {
		/* Rules without `log limit` write nothing. */
		r = s->alerts ? record_begin(table, RECORD_SUMMARY) : NULL;
		if (r) {
			record_share(r, s);
			r->time_ms = now_ms;
			bpf_ringbuf_submit(r, 0);
		}
	}
	share_free(table, s);
}

/* The state in a slot is gone: what it counted for, and its record. */
static __always_inline void share_leave(__u64 slot, const struct learned_entry *e)
{
	__u8 *table = share_table();
	struct learned_record *r;
	__u32 *link, place;

	if (!table)
		return;
	link = share_link(table, slot);
	if (!link)
		return;
	place = *link;
	*link = 0;
	if (place)
		share_give(table, place - 1, e->expires_ms);
	r = record_begin(table, RECORD_EXPIRE);
	if (!r)
		return;
	r->time_ms = e->expires_ms;
	r->src[0] = e->src[0];
	r->src[1] = e->src[1];
	r->dst[0] = e->dst[0];
	r->dst[1] = e->dst[1];
	for (int i = 0; i < 4; i++) {
		r->counts[i][0] = e->counts[i][0];
		r->counts[i][1] = e->counts[i][1];
	}
	r->rule = e->rule;
	r->generation = e->generation;
	r->src_port = e->src_port;
	r->dst_port = e->dst_port;
	r->family = e->family;
	r->proto = e->proto;
	bpf_ringbuf_submit(r, 0);
}

#endif
