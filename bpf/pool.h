/* The packets of all flows, and the flows that have some. Twin of core/sched/queues.rs.
 *
 * Index 0 is nobody, so that memory of zeros is an empty pool. What is freed is used first. A flow has an entry while
 * it has packets, found by its hash in chains; the loader sizes the maps: one slot and one flow more than the limit
 * in packets, beside index 0, and twice as many chains, a power of two. What a discipline keeps of each active flow, it
 * defines as FLOW_STATE. */
#pragma once

/* The largest limits, in packets and in bytes. */
#define MOST_PACKETS (1 << 17)
#define LIMIT_BYTES (16 << 20)

struct slot {
	struct sk_buff __kptr *skb;
	/* Towards the head and the tail of the flow's queue; a free slot's `next` is the next free one. */
	u32 prev;
	u32 next;
	/* Bytes on the wire. */
	u32 len;
	u32 flow;
	u64 arrived;
};

struct flow {
	u32 hash;
	/* The next flow of its chain; of a free entry, the next free one. */
	u32 chain;
	u32 head;
	u32 tail;
	u32 bytes;
	u32 packets;
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
	/* The slot and the flow freed last, and how many were ever used. */
	u32 free_slot;
	u32 used_slots;
	u32 free_flow;
	u32 used_flows;
} pool;

/* Written by the loader before it loads: constants to the verifier. */
const volatile struct sizes {
	u32 chain_mask;
	u32 seed;
} sizes SEC(".rodata.sizes") = { 1, 1 };

/* Steps in a chain before a flow is taken for the last one in it; of chains half as many as flows that can be, one
 * with as many flows has a chance below 10^-19. */
#define CHAIN 16

inline_always struct slot *slot_at(u32 i)
{
	return bpf_map_lookup_elem(&slots, &i);
}

inline_always struct flow *flow_at(u32 i)
{
	return bpf_map_lookup_elem(&flows, &i);
}

inline_always u32 *chain_of(u32 hash)
{
	/* The upper bits of a product with an odd number depend on all of the hash. */
	u32 i = (u32)(((hash ^ sizes.seed) * 0x9e3779b97f4a7c15ULL) >> 32) & sizes.chain_mask;

	return bpf_map_lookup_elem(&chains, &i);
}

/* The flow of `hash`, a new one if it has no packets; 0 if there is no place. */
inline_always u32 pool_flow(u32 hash)
{
	u32 *chain = chain_of(hash);
	struct flow *flow;
	u32 i;

	if (!chain)
		return 0;
	i = *chain;
	for (int n = 0; i && n < CHAIN; n++) {
		flow = flow_at(i);
		if (!flow)
			return 0;
		if (flow->hash == hash || (n == CHAIN - 1))
			return i;
		i = flow->chain;
	}
	i = pool.free_flow ?: pool.used_flows + 1;
	flow = flow_at(i);
	if (!flow)
		return 0;
	if (pool.free_flow)
		pool.free_flow = flow->chain;
	else
		pool.used_flows = i;
	flow->hash = hash;
	flow->chain = *chain;
	*chain = i;
	return i;
}

/* Takes an idle flow out of its chain. */
inline_always void pool_forget(u32 at, struct flow *flow)
{
	u32 *link = chain_of(flow->hash);

	for (int n = 0; link && n < CHAIN; n++) {
		struct flow *next;

		if (*link == at) {
			*link = flow->chain;
			break;
		}
		next = flow_at(*link);
		if (!next)
			return;
		link = &next->chain;
	}
	flow->chain = pool.free_flow;
	pool.free_flow = at;
}

/* A slot for a packet at the tail of flow `at`; 0 if there is none. The caller puts the packet in. */
inline_always u32 pool_push(u32 at, struct flow *flow, u32 len, u64 now)
{
	u32 i = pool.free_slot ?: pool.used_slots + 1;
	struct slot *slot = slot_at(i);
	u32 tail = flow->tail;

	if (!slot)
		return 0;
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
	return i;
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
	flow->bytes -= slot->len;
	flow->packets--;
	pool.packets--;
	pool.bytes -= slot->len;
	slot->next = pool.free_slot;
	pool.free_slot = i;
}
