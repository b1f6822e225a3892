/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory of packets: limits, hash limits, address lists, connection counts, samples. Twin of
 * engine::history, which says what happens when a table is full. Every kind is verified on its
 * own; single words are changed by compare-and-swap, tables under the lock of a bucket.
 *
 * A lock that can't be had soon (its holder may be what this program interrupted): limits count
 * the packet as over; an address list is used without the lock, whose worst is a lost time.
 */
#ifndef WEIR_HISTORY_H
#define WEIR_HISTORY_H

#include "maps.h"
#include "hash.h"
#include "flow.h"
#include "history_abi.h"
#include "image.h"

#define HISTORY_SWAP_TRIES 16
#define HISTORY_LOCK_TRIES 64

static __always_inline const struct history_record *history_record_at(__u32 slot, __u64 offset)
{
	const __u8 *image = weir_image(slot);

	if (!image)
		return NULL;
	FLOW_ONE_COPY(offset);
	offset &= weir_image_mask & ~7U;
	return (const struct history_record *)(image + offset);
}

/* The word at a byte offset; the slack after a slot keeps what follows it inside. */
static __always_inline volatile __u64 *history_word(__u8 *memory, __u64 offset)
{
	FLOW_ONE_COPY(offset);
	offset &= weir_history_mask & ~7U;
	return (volatile __u64 *)(memory + offset);
}

static __always_inline __u64 history_ones(__u32 bits)
{
	return bits ? ~0ULL << (64 - bits) : 0;
}

/* An address with all bits after its first `prefix` cleared. */
static __always_inline void history_masked(const __u64 *address, bool v6, __u8 prefix, __u64 *out)
{
	__u32 keep = prefix + (v6 ? 0 : 96), high = keep > 64 ? 64 : keep;
	__u32 low = keep > 64 ? keep - 64 : 0;

	out[0] = address[0] & history_ones(high);
	out[1] = address[1] & history_ones(low > 64 ? 64 : low);
}

/* Offset of the bucket of a key of five words. `zero`: see flow_forget. */
static __always_inline __u32 history_bucket(const struct history_record *r, __u64 *key,
					    __u32 places, __u32 zero)
{
	__u64 hash;

	for (int i = 0; i < 5; i++)
		key[i] ^= zero;
	hash = hash_words(hash_addresses(key, key + 2), key[4]);

	return r->memory + ((hash >> 32) & r->bucket_mask) * places * r->stride;
}

static __always_inline bool history_lock(__u8 *memory, __u32 bucket)
{
	volatile __u64 *word = history_word(memory, bucket + 32);

	for (int i = 0; i < HISTORY_LOCK_TRIES; i++) {
		__u64 old = *word;

		if (!(old & HISTORY_LOCK) &&
		    __sync_val_compare_and_swap((__u64 *)word, old, old | HISTORY_LOCK) == old)
			return true;
	}
	return false;
}

static __always_inline void history_unlock(__u8 *memory, __u32 bucket)
{
	volatile __u64 *word = history_word(memory, bucket + 32);

	barrier();
	*word &= ~HISTORY_LOCK;
}

#include "meter.h"

__noinline int history_limit(__u32 slot, __u32 offset, __u64 now_ms)
{
	const struct history_record *r = history_record_at(slot, offset);
	__u8 *memory = weir_history(slot);
	__u64 now = now_ms * 10;
	volatile __u64 *word;

	if (!r || !memory || r->flags & HISTORY_NEVER)
		return 0;
	word = history_word(memory, r->memory);
	for (int i = 0; i < HISTORY_SWAP_TRIES; i++) {
		__u64 old = *word, next;

		if (old > now + r->b)
			return 0;
		next = (old > now ? old : now) + r->a;
		if (__sync_val_compare_and_swap((__u64 *)word, old, next) == old)
			return 1;
	}
	return 0;
}

/* Counts a packet of a key; whether the rate is kept. */
static __always_inline bool history_sample(volatile __u64 *place, const struct history_record *r,
					   __u64 now_ms)
{
	__u64 passed = now_ms > place[6] ? now_ms - place[6] : 0, count = place[5];

	if (passed >= r->c) {
		__u64 packets = count & ~HISTORY_EXCEEDED;

		if (passed > HISTORY_PASSED_MAX)
			passed = HISTORY_PASSED_MAX;
		count = packets > passed * r->a / r->c ? HISTORY_EXCEEDED : 0;
		place[6] = now_ms;
	}
	place[5] = ++count;
	return count <= r->b;
}

__noinline int history_hash_limit(__u32 slot, __u32 offset, const struct weir_packet *p,
				  __u64 now_ms)
{
	const struct history_record *r = history_record_at(slot, offset);
	__u8 *memory = weir_history(slot);
	struct weir_control *c = weir_get_control();
	__u64 key[5] = {}, missing, per_ms, cost, full, waited;
	__u32 bucket, free = ~0U, mine = ~0U, at;
	bool above, over = false, enough;
	volatile __u64 *place;

	if (!p || !r || !memory || !c)
		return 0;
	above = r->flags & HISTORY_ABOVE;
	if (r->flags & HISTORY_SRC)
		history_masked(p->src, p->family == 6, r->prefixes[0], key);
	if (r->flags & HISTORY_DST)
		history_masked(p->dst, p->family == 6, r->prefixes[1], key + 2);
	key[4] = HISTORY_USED;
	if (p->transport >= WEIR_TRANSPORT_TCP && p->transport <= WEIR_TRANSPORT_SCTP)
		key[4] |= p->src_port | (__u64)p->dst_port << 16;
	/* Where ports would be, these have the halves of the SPI. */
	if (p->transport == WEIR_TRANSPORT_SPI)
		key[4] |= p->sequence >> 16 | (__u64)(p->sequence & 0xffff) << 16;
	if (!(r->flags & HISTORY_SRC_PORT))
		key[4] &= ~0xffffULL;
	if (!(r->flags & HISTORY_DST_PORT))
		key[4] &= ~0xffff0000ULL;
	if (p->family == 6)
		key[4] |= HISTORY_V6;
	bucket = history_bucket(r, key, HISTORY_HASH_BUCKET, c->zero);
	if (!history_lock(memory, bucket))
		return above;
	for (__u32 i = 0; i < HISTORY_HASH_BUCKET; i++) {
		bool ended;
		__u64 tag;

		place = history_word(memory, bucket + i * 64);
		tag = place[4] & ~HISTORY_LOCK;
		ended = place[7] <= now_ms;
		if (!((place[0] ^ key[0]) | (place[1] ^ key[1]) | (place[2] ^ key[2]) |
		      (place[3] ^ key[3]) | (tag ^ key[4]))) {
			mine = bucket + i * 64;
			over = ended;
		} else if ((!tag || ended) && free == ~0U) {
			free = bucket + i * 64;
		}
	}
	at = mine != ~0U ? mine : free;
	if (at == ~0U) {
		history_unlock(memory, bucket);
		return above;
	}
	place = history_word(memory, at);
	if (mine == ~0U || over) {
		place[0] = key[0];
		place[1] = key[1];
		place[2] = key[2];
		place[3] = key[3];
		place[4] = key[4] | (place[4] & HISTORY_LOCK);
		place[5] = 0;
		place[6] = now_ms;
	}
	if (r->flags & HISTORY_SAMPLED) {
		enough = history_sample(place, r, now_ms);
		place[7] = now_ms + r->span;
		history_unlock(memory, bucket);
		return enough != above;
	}
	if (r->flags & HISTORY_BYTES) {
		per_ms = r->a;
		cost = (__u64)p->length * 1000;
		full = r->b * 1000;
	} else {
		per_ms = 1000;
		cost = r->a;
		full = r->a * r->b;
	}
	missing = place[5];
	waited = now_ms > place[6] ? now_ms - place[6] : 0;
	if (per_ms)
		missing = waited > missing / per_ms ? 0 : missing - waited * per_ms;
	enough = (full > missing ? full - missing : 0) >= cost;
	place[5] = missing + (enough ? cost : 0);
	place[6] = now_ms;
	place[7] = now_ms + r->span;
	history_unlock(memory, bucket);
	return enough != above;
}

/* Finds an address among the places of a bucket; *oldest is where a new one would go. */
static __always_inline __u32 history_find(__u8 *memory, const struct history_record *r,
					  __u32 bucket, const __u64 *key, __u64 ignore,
					  __u32 *oldest)
{
	__u32 mine = ~0U;
	__u64 least = ~0ULL;

	*oldest = bucket;
	for (__u32 i = 0; i < HISTORY_LIST_BUCKET; i++) {
		__u32 at = bucket + i * r->stride;
		volatile __u64 *place = history_word(memory, at);
		__u64 tag = place[4] & ~(HISTORY_LOCK | ignore);

		if (tag == (key[4] | HISTORY_USED) && place[0] == key[0] && place[1] == key[1])
			mine = at;
		if (place[7] < least) {
			least = place[7];
			*oldest = at;
		}
	}
	return mine;
}

/* Notes a time at a place. */
static __always_inline void history_stamp(__u8 *memory, const struct history_record *r, __u32 at,
					  const __u64 *key, __u64 ttl, __u64 now_ms)
{
	volatile __u64 *place = history_word(memory, at);
	__u64 tag = place[4], next;

	if (!(tag & HISTORY_USED) || place[0] != key[0] || place[1] != key[1] ||
	    (tag ^ key[4]) & HISTORY_V6) {
		place[5] = 0;
		place[6] = 0;
	}
	place[0] = key[0];
	place[1] = key[1];
	place[4] = HISTORY_USED | key[4] | ttl | (tag & HISTORY_LOCK);
	next = place[6] & (r->room - 1) & (HISTORY_HITS_MAX - 1);
	place[8 + next] = now_ms;
	place[6] = next + 1;
	if (place[5] < next + 1)
		place[5] = next + 1;
	place[7] = now_ms + 1;	/* never 0, which a free place has */
}

static __always_inline void history_clear(__u8 *memory, __u32 at)
{
	volatile __u64 *place = history_word(memory, at);

	place[4] &= HISTORY_LOCK;
	place[5] = 0;
	place[6] = 0;
	place[7] = 0;
}

__noinline int history_recent(__u32 slot, __u32 offset, const struct weir_packet *p, __u64 now_ms)
{
	const struct history_record *r = history_record_at(slot, offset);
	__u8 *memory = weir_history(slot);
	__u32 bucket, mine, oldest, flags;
	struct weir_control *c = weir_get_control();
	__u64 key[5] = {}, ttl, hits = 0, span;
	bool found = false, holds, locked;

	if (!p || !r || !memory || !c)
		return 0;
	flags = r->flags;
	span = r->a ? r->a : 1ULL << 62;
	key[0] = (flags & HISTORY_DESTINATION ? p->dst[0] : p->src[0]) & r->c;
	key[1] = (flags & HISTORY_DESTINATION ? p->dst[1] : p->src[1]) & r->d;
	key[4] = p->family == 6 ? HISTORY_V6 : 0;
	ttl = (__u8)(p->ttl + (p->hook == WEIR_HOOK_FORWARD));
	bucket = history_bucket(r, key, HISTORY_LIST_BUCKET, c->zero);
	locked = history_lock(memory, bucket);
	mine = history_find(memory, r, bucket, key, 0xff, &oldest);
	if (mine != ~0U) {
		volatile __u64 *place = history_word(memory, mine);
		__u64 seen = place[4] & 0xff, count = place[5];

		found = !(flags & HISTORY_TTL) || seen == ttl || !ttl || !seen;
		if (count > r->room)
			count = r->room;
		if (!found)
			count = 0;
		/* One way through the loop: see flow_mask_of. */
		for (__u32 i = 0; i < HISTORY_HITS_MAX; i++) {
			if (i >= count)
				break;
			hits += 1 - flow_less(span, now_ms - place[8 + i]);
		}
	}
	if (found && !(flags & (HISTORY_SET | HISTORY_REMOVE)) && flags & HISTORY_REAP && r->a &&
	    !hits)
		history_clear(memory, mine);
	if (flags & HISTORY_SET)
		holds = true;
	else if (flags & HISTORY_REMOVE)
		holds = found;
	else
		holds = found && hits >= r->b;
	if (flags & HISTORY_REMOVE) {
		if (found)
			history_clear(memory, mine);
	} else if (flags & HISTORY_SET ||
		   (flags & HISTORY_UPDATE && found && holds != !!(flags & HISTORY_NEGATED))) {
		history_stamp(memory, r, mine != ~0U ? mine : oldest, key, ttl, now_ms);
	}
	if (locked)
		history_unlock(memory, bucket);
	return holds;
}

/* Whether the flow of that name counts as a connection. */
__noinline int history_counts(__u64 pair, __u64 rest, __u64 now_ms)
{
	struct flow_ref ref = { .pair = pair, .ports = rest, .meta = rest >> 32 };
	__u8 *table = weir_flows();
	struct flow_place place;
	struct flow_entry *e;
	__u32 state;

	if (!table)
		return 0;
	/* Not flow_seek: calls are too deep here. */
	flow_place_of(ref.pair, ref.ports, ref.meta, &place);
	e = flow_entry_at(table, flow_find(table, &ref, &place));
	if (!e || !flow_lives(e, now_ms))
		return 0;
	state = e->control & FLOW_STATE;
	return (e->meta & 0xff) != IPPROTO_TCP ||
	       (state != TCP_STATE_TIME_WAIT && state != TCP_STATE_CLOSE);
}

__noinline int history_connections(__u32 slot, __u32 offset, const struct weir_packet *p,
				   const struct flow_ref *ref, __u64 now_ms)
{
	const struct history_record *r = history_record_at(slot, offset);
	__u8 *memory = weir_history(slot);
	struct weir_control *c = weir_get_control();
	__u64 key[5] = {}, own_pair = 0, own_rest = ~0ULL, count, live;
	__u32 bucket, mine, oldest, at;
	volatile __u64 *place, *member;
	__u32 above, has_flow, fresh;

	if (!p || !ref || !r || !memory || !c)
		return 0;
	live = c->zero & 2047;
	above = (r->flags & HISTORY_ABOVE ? 1 : 0) ^ c->zero;
	history_masked(r->flags & HISTORY_DESTINATION ? p->dst : p->src, p->family == 6,
		       r->prefixes[0], key);
	key[4] = p->family == 6 ? HISTORY_V6 : 0;
	has_flow = (ref->found != FLOW_FOUND_NONE) ^ c->zero;
	if (has_flow) {
		own_pair = ref->pair;
		own_rest = ref->ports | (__u64)ref->meta << 32;
	}
	bucket = history_bucket(r, key, HISTORY_LIST_BUCKET, c->zero);
	if (!history_lock(memory, bucket))
		return above;
	mine = history_find(memory, r, bucket, key, 0, &oldest);
	fresh = (mine == ~0U) ^ c->zero;
	at = (mine != ~0U ? mine : oldest) ^ c->zero;
	bucket ^= c->zero;
	own_pair ^= c->zero;
	own_rest ^= c->zero;
	place = history_word(memory, at);
	count = place[5];
	if (count > r->room)
		count = r->room;
	count ^= c->zero;
	/* Members that still count, without the packet's own, move to the front. */
	for (__u32 i = 0; i < HISTORY_MEMBERS_MAX; i++) {
		__u64 pair, rest, other;

		if (i >= count)
			break;
		member = history_word(memory, at + 64 + 16 * i);
		pair = member[0];
		rest = member[1];
		other = (pair ^ own_pair) | (rest ^ own_rest);
		other = 1 - flow_is_zero((other >> 1) | (other & 1));
		member = history_word(memory, at + 64 + 16 * live);
		member[0] = pair;
		member[1] = rest;
		live = (live + (other & history_counts(pair, rest, now_ms))) & 2047;
	}
	place[5] = live;
	if (fresh) {
		if (live) {
			history_unlock(memory, bucket);
			return above;
		}
		place[0] = key[0];
		place[1] = key[1];
		place[4] = HISTORY_USED | key[4] | (place[4] & HISTORY_LOCK);
	}
	place[7] = now_ms + 1;
	if (has_flow) {
		if (live < r->room) {
			member = history_word(memory, at + 64 + 16 * live);
			member[0] = own_pair;
			member[1] = own_rest;
			place[5] = live + 1;
		}
	}
	history_unlock(memory, bucket);
	return (live + 1 > r->a) == above;
}

#define HISTORY_SECOND_COUNT ((1ULL << 20) - 1)

/* Packets of a second: since when in milliseconds, and 20 bits of a count. */
__noinline int history_per_second(__u32 slot, __u32 offset, __u64 now_ms)
{
	const struct history_record *r = history_record_at(slot, offset);
	__u8 *memory = weir_history(slot);
	volatile __u64 *word;

	if (!r || !memory)
		return 0;
	word = history_word(memory, r->memory);
	for (int i = 0; i < HISTORY_SWAP_TRIES; i++) {
		__u64 old = *word, since = old >> 20, count = old & HISTORY_SECOND_COUNT;

		if (!count || (now_ms > since && now_ms - since >= 1000)) {
			since = now_ms;
			count = 0;
		}
		if (count < HISTORY_SECOND_COUNT)
			count++;
		if (__sync_val_compare_and_swap((__u64 *)word, old, since << 20 | count) == old)
			return count <= r->a;
	}
	return 0;
}

/* Samples and quotas. */
__noinline int history_count(__u32 slot, __u32 offset, __u64 length)
{
	const struct history_record *r = history_record_at(slot, offset);
	__u8 *memory = weir_history(slot);
	volatile __u64 *word;
	__u64 count, x;

	if (!r || !memory)
		return 0;
	word = history_word(memory, r->memory);
	if (r->kind == HISTORY_QUOTA) {
		for (int i = 0; i < HISTORY_SWAP_TRIES; i++) {
			__u64 used = *word, left = r->a - used, take = length < left ? length : left;

			if (__sync_val_compare_and_swap((__u64 *)word, used, used + take) == used)
				return length <= left;
		}
		return 0;
	}
	count = __sync_fetch_and_add((__u64 *)word, 1);
	if (r->kind == HISTORY_NTH)
		return r->a && count % r->a == r->b;
	x = r->b + (count + 1) * 0x9e3779b97f4a7c15ULL;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return (x ^ x >> 31) >> 33 < r->a;
}

#define HISTORY_DAY 86400

/* Whether a wall-clock time is in a window. */
__noinline int history_time(__u32 slot, __u32 offset, __u64 now_ms)
{
	const struct history_record *r = history_record_at(slot, offset);
	__u64 second, day, of_day, start, stop, shifted, of_era, year, of_year, month, month_day;
	struct weir_control *c = weir_get_control();

	if (!r || !c)
		return 0;
	now_ms += (__u64)c->settings[WEIR_SETTING_WALL_OFFSET + 1] << 32 |
		  c->settings[WEIR_SETTING_WALL_OFFSET];
	second = now_ms / 1000 + (__s64)(__s32)r->span;
	if ((__s64)second < 0)
		second = 0;
	if (second < r->a || second > r->b)
		return 0;
	day = second / HISTORY_DAY;
	of_day = second % HISTORY_DAY;
	start = (__u32)r->c;
	stop = (__u32)r->d;
	if (start < stop) {
		if (of_day < start || of_day > stop)
			return 0;
	} else {
		if (of_day < start && of_day > stop)
			return 0;
		if (r->flags & HISTORY_CONTIGUOUS && of_day <= stop)
			day = day ? day - 1 : 0;
	}
	shifted = day + 719468;
	of_era = shifted % 146097;
	year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	of_year = of_era - (365 * year + year / 4 - year / 100);
	month = (5 * of_year + 2) / 153;
	month_day = of_year - (153 * month + 2) / 5 + 1;
	return (r->d >> 32 >> ((day + 3) % 7 + 1) & 1) && (r->c >> 32 >> month_day & 1);
}

/*
 * Tests, and so touches, a history; the answer is before negation. `offset`: of its record in the
 * image of this slot. Part of its caller: calls may be only eight deep, and counting connections
 * is the deepest.
 */
static __always_inline int history_test(__u32 slot, __u32 offset, const struct weir_packet *p,
					const struct flow_ref *ref, __u64 now_ms)
{
	const struct history_record *r = history_record_at(slot, offset);

	if (!r || !p || !ref)
		return 0;
	if (weir_may(WEIR_FEATURE_METER) && r->kind == HISTORY_METER)
		return meter_take(slot, offset, p, now_ms);
	switch (r->kind) {
	case HISTORY_LIMIT:
		return history_limit(slot, offset, now_ms);
	case HISTORY_HASH_LIMIT:
		return history_hash_limit(slot, offset, p, now_ms);
	case HISTORY_RECENT:
		return history_recent(slot, offset, p, now_ms);
	case HISTORY_CONN_LIMIT:
		return history_connections(slot, offset, p, ref, now_ms);
	case HISTORY_TIME:
		return history_time(slot, offset, now_ms);
	case HISTORY_PER_SECOND:
		return history_per_second(slot, offset, now_ms);
	}
	return history_count(slot, offset, p->length);
}

#endif
