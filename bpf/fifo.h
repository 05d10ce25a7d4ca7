/* Packets in order of arrival. Twin of core's `Fifo`, whose queue is a `struct flow`. */
#pragma once

/* Whether a packet of `len` finds no place beside `packets` of `bytes` (core's `Limits::refusal`). */
inline_always bool is_full(u32 packets, u32 bytes, u32 len)
{
	return packets >= config.limit_packets || bytes + len > config.limit_bytes;
}

/* Takes the packet at the head of `queue` out of the pool; its slot, 0 if there is none. */
inline_always u32 fifo_pop(struct flow *queue)
{
	u32 i = queue->head;
	struct slot *slot = slot_at(i);

	if (!i || !slot)
		return 0;
	pool_pop(i, slot, queue);
	return i;
}
