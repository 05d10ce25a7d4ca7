/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Bulk under makeway: turns of users and of the flows of each, by deficit, and CoDel in the flow whose turn it is. Included by
 * makeway.bpf.c after `take` and `depart`. */

/* Whether bulk's turn has come, where flow `old`, if that is not 0, has aged. */
inline_always bool is_due(u32 old)
{
	return shares.waiting && is_owed_to_bulk(config.quantum, old);
}

/* A step through the rounds: the bulk flow whose turn it is, 0 if there is a further step to take, NOBODY if there is none. */
verified_apart u32 step(void)
{
	u32 i = round_head(shares.round, user_turns), at;
	struct user *user = user_at(i);
	struct flow *flow;
	bool is_bulk;

	if (!i || !user)
		return NOBODY;
	if (user->deficit <= 0) {
		user->deficit += (s64)config.quantum * weight_of(user);
		user->fresh = false;
		round_rotate(&shares.round, user_turns);
		return 0;
	}
	at = round_head(user->round, flow_turns);
	flow = flow_at(at);
	if (!at || !flow) {
		user->in_round = user->fresh;
		if (user->fresh)
			round_rotate(&shares.round, user_turns);
		else
			round_remove(&shares.round, i, &user->turns, user_turns);
		user->fresh = false;
		return 0;
	}
	is_bulk = flow->record.class == BULK;
	if (is_bulk && flow->packets) {
		if (flow->deficit > 0)
			return at;
		flow->deficit += record_floods(&flow->record) ? config.quantum / 8 : config.quantum;
	} else if (!is_bulk || !flow->fresh) {
		flow->in_round = false;
		round_remove(&user->round, at, &flow->turns, flow_turns);
		return 0;
	}
	/* Also one that is empty after its first turn, so that nobody lives on first turns. */
	flow->fresh = false;
	round_rotate(&user->round, flow_turns);
	return 0;
}

/* The bulk flow whose turn it is; 0 if there is none. */
inline_always u32 turn(void)
{
	u32 at = step();
	int n;

	if (!at) {
		bpf_for(n, 0, TURNS) {
			at = step();
			if (at)
				break;
		}
	}
	if (!at && !order_is_empty(BULK))
		at = order_most(BULK);
	return at == NOBODY ? 0 : at;
}

/* Drops what flow `at`, which is bulk, has had for too long since it fell: TCP in slow start falls with a queue that takes a second or more
 * of a bulk flow's part, and what it has to send again would wait behind all of that. CoDel would drop some of what is sent again. */
verified_apart int clear(u64 now, u32 at)
{
	struct flow *flow = flow_at(at);
	struct slot *slot;
	int n;

	if (!flow || since(now, flow->record.since) >= CLEARS)
		return 0;
	bpf_for(n, 0, MOST_PACKETS) {
		slot = slot_at(flow->head);
		if (!slot || flow->packets <= KEPT || since(now, slot->arrived) <= STALE)
			break;
		give_up_late(slot_at(take(now, at)), SOJOURN);
		record_loss(&flow->record, now, 1);
		codel_spare(&flow->codel, now + RESPONDS);
	}
	return 0;
}

/* The packet in `slot`, which is `i`, was the first of `flow`: whether CoDel may drop it. */
inline_always u32 next(u64 now, u32 i, const struct slot *slot, struct flow *flow, const struct codel_law *law, bool *may)
{
	if (!i || !slot) {
		flow->codel.first_above = 0;
		flow->codel.dropping = false;
		*may = false;
		return 0;
	}
	*may = codel_is_above(&flow->codel, law, now, since(now, slot->arrived), flow->bytes);
	return i;
}

/* The slot of the packet of bulk flow `at` that CoDel leaves. */
verified_apart u32 next_of(u64 now, u32 at)
{
	struct flow *flow = flow_at(at);
	u32 mtu = FULL_FRAME, i;
	struct codel_law law;
	struct slot *slot;
	bool may;
	int n;

	if (!flow)
		return 0;
	i = flow->head;
	slot = take_from(now, at, flow);
	/* A full packet behind the head is no queue (RFC 8289 5.6), in cells or not, and with any quantum. */
	if (slot && slot->len > mtu)
		mtu = slot->len;
	law = (struct codel_law){ lift_target(&flow->lift, now, &shares.idle_time), INTERVAL, mtu };
	i = next(now, i, slot, flow, &law, &may);
	if (!flow->codel.dropping && may) {
		give_up_late(slot, SOJOURN);
		i = take(now, at);
		i = next(now, i, slot_at(i), flow, &law, &may);
		if (i)
			codel_begin(&flow->codel, &law, now);
		return i;
	}
	/* Below the target: the dropping ends. */
	flow->codel.dropping = flow->codel.dropping && may;
	if (!codel_is_due(&flow->codel, now))
		return i;
	bpf_for(n, 0, MOST_PACKETS) {
		if (!codel_is_due(&flow->codel, now))
			break;
		flow->codel.count = sum_of(flow->codel.count, 1);
		give_up_late(slot_at(i), SOJOURN);
		i = take(now, at);
		i = next(now, i, slot_at(i), flow, &law, &may);
		codel_go_on(&flow->codel, &law, may);
	}
	return i;
}

/* The slot of a packet of the bulk flow whose turn it is; NULL if there is none. */
inline_always struct slot *bulk(u64 now)
{
	u32 at = turn(), held, i, lost;
	struct flow *flow = flow_at(at);
	struct slot *slot;
	struct user *user;
	u64 paid;

	clear(now, at);
	held = pool.packets;
	i = next_of(now, at);
	lost = held - pool.packets - 1;
	slot = slot_at(i);
	if (!at || !i || !flow || !slot)
		return NULL;
	flow->deficit -= slot->len;
	if (lost) {
		record_loss(&flow->record, now, lost);
		lift_cut(&flow->lift, now);
	}
	user = user_at(flow->user);
	if (user)
		user->deficit -= slot->len;
	paid = (u64)slot->len * OWED_OF;
	shares.owed = since(shares.owed, paid);
	shares.owed_others = since(shares.owed_others, paid);
	depart(flow, now, slot);
	return slot;
}
