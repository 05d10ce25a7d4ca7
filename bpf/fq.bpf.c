/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Fair queueing: deficit round robin over the active flows, and, when the buffer is full, one packet less in the flow
 * that holds the most bytes. Twin of core/sched/fq.rs.
 *
 * Source: M. Shreedhar, G. Varghese, "Efficient Fair Queuing using Deficit Round Robin", SIGCOMM 1995, section 3:
 * ActiveList is the ring, Q_i `config.quantum`, DC_i `deficit`. Longest queue drop: B. Suter, T. V. Lakshman,
 * D. Stiliadis, A. K. Choudhury, INFOCOM 1998. */
#define FLOW_STATE                                                                                                     \
	struct links links;                                                                                            \
	u64 deficit;
#define FLOW_BEGINS fq_join
#define FLOW_ENDS fq_leave

#include "ring.h"
#include "qdisc.h"
#include "turns.h"

inline_always void fq_join(u32 at, struct flow *flow);
inline_always void fq_leave(u32 at, struct flow *flow);

#include "order.h"
#include "queues.h"

inline_always struct links *links_at(u32 i)
{
	struct flow *flow = flow_at(i);

	return flow ? &flow->links : NULL;
}

inline_always void fq_join(u32 at, struct flow *flow)
{
	ring_push(at);
}

inline_always void fq_leave(u32 at, struct flow *flow)
{
	turns_leave(at);
	flow->deficit = 0;
}

inline_always int fq_enqueue(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free, const struct packet *pkt)
{
	struct flow *flow;
	u32 at;

	if (pkt->len > config.limit_bytes)
		return refuse(skb, to_free, TOO_LARGE);
	flow = pool_flow(flow_hash(skb), &at);
	return flow ? queues_take(skb, to_free, at, flow, pkt) : refuse(skb, to_free, FLOWS);
}

/* The flow at the head, if its first packet may go. */
inline_always u32 fq_turn(void)
{
	u32 at = ring_head();
	struct flow *flow = flow_at(at);
	struct slot *slot = flow ? slot_at(flow->head) : NULL;

	return slot && turn_allows(&flow->deficit, config.quantum, slot->len) ? at : 0;
}

inline_always void fq_clear(void)
{
	struct links *ends = links_at(0);

	queues_clear();
	if (ends)
		*ends = (struct links){};
	granted = false;
}

inline_always struct slot *fq_dequeue(u64 now)
{
	return turns_dequeue(fq_turn);
}

QDISC(fq)
