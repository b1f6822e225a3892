/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The programs on the way in and out of every interface that judge Ethernet frames, where a policy
 * of ipfw has a pass for these (net.link.ether.ipfw): ahead of IP for what is received, behind it for
 * what is sent. Their roots are those of the table raw at INPUT and POSTROUTING, where nothing else
 * has any (model::Root). What rules change of a packet is changed here, so that the next pass sees
 * it.
 *
 * Frames of interfaces that are no Ethernet (lo, tunnels) and those to other hosts are left alone.
 * Sources: IEEE 802.3, 802.1Q; ipfw(8), "packet flow".
 */
#define WEIR_FRAMES
#include "maps.h"
#include "flow.h"
#include "meta.h"
#include "parse.h"
#include "report.h"
#include "testing.h"
#include "walk.h"
#include "classes.h"
#include "edit.h"
#include "refuse.h"

#define TCX_NEXT -1
#define TCX_DROP 2
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define ETHERNET 14	/* bytes of header without tags */
#define TAG 4
#define TAGS_MAX 2
#define HEADERS 256	/* bytes that are made readable */
#define PACKET_OTHERHOST 3

static __always_inline bool is_tag(__u16 kind)
{
	return kind == 0x8100 || kind == 0x88a8 || kind == 0x9100;
}

/* The frame's header; where what it holds begins, 0: it has no whole header. */
static __always_inline __u32 read_header(struct __sk_buff *skb, struct weir_frame *f)
{
	__u32 at = ETHERNET, tags = skb->vlan_present ? 1 : 0;
	__u16 words[7], kind;

	if (bpf_skb_load_bytes(skb, 0, words, sizeof(words)))
		return 0;
	for (int i = 0; i < 3; i++) {
		f->address[0] = f->address[0] << 16 | bpf_ntohs(words[i]);
		f->address[1] = f->address[1] << 16 | bpf_ntohs(words[i + 3]);
	}
	kind = bpf_ntohs(words[6]);
	/* One tag may have been taken off already. */
	for (int i = 0; i < TAGS_MAX; i++) {
		if (i + tags >= TAGS_MAX || !is_tag(kind) ||
		    bpf_skb_load_bytes(skb, at + 2, words, 2))
			break;
		kind = bpf_ntohs(words[0]);
		at += TAG;
	}
	f->kind = kind;
	return at;
}

static __always_inline bool find_bytes(const struct sk_buff___local *kernel, struct walk *w,
				       __u32 at)
{
	__u32 linear = kernel->len - kernel->data_len;

	if (linear < at)
		return false;
	w->seen.skb = (__u64)kernel;
	w->seen.bytes.base = (__u64)kernel->data + at;
	w->seen.bytes.wire = kernel->len - at;
	w->seen.bytes.have = linear - at;
	return true;
}

/* The IP packet in the frame. False: there is none that a host would take in. */
static __always_inline bool read_packet(struct walk *w)
{
	__u32 version;

	if ((w->frame.kind != ETH_P_IP && w->frame.kind != ETH_P_IPV6) || !w->seen.bytes.have)
		return false;
	version = BYTES_AT(w->seen.bytes.base)->in6_u.u6_addr8[0] >> 4;
	if ((version != 4 && version != 6) ||
	    weir_parse_again(&w->seen.bytes, &w->packet, version))
		return false;
	return version == 6 || w->packet.transport_offset <= w->seen.bytes.wire;
}

/* The frame as rules see it. False: it can't be read. */
static __always_inline bool see(struct __sk_buff *skb, struct sk_buff___local *kernel,
				struct weir_control *c, struct walk *w, bool out)
{
	__u32 at = read_header(skb, &w->frame), wanted = skb->len;

	if (!at)
		return false;
	if (!weir_may(WEIR_FEATURE_PAYLOAD) && wanted > HEADERS)
		wanted = HEADERS;
	if (kernel->len - kernel->data_len < wanted && bpf_skb_pull_data(skb, wanted))
		return false;
	if (!find_bytes(kernel, w, at))
		return false;
	w->seen.bytes.zero = c->zero;
	w->seen.bytes.reading = c->slot_hooks[w->slot & 1] & WEIR_READINGS;
	if (!read_packet(w)) {
		__builtin_memset(&w->packet, 0, sizeof(w->packet));
		w->frame.bare = 1;
		w->packet.family = 4 + c->zero;
		w->packet.length = w->seen.bytes.wire;
		w->packet.fragment = WEIR_FRAGMENT_WHOLE + c->zero;
		w->packet.transport = WEIR_TRANSPORT_NONE + c->zero;
	}
	w->packet.hook = (out ? WEIR_HOOK_POSTROUTING : WEIR_HOOK_INPUT) ^ c->zero;
	w->packet.mark = skb->mark;
	w->packet.packet_type = meta_packet_type(kernel);
	if (weir_testing) {
		w->packet.mark = c->test.mark;
		w->packet.packet_type = c->test.packet_type;
	}
	if (out) {
		w->seen.out = (__u64)kernel->dev;
		if (!weir_testing)
			w->seen.in = facts_device(&w->seen, skb->ingress_ifindex);
	} else {
		w->seen.in = (__u64)kernel->dev;
	}
	return true;
}

/* What rules changed, done. `tos`: what the packet came with. */
static __noinline int change(struct __sk_buff *skb, struct walk *w, __u8 tos)
{
	struct sk_buff___local *kernel = bpf_cast_to_kern_ctx(skb);
	struct weir_handoff h = w->handoff;
	__u32 at = kernel->len - w->seen.bytes.wire;

	if (weir_testing)
		return TCX_NEXT;
	if (skb->mark != w->packet.mark)
		skb->mark = w->packet.mark;
	if (w->frame.bare)
		return TCX_NEXT;
	h.family = w->packet.family;
	h.tos_mask = 0xff;
	h.tos_value = w->packet.tos;
	if (w->packet.tos != tos && edit_tos(skb, at, &h))
		return TCX_DROP;
	if (h.edits & WEIR_EDIT_MSS && w->packet.transport == WEIR_TRANSPORT_TCP &&
	    edit_mss(skb, at + w->packet.transport_offset, kernel->dev->mtu, &h))
		return TCX_DROP;
	return TCX_NEXT;
}

static __always_inline int judge_seen(struct __sk_buff *skb, struct sk_buff___local *kernel,
				      struct weir_control *c, struct walk *w, bool out)
{
	int verdict = WEIR_VERDICT_ACCEPT;
	const __u8 *image;
	__u32 root;
	__u8 tos;

	_Static_assert(sizeof(struct walk) <= WEIR_SCRATCH_WALK, "a walk fits its place");
	__builtin_memset(w, 0, sizeof(*w));
	w->slot = c->active & 1;
	w->deciding = ~0;
	image = weir_image(w->slot);
	if (!image || !(c->slot_hooks[w->slot & 1] & WEIR_POLICY_FRAMES))
		return TCX_NEXT;
	if (!see(skb, kernel, c, w, out)) {
		__sync_fetch_and_add(&c->reasons[WEIR_REASON_PARSE], 1);
		return TCX_DROP;
	}
	w->now_ms = weir_now(c);
	tos = w->packet.tos;
	classes(image, &w->seen, w->slot, c->slot_generation[w->slot & 1], &w->packet);
	w->packet.state = WEIR_STATE_INVALID;
	root = image_root(image, &w->packet, WEIR_TABLE_RAW);
	if (root)
		verdict = weir_walk(root, w);
	testing_result(c, w, verdict);
	if (verdict != WEIR_VERDICT_ACCEPT) {
		refuse(c, w, verdict);
		return TCX_DROP;
	}
	return change(skb, w, tos);
}

static __always_inline int judge_frame(struct __sk_buff *skb, bool out)
{
	struct sk_buff___local *kernel = bpf_cast_to_kern_ctx(skb);
	struct weir_control *c = weir_get_control();
	struct weir_scratch *s;
	int verdict;

	if (!c)
		return TCX_NEXT;
	if (!weir_testing && (kernel->dev->type != ARPHRD_ETHER ||
			      (!out && meta_packet_type(kernel) == PACKET_OTHERHOST)))
		return TCX_NEXT;
	s = weir_scratch_take();
	if (!s) {
		weir_reason(WEIR_REASON_SCRATCH);
		return TCX_DROP;
	}
	verdict = judge_seen(skb, kernel, c, (struct walk *)s->walk, out);
	weir_scratch_give(s);
	return verdict;
}

SEC("tcx/ingress")
int weir_frames_in(struct __sk_buff *skb)
{
	return judge_frame(skb, false);
}

SEC("tcx/egress")
int weir_frames_out(struct __sk_buff *skb)
{
	return judge_frame(skb, true);
}

char _license[] SEC("license") = "Dual BSD/GPL";
