/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Controlled delay: when to drop from a queue's head. Twin of core/sched/codel.rs, whose table says which name of RFC 8289
 * is which here; without marks, which a BPF qdisc cannot make. The discipline takes packets and drops them. */
#pragma once

#include "kernel.h"

struct codel_law {
	/* Sojourn time that a standing queue may have, and how long it may have more. */
	u64 target;
	u64 interval;
	/* Nothing is dropped while no more bytes than this are behind it. */
	u32 mtu;
};

struct codel {
	/* When sojourn times will have been above the target for an interval; 0 while below. */
	u64 first_above;
	/* When the next drop is due while `dropping`; else about when the last one was. */
	u64 drop_next;
	/* Drops of this cycle, and their number at its begin. */
	u32 count;
	u32 last_count;
	bool dropping;
};

/* The square root of `x`, below 2^62, rounded down: a bit in each step. Without a branch, so that the verifier has one path. */
verified_apart u64 root_of(u64 x)
{
	u64 root = 0;

	for (int n = 60; n >= 0; n -= 2) {
		u64 with = root + (1ULL << n), fits = ~(u64)((s64)(x - with) >> 63);

		barrier_var(fits);
		x -= with & fits;
		root = root >> 1 | (1ULL << n & fits);
	}
	return root;
}

/* RFC 8289 §5.6: when the next drop is due after the one that was due at `t` and made them `count`, at least 1. */
inline_always u64 codel_control_law(const struct codel_law *law, u64 t, u32 count)
{
	return t + root_of(law->interval * law->interval / count);
}

/* RFC 8289 §5.6: whether a packet that waited for `sojourn` may be dropped, with `behind` bytes left behind it. */
inline_always bool codel_is_above(struct codel *codel, const struct codel_law *law, u64 now, u64 sojourn, u32 behind)
{
	if (sojourn < law->target || behind <= law->mtu) {
		codel->first_above = 0;
		return false;
	}
	if (!codel->first_above)
		codel->first_above = now + law->interval;
	return now >= codel->first_above;
}

/* Drops nothing before `until`, and then only if the sojourn times have been above the target all the time. */
inline_always void codel_spare(struct codel *codel, u64 until)
{
	codel->first_above = until;
	codel->dropping = false;
}

/* Whether a further packet is to be dropped now. */
inline_always bool codel_is_due(const struct codel *codel, u64 now)
{
	return codel->dropping && now >= codel->drop_next;
}

/* A packet was dropped, and the next one may be dropped as well or not. */
inline_always void codel_go_on(struct codel *codel, const struct codel_law *law, bool may)
{
	codel->dropping = may;
	if (may)
		codel->drop_next = codel_control_law(law, codel->drop_next, codel->count);
}

/* The first packet of a cycle was dropped. */
inline_always void codel_begin(struct codel *codel, const struct codel_law *law, u64 now)
{
	u64 late = now > codel->drop_next ? now - codel->drop_next : 0;
	u32 delta = codel->count > codel->last_count ? codel->count - codel->last_count : 0;

	/* Soon after the last cycle, the rate of drops that it ended with is a good beginning. */
	codel->count = delta > 1 && late < law->interval * 16 ? delta : 1;
	codel->last_count = codel->count;
	codel->dropping = true;
	codel->drop_next = codel_control_law(law, now, codel->count);
}
