/* Fair queueing: deficit round robin over the active flows, and, when the buffer is full, one packet less in the flow
 * that holds the most bytes. Twin of core/sched/fq.rs.
 *
 * Source: M. Shreedhar, G. Varghese, "Efficient Fair Queuing using Deficit Round Robin", SIGCOMM 1995, section 3:
 * ActiveList is the ring, Q_i `config.quantum`, DC_i `deficit`. Longest queue drop: B. Suter, T. V. Lakshman,
 * D. Stiliadis, A. K. Choudhury, INFOCOM 1998. */
#define FLOW_STATE                                                                                                     \
	struct links links;                                                                                            \
	u64 deficit;
#define FLOW_ENDS fq_leave

#include "ring.h"
#include "qdisc.h"

inline_always void fq_leave(u32 at, struct flow *flow);

#include "order.h"
#include "queues.h"

/* Whether the flow at the head has had its quantum for this turn. */
bool granted;

inline_always struct links *links_at(u32 i)
{
	struct flow *flow = flow_at(i);

	return flow ? &flow->links : NULL;
}

inline_always void fq_leave(u32 at, struct flow *flow)
{
	if (ring_head() == at)
		granted = false;
	ring_remove(at);
	flow->deficit = 0;
}

inline_always int fq_enqueue(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free, const struct packet *pkt)
{
	struct slot *slot;
	struct flow *flow;
	u32 at;

	if (pkt->len > config.limit_bytes)
		return refuse(skb, to_free, TOO_LARGE);
	flow = pool_flow(flow_hash(skb), &at);
	slot = flow ? queues_push(at, flow, pkt) : NULL;
	if (!slot)
		return refuse(skb, to_free, FLOWS);
	if (flow->packets == 1)
		ring_push(at);
	hold(skb, to_free, slot);
	drop_excess(to_free);
	return NET_XMIT_SUCCESS;
}

/* The turn of the flow at the head: the slot of its first packet, if that may go; else the next flow is at the head,
 * and 0 is said. */
inline_always u32 fq_turn(void)
{
	struct flow *flow = flow_at(ring_head());
	struct slot *slot;

	if (!flow)
		return 0;
	slot = slot_at(flow->head);
	if (!slot)
		return 0;
	if (!granted) {
		flow->deficit += config.quantum;
		granted = true;
	}
	if (slot->len <= flow->deficit) {
		flow->deficit -= slot->len;
		return flow->head;
	}
	ring_rotate();
	granted = false;
	return 0;
}

inline_always u32 fq_dequeue(u64 now)
{
	u32 i = 0;
	struct flow *flow;
	struct slot *slot;
	int n;

	if (!pool.packets)
		return 0;
	bpf_for(n, 0, TURNS) {
		i = fq_turn();
		if (i)
			break;
	}
	slot = slot_at(i);
	if (!i || !slot)
		return 0;
	flow = flow_at(slot->flow);
	if (!flow)
		return 0;
	queues_pop(i, slot, flow);
	return i;
}

QDISC(fq)
