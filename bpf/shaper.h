/* A rate in front of a discipline: one virtual clock, `next_free`, at which the link has sent what was given to it.
 * Twin of core/shaper.rs; times in nanoseconds of CLOCK_MONOTONIC. */
#pragma once

/* How far a backlogged shaper that woke late goes back. */
#define CATCH_UP (10 * 1000 * 1000ULL)

struct shaper {
	/* Bit/s; 0: not limited. */
	u64 rate;
	u64 next_free;
	/* Bit-nanoseconds below one nanosecond's worth, left over from the last packet. */
	u64 carry;
};

/* `rate` is what the configuration says now. What is left of the packet being sent goes at the new rate. */
inline_always void shaper_configure(struct shaper *shaper, u64 rate, u64 now)
{
	u64 old = shaper->rate;
	u64 left = shaper->next_free > now ? shaper->next_free - now : 0;

	if (rate == old)
		return;
	if (!old || !rate)
		left = 0;
	/* left * old / rate without 128 bits: whole seconds apart, each product below 2^64 up to 18 Gbit/s. */
	else
		left = left / 1000000000 * old / rate * 1000000000 +
		       left % 1000000000 * (old / 1000) / (rate / 1000 + !(rate / 1000));
	shaper->next_free = now + left;
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
