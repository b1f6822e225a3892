/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits of a rule's states that depend on who sends: `max-srcs`, `max-per-src`, HP-UX's
 * `keep limit`. Twin of policy's eval::allocation. Included by learned.h, between the search for a
 * state and the making of one.
 */
#ifndef WEIR_LEARNED_LIMIT_H
#define WEIR_LEARNED_LIMIT_H

#include "learned_share.h"
#include "learned_table.h"

#define LEARNED_AGAIN 2			/* of learned_make */
#define LEARNED_HOSTS_AGAIN 3		/* the same, where hosts are counted */

__noinline int learned_make(struct walk *w, __u32 number);

/* Make a state, with those out of the way that are over. learned_make can't call that deep. */
static __always_inline int limit_make(struct walk *w, __u32 number)
{
	__u8 *table = learned_table();
	int made = learned_make(w, number);

	if (made >= LEARNED_AGAIN && table) {
		learned_expire(w->now_ms);
		made = learned_make(w, number);
		if (made >= LEARNED_AGAIN) {
			learned_note(table, LEARNED_NO_ROOM);
			if (made == LEARNED_HOSTS_AGAIN)
				learned_note(table, LEARNED_HOSTS_FULL);
			else if (w->learner.limit != ~0U)
				learned_note(table, LEARNED_RULE_FULL);
		}
	}
	if (made == 1) {
		w->noted[WEIR_NOTED_STATE]++;
		return 1;
	}
	w->noted[WEIR_NOTED_STATE_LOST]++;
	return 0;
}

static __always_inline void limit_describe(struct learned_share *s, const struct walk *w)
{
	const struct weir_packet *p = &w->packet;

	s->src[0] = p->src[0];
	s->src[1] = p->src[1];
	s->dst[0] = p->dst[0];
	s->dst[1] = p->dst[1];
	s->port = p->dst_port;
	s->family = p->family;
	s->first_ms = w->now_ms;
}

/* States whose time is up count no more, where a share is known; not at every packet. */
static __always_inline void limit_sweep(__u8 *table, __u64 now_ms)
{
	struct share_header *h = (struct share_header *)table;

	if (h->swept_ms + SHARE_SWEEP_MS > now_ms && h->swept_ms <= now_ms)
		return;
	if (learned_expire(now_ms))
		h->swept_ms = now_ms;
}

/*
 * One more host, or one more state of a host; w->share is what its state counts for. Verified on
 * its own.
 */
__noinline int limit_host(struct walk *w)
{
	__u8 *table = share_table();
	const struct weir_learner *l;
	struct learned_share *host, *hosts;
	__u32 place, all, bits, v6;
	__u64 part[2];

	if (!table || !w)
		return 0;
	w->share = 0;
	l = &w->learner;
	v6 = w->packet.family == 6;
	bits = l->source_prefix[v6] + (v6 ? 0 : 96);
	part[0] = w->packet.src[0] & history_ones(bits > 64 ? 64 : bits);
	part[1] = w->packet.src[1] & history_ones(bits > 64 ? bits - 64 : 0);
	place = share_seek(share_host_name(part, l->identity, w->packet.family), true);
	host = share_at(table, place);
	all = share_seek(share_rule_name(l->identity, SHARE_HOSTS), true);
	hosts = share_at(table, all);
	if (!host || !hosts) {
		__sync_fetch_and_add(&((struct share_header *)table)->statistics[SHARE_FULL], 1);
		return 0;
	}
	if (__sync_fetch_and_add(&host->current, 1)) {
		if (host->current - 1 < l->sources[1]) {
			w->share = place + 1;
			return 1;
		}
		__sync_fetch_and_add(&host->current, -1);
		return 0;
	}
	__sync_fetch_and_add(&((struct share_header *)table)->count, 1);
	limit_describe(host, w);
	host->kind = SHARE_HOST;
	host->of = all + 1;
	host->configured = l->sources[1];
	if (!__sync_fetch_and_add(&hosts->current, 1)) {
		__sync_fetch_and_add(&((struct share_header *)table)->count, 1);
		hosts->kind = SHARE_HOSTS;
		hosts->configured = l->sources[0];
	}
	if (hosts->current - 1 < l->sources[0]) {
		w->share = place + 1;
		return 1;
	}
	share_give(table, place, w->now_ms);
	return 0;
}

/* A connection above its limit. */
static __always_inline void limit_above(struct walk *w, __u8 *table, struct learned_share *s)
{
	__u64 exceeded = __sync_fetch_and_add(&s->exceeded, 1);
	__u32 alerts = s->alerts;
	struct learned_record *r;

	w->limited = WEIR_VERDICT_DROP;
	if (w->learner.flags & WEIR_LEARN_RESETS) {
		w->limited = WEIR_VERDICT_REJECT;
		__sync_fetch_and_add(&s->resets, 1);
	}
	if (!alerts || exceeded % alerts)
		return;
	r = record_begin(table, RECORD_ALERT);
	if (!r)
		return;
	record_share(r, s);
	r->time_ms = w->now_ms;
	r->src[0] = w->packet.src[0];
	r->src[1] = w->packet.src[1];
	r->dst[0] = w->packet.dst[0];
	r->dst[1] = w->packet.dst[1];
	r->exceeded = exceeded + 1;
	r->src_port = w->packet.src_port;
	r->dst_port = w->packet.dst_port;
	r->tcp_flags = w->packet.tcp_flags;
	r->interface = w->view.interface;
	bpf_ringbuf_submit(r, 0);
}

/* Counts a connection of w->learner, if it fits: w->limited is the verdict. */
static __always_inline void limit_through(struct walk *w, __u8 *table, __u32 place, __u32 number)
{
	struct learned_share *s = share_at(table, place);
	bool closed = w->learner.flags & WEIR_LEARN_FAILS_CLOSED;

	w->limited = closed ? WEIR_VERDICT_DROP : WEIR_VERDICT_ACCEPT;
	w->share = 0;
	if (!s) {
		__sync_fetch_and_add(&((struct share_header *)table)->statistics[SHARE_FULL], 1);
		return;
	}
	if (__sync_fetch_and_add(&s->current, 1) >= s->configured) {
		__sync_fetch_and_add(&s->current, -1);
		limit_above(w, table, s);
		return;
	}
	w->share = place + 1;
	if (limit_make(w, number)) {
		w->limited = WEIR_VERDICT_ACCEPT;
		return;
	}
	share_give(table, place, w->now_ms);
	w->share = 0;
}

/* A state that can't be made counts for nothing; limits of connections see to that themselves. */
static __always_inline void learned_unshare(struct walk *w)
{
	__u8 *table = share_table();

	if (table && w->share && !(w->learner.flags & WEIR_LEARN_LIMITED))
		share_give(table, w->share - 1, w->now_ms);
}

/* What the state in a slot counts for, and the record that it was made. */
static __always_inline void learned_link(struct walk *w, __u32 slot, __u32 generation)
{
	__u8 *table = share_table();
	const struct weir_packet *p = &w->packet;
	struct learned_record *r;
	__u32 *link;

	if (!table)
		return;
	link = share_link(table, slot);
	if (link)
		*link = w->share;
	r = record_begin(table, RECORD_NEW);
	if (!r)
		return;
	r->time_ms = w->now_ms;
	r->src[0] = p->src[0];
	r->src[1] = p->src[1];
	r->dst[0] = p->dst[0];
	r->dst[1] = p->dst[1];
	r->rule = w->learner.rule;
	r->generation = generation;
	r->src_port = p->transport == WEIR_TRANSPORT_ICMP ? p->src_port >> 8 : p->src_port;
	r->dst_port = p->dst_port;
	r->family = p->family;
	r->proto = p->proto;
	bpf_ringbuf_submit(r, 0);
}

/* What a limit that counts already says of a new connection. */
static __always_inline int limit_known(struct walk *w, __u32 generation)
{
	__u8 *table = share_table();
	const struct weir_packet *p = &w->packet;
	struct learned_share *s;
	const __u8 *image;
	__u32 place;
	__u64 name;

	if (!table || !((struct share_header *)table)->count ||
	    p->transport != WEIR_TRANSPORT_TCP || w->view.out ||
	    (p->tcp_flags & (TCP_SYN | TCP_ACK)) != TCP_SYN)
		return 0;
	image = weir_image(w->slot & 1);
	if (!image)
		return 0;
	name = share_limit_name(p);
	place = share_find(name, 0);
	if (place == SHARE_NONE)
		return 0;
	limit_sweep(table, w->now_ms);
	s = share_at(table, place);
	/* A rule of another policy: the rules say what now counts. */
	if (!s || s->name != name || !s->configured || s->generation != generation)
		return 0;
	w->learner = *IMAGE_AT(struct weir_learner, image, image_mask(), s->record_at);
	limit_through(w, table, place, s->learner);
	return 1;
}

/* A rule with a limit matched: w->learner, whose record is at an offset of the image. */
static __always_inline int limit_of_rule(struct walk *w, __u32 number, __u32 record_at,
					 __u32 generation)
{
	__u8 *table = share_table();
	const struct weir_learner *l = &w->learner;
	bool cumulative = l->flags & WEIR_LEARN_CUMULATIVE;
	struct learned_share *s;
	__u32 place;

	if (!table || w->packet.transport != WEIR_TRANSPORT_TCP)
		return 0;
	if (((struct share_header *)table)->count)
		limit_sweep(table, w->now_ms);
	place = share_find(cumulative ? share_rule_name(l->identity, SHARE_CUMULATIVE) :
					share_limit_name(&w->packet), 1);
	s = share_at(table, place);
	if (s) {
		if (!s->configured) {
			struct share_header *h = (struct share_header *)table;

			__sync_fetch_and_add(&h->count, 1);
			__sync_fetch_and_add(&h->statistics[SHARE_ADDED], 1);
			limit_describe(s, w);
			if (cumulative)
				s->src[0] = s->src[1] = 0;
			s->kind = l->kind;
		}
		/* It stays that of the rule that began to count, which may have changed. */
		if (!s->configured || s->generation != generation || s->learner == number) {
			s->alerts = l->alerts;
			s->rule = l->rule;
			s->learner = number;
			s->record_at = record_at;
			s->generation = generation;
			barrier();
			s->configured = l->connections;
		}
	}
	limit_through(w, table, place, number);
	return 1;
}

#endif
