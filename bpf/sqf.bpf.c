/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Shortest queue first with longest queue drop: always a packet of the active flow that holds the least bytes, and,
 * when the buffer is full, one packet less in the flow that holds the most. Twin of core/sched/sqf.rs.
 *
 * Source: T. Bonald, L. Muscariello, N. Ostallo, "Self-Prioritization of Audio and Video Traffic", ICC 2011,
 * section III.B, Algorithm 1. */
#include "qdisc.h"
#include "order.h"
#include "queues.h"

/* Algorithm 1, at packet arrival. */
inline_always int sqf_enqueue(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free, const struct packet *pkt)
{
	struct flow *flow;
	u32 at;

	if (pkt->len > config.limit_bytes)
		return refuse(skb, to_free, TOO_LARGE);
	flow = pool_flow(flow_hash(skb), &at);
	return flow ? queues_take(skb, to_free, at, flow, pkt) : refuse(skb, to_free, FLOWS);
}

/* Algorithm 1, at packet departure. */
inline_always struct slot *sqf_dequeue(u64 now)
{
	return pool.packets ? queues_leave(order_shortest()) : NULL;
}

inline_always void sqf_clear(void)
{
	queues_clear();
}

QDISC(sqf)
