/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP of a flow. Twin of engine::flow::tcp, line by line; the meaning is weir-policy's
 * eval::track::{tcp, window, connection}, which has the sources.
 *
 * Two CPUs may judge segments of one connection at the same time, without a lock: a value lost so
 * is a maximum that the next segment sets again.
 */
#ifndef WEIR_FLOW_TCP_H
#define WEIR_FLOW_TCP_H

#include "maps.h"
#include "flow_abi.h"

enum {
	TCP_STATE_NONE, TCP_STATE_SYN_SENT, TCP_STATE_SYN_RECV, TCP_STATE_ESTABLISHED,
	TCP_STATE_FIN_WAIT, TCP_STATE_CLOSE_WAIT, TCP_STATE_LAST_ACK, TCP_STATE_TIME_WAIT,
	TCP_STATE_CLOSE, TCP_STATE_SYN_SENT2,
	TCP_STATE_IGNORE,	/* not a state: let it pass and remember it */
	TCP_STATE_INVALID,	/* not a state: can't be */
};
enum { TCP_KIND_SYN, TCP_KIND_SYN_ACK, TCP_KIND_FIN, TCP_KIND_ACK, TCP_KIND_RST, TCP_KIND_NONE };

/* What to think of a segment: a timeout below 16 (accept), or one of these. */
enum {
	FLOW_OUTCOME_IGNORE = 32,	/* passes, does not prolong */
	FLOW_OUTCOME_INVALID = 33,	/* not of the connection */
	FLOW_OUTCOME_SHRINK = 34,	/* the same, and the flow shall not live for days */
	FLOW_OUTCOME_REOPEN = 35,	/* the flow is over, the ports are used again */
	FLOW_OUTCOME_GONE = 36,		/* passes, ends the flow */
	FLOW_OUTCOME_FITS = 64,		/* within flow_tcp.h */
};

/* By direction and kind, one half byte for each old state, state 0 lowest. */
static const __u64 flow_tcp_next[16] = {
	0x911aaaaa11, 0x2bbbbbb2bb, 0xb8766644bb, 0xb8775533b3, 0x888888888b, 0xbbbbbbbbbb,
	0x9b1bbbbb9b, 0x2aaaaaaa2b, 0xb8766644bb, 0xa8775532ab, 0x888888888b, 0xbbbbbbbbbb,
};

#define FLOW_ACK_AGE_MIN 66000
#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4
#define TCP_ACK 16

/* Bit `flags & 0x37`: whether these flags can occur together. */
#define FLOW_FLAGS_POSSIBLE                                                                        \
	(1ULL << 0x02 | 1ULL << 0x22 | 1ULL << 0x12 | 1ULL << 0x04 | 1ULL << 0x14 |                \
	 1ULL << 0x11 | 1ULL << 0x31 | 1ULL << 0x10 | 1ULL << 0x30)

/*
 * While a segment is judged. As little as possible: what is alive at the same time is on the
 * stack, of which there are 512 bytes for the whole program. The rest is worked out again.
 */
struct flow_work {
	struct flow_entry *e;
	__u32 slot;
	__u32 control;
	__u32 recent;
	__u32 me;	/* 0 original, 1 reply */
	__u32 new;	/* state */
	__u32 zero;	/* always 0, which the verifier does not know */
};

/* What a segment says, as far as it is believed. */
struct flow_span {
	__u32 sequence;
	__u32 end;
	__u32 ack;
	__u32 sack;
};

static __always_inline struct flow_side *flow_side_of(const struct flow_work *w, __u64 which)
{
	FLOW_ONE_COPY(which);
	return &w->e->side[which & 1];
}

#define flow_sender(w) flow_side_of(w, (w)->me)
#define flow_receiver(w) flow_side_of(w, (w)->me ^ 1)

static __always_inline struct flow_cold *flow_work_cold(const struct flow_work *w)
{
	__u8 *table = weir_flows();

	return table ? flow_cold_at(table, w->slot) : NULL;
}

/*
 * Makes the verifier forget what it knows of these numbers, so that it follows what comes next
 * once and not once for every way to get there.
 */
static __always_inline void flow_forget(struct flow_work *w)
{
	w->control ^= w->zero;
	w->recent ^= w->zero;
	w->new ^= w->zero;
}

static __always_inline bool seq_before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

static __always_inline bool seq_after(__u32 a, __u32 b)
{
	return seq_before(b, a);
}

static __always_inline __u32 flow_tcp_kind(__u8 flags)
{
	if (flags & TCP_RST)
		return TCP_KIND_RST;
	if (flags & TCP_SYN)
		return flags & TCP_ACK ? TCP_KIND_SYN_ACK : TCP_KIND_SYN;
	if (flags & TCP_FIN)
		return TCP_KIND_FIN;
	return flags & TCP_ACK ? TCP_KIND_ACK : TCP_KIND_NONE;
}

static __always_inline __u32 flow_tcp_end(const struct weir_packet *p)
{
	return p->sequence + p->payload + (p->tcp_flags >> 1 & 1) + (p->tcp_flags & 1);
}

static __always_inline bool flow_has(const struct flow_work *w, __u32 side, __u32 bit)
{
	return w->control >> (8 * side) & bit;
}

static __always_inline __u8 flow_scale_of(const struct weir_packet *p)
{
	return p->tcp_scale ? p->tcp_scale - 1 : 0;
}

static __always_inline void flow_set_scale(struct flow_work *w, __u32 side, __u8 scale)
{
	w->e->scales = (w->e->scales & (0xf0 >> (4 * side))) | scale << (4 * side);
}

static __always_inline void flow_take_options(struct flow_work *w, const struct weir_packet *p)
{
	__u32 shift = 8 * w->me;

	if (!p->tcp_options)
		return;
	w->control &= FLOW_LIBERAL << shift | ~((__u32)FLOW_SIDE << shift);
	if (p->tcp_scale)
		w->control |= FLOW_SCALES << shift;
	if (p->tcp_sack_permitted)
		w->control |= FLOW_SACK << shift;
	flow_set_scale(w, w->me, flow_scale_of(p));
	w->recent &= ~(FLOW_RECENT_UNACKNOWLEDGED << w->me);
}

static __always_inline void flow_begin(struct flow_work *w, const struct weir_packet *p)
{
	struct flow_side *sender = flow_sender(w);

	sender->end = flow_tcp_end(p);
	sender->max_end = sender->end;
	sender->max_window = p->window ? p->window : 1;
	flow_take_options(w, p);
	if (w->me && !(flow_has(w, 0, FLOW_SCALES) && flow_has(w, 1, FLOW_SCALES)))
		w->e->scales = 0;
}

static __always_inline void flow_pick_up(struct flow_work *w, const struct weir_packet *p,
					 __u32 sack)
{
	struct flow_side *sender = flow_sender(w), *receiver = flow_receiver(w);
	__u32 window = (__u32)p->window << (w->e->scales >> (4 * w->me) & 15);

	if (!window)
		window = 1;
	sender->end = flow_tcp_end(p);
	sender->max_window = window;
	sender->max_end = sender->end + window;
	if (!receiver->max_window) {
		receiver->end = sack;
		receiver->max_end = sack;
	} else if (sack == receiver->end + 1) {
		receiver->end = sack;
	}
}

static __always_inline __u32 flow_conditions(struct flow_work *w, const struct flow_span *span)
{
	struct flow_side *sender = flow_sender(w), *receiver = flow_receiver(w);
	__u32 age = sender->max_window, receiver_end = receiver->end;
	__u32 receiver_window = receiver->max_window;
	__u32 oldest_ack, oldest_end;

	if (age < FLOW_ACK_AGE_MIN)
		age = FLOW_ACK_AGE_MIN;
	oldest_ack = receiver_end - age - 1;
	oldest_end = sender->end - receiver_window - 1;
	if (!seq_before(span->sequence, sender->max_end + 1)) {
		__u32 excess = span->end - sender->max_end + 1;

		if (receiver_window && seq_after(span->end, oldest_end) &&
		    seq_after(span->sack, oldest_ack) && excess <= receiver_window &&
		    seq_before(span->sack, receiver_end + 1)) {
			sender->end = span->end;
			w->recent |= FLOW_RECENT_UNACKNOWLEDGED << w->me;
		}
		return FLOW_OUTCOME_INVALID;
	}
	if (!seq_before(span->sack, receiver_end + 1))
		return FLOW_OUTCOME_INVALID;
	if (receiver_window && !seq_after(span->end, oldest_end))
		return FLOW_OUTCOME_IGNORE;
	if (!seq_after(span->sack, oldest_ack))
		return FLOW_OUTCOME_IGNORE;
	return FLOW_OUTCOME_FITS;
}

static __always_inline void flow_note(struct flow_work *w, const struct weir_packet *p,
				      const struct flow_span *span)
{
	struct flow_side *sender = flow_sender(w), *receiver = flow_receiver(w);
	__u32 shift = p->tcp_flags & TCP_SYN ? 0 : w->e->scales >> (4 * w->me) & 15;
	__u32 window = (__u32)p->window << shift;
	__u32 wide = window + (span->sack - span->ack);
	__u32 sender_max_end = sender->max_end;
	__u32 allowed = span->sack + window;

	if (sender->max_window < wide)
		sender->max_window = wide;
	if (seq_after(span->end, sender->end)) {
		sender->end = span->end;
		w->recent |= FLOW_RECENT_UNACKNOWLEDGED << w->me;
	}
	if (p->tcp_flags & TCP_ACK && (!flow_has(w, w->me, FLOW_MAX_ACK_SET) ||
				       seq_after(span->ack, sender->max_ack))) {
		sender->max_ack = span->ack;
		w->control |= FLOW_MAX_ACK_SET << (8 * w->me);
	}
	if (receiver->max_window && seq_after(span->end, sender_max_end))
		receiver->max_window += span->end - sender_max_end;
	if (seq_after(allowed, receiver->max_end - 1))
		receiver->max_end = allowed + (window == 0);
	if (span->ack == receiver->end)
		w->recent &= ~(FLOW_RECENT_UNACKNOWLEDGED << (1 - w->me));
}

/* A fingerprint of an acknowledgement. */
static __always_inline __u32 flow_print(__u32 sequence, __u32 ack, __u32 end, __u32 window,
					__u32 me)
{
	__u64 mixed = ((__u64)sequence << 32 | ack) * 0x9e3779b97f4a7c15ULL ^
		      ((__u64)end << 32 | window << 1 | me) * 0xd6e8feb86659fd93ULL;

	return FLOW_RECENT_REPEAT | (__u32)(mixed >> 42) << FLOW_RECENT_FINGERPRINT_SHIFT;
}

static __always_inline void flow_note_retransmission(struct flow_work *w,
						     const struct weir_packet *p,
						     const struct flow_span *span)
{
	__u32 mask = FLOW_RECENT_REPEAT | ~0U << FLOW_RECENT_FINGERPRINT_SHIFT;
	__u32 print = flow_print(span->sequence, span->ack, span->end, p->window, w->me);

	w->e->last_end = span->end;
	w->recent &= ~FLOW_RECENT_WINDOW_ZERO;
	if (!p->window)
		w->recent |= FLOW_RECENT_WINDOW_ZERO;
	if ((w->recent & mask) != print) {
		w->recent &= ~(mask | FLOW_RECENT_RETRANSMISSIONS);
		w->recent |= print;
	} else if ((w->recent & FLOW_RECENT_RETRANSMISSIONS) != FLOW_RECENT_RETRANSMISSIONS) {
		w->recent += FLOW_RECENT_RETRANSMISSION;
	}
}

/* FLOW_OUTCOME_FITS, IGNORE or INVALID. */
static __always_inline __u32 flow_judge(struct flow_work *w, const struct weir_packet *p)
{
	__u32 old = w->control & FLOW_STATE, fit;
	struct flow_span span = {
		.sequence = p->sequence,
		.end = flow_tcp_end(p),
		.ack = p->acknowledgement,
		.sack = p->acknowledgement,
	};

	if (flow_has(w, 1 - w->me, FLOW_SACK))
		span.sack = p->sack;
	if (!flow_sender(w)->max_window && !(p->tcp_flags & TCP_SYN)) {
		flow_pick_up(w, p, span.sack);
	} else if (!flow_sender(w)->max_window ||
		   (p->tcp_flags & TCP_SYN &&
		    (old == TCP_STATE_SYN_SENT || old == TCP_STATE_SYN_RECV) &&
		    seq_after(span.end, flow_sender(w)->end))) {
		bool fresh = !flow_sender(w)->max_window;

		flow_begin(w, p);
		if ((fresh || w->me) && !(p->tcp_flags & TCP_ACK))
			return FLOW_OUTCOME_FITS;
	}
	if (!(p->tcp_flags & TCP_ACK) || (p->tcp_flags & TCP_RST && !span.ack)) {
		span.ack = flow_receiver(w)->end;
		span.sack = span.ack;
	}
	if (p->tcp_flags & TCP_RST && !span.sequence && old == TCP_STATE_SYN_SENT) {
		span.sequence = flow_sender(w)->end;
		span.end = span.sequence;
	}
	flow_forget(w);
	fit = flow_conditions(w, &span) ^ w->zero;
	if (fit != FLOW_OUTCOME_FITS)
		return flow_has(w, w->me, FLOW_LIBERAL) ? FLOW_OUTCOME_FITS : fit;
	flow_note(w, p, &span);
	flow_forget(w);
	if (flow_tcp_kind(p->tcp_flags) == TCP_KIND_ACK)
		flow_note_retransmission(w, p, &span);
	return FLOW_OUTCOME_FITS;
}

static __always_inline __u32 flow_last_kind(const struct flow_work *w)
{
	return w->recent & FLOW_RECENT_KIND;
}

static __always_inline bool flow_last_is_mine(const struct flow_work *w)
{
	return (w->recent >> 3 & 1) == w->me;
}

static __always_inline void flow_set_last(struct flow_work *w, __u32 kind)
{
	w->recent &= ~(FLOW_RECENT_KIND | FLOW_RECENT_REPLY);
	w->recent |= kind | w->me << 3;
}

/*
 * The exceptions of the state table return what to do next: judge the windows (FITS), go on
 * without (WITHIN), or an outcome.
 */
#define FLOW_WITHIN 65
#define FLOW_REFUSED 66		/* by the windows */

static __always_inline __u32 flow_ignore(struct flow_work *w, __u32 kind,
					 const struct weir_packet *p)
{
	__u32 bits = 0, opener = 1 - w->me, old = w->control & FLOW_STATE;
	struct flow_side *sender = flow_sender(w), *receiver = flow_receiver(w);
	struct flow_cold *cold = flow_work_cold(w);

	if (!cold)
		return FLOW_OUTCOME_IGNORE;
	if (kind == TCP_KIND_SYN_ACK && flow_last_kind(w) == TCP_KIND_SYN &&
	    !flow_last_is_mine(w) && p->acknowledgement == w->e->last_end) {
		__u32 window = cold->last_window;

		receiver->end = w->e->last_end;
		receiver->max_end = w->e->last_end;
		receiver->max_window = window ? window : 1;
		sender->end = 0;
		sender->max_end = 0;
		sender->max_window = 0;
		sender->max_ack = 0;
		if (w->control & FLOW_LAST_SCALES)
			bits |= FLOW_SCALES;
		if (w->control & FLOW_LAST_SACK)
			bits |= FLOW_SACK;
		w->control &= ~(FLOW_SIDE | FLOW_SIDE << 8 | FLOW_CHALLENGE);
		w->control |= bits << (8 * opener);
		w->e->scales = cold->last_scale << (4 * opener);
		w->recent &= ~(FLOW_RECENT_UNACKNOWLEDGED | FLOW_RECENT_UNACKNOWLEDGED << 1);
		w->new = TCP_STATE_SYN_RECV;
		return FLOW_OUTCOME_FITS;
	}
	flow_set_last(w, kind);
	w->e->last_end = flow_tcp_end(p);
	cold->last_window = p->window;
	w->recent &= ~FLOW_RECENT_WINDOW_ZERO;
	if (!p->window)
		w->recent |= FLOW_RECENT_WINDOW_ZERO;
	if (kind == TCP_KIND_SYN && !w->me) {
		w->control &= ~(FLOW_LAST_SCALES | FLOW_LAST_SACK | FLOW_CHALLENGE |
				FLOW_SIMULTANEOUS);
		if (p->tcp_scale)
			w->control |= FLOW_LAST_SCALES;
		if (p->tcp_sack_permitted)
			w->control |= FLOW_LAST_SACK;
		if (old == TCP_STATE_LAST_ACK)
			w->control |= FLOW_CHALLENGE;
		cold->last_scale = flow_scale_of(p);
	}
	if (old == TCP_STATE_SYN_SENT && kind == TCP_KIND_ACK && w->me)
		cold->last_ack = p->acknowledgement;
	return FLOW_OUTCOME_IGNORE;
}

static __always_inline __u32 flow_reset(struct flow_work *w, const struct weir_packet *p)
{
	__u32 old = w->control & FLOW_STATE, last = flow_last_kind(w);
	bool assured = w->control & FLOW_ASSURED, answered = w->control & FLOW_SEEN_REPLY;
	bool established = old == TCP_STATE_ESTABLISHED && assured;
	struct flow_cold *cold;

	if (old == TCP_STATE_NONE || (old >= TCP_STATE_FIN_WAIT && old <= TCP_STATE_CLOSE))
		return FLOW_WITHIN;
	if (flow_has(w, 1 - w->me, FLOW_MAX_ACK_SET) && last != TCP_KIND_SYN) {
		__u32 max_ack = flow_receiver(w)->max_ack;

		if (!p->sequence && !established)
			return FLOW_OUTCOME_FITS;
		if (seq_before(p->sequence, max_ack))
			return FLOW_OUTCOME_INVALID;
		if (!established || p->sequence == max_ack ||
		    (last == TCP_KIND_ACK && flow_last_is_mine(w) &&
		     p->sequence == w->e->last_end))
			return FLOW_OUTCOME_FITS;
		w->new = old;
	}
	if (((answered && last == TCP_KIND_SYN) || (!assured && last == TCP_KIND_ACK)) &&
	    p->acknowledgement == w->e->last_end)
		return FLOW_WITHIN;
	cold = flow_work_cold(w);
	if (cold && old == TCP_STATE_SYN_SENT && last == TCP_KIND_ACK &&
	    w->recent & FLOW_RECENT_REPLY && cold->last_ack == p->sequence)
		return FLOW_WITHIN;
	return FLOW_OUTCOME_FITS;
}

static __always_inline __u32 flow_states(struct flow_work *w, const struct weir_packet *p)
{
	__u32 kind = flow_tcp_kind(p->tcp_flags) ^ w->zero, old = w->control & FLOW_STATE;

	w->new = flow_tcp_next[(w->me * 6 + kind) & 15] >> (4 * old) & 15;
	if (w->new == TCP_STATE_INVALID)
		return FLOW_OUTCOME_INVALID;
	if (w->new == TCP_STATE_CLOSE && kind == TCP_KIND_RST)
		return flow_reset(w, p);
	if (w->new == TCP_STATE_SYN_SENT &&
	    (old == TCP_STATE_TIME_WAIT || old == TCP_STATE_CLOSE)) {
		if (flow_has(w, 0, FLOW_CLOSE_INIT) || flow_has(w, 1, FLOW_CLOSE_INIT) ||
		    (flow_last_is_mine(w) && flow_last_kind(w) == TCP_KIND_RST))
			return FLOW_OUTCOME_REOPEN;
		w->new = TCP_STATE_IGNORE;
	}
	if (w->new == TCP_STATE_IGNORE)
		return flow_ignore(w, kind, p);
	if (w->new == TCP_STATE_TIME_WAIT && old == TCP_STATE_LAST_ACK && kind == TCP_KIND_ACK &&
	    !flow_last_is_mine(w) && flow_last_kind(w) == TCP_KIND_SYN &&
	    w->control & FLOW_CHALLENGE) {
		w->control &= ~FLOW_CHALLENGE;
		return FLOW_OUTCOME_IGNORE;
	}
	if (w->new == TCP_STATE_SYN_SENT2)
		w->control |= FLOW_SIMULTANEOUS;
	if (w->new == TCP_STATE_SYN_RECV && w->me && kind == TCP_KIND_ACK &&
	    w->control & FLOW_SIMULTANEOUS)
		w->new = TCP_STATE_ESTABLISHED;
	return FLOW_OUTCOME_FITS;
}

static __always_inline __u32 flow_refused(struct flow_work *w, __u32 kind, __u32 left,
					  const __u32 *timeouts)
{
	__u32 last = flow_last_kind(w);

	if (!(w->control & FLOW_ASSURED) || (kind != TCP_KIND_RST && kind != TCP_KIND_FIN))
		return FLOW_OUTCOME_INVALID;
	if (flow_last_is_mine(w) || (last != TCP_KIND_RST && last != TCP_KIND_FIN)) {
		flow_set_last(w, kind);
		return FLOW_OUTCOME_INVALID;
	}
	if (left >= 120000 && left > timeouts[FLOW_TIMEOUT_TCP_UNACKNOWLEDGED])
		return FLOW_OUTCOME_SHRINK;
	return FLOW_OUTCOME_INVALID;
}

static __always_inline __u32 flow_tcp_timeout(const struct flow_work *w, __u32 kind,
					      const __u32 *timeouts)
{
	__u32 of_state = timeouts[w->new & 15];
	__u32 waiting = FLOW_RECENT_UNACKNOWLEDGED | FLOW_RECENT_UNACKNOWLEDGED << 1;

	if ((w->recent & FLOW_RECENT_RETRANSMISSIONS) == FLOW_RECENT_RETRANSMISSIONS &&
	    of_state > timeouts[FLOW_TIMEOUT_TCP_RETRANSMISSION])
		return FLOW_TIMEOUT_TCP_RETRANSMISSION;
	if (kind == TCP_KIND_RST)
		return FLOW_TIMEOUT_TCP_CLOSE;
	if (w->recent & waiting && of_state > timeouts[FLOW_TIMEOUT_TCP_UNACKNOWLEDGED])
		return FLOW_TIMEOUT_TCP_UNACKNOWLEDGED;
	if (w->recent & FLOW_RECENT_WINDOW_ZERO &&
	    of_state > timeouts[FLOW_TIMEOUT_TCP_RETRANSMISSION])
		return FLOW_TIMEOUT_TCP_RETRANSMISSION;
	return w->new;
}

/* A segment of a flow: a timeout below 16, or FLOW_OUTCOME_*. */
static __always_inline __u32 flow_tcp_segment(struct flow_work *w, const struct weir_packet *p,
					      __u32 now)
{
	struct weir_control *c;
	__u32 kind, todo, timeout, old;

	todo = flow_states(w, p) ^ w->zero;
	flow_forget(w);
	if (todo == FLOW_OUTCOME_FITS) {
		todo = flow_judge(w, p) ^ w->zero;
		flow_forget(w);
		if (todo == FLOW_OUTCOME_INVALID)
			todo = FLOW_REFUSED;
	}
	kind = flow_tcp_kind(p->tcp_flags) ^ w->zero;
	c = weir_get_control();
	if (!c)
		return FLOW_OUTCOME_INVALID;
	if (todo == FLOW_REFUSED)
		return flow_refused(w, kind, w->e->expires - now, c->settings);
	if (todo != FLOW_OUTCOME_FITS && todo != FLOW_WITHIN)
		return todo;
	/* The entry has the old state still. */
	old = w->e->control & FLOW_STATE;
	flow_set_last(w, kind);
	w->control = (w->control & ~FLOW_STATE) | w->new;
	if (old != w->new && w->new == TCP_STATE_FIN_WAIT)
		w->control |= FLOW_CLOSE_INIT << (8 * w->me);
	timeout = flow_tcp_timeout(w, kind, c->settings) ^ w->zero;
	flow_forget(w);
	if (!(w->control & FLOW_SEEN_REPLY)) {
		if (kind == TCP_KIND_RST)
			return FLOW_OUTCOME_GONE;
		if (kind == TCP_KIND_SYN && old == TCP_STATE_SYN_SENT)
			return FLOW_OUTCOME_IGNORE;
		if (w->new == TCP_STATE_ESTABLISHED &&
		    c->settings[WITHIN(timeout, 15)] > c->settings[FLOW_TIMEOUT_TCP_UNACKNOWLEDGED])
			return FLOW_TIMEOUT_TCP_UNACKNOWLEDGED;
		return timeout;
	}
	if (w->new == TCP_STATE_ESTABLISHED &&
	    (old == TCP_STATE_SYN_RECV || old == TCP_STATE_ESTABLISHED))
		w->control |= FLOW_ASSURED;
	return timeout;
}

/*
 * The memory of a connection that begins with this segment (a SYN or an acknowledgement), and its
 * timeout.
 */
static __always_inline __u32 flow_tcp_open(struct flow_work *w, const struct weir_packet *p,
					   const __u32 *timeouts)
{
	struct flow_side *sender = flow_sender(w), *receiver = flow_receiver(w);
	__u32 end = flow_tcp_end(p), window = p->window ? p->window : 1;

	sender->end = end;
	sender->max_window = window;
	if (p->tcp_flags & TCP_SYN) {
		sender->max_end = end;
		receiver->max_end = window;
		w->recent = TCP_KIND_SYN | FLOW_RECENT_WINDOW_ZERO;
		flow_take_options(w, p);
		w->control |= TCP_STATE_SYN_SENT;
		return FLOW_TIMEOUT_TCP + TCP_STATE_SYN_SENT;
	}
	sender->max_end = end + window;
	w->recent = TCP_KIND_ACK | FLOW_RECENT_WINDOW_ZERO;
	w->control |= FLOW_SACK | FLOW_LIBERAL | FLOW_SACK << 8 | FLOW_LIBERAL << 8 |
		      TCP_STATE_ESTABLISHED;
	if (timeouts[FLOW_TIMEOUT_TCP_ESTABLISHED] > timeouts[FLOW_TIMEOUT_TCP_UNACKNOWLEDGED])
		return FLOW_TIMEOUT_TCP_UNACKNOWLEDGED;
	return FLOW_TIMEOUT_TCP_ESTABLISHED;
}

#endif
