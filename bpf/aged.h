/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Bursts of flows in standing that have aged, and go before shorter queues. Twin of core/sched/makeway/aged.rs, where each constant and
 * each rule has its reason. Included by makeway.bpf.c after `shares`. */
#pragma once

#define AGED (20 * MS)
#define AGED_OF 8
#define BURST_OF 4
#define GRACE_OF 72

inline_always struct links *burst_links(u32 i)
{
	struct slot *slot = slot_at(i);

	return slot ? &slot->burst : NULL;
}

verified_apart int burst_push(u32 i)
{
	struct slot *slot = slot_at(i);

	if (slot)
		round_push(&shares.bursts, i, &slot->burst, burst_links);
	return 0;
}

/* The packet in `slot`, which is `i` and the last of `flow`, came: whether it can age. */
inline_always void burst_join(u64 now, u32 i, struct slot *slot, const struct flow *flow)
{
	/* A slot that was held when the qdisc was reset still says that it is listed. */
	slot->burst = (struct links){};
	if (!goes_first(flow->record.class) || record_stands(&flow->record, flow->packets, now))
		return;
	if ((u64)flow->bytes * BURST_OF <= record_usual(&flow->record))
		burst_push(i);
}

/* The packet in slot `i`, which can age, leaves. */
verified_apart int burst_leave(u32 i)
{
	struct slot *slot = slot_at(i);

	if (!slot)
		return 0;
	round_remove(&shares.bursts, i, &slot->burst, burst_links);
	slot->burst = (struct links){};
	return 0;
}

/* Whether the packet in `slot` can age: slot 0 is nobody, and follows none. */
inline_always bool burst_is_listed(const struct slot *slot)
{
	return slot->burst.next;
}

/* The flow of the oldest packet that can age, if that has; else 0. */
verified_apart u32 aged(u64 now)
{
	u64 least = meter_short(&shares.meter);
	struct flow *flow;
	struct slot *slot;
	u32 oldest;
	int n;

	if (least < AGED)
		least = AGED;
	/* Each packet leaves the list once, so that this is O(1) amortised. */
	bpf_for(n, 0, MOST_PACKETS) {
		oldest = round_head(shares.bursts, burst_links);
		slot = slot_at(oldest);
		if (!oldest || !slot)
			return 0;
		flow = flow_at(slot->flow);
		if (!flow)
			return 0;
		if (goes_first(flow->record.class))
			return since(now, slot->arrived) >= least ? slot->flow : 0;
		burst_leave(oldest);
	}
	return 0;
}

/* Bytes that bulk is owed and waits for while flow `old`, if that is not 0, has aged. */
inline_always u64 grace(u32 old)
{
	return old ? shares.meter.last[0] / GRACE_OF : 0;
}

/* The slot of the first packet of flow `at`. */
inline_always struct slot *first_slot(u32 at)
{
	struct flow *flow = flow_at(at);

	return flow ? slot_at(flow->head) : NULL;
}

/* Of the flow in standing with the shortest queue and of one that has aged: the one that goes first. */
verified_apart u32 elder(u32 shortest, u32 old)
{
	struct slot *first = first_slot(shortest), *other = first_slot(old);
	u64 due;

	if (old == shortest || !first || !other)
		return shortest;
	due = (u64)first->len * (AGED_OF - 1);
	if (shares.spare >= due) {
		shares.spare -= due;
		return shortest;
	}
	shares.spare += other->len;
	return old;
}
