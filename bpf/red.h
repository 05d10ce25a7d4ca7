/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Random early detection: an average of the queue and its chances. Twin of core/sched/red.rs's `Early`, without marks:
 * a qdisc cannot write on packets.
 *
 * Source: S. Floyd, V. Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM Transactions on
 * Networking 1(4), 1993, Fig. 2.
 *
 * | paper | here |
 * | --- | --- |
 * | `avg`, `w_q` | `early.average`, `red.weight` |
 * | `min_th`, `max_th`, `max_p` | `red.min`, `red.max`, `red.max_p` |
 * | `p_b`, `p_a` | `red_p_b`, `red_p_a` |
 * | `count`, -1 below `min_th` | `early.count`, `early.counts` is false |
 * | `q_time`, `m = f(time - q_time)` | `early.idle_since`, `red_idle_packets` |
 *
 * Averages have 48 bits behind the binary point, probabilities 64: one is `high` 1. */
#pragma once

#include "random.h"

/* Core's `RedParams`, written by the loader. */
struct red {
	/* Weight of the queue now in its average, and probability of a drop at `max`; in steps of 2^-48. */
	u64 weight;
	u64 max_p;
	/* Nanoseconds that the link takes for a packet of mean size; 0: idle time is not made up for. */
	u64 packet_time;
	/* Thresholds, in packets of mean size. */
	u32 min;
	u32 max;
	/* Size of a mean packet in the unit of the thresholds: its bytes, or 1. */
	u32 unit;
	/* Yes or no. */
	u32 by_bytes;
	u32 gentle;
	u32 wait;
};

volatile struct red red SEC(".data.red");

struct early {
	struct wide average;
	u64 idle_since;
	/* Packets or bytes since the last drop, if the average is not below the thresholds. */
	u64 count;
	bool counts;
} early;

/* One, in steps of 2^-48. */
#define FRACTION_ONE (1ULL << 48)

/* The average of a queue that has always held `packets` of mean size. */
inline_always struct wide red_threshold(u64 packets)
{
	return wide_left((struct wide){ 0, packets * red.unit }, 48);
}

inline_always bool red_is_below(void)
{
	return wide_less(early.average, red_threshold(red.min));
}

inline_always bool red_is_above(void)
{
	return !wide_less(early.average, red_threshold(red.gentle ? 2ULL * red.max : red.max));
}

/* `p_b = max_p (avg - min_th) / (max_th - min_th)`, and in gentle mode above `max_th`
 * `max_p + (1 - max_p) (avg - max_th) / max_th`; for an average between the thresholds. */
inline_always struct wide red_p_b(void)
{
	u64 base = 0, height = red.max_p, from = red.min, over = red.max - red.min;
	struct wide rise;

	if (!wide_less(early.average, red_threshold(red.max))) {
		base = red.max_p;
		height = FRACTION_ONE - red.max_p;
		from = red.max;
		over = red.max;
	}
	/* An average is below 2^32: the product is below 2^(80 + 48), in steps of 2^-96. */
	rise = wide_times(wide_sub(early.average, red_threshold(from)), height);
	rise = wide_right(wide_over(rise, over * red.unit), 32);
	return wide_add(wide_left((struct wide){ 0, base }, 16), rise);
}

/* The probability to drop a packet of `len`, the `count`-th since the last drop: `p_b / (1 - count p_b)`; with `wait` 0
 * while `count p_b < 1`, then `p_b / (2 - count p_b)`. */
inline_always struct wide red_p_a(u64 p_b, u64 count, u32 len)
{
	const struct wide one = { 1, 0 };
	struct wide counted = wide_over(wide_product(p_b, count), red.unit), p_a = { 0, p_b };
	/* The rest to 1 or 2 is at most 1; only its bits behind the point are here. */
	u64 wait = !!red.wait, rest = -counted.low;

	if (counted.high < wait)
		return (struct wide){ 0, 0 };
	if (counted.high > wait || (rest && p_b >= rest))
		return one;
	if (rest)
		p_a.low = wide_quotient(p_b, 0, rest);
	if (red.by_bytes)
		p_a = wide_over(wide_product(p_a.low, len), red.unit);
	return p_a.high ? one : p_a;
}

/* The product of two numbers below 1, in steps of 2^-64. */
inline_always u64 red_multiply(u64 a, u64 b)
{
	struct wide product = wide_product(a, b);

	return product.high + (product.low >> 63);
}

/* `(1 - w_q)^m` for `m` above 0, by repeated squaring. */
verified_apart u64 red_power(u64 m)
{
	u64 square = -(red.weight << 16), power = 0;
	bool is_one = true;

	for (int n = 0; n < 64 && m; n++) {
		if (m & 1) {
			power = is_one ? square : red_multiply(power, square);
			is_one = false;
		}
		square = red_multiply(square, square);
		m >>= 1;
	}
	return power;
}

/* `m`: how many packets of mean size the link would have sent since the queue became empty. */
inline_always u64 red_idle_packets(u64 now)
{
	if (!red.packet_time || now <= early.idle_since)
		return 0;
	return (now - early.idle_since) / red.packet_time;
}

/* Fig. 2, "calculate the new average queue size", for a packet that comes. */
verified_apart int red_estimate(u64 now)
{
	struct wide target = wide_left((struct wide){ 0, red.by_bytes ? pool.bytes : pool.packets }, 48), step;
	struct wide *average = &early.average;

	if (!pool.packets) {
		u64 m = red_idle_packets(now);

		if (m) {
			u64 power = red_power(m);
			struct wide low = { 0, red_multiply(average->low, power) };

			*average = wide_add(wide_product(average->high, power), low);
		}
		early.idle_since = now;
	}
	/* avg <- (1 - w_q) avg + w_q q, to the nearest. */
	if (wide_less(*average, target)) {
		step = wide_times(wide_sub(target, *average), red.weight);
		step = wide_right(wide_add(step, (struct wide){ 0, FRACTION_ONE / 2 }), 48);
		*average = wide_add(*average, step);
	} else {
		step = wide_times(wide_sub(*average, target), red.weight);
		step = wide_right(wide_add(step, (struct wide){ 0, FRACTION_ONE / 2 }), 48);
		*average = wide_sub(*average, step);
	}
	return 0;
}

/* Fig. 2, the rest, between the thresholds: whether chance drops a packet of `len`, for which `p_b` is this; what is
 * certain to go goes however short ago the last drop was. */
inline_always bool red_chooses(struct wide p_b, u32 len)
{
	u64 count = early.counts ? early.count + (red.by_bytes ? len : 1) : 0;
	struct wide p_a = p_b.high ? p_b : red_p_a(p_b.low, count, len);
	bool drop = next_random() < p_a.low || p_a.high;

	early.counts = true;
	early.count = drop ? 0 : count;
	return drop;
}
