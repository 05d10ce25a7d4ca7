/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* The exact order of flows by backlog: a list of flows for each backlog in bytes, and a bitmap of the lists that are
 * not empty. Twin of core/sched/order/buckets.rs; of equal backlogs the one that has stood there for longest comes
 * first, both as the shortest and as the longest.
 *
 * Backlogs of ORDER_WINDOW bytes and more are in `beyond`, in the order in which they came to their backlog: at most
 * 192 while the packets sum to no more than LIMIT_BYTES, or LEAST_COST each, and a few more until others are dropped for
 * a new one.
 *
 * Links are kept as differences from their own index, so that memory of zeros is a list that holds nobody. */
#pragma once

#include "bitmap.h"

#define ORDER_WINDOW BITMAP_MOST
#define BEYOND 256
_Static_assert((LIMIT_BYTES + MOST_PACKETS * LEAST_COST) / ORDER_WINDOW + 16 <= BEYOND, "each backlog beyond has a place");
/* Flows are above the sentinels of the window. */
#define ORDER_RINGS (1 << 19)
_Static_assert(ORDER_WINDOW + MOST_PACKETS + 2 <= ORDER_RINGS, "each flow has a ring");

struct ring {
	u32 prev;
	u32 next;
};

struct beyond {
	u32 flow;
	u32 bytes;
};

struct order {
	struct ring rings[ORDER_RINGS];
	struct bitmap occupied;
	struct beyond beyond[BEYOND];
	u32 beyond_n;
} order SEC(".bss.order");

inline_always struct ring *ring_at(u32 i)
{
	return &order.rings[i & (ORDER_RINGS - 1)];
}

inline_always void order_link(u32 flow, u32 bytes)
{
	u32 node = ORDER_WINDOW + flow;
	struct ring *sentinel = ring_at(bytes);
	u32 last = sentinel->prev ^ bytes;

	sentinel->prev = node ^ bytes;
	ring_at(last)->next = node ^ last;
	ring_at(node)->prev = last ^ node;
	ring_at(node)->next = bytes ^ node;
	if (last == bytes)
		bitmap_insert(&order.occupied, bytes);
}

inline_always void order_unlink(u32 flow, u32 bytes)
{
	u32 node = ORDER_WINDOW + flow;
	u32 prev = ring_at(node)->prev ^ node;
	u32 next = ring_at(node)->next ^ node;

	ring_at(prev)->next = next ^ prev;
	ring_at(next)->prev = prev ^ next;
	/* Only the sentinel is left. */
	if (prev == next)
		bitmap_remove(&order.occupied, bytes);
}

verified_apart int order_leave_beyond(u32 flow)
{
	bool found = false;

	for (u32 i = 0; i < BEYOND; i++) {
		if (i >= order.beyond_n)
			break;
		found = found || order.beyond[i].flow == flow;
		if (found)
			order.beyond[i] = order.beyond[(i + 1) & (BEYOND - 1)];
	}
	order.beyond_n--;
	return 0;
}

/* A flow whose backlog was `old` bytes now has `new`; 0 is no place. */
inline_always void order_update(u32 flow, u32 old, u32 new)
{
	if (old >= ORDER_WINDOW)
		order_leave_beyond(flow);
	else if (old)
		order_unlink(flow, old);
	if (new >= ORDER_WINDOW) {
		order.beyond[order.beyond_n & (BEYOND - 1)] = (struct beyond){ flow, new };
		order.beyond_n++;
	} else if (new) {
		order_link(flow, new);
	}
}

verified_apart u32 order_beyond(bool longest)
{
	struct beyond best = order.beyond[0];

	for (u32 i = 1; i < BEYOND; i++) {
		struct beyond one = order.beyond[i];

		if (i >= order.beyond_n)
			break;
		if (longest ? one.bytes > best.bytes : one.bytes < best.bytes)
			best = one;
	}
	return best.flow;
}

/* The active flow with the least bytes, which is in the list of that many; there is one. */
inline_always u32 order_shortest(void)
{
	u32 bytes;

	if (!order.occupied.top)
		return order_beyond(false);
	bytes = bitmap_first(&order.occupied);
	return (ring_at(bytes)->next ^ bytes) - ORDER_WINDOW;
}

/* The active flow with the most bytes; there is one. */
inline_always u32 order_longest(void)
{
	u32 bytes;

	if (order.beyond_n)
		return order_beyond(true);
	bytes = bitmap_last(&order.occupied);
	return (ring_at(bytes)->next ^ bytes) - ORDER_WINDOW;
}
