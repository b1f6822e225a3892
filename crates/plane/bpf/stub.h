/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stands in for walk.h until it lands: the image is three words. */
#ifndef WEIR_STUB_H
#define WEIR_STUB_H
#include "flow.h"
#include "report.h"
struct walk {
	struct weir_packet packet;
	struct weir_seen seen;
	struct flow_ref flow;
	__u64 now_ms;
	__u32 slot;
	__u32 deciding;
	__u32 reject;
	__u32 edits;
	struct weir_handoff handoff;
};
static __always_inline __u32 image_root(const __u8 *image, __u8 family, __u8 hook, __u8 table)
{
	return table == WEIR_TABLE_FILTER ? 64 : 0;
}
static __always_inline int weir_walk(const __u8 *image, __u32 root, struct walk *w)
{
	const __u32 *words = (const __u32 *)image;
	if (words[2]) {
		struct weir_report r = { .now_ms = w->now_ms, .kind = WEIR_EVENT_LOG, .slot = w->slot, .mark = w->packet.mark };
		weir_report_event(&w->seen, &w->packet, &r);
	}
	if (w->packet.state == WEIR_STATE_RELATED)
		return WEIR_VERDICT_ACCEPT;
	if (words[3]) {
		w->handoff.edits = words[3];
		w->handoff.mark = words[4];
		w->handoff.priority = words[5];
		w->handoff.mss = words[6];
		w->handoff.tos_value = words[7];
		w->handoff.tos_mask = words[8];
	}
	weir_count(w->slot, 0, w->packet.length);
	w->deciding = 0;
	w->reject = words[1];
	return words[0] ? words[0] : WEIR_VERDICT_ACCEPT;
}
#endif
