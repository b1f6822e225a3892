/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where a packet goes before and after the kernel's own address translation, told by the kernel's
 * connection tracking. Flows are kept as INPUT, FORWARD and OUTPUT see them, behind the translation
 * of destinations; PREROUTING, and the tables raw and mangle of OUTPUT, come before it. Sources:
 * struct nf_conn, enum ip_conntrack_info; the hooks' priorities in linux/netfilter_ipv4.h.
 *
 * Not here: what the rules of nat say. A connection's first packet has no translation yet.
 */
#ifndef WEIR_TRANSLATED_H
#define WEIR_TRANSLATED_H

#include "meta.h"
#include "walk.h"

enum weir_end {
	WEIR_END_SAME = 0,	/* nothing is translated, or it is not known */
	WEIR_END_OTHER = 1,	/* the other destination is in walk.other */
	WEIR_END_RELATED = 2,	/* an ICMP error about a translated connection */
};

/* enum ip_conntrack_info: the low bits of sk_buff._nfct. */
#define NFCT_INFO 7ULL
#define IP_CT_RELATED 1
#define IP_CT_IS_REPLY 3

#define CONN ((struct nf_conn___local *)0)
/* The address of a field of the tuple of one direction. */
#define TUPLE_FIELD(ct, reply, field) ((ct) + ((reply) ?                                           \
	bpf_core_field_offset(CONN->tuplehash[1].tuple.field) :                                    \
	bpf_core_field_offset(CONN->tuplehash[0].tuple.field)))

static __always_inline bool translated_knows(void)
{
	return bpf_core_field_exists(CONN->status) && bpf_core_field_exists(CONN->tuplehash);
}

static __always_inline bool is_translated(__u64 ct)
{
	__u32 status = BYTES_AT(ct + bpf_core_field_offset(CONN->status))->in6_u.u6_addr32[0];

	return status & (IPS_SRC_NAT | IPS_DST_NAT);
}

/* The destination and its port at other hooks, in w->other. `later`: behind the translation. */
static __always_inline int other_end(struct walk *w, __u64 ct, bool reply, bool later)
{
	const struct in6_addr___local *address;
	const struct weir_packet *p = &w->packet;
	__u64 address_at, port_at;

	if (BYTES_AT(TUPLE_FIELD(ct, reply, dst.protonum))->in6_u.u6_addr8[0] != p->proto)
		return WEIR_END_SAME;
	address_at = later ? TUPLE_FIELD(ct, !reply, src.u3) : TUPLE_FIELD(ct, reply, dst.u3);
	port_at = later ? TUPLE_FIELD(ct, !reply, src.u) : TUPLE_FIELD(ct, reply, dst.u);
	address = BYTES_AT(address_at);
	w->other[0] = 0;
	w->other[1] = bpf_ntohl(address->in6_u.u6_addr32[0]);
	if (p->family == 6) {
		w->other[0] = w->other[1] << 32 | bpf_ntohl(address->in6_u.u6_addr32[1]);
		w->other[1] = (__u64)bpf_ntohl(address->in6_u.u6_addr32[2]) << 32 |
			      bpf_ntohl(address->in6_u.u6_addr32[3]);
	}
	w->other_port = p->dst_port;
	if (p->transport >= WEIR_TRANSPORT_TCP && p->transport <= WEIR_TRANSPORT_SCTP)
		w->other_port = bpf_ntohs(BYTES_AT(port_at)->in6_u.u6_addr16[0]);
	return WEIR_END_OTHER;
}

/* What the kernel's tracking, which has seen the packet, says of it: enum weir_end. */
__noinline int weir_other_end(struct walk *w, __u32 later)
{
	const struct sk_buff___local *skb;
	__u64 ct;
	__u32 info;

	if (!w || weir_testing)
		return WEIR_END_SAME;
	skb = SKB_AT(w->seen.skb);
	if (!bpf_core_field_exists(skb->_nfct) || !translated_knows())
		return WEIR_END_SAME;
	info = skb->_nfct & NFCT_INFO;
	ct = skb->_nfct & ~NFCT_INFO;
	if (!ct || !is_translated(ct))
		return WEIR_END_SAME;
	if (info == IP_CT_RELATED || info == IP_CT_RELATED + IP_CT_IS_REPLY)
		return w->packet.transport == WEIR_TRANSPORT_ICMP ? WEIR_END_RELATED :
								    WEIR_END_SAME;
	return other_end(w, ct, info >= IP_CT_IS_REPLY, later);
}

/* The packet as it is at the other hooks, and back. */
__noinline int weir_turn(struct walk *w, int end)
{
	struct weir_packet *p;
	__u64 high, low;
	__u16 port;

	if (!w || end != WEIR_END_OTHER)
		return 0;
	p = &w->packet;
	high = p->dst[0];
	low = p->dst[1];
	port = p->dst_port;
	p->dst[0] = w->other[0];
	p->dst[1] = w->other[1];
	p->dst_port = w->other_port;
	w->other[0] = high;
	w->other[1] = low;
	w->other_port = port;
	return 0;
}

#endif
