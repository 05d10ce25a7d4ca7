/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* FIFO, drop-tail: packets leave in the order in which they came; one that does not fit is refused. Twin of
 * core/sched/fifo.rs.
 *
 * Source: the baseline of T. Bonald, L. Muscariello, N. Ostallo, "Self-Prioritization of Audio and Video Traffic",
 * ICC 2011, section V. */
#include "qdisc.h"
#include "fifo.h"

struct flow queue;

inline_always int fifo_enqueue(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free, const struct packet *pkt)
{
	if (pkt->len > config.limit_bytes)
		return refuse(skb, to_free, TOO_LARGE);
	if (is_full(pool.packets, pool.bytes, pkt->len))
		return refuse(skb, to_free, TAIL);
	return fifo_take(skb, to_free, 0, &queue, pkt);
}

inline_always struct slot *fifo_dequeue(u64 now)
{
	return fifo_pop(&queue);
}

inline_always void fifo_clear(void)
{
	queue = (struct flow){};
}

QDISC(fifo)
