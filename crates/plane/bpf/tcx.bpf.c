/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The program on the way out of every interface, attached when rules change headers, marks or
 * priorities: netfilter programs cannot write packets, so they leave what is to be done in the map
 * handoff under the address of the sk_buff, and here it is done.
 */
#include "maps.h"
#include "edit.h"

#define TCX_NEXT -1
#define TCX_DROP 2

/* Offset of the transport header of a TCP packet without extension headers, else 0. */
static __always_inline __u32 tcp_offset(struct __sk_buff *skb, __u32 at, __u8 family)
{
	__u8 first = 0, proto = 0;

	if (bpf_skb_load_bytes(skb, at, &first, 1) ||
	    bpf_skb_load_bytes(skb, at + (family == 4 ? 9 : 6), &proto, 1) || proto != IPPROTO_TCP)
		return 0;
	return at + (family == 4 ? (first & 15) * 4 : 40);
}

SEC("tcx/egress")
int weir_egress(struct __sk_buff *skb)
{
	struct sk_buff___local *kernel = bpf_cast_to_kern_ctx(skb);
	__u64 key = (__u64)kernel, network;
	struct weir_handoff *found, h;
	__u32 at, mtu;

	found = bpf_map_lookup_elem(&handoff, &key);
	if (!found)
		return TCX_NEXT;
	h = *found;
	bpf_map_delete_elem(&handoff, &key);
	network = (__u64)kernel->data;
	asm volatile("%0 -= %1" : "+r"(network) : "r"((__u64)kernel->head));
	at = kernel->network_header - (__u32)network;
	if (at > 64 || skb->len - at != h.length)
		return TCX_NEXT;
	mtu = kernel->dev->mtu;
	if (h.edits & WEIR_EDIT_MARK)
		skb->mark = h.mark;
	if (h.edits & WEIR_EDIT_PRIORITY)
		skb->priority = h.priority;
	if (h.edits & WEIR_EDIT_TOS && edit_tos(skb, at, &h))
		return TCX_DROP;
	if (h.edits & WEIR_EDIT_TTL && edit_ttl(skb, at, &h))
		return TCX_DROP;
	if (h.edits & WEIR_EDIT_MSS) {
		__u32 tcp = tcp_offset(skb, at, h.family);

		if (tcp && edit_mss(skb, tcp, mtu, &h))
			return TCX_DROP;
	}
	return TCX_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
