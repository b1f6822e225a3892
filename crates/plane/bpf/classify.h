/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which entries of a root hold for a packet: lookup_step gives the first position from a given one
 * on, lookup_first the first of all. Twin of engine::lookup. No helper is called, see fields.h.
 */
#ifndef WEIR_CLASSIFY_H
#define WEIR_CLASSIFY_H

#include "record.h"

/* Whether chunks may have bounds; maps.h says so where that is known. */
#ifndef WEIR_BOUNDS
#define WEIR_BOUNDS true
#endif

/*
 * Where a lookup stands: at a chunk, whose rows are known once it is entered, and at a word of it.
 * Chunks follow each other in evaluation order, so the cursor only moves on.
 */
struct weir_cursor {
	__u32 root_at;
	__u32 chunk_at;
	__u32 chunk_end;
	__u32 position;		/* looked for from here; found: where */
	__u32 hashed;		/* the tables' next position, when not below that one */
	__u32 head;		/* the vectors' next position, when not below that one */
	__u32 stale;		/* whether the tables have to be asked first: lookup_probe */
	__u32 begun;		/* whether head is known */
	__u32 entered;		/* whether what follows is of the chunk at chunk_at */
	__u32 seek;		/* whether terms before the position have to be left out first */
	__u32 first;		/* terms of the chunk before this one are left out */
	__u32 word_at;
	__u64 word;		/* bits not yet given of that word */
	__u64 summary;		/* words not yet begun */
	__u64 rows[WEIR_ROWS_MAX];	/* whole words: the verifier tells half-written slots apart */
};

/* The AND of all rows at an offset within them. Without port rows those are the third again. */
static __always_inline __u64 rows_and(const __u8 *image, __u64 mask,
				      const __u64 rows[WEIR_ROWS_MAX], __u32 at)
{
	return IMAGE_U64(image, mask, rows[0] + at) & IMAGE_U64(image, mask, rows[1] + at) &
	       IMAGE_U64(image, mask, rows[2] + at) & IMAGE_U64(image, mask, rows[3] + at) &
	       IMAGE_U64(image, mask, rows[4] + at);
}

/* Where a row is; its summary word is ANDed to those of others. */
static __always_inline __u64 row_of(const __u8 *image, __u64 mask, __u32 rows_at, __u32 class,
				    __u32 stride, __u64 *summary)
{
	*summary &= IMAGE_U64(image, mask, rows_at - 8 - class * 8);
	return rows_at + class * stride;
}

/*
 * The classes of a packet in the services of a root: of small fields and of both ports, each of 16
 * bits. Chunks that share them have rows of them too.
 */
#define SMALL_CLASS(classes) ((classes) & 0xffff)
#define SOURCE_CLASS(classes) ((classes) >> 16 & 0xffff)
#define DESTINATION_CLASS(classes) ((classes) >> 32 & 0xffff)

static __always_inline __u64 service_classes(const __u8 *image, __u64 mask,
					     const struct weir_root *root,
					     const struct weir_packet *p)
{
	const struct weir_fold *f = IMAGE_AT(struct weir_fold, image, mask, root->services_at);
	__u64 source = port_class(image, mask, &f->ports[0], p->src_port);
	__u64 destination = port_class(image, mask, &f->ports[1], p->dst_port);
	__u32 small = fold_small(image, mask, f, p);

	return IMAGE_U16(image, mask, f->cells_at + small * 2) | source << 16 | destination << 32;
}

/* The rows of a chunk that both addresses lead to. */
static __always_inline void address_rows(const __u8 *image, __u64 mask, const struct weir_chunk *c,
					 bool v6, const struct weir_packet *p,
					 __u64 rows[WEIR_ROWS_MAX], __u64 *summary)
{
	const struct weir_address_map *a = c->addresses;

	rows[0] = row_of(image, mask, a[0].rows_at, address_class(image, mask, &a[0], v6, p->src),
			 c->stride, summary);
	rows[1] = row_of(image, mask, a[1].rows_at, address_class(image, mask, &a[1], v6, p->dst),
			 c->stride, summary);
}

/* The rows of a chunk for a packet. Returns which words may hold bits by all summaries. */
static __always_inline __u64 chunk_rows(const __u8 *image, __u64 mask, const struct weir_chunk *c,
					bool v6, const struct weir_packet *p,
					__u64 rows[WEIR_ROWS_MAX])
{
	__u32 stride = c->stride;
	__u64 summary = ~0ULL, one;

	address_rows(image, mask, c, v6, p, rows, &summary);
	rows[2] = row_of(image, mask, c->fold.rows_at, fold_class(image, mask, &c->fold, p), stride,
			 &summary);
	rows[3] = rows[4] = rows[2];
	if (c->rows > 3) {
		const struct weir_map *m = c->ports;

		rows[3] = row_of(image, mask, m[0].rows_at,
				 port_class(image, mask, &m[0], p->src_port), stride, &summary);
		rows[4] = row_of(image, mask, m[1].rows_at,
				 port_class(image, mask, &m[1], p->dst_port), stride, &summary);
	}
	/* Rows of one word have none in front. */
	one = below32(c->words, 2);
	return (summary & ~one) | (1 & one);
}

/* The same for a chunk of more than one word that shares the classes of services. */
static __always_inline __u64 shared_rows(const __u8 *image, __u64 mask, const struct weir_chunk *c,
					 bool v6, const struct weir_packet *p, __u64 classes,
					 __u64 rows[WEIR_ROWS_MAX])
{
	const struct weir_map *m = c->ports;
	__u32 stride = c->stride;
	__u64 summary = ~0ULL;

	address_rows(image, mask, c, v6, p, rows, &summary);
	rows[2] = row_of(image, mask, c->fold.rows_at, SMALL_CLASS(classes), stride, &summary);
	rows[3] = row_of(image, mask, m[0].rows_at, SOURCE_CLASS(classes), stride, &summary);
	rows[4] = row_of(image, mask, m[1].rows_at, DESTINATION_CLASS(classes), stride, &summary);
	return summary;
}

/* Look up the rows of the chunk at the cursor. */
static __always_inline void chunk_enter(const __u8 *image, __u64 mask, bool v6,
					const struct weir_packet *p, struct weir_cursor *cursor)
{
	const struct weir_chunk *c = IMAGE_AT(struct weir_chunk, image, mask, cursor->chunk_at);

	cursor->summary = chunk_rows(image, mask, c, v6, p, cursor->rows);
	cursor->word = 0;
	cursor->word_at = 0;
	cursor->first = 0;
	cursor->entered = true;
}

/* Leave out terms of the chunk at the cursor whose entries are before `from`. */
static __always_inline void chunk_seek(const __u8 *image, __u64 mask, struct weir_cursor *cursor,
				       __u32 from)
{
	const struct weir_chunk *c = IMAGE_AT(struct weir_chunk, image, mask, cursor->chunk_at);
	__u32 low = 0, count = c->terms, at = c->positions_at;

	for (int i = 0; i < 13; i++) {
		__u32 half = count >> 1, before;

		if (!count)
			break;
		before = below32(IMAGE_U32(image, mask, at + (low + half) * 4), from);
		low += (half + 1) & before;
		count = half ^ ((half ^ (count - half - 1)) & before);
	}
	cursor->first = low;
	if (cursor->word_at == low / 64)
		cursor->word &= ~0ULL << (low & 63);
	else if (cursor->word_at < low / 64)
		cursor->word = 0;
	cursor->summary &= low / 64 < 64 ? ~0ULL << (low / 64 & 63) : 0;
	cursor->seek = false;
}

static __always_inline __u64 table_hash(bool v6, const __u64 src[2], const __u64 dst[2], __u64 ports)
{
	__u64 hash = src[1] * 0x9e3779b97f4a7c15ULL + dst[1] * 0xbf58476d1ce4e5b9ULL +
		     ports * 0x94d049bb133111ebULL;

	if (v6)
		hash += src[0] * 0xd6e8feb86659fd93ULL + dst[0] * 0xa0761d6478bd642fULL;
	hash ^= hash >> 29;
	return hash * 0xe7037ed1a0b428dbULL;
}

/* Where the rows are whose AND says which services hold: by small fields, by ports. */
struct weir_services {
	__u64 ports;		/* of the source port, and << 32 of the destination port */
	__u32 small;
};

static __always_inline struct weir_services service_rows(const struct weir_fold *f,
							 __u64 classes)
{
	__u32 stride = f->stride;
	__u64 source = f->ports[0].rows_at + (__u32)SOURCE_CLASS(classes) * stride;
	__u64 destination = f->ports[1].rows_at + (__u32)DESTINATION_CLASS(classes) * stride;

	return (struct weir_services){ destination << 32 | source,
				       f->rows_at + (__u32)SMALL_CLASS(classes) * stride };
}

/* The sign bit is set when the service's bit is not set in all rows of services. */
static __always_inline __s64 not_served(const __u8 *image, __u64 mask, struct weir_services s,
					__u32 service)
{
	__u32 at = (service >> 6) * 8;
	__u64 word = IMAGE_U64(image, mask, s.small + at) &
		     IMAGE_U64(image, mask, (__u32)s.ports + at) &
		     IMAGE_U64(image, mask, (s.ports >> 32) + at);

	return (__s64)(word >> (service & 63) & 1) - 1;
}

#define WEIR_WORDS_A_STEP 8

/* Let the head be the vectors' next position from `from` on. False: not there yet, call again. */
static __always_inline bool chunk_next(const __u8 *image, __u64 mask, bool v6,
				       const struct weir_packet *p, struct weir_cursor *cursor,
				       __u32 from)
{
	const struct weir_chunk *c = IMAGE_AT(struct weir_chunk, image, mask, cursor->chunk_at);
	__u32 positions_at = c->positions_at, bounds_at = c->bounds_at;

	if (!cursor->entered)
		chunk_enter(image, mask, v6, p, cursor);
	if (cursor->seek)
		chunk_seek(image, mask, cursor, from);
	for (int i = 0; i < WEIR_WORDS_A_STEP; i++) {
		__u64 word = cursor->word, summary = cursor->summary;
		__u32 position, term;

		if (!word) {
			__u32 at;

			if (!summary) {
				cursor->chunk_at += sizeof(struct weir_chunk);
				cursor->entered = false;
				return false;
			}
			at = lowest_bit(summary);
			cursor->summary = summary & (summary - 1);
			word = rows_and(image, mask, cursor->rows, at * 8);
			if (at == cursor->first / 64)
				word &= ~0ULL << (cursor->first & 63);
			cursor->word = word;
			cursor->word_at = at;
		}
		if (!word)
			continue;
		cursor->word = word & (word - 1);
		term = cursor->word_at * 64 + lowest_bit(word);
		if (WEIR_BOUNDS && bounds_at &&
		    out_of_bounds(image, mask, bounds_at, v6, p, term))
			continue;
		position = IMAGE_U32(image, mask, positions_at + term * 4);
		if (position < from) {
			cursor->seek = true;
			return false;
		}
		cursor->head = position;
		cursor->begun = true;
		return true;
	}
	return false;
}

/* Of a service's number divided by eight, where its word is in a row: below 4,096 services. */
#define SERVICE_WORD 0x1f8

/*
 * The first position from `from` on in a group of prefixes of IPv4 addresses. Large sets have hardly
 * any other, so places are worked out once for all records: behind the largest offset an image has
 * room for a group and for rows of services.
 */
static __always_inline __u32 prefixes4_next(const __u8 *image, __u64 mask, __u32 at, __u32 records,
					    const struct weir_packet *p,
					    struct weir_services services, __u32 from)
{
	const struct weir_prefixes4 *r = IMAGE_AT(struct weir_prefixes4, image, mask, at);
	const __u8 *small = IMAGE_AT(__u8, image, mask, services.small);
	const __u8 *source = IMAGE_AT(__u8, image, mask, (__u32)services.ports);
	const __u8 *destination = IMAGE_AT(__u8, image, mask, services.ports >> 32);

#pragma clang loop unroll(disable)
	for (int i = 0; i < WEIR_GROUP_MAX; i++) {
		__u32 position, service, place;
		__u64 misses, word;

		if (i >= records)
			break;
		service = r->service;
		place = service >> 3 & SERVICE_WORD;
		word = *(const __u64 *)(small + place) & *(const __u64 *)(source + place) &
		       *(const __u64 *)(destination + place);
		misses = (__u64)((__u32)p->src[1] ^ r->src) >> (r->shifts[0] & 63) |
			 (__u64)((__u32)p->dst[1] ^ r->dst) >> (r->shifts[1] & 63) |
			 (~(word >> (service & 63)) & 1);
		position = r->position;
		r++;
		/* The number too, in a register: else verifiers before 6.9 see no end of the loop. */
		asm volatile("" : "+r"(misses), "+r"(i));
		if (!misses && position >= from)
			return position;
	}
	return WEIR_NONE;
}

/*
 * The same for records of other sizes, which say their kind. Inlined once for each: else the
 * verifier would ask anew at every record what kind it is.
 */
static __always_inline __u32 group_next(const __u8 *image, __u64 mask, __u32 at, __u32 records,
					__u32 size, const struct weir_packet *p,
					struct weir_services services, __u32 from)
{
	for (int i = 0; i < WEIR_GROUP_MAX; i++) {
		__u32 position, service;
		__s64 misses;

		if (i >= records)
			break;
		if (size == sizeof(struct weir_record4)) {
			const struct weir_record4 *r =
				IMAGE_AT(struct weir_record4, image, mask, at);

			misses = record4_misses(r, p);
			position = r->position;
			service = r->service;
		} else {
			const struct weir_record6 *r =
				IMAGE_AT(struct weir_record6, image, mask, at);

			misses = record6_misses(r, p);
			position = r->position;
			service = r->service;
		}
		misses |= not_served(image, mask, services, service);
		at += size;
		/* The number too, in a register: else verifiers before 6.9 see no end of the loop. */
		asm volatile("" : "+r"(misses), "+r"(i));
		if (misses >= 0 && position >= from)
			return position;
	}
	return WEIR_NONE;
}

/*
 * The first position from `from` on in one hashed table. Groups are sorted by position; those that
 * stand behind `best` are left out.
 */
static __always_inline __u32 table_next(const __u8 *image, __u64 mask, __u32 table_at, bool v6,
					const struct weir_packet *p,
					struct weir_services services, __u32 from, __u32 best)
{
	const struct weir_hash_table *t = IMAGE_AT(struct weir_hash_table, image, mask, table_at);
	const __u64 src[2] = { v6 ? p->src[0] & t->masks[0] : 0, p->src[1] & t->masks[1] };
	const __u64 dst[2] = { v6 ? p->dst[0] & t->masks[2] : 0, p->dst[1] & t->masks[3] };
	__u64 ports = ((__u64)p->proto << 32 | (__u32)p->src_port << 16 | p->dst_port) & t->ports;
	__u32 size = t->record, shift = t->shift, slot, at, live;
	__u64 hash = table_hash(v6, src, dst, ports);

	/* A slot's number, and behind it which bit of its filter is meant. */
	at = hash >> ((shift - 2) & 63);
	if (t->filters_at) {
		live = IMAGE_U32(image, mask, t->filters_at + (at >> 5) * 4);
		if (!(live >> (at & 31) & 1))
			return WEIR_NONE;
	}
	slot = IMAGE_U32(image, mask, t->slots_at + (at >> 2) * 4);
	/*
	 * Most slots that are not empty hold records of other keys, which the filter tells for the
	 * most part, or of entries behind what was found.
	 */
	live = slot >> (28 + (at & 3)) & 1;
	live &= below32((slot >> 26 & 3) * t->step, best);
	if (!live)
		return WEIR_NONE;
	at = t->groups_at + (slot << 1 & WEIR_SLOT_OFFSET);
	slot = (slot & 7) + 1;
	if (v6)
		return group_next(image, mask, at, slot, sizeof(struct weir_record6), p, services, from);
	if (size == sizeof(struct weir_prefixes4))
		return prefixes4_next(image, mask, at, slot, p, services, from);
	return group_next(image, mask, at, slot, sizeof(struct weir_record4), p, services, from);
}

/* The first position from `from` on in all hashed tables of a root. */
static __always_inline __u32 tables_next(const __u8 *image, __u64 mask,
					 const struct weir_root *root, bool v6,
					 const struct weir_packet *p, __u32 from)
{
	const struct weir_fold *fold =
		IMAGE_AT(struct weir_fold, image, mask, root->services_at);
	struct weir_services services =
		service_rows(fold, service_classes(image, mask, root, p));
	__u32 tables = root->tables, table_at = root->tables_at, best = WEIR_NONE;

	for (int i = 0; i < WEIR_TABLES_MAX; i++) {
		__u32 position;

		if (i >= tables)
			break;
		position = table_next(image, mask, table_at, v6, p, services, from, best);
		best = position < best ? position : best;
		table_at += sizeof(struct weir_hash_table);
	}
	return best;
}

/*
 * The first position from `from` on in the hashed tables of a root: tables_next, told
 * so that the verifier follows what comes next once. `zero`: see struct weir_bytes.
 */
static __always_inline __u32 probe_tables(const __u8 *image, __u64 mask,
					 const struct weir_root *root, bool v6,
					 const struct weir_packet *p, __u64 classes, __u32 from,
					 __u32 zero)
{
	const struct weir_fold *fold = IMAGE_AT(struct weir_fold, image, mask, root->services_at);
	struct weir_services services = service_rows(fold, classes);
	__u32 tables = root->tables, table_at = root->tables_at, best = WEIR_NONE ^ zero;

	for (int i = 0; i < WEIR_TABLES_MAX; i++) {
		__u32 position, below;

		if (i >= tables)
			break;
		position = table_next(image, mask, table_at, v6, p, services, from, best) ^ zero;
		below = below32(position, best);
		best ^= (best ^ position) & below;
		table_at += sizeof(struct weir_hash_table);
	}
	return best;
}

/*
 * The chunks that a packet can meet: all of the root, or those of its leaf of the split tree.
 * Which way the tree goes is computed, not branched on: the verifier would follow all of them.
 * `v6`: known to be IPv6, whose splits are of ports and protocol; then no room on the stack is
 * taken.
 */
static __always_inline struct weir_leaf leaf_of(const __u8 *image, __u64 mask,
						const struct weir_root *root, bool v6,
						const struct weir_packet *p)
{
	struct weir_leaf leaf = { .chunks_at = root->chunks_at, .chunks = root->chunks };
	const __u32 fields[8] = { p->src[1], p->dst[1], p->src_port, p->dst_port, p->proto };
	__u32 splits = root->splits, next = 0;
	const struct weir_leaf *own;

	if (!splits)
		return leaf;
	OPAQUE(next);
	for (int i = 0; i < WEIR_SPLITS_MAX; i++) {
		const struct weir_split *node;
		__u32 value, below, leads, done, source, proto;

		if (i >= splits)
			break;
		done = -(next >> 31);
		node = IMAGE_AT(struct weir_split, image, mask,
				root->splits_at + (next & ~done) * sizeof(*node));
		if (v6) {
			source = below32(node->dim, WEIR_DIM_DST_PORT);
			proto = ~below32(node->dim, WEIR_DIM_PROTO);
			value = (p->src_port & source) | (p->proto & proto) |
				(p->dst_port & ~(source | proto));
		} else {
			value = fields[node->dim & 7];
		}
		below = below32(value, node->bound);
		leads = node->next[1] ^ ((node->next[0] ^ node->next[1]) & below);
		next = leads ^ ((leads ^ next) & done);
	}
	own = IMAGE_AT(struct weir_leaf, image, mask,
		       root->leaves_at + (next & ~WEIR_LEAF) * sizeof(*own));
	leaf.chunks_at = own->chunks_at;
	leaf.chunks = own->chunks;
	return leaf;
}

static __always_inline void lookup_begin(const __u8 *image, __u64 mask, __u32 root_at,
					 const struct weir_packet *p, struct weir_cursor *cursor)
{
	const struct weir_root *root = IMAGE_AT(struct weir_root, image, mask, root_at);
	struct weir_leaf leaf = leaf_of(image, mask, root, false, p);

	cursor->root_at = root_at;
	cursor->chunk_at = leaf.chunks_at;
	cursor->chunk_end = leaf.chunks_at + leaf.chunks * sizeof(struct weir_chunk);
	cursor->position = 0;
	cursor->hashed = WEIR_NONE;
	cursor->stale = root->tables != 0;
	cursor->head = 0;
	cursor->begun = false;
	cursor->entered = false;
	cursor->seek = false;
}

/* Look on from a later position. */
static __always_inline void cursor_move(struct weir_cursor *cursor, __u32 to)
{
	/* What is left out would else be met term by term. */
	cursor->seek |= to > cursor->position + 1;
	cursor->position = to;
	cursor->stale = cursor->hashed < to;
}

/* Ask the hashed tables for the first position from the cursor's on. */
static __always_inline void lookup_probe(const __u8 *image, __u64 mask, const struct weir_packet *p,
					 struct weir_cursor *cursor)
{
	const struct weir_root *root = IMAGE_AT(struct weir_root, image, mask, cursor->root_at);

	cursor->hashed =
		tables_next(image, mask, root, root->family == 6, p, cursor->position);
	cursor->stale = false;
}

/*
 * Look for the next entry that holds, in a few words of one chunk. Returns true when
 * cursor->position is it; the last entry of a root, the chain policy, holds for every packet. False:
 * call again, after lookup_probe when cursor->stale (the two are apart because the verifier
 * multiplies what follows each other). `v6`: of the root. WEIR_LOOKUPS_MAX bounds the calls of one packet.
 */
static __always_inline bool lookup_step(const __u8 *image, __u64 mask, bool v6,
					const struct weir_packet *p, struct weir_cursor *cursor)
{
	const struct weir_root *root = IMAGE_AT(struct weir_root, image, mask, cursor->root_at);
	__u32 last = root->entries - 1, from = cursor->position, hashed = cursor->hashed;
	__u32 position = WEIR_NONE;

	if (hashed < from) {
		cursor->stale = true;
		return false;
	}
	if (cursor->begun && cursor->head >= from) {
		position = cursor->head;
	} else if (cursor->chunk_at < cursor->chunk_end) {
		if (!chunk_next(image, mask, v6, p, cursor, from))
			return false;
		position = cursor->head;
	}
	position = hashed < position ? hashed : position;
	cursor->position = position < last ? position : last;
	return true;
}

#endif
