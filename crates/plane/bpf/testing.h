/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a program that is being tested says of its packet. */
#ifndef WEIR_TESTING_H
#define WEIR_TESTING_H

#include "maps.h"
#include "walk.h"

static __always_inline void testing_result(struct weir_control *c, const struct walk *w,
					   __u32 verdict)
{
	if (!weir_testing)
		return;
	c->test.packet = w->packet;
	c->test.verdict = verdict;
	c->test.deciding = w->deciding;
	c->test.result_mark = w->packet.mark;
	c->test.short_way = 0;
}

#endif
