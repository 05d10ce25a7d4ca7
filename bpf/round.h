/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Round robin lists. Twin of core/sched/turns.rs; here anyone can leave a list, not only its head.
 *
 * Each is in one list at most. A list is a ring held by its tail, 0 if it is empty; `at` says where the links of each are. */
#pragma once

#include "links.h"

typedef struct links *links_of(u32 i);

inline_always u32 round_head(u32 tail, links_of at)
{
	struct links *last = at(tail);

	return tail && last ? last->next : 0;
}

/* Puts `i`, which is in no list and has the links `mine`, first. */
inline_always void round_push_front(u32 *tail, u32 i, struct links *mine, links_of at)
{
	struct links *last, *first;

	if (!*tail) {
		*mine = (struct links){ i, i };
		*tail = i;
		return;
	}
	last = at(*tail);
	if (!last)
		return;
	first = at(last->next);
	if (!first)
		return;
	*mine = (struct links){ *tail, last->next };
	first->prev = i;
	last->next = i;
}

/* Puts it last. */
inline_always void round_push(u32 *tail, u32 i, struct links *mine, links_of at)
{
	round_push_front(tail, i, mine, at);
	*tail = i;
}

/* Takes `i`, which is in the list and has the links `mine`, out. */
inline_always void round_remove(u32 *tail, u32 i, const struct links *mine, links_of at)
{
	struct links *prev, *next;

	if (mine->next == i) {
		*tail = 0;
		return;
	}
	prev = at(mine->prev);
	next = at(mine->next);
	if (!prev || !next)
		return;
	prev->next = mine->next;
	next->prev = mine->prev;
	if (*tail == i)
		*tail = mine->prev;
}

/* Moves the head to the end. */
inline_always void round_rotate(u32 *tail, links_of at)
{
	*tail = round_head(*tail, at);
}
