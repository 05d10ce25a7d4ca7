/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Non-congestive queuing: short packets leave first, as long as no more than a share of all packets does. Twin of
 * core/sched/ncq.rs.
 *
 * Source: L. Mamatas, V. Tsaoussidis, "Differentiating Services with Non-Congestive Queuing (NCQ)", IEEE Transactions on
 * Computers 58(5), 2009, section 3; the variants are those that section 6 leaves open.
 *
 * | paper | here |
 * | --- | --- |
 * | `packetLength < 130` | `params.length`, on the wire |
 * | `received_packets`, `favored_packets` | `struct share` |
 * | `ncqthresh` | `params.threshold` |
 * | high priority, normal priority | the queues `favoured`, `normal` |
 * | non-congestive packet | candidate |
 *
 * Missing here, unlike in core: a threshold that follows the extra wait, and candidates of low-rate flows. */

/* Packets in the normal queue, and the first of them that were overtaken by a favoured one. */
#define FLOW_STATE                                                                                                     \
	u32 waiting;                                                                                                   \
	u32 overtaken;

#include "qdisc.h"
#include "control.h"
#include "fifo.h"
#include "random.h"

/* Core's `NcqParams`, written by the loader. */
struct params {
	/* In steps of 2^-48. */
	u64 threshold;
	/* On the wire: what is shorter is short. */
	u32 length;
	/* As many packets as `kinds` has entries; 0: the share is one of all that ever came. */
	u32 window;
	/* Yes or no. */
	u32 probabilistic;
	u32 control;
	u32 keep_order;
	u32 push_out;
};

volatile struct params params SEC(".data.ncq");

/* How many packets came and were favoured: since ever, or among the last of them. */
struct share {
	u64 received;
	u64 candidates;
	u64 favoured;
};

enum kind {
	OTHER,
	CANDIDATE,
	FAVOURED,
};

/* The kind of each packet of the window. The loader sizes it: 1 without a window. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u8);
} kinds SEC(".maps");

struct shares {
	struct share counted;
	/* Where the next packet goes, and the oldest is once the ring is full. */
	u32 next;
} shares;

/* Two queues in one buffer, the first of which goes first. */
struct flow favoured;
struct flow normal;

/* The counters with the packet that comes, before it is decided whether it is favoured. */
inline_always struct share shares_with_next(bool is_candidate)
{
	struct share share = shares.counted;
	u8 *oldest = bpf_map_lookup_elem(&kinds, &shares.next);

	if (params.window && share.received == params.window && oldest) {
		share.received--;
		share.candidates -= *oldest != OTHER;
		share.favoured -= *oldest == FAVOURED;
	}
	share.received++;
	share.candidates += is_candidate;
	return share;
}

/* Counts the packet that comes. */
inline_always void shares_count(bool is_candidate, bool is_favoured)
{
	u8 *kind = bpf_map_lookup_elem(&kinds, &shares.next);

	shares.counted = shares_with_next(is_candidate);
	shares.counted.favoured += is_favoured;
	if (!params.window || !kind)
		return;
	*kind = is_favoured ? FAVOURED : is_candidate ? CANDIDATE : OTHER;
	shares.next = shares.next + 1 == params.window ? 0 : shares.next + 1;
}

/* Whether the packet is non-congestive. */
inline_always bool is_candidate(struct sk_buff *skb, const struct packet *pkt)
{
	return pkt->len < params.length && (params.control || !is_control(skb));
}

/* Whether the threshold lets a candidate go first. */
inline_always bool is_within_threshold(const struct share *seen)
{
	struct wide allowed = wide_product(params.threshold, seen->received), used;

	if (params.probabilistic) {
		/* threshold / (candidates / received) is the chance. */
		used = wide_product(next_random() >> 16, seen->candidates);
	} else {
		/* favoured / received < threshold, whose last step may be rounded up: 10 of 200 are no less than 0.05. */
		used = wide_left((struct wide){ 0, seen->favoured }, 48);
		used = wide_add(used, (struct wide){ 0, seen->received / 2 });
	}
	return wide_less(used, allowed);
}

/* Section 3, the condition. */
inline_always bool is_favoured(const struct flow *flow, bool is_candidate)
{
	struct share seen;

	if (!is_candidate || (params.keep_order && flow->waiting))
		return false;
	seen = shares_with_next(true);
	return is_within_threshold(&seen);
}

/* The packet in `slot`, which has left the pool, was one of `flow`. */
inline_always void leave(struct flow *flow, const struct slot *slot)
{
	flow->bytes -= slot->len;
	if (!--flow->packets)
		pool_forget(slot->flow, flow);
}

/* Drops the unfavoured packet that came last; whether there was one. */
inline_always bool push_out(struct bpf_sk_buff_ptr *to_free)
{
	u32 i = normal.tail;
	struct slot *slot = slot_at(i);
	struct flow *flow;

	if (!i || !slot)
		return false;
	flow = flow_at(slot->flow);
	if (!flow)
		return false;
	pool_pop(i, slot, &normal);
	flow->waiting--;
	if (flow->overtaken > flow->waiting)
		flow->overtaken = flow->waiting;
	leave(flow, slot);
	give_up(slot, to_free, TAIL);
	return true;
}

inline_always int ncq_enqueue(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free, const struct packet *pkt)
{
	bool candidate, favour, full = is_full(pool.packets, pool.bytes, pkt->len);
	struct flow *flow;
	u32 at;
	int n;

	if (pkt->len > config.limit_bytes)
		return refuse(skb, to_free, TOO_LARGE);
	if (full && !params.push_out)
		return refuse(skb, to_free, TAIL);
	flow = pool_flow(flow_hash(skb), &at);
	if (!flow)
		return refuse(skb, to_free, FLOWS);
	candidate = is_candidate(skb, pkt);
	favour = is_favoured(flow, candidate);
	if (full && (!favour || is_full(favoured.packets, favoured.bytes, pkt->len))) {
		if (!flow->packets)
			pool_forget(at, flow);
		return refuse(skb, to_free, TAIL);
	}
	/* Before others go, so that the flow stays. */
	flow->packets++;
	flow->bytes += pkt->len;
	if (full) {
		bpf_for(n, 0, MOST_PACKETS) {
			if (!is_full(pool.packets, pool.bytes, pkt->len) || !push_out(to_free))
				break;
		}
	}
	/* Section 3, what is counted and where the packet goes. */
	shares_count(candidate, favour);
	if (favour) {
		counters.favoured++;
		flow->overtaken = flow->waiting;
	} else {
		flow->waiting++;
	}
	return fifo_take(skb, to_free, at, favour ? &favoured : &normal, pkt);
}

inline_always struct slot *ncq_dequeue(u64 now)
{
	bool is_favoured = favoured.packets;
	struct slot *slot = fifo_pop(is_favoured ? &favoured : &normal);
	struct flow *flow;

	if (!slot)
		return NULL;
	flow = flow_at(slot->flow);
	if (!flow)
		return NULL;
	if (!is_favoured) {
		flow->waiting--;
		if (flow->overtaken) {
			flow->overtaken--;
			counters.reordered++;
		}
	}
	leave(flow, slot);
	return slot;
}

inline_always void ncq_clear(void)
{
	favoured = (struct flow){};
	normal = (struct flow){};
}

QDISC(ncq)
