/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tests of what the kernel knows beside headers (facts.h), of bytes anywhere in the packet, which
 * the hook has made readable, and of what few ask of headers (aside_header.h). Twin of
 * engine::run::aside; see engine::image::aside.
 */
#ifndef WEIR_ASIDE_H
#define WEIR_ASIDE_H

#include "aside_header.h"
#include "facts.h"

enum weir_aside {
	WEIR_ASIDE_SOCKET = 1,
	WEIR_ASIDE_GROUPS = 2,
	WEIR_ASIDE_CLASS = 3,
	WEIR_ASIDE_CONTROL_GROUP = 4,
	WEIR_ASIDE_CPU = 5,
	WEIR_ASIDE_GROUP_IN = 6,
	WEIR_ASIDE_GROUP_OUT = 7,
	WEIR_ASIDE_REALM = 8,
	WEIR_ASIDE_PORT_IN = 9,
	WEIR_ASIDE_PORT_OUT = 10,
	WEIR_ASIDE_WORDS = 11,
	WEIR_ASIDE_TEXT = 12,
	WEIR_ASIDE_HEADER = 13,	/* words of it */
	WEIR_ASIDE_TCP = 14,
	WEIR_ASIDE_IP_OPTIONS = 15,
	WEIR_ASIDE_EXTENSIONS = 16,
	WEIR_ASIDE_NAME_IN = 17,
	WEIR_ASIDE_NAME_OUT = 18,
	/* in the programs for frames alone */
	WEIR_ASIDE_ETHERNET_BARE = 19,
	WEIR_ASIDE_ETHERNET_TYPE = 20,
	WEIR_ASIDE_ETHERNET_MASKED = 21,
	WEIR_ASIDE_ETHERNET_AMONG = 22,
	WEIR_ASIDE_HEADERS = 23,
};

enum weir_word_kind {
	WEIR_WORD_READ = 1,
	WEIR_WORD_AND = 2,
	WEIR_WORD_LEFT = 3,
	WEIR_WORD_RIGHT = 4,
	WEIR_WORD_AT = 5,
	WEIR_WORD_IN = 6,
	WEIR_WORD_IN_LAST = 7,
};
struct weir_word_op {
	__u32 kind;
	__u32 a;
	__u32 b;
	__u32 padding;
};
struct weir_text {
	__u32 from;
	__u32 to;
	__u32 length;
	__u32 classes;
};
struct weir_glob {
	__u16 stars;
	__u16 length;
	__u32 padding;
	__u16 masks[256];
};
#define WEIR_TEXT_ROWS (16 + 256)
#define WEIR_TEXT_BLOCK 64
#define WEIR_TEXT_BLOCKS 1026	/* of the longest packet */

/* One operation on words; false: the test fails. */
struct word_state {
	struct walk *w;
	__u32 at;		/* of the next operation */
	__u32 value;
	__u32 place;
	__u32 held;
	__u32 failed;
};

/* Bytes of the packet that can be read: a frame may have more behind it. */
static __always_inline __u32 aside_bytes(const struct walk *w)
{
	return w->packet.length < w->seen.bytes.have ? w->packet.length : w->seen.bytes.have;
}

static __always_inline bool word_read(struct word_state *s, __u64 at)
{
	if (at + 4 > aside_bytes(s->w))
		return false;
	s->value = bpf_ntohl(BYTES_AT(s->w->seen.bytes.base + at)->in6_u.u6_addr32[0]);
	return true;
}

static __always_inline bool word_step(struct word_state *s, const struct weir_word_op *op)
{
	switch (op->kind) {
	case WEIR_WORD_READ:
		s->place = 0;
		s->held = 0;
		return word_read(s, op->a);
	case WEIR_WORD_AND:
		s->value &= op->a;
		return true;
	case WEIR_WORD_LEFT:
		s->value <<= op->a & 31;
		return true;
	case WEIR_WORD_RIGHT:
		s->value >>= op->a & 31;
		return true;
	case WEIR_WORD_AT:
		if (s->place + s->value < s->place)
			return false;
		s->place += s->value;
		return word_read(s, (__u64)s->place + op->a);
	}
	s->held |= s->value >= op->a && s->value <= op->b;
	return s->held || op->kind == WEIR_WORD_IN;
}

static long word_next(__u32 number, struct word_state *s)
{
	const __u8 *image = weir_image(s->w->slot & 1);

	if (!image || !word_step(s, IMAGE_AT(struct weir_word_op, image, image_mask(), s->at))) {
		s->failed = 1;
		return 1;
	}
	s->at += sizeof(struct weir_word_op);
	return 0;
}

__noinline int test_words(struct walk *w, __u32 at, __u32 count)
{
	struct word_state s = { .w = w, .at = at };

	if (!w)
		return WEIR_FAILS;
	bpf_loop(count, word_next, &s, 0);
	return s.failed ? WEIR_FAILS : WEIR_HOLDS;
}

struct text_state {
	__u64 base;
	__u32 at;		/* of the next byte */
	__u32 end;
	__u32 table_at;
	__u32 length;
	__u32 classes;
	__u32 state;
	__u32 slot;
};

/* A block of bytes through the automaton. */
static long text_next(__u32 number, struct text_state *s)
{
	const __u8 *image = weir_image(s->slot & 1);
	__u32 state = s->state, at = s->at, table_at = s->table_at;
	__u64 mask = image_mask();

	if (!image)
		return 1;
	for (int i = 0; i < WEIR_TEXT_BLOCK; i++) {
		__u32 class;

		if (at >= s->end || state == s->length)
			break;
		class = BYTES_AT(s->base + at)->in6_u.u6_addr8[0];
		class = *IMAGE_AT(__u8, image, mask, table_at + sizeof(struct weir_text) + class);
		state = *IMAGE_AT(__u8, image, mask,
				  table_at + WEIR_TEXT_ROWS + state * s->classes + class);
		at++;
	}
	s->state = state;
	s->at = at;
	return at >= s->end || state == s->length;
}

__noinline int test_text(struct walk *w, __u32 table_at)
{
	const struct weir_text *t;
	struct text_state s = {};
	const __u8 *image;

	if (!w)
		return WEIR_FAILS;
	image = weir_image(w->slot & 1);
	if (!image)
		return WEIR_FAILS;
	t = IMAGE_AT(struct weir_text, image, image_mask(), table_at);
	s.base = w->seen.bytes.base;
	s.at = t->from;
	s.end = t->to;
	if (s.end > aside_bytes(w))
		s.end = aside_bytes(w);
	s.table_at = table_at;
	s.length = t->length;
	s.classes = t->classes;
	s.slot = w->slot;
	bpf_loop(WEIR_TEXT_BLOCKS, text_next, &s, 0);
	return s.state == s.length ? WEIR_HOLDS : WEIR_FAILS;
}

__noinline int test_port(struct walk *w, __u32 name_at, __u32 out)
{
	const __u8 *image;
	const __u64 *wanted;
	__u64 name[2];

	if (!w || !facts_port(&w->seen, out, name))
		return WEIR_FAILS;
	if (!name_at)
		return WEIR_HOLDS;
	image = weir_image(w->slot & 1);
	if (!image)
		return WEIR_FAILS;
	wanted = IMAGE_AT(__u64, image, image_mask(), name_at);
	return (name[0] & wanted[2]) == wanted[0] && (name[1] & wanted[3]) == wanted[1];
}

/* A name through the places of a pattern. */
__noinline int test_name(struct walk *w, __u32 glob_at, __u32 out)
{
	const struct weir_glob *g;
	__u64 name[2], letters;
	__u32 places = 1, stars;
	const __u8 *image;

	if (!w)
		return WEIR_FAILS;
	image = weir_image(w->slot & 1);
	if (!image)
		return WEIR_FAILS;
	meta_name(&w->seen, out, name);
	if (!name[0])
		return WEIR_FAILS;
	g = IMAGE_AT(struct weir_glob, image, image_mask(), glob_at);
	stars = g->stars;
	letters = name[0];
	for (int i = 0; i < 16; i++) {
		__u32 letter = letters & 0xff, matched;

		if (!letter)
			break;
		matched = places & IMAGE_U16(image, image_mask(), glob_at + 8 + letter * 2);
		places = matched << 1 | (places & stars);
		letters = i == 7 ? name[1] : letters >> 8;
	}
	return places >> (g->length & 15) & 1;
}

#ifdef WEIR_FRAMES
/* Whether an address is in one of `count` sorted (first, last) pairs of the image. */
static __always_inline bool mac_among(const __u8 *image, __u64 mask, __u32 at, __u32 count,
				      __u64 address)
{
	__u32 low = 0;

	for (int i = 0; i < 18; i++) {
		__u32 half = count >> 1, pair = at + (low + half) * 16;

		if (!count)
			break;
		if (address < IMAGE_U64(image, mask, pair)) {
			count = half;
		} else if (address > IMAGE_U64(image, mask, pair + 8)) {
			low += half + 1;
			count -= half + 1;
		} else {
			return true;
		}
	}
	return false;
}

__noinline int test_ethernet(struct walk *w, __u32 test_at)
{
	const struct weir_residual *t;
	__u64 mask = image_mask(), address;
	const __u8 *image;

	if (!w)
		return WEIR_ABSENT;
	image = weir_image(w->slot & 1);
	if (!image)
		return WEIR_ABSENT;
	t = IMAGE_AT(struct weir_residual, image, mask, test_at);
	address = t->a ? w->frame.address[1] : w->frame.address[0];
	switch (t->small) {
	case WEIR_ASIDE_ETHERNET_BARE:
		return w->frame.bare;
	case WEIR_ASIDE_ETHERNET_TYPE:
		return in_pairs(image, mask, t->at, t->count, w->frame.kind);
	case WEIR_ASIDE_ETHERNET_MASKED:
		return (address & IMAGE_U64(image, mask, t->at + 8)) ==
		       IMAGE_U64(image, mask, t->at);
	}
	return mac_among(image, mask, t->at, t->count, address);
}
#endif

/* Those that need no more than the packet's kernel structures. */
__noinline int test_fact(struct walk *w, __u32 test_at)
{
	const struct weir_residual *t;
	const __u8 *image;
	__u32 class;
	int found;

	if (!w)
		return WEIR_ABSENT;
	image = weir_image(w->slot & 1);
	if (!image)
		return WEIR_ABSENT;
	t = IMAGE_AT(struct weir_residual, image, image_mask(), test_at);
	switch (t->small) {
	case WEIR_ASIDE_SOCKET:
		return facts_socket(&w->seen);
	case WEIR_ASIDE_GROUPS:
		return facts_groups(&w->seen, t->a, t->b);
	case WEIR_ASIDE_CLASS:
		if (!facts_class(&w->seen, &class))
			return WEIR_ABSENT;
		return class == t->a;
	case WEIR_ASIDE_CONTROL_GROUP:
		found = facts_control_group(&w->seen, t->count, (__u64)t->b << 32 | t->a);
		return found < 0 ? WEIR_ABSENT : found;
	case WEIR_ASIDE_CPU:
		if (weir_testing) {
			const struct weir_facts *f = facts_told();

			return f && f->cpu == t->a;
		}
		return bpf_get_smp_processor_id() == t->a;
	case WEIR_ASIDE_GROUP_IN:
		return (facts_device_group(&w->seen, false) & t->b) == t->a;
	case WEIR_ASIDE_GROUP_OUT:
		return (facts_device_group(&w->seen, true) & t->b) == t->a;
	case WEIR_ASIDE_REALM:
		return (facts_realm(&w->seen) & t->b) == t->a;
	}
	return WEIR_ABSENT;
}

static __always_inline int test_aside(struct walk *w, const struct weir_residual *t, __u32 test_at)
{
	if (t->small == WEIR_ASIDE_HEADERS)
		return test_headers(w, t->a, t->b);
#ifdef WEIR_FRAMES
	if (t->small >= WEIR_ASIDE_ETHERNET_BARE)
		return test_ethernet(w, test_at);
#endif
	switch (t->small) {
	case WEIR_ASIDE_PORT_IN:
		return test_port(w, t->at, 0);
	case WEIR_ASIDE_PORT_OUT:
		return test_port(w, t->at, 1);
	case WEIR_ASIDE_NAME_IN:
		return test_name(w, t->at, 0);
	case WEIR_ASIDE_NAME_OUT:
		return test_name(w, t->at, 1);
	case WEIR_ASIDE_WORDS:
		return weir_may(WEIR_FEATURE_PAYLOAD) ? test_words(w, t->at, t->count) : WEIR_FAILS;
	case WEIR_ASIDE_TEXT:
		return weir_may(WEIR_FEATURE_PAYLOAD) ? test_text(w, t->at) : WEIR_FAILS;
	case WEIR_ASIDE_HEADER:
		return test_words(w, t->at, t->count);
	case WEIR_ASIDE_TCP:
		return test_tcp_number(w, test_at);
	case WEIR_ASIDE_IP_OPTIONS:
		return test_ip_options(w, t->a, t->b);
	case WEIR_ASIDE_EXTENSIONS:
		return test_extensions(w, t->a);
	}
	return test_fact(w, test_at);
}

#endif
