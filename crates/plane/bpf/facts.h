/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What few rules ask, read from kernel structures: the sending socket's groups, class and control
 * group, groups of interfaces, the route's realm, bridge ports. In test runs all of it is told.
 */
#ifndef WEIR_FACTS_H
#define WEIR_FACTS_H

#include "maps.h"
#include "meta.h"

struct group_info___local { int ngroups; struct kuid_t___local gid[0]; } __relocated;
struct cred___groups { struct group_info___local *group_info; } __relocated;
struct kernfs_node___local { __u64 id; } __relocated;
struct cgroup___local {
	int level;
	struct kernfs_node___local *kn;
	struct cgroup___local *ancestors[0];
} __relocated;
struct sock_cgroup_data___local {
	struct cgroup___local *cgroup;
	__u32 classid;
} __relocated;
struct sock___groups { struct sock_cgroup_data___local sk_cgrp_data; } __relocated;
struct dst_entry___realm { __u32 tclassid; } __relocated;
struct net___local { struct hlist_head___local *dev_index_head; } __relocated;
struct possible_net_t___local { struct net___local *net; } __relocated;
struct net_device___index {
	struct possible_net_t___local nd_net;
	struct hlist_node___local index_hlist;
	int group;
} __relocated;
struct nf_bridge_info___local {
	int physinif;
	struct net_device___local *physoutdev;
} __relocated;
struct nf_bridge_info___pointer { struct net_device___local *physindev; } __relocated;
struct skb_ext___local { __u8 offset[0]; } __relocated;
struct sk_buff___ext { struct skb_ext___local *extensions; } __relocated;
enum skb_ext_id___bridge { SKB_EXT_BRIDGE_NF___bridge = 0 };

#define WEIR_GROUPS_STEPS 17	/* 65,536 groups at most (NGROUPS_MAX) */
#define WEIR_INDEX_HASH 256	/* NETDEV_HASHENTRIES */
#define WEIR_INDEX_STEPS 64

/* A word at an address; a fault reads 0. */
static __always_inline __u64 word_at(__u64 address)
{
	const struct in6_addr___local *h = BYTES_AT(address);

	return (__u64)h->in6_u.u6_addr32[1] << 32 | h->in6_u.u6_addr32[0];
}

static __always_inline const struct weir_facts *facts_told(void)
{
	struct weir_control *c = weir_get_control();

	return c ? &c->test.facts : NULL;
}

/* Whether a socket sends the packet, be it the kernel's own. */
static __always_inline bool facts_socket(const struct weir_seen *seen)
{
	struct sock___local *sk;

	if (weir_testing) {
		struct weir_control *c = weir_get_control();

		return c && (c->test.has_owner || c->test.facts.known & WEIR_KNOWN_SOCKET);
	}
	sk = meta_socket(SKB_AT(seen->skb));
	return sk && sk->sk_socket;
}

/* Whether a group of the socket's owner is in a range; supplementary ones are sorted. */
static __always_inline bool facts_groups(const struct weir_seen *seen, __u32 first, __u32 last)
{
	__u32 uid, gid, low = 0, count, found;
	struct sock___local *sk;
	__u64 groups, cred;

	if (!meta_owner(seen, &uid, &gid))
		return false;
	if (gid >= first && gid <= last)
		return true;
	if (weir_testing) {
		const struct weir_facts *f = facts_told();

		for (int i = 0; f && i < 4; i++) {
			if (i < f->group_count && f->groups[i] >= first && f->groups[i] <= last)
				return true;
		}
		return false;
	}
	sk = meta_socket(SKB_AT(seen->skb));
	if (!sk || !sk->sk_socket || !sk->sk_socket->file)
		return false;
	cred = (__u64)sk->sk_socket->file->f_cred;
	groups = word_at(cred + bpf_core_field_offset(((struct cred___groups *)0)->group_info));
	if (!groups)
		return false;
	count = BYTES_AT(groups + bpf_core_field_offset(((struct group_info___local *)0)->ngroups))
			->in6_u.u6_addr32[0];
	groups += bpf_core_field_offset(((struct group_info___local *)0)->gid);
	/* The first one that is not below the range. */
	for (int i = 0; i < WEIR_GROUPS_STEPS; i++) {
		__u32 half = count >> 1;

		if (!count)
			break;
		found = BYTES_AT(groups + (low + half) * 4)->in6_u.u6_addr32[0];
		if (found >= first && found <= last)
			return true;
		if (found < first) {
			low += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return false;
}

/* A full socket that sends (or takes) the packet, as an address; 0: none. */
static __always_inline __u64 facts_full_socket(const struct weir_seen *seen)
{
	struct sock___local *sk = SKB_AT(seen->skb)->sk;

	if (!sk || sk->__sk_common.skc_state == TCP_TIME_WAIT ||
	    sk->__sk_common.skc_state == TCP_NEW_SYN_RECV)
		return 0;
	return (__u64)sk;
}

static __always_inline bool facts_class(const struct weir_seen *seen, __u32 *class)
{
	__u64 sk;

	*class = 0;
	if (weir_testing) {
		const struct weir_facts *f = facts_told();

		if (!f)
			return false;
		*class = f->class;
		return f->known & WEIR_KNOWN_CLASS;
	}
	sk = facts_full_socket(seen);
	if (!sk)
		return false;
	if (bpf_core_field_exists(((struct sock___groups *)0)->sk_cgrp_data.classid))
		*class = BYTES_AT(sk + bpf_core_field_offset(
					       ((struct sock___groups *)0)->sk_cgrp_data.classid))
				 ->in6_u.u6_addr32[0];
	return true;
}

/* Whether the socket is in a control group: 1, 0, or -1 without a socket. */
static __always_inline int facts_control_group(const struct weir_seen *seen, __u32 level, __u64 id)
{
	__u64 sk, group, above;

	if (weir_testing) {
		const struct weir_facts *f = facts_told();

		if (!f || !f->control_group_count)
			return -1;
		for (int i = 0; i < 3; i++) {
			if (i == level)
				return i < f->control_group_count && f->control_groups[i] == id;
		}
		return 0;
	}
	sk = facts_full_socket(seen);
	if (!sk || !bpf_core_field_exists(((struct sock___groups *)0)->sk_cgrp_data.cgroup))
		return -1;
	group = word_at(sk +
			bpf_core_field_offset(((struct sock___groups *)0)->sk_cgrp_data.cgroup));
	if (!group)
		return 0;
	if (BYTES_AT(group + bpf_core_field_offset(((struct cgroup___local *)0)->level))
		    ->in6_u.u6_addr32[0] < level)
		return 0;
	above = word_at(group + bpf_core_field_offset(((struct cgroup___local *)0)->ancestors) +
			level * 8);
	above = word_at(above + bpf_core_field_offset(((struct cgroup___local *)0)->kn));
	return word_at(above + bpf_core_field_offset(((struct kernfs_node___local *)0)->id)) == id;
}

static __always_inline __u32 facts_device_group(const struct weir_seen *seen, bool out)
{
	__u64 device = out ? seen->out : seen->in;

	if (weir_testing) {
		const struct weir_facts *f = facts_told();

		return !f ? 0 : out ? f->device_groups[1] : f->device_groups[0];
	}
	if (!device)
		return 0;
	return BYTES_AT(device + bpf_core_field_offset(((struct net_device___index *)0)->group))
		->in6_u.u6_addr32[0];
}

static __always_inline __u32 facts_realm(const struct weir_seen *seen)
{
	__u64 dst;

	if (weir_testing) {
		const struct weir_facts *f = facts_told();

		return f ? f->realm : 0;
	}
	dst = SKB_AT(seen->skb)->_skb_refdst & DST_POINTER;
	if (!dst || !bpf_core_field_exists(((struct dst_entry___realm *)0)->tclassid))
		return 0;
	return BYTES_AT(dst + bpf_core_field_offset(((struct dst_entry___realm *)0)->tclassid))
		->in6_u.u6_addr32[0];
}

/* The interface of a number, by the kernel's own table; 0: none. */
static __always_inline __u64 facts_device(const struct weir_seen *seen, __u32 ifindex)
{
	__u32 link = bpf_core_field_offset(((struct net_device___index *)0)->index_hlist);
	__u64 any = seen->in ? seen->in : seen->out, net, node;

	if (!any || !ifindex)
		return 0;
	net = word_at(any + bpf_core_field_offset(((struct net_device___index *)0)->nd_net.net));
	node = word_at(net + bpf_core_field_offset(((struct net___local *)0)->dev_index_head));
	node = word_at(node + (ifindex & (WEIR_INDEX_HASH - 1)) * 8);
	for (int i = 0; i < WEIR_INDEX_STEPS; i++) {
		if (!node)
			break;
		if (DEVICE_AT(node - link)->ifindex == ifindex)
			return node - link;
		node = word_at(node);
	}
	return 0;
}

/* The port by which a bridge got the packet or passes it on, as an address; 0: none. */
static __always_inline __u64 facts_port_device(const struct weir_seen *seen, bool out)
{
	const struct sk_buff___local *skb = SKB_AT(seen->skb);
	__u32 id;
	__u64 ext, bridge;

	if (!bpf_core_field_exists(skb->active_extensions) ||
	    !bpf_core_enum_value_exists(enum skb_ext_id___bridge, SKB_EXT_BRIDGE_NF___bridge))
		return 0;
	id = bpf_core_enum_value(enum skb_ext_id___bridge, SKB_EXT_BRIDGE_NF___bridge);
	if (!(skb->active_extensions & 1 << id))
		return 0;
	ext = word_at((__u64)skb + bpf_core_field_offset(((struct sk_buff___ext *)0)->extensions));
	/* Its place, in units of 8 bytes. */
	bridge = ext + 8 * (word_at(ext + bpf_core_field_offset(
						   ((struct skb_ext___local *)0)->offset) +
				    id) & 0xff);
	if (out)
		return word_at(bridge + bpf_core_field_offset(
						((struct nf_bridge_info___local *)0)->physoutdev));
	if (bpf_core_field_exists(((struct nf_bridge_info___pointer *)0)->physindev))
		return word_at(bridge + bpf_core_field_offset(
						((struct nf_bridge_info___pointer *)0)->physindev));
	return facts_device(seen, BYTES_AT(bridge + bpf_core_field_offset(
				((struct nf_bridge_info___local *)0)->physinif))->in6_u.u6_addr32[0]);
}

/* The name of such a port, zero-padded; false: there is none. */
static __always_inline bool facts_port(const struct weir_seen *seen, bool out, __u64 name[2])
{
	const __u64 *from;
	__u64 device;

	name[0] = name[1] = 0;
	if (weir_testing) {
		const struct weir_facts *f = facts_told();

		if (!f || !(f->known & WEIR_KNOWN_BRIDGE))
			return false;
		from = (const __u64 *)(out ? f->ports[1] : f->ports[0]);
		name[0] = from[0];
		name[1] = from[1];
		return name[0];
	}
	device = facts_port_device(seen, out);
	if (!device)
		return false;
	from = (const __u64 *)&DEVICE_AT(device)->name[0];
	name[0] = before_zero(from[0]);
	name[1] = name[0] >> 56 ? before_zero(from[1]) : 0;
	return true;
}

#endif
