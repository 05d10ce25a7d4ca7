/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Times in the discipline of packets that left, of those that are samples, counted in buckets within 12.5 %: those of gateway's
 * datapath/sojourn.rs. Recent times are the difference from a copy of one to two seconds ago. */
#pragma once

#include "bitmap.h"

/* Buckets in each power of two: 2^SOJOURN_BITS; times from 2^SOJOURN_LOW ns to 2^SOJOURN_HIGH ns. */
#define SOJOURN_BITS 2
#define SOJOURN_LOW 10
#define SOJOURN_HIGH 34
#define SOJOURN_LAST (((SOJOURN_HIGH - SOJOURN_LOW) << SOJOURN_BITS) + 1)
/* A power of two, for the verifier. */
#define SOJOURN_BUCKETS 128
#define SOJOURN_WINDOW (1000 * 1000 * 1000ULL)

struct sojourns {
	/* When it was copied; of the first, nothing. */
	u64 at;
	u64 sum;
	/* Of the first alone. */
	u64 max;
	u64 buckets[SOJOURN_BUCKETS];
};

/* Since the start, and the two latest copies of it. */
struct sojourns sojourns[3] SEC(".bss.sojourns");

inline_always u32 sojourn_bucket(u64 ns)
{
	u32 exponent;

	if (ns < 1ULL << SOJOURN_LOW)
		return 0;
	if (ns >= 1ULL << SOJOURN_HIGH)
		return SOJOURN_LAST;
	exponent = last_set(ns);
	return 1 + ((exponent - SOJOURN_LOW) << SOJOURN_BITS) +
	       ((ns >> (exponent - SOJOURN_BITS)) & ((1 << SOJOURN_BITS) - 1));
}

verified_apart int sojourns_copy(u64 now)
{
	for (u32 i = 0; i < SOJOURN_BUCKETS; i++) {
		sojourns[2].buckets[i] = sojourns[1].buckets[i];
		sojourns[1].buckets[i] = sojourns[0].buckets[i];
	}
	sojourns[2].at = sojourns[1].at;
	sojourns[2].sum = sojourns[1].sum;
	sojourns[1].at = now;
	sojourns[1].sum = sojourns[0].sum;
	return 0;
}

inline_always void sojourns_record(u64 now, u64 ns)
{
	if (now - sojourns[1].at >= SOJOURN_WINDOW)
		sojourns_copy(now);
	sojourns[0].sum += ns;
	if (ns > sojourns[0].max)
		sojourns[0].max = ns;
	sojourns[0].buckets[sojourn_bucket(ns) & (SOJOURN_BUCKETS - 1)]++;
}
