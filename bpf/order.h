/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* The exact order of flows by backlog: a list of flows for each backlog in bytes, and a bitmap of the lists that are
 * not empty. Twin of core/sched/order/buckets.rs; of equal backlogs the one that has stood there for longest comes
 * first, both as the shortest and as the longest.
 *
 * Backlogs of ORDER_WINDOW bytes and more are in `beyond`, in the order in which they came to their backlog: at most
 * 192 while the packets sum to no more than LIMIT_BYTES, or LEAST_COST each, and a few more until others are dropped for
 * a new one.
 *
 * Links are kept as differences from their own index, so that memory of zeros is a list that holds nobody.
 *
 * A discipline that has several orders, each flow in one of them at most, defines ORDERS before. */
#pragma once

#include "bitmap.h"

#ifndef ORDERS
#define ORDERS 1
#define ORDER_SLOTS 1
#define ORDER_RINGS (1 << 19)
#else
/* Powers of two, for the verifier. */
#define ORDER_SLOTS 4
#define ORDER_RINGS (1 << 20)
#endif

#define ORDER_WINDOW BITMAP_MOST
#define BEYOND 256
_Static_assert((LIMIT_BYTES + MOST_PACKETS * LEAST_COST) / ORDER_WINDOW + 16 <= BEYOND, "each backlog beyond has a place");
/* Flows are above the sentinels of the windows. */
#define ORDER_FLOWS (ORDERS * ORDER_WINDOW)
_Static_assert(ORDER_FLOWS + MOST_PACKETS + 2 <= ORDER_RINGS, "each flow has a ring");
_Static_assert(ORDERS <= ORDER_SLOTS, "each order has a slot");

struct ring {
	u32 prev;
	u32 next;
};

struct beyond {
	u32 flow;
	u32 bytes;
};

struct order {
	struct bitmap occupied;
	struct beyond beyond[BEYOND];
	u32 beyond_n;
	/* No flow of the window has fewer bytes, or more, and mostly some have as many. */
	u32 least;
	u32 most;
};

struct orders {
	struct ring rings[ORDER_RINGS];
	struct order each[ORDER_SLOTS];
} orders SEC(".bss.order");

inline_always struct order *order_of(u32 which)
{
	return &orders.each[which & (ORDER_SLOTS - 1)];
}

inline_always struct ring *ring_at(u32 i)
{
	return &orders.rings[i & (ORDER_RINGS - 1)];
}

/* Puts `flow` last in `list`. */
inline_always void list_push(u32 list, u32 flow)
{
	u32 node = ORDER_FLOWS + flow, last = ring_at(list)->prev ^ list;

	*ring_at(node) = (struct ring){ last ^ node, list ^ node };
	ring_at(list)->prev = node ^ list;
	ring_at(last)->next = node ^ last;
}

inline_always void order_link(u32 which, u32 flow, u32 bytes)
{
	u32 node = ORDER_FLOWS + flow, list = which * ORDER_WINDOW + bytes;
	struct ring *sentinel = ring_at(list), *mine = ring_at(node);
	struct order *order = order_of(which);
	u32 last = sentinel->prev ^ list;

	/* Of a list that holds nobody the sentinel is the last, and the first. */
	if (last == list) {
		*sentinel = *mine = (struct ring){ node ^ list, node ^ list };
		bitmap_insert(&order->occupied, bytes);
		if (bytes < order->least)
			order->least = bytes;
		if (bytes > order->most)
			order->most = bytes;
		return;
	}
	sentinel->prev = node ^ list;
	ring_at(last)->next = node ^ last;
	*mine = (struct ring){ last ^ node, list ^ node };
}

/* Whether the list holds nobody now, which its order is still to be told. */
inline_always bool order_unlink(u32 flow)
{
	u32 node = ORDER_FLOWS + flow;
	u32 prev = ring_at(node)->prev ^ node;
	u32 next = ring_at(node)->next ^ node;

	/* Only the sentinel is left. */
	if (prev == next) {
		*ring_at(prev) = (struct ring){};
		return true;
	}
	ring_at(prev)->next = next ^ prev;
	ring_at(next)->prev = prev ^ next;
	return false;
}

verified_apart int order_leave_beyond(u32 which, u32 flow)
{
	struct order *order;
	bool found = false;

	/* Of a single order the compiler would pass nothing, which the verifier refuses. */
	barrier_var(which);
	order = order_of(which);
	for (u32 i = 0; i < BEYOND; i++) {
		if (i >= order->beyond_n)
			break;
		found = found || order->beyond[i].flow == flow;
		if (found)
			order->beyond[i] = order->beyond[(i + 1) & (BEYOND - 1)];
	}
	order->beyond_n--;
	return 0;
}

/* A flow whose backlog was `old` bytes in an order now has `new`; 0 is no place. */
inline_always void order_move(u32 which, u32 flow, u32 old, u32 new)
{
	struct order *order = order_of(which);
	bool emptied = false;

	if (old >= ORDER_WINDOW)
		order_leave_beyond(which, flow);
	else if (old)
		emptied = order_unlink(flow);
	if (new >= ORDER_WINDOW) {
		order->beyond[order->beyond_n & (BEYOND - 1)] = (struct beyond){ flow, new };
		order->beyond_n++;
	} else if (new) {
		order_link(which, flow, new);
	}
	/* After the new one, which is mostly near: the words above stay as they are. */
	if (emptied && old != new)
		bitmap_remove(&order->occupied, old);
}

verified_apart u32 order_beyond(u32 which, bool longest)
{
	struct beyond best;
	struct order *order;

	barrier_var(which);
	order = order_of(which);
	best = order->beyond[0];
	for (u32 i = 1; i < BEYOND; i++) {
		struct beyond one = order->beyond[i];

		if (i >= order->beyond_n)
			break;
		if (longest ? one.bytes > best.bytes : one.bytes < best.bytes)
			best = one;
	}
	return best.flow;
}

inline_always bool order_is_empty(u32 which)
{
	return !order_of(which)->occupied.top && !order_of(which)->beyond_n;
}

/* The first of `list`; 0 if it holds nobody. */
inline_always u32 list_first(u32 list)
{
	u32 next = ring_at(list)->next;

	return next ? (next ^ list) - ORDER_FLOWS : 0;
}

/* The same of the list of `bytes`. */
inline_always u32 order_first(u32 which, u32 bytes)
{
	return list_first(which * ORDER_WINDOW + bytes);
}

/* The flow with the least bytes of an order that has one. */
inline_always u32 order_least(u32 which)
{
	struct order *order = order_of(which);
	u32 flow = order_first(which, order->least);

	if (flow)
		return flow;
	if (!order->occupied.top)
		return order_beyond(which, false);
	order->least = bitmap_first(&order->occupied);
	return order_first(which, order->least);
}

/* The flow with the most bytes of an order that has one. */
inline_always u32 order_most(u32 which)
{
	struct order *order = order_of(which);
	u32 flow;

	if (order->beyond_n)
		return order_beyond(which, true);
	flow = order_first(which, order->most);
	if (flow)
		return flow;
	order->most = bitmap_last(&order->occupied);
	return order_first(which, order->most);
}

#if ORDERS == 1

/* Of all active flows. */
inline_always void order_update(u32 flow, u32 old, u32 new)
{
	order_move(0, flow, old, new);
}

/* There is one. */
inline_always u32 order_shortest(void)
{
	return order_least(0);
}

/* There is one. */
inline_always u32 order_longest(void)
{
	return order_most(0);
}

#endif
