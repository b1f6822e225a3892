/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The segments that most of a connection consists of, judged without branches. Says the same as
 * flow_tcp.h about them.
 */
#ifndef WEIR_FLOW_FIT_H
#define WEIR_FLOW_FIT_H

#include "flow_name.h"
#include "flow_tcp.h"

/*
 * Most segments: an acknowledgement, with data or without, of a connection that is established in
 * both directions, and that fits. The same as flow_slow for these, as arithmetic. False: ask
 * flow_slow. Changes nothing but `fit`; flow_note_fit does, once it is known that the packet's way
 * ends here.
 */
struct flow_fit {
	__u32 me;
	__u32 sack;
};

static __always_inline bool flow_fits(const struct weir_packet *p, const struct flow_ref *ref,
				      const struct flow_entry *e, __u32 zero, struct flow_fit *fit)
{
	__u32 control = e->control, me, wanted, looked_at, mask, age, sack, fits;
	__u32 sequence = p->sequence, end = sequence + p->payload, ack = p->acknowledgement;
	__u32 sender_window, receiver_window, receiver_end;
	const struct flow_side *sender, *receiver;

	me = (flow_direction(ref, control) ^ zero) & 1;
	looked_at = FLOW_STATE | FLOW_SEEN_REPLY | FLOW_ASSURED |
		    (FLOW_LIBERAL | FLOW_MAX_ACK_SET) << (8 * me);
	wanted = TCP_STATE_ESTABLISHED | FLOW_SEEN_REPLY | FLOW_ASSURED |
		 FLOW_MAX_ACK_SET << (8 * me);
	if ((p->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST | TCP_ACK)) != TCP_ACK ||
	    (control & looked_at) != wanted)
		return false;
	sender = &e->side[me];
	receiver = &e->side[1 - me];
	sender_window = sender->max_window;
	receiver_window = receiver->max_window;
	if (!sender_window || !receiver_window)
		return false;
	receiver_end = receiver->end;
	mask = flow_mask_of(control >> (8 * (1 - me) + 10) & 1);
	sack = ack + ((p->sack - ack) & mask);
	/* The larger of the sender's window and the least age. */
	mask = flow_mask_of(flow_less(sender_window, FLOW_ACK_AGE_MIN));
	age = sender_window ^ ((sender_window ^ FLOW_ACK_AGE_MIN) & mask);
	/* Four conditions, each true when the difference is negative. */
	fits = (sequence - sender->max_end - 1) & (sack - receiver_end - 1) &
	       (sender->end - receiver_window - 1 - end) & (receiver_end - age - 1 - sack);
	fit->me = me;
	fit->sack = sack;
	return (__s32)fits < 0;
}

/* What a segment that fits does to its flow. */
static __always_inline void flow_note_fit(const struct weir_packet *p, struct flow_entry *e,
					  const struct flow_fit *fit, const __u32 *timeouts,
					  __u32 now)
{
	__u32 me = fit->me, sack = fit->sack, recent = e->recent, ack = p->acknowledgement;
	__u32 sequence = p->sequence, end = sequence + p->payload;
	struct flow_side *sender = &e->side[me & 1], *receiver = &e->side[(1 - me) & 1];
	__u32 sender_end = sender->end, sender_max_end = sender->max_end;
	__u32 window, wide, allowed, print, count, mask, value, limit, age;
	__u64 same;

	window = (__u32)p->window << (e->scales >> (4 * me) & 15);
	wide = window + (sack - ack);
	if (sender->max_window < wide)
		sender->max_window = wide;
	/* New data: the end moves on, and there is something to acknowledge. */
	same = (sender_end - end) >> 31;
	mask = flow_mask_of(same);
	sender->end = sender_end ^ ((sender_end ^ end) & mask);
	recent |= mask & FLOW_RECENT_UNACKNOWLEDGED << me;
	mask = flow_mask_of((sender->max_ack - ack) >> 31);
	sender->max_ack ^= (sender->max_ack ^ ack) & mask;
	if (seq_after(end, sender_max_end))
		receiver->max_window += end - sender_max_end;
	allowed = sack + window;
	if (seq_after(allowed, receiver->max_end - 1))
		receiver->max_end = allowed + (window == 0);
	/* Everything is acknowledged. */
	same = flow_is_zero(ack ^ receiver->end);
	recent &= ~(flow_mask_of(same) & FLOW_RECENT_UNACKNOWLEDGED << (1 - me));

	print = flow_print(sequence, ack, end, p->window, me);
	mask = FLOW_RECENT_REPEAT | ~0U << FLOW_RECENT_FINGERPRINT_SHIFT;
	same = flow_is_zero((recent & mask) ^ print);
	count = (recent >> 4 & 3) + 1;
	count = (count - (count >> 2)) & flow_mask_of(same);
	recent &= FLOW_RECENT_UNACKNOWLEDGED | FLOW_RECENT_UNACKNOWLEDGED << 1;
	recent |= print | count << 4 | TCP_KIND_ACK | me << 3;
	if (!p->window)
		recent |= FLOW_RECENT_WINDOW_ZERO;
	e->last_end = end;
	e->recent = recent;

	/* The timeout: see flow_tcp_timeout, from the last choice to the first. */
	value = timeouts[FLOW_TIMEOUT_TCP_ESTABLISHED];
	limit = timeouts[FLOW_TIMEOUT_TCP_RETRANSMISSION];
	same = flow_less(limit, value);
	mask = flow_mask_of(recent >> 8 & same);
	age = value ^ ((value ^ limit) & mask);
	mask = flow_mask_of((recent >> 6 | recent >> 7) &
			    flow_less(timeouts[FLOW_TIMEOUT_TCP_UNACKNOWLEDGED], value) & 1);
	age ^= (age ^ timeouts[FLOW_TIMEOUT_TCP_UNACKNOWLEDGED]) & mask;
	mask = flow_mask_of(recent >> 4 & recent >> 5 & same & 1);
	age ^= (age ^ limit) & mask;
	e->expires = now + age;
}

#endif
