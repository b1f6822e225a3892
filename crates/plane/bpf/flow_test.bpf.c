/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The flow table alone, for tests: packets are given as records, the table is the real one.
 * flow_try runs one packet through lookup and confirmation; flow_bench looks up the packets of
 * `bench` in turn, flow_bench_base does everything but the lookup.
 */
#include "maps.h"
#include "flow.h"
#include "history.h"

struct flow_try {
	struct weir_packet packet;
	struct weir_packet about;
	__u64 now_ms;
	__u32 has_about;
	__u32 confirm;
	__u32 set_mark;
	__u32 mark;
	struct flow_ref ref;	/* results */
	__u32 result_mark;
	__u32 has_mark;
	__u32 tests;		/* histories to test, at most 8: their numbers */
	__u32 number[8];
	__u32 answer[8];
	__u32 pad;
};

/* The packets: two would not fit on the stack beside everything else. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct weir_packet);
} scratch_packets SEC(".maps");

__noinline int try_history(__u32 offset, const struct weir_packet *p, const struct flow_ref *ref,
			   __u64 now_ms)
{
	if (!p || !ref)
		return 0;
	return history_test(0, offset, p, ref, now_ms);
}

SEC("syscall")
int flow_try(struct flow_try *try)
{
	__u32 zero = 0, one = 1, mark = 0;
	struct weir_packet *packet = bpf_map_lookup_elem(&scratch_packets, &zero);
	struct weir_packet *about = bpf_map_lookup_elem(&scratch_packets, &one);
	struct flow_entry copy = {};
	struct flow_ref ref = {};
	__u64 now = try->now_ms;

	if (!packet || !about)
		return 1;
	*packet = try->packet;
	*about = try->about;
	if (try->has_about)
		flow_related(packet, about, now, &ref);
	else
		flow_lookup(packet, now, &ref, &copy);
	try->packet.state = packet->state;
	try->has_mark = flow_mark(&ref, &mark);
	try->result_mark = mark;
	for (__u32 i = 0; i < 8; i++) {
		if (i >= try->tests)
			break;
		try->answer[i] = try_history(try->number[i] * 64, packet, &ref, now);
	}
	if (try->set_mark)
		flow_set_mark(&ref, try->mark);
	try->ref = ref;
	if (try->confirm)
		flow_confirm(packet, &ref, now);
	return 0;
}

#define BENCH_PACKETS (1 << 17)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, BENCH_PACKETS);
	__type(key, __u32);
	__type(value, struct weir_packet);
} bench SEC(".maps");

__u64 bench_next;
__u64 bench_established;
const volatile __u32 bench_mask = BENCH_PACKETS - 1;

static __always_inline int bench_one(bool lookup)
{
	__u32 index = bench_next++ & bench_mask;
	struct weir_packet *record = bpf_map_lookup_elem(&bench, &index);
	struct flow_entry copy = {};
	struct flow_ref ref = {};
	struct weir_packet packet;

	if (!record)
		return 0;
	packet = *record;
	if (lookup)
		flow_lookup(&packet, bpf_jiffies64() * 4, &ref, &copy);
	else
		packet.state = packet.sack + bpf_jiffies64();
	bench_established += packet.state;
	return 0;
}

SEC("tc")
int flow_bench(struct __sk_buff *skb)
{
	return bench_one(true);
}

SEC("tc")
int flow_bench_base(struct __sk_buff *skb)
{
	return bench_one(false);
}

char _license[] SEC("license") = "Dual BSD/GPL";
