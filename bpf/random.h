/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Random numbers that a seed repeats: SplitMix64, twin of core/random.rs. */
#pragma once

/* The generator's state, which begins as the seed that the loader writes. */
u64 random_state SEC(".data.random");

inline_always u64 next_random(void)
{
	u64 z = random_state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

/* The upper half of the next. */
inline_always u32 next_random_word(void)
{
	return next_random() >> 32;
}
