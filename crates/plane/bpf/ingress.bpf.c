/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The program on the way in of every interface, attached when rules of PREROUTING set marks: policy
 * routing reads the mark after that hook, and a netfilter program cannot write it. raw and mangle
 * of PREROUTING are judged here instead, and the hook is told so (judged.h).
 *
 * Only packets that will surely come to the hook are judged here, so that nothing is counted that
 * iptables would not see. Others are left to the hook, where their mark comes too late for routing:
 * fragments, which are put together in between (sound.h).
 */
#include "maps.h"
#include "flow.h"
#include "meta.h"
#include "parse.h"
#include "report.h"
#include "walk.h"
#include "classes.h"
#include "judge.h"
#include "sound.h"
#include "translated.h"

#define TCX_NEXT -1
#define TCX_DROP 2
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define VLAN_ID 0xfff
#define PACKET_OTHERHOST 3
#define HEADERS 256	/* bytes that are made readable */

/* Whether the packet is received by this very interface, for this host or to be forwarded. */
static __always_inline bool is_received(struct __sk_buff *skb, const struct sk_buff___local *kernel)
{
	if (meta_packet_type(kernel) == PACKET_OTHERHOST)
		return false;
	if (skb->vlan_present && skb->vlan_tci & VLAN_ID)
		return false;
	return device_receives(kernel->dev);
}

/* The packet's bytes as they are now. False: the network header is not where it can be read. */
static __always_inline bool find_bytes(const struct sk_buff___local *kernel, struct walk *w)
{
	__u32 at, linear = kernel->len - kernel->data_len;
	__u64 network = (__u64)kernel->data;

	asm volatile("%0 -= %1" : "+r"(network) : "r"((__u64)kernel->head));
	at = kernel->network_header - (__u32)network;
	if (at > 64 || linear < at)
		return false;
	w->seen.skb = (__u64)kernel;
	w->seen.in = (__u64)kernel->dev;
	w->seen.bytes.base = (__u64)kernel->data + at;
	w->seen.bytes.wire = kernel->len - at;
	w->seen.bytes.have = linear - at;
	return true;
}

/* The packet where the hook will meet it. False: leave it to the hook. */
static __always_inline bool see(struct __sk_buff *skb, struct sk_buff___local *kernel,
				struct weir_control *c, struct walk *w)
{
	bool v4 = skb->protocol == bpf_htons(ETH_P_IP);
	int broken;

	if (!find_bytes(kernel, w))
		return false;
	if (weir_may(WEIR_FEATURE_PAYLOAD) && kernel->data_len &&
	    (bpf_skb_pull_data(skb, skb->len) || !find_bytes(kernel, w)))
		return false;
	w->seen.bytes.zero = c->zero;
	if (v4)
		broken = parse_ipv4(&w->seen.bytes, 0, false, &w->packet);
	else
		broken = parse_ipv6(&w->seen.bytes, 0, false, &w->packet);
	if (weir_may(WEIR_FEATURE_CHUNKS) && kernel->data_len && w->packet.proto == IPPROTO_SCTP) {
		if (bpf_skb_pull_data(skb, skb->len) || !find_bytes(kernel, w))
			return false;
		broken = weir_parse_again(&w->seen.bytes, &w->packet, v4 ? 4 : 6);
	} else if (kernel->data_len && (broken || w->packet.transport == WEIR_TRANSPORT_SHORT)) {
		if (bpf_skb_pull_data(skb, skb->len < HEADERS ? skb->len : HEADERS) ||
		    !find_bytes(kernel, w))
			return false;
		broken = weir_parse_again(&w->seen.bytes, &w->packet, v4 ? 4 : 6);
	}
	w->packet.hook = WEIR_HOOK_PREROUTING ^ c->zero;
	w->packet.mark = skb->mark;
	w->packet.packet_type = meta_packet_type(kernel);
	return !broken && is_sound(&w->packet, &w->seen);
}

struct bpf_ct_opts___local {
	__s32 netns_id;
	__s32 error;
	__u8 l4proto;
	__u8 dir;		/* told: the direction found */
	__u8 reserved[2];
};

/* Not there while the kernel's connection tracking is a module that nothing has loaded. */
extern struct nf_conn___local *bpf_skb_ct_lookup(struct __sk_buff *skb,
						 struct bpf_sock_tuple *tuple, __u32 tuple_size,
						 struct bpf_ct_opts___local *opts,
						 __u32 opts_size) __ksym __weak;
extern void bpf_ct_release(struct nf_conn___local *ct) __ksym __weak;

/* Where later hooks see a TCP or UDP packet go, asked of the kernel's tracking: enum weir_end. */
static __noinline int later_end(struct __sk_buff *skb, struct walk *w)
{
	struct bpf_ct_opts___local opts = { .netns_id = BPF_F_CURRENT_NETNS };
	const struct weir_packet *p = &w->packet;
	struct bpf_sock_tuple tuple = {};
	struct nf_conn___local *ct;
	int end = WEIR_END_SAME;
	__u64 address;

	if (!bpf_ksym_exists(bpf_skb_ct_lookup) || !translated_knows())
		return WEIR_END_SAME;
	opts.l4proto = p->proto;
	if (p->family == 4) {
		tuple.ipv4.saddr = bpf_htonl(p->src[1]);
		tuple.ipv4.daddr = bpf_htonl(p->dst[1]);
		tuple.ipv4.sport = bpf_htons(p->src_port);
		tuple.ipv4.dport = bpf_htons(p->dst_port);
		ct = bpf_skb_ct_lookup(skb, &tuple, sizeof(tuple.ipv4), &opts, sizeof(opts));
	} else {
		for (int i = 0; i < 2; i++) {
			tuple.ipv6.saddr[i * 2] = bpf_htonl(p->src[i] >> 32);
			tuple.ipv6.saddr[i * 2 + 1] = bpf_htonl(p->src[i]);
			tuple.ipv6.daddr[i * 2] = bpf_htonl(p->dst[i] >> 32);
			tuple.ipv6.daddr[i * 2 + 1] = bpf_htonl(p->dst[i]);
		}
		tuple.ipv6.sport = bpf_htons(p->src_port);
		tuple.ipv6.dport = bpf_htons(p->dst_port);
		ct = bpf_skb_ct_lookup(skb, &tuple, sizeof(tuple.ipv6), &opts, sizeof(opts));
	}
	if (!ct)
		return WEIR_END_SAME;
	address = (__u64)ct;
	if (is_translated(address))
		end = other_end(w, address, opts.dir, true);
	bpf_ct_release(ct);
	return end;
}

/*
 * Connection tracking, before the kernel has translated anything. Where that leaves open what later
 * hooks will find, they look themselves.
 */
static __always_inline void track_received(struct __sk_buff *skb, struct walk *w,
					   struct weir_control *c, struct weir_packet *about,
					   __u32 bits)
{
	bool asked = w->packet.transport == WEIR_TRANSPORT_TCP ||
		     w->packet.transport == WEIR_TRANSPORT_UDP;
	int end;

	track(w, c, about, false, bits);
	if (!(bits & WEIR_POLICY_EARLY_STATE) || w->packet.state & ~(WEIR_STATE_NEW | WEIR_STATE_INVALID))
		return;
	if (!asked) {
		if (w->packet.transport != WEIR_TRANSPORT_ICMP ||
		    w->packet.state == WEIR_STATE_INVALID)
			w->handoff.state = 0;
		return;
	}
	end = later_end(skb, w);
	if (end != WEIR_END_OTHER)
		return;
	w->handoff.state = 0;
	weir_turn(w, end);
	track(w, c, about, false, bits);
	weir_turn(w, end);
}

/* Tell the hook what became of the packet. */
static __noinline void tell(struct __sk_buff *skb, struct weir_control *c, struct walk *w,
				 __u8 tos)
{
	struct weir_judged j = {
		.since_ms = w->now_ms,
		.ifindex = skb->ifindex,
		.length = w->packet.length,
		.slot = w->slot,
		.generation = c->slot_generation[w->slot & 1],
	};
	__u64 key = w->seen.bytes.base;

	/* The mark is in the packet itself. */
	j.handoff = w->handoff;
	j.handoff.edits &= ~WEIR_EDIT_MARK;
	if (w->packet.tos != tos) {
		j.handoff.edits |= WEIR_EDIT_TOS;
		j.handoff.tos_mask = 0xff;
		j.handoff.tos_value = w->packet.tos;
	}
	j.handoff.connmark = w->flow.found == FLOW_FOUND_NEW ? w->flow.mark : 0;
	j.handoff.family = w->packet.family;
	j.handoff.mtu = DEVICE_AT(w->seen.in)->mtu > 0xffff ? 0xffff : DEVICE_AT(w->seen.in)->mtu;
	if (bpf_map_update_elem(&judged, &key, &j, BPF_ANY))
		weir_reason(WEIR_REASON_HANDOFF);
	if (skb->mark != w->packet.mark)
		skb->mark = w->packet.mark;
}

static __always_inline int judge_received(struct __sk_buff *skb, struct sk_buff___local *kernel,
					  struct weir_control *c, struct weir_scratch *s)
{
	struct walk *w = (struct walk *)s->walk;
	int verdict = WEIR_VERDICT_ACCEPT;
	const __u8 *image;
	__u32 bits;
	__u64 key;
	__u8 tos;

	__builtin_memset(w, 0, sizeof(*w));
	w->slot = c->active & 1;
	w->deciding = ~0;
	bits = c->slot_hooks[w->slot & 1];
	image = weir_image(w->slot);
	if (!image || !(bits & WEIR_POLICY_INGRESS))
		return TCX_NEXT;
	if (!see(skb, kernel, c, w)) {
		/* What was said of a packet that was here before is not of this one. */
		key = w->seen.bytes.base;
		bpf_map_delete_elem(&judged, &key);
		return TCX_NEXT;
	}
	if (!((w->packet.family == 6 ? bits >> 8 : bits) & WEIR_AT_PREROUTING))
		return TCX_NEXT;
	w->now_ms = weir_now(c);
	tos = w->packet.tos;
	classes(image, &w->seen, w->slot, c->slot_generation[w->slot & 1], &w->packet);
	w->packet.state = WEIR_STATE_INVALID;
	verdict = walk_table(image, WEIR_TABLE_RAW, w);
	if (verdict == WEIR_VERDICT_ACCEPT) {
		track_received(skb, w, c, &s->about, bits);
		verdict = walk_table(image, WEIR_TABLE_MANGLE, w);
	}
	if (verdict != WEIR_VERDICT_ACCEPT) {
		key = w->seen.bytes.base;
		bpf_map_delete_elem(&judged, &key);
		__sync_fetch_and_add(&c->reasons[WEIR_REASON_RULE], 1);
		return TCX_DROP;
	}
	tell(skb, c, w, tos);
	return TCX_NEXT;
}

SEC("tcx/ingress")
int weir_ingress(struct __sk_buff *skb)
{
	struct sk_buff___local *kernel = bpf_cast_to_kern_ctx(skb);
	struct weir_control *c = weir_get_control();
	struct weir_scratch *s;
	int verdict;

	if (skb->protocol != bpf_htons(ETH_P_IP) && skb->protocol != bpf_htons(ETH_P_IPV6))
		return TCX_NEXT;
	if (!c || !is_received(skb, kernel))
		return TCX_NEXT;
	s = weir_scratch_take();
	if (!s) {
		weir_reason(WEIR_REASON_SCRATCH);
		return TCX_DROP;
	}
	verdict = judge_received(skb, kernel, c, s);
	weir_scratch_give(s);
	return verdict;
}

char _license[] SEC("license") = "Dual BSD/GPL";
