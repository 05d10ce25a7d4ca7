/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* The list of the active, each in it once at most, that any of them can leave. Twin of core/sched/ring.rs.
 *
 * Index 0, nobody, stands between the tail and the head, so that memory of zeros is an empty list. The discipline says
 * where the links of each are. */
#pragma once

#include "links.h"

inline_always struct links *links_at(u32 i);

/* The first; 0 if there is none. */
inline_always u32 ring_head(void)
{
	struct links *ends = links_at(0);

	return ends ? ends->next : 0;
}

/* Adds `i`, which is not in the list, at its end. */
inline_always void ring_push(u32 i)
{
	struct links *ends = links_at(0), *mine = links_at(i), *last;

	if (!ends || !mine)
		return;
	last = links_at(ends->prev);
	if (!last)
		return;
	mine->prev = ends->prev;
	mine->next = 0;
	ends->prev = i;
	last->next = i;
}

/* Takes out `i`, which is in the list. */
inline_always void ring_remove(u32 i)
{
	struct links *mine = links_at(i), *prev, *next;

	if (!mine)
		return;
	prev = links_at(mine->prev);
	next = links_at(mine->next);
	if (!prev || !next)
		return;
	prev->next = mine->next;
	next->prev = mine->prev;
}

/* Moves the head to the end. */
inline_always void ring_rotate(void)
{
	u32 head = ring_head();

	ring_remove(head);
	ring_push(head);
}
