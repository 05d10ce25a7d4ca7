/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* The time sliding window: a rate estimate that decays with time. Twin of core/ticket/tsw.rs.
 *
 * Source: D. Clark, W. Fang, "Explicit Allocation of Best-Effort Packet Delivery Service", IEEE/ACM Transactions on
 * Networking 6(4), 1998.
 *
 * | paper | here |
 * | --- | --- |
 * | `WinLength`, `TswFront` | `window`, `front` |
 * | `AvgRate × WinLength` | `in_window` |
 */
#pragma once

#include "wide.h"

struct tsw {
	u64 front;
	/* In steps of 2^-16; no more than 2^84. */
	struct wide in_window;
};

/* `n` more have come at `now`, of a window of nanoseconds up to an hour:
 * `AvgRate <- (AvgRate WinLength + n) / (now - TswFront + WinLength)`. */
inline_always void tsw_count(struct tsw *tsw, u64 window, u64 now, u64 n)
{
	const struct wide most = { 1 << 20, 0 };
	u64 since = now > tsw->front ? now - tsw->front : 0;
	struct wide sum = wide_add(tsw->in_window, wide_left((struct wide){ 0, n }, 16));

	if (wide_less(most, sum))
		sum = most;
	tsw->in_window = wide_over(wide_times(sum, window), since + window);
	tsw->front = now;
}
