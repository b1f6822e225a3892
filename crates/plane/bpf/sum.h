/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sums of the Internet checksum, RFC 1071. */
#ifndef WEIR_SUM_H
#define WEIR_SUM_H

#include "kernel.h"

/* A sum of words of 16 or 32 bits, in 16 bits: 0xffff where a checksum among them is right. */
static __always_inline __u32 sum_fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

#endif
