/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* A set of integers below 2^18, with its least and greatest member in three find-first-set steps. Twin of
 * core/sched/order/bitmap.rs; there are no instructions for leading and trailing zeros here, but multiplication by a
 * de Bruijn sequence (Leiserson, Prokop, Randall 1998). */
#pragma once

#define BITMAP_MOST (1 << 18)

/* Three levels of 64: a bit above says that the word below is not zero. */
struct bitmap {
	u64 bits[BITMAP_MOST / 64];
	u64 words[64];
	u64 top;
};

static const u8 de_bruijn[64] = {
	0,  1,  2,  53, 3,  7,  54, 27, 4,  38, 41, 8,  34, 55, 48, 28,
	62, 5,  39, 46, 44, 42, 22, 9,  24, 35, 59, 56, 49, 18, 29, 11,
	63, 52, 6,  26, 37, 40, 33, 47, 61, 45, 43, 21, 23, 58, 17, 10,
	51, 25, 36, 32, 60, 20, 57, 16, 50, 31, 19, 15, 30, 14, 13, 12,
};

/* Place of the one bit of `bit`. */
inline_always u32 place_of(u64 bit)
{
	u32 place = de_bruijn[bit * 0x022fdd63cc95386dULL >> 58];

	/* The compiler knows that it is below 64, and the verifier has to be shown. */
	barrier_var(place);
	return place & 63;
}

/* Least bit of `x`, which is not 0. */
inline_always u32 first_set(u64 x)
{
	return place_of(x & -x);
}

/* Greatest bit of `x`, which is not 0. */
inline_always u32 last_set(u64 x)
{
	x |= x >> 1;
	x |= x >> 2;
	x |= x >> 4;
	x |= x >> 8;
	x |= x >> 16;
	x |= x >> 32;
	return place_of(x - (x >> 1));
}

inline_always void bitmap_insert(struct bitmap *map, u32 i)
{
	u64 *word = &map->bits[i >> 6 & 4095], old = *word;

	*word = old | 1ULL << (i & 63);
	/* Of a word that was not zero the bit above is set. */
	if (old)
		return;
	word = &map->words[i >> 12 & 63];
	old = *word;
	*word = old | 1ULL << (i >> 6 & 63);
	if (!old)
		map->top |= 1ULL << (i >> 12 & 63);
}

inline_always void bitmap_remove(struct bitmap *map, u32 i)
{
	u64 *word = &map->bits[i >> 6 & 4095];

	*word &= ~(1ULL << (i & 63));
	if (*word)
		return;
	word = &map->words[i >> 12 & 63];
	*word &= ~(1ULL << (i >> 6 & 63));
	if (!*word)
		map->top &= ~(1ULL << (i >> 12 & 63));
}

/* The least member; the set is not empty. */
inline_always u32 bitmap_first(const struct bitmap *map)
{
	u32 a = first_set(map->top);
	u32 b = a << 6 | first_set(map->words[a]);

	return b << 6 | first_set(map->bits[b]);
}

/* The greatest member; the set is not empty. */
inline_always u32 bitmap_last(const struct bitmap *map)
{
	u32 a = last_set(map->top);
	u32 b = a << 6 | last_set(map->words[a]);

	return b << 6 | last_set(map->bits[b]);
}
