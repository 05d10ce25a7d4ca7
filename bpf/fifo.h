/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Packets in order of arrival. Twin of core's `Fifo`, whose queue is a `struct flow`. */
#pragma once

/* Whether a packet of `len` finds no place beside `packets` of `bytes` (core's `Limits::refusal`). */
inline_always bool is_full(u32 packets, u32 bytes, u32 len)
{
	return packets >= config.limit_packets || bytes + len > config.limit_bytes;
}

/* Takes `skb`, of the flow at `at`, to the tail of `queue`. */
inline_always int fifo_take(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free, u32 at, struct flow *queue,
			    const struct packet *pkt)
{
	struct slot *slot = pool_push(at, queue, pkt->len, pkt->now);

	if (!slot)
		return refuse(skb, to_free, FLOWS);
	hold(skb, to_free, slot);
	return NET_XMIT_SUCCESS;
}

/* Takes the packet at the head of `queue` out of the pool; its slot, NULL if there is none. */
inline_always struct slot *fifo_pop(struct flow *queue)
{
	u32 i = queue->head;
	struct slot *slot = slot_at(i);

	if (!i || !slot)
		return NULL;
	pool_pop(i, slot, queue);
	return slot;
}
