/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Common part of the disciplines: configuration, its counters, a packet's length and flow, the kernel's five
 * callbacks. A discipline's file includes this, defines
 *
 *   int NAME_enqueue(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free, const struct packet *pkt)
 *       takes `skb` by `hold` or gives it back by `refuse`, drops others by `give_up`; returns NET_XMIT_SUCCESS or
 *       NET_XMIT_DROP;
 *   struct slot *NAME_dequeue(u64 now)
 *       takes the next packet out of the pool; its slot, NULL if there is none;
 *   void NAME_clear(void)
 *       forgets all packets, before the pool does;
 *
 * and ends with QDISC(NAME). The kernel calls all of them under the qdisc's lock. One object is one qdisc: the loader
 * loads another for each interface, with maps of their own size. */
#pragma once

#include "kernel.h"
#include "dissect.h"
#include "framing.h"
#include "headers.h"
#include "pool.h"
#include "shaper.h"
#include "sojourn.h"
#include "stamp.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* Reasons of drops, in the order of core's `DropReason`; then those of the kernel's side alone. */
enum reason {
	TAIL,
	LONGEST_QUEUE,
	TOO_LARGE,
	EARLY,
	FORCED,
	MATCH,
	SOJOURN,
	FLOWS,
	/* Held when the link went down or the qdisc was taken away. */
	RESET,
	REASONS,
};

/* Written by the loader at any time: a word is read whole, and a packet may meet old and new ones. Limits are within the room of the maps. */
struct config {
	/* Bit/s on the wire; 0: not limited. */
	u64 rate;
	u32 limit_packets;
	u32 limit_bytes;
	struct framing framing;
	/* Of a full buffer's longest queue the last packet goes, not the first. */
	u32 drop_tail;
	/* Bytes that a flow or user may send in its turn; at least LEAST_QUANTUM. */
	u32 quantum;
	/* Changes with each write to the map of weights, after it; 0: never. */
	u32 weights;
};

struct counters {
	u64 packets_in;
	u64 bytes_in;
	u64 packets_out;
	u64 bytes_out;
	u64 drops[REASONS];
	u64 largest;
	u64 favoured;
	u64 reordered;
	u64 expected;
};

volatile struct config config SEC(".data.config") = { .limit_packets = 1, .limit_bytes = 1, .quantum = 1514 };
struct counters counters SEC(".bss.counters");
struct shaper shaper SEC(".bss.shaper");
u32 instances SEC(".bss.shaper");

/* Written by the loader before it loads. */
const volatile struct keys {
	/* Of what is hashed here. */
	u64 seed;
	/* `enum identity` of flows, and of users where there are some. */
	u32 flows_by;
	u32 users_by;
	/* Random: of `plain_hash`. */
	u64 multipliers[11];
	/* Random: of stamps that are believed; 0: none are. */
	u64 word;
	/* The key that has the near host alone: SRC_HOST for egress packets, DST_HOST for ingress packets. */
	u32 near;
	u32 unused;
} keys SEC(".rodata.keys") = { 1, FIVE_TUPLE, DST_HOST, { 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21 } };

/* A packet that comes. */
struct packet {
	/* 0 where nobody asks: a discipline that always does defines TIMED. */
	u64 now;
	/* Bytes on the wire. */
	u32 len;
};

enum {
	GSO_TCPV4 = 1 << 0,
	GSO_TCPV6 = 1 << 4,
};

/* The headers that each segment of a GSO packet has, that of the link among them; 0 if they cannot be read. */
inline_always u32 segment_headers(struct sk_buff *skb, u32 gso_type)
{
	u32 link = link_header(skb), ip = skb->transport_header - skb->network_header;
	u8 offset;

	if (!(gso_type & (GSO_TCPV4 | GSO_TCPV6)))
		return link + ip + UDP_HEADER;
	if (!header_read(skb, ip + 12, &offset, sizeof(offset)))
		return 0;
	return link + ip + (offset >> 4) * 4;
}

/* A GSO packet is counted as it leaves: each segment with its own headers, overhead and cells. */
inline_always u32 wire_length(struct sk_buff *skb, const struct framing *framing)
{
	u32 link = link_header(skb), len = skb->len - link;
	u32 counted = ((struct qdisc_skb_cb *)skb->cb)->pkt_len;
	const struct skb_shared_info *info;
	u32 more, headers;

	/* The kernel has counted the headers of further segments already (qdisc_pkt_len_init). */
	if (counted <= skb->len)
		return framing_wire(framing, len);
	info = bpf_rdonly_cast(skb->head + skb->end, bpf_core_type_id_kernel(struct skb_shared_info));
	if (info->gso_segs > 1) {
		more = info->gso_segs - 1;
	} else {
		/* A packet from a guest does not say how many segments it will be. */
		headers = segment_headers(skb, info->gso_type);
		more = headers ? (counted - skb->len) / headers : 0;
	}
	if (!more)
		return framing_wire(framing, len);
	headers = (counted - skb->len) / more - link;
	return framing_segments(framing, more + 1, headers + info->gso_size, len - info->gso_size * more);
}

/* Bytes of any content where nat.bpf.c did not run. */
inline_always const struct stamp *stamp_of(const struct sk_buff *skb)
{
	return (const void *)((const struct qdisc_skb_cb *)skb->cb)->data;
}

inline_always bool is_stamped(const struct sk_buff *skb)
{
	return keys.word && stamp_of(skb)->word == keys.word;
}

/* Hash of the key of `identity` with the host behind the router; 0 without a stamp, and for a key that the router's translation leaves as it is. */
inline_always u32 stamped_hash(const struct sk_buff *skb, u32 identity)
{
	if (!is_stamped(skb))
		return 0;
	if (identity == HOST_PAIR)
		return stamp_of(skb)->pair;
	return identity == keys.near ? stamp_of(skb)->host : 0;
}

verified_apart u32 skb_key_hash(struct sk_buff *skb __arg_trusted, u32 identity)
{
	struct key key = {};
	struct bytes bytes;

	if (bytes_of(&bytes, skb))
		dissect(&key, &bytes, __builtin_bswap16(skb->protocol), identity);
	return key_hash(&key, keys.seed);
}

#ifdef __bpf__

/* The hash of the 5-tuple of a plain packet: no options, no fragment, no extension header, and its ports at hand. 0 for
 * others, which take several times as many instructions.
 *
 * Two packets that were chosen without a look at the multipliers collide with a chance of 2^-32 (multilinear hashing,
 * D. Lemire, O. Kaser, "Strongly universal string hashing is fast", The Computer Journal 57(11), 2014). */
inline_always u32 plain_hash4(struct sk_buff *skb)
{
	const struct itimerspec64 *words = words_at(skb, 0);
	/* Version, fragment; protocol, source; destination, ports. */
	u64 first = words->it_interval.tv_sec, second = words->it_interval.tv_nsec, third = words->it_value.tv_sec;
	u32 protocol = second >> 8 & 0xff;
	const volatile u64 *m = keys.multipliers;

	if ((first & 0xff) != 0x45 || first >> 48 & net16(0x3fff) || (protocol != TCP && protocol != UDP) ||
	    skb->len - skb->data_len < link_header(skb) + IPV4_HEADER + 4)
		return 0;
	return (m[0] + m[1] * (second >> 32) + m[2] * (u32)third + m[3] * (third >> 32) + m[4] * protocol) >> 32;
}

/* The flow label is no part of it: its sender may write what it likes there. */
inline_always u32 plain_hash6(struct sk_buff *skb)
{
	const struct itimerspec64 *words = words_at(skb, 0), *rest = words_at(skb, 32);
	u64 first = words->it_interval.tv_sec, ports = rest->it_interval.tv_nsec;
	u64 source = words->it_interval.tv_nsec, source2 = words->it_value.tv_sec;
	u64 target = words->it_value.tv_nsec, target2 = rest->it_interval.tv_sec;
	u32 protocol = first >> 48 & 0xff;
	const volatile u64 *m = keys.multipliers;

	if ((first & 0xf0) != 0x60 || (protocol != TCP && protocol != UDP) ||
	    skb->len - skb->data_len < link_header(skb) + IPV6_HEADER + 4)
		return 0;
	return (m[0] + m[1] * (u32)source + m[2] * (source >> 32) + m[3] * (u32)source2 + m[4] * (source2 >> 32) +
		m[5] * (u32)target + m[6] * (target >> 32) + m[7] * (u32)target2 + m[8] * (target2 >> 32) +
		m[9] * (u32)ports + m[10] * protocol) >>
	       32;
}

inline_always u32 plain_hash(struct sk_buff *skb)
{
	if (skb->protocol == net16(ETHER_IPV4))
		return plain_hash4(skb);
	return skb->protocol == net16(ETHER_IPV6) ? plain_hash6(skb) : 0;
}

#else

/* Natively who drives may say which flow it is; 0 leaves it to the headers. */
u32 plain_hash(struct sk_buff *skb);

#endif

/* Of its flow. */
inline_always u32 flow_hash(struct sk_buff *skb)
{
	u32 hash = keys.flows_by == FIVE_TUPLE ? plain_hash(skb) : stamped_hash(skb, keys.flows_by);

	return hash ?: skb_key_hash(skb, keys.flows_by);
}

/* The hash of a packet's user. */
inline_always u32 user_hash(struct sk_buff *skb)
{
	u32 hash = stamped_hash(skb, keys.users_by);

	return hash ?: skb_key_hash(skb, keys.users_by);
}

inline_always bool is_over(void)
{
	return pool.packets > config.limit_packets || pool.bytes > config.limit_bytes;
}

/* Over every limit that can be set: only where no flow could be found to drop from. A lowered limit holds from the next arrival on. */
inline_always bool is_beyond(void)
{
	return pool.packets > MOST_PACKETS || pool.bytes > LIMIT_BYTES;
}

inline_always int refuse(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free, enum reason reason)
{
	counters.drops[reason]++;
	bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_DROP;
}

/* Drops the packet in `slot`, which has left the pool. */
inline_always void give_up(struct slot *slot, struct bpf_sk_buff_ptr *to_free, enum reason reason)
{
	struct sk_buff *skb = bpf_kptr_xchg(&slot->skb, NULL);

	counters.drops[reason]++;
	if (skb)
		bpf_qdisc_skb_drop(skb, to_free);
}

/* The same for one that goes as another is asked for, if there is one; such a discipline defines DROPS_LATE. */
inline_always void give_up_late(struct slot *slot, enum reason reason)
{
	struct sk_buff *skb = slot ? bpf_kptr_xchg(&slot->skb, NULL) : NULL;

	if (!skb)
		return;
	counters.drops[reason]++;
	bpf_kfree_skb(skb);
}

inline_always void hold(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free, struct slot *slot)
{
	/* A free slot has none. */
	struct sk_buff *old = bpf_kptr_xchg(&slot->skb, skb);

	if (old)
		bpf_qdisc_skb_drop(old, to_free);
}

/* The longest sleep: no later a new rate is seen. */
#define WAKE (100 * 1000 * 1000ULL)

/* The clock is asked for where somebody needs it: it costs a tenth of all that a packet does. Of sojourn times every
 * eighth packet or so is a sample; by a Weyl sequence, so that no traffic keeps its step. */
inline_always bool is_sample(u32 n)
{
	return n * 0x9e3779b9U < 1U << 29;
}

#ifdef TIMED
#define IS_TIMED true
#else
#define IS_TIMED false
#endif

#ifdef DROPS_LATE
#define HAS_LATE_DROPS true
#else
#define HAS_LATE_DROPS false
#endif

inline_always u64 time_of_arrival(void)
{
	if (IS_TIMED || ((config.rate | shaper.rate) && !pool.packets) || is_sample(counters.packets_in))
		return bpf_ktime_get_ns();
	return 0;
}

inline_always u64 time_of_departure(void)
{
	return IS_TIMED || config.rate | shaper.rate ? bpf_ktime_get_ns() : 0;
}

#define QDISC(NAME)                                                                                                    \
	SEC("struct_ops/enqueue")                                                                                      \
	int NAME##_qdisc_enqueue(u64 *ctx)                                                                             \
	{                                                                                                              \
		struct sk_buff *skb = (void *)ctx[0];                                                                  \
		struct Qdisc *sch = (void *)ctx[1];                                                                    \
		struct framing framing = { config.framing.overhead, config.framing.mpu, config.framing.cells };        \
		struct packet pkt = { time_of_arrival(), wire_length(skb, &framing) };                                 \
		u32 held = pool.packets, lost;                                                                         \
		int answer;                                                                                            \
                                                                                                                       \
		counters.packets_in++;                                                                                 \
		counters.bytes_in += pkt.len;                                                                          \
		if (pkt.len > counters.largest)                                                                        \
			counters.largest = pkt.len;                                                                    \
		shaper_arrive(&shaper, pkt.now, !pool.packets);                                                        \
		answer = NAME##_enqueue(skb, (void *)ctx[2], &pkt);                                                    \
		/* The packet, or others for it. */                                                                    \
		lost = held + 1 - pool.packets;                                                                        \
		if (lost)                                                                                              \
			sch->qstats.drops += lost;                                                                     \
		sch->qstats.backlog = pool.bytes;                                                                      \
		sch->q.qlen = pool.packets;                                                                            \
		return answer;                                                                                         \
	}                                                                                                              \
                                                                                                                       \
	SEC("struct_ops/dequeue")                                                                                      \
	struct sk_buff *NAME##_qdisc_dequeue(u64 *ctx)                                                                 \
	{                                                                                                              \
		struct Qdisc *sch = (void *)ctx[0];                                                                    \
		struct sk_buff *skb;                                                                                   \
		struct slot *slot;                                                                                     \
		u32 held = pool.packets;                                                                               \
		u64 now;                                                                                               \
                                                                                                                       \
		/* The kernel asks once more after the last packet. */                                                 \
		if (!held)                                                                                             \
			return NULL;                                                                                   \
		now = time_of_departure();                                                                             \
		shaper_configure(&shaper, config.rate, now);                                                           \
		if (shaper.rate && now < shaper.next_free) {                                                           \
			u64 at = shaper.next_free < now + WAKE ? shaper.next_free : now + WAKE;                        \
                                                                                                                       \
			sch->qstats.overlimits++;                                                                      \
			bpf_qdisc_watchdog_schedule(sch, at, 0);                                                       \
			return NULL;                                                                                   \
		}                                                                                                      \
		slot = NAME##_dequeue(now);                                                                            \
		if (!slot)                                                                                             \
			return NULL;                                                                                   \
		skb = bpf_kptr_xchg(&slot->skb, NULL);                                                                 \
		if (!skb)                                                                                              \
			return NULL;                                                                                   \
		if (HAS_LATE_DROPS && held - pool.packets != 1)                                                        \
			sch->qstats.drops += held - pool.packets - 1;                                                  \
		shaper_depart(&shaper, now, slot->len);                                                                \
		if (slot->arrived && (!IS_TIMED || is_sample(counters.packets_out))) {                                 \
			now = now ?: bpf_ktime_get_ns();                                                               \
			sojourns_record(now, now - slot->arrived);                                                     \
		}                                                                                                      \
		counters.packets_out++;                                                                                \
		counters.bytes_out += slot->len;                                                                       \
		sch->qstats.backlog = pool.bytes;                                                                      \
		sch->q.qlen = pool.packets;                                                                            \
		bpf_qdisc_bstats_update(sch, skb);                                                                     \
		return skb;                                                                                            \
	}                                                                                                              \
                                                                                                                       \
	SEC("struct_ops/init")                                                                                         \
	int NAME##_qdisc_init(u64 *ctx)                                                                                \
	{                                                                                                              \
		struct Qdisc *sch = (void *)ctx[0];                                                                    \
                                                                                                                       \
		sch->limit = config.limit_packets;                                                                     \
		/* EBUSY: the maps are those of another qdisc. `destroy` follows in any case. */                       \
		if (__sync_fetch_and_add(&instances, 1))                                                               \
			return -16;                                                                                    \
		shaper = (struct shaper){ .rate = config.rate };                                                       \
		return 0;                                                                                              \
	}                                                                                                              \
                                                                                                                       \
	SEC("struct_ops/reset")                                                                                        \
	void NAME##_qdisc_reset(u64 *ctx)                                                                              \
	{                                                                                                              \
		struct Qdisc *sch = (void *)ctx[0];                                                                    \
		u32 n;                                                                                                 \
                                                                                                                       \
		if (instances != 1)                                                                                    \
			return;                                                                                        \
		/* The discipline forgets them too. */                                                                 \
		bpf_for(n, 1, MOST_PACKETS + 2) {                                                                      \
			struct slot *slot = n <= pool.used_slots ? slot_at(n) : NULL;                                  \
			struct sk_buff *skb;                                                                           \
                                                                                                                       \
			if (!slot)                                                                                     \
				break;                                                                                 \
			skb = bpf_kptr_xchg(&slot->skb, NULL);                                                         \
			if (!skb)                                                                                      \
				continue;                                                                              \
			bpf_kfree_skb(skb);                                                                            \
			counters.drops[RESET]++;                                                                       \
		}                                                                                                      \
		NAME##_clear();                                                                                        \
		pool_clear();                                                                                          \
		sch->q.qlen = 0;                                                                                       \
		sch->qstats.backlog = 0;                                                                               \
	}                                                                                                              \
                                                                                                                       \
	SEC("struct_ops/destroy")                                                                                      \
	void NAME##_qdisc_destroy(u64 *ctx)                                                                            \
	{                                                                                                              \
		__sync_fetch_and_add(&instances, -1);                                                                  \
	}                                                                                                              \
                                                                                                                       \
	SEC(".struct_ops.link")                                                                                        \
	struct Qdisc_ops NAME = {                                                                                      \
		.id = "makeway",                                                                                       \
		.enqueue = (void *)NAME##_qdisc_enqueue,                                                               \
		.dequeue = (void *)NAME##_qdisc_dequeue,                                                               \
		.init = (void *)NAME##_qdisc_init,                                                                     \
		.reset = (void *)NAME##_qdisc_reset,                                                                   \
		.destroy = (void *)NAME##_qdisc_destroy,                                                               \
	};
