/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Flows that hold nothing, in the order in which they are forgotten: of each list the one idle for longest first, and those that
 * are kept after all others, for as long as they are known. Twin of the lists of core/flow/table.rs. */
#pragma once

#include "record.h"
#include "order.h"

/* Lists of the rings of order.h, of which the last two are their sentinels: a flow that holds nothing is in no order. */
enum {
	IDLE_OTHERS = ORDER_RINGS - 1,
	IDLE_KEPT = ORDER_RINGS - 2,
};
_Static_assert(ORDER_FLOWS + MOST_PACKETS + 2 <= IDLE_KEPT, "the sentinels are no flows' rings");

struct idle {
	/* Of the second. */
	u32 kept_flows;
} idle SEC(".bss.idle");

/* Takes `flow`, at `at`, which held nothing, out of its list. */
inline_always void idle_leave(u32 at, struct flow *flow)
{
	order_unlink(at);
	if (flow->kept)
		idle.kept_flows--;
}

/* `flow`, at `at`, holds nothing. Of those in standing at most half of all flows are kept; of more, the one idle for longest is
 * as the others. */
inline_always void idle_join(u32 at, struct flow *flow)
{
	struct flow *oldest;
	u32 i;

	flow->kept = goes_first(flow->record.class);
	list_push(flow->kept ? IDLE_KEPT : IDLE_OTHERS, at);
	if (!flow->kept || ++idle.kept_flows <= sizes.flows / 2)
		return;
	i = list_first(IDLE_KEPT);
	oldest = flow_at(i);
	if (!i || !oldest)
		return;
	idle_leave(i, oldest);
	oldest->kept = false;
	list_push(IDLE_OTHERS, i);
}

/* The next to be forgotten; 0 if there is none. One that was kept and is unknown by now goes first. */
inline_always u32 idle_head(u64 now)
{
	u32 kept = list_first(IDLE_KEPT), other = list_first(IDLE_OTHERS);
	struct flow *flow = flow_at(kept);

	if (kept && flow && (!other || record_is_forgotten(&flow->record, 0, now)))
		return kept;
	return other;
}

inline_always void idle_clear(void)
{
	*ring_at(IDLE_OTHERS) = *ring_at(IDLE_KEPT) = (struct ring){};
	idle = (struct idle){};
}
