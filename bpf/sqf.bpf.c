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
	struct slot *slot;
	u32 at;

	if (pkt->len > config.limit_bytes)
		return refuse(skb, to_free, TOO_LARGE);
	flow = pool_flow(flow_hash(skb), &at);
	slot = flow ? queues_push(at, flow, pkt) : NULL;
	if (!slot)
		return refuse(skb, to_free, FLOWS);
	hold(skb, to_free, slot);
	drop_excess(to_free);
	return NET_XMIT_SUCCESS;
}

/* Algorithm 1, at packet departure. */
inline_always u32 sqf_dequeue(u64 now)
{
	struct flow *flow;
	struct slot *slot;
	u32 i;

	if (!pool.packets)
		return 0;
	flow = flow_at(order_shortest());
	if (!flow)
		return 0;
	i = flow->head;
	slot = slot_at(i);
	if (!i || !slot)
		return 0;
	queues_pop(i, slot, flow);
	return i;
}

QDISC(sqf)
