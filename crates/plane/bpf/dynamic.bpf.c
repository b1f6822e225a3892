/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The programs of netfilter.bpf.c for policies whose rules note flows as ipfw does. An object of
 * its own, as learned.bpf.c is for IPFilter's.
 */
#define WEIR_LEARNED 1
#define WEIR_DYNAMIC 1
#include "netfilter.bpf.c"
