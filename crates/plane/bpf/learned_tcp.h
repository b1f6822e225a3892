/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP inside a learned state: the window, the two ends' states. Twin of policy's eval::ipf::tcp:
 * same names, same order. The caller has the entry's lock.
 */
#ifndef WEIR_LEARNED_TCP_H
#define WEIR_LEARNED_TCP_H

#include "abi.h"
#include "flow_tcp.h"
#include "learned_abi.h"

enum learned_tcp_state {
	LEARNED_LISTEN = 0,
	LEARNED_SYN_SENT = 1,
	LEARNED_SYN_RECEIVED = 2,
	LEARNED_HALF_ESTABLISHED = 3,
	LEARNED_ESTABLISHED = 4,
	LEARNED_CLOSE_WAIT = 5,
	LEARNED_FIN_WAIT_1 = 6,
	LEARNED_CLOSING = 7,
	LEARNED_LAST_ACK = 8,
	LEARNED_TIME_WAIT = 10,
	LEARNED_CLOSED = 11,
};

enum learned_fit {
	LEARNED_INSIDE = 1,
	LEARNED_OUTSIDE = 2,
	LEARNED_WRONG = 3,
};

enum learned_moved {
	LEARNED_ON = 0x100,	/* fits, and prolongs; the state in the low byte */
	LEARNED_NOT = 0x200,	/* fits, and does not prolong */
	LEARNED_REFUSED = 0x300,
};

#define LEARNED_ACK_WINDOW 66000
#define LEARNED_ECN 0xc0
#define LEARNED_PUSH 8

/* Payload, with SYN and FIN counting one each. */
static __always_inline __u32 learned_size(const struct weir_packet *p)
{
	return p->payload + !!(p->tcp_flags & TCP_SYN) + !!(p->tcp_flags & TCP_FIN);
}

static __always_inline void learned_options(struct learned_end *end, const struct weir_packet *p)
{
	if (p->tcp_scale) {
		end->scale = p->tcp_scale - 1;
		end->scale_seen = 1;
		end->scale_first = 1;
	}
	if (p->tcp_sack_permitted)
		end->sack = 1;
}

/* The next state of an end that sent these flags. */
__noinline int learned_moved(__u32 state, __u32 other, __u32 flags, __u32 from_syn)
{
	__u32 opening = flags & (TCP_SYN | TCP_ACK);
	bool acknowledges = (flags & (TCP_SYN | TCP_FIN | TCP_ACK)) == TCP_ACK;
	bool plain = (flags & (TCP_FIN | TCP_SYN | TCP_RST | TCP_ACK)) == TCP_ACK;
	bool finishes = flags & TCP_FIN;
	__u32 to = state;

	switch (state) {
	case LEARNED_LISTEN:
		if (plain && !from_syn) {
			if (other == LEARNED_LISTEN || other == LEARNED_SYN_RECEIVED)
				to = LEARNED_HALF_ESTABLISHED;
			else if (other == LEARNED_HALF_ESTABLISHED || other == LEARNED_ESTABLISHED)
				to = LEARNED_ESTABLISHED;
			else
				return LEARNED_REFUSED;
		} else if (opening == (TCP_SYN | TCP_ACK)) {
			to = LEARNED_SYN_RECEIVED;
		} else if (opening == TCP_SYN) {
			to = LEARNED_SYN_SENT;
		} else {
			return LEARNED_REFUSED;
		}
		break;
	case LEARNED_SYN_SENT:
		if ((flags & ~LEARNED_ECN) == TCP_SYN)
			return LEARNED_NOT;
		if (acknowledges)
			to = LEARNED_ESTABLISHED;
		else if (finishes)
			to = LEARNED_FIN_WAIT_1;
		else if (opening == (TCP_SYN | TCP_ACK))
			to = LEARNED_SYN_RECEIVED;
		else
			return LEARNED_REFUSED;
		break;
	case LEARNED_SYN_RECEIVED:
		if (acknowledges)
			to = LEARNED_ESTABLISHED;
		else if ((flags & ~LEARNED_ECN) == (TCP_SYN | TCP_ACK))
			return LEARNED_NOT;
		else if (finishes)
			to = LEARNED_FIN_WAIT_1;
		else
			return LEARNED_REFUSED;
		break;
	case LEARNED_HALF_ESTABLISHED:
		if (finishes) {
			to = LEARNED_FIN_WAIT_1;
		} else if (plain) {
			if (other <= LEARNED_SYN_RECEIVED)
				to = LEARNED_HALF_ESTABLISHED;
			else if (other <= LEARNED_ESTABLISHED)
				to = LEARNED_ESTABLISHED;
			else
				return LEARNED_REFUSED;
		} else {
			return LEARNED_REFUSED;
		}
		break;
	case LEARNED_ESTABLISHED:
		if (finishes)
			to = other == LEARNED_FIN_WAIT_1 ? LEARNED_CLOSING : LEARNED_FIN_WAIT_1;
		else if (flags & TCP_ACK && other == LEARNED_FIN_WAIT_1)
			to = LEARNED_CLOSE_WAIT;
		break;
	case LEARNED_CLOSE_WAIT:
		if (finishes)
			to = LEARNED_LAST_ACK;
		break;
	case LEARNED_FIN_WAIT_1:
		if (flags & TCP_ACK && other > LEARNED_CLOSE_WAIT)
			to = LEARNED_LAST_ACK;
		break;
	case LEARNED_CLOSING:
		if ((flags & (TCP_FIN | TCP_ACK)) == TCP_ACK)
			to = LEARNED_TIME_WAIT;
		break;
	case LEARNED_LAST_ACK:
		if (!(flags & TCP_ACK))
			return LEARNED_REFUSED;
		break;
	case LEARNED_TIME_WAIT:
		if (other != LEARNED_LAST_ACK)
			return LEARNED_NOT;
		to = LEARNED_CLOSED;
		break;
	case LEARNED_CLOSED:
		return LEARNED_NOT;
	default:
		return LEARNED_REFUSED;
	}
	return LEARNED_ON | to;
}

/* Move the sender's state; 0 when its state does not allow the segment. */
static __always_inline int learned_age(struct learned_machine *m, const struct weir_packet *p,
				       __u32 from)
{
	__u32 other = m->states[1 - from], moved;

	if (p->tcp_flags & TCP_RST) {
		bool plain = !(p->tcp_flags & LEARNED_PUSH) && !p->payload;

		moved = LEARNED_ON | (plain ? LEARNED_CLOSED : LEARNED_CLOSE_WAIT);
		if (other <= LEARNED_ESTABLISHED)
			m->states[1 - from] = LEARNED_CLOSE_WAIT;
	} else {
		moved = learned_moved(m->states[from], other, p->tcp_flags, m->from_syn);
	}
	m->kept_time = (moved & 0xf00) != LEARNED_ON;
	if (!m->kept_time) {
		m->states[from] = moved;
		m->queue = moved;
	}
	return (moved & 0xf00) != LEARNED_REFUSED;
}

/* An entry begins. */
static __always_inline int learned_begin(struct learned_machine *m, const struct weir_packet *p)
{
	__u32 end, window;

	end = p->sequence + learned_size(p);
	window = p->window ? p->window : 1;
	m->ends[0].end = end;
	m->ends[0].max_end = end;
	m->ends[0].max_window = window;
	m->ends[1].max_window = 1;
	if ((p->tcp_flags & ~(TCP_FIN | TCP_ACK | LEARNED_ECN)) == TCP_SYN)
		learned_options(&m->ends[0], p);
	if ((p->tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN) {
		m->from_syn = 1;
	} else {
		m->ends[1].max_window = window * 4;
		m->ends[1].end = p->acknowledgement;
		m->ends[1].max_end = p->acknowledgement;
	}
	return learned_age(m, p, 0);
}

static __always_inline __s64 learned_ahead(__u32 a, __u32 b)
{
	return (__s32)(a - b);
}

static __always_inline bool learned_fits(const struct learned_machine *m,
					 const struct weir_packet *p,
					 const struct learned_end *sender,
					 const struct learned_end *receiver, __u32 end, __s64 skew)
{
	__u32 sequence = p->sequence, back = receiver->max_window, low;

	if (m->strict && sequence != sender->end)
		return false;
	low = sender->end - back;
	if (learned_ahead(sender->max_end, end) >= 0 && learned_ahead(sequence, low) >= 0 &&
	    -skew <= LEARNED_ACK_WINDOW &&
	    skew <= (__s64)LEARNED_ACK_WINDOW << (sender->scale & 15))
		return true;
	/* With SACK some senders go on to the right of the window. */
	if (sequence == sender->max_end && skew == 0 && sender->sack && receiver->sack)
		return true;
	if (sequence == 0 && p->tcp_flags == (TCP_RST | TCP_ACK) && skew >= -1 && skew <= 1)
		return true;
	/* A connection met in the middle, whose scale nobody knows. */
	if (!m->from_syn && !sender->scale_seen && !sender->scale_first)
		return (sequence == sender->max_end && skew == 0) ||
		       learned_ahead(sequence + back, low) >= 0;
	return false;
}

__noinline int learned_in_window(struct learned_machine *m, const struct weir_packet *p,
				 __u32 from)
{
	struct learned_end *sender, *receiver;
	__u32 window, end, acknowledged, limit;
	bool syn, opening, reset, pretended, fits;
	__s64 skew;

	if (!m || !p)
		return 0;
	from &= 1;
	sender = &m->ends[from];
	receiver = &m->ends[1 - from];
	syn = p->tcp_flags & TCP_SYN;
	window = (__u32)p->window << (syn ? 0 : sender->scale & 15);
	if (!window)
		window = 1;
	if (!syn && sender->scale_first) {
		sender->scale_first = 0;
		sender->max_window = window;
	}
	end = p->sequence + learned_size(p);
	opening = (p->tcp_flags & (TCP_SYN | TCP_ACK)) == (TCP_SYN | TCP_ACK);
	if (sender->end == 0 && (!m->from_syn || opening)) {
		sender->end = end - 1;
		sender->max_window = 1;
		sender->max_end = end + window;
	}
	reset = (p->tcp_flags & (TCP_ACK | TCP_RST)) == (TCP_ACK | TCP_RST);
	pretended = !(p->tcp_flags & TCP_ACK) || (reset && !p->acknowledgement);
	acknowledged = pretended ? receiver->end : p->acknowledgement;
	skew = learned_ahead(receiver->end, acknowledged);
	fits = learned_fits(m, p, sender, receiver, end, skew);
	if (fits) {
		if (skew < 0)
			receiver->end = acknowledged;
		if (window > sender->max_window)
			sender->max_window = window;
		if (learned_ahead(end, sender->end) > 0)
			sender->end = end;
		limit = acknowledged + window;
		if (learned_ahead(limit, receiver->max_end) >= 0)
			receiver->max_end = limit;
	}
	return fits;
}

/* Take in a segment, if it fits: enum learned_fit. */
static __always_inline int learned_step(struct learned_machine *m, const struct weir_packet *p,
					__u32 from)
{
	__u32 flags;

	if (m->deleted)
		return LEARNED_WRONG;
	from &= 1;
	if ((p->tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN &&
	    m->states[0] > LEARNED_ESTABLISHED && m->states[1] > LEARNED_ESTABLISHED) {
		/* The ports are used again: the rules decide about a new entry. */
		m->states[1 - from] = LEARNED_CLOSED;
		m->deleted = 1;
		return LEARNED_WRONG;
	}
	if (!m->loose && !learned_in_window(m, p, from))
		return LEARNED_OUTSIDE;
	if (!learned_age(m, p, from))
		return LEARNED_WRONG;
	flags = p->tcp_flags & ~(TCP_FIN | LEARNED_ECN);
	if (flags == TCP_SYN || flags == (TCP_SYN | TCP_ACK))
		learned_options(&m->ends[from], p);
	return LEARNED_INSIDE;
}

#endif
