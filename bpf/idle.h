/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Flows that hold nothing, in the order in which they are forgotten: of each list the one idle for longest first, and those that
 * are kept after all others, for as long as they are known. Twin of the lists of core/flow/table.rs. */
#pragma once

#include "record.h"
#include "round.h"

struct idle {
	/* Rounds. */
	u32 others;
	u32 kept;
	/* Of the second. */
	u32 kept_flows;
} idle SEC(".bss.idle");

inline_always struct links *idle_links(u32 i)
{
	struct flow *flow = flow_at(i);

	return flow ? &flow->idle : NULL;
}

/* Takes `flow`, at `at`, which held nothing, out of its list. */
inline_always void idle_leave(u32 at, struct flow *flow)
{
	if (flow->kept) {
		round_remove(&idle.kept, at, &flow->idle, idle_links);
		idle.kept_flows--;
	} else {
		round_remove(&idle.others, at, &flow->idle, idle_links);
	}
}

/* `flow`, at `at`, holds nothing. Of those in standing at most half of all flows are kept; of more, the one idle for longest is
 * as the others. */
inline_always void idle_join(u32 at, struct flow *flow)
{
	struct flow *oldest;
	u32 i;

	flow->kept = goes_first(flow->record.class);
	round_push(flow->kept ? &idle.kept : &idle.others, at, &flow->idle, idle_links);
	if (!flow->kept || ++idle.kept_flows <= sizes.flows / 2)
		return;
	i = round_head(idle.kept, idle_links);
	oldest = flow_at(i);
	if (!i || !oldest)
		return;
	idle_leave(i, oldest);
	oldest->kept = false;
	round_push(&idle.others, i, &oldest->idle, idle_links);
}

/* The next to be forgotten; 0 if there is none. One that was kept and is unknown by now goes first. */
inline_always u32 idle_head(u64 now)
{
	u32 kept = round_head(idle.kept, idle_links);
	struct flow *flow = flow_at(kept);

	if (kept && flow && (!idle.others || record_is_forgotten(&flow->record, 0, now)))
		return kept;
	return round_head(idle.others, idle_links);
}
