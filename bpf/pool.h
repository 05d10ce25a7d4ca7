/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* The packets of all flows, and the flows that have some. Twin of core/sched/queues.rs.
 *
 * Index 0 is nobody, so that memory of zeros is an empty pool. The entry freed last is used first. A flow has an entry while
 * it has packets, found by its hash in chains; the loader sizes the maps: one slot and one flow more than the limit
 * in packets can be, beside index 0, and twice as many chains, a power of two. A *slot* holds one packet; a *chain* lists the flows
 * whose hashes have the same low bits. A discipline defines its state of each active flow as FLOW_STATE, and of each packet as SLOT_STATE. */
#pragma once

#include "table.h"

/* The largest limits, in packets and in bytes. */
#define MOST_PACKETS (1 << 17)
#define LIMIT_BYTES (16 << 20)

/* Bytes that a packet counts at least where flows are compared by backlog: core's `LEAST_COST`. */
#define LEAST_COST 256

struct slot {
	struct sk_buff __kptr *skb;
	/* Towards the head and the tail of the flow's queue; a free slot's `next` is the next free one. */
	u32 prev;
	u32 next;
	/* Bytes on the wire. */
	u32 len;
	u32 flow;
	u64 arrived;
#ifdef SLOT_STATE
	SLOT_STATE
#endif
};

struct flow {
	struct entry entry;
	u32 head;
	u32 tail;
	u32 bytes;
	u32 packets;
	/* The backlog by which queues.h compares flows. */
	u32 cost;
#ifdef FLOW_STATE
	FLOW_STATE
#endif
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u32);
} chains SEC(".maps");

struct pool {
	u32 packets;
	u32 bytes;
	/* The slot freed last, and how many were ever used. */
	u32 free_slot;
	u32 used_slots;
	struct table flows;
} pool SEC(".bss.pool");

inline_always struct slot *slot_at(u32 i)
{
	return bpf_map_lookup_elem(&slots, &i);
}

inline_always struct flow *flow_at(u32 i)
{
	return bpf_map_lookup_elem(&flows, &i);
}

/* The flow of `hash` and its place, a new one if it has no packets; NULL if there is no place. */
inline_always struct flow *pool_flow(u32 hash, u32 *at)
{
	return table_hold(&pool.flows, &chains, &flows, hash, at);
}

/* Takes an idle flow out of its chain. */
inline_always void pool_forget(u32 at, struct flow *flow)
{
	table_free(&pool.flows, &chains, &flows, at, &flow->entry);
}

/* Forgets all packets, which are freed already, and all flows. */
inline_always void pool_clear(void)
{
	u32 n;

	bpf_for(n, 1, MOST_PACKETS + 2) {
		struct flow *flow = n <= pool.flows.used ? flow_at(n) : NULL;

		if (!flow)
			break;
		table_forget(&chains, flow->entry.hash);
		*flow = (struct flow){};
	}
	pool = (struct pool){};
}

/* A slot for a packet at the tail of flow `at`; NULL if there is none. The caller puts the packet in. */
inline_always struct slot *pool_push(u32 at, struct flow *flow, u32 len, u64 now)
{
	u32 i = pool.free_slot ?: pool.used_slots + 1;
	struct slot *slot = slot_at(i);
	u32 tail = flow->tail;

	if (!slot)
		return NULL;
	if (pool.free_slot)
		pool.free_slot = slot->next;
	else
		pool.used_slots = i;
	slot->prev = tail;
	slot->next = 0;
	slot->len = len;
	slot->flow = at;
	slot->arrived = now;
	if (tail) {
		struct slot *last = slot_at(tail);

		if (last)
			last->next = i;
	} else {
		flow->head = i;
	}
	flow->tail = i;
	flow->bytes += len;
	flow->packets++;
	pool.packets++;
	pool.bytes += len;
	return slot;
}

/* Slot `i` has left the queue of `flow`. */
inline_always void pool_release(u32 i, struct slot *slot, struct flow *flow)
{
	flow->bytes -= slot->len;
	flow->packets--;
	pool.packets--;
	pool.bytes -= slot->len;
	slot->next = pool.free_slot;
	pool.free_slot = i;
}

/* Takes slot `i`, at an end of the queue of `flow`, out of the pool; its packet stays in `slot->skb`. */
inline_always void pool_pop(u32 i, struct slot *slot, struct flow *flow)
{
	u32 prev = slot->prev, next = slot->next;
	struct slot *other;

	if (prev) {
		other = slot_at(prev);
		if (other)
			other->next = next;
	} else {
		flow->head = next;
	}
	if (next) {
		other = slot_at(next);
		if (other)
			other->prev = prev;
	} else {
		flow->tail = prev;
	}
	pool_release(i, slot, flow);
}

/* The same of the first of a queue that is left at its head alone: `prev` of the next, which nobody reads, is not kept. */
inline_always void pool_pop_first(u32 i, struct slot *slot, struct flow *flow)
{
	flow->head = slot->next;
	if (!slot->next)
		flow->tail = 0;
	pool_release(i, slot, flow);
}
