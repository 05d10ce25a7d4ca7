/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Deficit round robin: who is at the head of the ring has a turn, which ends when its deficit is less than its packet. */
#pragma once

#define LEAST_QUANTUM 64
/* Turns of a deficit round robin without a departure are fewer: each adds a quantum to a deficit that is less than a
 * packet at the head of a queue. */
#define TURNS (LIMIT_BYTES / LEAST_QUANTUM + MOST_PACKETS)

/* Result of a turn that finds no queue to serve: never with an order that is whole. */
#define NOBODY (~0U)
/* Most of those that one dequeue passes over; then it returns no packet. */
#define MOST_NOBODIES 64

inline_always struct slot *queues_leave(u32 at);

/* Whether who is at the head has had its quantum for this turn. */
bool granted;

/* A queue that leaves the ring takes no turn along. */
inline_always void turns_leave(u32 i)
{
	if (ring_head() == i)
		granted = false;
	ring_remove(i);
}

/* The turn at the head is over. */
inline_always void turns_pass(void)
{
	ring_rotate();
	granted = false;
}

/* Whether the turn at the head has `len` bytes left, which it spends. */
inline_always bool turn_allows(u64 *deficit, u64 quantum, u32 len)
{
	if (!granted) {
		*deficit += quantum;
		granted = true;
	}
	if (len <= *deficit) {
		*deficit -= len;
		return true;
	}
	return false;
}

/* Turns of this dequeue that found nobody. In memory, so that the verifier does not count them. */
u32 nobodies;

/* Takes a packet of the first flow that a turn gives, which says 0 or NOBODY until one may send; the packet's slot, NULL if
 * there is none. */
inline_always struct slot *turns_dequeue(u32 (*turn)(void))
{
	u32 at = 0;
	int n;

	if (!pool.packets)
		return NULL;
	nobodies = 0;
	bpf_for(n, 0, TURNS) {
		at = turn();
		if (at && at != NOBODY)
			return queues_leave(at);
		turns_pass();
		if (at == NOBODY && ++nobodies == MOST_NOBODIES)
			break;
	}
	return NULL;
}
