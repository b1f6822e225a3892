/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is noted about a packet that isn't accepted: the reason, and for the answer process what it
 * is to answer.
 */
#ifndef WEIR_REFUSE_H
#define WEIR_REFUSE_H

#include "report.h"
#include "walk.h"

/* The verdict of a table that did not accept. Returns 0, for those who drop by that. */
static __noinline int refuse(struct weir_control *c, struct walk *w, int verdict)
{
	struct weir_report r = {
		.now_ms = w->now_ms,
		.kind = WEIR_EVENT_REJECT,
		.rule = w->deciding,
		.slot = w->slot,
		.op = w->reject,
		.mark = w->packet.mark,
	};
	enum weir_reason reason = WEIR_REASON_RULE;

	if (verdict == WEIR_VERDICT_REJECT) {
		reason = WEIR_REASON_REJECT_SILENT;
		if (c->answering && weir_report_event(&w->seen, &w->packet, &r)) {
			reason = WEIR_REASON_REJECT;
			/* Nobody answers a reset, or an ICMP error. */
			if (w->reject == WEIR_REJECT_RESET)
				w->noted[WEIR_NOTED_RESET] = !(w->packet.tcp_flags & TCP_RST);
			else if (w->packet.transport != WEIR_TRANSPORT_ICMP ||
				 !icmp_is_error(w->packet.proto, w->packet.src_port >> 8))
				w->noted[WEIR_NOTED_UNREACHABLE] = 1;
		}
	}
	__sync_fetch_and_add(&c->reasons[reason], 1);
	return 0;
}

#endif
