/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a packet's bytes do not say: interfaces, link header, owner of the sending socket. Read
 * from kernel structures only where a rule or a record asks for them.
 *
 * Everything here takes `struct weir_seen`, whose pointers are plain numbers, so that functions
 * verified on their own can use it.
 */
#ifndef WEIR_META_H
#define WEIR_META_H

#include "maps.h"
#include "parse.h"

/* Where a packet was met, as numbers. */
struct weir_seen {
	__u64 skb;
	__u64 in;		/* struct net_device, or 0 */
	__u64 out;
	struct weir_bytes bytes;
	__u32 wrong_sum;	/* the checksum of its transport header: learned_sum.h */
};

/* Copy headers that the driver left outside the linear part to where they can be read. */
static __attribute__((unused)) __noinline int meta_copy(struct sk_buff___local *skb,
							struct weir_scratch *s)
{
	__u32 length = skb->len;
	struct bpf_dynptr whole;

	if (length > WEIR_SCRATCH_COPY)
		length = WEIR_SCRATCH_COPY;
	if (!length || bpf_dynptr_from_skb(skb, 0, &whole) ||
	    bpf_dynptr_read(s->copy, length, &whole, 0, 0))
		return 0;
	return length;
}

#define SKB_AT(a) ((struct sk_buff___local *)bpf_rdonly_cast( \
	(const void *)(a), bpf_core_type_id_kernel(struct sk_buff___local)))
#define DEVICE_AT(a) ((struct net_device___local *)bpf_rdonly_cast( \
	(const void *)(a), bpf_core_type_id_kernel(struct net_device___local)))

#define SOCKET_AT(a) ((struct sock___local *)bpf_rdonly_cast( \
	(const void *)(a), bpf_core_type_id_kernel(struct sock___local)))

#define MET_AT(a) ((const struct nf_hook_state___local *)bpf_rdonly_cast( \
	(const void *)(a), bpf_core_type_id_kernel(struct nf_hook_state___local)))

#define ARPHRD_ETHER 1
#define NO_MAC_HEADER 0xffff
#define TCP_TIME_WAIT 6
#define TCP_NEW_SYN_RECV 12

/* The bytes of a little-endian word before its first zero byte. */
static __always_inline __u64 before_zero(__u64 word)
{
	__u64 zeros = (word - 0x0101010101010101ULL) & ~word & 0x8080808080808080ULL;

	return zeros ? word & (((zeros & -zeros) >> 7) - 1) : word;
}

/*
 * The 16 bytes of an interface's name, zero-padded; zeros for no interface. After a renaming the
 * kernel has old text behind the name.
 */
static __always_inline void meta_name(const struct weir_seen *seen, bool out, __u64 name[2])
{
	__u64 address = out ? seen->out : seen->in;

	name[0] = 0;
	name[1] = 0;
	if (weir_testing) {
		struct weir_control *c = weir_get_control();

		if (c) {
			const __u64 *from = (const __u64 *)(out ? c->test.out_name : c->test.in_name);

			name[0] = from[0];
			name[1] = from[1];
		}
		return;
	}
	if (address) {
		const __u64 *from = (const __u64 *)&DEVICE_AT(address)->name[0];

		name[0] = before_zero(from[0]);
		name[1] = name[0] >> 56 ? before_zero(from[1]) : 0;
	}
}

/* Bytes of link header before the network header; 0 when there is none. */
static __always_inline __u32 meta_link(const struct sk_buff___local *skb)
{
	/* From the start of the buffer: at tcx, skb->data is where the link header begins. */
	__u32 link = skb->mac_header, network = skb->network_header;

	if (link == NO_MAC_HEADER || link >= network)
		return 0;
	return network - link;
}

/* Source Ethernet address as a 48-bit number, or all ones when there is none. */
static __always_inline __u64 meta_mac(const struct weir_seen *seen)
{
	const struct sk_buff___local *skb;
	const struct in6_addr___local *h;
	__u32 length;

	if (weir_testing) {
		struct weir_control *c = weir_get_control();

		return c ? c->test.mac : ~0ULL;
	}
	skb = SKB_AT(seen->skb);
	length = meta_link(skb);
	if (length < 14 || !skb->dev || skb->dev->type != ARPHRD_ETHER)
		return ~0ULL;
	h = BYTES_AT(seen->bytes.base - length);
	return (__u64)bpf_ntohs(h->in6_u.u6_addr16[3]) << 32 |
	       (__u64)bpf_ntohs(h->in6_u.u6_addr16[4]) << 16 | bpf_ntohs(h->in6_u.u6_addr16[5]);
}

/* The full socket that sends the packet, or NULL. */
static __always_inline struct sock___local *meta_socket(const struct sk_buff___local *skb)
{
	struct sock___local *sk = skb->sk;

	if (!sk)
		return NULL;
	if (sk->__sk_common.skc_state == TCP_TIME_WAIT)
		return NULL;
	if (sk->__sk_common.skc_state == TCP_NEW_SYN_RECV)
		return SOCKET_AT(sk->__sk_common.skc_listener);
	return sk;
}

/* Whether a socket with an owner sends the packet, and who that is. */
static __always_inline bool meta_owner(const struct weir_seen *seen, __u32 *uid, __u32 *gid)
{
	struct sock___local *sk;
	struct file___local *file;

	*uid = *gid = 0;
	if (weir_testing) {
		struct weir_control *c = weir_get_control();

		if (!c)
			return false;
		*uid = c->test.uid;
		*gid = c->test.gid;
		return c->test.has_owner;
	}
	sk = meta_socket(SKB_AT(seen->skb));
	if (!sk || !sk->sk_socket)
		return false;
	file = sk->sk_socket->file;
	if (!file)
		return false;
	*uid = file->f_cred->fsuid.val;
	*gid = file->f_cred->fsgid.val;
	return true;
}

static __always_inline __u8 meta_packet_type(const struct sk_buff___local *skb)
{
	return *(const __u8 *)&skb->__pkt_type_offset & 7;
}

/* Who has looked at the checksum of the transport header: enum weir_summed. */
static __always_inline __u32 meta_summed(const struct sk_buff___local *skb)
{
	if (weir_testing) {
		struct weir_control *c = weir_get_control();

		return c ? c->test.summed : WEIR_SUMMED_NONE;
	}
	return BPF_CORE_READ_BITFIELD(skb, ip_summed);
}

#define DST_AT(a) ((struct dst_entry___local *)bpf_rdonly_cast( \
	(const void *)(a), bpf_core_type_id_kernel(struct dst_entry___local)))
/* Low bits of sk_buff._nfct are the direction, of _skb_refdst whether it is counted. */
#define NFCT_POINTER (~7ULL)
#define DST_POINTER (~1ULL)
#define IPS_SRC_NAT (1 << 4)
#define IPS_DST_NAT (1 << 5)

/*
 * What the kernel does with the packet beside us, enum weir_handling. The kernel's connection
 * tracking may be a module, whose types bpf_rdonly_cast does not know: its status is read as bytes.
 */
static __always_inline __u32 meta_handling(const struct weir_seen *seen)
{
	const struct sk_buff___local *skb;
	__u32 handling = 0, status;
	__u64 address;

	if (weir_testing) {
		struct weir_control *c = weir_get_control();

		return c ? c->test.handling : 0;
	}
	skb = SKB_AT(seen->skb);
	if (bpf_core_field_exists(skb->_nfct) &&
	    bpf_core_field_exists(((struct nf_conn___local *)0)->status)) {
		address = skb->_nfct & NFCT_POINTER;
		if (address) {
			address += bpf_core_field_offset(((struct nf_conn___local *)0)->status);
			status = BYTES_AT(address)->in6_u.u6_addr32[0];
			handling |= status & IPS_SRC_NAT ? WEIR_SOURCE_TRANSLATED : 0;
			handling |= status & IPS_DST_NAT ? WEIR_DESTINATION_TRANSLATED : 0;
		}
	}
	if (bpf_core_field_exists(skb->active_extensions) &&
	    bpf_core_enum_value_exists(enum skb_ext_id___local, SKB_EXT_SEC_PATH___local) &&
	    skb->active_extensions & 1 << bpf_core_enum_value(enum skb_ext_id___local,
							      SKB_EXT_SEC_PATH___local))
		handling |= WEIR_IPSEC_IN;
	if (bpf_core_field_exists(((struct dst_entry___local *)0)->xfrm)) {
		address = skb->_skb_refdst & DST_POINTER;
		if (address && DST_AT(address)->xfrm)
			handling |= WEIR_IPSEC_OUT;
	}
	return handling;
}

/* Whether the answer process sends the packet. */
static __always_inline bool meta_is_answer(const struct sk_buff___local *skb,
					   const struct weir_control *c)
{
	struct sock___local *sk = skb->sk;
	__u64 cookie;

	if (!sk || !c->answering)
		return false;
	cookie = sk->__sk_common.skc_cookie.counter;
	return cookie && (cookie == c->answer_cookie[0] || cookie == c->answer_cookie[1]);
}

#endif
