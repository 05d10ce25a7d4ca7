/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Ticket-based RED: RED whose chances depend on the tickets of the packet, so that flows with few tickets for the bytes that they
 * send are dropped from first, and shares of the link come out as tickets were issued. Twin of core/sched/tred.rs.
 *
 * Source: M. Zhang, R. Wang, L. Peterson, A. Krishnamurthy, "Probabilistic Packet Scheduling: Achieving Proportional
 * Share Bandwidth Allocation", Princeton TR-632-01, 2001, section 2.4.2.
 *
 * | paper | here |
 * | --- | --- |
 * | `AvgQLen`, `p`, the thresholds | those of red.h |
 * | `InTkt` | the packet's tag, by the map `tickets` |
 * | `MinTkt` over some interval | `least`, over one to two times `params.interval` |
 * | `ExpectTktRate`, `ExpectPktRate` by TSW | `expect_tickets`, `expect_bytes`, over `params.window` |
 * | `K` | `params.k`, in hundredths |
 * | `p × (ExpectTkt / InTkt)^3` | `weigh`, to the power of `params.exponent` |
 *
 * Missing here, unlike in core: marks. Tickets are not written: a qdisc cannot write on packets. */
#define TIMED
#include "qdisc.h"
#include "fifo.h"
#include "red.h"
#include "tag.h"
#include "tsw.h"

/* Core's `TredParams`, written by the loader. */
struct params {
	/* Nanoseconds. */
	u64 interval;
	u64 window;
	u32 k;
	u32 exponent;
};

volatile struct params params SEC(".data.tred");

/* Value of each tag of n bits, in tickets for each 1000 bytes and steps of 2^-16: core's `Codec::decode`. The loader
 * sizes it and writes it. A tag above, which nobody of this network wrote, says nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} tickets SEC(".maps");

/* Stands for "no packet had tickets". */
#define NO_TICKETS (~0U)

/* The least of what came in the running interval and the one before. */
struct least {
	u64 since;
	u32 running;
	u32 before;
} least = { .running = NO_TICKETS, .before = NO_TICKETS };

struct flow queue;
/* Tickets expected on a packet of a flow that this link holds back. */
struct tsw expect_tickets;
struct tsw expect_bytes;

inline_always void least_roll(u64 now)
{
	u64 over = now > least.since ? (now - least.since) / params.interval : 0;

	if (!over)
		return;
	least.before = over == 1 ? least.running : NO_TICKETS;
	least.running = NO_TICKETS;
	least.since += params.interval * over;
}

inline_always u32 least_tickets(void)
{
	return least.running < least.before ? least.running : least.before;
}

/* "if InTkt < K × MinTkt, compute ExpectTktRate and ExpectPktRate". */
verified_apart int count(u64 now, u32 came, u32 len)
{
	least_roll(now);
	if (!came)
		return 0;
	if (came < least.running)
		least.running = came;
	if (came * 100ULL < (u64)least_tickets() * params.k) {
		tsw_count(&expect_tickets, params.window, now, (u64)came * len);
		tsw_count(&expect_bytes, params.window, now, len);
		counters.expected++;
	}
	return 0;
}

/* `ExpectTkt / InTkt` in steps of 2^-48, no more than 2^63; for a packet that has tickets. */
inline_always u64 ratio(u32 came)
{
	struct wide expected = { 0, 0 };

	/* Tickets of the window are below 2^84: 24 bits behind the point fit above that. */
	if (expect_bytes.in_window.high || expect_bytes.in_window.low)
		expected = wide_ratio(wide_left(expect_tickets.in_window, 24), expect_bytes.in_window);
	expected = wide_over(wide_left(expected, 24), came);
	return expected.high || expected.low >> 63 ? 1ULL << 63 : expected.low;
}

/* `p × (ExpectTkt / InTkt)^3`, one at most. */
inline_always struct wide weigh(struct wide p, u32 came)
{
	const struct wide one = { 1, 0 };
	u64 by;

	if (least_tickets() == NO_TICKETS)
		return p;
	if (!came)
		return p.high || p.low ? one : p;
	by = ratio(came);
	for (u32 n = 0; n < 64 && n < params.exponent; n++) {
		p = wide_right(wide_times(p, by), 48);
		if (p.high)
			return one;
	}
	return p;
}

/* Reason to drop a packet of `len` early; `REASONS` if it is kept. */
verified_apart u32 judge(u32 len, u32 came)
{
	if (red_is_below()) {
		early.counts = false;
		return REASONS;
	}
	if (red_is_above()) {
		early.counts = true;
		early.count = 0;
		return FORCED;
	}
	return red_chooses(weigh(red_p_b(), came), len) ? EARLY : REASONS;
}

inline_always int tred_enqueue(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free, const struct packet *pkt)
{
	bool full = is_full(pool.packets, pool.bytes, pkt->len);
	u32 tag = packet_tag(skb), reason;
	u32 *said = bpf_map_lookup_elem(&tickets, &tag), came = said ? *said : 0;

	count(pkt->now, came, pkt->len);
	if (pkt->len > config.limit_bytes)
		return refuse(skb, to_free, TOO_LARGE);
	red_estimate(pkt->now);
	reason = judge(pkt->len, came);
	if (reason < REASONS)
		return refuse(skb, to_free, reason);
	if (full) {
		early.count = 0;
		return refuse(skb, to_free, TAIL);
	}
	return fifo_take(skb, to_free, 0, &queue, pkt);
}

inline_always struct slot *tred_dequeue(u64 now)
{
	struct slot *slot = fifo_pop(&queue);

	if (slot && !pool.packets)
		early.idle_since = now;
	return slot;
}

inline_always void tred_clear(void)
{
	queue = (struct flow){};
	early.idle_since = bpf_ktime_get_ns();
}

QDISC(tred)
