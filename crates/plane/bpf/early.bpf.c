/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The program at XDP of every interface, attached when early drop is asked for: packets that raw or
 * mangle of PREROUTING drops, by rules that need nothing but the packet's bytes and its interface,
 * end here, counted by the rules that they would have met. All others go on, not counted, and are
 * judged where they would have been without it. Only TCP and UDP in one piece, which is what floods
 * are made of. Sources: as of ingress.bpf.c.
 *
 * Frames are counted here as they come off the wire: the kernel may join those of one connection
 * before later hooks see them.
 */
#include "maps.h"
#include "flow.h"
#include "meta.h"
#include "lane_parse.h"
#define LANE_ROOMY 1
#include "lane_walk.h"
#include "classes.h"
#include "sound.h"

#define ETHERNET 14
#define GROUP_ADDRESS 1	/* of the first byte of an Ethernet address */

struct xdp_rxq_info___local {
	struct net_device___local *dev;
} __relocated;
struct xdp_buff___local {
	void *data;
	void *data_end;
	struct xdp_rxq_info___local *rxq;
} __relocated;
struct net_device___address {
	const unsigned char *dev_addr;
} __relocated;

/* Entries that a packet meets in one table; nothing is counted before the end is known. */
struct early_trail {
	__u32 at[LANE_STEPS];
};

/* Whether the frame is for this host: its address, a group's, or everybody's. */
static __always_inline bool is_for_us(__u64 data, __u64 device)
{
	const struct in6_addr___local *frame = BYTES_AT(data), *own;
	const struct net_device___address *d = bpf_rdonly_cast(
		(const void *)device, bpf_core_type_id_kernel(struct net_device___local));

	if (frame->in6_u.u6_addr8[0] & GROUP_ADDRESS)
		return true;
	own = BYTES_AT(d->dev_addr);
	return frame->in6_u.u6_addr16[0] == own->in6_u.u6_addr16[0] &&
	       frame->in6_u.u6_addr16[1] == own->in6_u.u6_addr16[1] &&
	       frame->in6_u.u6_addr16[2] == own->in6_u.u6_addr16[2];
}

/* What one table says of the packet, and its trail. Functions that are verified once each. */
static __always_inline __u32 trail_of(__u32 slot, __u32 root, bool v6, const struct weir_packet *p,
				      struct early_trail *t, __u32 hashed)
{
	const __u8 *image = weir_image(slot & 1);

	return image ? lane_trail(image, image_mask(), root, v6, p, hashed, t->at) : 0;
}

__noinline __u32 weir_early_trail4(__u32 slot, __u32 root, const struct weir_packet *p,
				   struct early_trail *t, __u32 hashed)
{
	return p && t ? trail_of(slot, root, false, p, t, hashed) : 0;
}

__noinline __u32 weir_early_trail6(__u32 slot, __u32 root, const struct weir_packet *p,
				   struct early_trail *t, __u32 hashed)
{
	return p && t ? trail_of(slot, root, true, p, t, hashed) : 0;
}

__noinline int weir_early_count(__u32 slot, const struct weir_packet *p, const struct early_trail *t)
{
	const __u8 *image = weir_image(slot & 1);

	if (!p || !t || !image)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < LANE_STEPS; i++) {
		if (t->at[i])
			lane_count(image, image_mask(), slot, t->at[i], p);
	}
	return 0;
}

static __always_inline __u32 table_says(const __u8 *image, __u32 slot, __u8 table, bool v6,
					const struct weir_packet *p, struct early_trail *t)
{
	__u32 root = image_root(image, p, table), hashed;

	if (!root)
		return WEIR_VERDICT_ACCEPT;
	hashed = lane_ask_tables(slot, root, v6, p).hashed;
	return v6 ? weir_early_trail6(slot, root, p, t, hashed) :
		    weir_early_trail4(slot, root, p, t, hashed);
}

/* Whether the tables of PREROUTING drop the packet; then it is counted. */
static __always_inline bool early_drops(struct weir_control *c, __u32 slot, bool v6,
					struct weir_packet *p)
{
	bool asks_states = c->slot_hooks[slot & 1] & WEIR_POLICY_EARLY_STATE;
	struct early_trail raw = {}, mangle = {};
	const __u8 *image = weir_image(slot);
	__u32 verdict;

	if (!image)
		return false;
	verdict = table_says(image, slot, WEIR_TABLE_RAW, v6, p, &raw);
	if (verdict == WEIR_VERDICT_ACCEPT && !asks_states)
		verdict = table_says(image, slot, WEIR_TABLE_MANGLE, v6, p, &mangle);
	if (verdict != WEIR_VERDICT_DROP)
		return false;
	weir_early_count(slot, p, &raw);
	weir_early_count(slot, p, &mangle);
	__sync_fetch_and_add(&c->reasons[WEIR_REASON_RULE], 1);
	return true;
}

/* One family, verified on its own. */
static __always_inline int early_of(struct weir_control *c, const struct weir_seen *seen, bool v6)
{
	struct weir_packet p = {};
	__u32 slot = c->active & 1, bits = c->slot_hooks[slot & 1];
	const __u8 *image = weir_image(slot);
	int parsed;

	if (!image || !(bits & WEIR_POLICY_XDP) ||
	    !((v6 ? bits >> 8 : bits) & WEIR_AT_PREROUTING))
		return XDP_PASS;
	parsed = v6 ? lane_parse_v6(seen->bytes.base, seen->bytes.have, false, &p) :
		      lane_parse_v4(seen->bytes.base, seen->bytes.have, false, &p);
	if (parsed == LANE_PARSED_NOT || p.transport == WEIR_TRANSPORT_ICMP || !is_sound(&p, seen))
		return XDP_PASS;
	p.hook = WEIR_HOOK_PREROUTING;
	p.state = WEIR_STATE_INVALID;
	classes(image, seen, slot, c->slot_generation[slot & 1], &p);
	return early_drops(c, slot, v6, &p) ? XDP_DROP : XDP_PASS;
}

__noinline int weir_early4(const struct weir_seen *seen)
{
	struct weir_control *c = weir_get_control();

	return seen && c ? early_of(c, seen, false) : XDP_PASS;
}

__noinline int weir_early6(const struct weir_seen *seen)
{
	struct weir_control *c = weir_get_control();

	return seen && c ? early_of(c, seen, true) : XDP_PASS;
}

SEC("xdp")
int weir_early(struct xdp_md *ctx)
{
	struct xdp_buff___local *kernel = bpf_cast_to_kern_ctx(ctx);
	struct weir_control *c = weir_get_control();
	__u64 data = (__u64)kernel->data, end = (__u64)kernel->data_end;
	struct weir_seen seen = {};
	__u16 kind;

	seen.in = (__u64)kernel->rxq->dev;
	if (!c || end < data + ETHERNET || !device_receives(DEVICE_AT(seen.in)) ||
	    DEVICE_AT(seen.in)->type != ARPHRD_ETHER || !is_for_us(data, seen.in))
		return XDP_PASS;
	seen.bytes.base = data + ETHERNET;
	seen.bytes.wire = seen.bytes.have = end - data - ETHERNET;
	seen.bytes.zero = c->zero;
	kind = BYTES_AT(data + 12)->in6_u.u6_addr16[0];
	if (kind == bpf_htons(0x0800))
		return weir_early4(&seen);
	if (kind == bpf_htons(0x86dd))
		return weir_early6(&seen);
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
