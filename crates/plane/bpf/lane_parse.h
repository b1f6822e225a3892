/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Headers of the packets that go the short way: TCP, UDP and, where no flows are kept, ICMP in one
 * whole piece, without options of the network header. In: readable bytes. Out: what rules without
 * tests and the tracker read of struct weir_packet. Says the same as parse.h.
 */
#ifndef WEIR_LANE_PARSE_H
#define WEIR_LANE_PARSE_H

#include "parse.h"

enum lane_parsed {
	LANE_PARSED_NOT = 0,	/* the whole way */
	LANE_PARSED = 1,
	LANE_PARSED_OPTIONS = 2,	/* but for the TCP options */
};

/*
 * Eight bytes of a header at an offset that is a multiple of 4, in one read: each is checked for
 * faults, so two of four bytes, which the compiler makes of what it takes for unaligned, cost twice.
 */
static __always_inline __u64 lane_load(__u64 base, __u32 at)
{
	const void *from = BYTES_AT(base + at);
	__u64 word;

	asm volatile("%0 = *(u64 *)(%1 + 0)" : "=r"(word) : "r"(from));
	return word;
}

/* ICMP, whose type and code stand for the source port. Its flows are looked for on the whole way. */
static __always_inline int lane_icmp(__u64 base, __u32 before, __u32 readable, bool track,
				     struct weir_packet *p)
{
	if (track || before + 8 > readable)
		return LANE_PARSED_NOT;
	p->transport = WEIR_TRANSPORT_ICMP;
	p->dst_port = 0;
	if (icmp_is_query(p->proto, p->src_port >> 8))
		p->dst_port = bpf_ntohs((__u16)(lane_load(base, before) >> 32));
	return LANE_PARSED;
}

/*
 * TCP, UDP and ICMP behind `before` bytes of network header. `words`: the first eight bytes of the
 * transport header. `have`: readable bytes, `end`: of the packet by its network header.
 */
static __always_inline int lane_transport(__u64 base, __u32 before, __u32 have, __u32 end,
					  __u32 ports, bool track, struct weir_packet *p)
{
	__u32 readable = end < have ? end : have, header;
	__u64 word;

	ports = bpf_ntohl(ports);
	p->src_port = ports >> 16;
	p->dst_port = ports;
	p->fragment = WEIR_FRAGMENT_WHOLE;
	if (p->proto == IPPROTO_UDP) {
		p->transport = WEIR_TRANSPORT_UDP;
		return before + 8 <= readable ? LANE_PARSED : LANE_PARSED_NOT;
	}
	if (p->proto == IPPROTO_ICMP || p->proto == IPPROTO_ICMPV6)
		return lane_icmp(base, before, readable, track, p);
	if (p->proto != IPPROTO_TCP || before + 20 > readable)
		return LANE_PARSED_NOT;
	p->transport = WEIR_TRANSPORT_TCP;
	word = lane_load(base, before + 12);
	header = (word >> 4 & 15) * 4;
	if (header < 20 || header > end - before)
		return LANE_PARSED_NOT;
	p->tcp_flags = word >> 8;
	if (!track)
		return LANE_PARSED;
	p->window = bpf_ntohs((__u16)(word >> 16));
	p->payload = end - before - header;
	word = lane_load(base, before + 4);
	p->sequence = bpf_ntohl((__u32)word);
	p->acknowledgement = bpf_ntohl((__u32)(word >> 32));
	p->sack = p->acknowledgement;
	p->tcp_options = header - 20;
	if (header == 20)
		return LANE_PARSED;
	if (before + header > have)
		return LANE_PARSED_NOT;
	return header == 32 && (__u32)lane_load(base, before + 20) == WEIR_TIMESTAMP ?
		       LANE_PARSED :
		       LANE_PARSED_OPTIONS;
}

static __always_inline int lane_parse_v4(__u64 base, __u32 have, bool track,
					 struct weir_packet *p)
{
	__u32 total;
	__u64 word;

	if (have < 28)
		return LANE_PARSED_NOT;
	word = lane_load(base, 0);
	/* No options, not a fragment. */
	if ((word & 0xff) != 0x45 || word >> 48 & 0xff3f)
		return LANE_PARSED_NOT;
	total = bpf_ntohs((__u16)(word >> 16));
	p->family = 4;
	p->length = total;
	word = lane_load(base, 8);
	p->proto = word >> 8;
	p->src[1] = bpf_ntohl((__u32)(word >> 32));
	word = lane_load(base, 16);
	p->dst[1] = bpf_ntohl((__u32)word);
	return lane_transport(base, 20, have, total, word >> 32, track, p);
}

static __always_inline int lane_parse_v6(__u64 base, __u32 have, bool track,
					 struct weir_packet *p)
{
	__u32 total;
	__u64 word;

	if (have < 48)
		return LANE_PARSED_NOT;
	word = lane_load(base, 0);
	total = bpf_ntohs((__u16)(word >> 32));
	if ((word & 0xf0) != 0x60 || !total)
		return LANE_PARSED_NOT;
	p->family = 6;
	p->length = total + 40;
	p->proto = word >> 48;
	p->src[0] = bpf_be64_to_cpu(lane_load(base, 8));
	p->src[1] = bpf_be64_to_cpu(lane_load(base, 16));
	p->dst[0] = bpf_be64_to_cpu(lane_load(base, 24));
	p->dst[1] = bpf_be64_to_cpu(lane_load(base, 32));
	word = lane_load(base, 40);
	return lane_transport(base, 40, have, total + 40, word, track, p);
}

#endif
