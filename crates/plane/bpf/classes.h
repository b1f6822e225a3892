/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Class of an interface: which of the policy's interface patterns its name belongs to. Remembered
 * by name, so that a renamed interface is another one at once. Twin of
 * engine::run::Runner::interface_class.
 */
#ifndef WEIR_CLASSES_H
#define WEIR_CLASSES_H

#include "image.h"
#include "maps.h"
#include "meta.h"

#define WEIR_PATTERNS_MAX 1024
#define CLASS_MIX 0x9e3779b97f4a7c15ULL

struct class_search {
	__u64 name[2];
	__u32 slot;
	__u32 class;
};

/* One pattern; 1 ends the search. A callback, so that the verifier follows it once. */
static long class_matches(__u32 number, struct class_search *s)
{
	const __u8 *image = weir_image(s->slot & 1);
	const struct weir_pattern *p;
	__u64 mask = weir_image_mask;

	if (!image || number >= ((const struct weir_header *)image)->patterns)
		return 1;
	asm volatile("" : "+r"(mask));
	p = IMAGE_AT(struct weir_pattern, image, mask,
		     ((const struct weir_header *)image)->patterns_at + number * sizeof(*p));
	if ((s->name[0] & p->mask[0]) != p->name[0] || (s->name[1] & p->mask[1]) != p->name[1])
		return 0;
	s->class = number + 1;
	return 1;
}

/* The first pattern that the name belongs to, from 1; 0 for none. Verified on its own. */
__noinline int weir_class_search(__u32 slot, __u64 name0, __u64 name1)
{
	struct class_search s = { .name = { name0, name1 }, .slot = slot };

	bpf_loop(WEIR_PATTERNS_MAX, class_matches, &s, 0);
	return s.class;
}

static __always_inline __u16 class_of(const __u64 name[2], __u32 slot, __u32 number)
{
	__u32 place = ((name[0] ^ name[1]) * CLASS_MIX) >> 58;
	struct weir_interface *e = bpf_map_lookup_elem(&interfaces, &place);
	__u64 value, found;

	if (!e)
		return 0;
	value = e->value;
	if (value >> 16 == number && (e->name[0] ^ value * CLASS_MIX) == name[0] &&
	    (e->name[1] ^ (value + 1) * CLASS_MIX) == name[1])
		return value;
	found = weir_class_search(slot, name[0], name[1]) & 0xffff;
	value = (__u64)number << 16 | found;
	e->value = value;
	e->name[0] = name[0] ^ value * CLASS_MIX;
	e->name[1] = name[1] ^ (value + 1) * CLASS_MIX;
	return found;
}

/* Fill in the classes of both interfaces, when the policy has patterns. */
static __always_inline void classes(const __u8 *image, const struct weir_seen *seen, __u32 slot,
				    __u32 number, struct weir_packet *p)
{
	__u64 name[2];

	if (!((const struct weir_header *)image)->patterns)
		return;
	meta_name(seen, false, name);
	p->in_class = class_of(name, slot, number);
	meta_name(seen, true, name);
	p->out_class = class_of(name, slot, number);
}

#endif
