/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The packet that an ICMP error quotes, as states see it. */
#ifndef WEIR_LEARNED_QUOTED_H
#define WEIR_LEARNED_QUOTED_H

#include "learned_view.h"

static __always_inline bool learned_has_ports(__u8 proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP;
}

/* Whether a state can have it. Verified on its own. */
__noinline int learned_quoted(struct walk *w)
{
	const struct weir_packet *about;

	if (!w || weir_parse_embedded(&w->seen.bytes, &w->packet, &w->about))
		return 0;
	about = &w->about;
	if (about->family == 4 && w->packet.transport_offset != 20)
		return 0;
	if (about->family == 6 && (w->packet.length < 88 || about->transport == WEIR_TRANSPORT_SHORT))
		return 0;
	if (about->transport < WEIR_TRANSPORT_TCP)
		return 0;
	if (about->transport == WEIR_TRANSPORT_ICMP &&
	    icmp_is_error(about->proto, about->src_port >> 8))
		return 0;
	if (!learned_has_ports(about->proto) &&
	    about->proto != (about->family == 4 ? IPPROTO_ICMP : IPPROTO_ICMPV6))
		return 0;
	__builtin_memset(&w->quoted, 0, sizeof(w->quoted));
	ipf_see(&w->seen, &w->about, &w->quoted, w->packet.transport_offset + 8);
	/* The error goes the other way than the packet that it quotes, at the same interface. */
	w->quoted.out = w->packet.hook == WEIR_HOOK_PREROUTING;
	w->quoted.interface = w->view.interface;
	return 1;
}

#endif
