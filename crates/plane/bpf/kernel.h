/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel structures that the programs read, by name and field only: libbpf puts in the
 * offsets of the running kernel (CO-RE). Reads through bpf_rdonly_cast are checked for type and
 * guarded against faults; they never write.
 */
#ifndef WEIR_KERNEL_H
#define WEIR_KERNEL_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#define __relocated __attribute__((preserve_access_index))
#define barrier() asm volatile("" ::: "memory")
/*
 * A value within a constant mask, by an instruction that compilers can't leave out. They do where a
 * comparison of the lower half says the same, and before 6.10 the verifier then knows nothing of
 * the upper half.
 */
#define WITHIN(value, mask) ({                                                                     \
	__u64 within = (value);                                                                    \
	asm volatile("%0 &= %1" : "+r"(within) : "i"(mask));                                       \
	within; })

struct kuid_t___local { __u32 val; } __relocated;
struct cred___local { struct kuid_t___local fsuid; struct kuid_t___local fsgid; } __relocated;
struct file___local { const struct cred___local *f_cred; } __relocated;
struct socket___local { struct file___local *file; } __relocated;
struct atomic64_t___local { __s64 counter; } __relocated;
struct sock_common___local {
	unsigned char skc_state;
	struct atomic64_t___local skc_cookie;
	struct sock___local *skc_listener;
} __relocated;
struct sock___local {
	struct sock_common___local __sk_common;
	struct socket___local *sk_socket;
} __relocated;
struct net_device___local {
	char name[16];
	int ifindex;
	unsigned short type;
	unsigned short hard_header_len;
	unsigned int mtu;
	unsigned int flags;
	unsigned long priv_flags : 32;	/* not a bit field before 6.9 */
} __relocated;
/* Of the kernel's own connection tracking only offsets are asked for. */
union nf_inet_addr___local { __u32 all[4]; } __relocated;
union nf_conntrack_man_proto___local { __u16 all; } __relocated;
struct nf_conntrack_man___local {
	union nf_inet_addr___local u3;
	union nf_conntrack_man_proto___local u;
} __relocated;
struct nf_conntrack_tuple___local {
	struct nf_conntrack_man___local src;
	struct {
		union nf_inet_addr___local u3;
		union {
			__u16 all;
		} u;
		__u8 protonum;
	} dst;
} __relocated;
struct nf_conntrack_tuple_hash___local {
	struct nf_conntrack_tuple___local tuple;
} __relocated;
struct nf_conn___local {
	struct nf_conntrack_tuple_hash___local tuplehash[2];
	unsigned long status;
} __relocated;
struct xfrm_state___local;
struct dst_entry___local { struct xfrm_state___local *xfrm; } __relocated;
enum skb_ext_id___local { SKB_EXT_SEC_PATH___local = 1 };
struct sk_buff___local {
	struct net_device___local *dev;
	unsigned long _nfct;
	unsigned long _skb_refdst;
	__u8 active_extensions;
	struct sock___local *sk;
	unsigned int len;
	unsigned int data_len;
	__u32 mark;
	__u16 mac_header;
	__u16 network_header;
	unsigned char *head;
	unsigned char *data;
	unsigned char __pkt_type_offset[0];
	__u8 ip_summed : 2;
	__u32 csum;
} __relocated;
struct hlist_node___local { void *next; } __relocated;
struct hlist_head___local { void *first; } __relocated;
struct nf_hook_state___local {
	__u8 hook;
	__u8 pf;
	struct net_device___local *in;
	struct net_device___local *out;
} __relocated;
struct bpf_nf_ctx___local {
	const struct nf_hook_state___local *state;
	struct sk_buff___local *skb;
};

/* Headers, and sixteen bytes of anything (struct in6_addr) for reads at odd places. */
struct iphdr___local {
	__u8 tos;
	__u16 tot_len;
	__u16 frag_off;
	__u8 ttl;
	__u8 protocol;
	__u32 saddr;
	__u32 daddr;
} __relocated;
struct in6_addr___local {
	union {
		__u8 u6_addr8[16];
		__u16 u6_addr16[8];
		__u32 u6_addr32[4];
	} in6_u;
} __relocated;
struct ipv6hdr___local {
	__u16 payload_len;
	__u8 nexthdr;
	__u8 hop_limit;
	struct in6_addr___local saddr;
	struct in6_addr___local daddr;
} __relocated;

extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym;
extern void *bpf_cast_to_kern_ctx(void *obj) __ksym;
extern int bpf_dynptr_from_skb(struct sk_buff___local *skb, __u64 flags,
			       struct bpf_dynptr *ptr) __ksym;

/* Bytes at an address that is a number to the verifier. */
#define BYTES_AT(a) ((const struct in6_addr___local *)bpf_rdonly_cast( \
	(const void *)(a), bpf_core_type_id_kernel(struct in6_addr___local)))

/* A structure at one. */
#define KERNEL_AT(type, a) ((struct type *)bpf_rdonly_cast( \
	(const void *)(a), bpf_core_type_id_kernel(struct type)))

/* A pointer in the kernel's memory as a number, which functions of their own take. */
static __always_inline __u64 number_at(__u64 address)
{
	const struct in6_addr___local *bytes = BYTES_AT(address);
	__u32 word[2] = { bytes->in6_u.u6_addr32[0], bytes->in6_u.u6_addr32[1] };

	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? (__u64)word[1] << 32 | word[0] :
							   (__u64)word[0] << 32 | word[1];
}

#define AF_INET 2
#define AF_INET6 10
#define NF_DROP 0
#define NF_ACCEPT 1

#endif
