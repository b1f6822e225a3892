// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The live-frame injector: gives every frame the next headers of a trace and passes it up.
 *
 * In:  frames of BPF_PROG_TEST_RUN with BPF_F_TEST_XDP_LIVE_FRAMES, an Ethernet header followed by
 *      room for the largest header of the trace.
 * Out: the same frame with new network and transport headers, handed to the stack (or dropped,
 *      which measures what the injection itself costs).
 * Does not: compute checksums (the trace holds them), look at what it overwrites, or count.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* One trace entry: an IPv4 + TCP header needs 40 bytes, IPv6 + TCP 60, rounded up to words. */
#define HEADER_WORDS 8
#define SHORT_WORDS 5
#define ETHERNET_LENGTH 14

struct header {
	__u64 words[HEADER_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set to the trace's length before loading */
	__type(key, __u32);
	__type(value, struct header);
} trace SEC(".maps");

/* Number of entries in the trace, and whether its headers fit into SHORT_WORDS. */
const volatile __u32 trace_length = 1;
const volatile __u32 short_headers = 0;

/* Written by user space between runs only: the next entry, and what becomes of a frame. */
__u32 position;
__u32 action = XDP_DROP;

/* Packets are unaligned words to the compiler, whatever their address is. */
struct unaligned {
	__u64 word;
} __attribute__((packed));

SEC("xdp")
int inject(struct xdp_md *context)
{
	void *data = (void *)(long)context->data;
	void *end = (void *)(long)context->data_end;
	struct unaligned *out = data + ETHERNET_LENGTH;
	struct header *header;
	__u32 index = position;

	position = index + 1 < trace_length ? index + 1 : 0;
	header = bpf_map_lookup_elem(&trace, &index);
	if (!header)
		return XDP_ABORTED;
	if ((void *)(out + SHORT_WORDS) > end)
		return XDP_ABORTED;
#pragma unroll
	for (int i = 0; i < SHORT_WORDS; i++)
		out[i].word = header->words[i];
	if (short_headers)
		return action;
	if ((void *)(out + HEADER_WORDS) > end)
		return XDP_ABORTED;
#pragma unroll
	for (int i = SHORT_WORDS; i < HEADER_WORDS; i++)
		out[i].word = header->words[i];
	return action;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
