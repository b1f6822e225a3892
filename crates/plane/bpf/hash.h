/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The keyed hash of conversations. Twin of engine::flow::hash: same bits, vectors there. */
#ifndef WEIR_HASH_H
#define WEIR_HASH_H

#include <linux/types.h>

#define weir_seed(i) (weir_settings.hash_seed[i])

static __always_inline __u64 hash_fold(__u64 x)
{
	return x ^ x >> 32;
}

static __always_inline __u64 hash_words(__u64 first, __u64 second)
{
	__u64 a = weir_seed(0), b = weir_seed(1);
	__u64 x = hash_fold((first ^ a) * (b | 1));

	return hash_fold((x ^ second ^ b) * (a | 1));
}

static __always_inline __u64 hash_addresses(const __u64 *low, const __u64 *high)
{
	return hash_words(hash_words(low[0], low[1]) ^ high[0], high[1]);
}

#endif
