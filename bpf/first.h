/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Packets that go before bulk under makeway, and what bulk is owed for them. Included by makeway.bpf.c after `take` and `depart`. */
#pragma once

/* Whether bulk of other users than `user` waits. */
inline_always bool is_before_others(const struct user *user)
{
	return user && shares.waiting > user->waiting;
}

/* `user` of a new flow pays for `len` bytes of it by turns of its bulk flows. */
inline_always void charge(struct user *user, u32 len)
{
	s64 most = (s64)config.quantum * DEBT_TURNS, least;

	if (!user->in_round)
		return;
	if (most > DEBT)
		most = DEBT;
	/* A large packet of bulk may have cost more already, and that stays. */
	least = user->deficit < -most ? user->deficit : -most;
	user->deficit -= len;
	if (user->deficit < least)
		user->deficit = least;
}

/* Adds the debts for a packet of `flow`, which goes before bulk. */
inline_always void owe(const struct flow *flow, u32 len)
{
	bool is_new = flow->record.class == NEW;
	struct user *user;

	/* Half as much if bulk waits too, which has the other half. */
	if (is_new || order_is_empty(NEW))
		shares.owed_new = 0;
	else
		shares.owed_new += (u64)len * OWED_STANDING / (shares.waiting ? 2 : 1);
	if (!shares.waiting) {
		shares.owed = 0;
		return;
	}
	shares.owed += (u64)len * (is_new ? OWED_NEW : OWED_STANDING);
	user = user_at(flow->user);
	if (!is_before_others(user))
		return;
	shares.owed_others += (u64)len * OWED_USERS;
	if (goes_first(flow->record.class))
		shares.meter.owes = true;
	if (is_new)
		charge(user, len);
}

/* The new flow with the longest queue is judged: beside those in standing, or new ones that are kept short, it may not be
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

/* Whether bulk is owed these bytes and need not wait for flow `old`, if that is not 0, which has aged; or that of other users is owed more than
 * it waits for. */
inline_always bool is_owed_to_bulk(u64 bytes, u32 old)
{
	return shares.owed >= (bytes + grace(old)) * OWED_OF || shares.owed_others >= (u64)OWED_OF * BURST;
}

/* The new flow with the shortest queue, if it is owed its first packet; else 0. If bulk waits, that has to be owed as much, where flow `old`, if
 * that is not 0, has aged. */
verified_apart u32 behind(u32 old)
{
	struct slot *head;
	u32 at;

	if (!shares.standing || order_is_empty(NEW))
		return 0;
	at = order_least(NEW);
	head = first_slot(at);
	if (!head || shares.owed_new < (u64)head->len * OWED_OF)
		return 0;
	return !shares.waiting || is_owed_to_bulk(head->len, old) ? at : 0;
}

/* The slot of the packet that a new flow is owed; NULL if there is none. Those in standing can take all of the link without a queue that
 * stands, and a call that begins would wait until it is bulk. If bulk waits too, it pays, so that those in standing lose nothing. */
inline_always struct slot *owed_to_new(u64 now, u32 old)
{
	/* Mostly no new flow waits behind others. */
	u32 at = shares.owed_new ? behind(old) : 0;
	struct flow *flow = flow_at(at);
	struct slot *slot;
	struct user *user;
	u64 paid;

	if (!at || !flow)
		return NULL;
	slot = take_from(now, at, flow);
	if (!slot)
		return NULL;
	paid = (u64)slot->len * OWED_OF;
	shares.owed_new = since(shares.owed_new, paid);
	shares.owed = since(shares.owed, paid);
	shares.owed_others = since(shares.owed_others, paid);
	user = user_at(flow->user);
	if (is_before_others(user))
		charge(user, slot->len);
	depart(flow, now, slot);
	return slot;
}
