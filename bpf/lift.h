/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* The lift of a bulk flow's target, and the link's idle times that it follows from. Twin of core/sched/makeway/lift.rs, where the
 * rule has its reason. */
#pragma once

#include "record.h"

/* CoDel's target for a bulk flow's queue without a lift. Each step of the lift doubles it. */
#define TARGET (20 * MS)
#define LIFT_STEPS 2
/* A lift has a step less after this time, and another after it again. */
#define LIFT_LASTS (8 * SECOND)
/* Time after a cut in which the link has to idle, for more than this part of a window. */
#define LIFT_WITHIN (2 * SECOND)
#define IDLE_OF 16

/* One flow's. */
struct lift {
	/* When the last of its steps ends. */
	u64 until;
	/* The flow's last cut; 0 if it was lifted since. */
	u64 cut;
};

/* The link's idle times: the buffer was empty, and no packet was being sent. Each counts in the window in which it began. */
struct idle_time {
	/* When the buffer was empty last. */
	u64 empty;
	/* Ns of those that began in `window`, and in the one before. */
	u64 now;
	u64 last;
	/* The window in which the latest began. */
	u32 window;
};

/* The last packet of the buffer leaves. */
inline_always void idle_time_begin(struct idle_time *time, u64 now)
{
	time->empty = now;
}

/* A packet comes to an empty buffer. The one that left last was being sent for `frame` ns, the time of a full one, at most. */
inline_always void idle_time_end(struct idle_time *time, u64 now, u64 frame)
{
	u32 at = window_of(time->empty);
	u64 ns = since(since(now, time->empty), frame);

	if (at != time->window) {
		time->last = at == time->window + 1 ? time->now : 0;
		time->window = at;
		time->now = 0;
	}
	time->now += ns < 1ULL << WINDOW_BITS ? ns : 1ULL << WINDOW_BITS;
	/* Also if this packet is dropped, so that no time counts twice. */
	time->empty = now;
}

/* Whether the link was idle for 1/IDLE_OF of this window or of the one before. */
inline_always bool idle_time_is_long(const struct idle_time *time, u64 now)
{
	u32 ago = window_of(now) - time->window;
	u64 longest = time->now;

	if (!ago && time->last > longest)
		longest = time->last;
	return ago <= 1 && longest * IDLE_OF >= 1ULL << WINDOW_BITS;
}

/* CoDel dropped a packet, which is a cut. */
inline_always void lift_cut(struct lift *lift, u64 now)
{
	lift->cut = now;
}

/* Steps that it has. Without a branch, so that the verifier has one path. */
inline_always u64 lift_steps(const struct lift *lift, u64 now)
{
	return ((now - lift->until) >> 63) + ((now + LIFT_LASTS - lift->until) >> 63);
}

/* Whether the link idles after the cut. */
inline_always bool lift_is_due(const struct lift *lift, u64 now, const struct idle_time *time)
{
	return lift->cut && time->empty > lift->cut && time->empty - lift->cut <= LIFT_WITHIN && idle_time_is_long(time, now);
}

/* The flow's target, as a packet of it is to leave. */
inline_always u64 lift_target(struct lift *lift, u64 now, const struct idle_time *time)
{
	u64 steps = lift_steps(lift, now);

	if (lift_is_due(lift, now, time)) {
		if (steps < LIFT_STEPS)
			steps++;
		lift->until = now + LIFT_LASTS * steps;
		lift->cut = 0;
	}
	return TARGET << steps;
}
