/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether the kernel has a route to a packet's source that is neither a default route nor one that
 * refuses (ipfw's versrcreach). bpf_fib_lookup doesn't tell which route it found, so the tables
 * `local` and `main` are read as the kernel keeps them, under RCU: nothing is out of date, and
 * nothing has to be set up. The longest prefix is looked for, as routing does, and the default
 * route left out. Included by residual.h.
 *
 * Not looked at: other tables and rules of policy routing, routes for one TOS, IPv6 routes for some
 * sources alone (`from`). IPv4 keeps prefixes in a trie whose nodes have 2^bits children and may
 * skip bits; all prefixes of one base are in one leaf, the longest first. IPv6 has a tree with one
 * bit a node. Source: ip-route(8), and the types that the kernel tells of itself (BTF).
 */
#ifndef WEIR_REACHED_H
#define WEIR_REACHED_H

#include "kernel.h"

struct key_vector___local {
	__u32 key;
	__u8 pos;
	__u8 bits;
	struct hlist_head___local leaf;	/* of an inner node: its children */
} __relocated;
struct trie___local { struct key_vector___local kv[1]; } __relocated;
struct fib_info___local {
	__u8 fib_dead;
	__u32 fib_flags;
} __relocated;
struct fib_alias___local {
	struct hlist_node___local fa_list;
	struct fib_info___local *fa_info;
	__u8 fa_dscp;
	__u8 fa_type;
	__u8 fa_slen;
} __relocated;
struct fib_table___local {
	struct hlist_node___local tb_hlist;
	__u32 tb_id;
	unsigned long *tb_data;
} __relocated;
struct rt6key___local {
	struct in6_addr___local addr;
	int plen;
} __relocated;
struct fib6_info___local {
	struct rt6key___local fib6_dst;
	__u8 fib6_type;
} __relocated;
struct fib6_node___local {
	struct fib6_node___local *left;
	struct fib6_node___local *right;
	struct fib6_info___local *leaf;
	__u16 fn_bit;
	__u16 fn_flags;
} __relocated;
struct fib6_table___local { struct fib6_node___local tb6_root; } __relocated;
struct net___routes {
	struct {
		struct hlist_head___local *fib_table_hash;
		struct fib_table___local *fib_main;
	} ipv4;
	struct {
		struct fib6_table___local *fib6_main_tbl;
		struct fib6_table___local *fib6_local_tbl;
	} ipv6;
} __relocated;
struct net_device___routes { struct { struct net___routes *net; } nd_net; } __relocated;

#define ROUTES_LOCAL 255	/* number of the table: also its place among 256 lists */
#define ROUTES_IN_LIST 32	/* more tables of one list than anybody has */
#define ROUTES_STEPS (1 << 16)	/* the walks end before */
#define ROUTE_DEAD 1		/* RTNH_F_DEAD */
#define ROUTE_REFUSES 6		/* RTN_BLACKHOLE; unreachable, prohibit and throw come after it */
#define NODE_HAS_ROUTES 4	/* RTN_RTINFO */

/* A search. IPv4: for `key` below `root`; IPv6: for `high`, `low`. */
struct route_walk {
	__u64 root;
	__u64 at;		/* the node; 0: begin at the root */
	__u64 alias;		/* IPv4: route of the leaf that is looked at next; 0: none */
	__u64 high, low;
	__u32 key;
	__u32 base;		/* IPv4: the key of the prefixes that are looked for */
	__u32 type;		/* of the route that was found, 0: none */
	__u32 over;
};

/* A pointer in a structure of the kernel, as a number. */
#define LINK_AT(type, address, what) \
	number_at((address) + bpf_core_field_offset(struct type, what))

static __always_inline __u32 highest_bit(__u32 word)
{
	__u32 bit = 0;

	for (int half = 16; half; half /= 2) {
		if (word >> half) {
			word >>= half;
			bit += half;
		}
	}
	return bit;
}

/*
 * The next shorter prefixes of the key: those whose base has a bit less, where it is known that
 * there are none of this base, nor of it without the bits below `bit`. The base 0 is the last.
 */
static __always_inline void route_shorter(struct route_walk *w, __u32 bit)
{
	__u32 base = w->base & ~(__u32)((1ULL << (bit & 63)) - 1);

	w->at = 0;
	w->alias = 0;
	w->over = !base;
	w->base = base & (base - 1);
}

static __always_inline void route_of_leaf(struct route_walk *w)
{
	__u64 at = w->alias - bpf_core_field_offset(struct fib_alias___local, fa_list);
	const struct fib_alias___local *a = KERNEL_AT(fib_alias___local, at);
	const struct fib_info___local *about;

	about = KERNEL_AT(fib_info___local, LINK_AT(fib_alias___local, at, fa_info));
	/* 32 bits left out: a default route. */
	if (a->fa_slen < 32 && !((w->key ^ w->base) >> (a->fa_slen & 31)) && !a->fa_dscp &&
	    !about->fib_dead && !(about->fib_flags & ROUTE_DEAD)) {
		w->type = a->fa_type;
		w->over = 1;
		return;
	}
	w->alias = LINK_AT(hlist_node___local, w->alias, next);
	if (!w->alias)
		route_shorter(w, 0);
}

/* One step of the search for an IPv4 route. */
static long route_step(__u64 number, struct route_walk *w)
{
	const __u32 children = bpf_core_field_offset(struct key_vector___local, leaf);
	const struct key_vector___local *node;
	__u32 differs, above, index;
	__u64 next;

	if (w->over)
		return 1;
	if (w->alias) {
		route_of_leaf(w);
		return 0;
	}
	if (!w->at)
		w->at = number_at(w->root + children);
	if (!w->at)
		return 1;
	node = KERNEL_AT(key_vector___local, w->at);
	differs = w->base ^ node->key;
	above = node->pos + node->bits;
	if (above < 32 && differs >> (above & 31)) {
		/* Where the base has no bit there, shorter ones of this path differ there too. */
		above = highest_bit(differs);
		if (!(w->base >> (above & 31) & 1)) {
			route_shorter(w, above);
			return 0;
		}
		w->base &= ~(__u32)((2ULL << (above & 63)) - 1);
		w->at = 0;
		return 0;
	}
	if (!node->bits) {
		w->alias = number_at(w->at + children);
		if (!w->alias)
			route_shorter(w, 0);
		return 0;
	}
	index = w->base >> (node->pos & 31) & (__u32)((1ULL << (node->bits & 63)) - 1);
	next = number_at(w->at + children + (__u64)index * 8);
	if (next)
		w->at = next;
	else
		route_shorter(w, node->pos);
	return 0;
}

/* The kind of the route to an address in an IPv4 table, 0: none but a default route. */
__noinline int route_in(__u32 key, __u64 table)
{
	struct route_walk w = { .key = key, .base = key };

	if (!weir_may(WEIR_FEATURE_ROUTES) || !table)
		return 0;
	w.root = LINK_AT(fib_table___local, table, tb_data);
	w.root += bpf_core_field_offset(struct trie___local, kv);
	bpf_loop(ROUTES_STEPS, route_step, &w, 0);
	return w.type;
}

/* The table of the host's own IPv4 addresses. */
__noinline __u64 routes_local(__u64 hash)
{
	__u64 at;

	if (!weir_may(WEIR_FEATURE_ROUTES) || !hash)
		return 0;
	at = number_at(hash + ROUTES_LOCAL * 8);
#pragma clang loop unroll(disable)
	for (int i = 0; i < ROUTES_IN_LIST && at; i++) {
		__u64 table = at - bpf_core_field_offset(struct fib_table___local, tb_hlist);

		if (KERNEL_AT(fib_table___local, table)->tb_id == ROUTES_LOCAL)
			return table;
		at = LINK_AT(hlist_node___local, at, next);
	}
	return 0;
}

/* One step of the search for an IPv6 route: a node's own routes, then the next bit. */
static long route_step6(__u64 number, struct route_walk *w)
{
	const struct fib6_node___local *node;
	const struct fib6_info___local *about;
	__u64 high, low, address;
	__u32 length, bit;

	if (!w->at)
		return 1;
	node = KERNEL_AT(fib6_node___local, w->at);
	address = LINK_AT(fib6_node___local, w->at, leaf);
	if (node->fn_flags & NODE_HAS_ROUTES && address) {
		about = KERNEL_AT(fib6_info___local, address);
		length = about->fib6_dst.plen;
		address += bpf_core_field_offset(struct fib6_info___local, fib6_dst.addr);
		high = bpf_be64_to_cpu(number_at(address)) ^ w->high;
		low = bpf_be64_to_cpu(number_at(address + 8)) ^ w->low;
		if (length < 64)
			high &= ~(~0ULL >> (length & 63));
		if (length < 128)
			low &= length > 64 ? ~(~0ULL >> (length & 63)) : 0;
		if (high | low)
			return 1;
		if (length)
			w->type = about->fib6_type;
	}
	bit = node->fn_bit;
	if (bit > 127)
		return 1;
	bit = (bit < 64 ? w->high >> ((63 - bit) & 63) : w->low >> ((127 - bit) & 63)) & 1;
	w->at = bit ? LINK_AT(fib6_node___local, w->at, right) :
		      LINK_AT(fib6_node___local, w->at, left);
	return 0;
}

/* The same as route_in, in an IPv6 table. */
__noinline int route_in6(__u64 high, __u64 low, __u64 table)
{
	struct route_walk w = { .high = high, .low = low };

	if (!weir_may(WEIR_FEATURE_ROUTES) || !table)
		return 0;
	w.at = table + bpf_core_field_offset(struct fib6_table___local, tb6_root);
	bpf_loop(ROUTES_STEPS, route_step6, &w, 0);
	return w.type;
}

/* Whether a route of a kind leads anywhere. */
static __always_inline bool route_leads(int type)
{
	return type && type < ROUTE_REFUSES;
}

/* `net`: the namespace. */
static __always_inline bool reached_v4(__u64 net, __u32 key)
{
	__u64 local = routes_local(LINK_AT(net___routes, net, ipv4.fib_table_hash));

	/* Without rules of policy routing the two are one. */
	if (local && route_leads(route_in(key, local)))
		return true;
	return route_leads(route_in(key, LINK_AT(net___routes, net, ipv4.fib_main)));
}

static __always_inline bool reached_v6(__u64 net, __u64 high, __u64 low)
{
	/* A link's own addresses are known on that link. */
	if (high >> 54 == 0xfe80 >> 6)
		return true;
	if (route_leads(route_in6(high, low, LINK_AT(net___routes, net, ipv6.fib6_local_tbl))))
		return true;
	return route_leads(route_in6(high, low, LINK_AT(net___routes, net, ipv6.fib6_main_tbl)));
}

/* The test. */
__noinline int source_reached(struct walk *w)
{
	__u64 net;

	if (!weir_may(WEIR_FEATURE_ROUTES) || !w)
		return 0;
	if (weir_testing) {
		struct weir_control *c = weir_get_control();

		return c && c->test.handling & WEIR_SOURCE_REACHED;
	}
	if (!w->seen.in)
		return 0;
	net = LINK_AT(net_device___routes, w->seen.in, nd_net.net);
	if (w->packet.family == 4)
		return reached_v4(net, w->packet.src[1]);
	return weir_may(WEIR_FEATURE_V6) && reached_v6(net, w->packet.src[0], w->packet.src[1]);
}

#endif
