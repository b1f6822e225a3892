/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ipfw's limits, and what flows are known by. A limit counts the flows of a rule whose masked
 * fields are the same; see dynamic_table.h for the counters.
 */
#ifndef WEIR_DYNAMIC_LIMIT_H
#define WEIR_DYNAMIC_LIMIT_H

#include "learned_interface.h"
#include "learned_table.h"

#define DYNAMIC_SRC_ADDRESS 1
#define DYNAMIC_SRC_PORT 2
#define DYNAMIC_DST_ADDRESS 4
#define DYNAMIC_DST_PORT 8

static __always_inline bool dynamic_same(const __u64 *a, const __u64 *b)
{
	return !((a[0] ^ b[0]) | (a[1] ^ b[1]));
}

/* The ports of protocols that ipfw reads ports of; source in the low half. */
static __always_inline __u32 dynamic_ports(const struct weir_packet *p)
{
	if (p->transport < WEIR_TRANSPORT_TCP || p->transport > WEIR_TRANSPORT_SCTP)
		return 0;
	if (p->proto != IPPROTO_TCP && p->proto != IPPROTO_UDP && p->proto != IPPROTO_SCTP &&
	    p->proto != IPPROTO_UDPLITE)
		return 0;
	return p->src_port | (__u32)p->dst_port << 16;
}

static __always_inline bool dynamic_is_local(__u64 high)
{
	return high >> 54 == 0xfe80 >> 6;
}

/* The interface, where an address is link-local. */
static __always_inline __u32 dynamic_zone(const struct walk *w)
{
	const struct weir_packet *p = &w->packet;

	if (p->family != 6 || !(dynamic_is_local(p->src[0]) || dynamic_is_local(p->dst[0])))
		return 0;
	return learned_interface(&w->seen, p->hook != WEIR_HOOK_PREROUTING);
}

static __always_inline __u64 dynamic_name(const struct walk *w)
{
	const struct weir_packet *p = &w->packet;

	return learned_name(p->src, p->dst, dynamic_ports(p), p->proto, p->family);
}

/* The place of a name's lines. */
static __always_inline __u64 dynamic_place(__u64 name, __u32 i)
{
	return (learned_line_of(name) ^ (i >> 4 & 1)) * LEARNED_LINE_SLOTS + (i & 15);
}

/* The fields that a limit counts together, of a packet. */
struct dynamic_masked {
	__u64 src[2];
	__u64 dst[2];
	__u64 identity;
	__u32 ports;
	__u32 zone;
	__u32 proto;		/* and family << 8 */
	__u32 reserved;
};

static __always_inline void dynamic_mask(const struct walk *w, struct dynamic_masked *m)
{
	const struct weir_packet *p = &w->packet;
	__u32 ports = dynamic_ports(p), mask = w->rule.mask;

	__builtin_memset(m, 0, sizeof(*m));
	if (mask & DYNAMIC_SRC_ADDRESS) {
		m->src[0] = p->src[0];
		m->src[1] = p->src[1];
	}
	if (mask & DYNAMIC_DST_ADDRESS) {
		m->dst[0] = p->dst[0];
		m->dst[1] = p->dst[1];
	}
	if (mask & DYNAMIC_SRC_PORT)
		m->ports |= ports & 0xffff;
	if (mask & DYNAMIC_DST_PORT)
		m->ports |= ports & 0xffff0000;
	m->identity = w->rule.identity;
	m->zone = dynamic_zone(w);
	m->proto = p->proto | (__u32)p->family << 8;
}

static __always_inline __u64 dynamic_masked_name(const struct dynamic_masked *m)
{
	__u64 src = hash_words(m->src[0], m->src[1]), dst = hash_words(m->dst[0], m->dst[1]);

	return hash_words(hash_words(src, dst) ^ m->identity,
			  (__u64)m->ports << 32 | m->proto << 16 | (m->zone & 0xffff));
}

/* Whether the entry in a slot counts these, and lives. */
__noinline int dynamic_counts(const struct dynamic_masked *m, __u32 slot, __u64 now_ms)
{
	__u8 *table = learned_table();
	struct learned_entry *e;

	if (!m || !table)
		return 0;
	e = learned_at(table, slot);
	if (!e || e->used != 2 || e->dynamic.count & DYNAMIC_DEAD)
		return 0;
	if (!e->dynamic.count && e->expires_ms <= now_ms)
		return 0;
	return e->dynamic.identity == m->identity && dynamic_same(e->src, m->src) &&
	       dynamic_same(e->dst, m->dst) && e->interfaces[0] == m->zone &&
	       (e->src_port | (__u32)e->dst_port << 16) == m->ports &&
	       (e->proto | (__u32)e->family << 8) == m->proto;
}

/* The counter of these: its slot, or LEARNED_NONE. */
__noinline int dynamic_counter(const struct dynamic_masked *m, __u64 now_ms)
{
	__u8 *table = learned_table();
	__u32 wanted;
	__u64 name;

	if (!m || !table)
		return LEARNED_NONE;
	name = dynamic_masked_name(m);
	wanted = learned_tag_of(name);
	for (int i = 0; i < 2 * LEARNED_LINE_SLOTS; i++) {
		__u64 slot = dynamic_place(name, i);
		__u32 *tag = learned_tag(table, slot);

		if (tag && *tag == wanted && dynamic_counts(m, slot, now_ms))
			return slot;
	}
	return LEARNED_NONE;
}

/* A counter for these, where there is none yet: its slot, or LEARNED_NONE. */
static __always_inline int dynamic_new_counter(const struct dynamic_masked *m, __u64 now_ms,
					       __u32 parents_max, __u32 name)
{
	__u8 *table = learned_table();
	struct learned_header *h = (struct learned_header *)table;
	struct learned_entry *e;
	__u32 slot;

	if (!table)
		return LEARNED_NONE;
	/* Whose last flow a first sweep takes goes with the second one. */
	for (int i = 0; i < 2; i++)
		if (h->fragments >= parents_max)
			learned_expire(now_ms);
	if (__sync_fetch_and_add(&h->fragments, 1) >= parents_max) {
		__sync_fetch_and_add(&h->fragments, -1);
		return LEARNED_NONE;
	}
	slot = learned_take(dynamic_masked_name(m), now_ms);
	e = learned_at(table, slot);
	if (!e) {
		__sync_fetch_and_add(&h->fragments, -1);
		__sync_fetch_and_add(&h->statistics[LEARNED_FULL], 1);
		return LEARNED_NONE;
	}
	__builtin_memset(&e->expires_ms, 0, sizeof(*e) - 64);
	e->src[0] = m->src[0];
	e->src[1] = m->src[1];
	e->dst[0] = m->dst[0];
	e->dst[1] = m->dst[1];
	e->src_port = m->ports;
	e->dst_port = m->ports >> 16;
	e->family = m->proto >> 8;
	e->proto = m->proto;
	e->open = 0;
	e->learner = ~0U;
	e->interfaces[0] = m->zone;
	e->options[0] = name;
	e->dynamic.identity = m->identity;
	e->expires_ms = ~0ULL;
	e->number = __sync_fetch_and_add(&h->next_number, 1) + 1;
	barrier();
	e->used = 2;
	return slot;
}

/* One flow more for the limit of w->rule: the slot of its counter, or LEARNED_NONE. */
__noinline int dynamic_enter(struct walk *w, __u32 seconds, __u32 parents_max)
{
	__u8 *table = learned_table();
	struct learned_header *h = (struct learned_header *)table;
	struct dynamic_masked m;
	struct learned_entry *e;
	__u32 slot, before = 0;

	if (!w || !table)
		return LEARNED_NONE;
	dynamic_mask(w, &m);
	slot = dynamic_counter(&m, w->now_ms);
	if (slot == LEARNED_NONE)
		slot = dynamic_new_counter(&m, w->now_ms, parents_max, w->rule.name);
	e = learned_at(table, slot);
	if (!e) {
		__sync_fetch_and_add(&h->statistics[LEARNED_NO_ROOM], 1);
		return LEARNED_NONE;
	}
	e->dynamic.until = (w->now_ms / 1000 + seconds) * 1000;
	for (int i = 0; i < 2; i++) {
		before = __sync_fetch_and_add(&e->dynamic.count, 1);
		if (before < w->rule.limit) {
			e->expires_ms = ~0ULL;
			return slot;
		}
		dynamic_leave(h, e);
		/* Some may be over. */
		learned_expire(w->now_ms);
	}
	__sync_fetch_and_add(&h->statistics[LEARNED_NO_ROOM], 1);
	return LEARNED_NONE;
}

#endif
