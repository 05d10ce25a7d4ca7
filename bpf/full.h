/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* The flow that pays for a full buffer of makeway.bpf.c. Twin of core/sched/makeway/full.rs. */
#pragma once

/* A standing queue counts this part for the drop, while less than 3/4 of the buffer stands. */
#define SHIELD 64

/* Flows in standing hold more than 3/4 of the buffer. */
inline_always bool standing_is_most(void)
{
	return shares.standing > config.limit_packets / 4 * 3;
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

/* A flow with packets, its place and its size. */
struct payer {
	struct flow *flow;
	u32 at;
	u32 size;
};

/* The longest flow of order `which`; nobody, of size 0, if there is none. */
inline_always struct payer longest_in(u32 which)
{
	struct payer longest = { NULL, 0, 0 };

	if (order_is_empty(which))
		return longest;
	longest.at = order_most(which);
	longest.flow = flow_at(longest.at);
	longest.size = longest.flow ? size_of(longest.flow) : 0;
	return longest;
}

/* Of those that are not in standing, the longest flow of the user that holds most; `other` is the longest of all users, of new ones
 * by bytes. */
inline_always struct payer longest_of_heaviest(const struct payer *other)
{
	struct user *user = user_at(shares.heaviest);
	struct payer longest;

	/* Mostly it is that one. */
	if (!other->flow || !shares.heaviest || !user || user->longest == other->at)
		return *other;
	longest.at = user->longest;
	longest.flow = flow_at(longest.at);
	if (!longest.flow || longest.flow->user != shares.heaviest || !longest.flow->packets ||
	    goes_first(longest.flow->record.class))
		return *other;
	longest.size = size_of(longest.flow);
	return other->flow->user == shares.heaviest && longest.size <= other->size ? *other : longest;
}

/* The flow that pays for a full buffer. */
inline_always struct payer longest(void)
{
	struct payer new = longest_in(NEW), bulk = longest_in(BULK), standing = longest_in(STANDING);
	struct payer other = new.size > bulk.size ? new : bulk, pays = longest_of_heaviest(&other);
	u32 most = pays.size > other.size ? pays.size : other.size, shield;

	if (!standing.flow)
		return pays;
	shield = standing_is_most() ? 1 : SHIELD;
	return standing.size >= (u64)most * shield ? standing : pays;
}
