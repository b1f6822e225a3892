/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Benches only: lookups of many headers under BPF_PROG_TEST_RUN. Each run takes the next header,
 * looks up its first position, and writes it down. bench_empty does everything but the lookup, so
 * that the difference of the two is what a lookup costs. No interface is ever given these programs.
 * They are tc programs: each repeated test run of an XDP program waits for two RCU grace periods.
 */
#include "kernel.h"

/* Twin of weir_plane::bench::Bench::load. */
SEC(".rodata.weir") const volatile struct {
	__u32 mask;		/* bytes of the image less one */
	__u32 features;		/* of the image */
} settings = { 0xffff, 0 };

#define WEIR_BOUNDS ((settings.features & WEIR_FEATURE_BOUNDS) != 0)

#include "first.h"

#define image_mask settings.mask

/* A header: what the lookup reads of a packet. Twin of weir_plane::bench::Header. */
struct header {
	__u64 src[2];
	__u64 dst[2];
	__u16 src_port;
	__u16 dst_port;
	__u8 proto;
	__u8 transport;
	__u8 flags;
	__u8 family;
	__u32 root_at;
	__u32 position;		/* answer */
	__u32 reserved[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 0x10000 + WEIR_SLACK);
} images SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct header));
} headers SEC(".maps");

/* Number of the next header. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 8);
} turn SEC(".maps");

struct lookup {
	struct weir_packet packet;
	struct weir_cursor cursor;
};

__noinline int bench_once(struct lookup *l)
{
	__u32 zero = 0;
	const __u8 *image = bpf_map_lookup_elem(&images, &zero);

	if (!l || !image)
		return 1;
	return lookup_step(image, image_mask, l->packet.family == 6, &l->packet, &l->cursor);
}

__noinline int bench_probe(struct lookup *l)
{
	__u32 zero = 0;
	const __u8 *image = bpf_map_lookup_elem(&images, &zero);

	if (!l || !image)
		return 1;
	lookup_probe(image, image_mask, &l->packet, &l->cursor);
	return 0;
}

static __always_inline struct header *next_header(void)
{
	__u32 zero = 0, at;
	__u64 *number = bpf_map_lookup_elem(&turn, &zero);

	if (!number)
		return NULL;
	at = *number;
	*number = at + 1;
	return bpf_map_lookup_elem(&headers, &at);
}

/* What a leaf's only chunk says, where it has bounds. */
__noinline __u32 bench_bounded(struct weir_packet *p)
{
	__u32 zero = 0;
	const __u8 *image = bpf_map_lookup_elem(&images, &zero);
	const struct weir_root *root;

	if (!p || !image)
		return WEIR_UNKNOWN;
	root = IMAGE_AT(struct weir_root, image, image_mask, p->length);
	return p->family == 6 ? leaf_bounded(image, image_mask, root, true, p) :
				leaf_bounded(image, image_mask, root, false, p);
}

/*
 * What the short way of packets asks. The position, and 1 << 32 when it is known that way.
 * `bounded`: see bench_bounded, for which the stack has no room here.
 */
__noinline __u64 bench_first(struct weir_packet *p, __u32 bounded)
{
	__u32 zero = 0;
	const __u8 *image = bpf_map_lookup_elem(&images, &zero);
	const struct weir_root *root;
	struct weir_asked asked;
	struct weir_first f;
	__u64 *hidden = bpf_map_lookup_elem(&turn, &zero);
	bool found;

	if (!p || !image || !hidden)
		return 0;
	root = IMAGE_AT(struct weir_root, image, image_mask, p->length);
	zero = *hidden >> 63;
	asked.classes = lookup_classes(image, image_mask, root, p);
	if (p->family == 6) {
		asked.hashed = tables_first(image, image_mask, root, true, p, asked.classes, zero);
		if (WEIR_BOUNDS)
			asked.hashed = earlier(asked.hashed, bounded);
		found = lookup_first(image, image_mask, root, true, &asked, true, p, &f);
	} else {
		asked.hashed = tables_first(image, image_mask, root, false, p, asked.classes, zero);
		if (WEIR_BOUNDS)
			asked.hashed = earlier(asked.hashed, bounded);
		found = lookup_first(image, image_mask, root, true, &asked, false, p, &f);
	}
	if (!found)
		return 0;
	return f.position | 1ULL << 32;
}

/* The packet of a header, as the parser would leave it. */
__noinline int bench_packet(struct lookup *l)
{
	struct header *h = next_header();

	if (!l || !h)
		return 0;
	__builtin_memset(&l->packet, 0, sizeof(l->packet));
	l->packet.src[0] = h->src[0];
	l->packet.src[1] = h->src[1];
	l->packet.dst[0] = h->dst[0];
	l->packet.dst[1] = h->dst[1];
	l->packet.src_port = h->src_port;
	l->packet.dst_port = h->dst_port;
	l->packet.proto = h->proto;
	l->packet.transport = h->transport;
	l->packet.tcp_flags = h->flags;
	l->packet.family = h->family;
	l->packet.fragment = WEIR_FRAGMENT_WHOLE;
	l->packet.state = WEIR_STATE_NEW;
	/* Where to answer, and where to begin. */
	l->packet.length = h->root_at;
	return 1;
}

static __always_inline void answer(__u32 position)
{
	__u32 zero = 0, at;
	__u64 *number = bpf_map_lookup_elem(&turn, &zero);
	struct header *h;

	if (!number)
		return;
	at = *number - 1;
	h = bpf_map_lookup_elem(&headers, &at);
	if (h)
		h->position = position;
}

SEC("tc")
int bench_lookup(struct __sk_buff *ctx)
{
	struct lookup l = {};
	__u32 zero = 0;
	const __u8 *image;
	__u64 found;

	if (!bench_packet(&l))
		return 1;
	found = bench_first(&l.packet, WEIR_BOUNDS ? bench_bounded(&l.packet) : WEIR_NONE);
	if (found >> 32) {
		answer(found);
		return 0;
	}
	image = bpf_map_lookup_elem(&images, &zero);
	if (!image)
		return 1;
	lookup_begin(image, image_mask, l.packet.length, &l.packet, &l.cursor);
	/* As many as the verifier follows; an answer that needs more is wrong, and counted as such. */
	for (int i = 0; i <= 9 * WEIR_CHUNKS_MAX; i++) {
		if (l.cursor.stale)
			bench_probe(&l);
		if (bench_once(&l))
			break;
	}
	answer(l.cursor.position);
	return 0;
}

SEC("tc")
int bench_empty(struct __sk_buff *ctx)
{
	struct lookup l = {};

	if (!bench_packet(&l))
		return 1;
	answer(l.packet.src_port);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
