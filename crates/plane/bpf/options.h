/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What connection tracking asks of TCP options (RFC 9293 section 3.1, RFC 7323, RFC 2018).
 * In: a copy of the option bytes. Out: sack, tcp_scale and tcp_sack_permitted of the packet.
 * Twin of weir-policy's eval::track::tcp::options.
 */
#ifndef WEIR_OPTIONS_H
#define WEIR_OPTIONS_H

#include "abi.h"
#include "kernel.h"

#define WEIR_TCP_OPTIONS_MAX 40

/* Option bytes, read as numbers in host order or as bytes; the tail is never looked at. */
struct weir_option_bytes {
	__u8 at[64];
};

struct weir_option_walk {
	struct weir_packet *p;
	const struct weir_option_bytes *bytes;
	__u32 at;
	__u32 length;
};

/* One option at w->at; 1 ends the walk. A callback, so that the verifier follows it once. */
static long weir_tcp_option(__u32 step, struct weir_option_walk *w)
{
	const struct weir_option_bytes *bytes = w->bytes;
	struct weir_packet *p = w->p;
	__u32 at = w->at & 63, kind, size, edge;

	if (at >= w->length)
		return 1;
	kind = bytes->at[at];
	if (kind == 0)
		return 1;
	if (kind == 1) {
		w->at = at + 1;
		return 0;
	}
	if (at + 1 >= w->length)
		return 1;
	size = bytes->at[(at + 1) & 63];
	if (size < 2 || at + size > w->length)
		return 1;
	if (kind == 3 && size == 3) {
		__u8 scale = bytes->at[(at + 2) & 63];

		p->tcp_scale = (scale > 14 ? 14 : scale) + 1;
	}
	if (kind == 4 && size == 2)
		p->tcp_sack_permitted = 1;
	edge = at + 6;
	w->at = at + size;
	if (kind != 5 || size < 10 || (size & 7) != 2)
		return 0;
	for (int block = 0; block < 4; block++) {
		__u32 right = (__u32)bytes->at[edge & 63] << 24 |
			      (__u32)bytes->at[(edge + 1) & 63] << 16 |
			      (__u32)bytes->at[(edge + 2) & 63] << 8 | bytes->at[(edge + 3) & 63];

		if (edge >= w->at)
			break;
		if ((__s32)(right - p->sack) > 0)
			p->sack = right;
		edge += 8;
	}
	return 0;
}

/*
 * Segments of an established connection mostly have nothing but a timestamp, for which the caller
 * need not come here.
 */
__noinline int weir_tcp_options(struct weir_packet *p, const struct weir_option_bytes *bytes)
{
	struct weir_option_walk w = { .p = p, .bytes = bytes };

	if (!p || !bytes)
		return 0;
	w.length = p->tcp_options;
	if (w.length > WEIR_TCP_OPTIONS_MAX)
		return 0;
	p->sack = p->acknowledgement;
	bpf_loop(WEIR_TCP_OPTIONS_MAX, weir_tcp_option, &w, 0);
	return 0;
}

#endif
