/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Meters: whether a packet would have found room in the queue of a link. Twin of
 * engine::history::meter, which says what each word of a place means. Part of history.h.
 */
#ifndef WEIR_METER_H
#define WEIR_METER_H

#define METER_RING 16		/* word at which the ring begins */
#define METER_PROTO_SHIFT 40
#define METER_NS_A_MS 1000000ULL
#define METER_LONGEST_NS (1ULL << 50)
#define METER_BITS_NS 8000000000ULL
#define METER_LENGTH_MAX ((1ULL << 30) - 1)

/* The clock of meters; milliseconds are too coarse where they need not be imitated. */
static __always_inline __u64 meter_now(__u64 now_ms)
{
	return weir_testing ? now_ms * METER_NS_A_MS : bpf_ktime_get_ns();
}

/* The five words of a packet's key. */
static __always_inline void meter_key(const struct history_record *r, const struct weir_packet *p,
				      __u64 *key)
{
	key[4] = HISTORY_USED;
	if (!(r->flags & HISTORY_KEYED))
		return;
	if (p->family == 6) {
		history_masked(p->src, true, r->prefixes[0], key);
		history_masked(p->dst, true, r->prefixes[1], key + 2);
		key[4] |= HISTORY_V6;
	} else {
		key[1] = p->src[1] & (__u32)r->c;
		key[3] = p->dst[1] & r->c >> 32;
	}
	if (p->transport >= WEIR_TRANSPORT_TCP && p->transport <= WEIR_TRANSPORT_SCTP)
		key[4] |= (p->src_port | (__u64)p->dst_port << 16) & r->span;
	key[4] |= (__u64)(p->proto & r->proto) << METER_PROTO_SHIFT;
}

/* The word of a ring for a packet's number. */
static __always_inline volatile __u64 *meter_ring(__u8 *memory, const struct history_record *r,
						  __u32 at, __u64 number)
{
	return history_word(memory, at + 8 * (METER_RING + (number & (r->room - 1))));
}

/* Finds the place of a key, or makes one where a link is idle; ~0 when there is none. */
static __always_inline __u32 meter_place(__u8 *memory, const struct history_record *r,
					 const __u64 *key, __u32 bucket, __u64 now)
{
	__u32 free = ~0U, mine = ~0U;
	volatile __u64 *place;

	for (__u32 i = 0; i < HISTORY_HASH_BUCKET; i++) {
		__u32 at = bucket + i * r->stride;
		__u64 tag;

		place = history_word(memory, at);
		tag = place[4] & ~HISTORY_LOCK;
		if (!((place[0] ^ key[0]) | (place[1] ^ key[1]) | (place[2] ^ key[2]) |
		      (place[3] ^ key[3]) | (tag ^ key[4])))
			mine = at;
		else if ((!tag || place[5] + r->d <= now) && free == ~0U)
			free = at;
	}
	if (mine != ~0U || free == ~0U)
		return mine;
	place = history_word(memory, free);
	place[0] = key[0];
	place[1] = key[1];
	place[2] = key[2];
	place[3] = key[3];
	place[4] = key[4] | (place[4] & HISTORY_LOCK);
	for (int i = 5; i < 10; i++)
		place[i] = 0;
	return free;
}

/* Whether there is room at a place; if so, the link is charged. */
static __always_inline int meter_charge(__u8 *memory, const struct history_record *r, __u32 at,
					__u64 length, __u64 now)
{
	volatile __u64 *place = history_word(memory, at);
	__u64 busy = place[5], count = place[6], rate = r->a, start, cost;
	bool full;

	if (rate) {
		if (r->flags & HISTORY_BYTES)
			full = busy > now && busy - now > r->b;
		else
			full = count >= r->b && *meter_ring(memory, r, at, count - r->b) > now;
		if (full) {
			place[8]++;
			place[9] += length;
			return 0;
		}
		start = now > r->d ? now - r->d : 0;
		if (busy > start)
			start = busy;
		cost = length < METER_LENGTH_MAX ? length : METER_LENGTH_MAX;
		cost = (cost * METER_BITS_NS + rate / 2) / rate;
		*meter_ring(memory, r, at, count) = start;
		place[5] = start + (cost < METER_LONGEST_NS ? cost : METER_LONGEST_NS);
	}
	place[6] = count + 1;
	place[7] += length;
	return 1;
}

__noinline int meter_take(__u32 slot, __u32 offset, const struct weir_packet *p, __u64 now_ms)
{
	const struct history_record *r = history_record_at(slot, offset);
	__u8 *memory = weir_history(slot);
	struct weir_control *c = weir_get_control();
	__u64 key[5] = {}, now;
	__u32 bucket, at;
	int fits = 0;

	if (!p || !r || !memory || !c)
		return 0;
	now = meter_now(now_ms);
	meter_key(r, p, key);
	bucket = history_bucket(r, key, HISTORY_HASH_BUCKET, c->zero);
	if (!history_lock(memory, bucket))
		return 0;
	at = meter_place(memory, r, key, bucket, now);
	if (at != ~0U)
		fits = meter_charge(memory, r, at, p->length, now);
	history_unlock(memory, bucket);
	return fits;
}

#endif
