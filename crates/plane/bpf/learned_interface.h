/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The interface that a packet is met at, as states know it. */
#ifndef WEIR_LEARNED_INTERFACE_H
#define WEIR_LEARNED_INTERFACE_H

#include "meta.h"

/* Its number; never 0. In test runs, where there are only names, a number made of the name. */
static __always_inline __u32 learned_interface(const struct weir_seen *seen, bool out)
{
	__u64 address = out ? seen->out : seen->in, name[2];

	if (weir_testing) {
		meta_name(seen, out, name);
		return ((name[0] * 0x9e3779b97f4a7c15ULL ^ name[1]) >> 33) | 1;
	}
	return address ? DEVICE_AT(address)->ifindex : 1;
}

#endif
