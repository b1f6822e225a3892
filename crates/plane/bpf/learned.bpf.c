/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The programs of netfilter.bpf.c for policies whose rules make states. An object of its own, so
 * that what states cost is paid by these policies alone.
 */
#define WEIR_LEARNED 1
#include "netfilter.bpf.c"
