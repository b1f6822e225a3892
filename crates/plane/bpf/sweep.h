/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sweep of flows that are over. Insertions sweep a little each, which a host without new
 * conversations has none of; but moments in the table are 32 bits of milliseconds, so a flow that
 * ended 43 days ago and was left lying would live again. A kernel timer looks at the next slots
 * every few seconds. It belongs to the maps: it needs no packet and no process, and ends when the
 * last pin of its map is removed (bpf_timer_init, bpf-helpers(7)).
 */
#ifndef WEIR_SWEEP_H
#define WEIR_SWEEP_H

#include "maps.h"
#include "flow.h"

#define SWEEP_CLOCK 1			/* CLOCK_MONOTONIC: stands still in sleep, as jiffies do */
#define SWEEP_PERIOD 4000000000ULL	/* nanoseconds */
#define SWEEP_SLOTS 1024		/* 64 KiB a period; 262,144 flows in about twenty minutes */

struct weir_sweeper {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_sweeper);
} sweeper SEC(".maps");

/* One slot of a stretch: the callback of bpf_loop. */
static int sweep_slot(__u64 index, __u64 *cursor)
{
	struct weir_control *c = weir_get_control();
	__u8 *table = weir_flows();

	if (!c || !table)
		return 1;
	flow_sweep_slot(table, c, (*cursor + index) % flow_slots(), weir_now(c));
	return 0;
}

/* Looks at the next slots, and sets the clock anew. */
static int sweep_stretch(void *map, __u32 *key, struct weir_sweeper *s)
{
	struct weir_control *c = weir_get_control();
	__u64 cursor;

	if (c) {
		cursor = __sync_fetch_and_add(&c->flow_statistics[FLOW_CURSOR], SWEEP_SLOTS);
		bpf_loop(SWEEP_SLOTS, sweep_slot, &cursor, 0);
	}
	bpf_timer_start(&s->timer, SWEEP_PERIOD, 0);
	return 0;
}

/* Starts the sweep; run once, by load.rs. 0, or an error number. */
SEC("syscall")
int weir_sweep(void *ctx)
{
	struct weir_sweeper *s;
	__u32 zero = 0;
	long failed;

	s = bpf_map_lookup_elem(&sweeper, &zero);
	if (!s)
		return -1;
	failed = bpf_timer_init(&s->timer, &sweeper, SWEEP_CLOCK);
	if (!failed)
		failed = bpf_timer_set_callback(&s->timer, sweep_stretch);
	if (!failed)
		failed = bpf_timer_start(&s->timer, SWEEP_PERIOD, 0);
	return failed;
}

#endif
