// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A netfilter program that accepts everything: what the hook alone costs any eBPF filter there.
 *
 * In:  a packet at a netfilter hook. Out: NF_ACCEPT. It reads nothing of the packet.
 */
#include <linux/bpf.h>
#include <linux/netfilter.h>
#include <bpf/bpf_helpers.h>

struct bpf_nf_ctx;

SEC("netfilter")
int accept_all(struct bpf_nf_ctx *context)
{
	return NF_ACCEPT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
