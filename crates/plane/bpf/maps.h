/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * All maps of the programs, and the settings that user space writes before loading. Sizes given
 * here are the smallest; load.rs sets the real ones. Every map is a flat array that user space
 * maps: `images`, `counters` and `histories` have two slots, of which control.active names the one
 * that packets use.
 */
#ifndef WEIR_MAPS_H
#define WEIR_MAPS_H

#include "abi.h"
#include "kernel.h"

/*
 * Written by load.rs before loading, so that the verifier knows the values. Other headers use the
 * names below. Where WEIR_SETTINGS_WRITTEN is defined, those of four bytes are also part of the
 * instructions that ask for them (written.rs): a packet asks for some twenty.
 */
SEC(".rodata.weir") const volatile struct weir_settings weir_settings = {
	.image_mask = 0xffff,
	.rule_capacity = 1024,
	.shards = 1,
	.history_mask = 0xffff,
	.flow_lines = 4,
	.flow_entries = 4096,
	.flow_cold = 4096 + 4 * 64 * 64,
	.jiffy_multiplier = 1000ULL << 20,
	.features = ~0U,
};
#ifdef WEIR_SETTINGS_WRITTEN
#define WEIR_SETTING(name) ({                                                                      \
	__u32 value;                                                                               \
	asm volatile("%0 = %1"                                                                     \
		     : "=r"(value)                                                                 \
		     : "i"(WEIR_SETTING_PLACE +                                                    \
			   __builtin_offsetof(struct weir_settings, name) / 4));                   \
	value; })
#else
#define WEIR_SETTING(name) (weir_settings.name)
#endif
#define weir_image_mask WEIR_SETTING(image_mask)
#define weir_rule_capacity WEIR_SETTING(rule_capacity)
#define weir_history_mask WEIR_SETTING(history_mask)
#define weir_testing WEIR_SETTING(testing)
/*
 * Whether policies of these programs may use something: what none uses costs no time of the
 * verifier. load.rs loads anew for a policy that does.
 */
#define weir_may(feature) ((WEIR_SETTING(features) & (feature)) != 0)
#define WEIR_BOUNDS weir_may(WEIR_FEATURE_BOUNDS) /* for classify.h */
/* Of enum weir_feature (image.h): the time of each rule's last match is kept. */
#define WEIR_FEATURE_TIMES (1U << 17)

#define FLAT_ARRAY(name, entries, bytes)                                                           \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__uint(max_entries, entries);                                                      \
		__uint(key_size, 4);                                                               \
		__uint(value_size, bytes);                                                         \
	} name SEC(".maps")

FLAT_ARRAY(images, 2, 0x10000 + WEIR_SLACK);
FLAT_ARRAY(counters, 2, 1024 * 16);
FLAT_ARRAY(histories, 2, 0x10000 + WEIR_SLACK);
FLAT_ARRAY(flows, 1, 0x10000 + WEIR_SLACK);
FLAT_ARRAY(locals, 2, sizeof(struct weir_locals));
FLAT_ARRAY(control, 1, sizeof(struct weir_control));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_SCRATCH_COUNT);
	__type(key, __u32);
	__type(value, struct weir_scratch);
} scratch SEC(".maps");

/* Classes of interface names: see classes.h. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_INTERFACE_CACHE);
	__type(key, __u32);
	__type(value, struct weir_interface);
} interfaces SEC(".maps");

/* Log records, for `weir log`. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 21);
} events SEC(".maps");

/* Rejected packets, for the answer process. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} rejects SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct weir_handoff);
} handoff SEC(".maps");

/* Written at tcx ingress, read and removed at PREROUTING: see judged.h. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct weir_judged);
} judged SEC(".maps");

/* The way back to sources, WEIR_WAY_BACK: written at tcx ingress (route.bpf.c), read by rules. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct weir_way);
	__type(value, __u32);
} ways_back SEC(".maps");

static __always_inline struct weir_control *weir_get_control(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

static __always_inline const __u8 *weir_image(__u32 slot)
{
	return bpf_map_lookup_elem(&images, &slot);
}

static __always_inline __u8 *weir_history(__u32 slot)
{
	return bpf_map_lookup_elem(&histories, &slot);
}

static __always_inline __u8 *weir_flows(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&flows, &zero);
}

/*
 * The product of what is not known and what is, in this order: before 6.10 the verifier follows no
 * multiplication by an unknown factor, and compilers choose the order.
 */
static __always_inline __u64 weir_times(__u64 unknown, __u64 known)
{
	asm("%0 *= %1" : "+r"(unknown) : "r"(known));
	return unknown;
}

/*
 * When a rule last matched, in units of 1024 ms of the packet clock: behind the counters of all
 * shards. One word for all CPUs, written once a unit, so that they share its line; 0 is never.
 */
static __always_inline void weir_tell_time(__u64 *counters, __u32 rule)
{
	__u32 now = (bpf_jiffies64() * weir_settings.jiffy_multiplier) >> 30;
	__u64 places = weir_times(WEIR_SETTING(shards), weir_rule_capacity);
	volatile __u32 *time = (__u32 *)(counters + places * 2) + rule;

	if (unlikely(*time != now))
		*time = now;
}

/*
 * Packets and bytes of a rule. Received packets come with softirqs off, so that nothing else counts
 * on this CPU meanwhile: a plain addition to a shard of the CPU's own is exact (load.rs tells where
 * the kernel is so). What processes send may be interrupted: it has one shard for all CPUs, and pays
 * for atomic additions.
 */
static __always_inline void weir_count(__u32 slot, __u32 hook, __u32 rule, __u32 bytes)
{
	__u32 shard = bpf_get_smp_processor_id(), shards = WEIR_SETTING(shards);
	__u32 capacity = weir_rule_capacity;
	__u64 *base = bpf_map_lookup_elem(&counters, &slot);

	/* What is compared is what is used: no earlier copy of it, of which older verifiers know less. */
	asm volatile("" : "+r"(rule));
	if (!base || rule >= capacity)
		return;
	asm volatile("" : "+r"(rule));
	if (weir_may(WEIR_FEATURE_TIMES))
		weir_tell_time(base, rule);
	if (!unlikely(!WEIR_SETTING(exclusive) || hook >= WEIR_HOOK_OUTPUT)) {
		if (shard >= shards)
			return;
		base += (weir_times(shard, capacity) + rule) * 2;
		base[0] += 1;
		base[1] += bytes;
		return;
	}
	shard = WEIR_SETTING(exclusive) ? shards - 1 : shard & (shards - 1);
	if (shard >= shards)
		return;
	base += (weir_times(shard, capacity) + rule) * 2;
	__sync_fetch_and_add(&base[0], 1);
	__sync_fetch_and_add(&base[1], bytes);
}

static __always_inline struct weir_scratch *weir_scratch_at(__u32 index)
{
	index &= WEIR_SCRATCH_COUNT - 1;
	return bpf_map_lookup_elem(&scratch, &index);
}

/* Take a place for a packet; NULL when too many are taken. `index`: its number. */
static __always_inline struct weir_scratch *weir_scratch_numbered(__u32 *index)
{
	__u32 first = bpf_get_smp_processor_id() * 4;

	for (__u32 i = 0; i < WEIR_SCRATCH_TRIES; i++) {
		struct weir_scratch *s = weir_scratch_at(first + i);

		if (s && !__sync_lock_test_and_set(&s->taken, 1)) {
			*index = first + i;
			return s;
		}
	}
	return NULL;
}

static __always_inline struct weir_scratch *weir_scratch_take(void)
{
	__u32 index;

	return weir_scratch_numbered(&index);
}

static __always_inline void weir_scratch_give(struct weir_scratch *s)
{
	/* An exchange, because it comes after all stores before it on every machine. */
	__sync_lock_test_and_set(&s->taken, 0);
}

static __always_inline void weir_reason(enum weir_reason reason)
{
	struct weir_control *c = weir_get_control();

	if (c)
		__sync_fetch_and_add(&c->reasons[reason], 1);
}

/* The packet clock, in milliseconds from an arbitrary start. */
static __always_inline __u64 weir_now(const struct weir_control *c)
{
	if (weir_testing && c->clock_ms)
		return c->clock_ms;
	return (bpf_jiffies64() * weir_settings.jiffy_multiplier) >> 20;
}

#endif
