/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Packets that go before bulk under makeway, and what bulk is owed for them. Included by makeway.bpf.c after `take` and `depart`. */
#pragma once

/* Adds the debt to bulk for a packet of `flow`, which goes before it. */
inline_always void owe(const struct flow *flow, u32 len)
{
	struct user *user;
	s64 most, least;

	if (!shares.waiting) {
		shares.owed = 0;
		return;
	}
	shares.owed += (u64)len * (flow->record.class == NEW ? OWED_NEW : OWED_STANDING);
	user = user_at(flow->user);
	if (!user || shares.waiting <= user->waiting)
		return;
	shares.owed_others += (u64)len * OWED_USERS;
	if (goes_first(flow->record.class))
		shares.meter.owes = true;
	if (flow->record.class != NEW || !user->in_round)
		return;
	most = (s64)config.quantum * DEBT_TURNS;
	if (most > DEBT)
		most = DEBT;
	/* A large packet of bulk may have cost more already, and that stays. */
	least = user->deficit < -most ? user->deficit : -most;
	user->deficit -= len;
	if (user->deficit < least)
		user->deficit = least;
}

/* The new flow with the longest queue is judged: beside those in standing, or new ones that are kept short, it would not be
 * served at all, and a flow that is not served sends no packet by which it could be judged. As bulk it has a floor. */
verified_apart int judge_new(u64 now)
{
	struct flow *flow;
	u32 at;

	if (order_is_empty(NEW)) {
		shares.earliest = now;
		return 0;
	}
	at = order_most(NEW);
	flow = flow_at(at);
	if (flow && record_stands(&flow->record, flow->packets, now)) {
		record_change(&flow->record, now, BULK, STANDING_QUEUE);
		change(at, flow, NEW);
	}
	return 0;
}

/* The new flow with the shortest queue; 0 if there is none. */
inline_always u32 first_new(void)
{
	return order_is_empty(NEW) ? 0 : order_least(NEW);
}

/* The packet in slot `i` was the first of flow `at`, in standing, whose queue stands: the slot of the first that is not late, or of the
 * last; those before it are dropped. */
verified_apart u32 in_time(u64 now, u32 at, u32 i)
{
	u64 deadline = meter_deadline(&shares.meter);
	struct flow *flow = flow_at(at);
	struct slot *slot;
	int n;

	bpf_for(n, 0, MOST_PACKETS) {
		slot = slot_at(i);
		if (!slot || !flow || !flow->packets || since(now, slot->arrived) <= deadline)
			break;
		record_loss(&flow->record, now, 1);
		give_up_late(slot, SOJOURN);
		i = take(now, at);
	}
	return i;
}

/* The slot of a packet of a flow in standing or on probation, of which flow `old`, if that is not 0, has aged, or else of a new one; NULL
 * if there is none. */
inline_always struct slot *first(u64 now, u32 old)
{
	struct flow *flow;
	struct slot *slot;
	bool stands;
	u32 at, i;

	/* Until then no queue of a new flow stands. */
	if (shares.earliest + STANDS < now)
		judge_new(now);
	at = order_is_empty(STANDING) ? first_new() : order_least(STANDING);
	if (old)
		at = elder(at, old);
	flow = flow_at(at);
	if (!at || !flow)
		return NULL;
	stands = flow->record.class != NEW && record_stands(&flow->record, flow->packets, now);
	i = flow->head;
	slot = take_from(now, at, flow);
	if (stands) {
		i = in_time(now, at, i);
		slot = slot_at(i);
	}
	if (!i || !slot)
		return NULL;
	owe(flow, slot->len);
	depart(flow, now, slot);
	return slot;
}
