/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs that judge have in common: connection tracking once on a packet's way, and the
 * walk through one table. Where they meet packets is told by netfilter.bpf.c and ingress.bpf.c.
 */
#ifndef WEIR_JUDGE_H
#define WEIR_JUDGE_H

#include "flow.h"
#include "maps.h"
#include "meta.h"
#include "parse.h"
#include "walk.h"

/* An ICMP error belongs to the flow of the packet that it speaks of. */
static __always_inline void track_error(struct walk *w, struct weir_packet *about)
{
	if (weir_parse_embedded(&w->seen.bytes, &w->packet, about))
		w->packet.state = WEIR_STATE_INVALID;
	else
		flow_related(&w->packet, about, w->now_ms, &w->flow);
}

/* Connection tracking looks at the packet, once on its way. */
static __always_inline void track(struct walk *w, struct weir_control *c,
				  struct weir_packet *about, bool last, __u32 bits)
{
	w->packet.state = WEIR_STATE_INVALID;
	if (weir_testing && c->test.state) {
		w->packet.state = c->test.state;
		return;
	}
	if (w->packet.hook >= WEIR_HOOK_OUTPUT && meta_is_answer(SKB_AT(w->seen.skb), c)) {
		w->packet.state = WEIR_STATE_RELATED;
		return;
	}
	if (w->handoff.edits & WEIR_EDIT_NOTRACK) {
		w->packet.state = WEIR_STATE_UNTRACKED;
		return;
	}
	if (!weir_may(WEIR_FEATURE_TRACKS))
		return;
	/* Test runs compare the state of every packet. */
	if (!weir_testing && !(bits & (last ? WEIR_POLICY_TRACK : WEIR_POLICY_EARLY_STATE)))
		return;
	if (w->packet.transport == WEIR_TRANSPORT_ICMP &&
	    icmp_is_error(w->packet.proto, w->packet.src_port >> 8))
		track_error(w, about);
	else if (w->handoff.state)
		flow_peek(&w->packet, w->now_ms, &w->flow, w->handoff.state == WEIR_STATE_NEW);
	else
		flow_lookup(&w->packet, w->now_ms, &w->flow, &w->copy);
	if (w->handoff.state) {
		w->packet.state = w->handoff.state;
		/* What begins a conversation has no flow yet; the last hook is to make it. */
		if (w->packet.state == WEIR_STATE_NEW && w->flow.found == FLOW_FOUND_NONE) {
			w->flow.found = FLOW_FOUND_NEW;
			w->flow.mark = w->handoff.connmark;
		}
		return;
	}
	if (bits & WEIR_POLICY_EARLY_STATE)
		w->handoff.state = w->packet.state;
}

static __always_inline int walk_table(const __u8 *image, __u8 table, struct walk *w)
{
	__u32 root = image_root(image, &w->packet, table);

	return root ? weir_walk(root, w) : WEIR_VERDICT_ACCEPT;
}

#endif
