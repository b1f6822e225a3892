/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A search in the table of learned states, as far as it has come: see learned_table.h. */
#ifndef WEIR_LEARNED_SEARCH_H
#define WEIR_LEARNED_SEARCH_H

#include <linux/types.h>

/* A search for entries of a conversation's names, newest first. */
struct learned_search {
	__u64 names[3];		/* its own, and those of one whose destination was not known */
	__u64 below;		/* entries with a number below this */
	__u64 now_ms;		/* that live */
	__u64 newest;		/* of those seen */
	__u32 slot;		/* what was found, or LEARNED_NONE */
	__u32 count;		/* of names */
};

#endif
