/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Unsigned numbers of 128 bits, of which BPF has none. As in Rust's u128, bits above are lost. */
#pragma once

#include "bitmap.h"

struct wide {
	u64 high;
	u64 low;
};

/* `a * b`, all of it. */
inline_always struct wide wide_product(u64 a, u64 b)
{
	u64 a1 = a >> 32, a0 = (u32)a, b1 = b >> 32, b0 = (u32)b;
	/* Below 2^64: (2^32 - 1)^2 + 2 (2^32 - 1) is 2^64 - 1. */
	u64 middle = a1 * b0 + (a0 * b0 >> 32);
	u64 other = a0 * b1 + (u32)middle;

	return (struct wide){ a1 * b1 + (middle >> 32) + (other >> 32), a * b };
}

inline_always struct wide wide_add(struct wide a, struct wide b)
{
	u64 low = a.low + b.low;

	return (struct wide){ a.high + b.high + (low < a.low), low };
}

inline_always struct wide wide_sub(struct wide a, struct wide b)
{
	return (struct wide){ a.high - b.high - (a.low < b.low), a.low - b.low };
}

inline_always bool wide_less(struct wide a, struct wide b)
{
	return a.high < b.high || (a.high == b.high && a.low < b.low);
}

/* `a * b`. */
inline_always struct wide wide_times(struct wide a, u64 b)
{
	struct wide product = wide_product(a.low, b);

	product.high += a.high * b;
	return product;
}

/* `a << n` and `a >> n`, for `n` of 1 to 63. */
inline_always struct wide wide_left(struct wide a, u32 n)
{
	return (struct wide){ a.high << n | a.low >> (64 - n), a.low << n };
}

inline_always struct wide wide_right(struct wide a, u32 n)
{
	return (struct wide){ a.high >> n, a.low >> n | a.high << (64 - n) };
}

/* The next 32 bits of a quotient by `d`, whose uppermost bit is set: of what is left, below `d`, and `next`. Knuth, The
 * Art of Computer Programming 2, 4.3.1, theorem B: guessed by the upper half of `d` they are too much by 2 at most. */
inline_always u64 wide_digit(u64 left, u32 next, u64 d)
{
	u64 digit = left / (d >> 32), rest = left % (d >> 32);

	for (int n = 0; n < 2; n++) {
		if (rest >> 32 || (!(digit >> 32) && digit * (u32)d <= (rest << 32 | next)))
			break;
		digit--;
		rest += d >> 32;
	}
	return digit;
}

/* `(high 2^64 + low) / d`, for `high` below `d`. */
verified_apart u64 wide_quotient(u64 high, u64 low, u64 d)
{
	u32 zeros = 63 - last_set(d);
	u64 first, second;

	d <<= zeros;
	high = high << zeros | low >> 1 >> (63 - zeros);
	low <<= zeros;
	first = wide_digit(high, low >> 32, d);
	high = (high << 32 | low >> 32) - first * d;
	second = wide_digit(high, low, d);
	return first << 32 | second;
}

/* `a / d`, `d` above 0. */
inline_always struct wide wide_over(struct wide a, u64 d)
{
	return (struct wide){ a.high / d, wide_quotient(a.high % d, a.low, d) };
}

/* `a / b`, `b` above 0. */
inline_always struct wide wide_ratio(struct wide a, struct wide b)
{
	struct wide rest;
	u32 zeros;
	u64 q;

	if (!b.high)
		return wide_over(a, b.low);
	/* Half of `a` by the upper 64 bits of `b`: too much by 1 at most, and made too little by as much. */
	zeros = 63 - last_set(b.high);
	q = wide_quotient(a.high >> 1, wide_right(a, 1).low, b.high << zeros | b.low >> 1 >> (63 - zeros));
	q >>= 63 - zeros;
	q -= q > 0;
	rest = wide_sub(a, wide_times(b, q));
	q += !wide_less(rest, b);
	return (struct wide){ 0, q };
}
