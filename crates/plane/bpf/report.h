/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records for user space: LOG and NFLOG into `events`, packets to answer into `rejects`. Bounded
 * in rate and in space; what is lost is counted.
 */
#ifndef WEIR_REPORT_H
#define WEIR_REPORT_H

#include "meta.h"

/* What to report. */
struct weir_report {
	__u64 now_ms;
	__u32 kind;		/* enum weir_event_kind */
	__u32 rule;
	__u32 slot;
	__u32 op;
	__u32 mark;
	__u32 reserved;
};

/* Whether this second has room for one more event. Two CPUs may both open a window: no harm. */
static __always_inline bool report_allowed(struct weir_control *c, __u64 now_ms)
{
	__u64 window = now_ms >> 10;

	if (c->event_window != window) {
		c->event_window = window;
		c->event_count = 0;
	}
	return __sync_fetch_and_add(&c->event_count, 1) < c->event_limit;
}

static __always_inline void report_link(const struct weir_seen *seen, struct weir_event *e)
{
	__u32 length = meta_link(SKB_AT(seen->skb));

	e->mac_length = 0;
	if (length > sizeof(e->mac))
		return;
	if (!bpf_probe_read_kernel(e->mac, length, (const void *)(seen->bytes.base - length)))
		e->mac_length = length;
}

static __always_inline void report_fill(const struct weir_seen *seen, const struct weir_packet *p,
					const struct weir_report *r, const struct weir_control *c,
					struct weir_event *e)
{
	__u32 have = seen->bytes.have;

	e->time_ms = r->now_ms;
	e->kind = r->kind;
	e->rule = r->rule;
	e->slot = r->slot;
	e->generation = c->slot_generation[r->slot & 1];
	e->op = r->op;
	e->mark = r->mark;
	e->skb_length = seen->bytes.wire;
	e->flags = meta_owner(seen, &e->uid, &e->gid) ? WEIR_EVENT_OWNED : 0;
	if (seen->wrong_sum)
		e->flags |= WEIR_EVENT_WRONG_SUM;
	meta_name(seen, false, (__u64 *)e->in_name);
	meta_name(seen, true, (__u64 *)e->out_name);
	report_link(seen, e);
	e->packet = *p;
	if (have > WEIR_EVENT_BYTES)
		have = WEIR_EVENT_BYTES;
	e->captured = have;
	if (!have || bpf_probe_read_kernel(e->bytes, have, (const void *)seen->bytes.base))
		e->captured = 0;
}

/* Returns 1 when the record is on its way, 0 when it was lost (and counted). */
__noinline int weir_report_event(const struct weir_seen *seen, const struct weir_packet *p,
				 const struct weir_report *r)
{
	struct weir_control *c = weir_get_control();
	struct weir_event *e;

	if (!c || !seen || !p || !r)
		return 0;
	if (r->kind == WEIR_EVENT_REJECT) {
		e = bpf_ringbuf_reserve(&rejects, sizeof(*e), 0);
	} else {
		if (!report_allowed(c, r->now_ms)) {
			__sync_fetch_and_add(&c->reasons[WEIR_REASON_EVENT_LIMITED], 1);
			return 0;
		}
		e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	}
	if (!e) {
		__sync_fetch_and_add(&c->reasons[WEIR_REASON_EVENT_LOST], 1);
		return 0;
	}
	report_fill(seen, p, r, c, e);
	bpf_ringbuf_submit(e, 0);
	return 1;
}

#endif
