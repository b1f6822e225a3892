/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A packet through one root of the image: entries that hold are met in order, count, run their
 * tests, do their operations, and go on or decide. Twin of engine::run. The walk is a loop of calls
 * to functions that the verifier follows once each; what they know of the packet is struct walk,
 * on the stack of the program.
 */
#ifndef WEIR_WALK_H
#define WEIR_WALK_H

#include "classify.h"
#include "flow.h"
#include "maps.h"
#include "meta.h"
#include "report.h"
#if defined(WEIR_LEARNED) && !defined(WEIR_DYNAMIC)
#include "learned_search.h"
#include "learned_view.h"
#endif

#ifdef WEIR_FRAMES
/* The Ethernet frame of the packet: model::Frame. */
struct weir_frame {
	__u64 address[2];	/* destination, source */
	__u32 kind;		/* EtherType, behind VLAN tags */
	__u32 bare;		/* it holds no IP packet */
};
#endif

struct walk {
	struct weir_packet packet;
	struct weir_seen seen;
	struct flow_ref flow;
	__u64 now_ms;
	__u32 slot;		/* of images and counters */
	__u32 deciding;		/* rule that decided, ~0: none */
	__u32 reject;		/* WEIR_REJECT_*, with WEIR_VERDICT_REJECT */
	__u32 proposed;		/* verdict that stands until another is proposed, 0: none */
	__u32 proposed_by;	/* its rule */
	__u32 proposed_reject;
	__u32 unlogged;		/* to be dropped, because it couldn't be logged */
	struct weir_cursor cursor;
	struct weir_handoff handoff;	/* edits for later hooks */
	__u64 other[2];		/* destination at other hooks: translated.h */
	__u32 other_port;
	struct flow_entry copy;	/* of the flow's entry, see flow_meet */
	__u8 noted[WEIR_NOTED_MAX] __attribute__((aligned(8)));	/* counts: tally.h */
#ifdef WEIR_FRAMES
	struct weir_frame frame;
#endif
#ifdef WEIR_LEARNED
	__u32 learned;		/* slot of the state found, plus 1; 0: none */
	__u32 learned_bits;	/* LEARNED_OUT_OF_WINDOW, DYNAMIC_LOOKED */
#ifdef WEIR_DYNAMIC
	struct weir_dynamic_rule rule;	/* whose state is being made */
	__u32 looked;		/* name of the last look */
	struct weir_packet about;	/* in an ICMP error */
#else
	struct ipf_view view;	/* the packet as IPFilter sees it */
	struct ipf_view quoted;	/* the one in an ICMP error */
	struct weir_packet about;
	struct weir_learner learner;	/* whose state is being made */
	__u32 lifetimes_at;	/* of the policy, in its image */
	struct learned_search search;	/* for fragments of the packet's datagram */
	__u32 share;		/* what that counts for: its place, plus 1 */
	__u32 limited;		/* verdict of a limit of connections, 0: none */
#endif
#endif
};

#include "residual.h"
#ifdef WEIR_DYNAMIC
#include "dynamic.h"
#elif defined(WEIR_LEARNED)
#include "learned.h"
#endif

/* What one step of a walk came to, beside enum weir_verdict. */
enum weir_step {
	WEIR_STEP_ON = 0,	/* not decided: step again */
	WEIR_STEP_MEET = 8,	/* an entry with tests or operations: weir_meet */
};

static __always_inline int entry_matched(struct walk *w, const struct weir_entry *e)
{
	if (e->rules == 1)
		weir_count(w->slot, w->packet.hook, e->rule, w->packet.length);
	if (!e->verdict) {
		cursor_move(&w->cursor, e->next_match);
		return WEIR_STEP_ON;
	}
	w->deciding = e->rule;
	w->reject = e->reject;
	return e->verdict & 3;
}

/* The word of an entry (WEIR_BRIEF_*); its number where all are written out. */
static __always_inline __u32 entry_word(const __u8 *image, __u64 mask,
					const struct weir_root *root, __u32 position)
{
	__u32 at = root->brief_at;

	return at ? IMAGE_U32(image, mask, at + position * 4) : position;
}

/* Where the entry is that has this number among those written out. */
static __always_inline __u32 entry_place(const struct weir_root *root, __u32 number)
{
	return root->entries_at + number * sizeof(struct weir_entry);
}

/* Whether a proposal stands; then it decides. */
static __always_inline int standing(struct walk *w)
{
	if (!w->proposed)
		return 0;
	w->deciding = w->proposed_by;
	w->reject = w->proposed_reject;
	if (w->proposed == WEIR_VERDICT_ACCEPT && w->packet.hook != WEIR_HOOK_PREROUTING)
		w->noted[WEIR_NOTED_STOOD] = 1;
	return w->proposed & 3;
}

static __always_inline int hot_drop(struct walk *w)
{
	w->deciding = ~0;
	weir_reason(WEIR_REASON_SHORT);
	return WEIR_VERDICT_DROP;
}

/* What an entry does whose word says it. */
static __always_inline int entry_brief(struct walk *w, __u32 word)
{
	if (word >> WEIR_BRIEF_VERDICT == WEIR_BRIEF_HOT_DROP)
		return hot_drop(w);
	w->deciding = word & WEIR_BRIEF_NUMBER;
	w->reject = 0;
	weir_count(w->slot, w->packet.hook, word & WEIR_BRIEF_NUMBER, w->packet.length);
	return word >> WEIR_BRIEF_VERDICT;
}

/* Ask the hashed tables, which only large roots have. */
__noinline int weir_probe(struct walk *w)
{
	const struct weir_root *root;
	__u64 mask = image_mask();
	const __u8 *image;
	__u32 from, zero;
	__u64 classes;

	if (!w || !weir_may(WEIR_FEATURE_TABLES))
		return 0;
	image = weir_image(w->slot & 1);
	if (!image)
		return 0;
	root = IMAGE_AT(struct weir_root, image, mask, w->cursor.root_at);
	from = w->cursor.position;
	zero = w->seen.bytes.zero;
	classes = service_classes(image, mask, root, &w->packet);
	w->cursor.hashed =
		weir_may(WEIR_FEATURE_V6) && root->family == 6 ?
			probe_tables(image, mask, root, true, &w->packet, classes, from, zero) :
			probe_tables(image, mask, root, false, &w->packet, classes, from, zero);
	w->cursor.stale = false;
	return 0;
}

/* Find the next entry that holds; do what it says, if that is simple. */
__noinline int weir_advance(struct walk *w)
{
	__u64 mask = image_mask();
	const struct weir_root *root;
	const struct weir_entry *e;
	const __u8 *image;
	__u32 word;
	bool v6;

	if (!w)
		return WEIR_VERDICT_DROP;
	image = weir_image(w->slot & 1);
	if (!image)
		return WEIR_VERDICT_DROP;
	v6 = weir_may(WEIR_FEATURE_V6) && w->packet.family == 6;
	if (!lookup_step(image, mask, v6, &w->packet, &w->cursor))
		return WEIR_STEP_ON;
	root = IMAGE_AT(struct weir_root, image, mask, w->cursor.root_at);
	word = entry_word(image, mask, root, w->cursor.position);
	if (word >> WEIR_BRIEF_VERDICT)
		return entry_brief(w, word);
	e = IMAGE_AT(struct weir_entry, image, mask, entry_place(root, word));
	if (e->tests | e->ops | (e->rules > 1) | e->flags)
		return WEIR_STEP_MEET;
	if (e->verdict == WEIR_VERDICT_HOT_DROP)
		return hot_drop(w);
	return entry_matched(w, e);
}

/* The TTL is set, or changed by a number that may be negative; so on top of what was said before. */
static __always_inline void operate_ttl(struct weir_handoff *h, __u8 changes, __u32 value)
{
	__s32 all = changes ? h->ttl_change + (__s32)value : 0;

	if (!changes) {
		h->edits |= WEIR_EDIT_TTL_SET;
		h->ttl_set = value;
	}
	h->ttl_change = all > 255 ? 255 : all < -255 ? -255 : all;
	h->edits |= WEIR_EDIT_TTL;
}

/* A mark moved as an operation on marks says. */
static __always_inline __u32 mark_shifted(const struct weir_op *op, __u32 mark)
{
	__u32 bits = op->small & 31;

	return op->small & WEIR_SHIFT_RIGHT ? mark >> bits : mark << bits;
}

/* One operation. Edits of the packet are remembered for the hook that can make them. */
__noinline int weir_operate(struct walk *w, __u32 op_at)
{
	const struct weir_op *op;
	const __u8 *image;
	__u32 a, b, mark;

	if (!w)
		return 0;
	image = weir_image(w->slot & 1);
	if (!image)
		return 0;
	op = IMAGE_AT(struct weir_op, image, image_mask(), op_at);
	a = op->a;
	b = op->b;
	switch (op->kind) {
	case WEIR_OP_LOG:
	case WEIR_OP_NFLOG: {
		bool must = op->kind == WEIR_OP_LOG && b;
		struct weir_report r = {
			.now_ms = w->now_ms,
			.kind = op->kind == WEIR_OP_LOG ? WEIR_EVENT_LOG : WEIR_EVENT_NFLOG,
			.rule = op->rule,
			.slot = w->slot,
			.op = op_at,
			.mark = w->packet.mark,
		};

		if (weir_report_event(&w->seen, &w->packet, &r)) {
			w->noted[WEIR_NOTED_RECORD]++;
		} else {
			w->noted[WEIR_NOTED_RECORD_LOST]++;
			if (must)
				w->unlogged = w->noted[WEIR_NOTED_UNLOGGED] = 1;
		}
		if (op->kind == WEIR_OP_LOG && a)
			w->noted[WEIR_NOTED_LOGGED] = 1;
		break;
	}
	case WEIR_OP_MARK:
		w->packet.mark = (w->packet.mark & ~b) ^ a;
		w->handoff.mark = w->packet.mark;
		w->handoff.edits |= WEIR_EDIT_MARK;
		break;
	case WEIR_OP_CONNMARK:
		if (flow_mark(&w->flow, &mark))
			flow_set_mark(&w->flow, mark_shifted(op, (mark & ~b) ^ a));
		break;
	case WEIR_OP_SAVE_MARK:
		if (flow_mark(&w->flow, &mark))
			flow_set_mark(&w->flow,
				      (mark & ~b) ^ mark_shifted(op, w->packet.mark & a));
		break;
	case WEIR_OP_RESTORE_MARK:
		if (!flow_mark(&w->flow, &mark))
			break;
		w->packet.mark = (w->packet.mark & ~a) ^ mark_shifted(op, mark & b);
		w->handoff.mark = w->packet.mark;
		w->handoff.edits |= WEIR_EDIT_MARK;
		break;
	case WEIR_OP_NOTRACK:
		w->handoff.edits |= WEIR_EDIT_NOTRACK;
		break;
	case WEIR_OP_TOS:
		w->packet.tos = (w->packet.tos & ~b) ^ a;
		w->handoff.tos_value = (w->handoff.tos_value & ~b) ^ a;
		w->handoff.tos_mask |= b;
		w->handoff.edits |= WEIR_EDIT_TOS;
		break;
	case WEIR_OP_CLASSIFY:
		w->handoff.priority = a;
		w->handoff.edits |= WEIR_EDIT_PRIORITY;
		break;
	case WEIR_OP_TTL:
		operate_ttl(&w->handoff, op->small, a);
		break;
	case WEIR_OP_MSS:
		w->handoff.mss = a;
		w->handoff.edits |= WEIR_EDIT_MSS;
		break;
	}
	return 0;
}

/* Count the packet for several rules. A function, for the stack of the one below. */
__noinline int weir_count_all(struct walk *w, __u32 rules_at, __u32 rules)
{
	__u64 mask = image_mask();
	const __u8 *image;

	if (!w)
		return 0;
	image = weir_image(w->slot & 1);
	if (!image)
		return 0;
	for (int i = 0; i < WEIR_RULES_MAX; i++) {
		if (i >= rules)
			break;
		weir_count(w->slot, w->packet.hook, IMAGE_U32(image, mask, rules_at + i * 4),
			   w->packet.length);
	}
	return 0;
}

/* Stand before the first entry of a root. A function, because a packet meets up to three roots. */
__noinline int weir_begin(struct walk *w, __u32 root_at)
{
	const __u8 *image;

	if (!w)
		return 0;
	image = weir_image(w->slot & 1);
	if (!image)
		return 0;
	w->proposed = 0;
	lookup_begin(image, image_mask(), root_at, &w->packet, &w->cursor);
	return 0;
}

/*
 * Go on behind the entry at the cursor, which does not hold. Where one was taken out of use and
 * others came for it, what was looked up before doesn't lead to those.
 */
static __always_inline int walk_past(struct walk *w, const struct weir_entry *e)
{
	__u32 proposed = w->proposed, next = e->next_fail;

	cursor_move(&w->cursor, next);
	if (!(e->flags & WEIR_FLAG_AGAIN))
		return WEIR_STEP_ON;
	weir_begin(w, w->cursor.root_at);
	w->proposed = proposed;
	w->cursor.position = next;
	w->cursor.seek = true;
	return WEIR_STEP_ON;
}

/* Run the tests of the entry at the cursor; if all hold, its operations. */
__noinline int weir_meet(struct walk *w)
{
	__u32 number, tests, tests_at, ops, ops_at;
	const struct weir_root *root;
	const struct weir_entry *e;
	const __u8 *image;

	if (!w)
		return WEIR_VERDICT_DROP;
	image = weir_image(w->slot & 1);
	if (!image)
		return WEIR_VERDICT_DROP;
	root = IMAGE_AT(struct weir_root, image, image_mask(), w->cursor.root_at);
	number = entry_word(image, image_mask(), root, w->cursor.position);
	e = IMAGE_AT(struct weir_entry, image, image_mask(), entry_place(root, number));
	tests = e->tests;
	tests_at = e->tests_at;
	for (int i = 0; i < WEIR_TESTS_MAX; i++) {
		const struct weir_residual *t;
		int answer;

		if (i >= tests)
			break;
		t = IMAGE_AT(struct weir_residual, image, image_mask(), tests_at);
		if (t->kind == WEIR_TEST_MALFORMED) {
			if (w->packet.transport == WEIR_TRANSPORT_TCP && w->packet.malformed)
				return hot_drop(w);
		} else {
#ifdef WEIR_LEARNED
			if ((t->kind >= WEIR_TEST_LEARNED && t->kind <= WEIR_TEST_DYNAMIC_FORGET) ||
			    (weir_may(WEIR_FEATURE_ICMP_HEAD) && t->kind == WEIR_TEST_ICMP_HEAD))
				answer = learned_test(w, t);
			else
#endif
				answer = test_any(w, t, tests_at);
			if (weir_may(WEIR_FEATURE_CHUNKS) && answer == WEIR_HOT_DROP)
				return hot_drop(w);
			if (answer == WEIR_ABSENT || answer == t->negate)
				return walk_past(w, e);
		}
		tests_at += sizeof(*t);
	}
	if (e->verdict == WEIR_VERDICT_HOT_DROP)
		return hot_drop(w);
	if (e->flags & WEIR_FLAG_STANDING && w->proposed)
		return standing(w);
	if (e->flags & WEIR_FLAG_PROPOSE) {
		w->proposed = e->flags & WEIR_FLAG_VERDICT;
		w->proposed_by = e->rule;
		w->proposed_reject = e->reject;
	}
#ifdef WEIR_LEARNED
	if (e->flags & WEIR_FLAG_REFUSE && w->proposed) {
		w->proposed = WEIR_VERDICT_DROP;
		w->noted[WEIR_NOTED_REFUSED] = 1;
	}
	if (e->flags & WEIR_FLAG_AS_LEARNED) {
		/* The look itself is the first entry of its list. */
		if (!w->cursor.position) {
			w->noted[WEIR_NOTED_LOOKED] = 1;
			w->noted[WEIR_NOTED_LOOKED_V6] = w->packet.family == 6;
		}
		if (e->rules == 1)
			weir_count(w->slot, w->packet.hook, e->rule, w->packet.length);
		return learned_decide(w);
	}
#endif
	ops = e->ops;
	ops_at = e->ops_at;
	for (int i = 0; i < WEIR_OPS_MAX; i++) {
		if (i >= ops)
			break;
		weir_operate(w, ops_at);
		ops_at += sizeof(struct weir_op);
	}
	tests = e->rules;
	if (tests > 1)
		weir_count_all(w, e->rule, tests);
	if (w->unlogged) {
		entry_matched(w, e);
		w->deciding = w->proposed ? w->proposed_by : e->rule;
		return WEIR_VERDICT_DROP;
	}
	return entry_matched(w, e);
}

static __always_inline int walk_step(struct walk *w)
{
	int step;

	if (w->cursor.stale)
		weir_probe(w);
	step = weir_advance(w);
	return step == WEIR_STEP_MEET ? weir_meet(w) : step;
}

struct walk_rest {
	struct walk *w;
	int step;
};

static long walk_again(__u32 count, struct walk_rest *rest)
{
	rest->step = walk_step(rest->w);
	return rest->step != WEIR_STEP_ON;
}

/*
 * The rest of a long walk: a callback, so that the verifier follows a step once. The bound is the
 * compiler's bound of entries that one packet can meet, and of chunks that come to nothing.
 */
__noinline int weir_walk_on(struct walk *w)
{
	struct walk_rest rest = { .w = w };

	if (!w)
		return WEIR_VERDICT_DROP;
	bpf_loop(WEIR_LOOKUPS_MAX, walk_again, &rest, 0);
	if (rest.step != WEIR_STEP_ON)
		return rest.step;
	weir_reason(WEIR_REASON_IMAGE);
	return WEIR_VERDICT_DROP;
}

#define WEIR_STEPS_INLINE 3	/* most walks end within these */

/* Walk one root; enum weir_verdict. Reject kinds are in w->reject. */
static __always_inline int weir_walk(__u32 root_at, struct walk *w)
{
	weir_begin(w, root_at);
	for (int i = 0; i < WEIR_STEPS_INLINE; i++) {
		int step = walk_step(w);

		if (step != WEIR_STEP_ON)
			return step;
	}
	return weir_walk_on(w);
}

#endif
