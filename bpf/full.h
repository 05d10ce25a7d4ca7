/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* The flow that pays for a full buffer of makeway.bpf.c. Twin of core/sched/makeway/full.rs. */
#pragma once

/* A standing queue counts this part for the drop, while less than 3/4 of the buffer stands. */
#define SHIELD 16

/* Flows in standing hold more than 3/4 of the buffer. */
inline_always bool standing_is_most(void)
{
	return shares.standing > config.limit_packets / 4 * 3;
}

/* Of those that are not in standing, the longest flow of the user that holds most; `other` is the longest of all users, of new ones
 * by bytes. */
inline_always u32 longest_of_heaviest(u32 other)
{
	struct user *user = user_at(shares.heaviest);
	struct flow *flow = flow_at(other), *longest;

	if (!shares.heaviest || !user || !flow)
		return other;
	longest = flow_at(user->longest);
	if (!longest || longest->user != shares.heaviest || !longest->packets || goes_first(longest->record.class))
		return other;
	if (flow->user == shares.heaviest && size_of(longest) <= size_of(flow))
		return other;
	return user->longest;
}

/* A packet of `flow`, at `at`, which is not in standing, has come: whether it is the longest of its `user`, and that one the heaviest. */
inline_always void weigh(u32 at, const struct flow *flow, struct user *user)
{
	struct user *heaviest;
	struct flow *longest;

	if (user->longest != at) {
		longest = flow_at(user->longest);
		if (!longest || longest->user != flow->user || goes_first(longest->record.class) ||
		    size_of(flow) > size_of(longest))
			user->longest = at;
	}
	if (shares.heaviest == flow->user)
		return;
	heaviest = user_at(shares.heaviest);
	if (!heaviest)
		return;
	if (!shares.heaviest || user->held * weight_of(heaviest) > heaviest->held * weight_of(user))
		shares.heaviest = flow->user;
}

/* The flow that pays for a full buffer. */
inline_always u32 longest(void)
{
	u32 at[ORDERS], size[ORDERS], other, pays, most, shield;
	struct flow *payer;

	for (u32 class = NEW; class <= BULK; class++) {
		struct flow *flow;

		at[class] = order_is_empty(class) ? 0 : order_most(class);
		flow = flow_at(at[class]);
		size[class] = at[class] && flow ? size_of(flow) : 0;
	}
	other = size[NEW] > size[BULK] ? NEW : BULK;
	pays = longest_of_heaviest(at[other]);
	payer = flow_at(pays);
	/* Of nobody it is 0. */
	most = payer ? size_of(payer) : 0;
	if (most < size[other])
		most = size[other];
	shield = standing_is_most() ? 1 : SHIELD;
	return size[STANDING] >= (u64)most * shield ? at[STANDING] : pays;
}
