/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* A pool whose flows are in order of backlog. Twin of core's `Queues`. A discipline includes an order before. If it has
 * something to do when a flow has got its first packet or lost its last, it defines FLOW_BEGINS and FLOW_ENDS, functions of
 * (u32 at, struct flow *flow). */
#pragma once

/* Cost of a packet of `len` in its flow's backlog. */
inline_always u32 cost_of(u32 len)
{
	return len > LEAST_COST ? len : LEAST_COST;
}

/* Takes the packet in slot `i`, the first or the last of `flow`, out of the pool. */
inline_always void queues_pop(u32 i, struct slot *slot, struct flow *flow)
{
	u32 at = slot->flow, old = flow->cost;

	pool_pop(i, slot, flow);
	flow->cost = old - cost_of(slot->len);
	order_update(at, old, flow->cost);
	if (flow->packets)
		return;
#ifdef FLOW_ENDS
	FLOW_ENDS(at, flow);
#endif
	pool_forget(at, flow);
}

/* Takes the first packet of flow `at` out of the pool; its slot, NULL if there is none. */
inline_always struct slot *queues_leave(u32 at)
{
	struct flow *flow = flow_at(at);
	struct slot *slot;
	u32 i;

	if (!at || !flow)
		return NULL;
	i = flow->head;
	slot = slot_at(i);
	if (!i || !slot)
		return NULL;
	queues_pop(i, slot, flow);
	return slot;
}

/* Longest queue drop: takes a packet out of the longest queue; whether there was one. */
inline_always bool drop_longest(struct bpf_sk_buff_ptr *to_free)
{
	struct flow *flow = flow_at(order_longest());
	struct slot *slot;
	u32 i;

	if (!flow)
		return false;
	i = config.drop_tail ? flow->tail : flow->head;
	slot = slot_at(i);
	if (!i || !slot)
		return false;
	queues_pop(i, slot, flow);
	give_up(slot, to_free, LONGEST_QUEUE);
	return true;
}

/* Drops from the longest queue until the limits hold again. */
inline_always void drop_excess(struct bpf_sk_buff_ptr *to_free)
{
	int n;

	if (!is_over())
		return;
	drop_longest(to_free);
	if (!is_over())
		return;
	/* Several small packets for a large one. */
	bpf_for(n, 0, MOST_PACKETS) {
		if (!is_over() || !drop_longest(to_free))
			break;
	}
}

/* Takes `skb` to the tail of the queue of `flow`, at `at`; a full buffer drops from the longest queues. */
inline_always int queues_take(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free, u32 at, struct flow *flow,
			      const struct packet *pkt)
{
	u32 old = flow->cost;
	struct slot *slot;

	slot = is_beyond() ? NULL : pool_push(at, flow, pkt->len, pkt->now);
	if (!slot)
		return refuse(skb, to_free, FLOWS);
	flow->cost = old + cost_of(pkt->len);
	order_update(at, old, flow->cost);
#ifdef FLOW_BEGINS
	if (flow->packets == 1)
		FLOW_BEGINS(at, flow);
#endif
	hold(skb, to_free, slot);
	drop_excess(to_free);
	return NET_XMIT_SUCCESS;
}

/* Takes all flows out of the order. */
inline_always void queues_clear(void)
{
	u32 n;

	bpf_for(n, 1, MOST_PACKETS + 2) {
		struct flow *flow = n <= pool.flows.used ? flow_at(n) : NULL;

		if (!flow)
			break;
		/* The compiler knows how large it is and would leave out what shows it to the verifier. */
		barrier_var(n);
		order_update(n, flow->cost, 0);
	}
}
