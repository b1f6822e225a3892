/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of learned states: names, places, finding, making room. A name belongs to two lines of
 * sixteen tags; a look reads these, and the entries whose tags are equal, newest first.
 *
 * A tag is taken by one exchange; its entry is filled in before `used` says so. Who sets `used`
 * back to 0 gives the place free and takes the entry out of the counts.
 */
#ifndef WEIR_LEARNED_TABLE_H
#define WEIR_LEARNED_TABLE_H

#include "fields.h"
#include "hash.h"
#include "learned_abi.h"
#include "learned_search.h"
#ifndef WEIR_DYNAMIC
#include "learned_share.h"
#endif
#include "maps.h"

#define LEARNED_NONE 0xffffffffu
#define LEARNED_LOCK_TRIES 256
#define LEARNED_COPY(x) asm volatile("" : "+r"(x))

FLAT_ARRAY(learned, 1, LEARNED_BYTES);

#ifdef WEIR_DYNAMIC
#include "dynamic_table.h"
#endif

static __always_inline __u8 *learned_table(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&learned, &zero);
}

/* Counts what seldom happens: enum learned_statistic. */
static __always_inline void learned_note(__u8 *table, __u64 what)
{
	struct learned_header *h = (struct learned_header *)table;

	LEARNED_COPY(what);
	if (table && what < LEARNED_STATISTICS)
		__sync_fetch_and_add(&h->statistics[what], 1);
}

static __always_inline struct learned_entry *learned_at(__u8 *table, __u64 slot)
{
	LEARNED_COPY(slot);
	if (slot >= LEARNED_SLOTS)
		return NULL;
	return (struct learned_entry *)(table + LEARNED_ENTRIES_AT +
					slot * sizeof(struct learned_entry));
}

static __always_inline __u32 *learned_tag(__u8 *table, __u64 slot)
{
	LEARNED_COPY(slot);
	if (slot >= LEARNED_SLOTS)
		return NULL;
	return (__u32 *)(table + LEARNED_TAGS_AT + slot * 4);
}

/* The name of a conversation, the same for both directions. Ports: 0 for what has none. */
static __always_inline __u64 learned_name(const __u64 *a, const __u64 *b, __u32 ports,
					  __u32 proto, __u32 family)
{
	__u64 one = hash_words(a[0], a[1]), two = hash_words(b[0], b[1]);
	__u32 first = ports & 0xffff, second = ports >> 16;

	return hash_words(one + two, (one ^ two) + ((__u64)(first + second) << 32) +
			  (first ^ second) + (proto << 17) + (family << 25));
}

/*
 * The name of one whose destination is not known. Its ports are part of it, so that what one host
 * sends to many does not crowd out the rest of its conversations.
 */
static __always_inline __u64 learned_open_name(const __u64 *from, __u32 ports, __u32 proto,
					       __u32 family)
{
	__u32 first = ports & 0xffff, second = ports >> 16;

	return hash_words(hash_words(from[0], from[1]),
			  ((__u64)(first + second) << 40) + ((__u64)(first ^ second) << 16) +
				  (proto << 8 | family));
}

/* The name of a datagram in fragments. */
static __always_inline __u64 learned_datagram_name(const struct weir_packet *p, __u32 id)
{
	__u64 from = hash_words(p->src[0], p->src[1]), to = hash_words(p->dst[0], p->dst[1]);

	return hash_words(hash_words(from, to), (__u64)id << 16 | p->proto << 8 | p->family);
}

static __always_inline __u32 learned_tag_of(__u64 name)
{
	return name >> 32 | 1;
}

static __always_inline __u32 learned_line_of(__u64 name)
{
	return name & (LEARNED_LINES - 1);
}

/* Begin a search for a conversation. Verified on its own. */
__noinline int learned_search_begin(struct learned_search *s, const struct weir_packet *p,
				    __u32 ports)
{
	__u8 *table = learned_table();

	if (!table || !s || !p)
		return 0;
	s->below = ~0ULL;
	s->count = 1;
	s->names[0] = learned_name(p->src, p->dst, ports, p->proto, p->family);
	if (((struct learned_header *)table)->open) {
		s->count = 3;
		s->names[1] = learned_open_name(p->src, ports, p->proto, p->family);
		s->names[2] = learned_open_name(p->dst, ports, p->proto, p->family);
	}
	return 1;
}

/*
 * Which of the 32 places of a name have its tag, as bits. Two tags are compared at a time: a tag is
 * odd and a free place 0, so no difference from a tag is 1, which would borrow from its neighbour.
 */
static __always_inline __u32 learned_equal(__u8 *table, __u64 name)
{
	__u64 wanted = learned_tag_of(name), hits = 0;

	wanted |= wanted << 32;
#pragma clang loop unroll(full)
	for (int line = 0; line < 2; line++) {
		__u64 number = learned_line_of(name) ^ line;
		const __u64 *tags;

		LEARNED_COPY(number);
		number &= LEARNED_LINES - 1;
		tags = (const __u64 *)(table + LEARNED_TAGS_AT + number * LEARNED_LINE_SLOTS * 4);
#pragma clang loop unroll(full)
		for (int i = 0; i < LEARNED_LINE_SLOTS / 2; i++) {
			__u64 differ = tags[i] ^ wanted;
			__u64 equal = (differ - 0x100000001ULL) & ~differ & 0x8000000080000000ULL;

			hits |= equal >> (15 - line * 8 - i);
		}
	}
	/* Tags of even places are in the lower half. */
	return (hits >> 16 & 0xffff) | (hits >> 32 & 0xffff0000);
}

/* The place of a bit of learned_equal. */
static __always_inline __u64 learned_place(__u64 name, __u32 bit)
{
	__u64 line = learned_line_of(name) ^ (bit >> 3 & 1);

	return line * LEARNED_LINE_SLOTS + (bit & 7) * 2 + (bit >> 4 & 1);
}

/* The same, verified on its own. */
__noinline __u32 learned_hits(__u64 name)
{
	__u8 *table = learned_table();

	return table ? learned_equal(table, name) : 0;
}

/* Whether the entry of a place is nearer to what is searched for than those seen. */
__noinline int learned_consider(struct learned_search *s, __u32 slot, __u64 name)
{
	__u8 *table = learned_table();
	struct learned_entry *e;
	__u32 *tag;

	if (!table || !s)
		return 0;
	tag = learned_tag(table, slot);
	e = learned_at(table, slot);
	if (!tag || !e || *tag != learned_tag_of(name) || !e->used || e->number >= s->below ||
	    e->number <= s->newest || e->expires_ms <= s->now_ms)
		return 0;
	s->newest = e->number;
	s->slot = slot;
	return 1;
}

/* The newest entry of the search's names that lives and is older than the one before. */
__noinline int learned_next(struct learned_search *s)
{
	if (!s)
		return 0;
	s->slot = LEARNED_NONE;
	s->newest = 0;
#pragma clang loop unroll(full)
	for (int i = 0; i < 3; i++) {
		__u64 name = s->names[i];
		__u32 hits = i < s->count ? learned_hits(name) : 0;

#pragma clang loop unroll(disable)
		for (int k = 0; k < 2 * LEARNED_LINE_SLOTS; k++) {
			if (!hits)
				break;
			learned_consider(s, learned_place(name, lowest_bit(hits)), name);
			hits &= hits - 1;
		}
	}
	s->below = s->newest;
	return s->slot != LEARNED_NONE;
}

/* Take an entry out: its place, and what counts it. */
static __always_inline void learned_remove(__u8 *table, struct learned_entry *e, __u32 *tag,
					   __u64 slot)
{
	struct learned_header *h = (struct learned_header *)table;
	struct weir_control *c = weir_get_control();
	__u32 learner = e->learner, generation = e->generation;

	if (!__sync_lock_test_and_set((__u32 *)&e->lock, 1)) {
#ifdef WEIR_DYNAMIC
		if (e->used == 2 && !dynamic_unused(e)) {
			__sync_lock_test_and_set((__u32 *)&e->lock, 0);
			return;
		}
		if (e->used == 1)
			dynamic_gone(table, e);
#endif
		if (e->used == 2) {
			e->used = 0;
			__sync_fetch_and_add(&h->fragments, -1);
			*tag = 0;
		} else if (e->used) {
			e->used = 0;
			__sync_fetch_and_add(&h->count, -1);
			if (c && learner < LEARNED_LEARNERS) {
				if (generation == c->slot_generation[0])
					__sync_fetch_and_add(&h->of_learner[0][learner], -1);
				else if (generation == c->slot_generation[1])
					__sync_fetch_and_add(&h->of_learner[1][learner], -1);
			}
#ifndef WEIR_DYNAMIC
			share_leave(slot, e);
#endif
			*tag = 0;
#ifndef WEIR_DYNAMIC
			/* LEARNED_LAST_ACK and what is behind it: both ends were done. */
			if (e->proto == IPPROTO_TCP && e->machine.queue >= 8)
				__sync_fetch_and_add(&h->statistics[LEARNED_ENDED], 1);
#endif
			__sync_fetch_and_add(&h->statistics[LEARNED_EXPIRED], 1);
		}
		__sync_lock_test_and_set((__u32 *)&e->lock, 0);
	}
}

struct learned_sweep {
	__u64 now_ms;
	__u64 next;
};

/* One line of a sweep. A callback, so that the verifier follows it once. */
static long learned_sweep_line(__u32 line, struct learned_sweep *s)
{
	__u8 *table = learned_table();

	if (!table)
		return 1;
	for (__u32 i = 0; i < LEARNED_LINE_SLOTS; i++) {
		__u64 slot = (__u64)line * LEARNED_LINE_SLOTS + i;
		__u32 *tag = learned_tag(table, slot);
		struct learned_entry *e;

		if (!tag || !*tag)
			continue;
		e = learned_at(table, slot);
		if (!e || !e->used)
			continue;
		if (e->expires_ms <= s->now_ms)
			learned_remove(table, e, tag, slot);
		else if (e->expires_ms < s->next)
			s->next = e->expires_ms;
	}
	return 0;
}

/* Take out all entries whose time is up, when there can be any. Verified on its own. */
__noinline int learned_expire(__u64 now_ms)
{
	__u8 *table = learned_table();
	struct learned_header *h = (struct learned_header *)table;
	struct learned_sweep s = { .now_ms = now_ms, .next = ~0ULL };

	if (!table || h->next_expiry > now_ms)
		return 0;
	if (__sync_lock_test_and_set(&h->sweeping, 1))
		return 0;
	/* What expires earlier from now on lowers it again. */
	h->next_expiry = ~0ULL;
	barrier();
	bpf_loop(LEARNED_LINES, learned_sweep_line, &s, 0);
	if (s.next < h->next_expiry)
		h->next_expiry = s.next;
	__sync_fetch_and_add(&h->statistics[LEARNED_SWEEPS], 1);
	__sync_lock_test_and_set(&h->sweeping, 0);
	return 1;
}

static __always_inline void learned_until(__u8 *table, struct learned_entry *e, __u64 expires_ms)
{
	struct learned_header *h = (struct learned_header *)table;

	e->expires_ms = expires_ms;
	if (expires_ms < h->next_expiry)
		h->next_expiry = expires_ms;
}

struct learned_taking {
	__u64 name;
	__u64 now_ms;
	__u32 slot;		/* what was taken, or LEARNED_NONE */
	__u32 reserved;
};

/*
 * One place of a name's lines, three times: the second time, those whose time is up make room; the
 * third time, connections whose ports are used again, which ICMP errors are still about.
 */
static long learned_take_place(__u32 i, struct learned_taking *t)
{
	__u8 *table = learned_table();
	__u64 slot = (learned_line_of(t->name) ^ (i >> 4 & 1)) * LEARNED_LINE_SLOTS + (i & 15);
	struct learned_entry *e;
	__u32 *tag;

	if (!table)
		return 1;
	tag = learned_tag(table, slot);
	e = learned_at(table, slot);
	if (!tag || !e)
		return 1;
	if (i >= 2 * LEARNED_LINE_SLOTS && *tag && e->used &&
	    (e->expires_ms <= t->now_ms ||
	     (i >= 4 * LEARNED_LINE_SLOTS && e->machine.deleted)))
		learned_remove(table, e, tag, slot);
	if (*tag || __sync_val_compare_and_swap(tag, 0, learned_tag_of(t->name)))
		return 0;
	t->slot = slot;
	return 1;
}

/* Take a free place of a name, or one that is over; LEARNED_NONE: there is none. */
__noinline int learned_take(__u64 name, __u64 now_ms)
{
	struct learned_taking t = { .name = name, .now_ms = now_ms, .slot = LEARNED_NONE };

	bpf_loop(6 * LEARNED_LINE_SLOTS, learned_take_place, &t, 0);
	return t.slot;
}

/* One more state, as far as the limits go; what is taken must be given back if it isn't made. */
__noinline int learned_admit(__u32 slot, __u32 learner, __u32 limit, __u32 states_max)
{
	__u8 *table = learned_table();
	struct learned_header *h = (struct learned_header *)table;
	__u32 own = 0, all;

	if (!table)
		return 0;
	all = __sync_fetch_and_add(&h->count, 1);
	if (learner < LEARNED_LEARNERS)
		own = __sync_fetch_and_add(&h->of_learner[slot & 1][learner], 1);
	if (limit == ~0U ? all < states_max : own < limit)
		return 1;
	__sync_fetch_and_add(&h->count, -1);
	if (learner < LEARNED_LEARNERS)
		__sync_fetch_and_add(&h->of_learner[slot & 1][learner], -1);
	return 0;
}

/* Take back what learned_admit has counted. */
static __always_inline void learned_dismiss(__u8 *table, __u32 slot, __u32 learner)
{
	struct learned_header *h = (struct learned_header *)table;
	__u64 at = learner;

	__sync_fetch_and_add(&h->count, -1);
	LEARNED_COPY(at);
	if (at < LEARNED_LEARNERS)
		__sync_fetch_and_add(&h->of_learner[slot & 1][at], -1);
}

/* An entry's lock, as long as that is worth waiting for; who has it may be interrupted by us. */
static __always_inline bool learned_lock(struct learned_entry *e)
{
	for (int i = 0; i < LEARNED_LOCK_TRIES; i++)
		if (!__sync_lock_test_and_set(&e->lock, 1))
			return true;
	return false;
}

static __always_inline void learned_unlock(struct learned_entry *e, bool held)
{
	if (held)
		__sync_lock_test_and_set(&e->lock, 0);
}

#endif
