/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Flows begin and end: the only writers of names and tags, under the lock of a line. Readers take
 * no lock. While a slot is rewritten its control word is 0, so that nobody takes it for a flow. A
 * lock that can't be had soon (its holder may be what this program interrupted) means no insertion.
 */
#ifndef WEIR_FLOW_INSERT_H
#define WEIR_FLOW_INSERT_H

#include "flow_find.h"
#include "flow_tcp.h"

#define FLOW_UDP_STREAM_AFTER 2000
#define FLOW_LOCK_TRIES 64
#define FLOW_SWEEP 2

/* The timeout of flows that are not TCP, or not yet UDP streams. */
static __always_inline __u32 flow_protocol_timeout(__u8 proto)
{
	if (proto == IPPROTO_UDP || proto == IPPROTO_UDPLITE)
		return FLOW_TIMEOUT_UDP;
	if (proto == IPPROTO_ICMP)
		return FLOW_TIMEOUT_ICMP;
	return proto == IPPROTO_ICMPV6 ? FLOW_TIMEOUT_ICMP6 : FLOW_TIMEOUT_GENERIC;
}

static __always_inline volatile __u32 *flow_lock_at(__u8 *table, __u64 line)
{
	FLOW_ONE_COPY(line);
	if (line >= flow_lines())
		return NULL;
	return (volatile __u32 *)(table + flow_slots() + line * 4);
}

static __always_inline bool flow_lock(volatile __u32 *lock, int tries)
{
	for (int i = 0; i < FLOW_LOCK_TRIES && i < tries; i++) {
		if (!*lock && !__sync_val_compare_and_swap((__u32 *)lock, 0, 1))
			return true;
	}
	return false;
}

static __always_inline void flow_unlock(volatile __u32 *lock)
{
	barrier();
	*lock = 0;
}

/* Under the lock of the slot's line. */
static __always_inline void flow_set_tag(__u8 *table, __u32 slot, __u64 tag)
{
	volatile __u64 *tags = flow_tags(table, slot / 8);
	__u32 shift = (slot & 7) * 8;

	if (tags)
		*tags = (*tags & ~(0xffULL << shift)) | tag << shift;
}

/* Whether a word has as many slots with this tag as are looked at. */
static __always_inline bool flow_crowded(__u64 tags, __u8 tag)
{
	__u64 hits = flow_matching(tags, tag);

	hits &= hits - 1;
	hits &= hits - 1;
	return hits != 0;
}

/*
 * A slot that is free: where the name begins, or beside it (there flow_guess looks, without
 * reading tags), or any in the nearest word that has one.
 */
static __always_inline __u32 flow_free_slot(__u8 *table, const struct flow_place *place)
{
	__u32 home = place->first + place->home;
	volatile __u64 *begin = flow_tags(table, home);

	if (!begin)
		return FLOW_NO_SLOT;
	if (!flow_crowded(*begin, place->tag)) {
		__u64 tags = *begin;
		__u32 within = place->within;

		if (!(tags >> within * 8 & 0xff))
			return home * 8 + within;
		within ^= 1;
		if (!(tags >> within * 8 & 0xff))
			return home * 8 + within;
	}
	for (__u32 step = 0; step < 8; step++) {
		__u32 word = place->first + (place->home ^ step);
		volatile __u64 *tags = flow_tags(table, word);
		__u64 free;

		if (!tags)
			break;
		free = flow_matching(*tags, 0);
		if (free && !flow_crowded(*tags, place->tag))
			return word * 8 + flow_lowest(free);
	}
	return FLOW_NO_SLOT;
}

/* A slot whose flow may be pushed out. */
static __always_inline __u32 flow_victim(__u8 *table, struct weir_control *c,
					 const struct flow_place *place, __u32 now)
{
	__u32 best = FLOW_NO_SLOT ^ c->zero, least = ~0U ^ c->zero, better;

	for (__u32 step = 0; step < 16; step++) {
		__u32 word = place->first + (place->home ^ step >> 3);
		__u32 slot = word * 8 + (step & 7), left;
		struct flow_entry *e = flow_entry_at(table, slot);
		volatile __u64 *tags = flow_tags(table, word);

		if (!e || !tags)
			break;
		if (flow_crowded(*tags, place->tag))
			continue;
		if (!flow_lives(e, now)) {
			flow_count(c, FLOW_EXPIRED);
			return slot;
		}
		left = e->expires - now;
		/* Unanswered, with less time left; without branches, see flow_mask_of. */
		better = flow_mask_of(flow_less(left, least) & ~(e->control >> 6) & 1);
		best ^= (best ^ slot) & better;
		least ^= (least ^ left) & better;
	}
	if (best != FLOW_NO_SLOT)
		flow_count(c, FLOW_EVICTED);
	return best;
}

/* Frees a slot whose flow is over; see sweep.h. */
static __always_inline void flow_sweep_slot(__u8 *table, struct weir_control *c, __u32 slot,
					    __u32 now)
{
	struct flow_entry *e = flow_entry_at(table, slot);
	volatile __u32 *lock = flow_lock_at(table, slot / FLOW_LINE_SLOTS);

	if (!e || !lock || !(e->control & FLOW_USED) || flow_lives(e, now))
		return;
	if (!flow_lock(lock, 1))
		return;
	if (e->control & FLOW_USED && !flow_lives(e, now)) {
		e->control = 0;
		flow_set_tag(table, slot, 0);
		flow_count(c, FLOW_EXPIRED);
	}
	flow_unlock(lock);
}

/* The same for the next so many slots. */
static __always_inline void flow_sweep(__u8 *table, struct weir_control *c, __u32 now)
{
	__u64 cursor = __sync_fetch_and_add(&c->flow_statistics[FLOW_CURSOR], FLOW_SWEEP);

	for (int i = 0; i < FLOW_SWEEP; i++)
		flow_sweep_slot(table, c, (cursor + i) % flow_slots(), now);
}

/* Writes a new flow, under the lock of its line. */
static __always_inline void flow_fill(__u8 *table, struct weir_control *c, __u32 slot,
				      const struct weir_packet *p, const struct flow_ref *ref,
				      __u32 now)
{
	struct flow_entry *e = flow_entry_at(table, slot);
	struct flow_cold *cold = flow_cold_at(table, slot);
	struct flow_work w = { .e = e, .slot = slot };
	__u32 timeout = flow_protocol_timeout(p->proto);

	if (!e || !cold)
		return;
	*(volatile __u32 *)&e->control = 0;
	barrier();
	e->pair = ref->pair;
	e->ports = ref->ports;
	e->meta = ref->meta;
	e->scales = 0;
	e->last_end = 0;
	__builtin_memset(e->side, 0, sizeof(e->side));
	__builtin_memset(cold, 0, sizeof(*cold));
	cold->mark = ref->mark;
	cold->packets[0] = c->settings[FLOW_SETTING_ACCOUNTING] ? 1 : 0;
	if (ref->meta & FLOW_META_V6) {
		cold->low[0] = ref->from_high ? p->dst[0] : p->src[0];
		cold->low[1] = ref->from_high ? p->dst[1] : p->src[1];
		cold->high[0] = ref->from_high ? p->src[0] : p->dst[0];
		cold->high[1] = ref->from_high ? p->src[1] : p->dst[1];
	}
	w.control = FLOW_USED | (ref->from_high ? FLOW_ORIGINAL_HIGH : 0);
	if (p->proto == IPPROTO_TCP)
		timeout = flow_tcp_open(&w, p, c->settings);
	e->expires = now + c->settings[WITHIN(timeout, 15)];
	e->recent = w.recent;
	if (p->proto == IPPROTO_UDP || p->proto == IPPROTO_UDPLITE)
		e->side[0].end = now + FLOW_UDP_STREAM_AFTER;
	barrier();
	*(volatile __u32 *)&e->control = w.control;
}

/* The slot of a flow that may be pushed out by the one of this name; verified on its own. */
__noinline int flow_push_out(const struct flow_ref *ref, __u64 now_ms)
{
	struct weir_control *c = weir_get_control();
	__u8 *table = weir_flows();
	struct flow_place place;

	if (!ref || !c || !table)
		return FLOW_NO_SLOT;
	flow_place_of(ref->pair, ref->ports, ref->meta, &place);
	return flow_victim(table, c, &place, now_ms);
}

/* Makes the flow that a packet begins; verified on its own. */
__noinline int flow_insert(struct weir_packet *p, struct flow_ref *ref, __u64 now_ms)
{
	struct weir_control *c = weir_get_control();
	__u8 *table = weir_flows();
	__u32 now = now_ms, slot, old;
	struct flow_place place;
	volatile __u32 *lock;
	struct flow_entry *e;

	if (!p || !ref || !c || !table)
		return 0;
	flow_place_of(ref->pair, ref->ports, ref->meta, &place);
	lock = flow_lock_at(table, place.first / 8);
	if (!lock)
		return 0;
	if (!flow_lock(lock, FLOW_LOCK_TRIES)) {
		flow_count(c, FLOW_BUSY);
		return 0;
	}
	old = flow_seek(ref) ^ c->zero;
	e = flow_entry_at(table, old);
	if (e && flow_lives(e, now)) {
		flow_unlock(lock);
		flow_count(c, FLOW_EXISTS);
		return 0;
	}
	slot = old;
	if (e) {
		flow_count(c, FLOW_EXPIRED);
	} else {
		slot = flow_free_slot(table, &place);
		if (slot == FLOW_NO_SLOT)
			slot = flow_push_out(ref, now_ms);
	}
	slot ^= c->zero;
	if (slot == FLOW_NO_SLOT) {
		flow_unlock(lock);
		flow_count(c, FLOW_FULL);
		weir_reason(WEIR_REASON_FLOW_FULL);
		return 0;
	}
	flow_fill(table, c, slot, p, ref, now);
	flow_set_tag(table, slot, place.tag);
	flow_unlock(lock);
	flow_count(c, FLOW_INSERTED);
	flow_sweep(table, c, now);
	return 0;
}

/* The packet was accepted: a flow that it begins exists from now on. */
static __always_inline void flow_confirm(struct weir_packet *p, struct flow_ref *ref, __u64 now_ms)
{
	if (ref->found == FLOW_FOUND_NEW)
		flow_insert(p, ref, now_ms);
}

#endif
