/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* A rate in front of a discipline: one virtual clock, `next_free`, at which the link has sent what was given to it.
 * Twin of core/shaper.rs; times in nanoseconds of CLOCK_MONOTONIC. */
#pragma once

#include "wide.h"

/* How far a backlogged shaper that woke late goes back. */
#define CATCH_UP (10 * 1000 * 1000ULL)

struct shaper {
	/* Bit/s; 0: not limited. */
	u64 rate;
	u64 next_free;
	/* Bit-nanoseconds below one nanosecond's worth, left over from the last packet. */
	u64 carry;
};

/* `rate` is that of the configuration now. The rest of the packet being sent goes at the new rate. */
inline_always void shaper_configure(struct shaper *shaper, u64 rate, u64 now)
{
	u64 old = shaper->rate;

	if (rate == old)
		return;
	if (!old) {
		shaper->next_free = now;
	} else if (shaper->next_free > now) {
		struct wide left = { 0, 0 };

		if (rate)
			left = wide_over(wide_product(shaper->next_free - now, old), rate);
		shaper->next_free = left.high || left.low > ~now ? ~0ULL : now + left.low;
	}
	shaper->carry = 0;
	shaper->rate = rate;
}

/* A packet comes; before it nothing was held if `was_empty`. */
inline_always void shaper_arrive(struct shaper *shaper, u64 now, bool was_empty)
{
	if (was_empty && shaper->next_free < now) {
		shaper->next_free = now;
		shaper->carry = 0;
	}
}

/* A packet of `len` bytes on the wire leaves at `now`. */
inline_always void shaper_depart(struct shaper *shaper, u64 now, u32 len)
{
	u64 bits;

	if (!shaper->rate)
		return;
	if (shaper->next_free + CATCH_UP < now)
		shaper->next_free = now - CATCH_UP;
	/* Below 2^57, and the carry is below the rate. */
	bits = len * 8000000000ULL + shaper->carry;
	shaper->next_free += bits / shaper->rate;
	shaper->carry = bits % shaper->rate;
}
