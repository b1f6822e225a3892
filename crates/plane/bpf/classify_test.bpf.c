/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Test only: a lookup under BPF_PROG_TEST_RUN. The "frame" is a struct request; the answer is
 * written into it. Tests compare it with engine::lookup, and measure it.
 */
#include "kernel.h"
#include "classify.h"

SEC(".rodata.weir") const volatile __u32 image_mask = 0xffff;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 0x10000 + WEIR_SLACK);
} images SEC(".maps");

struct request {
	__u32 root_at;
	__u32 from;
	__u32 position;		/* answer */
	__u32 reserved;
	struct weir_packet packet;
};

struct lookup {
	struct weir_packet packet;
	struct weir_cursor cursor;
};

__noinline int lookup_once(struct lookup *l)
{
	__u32 zero = 0;
	const __u8 *image = bpf_map_lookup_elem(&images, &zero);

	if (!l || !image)
		return 1;
	return lookup_step(image, image_mask, l->packet.family == 6, &l->packet, &l->cursor);
}

__noinline int probe_once(struct lookup *l)
{
	__u32 zero = 0;
	const __u8 *image = bpf_map_lookup_elem(&images, &zero);

	if (!l || !image)
		return 1;
	lookup_probe(image, image_mask, &l->packet, &l->cursor);
	return 0;
}

SEC("xdp")
int classify_next(struct xdp_md *ctx)
{
	struct request *request = (void *)(long)ctx->data;
	struct lookup l;
	__u32 zero = 0;
	const __u8 *image;

	if ((void *)(request + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	image = bpf_map_lookup_elem(&images, &zero);
	if (!image)
		return XDP_ABORTED;
	l.packet = request->packet;
	lookup_begin(image, image_mask, request->root_at, &l.packet, &l.cursor);
	l.cursor.position = request->from;
	l.cursor.seek = true;
	for (int i = 0; i <= 9 * WEIR_CHUNKS_MAX; i++) {
		if (l.cursor.stale)
			probe_once(&l);
		if (lookup_once(&l))
			break;
	}
	request->position = l.cursor.position;
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
