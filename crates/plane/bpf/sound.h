/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether a packet seen before IP has looked at it will surely come to netfilter: so that nothing is
 * counted that iptables would not see. Sources: RFC 791, 1071, 8200; ip_rcv(), ipv6_rcv().
 */
#ifndef WEIR_SOUND_H
#define WEIR_SOUND_H

#include "meta.h"
#include "sum.h"

#define IFF_LOOPBACK (1 << 3)
#define IFF_SLAVE (1 << 11)
/* Ports of a bridge, of Open vSwitch, of a team: the packet is received by what they belong to. */
#define IFF_PORT (1 << 9 | 1 << 10 | 1 << 13)

/* Whether packets are received by this very interface. */
static __always_inline bool device_receives(const struct net_device___local *device)
{
	return !(device->flags & IFF_SLAVE) &&
	       !(BPF_CORE_READ_BITFIELD(device, priv_flags) & IFF_PORT);
}

/* Whether the checksum of an IPv4 header is right; without, IP discards the packet unseen. */
__noinline int weir_header_sound(const struct weir_bytes *b)
{
	__u32 sum = 0, words;

	if (!b)
		return 0;
	words = (BYTES_AT(b->base)->in6_u.u6_addr8[0] & 15) * 2;
	if (words * 2 > b->have)
		return 0;
	for (__u32 i = 0; i < 30; i++) {
		if (i >= words)
			break;
		sum += BYTES_AT(b->base + i * 2)->in6_u.u6_addr16[0];
	}
	return sum_fold(sum) == 0xffff;
}

static __always_inline bool is_loopback6(const __u64 address[2])
{
	return !address[0] && address[1] == 1;
}

/* Whether IP hands a packet of this interface on to netfilter. */
static __always_inline bool is_sound(const struct weir_packet *p, const struct weir_seen *seen)
{
	if (p->fragment != WEIR_FRAGMENT_WHOLE || p->length > seen->bytes.wire)
		return false;
	if (p->family == 4)
		return weir_header_sound(&seen->bytes);
	if (p->src[0] >> 56 == 0xff)
		return false;
	return DEVICE_AT(seen->in)->flags & IFF_LOOPBACK ||
	       !(is_loopback6(p->src) || is_loopback6(p->dst));
}

#endif
