/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* The link's departures in windows of half a second, and the waits that its rate excuses. Twin of core/sched/makeway/meter.rs. */
#pragma once

#include "record.h"

/* A packet in standing that waited longer is late wherever it goes, if its queue stands. */
#define DEADLINE (75 * MS)
/* On a slow link the time of DEADLINE_FRAMES full frames, and no longer than this. */
#define DEADLINE_FRAMES 16
#define DEADLINE_MOST (125 * MS)
/* A queue in standing that lets a packet go after less than the time of SHORT full frames, DEADLINE_MOST at most, does not stand. */
#define SHORT 4
#define FULL_FRAME 1538ULL

/* Bytes sent in this window and in the last: all, those in standing, and those of new flows. */
struct meter {
	u64 now[3];
	u64 last[3];
	u32 window;
	/* Time that a full frame took in the last window in which the link was busy, ns. */
	u64 frame;
	/* Whether nothing waited at some time, and whether bulk did. */
	bool idled;
	bool idled_last;
	bool bulk;
	bool bulk_last;
	/* Whether none of those in standing waited at some time. */
	bool none_first;
	bool none_first_last;
	/* Whether a packet went first while bulk of other users waited. */
	bool owes;
	bool owes_last;
	/* Bytes of flows that rose to standing or probation in this window and in the last. */
	u64 raised[2];
};

/* A packet comes or goes. */
inline_always void meter_turn(struct meter *meter, u64 now)
{
	u32 at = window_of(now);
	bool next = at == meter->window + 1;

	if (at == meter->window)
		return;
	for (int n = 0; n < 3; n++) {
		meter->last[n] = next ? meter->now[n] : 0;
		meter->now[n] = 0;
	}
	meter->idled_last = meter->idled || !next;
	meter->bulk_last = meter->bulk;
	meter->none_first_last = meter->none_first || !next;
	meter->owes_last = meter->owes && next;
	meter->raised[1] = next ? meter->raised[0] : 0;
	meter->raised[0] = 0;
	meter->idled = false;
	meter->bulk = false;
	meter->none_first = false;
	meter->owes = false;
	meter->window = at;
	if (meter->last[0] && !meter->idled_last)
		meter->frame = (FULL_FRAME << WINDOW_BITS) / meter->last[0];
}

/* A packet comes to an empty buffer, which may have been empty since an earlier window. */
inline_always void meter_begin(struct meter *meter)
{
	meter->idled = true;
}

/* A packet of `len` bytes of a flow in `class` left; packets that wait behind it: all, in standing, and bulk. */
inline_always void meter_departure(struct meter *meter, enum class class, u32 len, u32 all, u32 standing, u32 bulk)
{
	meter->now[0] += len;
	if (!all)
		meter->idled = true;
	if (!standing)
		meter->none_first = true;
	if (bulk || class == BULK)
		meter->bulk = true;
	if (goes_first(class))
		meter->now[1] += len;
	else if (class == NEW)
		meter->now[2] += len;
}

/* The link as a flow is judged by it. */
inline_always struct link meter_link(const struct meter *meter)
{
	bool contended = !meter->idled_last;

	return (struct link){
		.sent = meter->last[0],
		.standing = meter->last[1],
		.new = meter->last[2],
		.contended = contended,
		.quiet = meter->idled_last && !meter->bulk_last,
		.crowded = contended && !meter->none_first_last,
		.raised = meter->raised[0] + meter->raised[1],
		.others = meter->owes || meter->owes_last,
	};
}

/* The longest that a packet in standing waits in a queue that stands, ns: 75 to 125 ms. */
inline_always u64 meter_deadline(const struct meter *meter)
{
	u64 deadline = meter->frame * DEADLINE_FRAMES;

	if (deadline < DEADLINE)
		return DEADLINE;
	return deadline < DEADLINE_MOST ? deadline : DEADLINE_MOST;
}

/* A queue in standing that lets a packet go sooner does not stand, ns. */
inline_always u64 meter_short(const struct meter *meter)
{
	u64 time = meter->frame * SHORT;

	return time < DEADLINE_MOST ? time : DEADLINE_MOST;
}
