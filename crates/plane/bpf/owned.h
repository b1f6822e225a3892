/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether a source is an address of the interface that received its packet, and whether it is on a
 * network that some interface of the host is on: bpf_fib_lookup tells neither. Read from the lists
 * that the kernel itself keeps of its interfaces and their addresses, so nothing is out of date
 * when an address comes or goes. Both lists are read under RCU, as programs at tcx run.
 *
 * Sources: ip-address(8), RFC 4291 section 2.6.1 (the address of a subnet's routers).
 */
#ifndef WEIR_OWNED_H
#define WEIR_OWNED_H

#include "kernel.h"

struct list_head___local { struct list_head___local *next; } __relocated;
struct in_ifaddr___local {
	struct in_ifaddr___local *ifa_next;
	__u32 ifa_local;
	__u32 ifa_address;
	__u32 ifa_mask;
} __relocated;
struct in_device___local { struct in_ifaddr___local *ifa_list; } __relocated;
struct inet6_ifaddr___local {
	struct in6_addr___local addr;
	__u32 prefix_len;
	struct list_head___local if_list;
	struct in6_addr___local peer_addr;
} __relocated;
struct inet6_dev___local { struct list_head___local addr_list; } __relocated;
struct net___local { struct list_head___local dev_base_head; } __relocated;
struct net_device___owner {
	unsigned int flags;
	struct list_head___local dev_list;
	struct { struct net___local *net; } nd_net;
	struct in_device___local *ip_ptr;
	struct inet6_dev___local *ip6_ptr;
} __relocated;

/* More than anybody has: the lists end before. */
#define OWNED_MAX (1 << 20)
#define OWNER_LOOPBACK (1 << 3)	/* IFF_LOOPBACK */

/* Bits of what is found of an address. */
#define OWNED_IS_OWN 1		/* it is one of the interface */
#define OWNED_IS_NEAR 2		/* it is on a network of the interface */

/* The address that is looked for, as on the wire. */
struct owned {
	__u32 address[4];
	__u32 v4;
};

/* A walk through the addresses of an interface. */
struct owned_walk {
	__u64 at;
	__u64 end;
	__u64 high, low;	/* the address; of IPv4: as on the wire */
	__u32 loopback;		/* the interface is */
	__u32 found;
};

/* A walk through interfaces. */
struct owned_devices {
	struct owned wanted;
	__u64 at;
	__u64 end;
	__u32 found;
};

static long owned_v4(__u64 number, struct owned_walk *w)
{
	const struct in_ifaddr___local *a;
	__u32 address = w->low, mask;

	if (!w->at)
		return 1;
	a = KERNEL_AT(in_ifaddr___local, w->at);
	mask = a->ifa_mask;
	if (a->ifa_local == address)
		w->found = OWNED_IS_OWN | OWNED_IS_NEAR;
	/* All of a loopback network is the host's; a network's broadcasts are routed back to it. */
	if (!((address ^ a->ifa_address) & mask))
		w->found |= w->loopback || (address | mask) == ~0U ?
				    OWNED_IS_OWN | OWNED_IS_NEAR :
				    OWNED_IS_NEAR;
	w->at = (__u64)a->ifa_next;
	return 0;
}

static __always_inline __u64 half(const struct in6_addr___local *a, int at)
{
	return (__u64)bpf_ntohl(a->in6_u.u6_addr32[at]) << 32 | bpf_ntohl(a->in6_u.u6_addr32[at + 1]);
}

static long owned_v6(__u64 number, struct owned_walk *w)
{
	const struct inet6_ifaddr___local *a;
	__u64 own[2], far[2], mask[2];
	__u32 length;

	if (!w->at || w->at == w->end)
		return 1;
	a = KERNEL_AT(inet6_ifaddr___local,
		      w->at - bpf_core_field_offset(struct inet6_ifaddr___local, if_list));
	length = a->prefix_len;
	mask[0] = length < 64 ? ~(~0ULL >> (length & 63)) : ~0ULL;
	mask[1] = length < 64 ? 0 : length < 128 ? ~(~0ULL >> (length & 63)) : ~0ULL;
	for (int i = 0; i < 2; i++) {
		own[i] = half(&a->addr, i * 2);
		far[i] = half(&a->peer_addr, i * 2);
	}
	if (!((own[0] ^ w->high) | (own[1] ^ w->low)))
		w->found = OWNED_IS_OWN | OWNED_IS_NEAR;
	if (!(far[0] | far[1])) {
		far[0] = own[0];
		far[1] = own[1];
	}
	/* The first address of a network is its routers', which the kernel has for its own. */
	if (!(((far[0] ^ w->high) & mask[0]) | ((far[1] ^ w->low) & mask[1])))
		w->found |= (w->high & ~mask[0]) | (w->low & ~mask[1]) ?
				    OWNED_IS_NEAR :
				    OWNED_IS_OWN | OWNED_IS_NEAR;
	w->at = (__u64)a->if_list.next;
	return 0;
}

/* What an address is to an interface. Verified once, as a function of its own. */
__noinline __u32 owned_by(const struct owned *wanted, __u64 device)
{
	const struct net_device___owner *d = KERNEL_AT(net_device___owner, device);
	struct owned_walk w = {};

	if (!wanted)
		return 0;
	w.loopback = d->flags & OWNER_LOOPBACK;
	if (wanted->v4) {
		if (!d->ip_ptr)
			return 0;
		w.low = wanted->address[0];
		w.at = (__u64)d->ip_ptr->ifa_list;
		bpf_loop(OWNED_MAX, owned_v4, &w, 0);
		return w.found;
	}
	/* IPv6 may be a module, of whose structures nothing is known here. */
	if (!bpf_core_field_exists(((struct inet6_ifaddr___local *)0)->if_list) || !d->ip6_ptr)
		return 0;
	w.high = (__u64)bpf_ntohl(wanted->address[0]) << 32 | bpf_ntohl(wanted->address[1]);
	w.low = (__u64)bpf_ntohl(wanted->address[2]) << 32 | bpf_ntohl(wanted->address[3]);
	w.end = (__u64)d->ip6_ptr + bpf_core_field_offset(struct inet6_dev___local, addr_list);
	w.at = (__u64)d->ip6_ptr->addr_list.next;
	bpf_loop(OWNED_MAX, owned_v6, &w, 0);
	return w.found;
}

static long owned_device(__u64 number, struct owned_devices *w)
{
	__u64 at = w->at;

	if (!at || at == w->end || w->found & OWNED_IS_NEAR)
		return 1;
	w->found = owned_by(&w->wanted,
			    at - bpf_core_field_offset(struct net_device___owner, dev_list));
	w->at = number_at(at + bpf_core_field_offset(struct list_head___local, next));
	return 0;
}

/* Whether an address is on a network of any interface of the namespace that one of them is in. */
static __always_inline bool owned_is_near(struct owned_devices *w, __u64 device)
{
	__u64 space = number_at(device + bpf_core_field_offset(struct net_device___owner, nd_net.net));

	if (!space)
		return false;
	w->end = space + bpf_core_field_offset(struct net___local, dev_base_head);
	w->at = number_at(w->end + bpf_core_field_offset(struct list_head___local, next));
	bpf_loop(OWNED_MAX, owned_device, w, 0);
	return w->found & OWNED_IS_NEAR;
}

#endif
