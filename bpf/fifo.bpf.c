/* FIFO, drop-tail: packets leave in the order in which they came; one that does not fit is refused. Twin of
 * core/sched/fifo.rs.
 *
 * Source: the baseline of T. Bonald, L. Muscariello, N. Ostallo, "Self-Prioritization of Audio and Video Traffic",
 * ICC 2011, section V. */
#include "qdisc.h"

/* All packets are of one flow, which has the first entry. */
#define ALL 1

inline_always int fifo_enqueue(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free, const struct packet *pkt)
{
	struct flow *flow = flow_at(ALL);
	struct slot *slot;
	u32 i;

	if (pkt->len > config.limit_bytes)
		return refuse(skb, to_free, TOO_LARGE);
	if (!flow || pool.packets >= config.limit_packets || pool.bytes + pkt->len > config.limit_bytes)
		return refuse(skb, to_free, TAIL);
	i = pool_push(ALL, flow, pkt->len, pkt->now);
	slot = slot_at(i);
	if (!i || !slot)
		return refuse(skb, to_free, TAIL);
	hold(skb, to_free, slot);
	return NET_XMIT_SUCCESS;
}

inline_always u32 fifo_dequeue(u64 now)
{
	struct flow *flow = flow_at(ALL);
	struct slot *slot;
	u32 i;

	if (!flow)
		return 0;
	i = flow->head;
	slot = slot_at(i);
	if (!i || !slot)
		return 0;
	pool_pop(i, slot, flow);
	return i;
}

QDISC(fifo)
