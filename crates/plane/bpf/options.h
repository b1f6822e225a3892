/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What connection tracking asks of TCP options (RFC 9293 section 3.1, RFC 7323, RFC 2018).
 * In: the address of the options. Out: sack, tcp_scale and tcp_sack_permitted of the packet.
 * Twin of weir-policy's eval::track::tcp::options.
 */
#ifndef WEIR_OPTIONS_H
#define WEIR_OPTIONS_H

#include "abi.h"
#include "kernel.h"

#define WEIR_TCP_OPTIONS_MAX 40

/* What the options say: sack | (window scale + 1, or 0) << 32 | SACK permitted << 40. */
#define WEIR_OPTION_SCALE 32
#define WEIR_OPTION_PERMITTED 40

struct weir_option_walk {
	__u64 base;
	__u32 at;
	__u32 length;
	__u32 sack;
	__u8 scale;
	__u8 permitted;
};

/* One option at w->at; 1 ends the walk. A callback, so that the verifier follows it once. */
static long weir_tcp_option(__u32 step, struct weir_option_walk *w)
{
	__u32 at = w->at, kind, size, edge;

	if (at >= w->length)
		return 1;
	kind = BYTES_AT(w->base + at)->in6_u.u6_addr8[0];
	if (kind == 0)
		return 1;
	if (kind == 1) {
		w->at = at + 1;
		return 0;
	}
	if (at + 1 >= w->length)
		return 1;
	size = BYTES_AT(w->base + at)->in6_u.u6_addr8[1];
	if (size < 2 || at + size > w->length)
		return 1;
	if (kind == 3 && size == 3) {
		__u8 scale = BYTES_AT(w->base + at)->in6_u.u6_addr8[2];

		w->scale = (scale > 14 ? 14 : scale) + 1;
	}
	if (kind == 4 && size == 2)
		w->permitted = 1;
	edge = at + 6;
	w->at = at + size;
	if (kind != 5 || size < 10 || (size & 7) != 2)
		return 0;
	for (int block = 0; block < 4; block++) {
		__u32 right;

		if (edge >= w->at)
			break;
		right = bpf_ntohl(BYTES_AT(w->base + edge)->in6_u.u6_addr32[0]);
		if ((__s32)(right - w->sack) > 0)
			w->sack = right;
		edge += 8;
	}
	return 0;
}

/*
 * Options at an address, `length` bytes that can be read. Segments of an established connection
 * mostly have nothing but a timestamp, for which the caller need not come here.
 */
__noinline __u64 weir_tcp_options(__u64 base, __u32 length, __u32 acknowledgement)
{
	struct weir_option_walk w = { .base = base, .length = length, .sack = acknowledgement };

	bpf_loop(WEIR_TCP_OPTIONS_MAX, weir_tcp_option, &w, 0);
	return (__u64)w.permitted << WEIR_OPTION_PERMITTED |
	       (__u64)w.scale << WEIR_OPTION_SCALE | w.sack;
}

#endif
