/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What connection tracking asks of TCP options (RFC 9293 section 3.1, RFC 7323, RFC 2018).
 * In: a copy of the option bytes. Out: sack, tcp_scale and tcp_sack_permitted of the packet.
 * Twin of weir-policy's eval::track::tcp::options.
 */
#ifndef WEIR_OPTIONS_H
#define WEIR_OPTIONS_H

#include "abi.h"

#define WEIR_TCP_OPTIONS_MAX 40

/*
 * `bytes` holds WEIR_TCP_OPTIONS_MAX readable bytes, `length` of which are options. The packet's
 * acknowledgement must be set. Segments of an established connection carry nothing but a
 * timestamp most of the time, so the caller may skip the call when the options are exactly
 * NOP NOP TIMESTAMP (01 01 08 0a ...), after setting sack = acknowledgement.
 */
static __always_inline void weir_tcp_options(const __u8 *bytes, __u32 length, struct weir_packet *p)
{
	__u32 at = 0;

	p->sack = p->acknowledgement;
	p->tcp_scale = 0;
	p->tcp_sack_permitted = 0;
	for (int step = 0; step < WEIR_TCP_OPTIONS_MAX; step++) {
		__u32 kind, size;

		if (at >= length || at >= WEIR_TCP_OPTIONS_MAX)
			break;
		kind = bytes[at];
		if (kind == 0)
			break;
		if (kind == 1) {
			at++;
			continue;
		}
		if (at + 1 >= length || at + 1 >= WEIR_TCP_OPTIONS_MAX)
			break;
		size = bytes[at + 1];
		if (size < 2 || at + size > length)
			break;
		if (kind == 3 && size == 3 && at + 2 < WEIR_TCP_OPTIONS_MAX) {
			__u8 scale = bytes[at + 2];

			p->tcp_scale = (scale > 14 ? 14 : scale) + 1;
		} else if (kind == 4 && size == 2) {
			p->tcp_sack_permitted = 1;
		} else if (kind == 5 && size >= 10 && (size & 7) == 2) {
			for (int block = 0; block < 4; block++) {
				__u32 edge = at + 2 + 8 * block + 4, right;

				if (edge + 4 > at + size || edge + 3 >= WEIR_TCP_OPTIONS_MAX)
					break;
				right = (__u32)bytes[edge] << 24 | (__u32)bytes[edge + 1] << 16 |
					(__u32)bytes[edge + 2] << 8 | bytes[edge + 3];
				if ((__s32)(right - p->sack) > 0)
					p->sack = right;
			}
		}
		at += size;
	}
}

#endif
