/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The program on the way in of every interface, first of all, where rules ask whether routing has a
 * way back to a packet's source (-m rpfilter, verrevpath, antispoof): a netfilter program cannot ask
 * the routing tables. What it finds is left in the map ways_back, and written anew by every packet.
 *
 * The kernel answers only for interfaces that forward. Loopback is made one of them (plane::wayback),
 * and asked from there: so does the kernel's own match, which looks up a packet that this host sends.
 * Routes with several next hops: one of them is looked at. Sources: bpf-helpers(7) bpf_fib_lookup,
 * iptables-extensions(8) rpfilter, ipfw(8).
 */
#include "maps.h"
#include "meta.h"
#include "owned.h"

#define TCX_NEXT -1
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define WEIR_FEATURE_REVERSE_PATH (1U << 24)	/* plane::parts::REVERSE_PATH */
#define LOOPBACK 1	/* its number in every namespace */
#define IFF_LOOPBACK (1 << 3)
#define PACKET_LOOPBACK 5

#define FIB_OUTPUT (1U << 1)
#define FIB_SKIP_NEIGHBOUR (1U << 2)
#define FIB_MARK (1U << 5)
#define FIB_FORWARDING_OFF 5
#define FIB_ENCAPSULATED 6
#define FIB_NO_NEIGHBOUR 7
#define FIB_TOO_LARGE 8

#define BOTH (WEIR_ROUTE_BACK | WEIR_ROUTE_BACK_LOOSE)
#define VERIFIED (WEIR_REVERSE_PATH | WEIR_NOT_SPOOFED)

struct headers {
	union {
		struct {
			__u8 start[8];
			__u8 middle[4];
			__u32 saddr;
			__u32 daddr;
		} v4;
		struct {
			__u32 flow;
			__u32 rest;
			__u32 saddr[4];
			__u32 daddr[4];
		} v6;
	};
};

/* One question: enum weir_handling, the way back. */
static __always_inline __u32 ask(struct __sk_buff *skb, struct bpf_fib_lookup *f, __u32 mark,
				 __u32 from, __u32 flags)
{
	long answer;

	f->ifindex = from;
	flags |= FIB_SKIP_NEIGHBOUR;
	if (mark) {
		/* Where newer headers have the member `mark`. */
		__builtin_memcpy(f->smac, &mark, sizeof(mark));
		flags |= FIB_MARK;
	}
	answer = bpf_fib_lookup(skb, f, sizeof(*f), flags);
	if (answer == FIB_FORWARDING_OFF)
		return ~0U;
	if (answer == FIB_ENCAPSULATED)
		return WEIR_ROUTE_BACK_LOOSE;
	if (answer && answer != FIB_NO_NEIGHBOUR && answer != FIB_TOO_LARGE)
		return 0;
	return f->ifindex == skb->ifindex ? BOTH : WEIR_ROUTE_BACK_LOOSE;
}

static __always_inline __u32 look_v4(struct __sk_buff *skb, const struct headers *h, __u32 mark)
{
	__u32 dst = bpf_ntohl(h->v4.daddr);
	struct bpf_fib_lookup f = { .family = AF_INET };
	bool unicast = dst >> 28 != 0xe && dst != 0xffffffff && dst >> 24;
	__u32 found;

	f.tos = h->v4.start[1];
	f.ipv4_dst = h->v4.saddr;
	f.ipv4_src = unicast ? h->v4.daddr : 0;
	found = ask(skb, &f, mark, LOOPBACK, 0);
	return found == ~0U ? 0 : found;
}

static __always_inline void set_v6(struct bpf_fib_lookup *f, const struct headers *h)
{
	__u32 first = bpf_ntohl(h->v6.daddr[0]);
	bool global = first >> 24 != 0xff && first >> 22 != 0xfe80 >> 6;

	__builtin_memset(f, 0, sizeof(*f));
	f->family = AF_INET6;
	f->flowinfo = h->v6.flow & bpf_htonl(0x0fffffff);
	for (int i = 0; i < 4; i++) {
		f->ipv6_dst[i] = h->v6.saddr[i];
		f->ipv6_src[i] = global ? h->v6.daddr[i] : 0;
	}
}

/* A link's own address, which is only known on that link. */
static __always_inline bool is_of_link(const struct headers *h)
{
	return bpf_ntohl(h->v6.saddr[0]) >> 22 == 0xfe80 >> 6;
}

static __always_inline __u32 look_v6(struct __sk_buff *skb, const struct headers *h, __u32 mark)
{
	struct bpf_fib_lookup f;
	__u32 found;

	/* Of several routes, the one out of this interface. */
	set_v6(&f, h);
	found = ask(skb, &f, mark, skb->ifindex, FIB_OUTPUT);
	if (found == ~0U) {
		set_v6(&f, h);
		found = ask(skb, &f, mark, LOOPBACK, 0);
	}
	return found == ~0U ? 0 : found;
}

/* Of a packet of either family. */
static __noinline __u32 look(struct __sk_buff *skb, const struct headers *h, __u32 mark)
{
	return skb->protocol == bpf_htons(ETH_P_IP) ? look_v4(skb, h, mark) : look_v6(skb, h, mark);
}

static __always_inline __u32 ask_v4(struct __sk_buff *skb, const struct headers *h, __u32 mark)
{
	__u32 src = bpf_ntohl(h->v4.saddr), dst = bpf_ntohl(h->v4.daddr);

	/* Hosts that are to learn their address have none yet. */
	if (!(src >> 24) && (dst == 0xffffffff || dst >> 8 == 0xe00000))
		return BOTH;
	return look(skb, h, mark);
}

static __always_inline __u32 ask_v6(struct __sk_buff *skb, const struct headers *h, __u32 mark)
{
	/* The unspecified address is never forwarded. */
	if (!(h->v6.saddr[0] | h->v6.saddr[1] | h->v6.saddr[2] | h->v6.saddr[3]) || is_of_link(h))
		return BOTH;
	return look(skb, h, mark);
}

/*
 * What ipfw's rules ask, of every source and interface. Nobody forwards to an address of the host,
 * so for these the lookup has no answer: their interface is the one that has them.
 */
static __noinline __u32 reverse_path(struct __sk_buff *skb, const struct headers *h, __u32 bits)
{
	struct sk_buff___local *kernel = bpf_cast_to_kern_ctx(skb);
	struct owned_devices all = {};
	__u64 device;
	__u32 found;

	all.wanted.v4 = skb->protocol == bpf_htons(ETH_P_IP);
	if (!all.wanted.v4 && is_of_link(h))
		return VERIFIED;
	found = look(skb, h, 0);
	if (found & WEIR_ROUTE_BACK)
		return VERIFIED;
	for (int i = 0; i < 4; i++)
		all.wanted.address[i] = all.wanted.v4 ? h->v4.saddr : h->v6.saddr[i];
	device = number_at((__u64)kernel + bpf_core_field_offset(struct sk_buff___local, dev));
	if (!found && owned_by(&all.wanted, device) & OWNED_IS_OWN)
		return VERIFIED;
	if (!(bits & WEIR_POLICY_NOT_SPOOFED))
		return 0;
	return owned_is_near(&all, device) ? 0 : WEIR_NOT_SPOOFED;
}

static __always_inline void note(struct __sk_buff *skb, const struct sk_buff___local *kernel,
				 const struct headers *h, bool v4, __u32 mark, __u32 bits)
{
	struct weir_way way = { .ifindex = skb->ifindex, .mark = mark, .family = v4 ? 4 : 6 };
	__u32 found = 0;

	if (v4) {
		way.src[1] = bpf_ntohl(h->v4.saddr);
		way.dst[1] = bpf_ntohl(h->v4.daddr);
	} else {
		for (int i = 0; i < 2; i++) {
			way.src[i] = (__u64)bpf_ntohl(h->v6.saddr[i * 2]) << 32 |
				     bpf_ntohl(h->v6.saddr[i * 2 + 1]);
			way.dst[i] = (__u64)bpf_ntohl(h->v6.daddr[i * 2]) << 32 |
				     bpf_ntohl(h->v6.daddr[i * 2 + 1]);
		}
	}
	if (bits & WEIR_POLICY_ROUTE_BACK) {
		found = BOTH;
		/* What this host has sent to a group comes back by the interface that it left by. */
		if (!(kernel->dev->flags & IFF_LOOPBACK) &&
		    meta_packet_type(kernel) != PACKET_LOOPBACK)
			found = v4 ? ask_v4(skb, h, mark) : ask_v6(skb, h, mark);
	}
	if (weir_may(WEIR_FEATURE_REVERSE_PATH) && bits & WEIR_POLICY_REVERSE_PATH && !mark)
		found |= reverse_path(skb, h, bits);
	bpf_map_update_elem(&ways_back, &way, &found, BPF_ANY);
}

SEC("tcx/ingress")
int weir_route(struct __sk_buff *skb)
{
	struct sk_buff___local *kernel = bpf_cast_to_kern_ctx(skb);
	bool v4 = skb->protocol == bpf_htons(ETH_P_IP);
	struct weir_control *c = weir_get_control();
	struct headers h = {};
	__u64 data = (__u64)kernel->data;
	__u32 bits, at;

	if (!c || (!v4 && skb->protocol != bpf_htons(ETH_P_IPV6)))
		return TCX_NEXT;
	bits = c->slot_hooks[0] | c->slot_hooks[1];
	if (!(bits & (WEIR_POLICY_ROUTE_BACK | WEIR_POLICY_REVERSE_PATH)))
		return TCX_NEXT;
	asm volatile("%0 -= %1" : "+r"(data) : "r"((__u64)kernel->head));
	at = kernel->network_header - (__u32)data;
	if (at > 64 || bpf_skb_load_bytes(skb, at, &h, v4 ? sizeof(h.v4) : sizeof(h.v6)))
		return TCX_NEXT;
	note(skb, kernel, &h, v4, 0, bits);
	if (bits & WEIR_POLICY_ROUTE_MARKED && skb->mark)
		note(skb, kernel, &h, v4, skb->mark, bits);
	return TCX_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
