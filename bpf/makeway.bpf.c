/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Makeway: priority that a flow earns by its behaviour. Flows in good standing or on probation leave first and then new
 * ones, the shortest queue first; then bulk flows, by turns of users and of the flows of each, with CoDel in each flow.
 * When the buffer is full, one packet less in the longest queue. Twin of core/sched/makeway.rs, integer for integer;
 * docs/disciplines/makeway.md is the specification, record.h its table of classes, meter.h the link's rate, lift.h CoDel's target,
 * aged.h the bursts that go before shorter queues.
 *
 * The record of a flow stays while it holds nothing, as in core's flow table (idle.h); a new one takes nothing over from
 * the one that it replaces. A user is known as long as a flow of it is: one whose
 * last flow goes over to another user leaves the round at once and begins anew, where core's keeps its turn and its deficit. There
 * are no marks: a BPF qdisc may not write to packets. */
#define TIMED
#define DROPS_LATE
#define ORDERS 3
/* Place among the packets in standing that can age; zeros: it is not there. */
#define SLOT_STATE struct links burst;
#define FLOW_STATE                                                                                                     \
	/* Sent, for its owner to read. */                                                                             \
	u64 bytes_out;                                                                                                 \
	u64 packets_out;                                                                                               \
	struct record record;                                                                                          \
	/* In the round of its user. */                                                                                \
	struct links turns;                                                                                            \
	struct codel codel;                                                                                            \
	struct lift lift;                                                                                              \
	s64 deficit;                                                                                                   \
	u32 user;                                                                                                      \
	bool in_round;                                                                                                 \
	/* Before its first turn there. */                                                                             \
	bool fresh;                                                                                                    \
	bool kept;

#include "record.h"
#include "meter.h"
#include "lift.h"
#include "codel.h"
#include "round.h"
#include "qdisc.h"
#include "order.h"
#include "idle.h"

/* CoDel's, in each bulk flow. */
#define INTERVAL (100 * MS)
/* For this time after its fall packets that waited longer than STALE are dropped while more than KEPT wait; CoDel then drops nothing for
 * RESPONDS. */
#define CLEARS (2 * SECOND)
#define STALE (300 * MS)
#define KEPT 4
#define RESPONDS (500 * MS)
/* Owed to bulk for each byte that goes before it, in 120ths; at once no more than BURST to that of other users. */
#define OWED_OF 120
#define OWED_STANDING 13
#define OWED_USERS 72
#define OWED_NEW 40
#define BURST (256 << 10)
/* The debt of a user's bulk flows for its new ones, which went first, at most: bytes, and turns with weight 1. */
#define DEBT (64 << 10)
#define DEBT_TURNS 64

/* No bulk flow has a turn. */
#define NOBODY (~0U)
/* Turns of a dequeue without a departure: more than the debts of 16 384 users. */
#define TURNS (1 << 20)

struct user {
	struct entry entry;
	/* In the round of users. */
	struct links turns;
	s64 deficit;
	/* The size of its new and bulk flows for the drop, and the longest of them, of those that had a packet since. */
	u64 held;
	u32 longest;
	/* The round of its flows. */
	u32 round;
	/* Flows that are known, and packets of its bulk flows. */
	u32 flows;
	u32 waiting;
	u32 weight;
	/* `config.weights` when its weight was looked up. */
	u32 weighed;
	bool in_round;
	bool fresh;
};

#include "users.h"

/* Keys of flows, each at its flow's place. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct key);
} names SEC(".maps");

struct shares {
	struct meter meter;
	struct idle_time idle_time;
	/* 120ths of bytes: to bulk, to that of other users, and to new flows behind those in standing. */
	u64 owed;
	u64 owed_others;
	u64 owed_new;
	/* Packets of bulk flows, and of those in standing. */
	u32 waiting;
	u32 standing;
	/* The round of users. */
	u32 round;
	/* The user that holds most for its weight, of those of whom a packet came since it held less. */
	u32 heaviest;
	/* Packets in standing that can age, by arrival: a round. */
	u32 bursts;
	/* 1/(AGED_OF - 1) of bytes that the shortest queue may send before one that has aged. */
	u64 spare;
	/* No new flow with packets has had them for longer than since then. */
	u64 earliest;
	struct table users;
} shares SEC(".bss.shares");

/* The weight that `user` has now. */
inline_always u32 weight_of(struct user *user)
{
	u32 written = config.weights, *weight;

	if (user->weighed == written)
		return user->weight;
	weight = bpf_map_lookup_elem(&weights, &user->entry.hash);
	user->weighed = written;
	user->weight = weight && *weight ? *weight : 1;
	return user->weight;
}

inline_always struct links *flow_turns(u32 i)
{
	struct flow *flow = flow_at(i);

	return flow ? &flow->turns : NULL;
}

inline_always struct links *user_turns(u32 i)
{
	struct user *user = user_at(i);

	return user ? &user->turns : NULL;
}

/* A flow's size for the drop. */
inline_always u32 size_of(const struct flow *flow)
{
	return sum_of(flow->bytes, flow->packets * sizes.slot);
}

/* The order that flows of `class` are in: those on probation are among those in standing. */
inline_always u32 order_for(enum class class)
{
	return class == PROBATION ? STANDING : class;
}

/* A flow's place in the order of its class: by bytes, which decide who goes first; of bulk by size, which decides who pays. */
inline_always void place(u32 at, struct flow *flow)
{
	u32 old = flow->cost;

	flow->cost = flow->record.class == BULK ? size_of(flow) : flow->bytes;
	order_move(order_for(flow->record.class), at, old, flow->cost);
}

/* The user that holds the packets of `flow`, in `class`; NULL for those that go first. */
inline_always struct user *holder_of(const struct flow *flow, enum class class)
{
	return goes_first(class) ? NULL : user_at(flow->user);
}

/* `n` packets more, or fewer, of `bytes` together, in `class`, of a flow of `user`. */
inline_always void count(struct user *user, enum class class, s64 n, s64 bytes)
{
	if (goes_first(class)) {
		shares.standing += n;
		return;
	}
	if (!user)
		return;
	user->held += bytes + n * sizes.slot;
	if (class != BULK)
		return;
	shares.waiting += n;
	user->waiting += n;
}

#include "aged.h"

/* Takes the first packet of `flow`, at `at`, out of the pool; its slot, which was `flow->head`, NULL if there is none. */
inline_always struct slot *take_from(u64 now, u32 at, struct flow *flow)
{
	enum class class = flow->record.class;
	u32 i = flow->head;
	struct slot *slot = slot_at(i);

	if (!i || !slot)
		return NULL;
	record_account(&flow->record, flow->packets, now);
	if (burst_is_listed(slot))
		burst_leave(i);
	pool_pop_first(i, slot, flow);
	count(holder_of(flow, class), class, -1, -(s64)slot->len);
	place(at, flow);
	if (!flow->packets)
		idle_join(at, flow);
	return slot;
}

/* The same of flow `at`; the slot's place, 0 if there is none. */
verified_apart u32 take(u64 now, u32 at)
{
	struct flow *flow = flow_at(at);
	u32 i;

	if (!at || !flow)
		return 0;
	i = flow->head;
	return take_from(now, at, flow) ? i : 0;
}

#include "full.h"

/* ---- Flows and users. ---- */

/* Takes `user`, at `i`, of which no flow is known any more, out. */
inline_always void user_leave(u32 i, struct user *user)
{
	struct entry entry;

	if (user->in_round)
		round_remove(&shares.round, i, &user->turns, user_turns);
	if (shares.heaviest == i)
		shares.heaviest = 0;
	table_free(&shares.users, &user_chains, &users, i, &user->entry);
	entry = user->entry;
	*user = (struct user){ .entry = entry };
}

inline_always void flow_leave(struct flow *flow)
{
	u32 i = flow->user;
	struct user *user = user_at(i);

	if (!i || !user)
		return;
	user->flows--;
	if (!user->flows)
		user_leave(i, user);
}

/* Forgets an idle flow. */
verified_apart int forget_one(u64 now)
{
	u32 at = idle_head(now);
	struct flow *flow = flow_at(at);
	struct user *user;
	struct entry entry;

	if (!at || !flow)
		return 0;
	idle_leave(at, flow);
	user = user_at(flow->user);
	if (flow->in_round && user)
		round_remove(&user->round, at, &flow->turns, flow_turns);
	flow_leave(flow);
	pool_forget(at, flow);
	entry = flow->entry;
	*flow = (struct flow){ .entry = entry };
	return 0;
}

/* The place of a new flow of `hash`, for which another is forgotten; 0 if there is none. */
verified_apart u32 flow_for_another(u64 now, u32 hash)
{
	u32 at = 0;

	forget_one(now);
	pool_flow(hash, &at);
	return at;
}

/* The place of the user of a key's `hash`. */
verified_apart u32 user_of(u32 hash)
{
	u32 i = 0;
	struct user *user = table_hold(&shares.users, &user_chains, &users, hash, &i);

	if (!user)
		return 0;
	if (!user->weight)
		user->weight = 1;
	return i;
}

/* The key of flow `at`, for its owner to read. */
verified_apart int name_flow(struct sk_buff *skb __arg_trusted, u32 at)
{
	struct key *name = bpf_map_lookup_elem(&names, &at), key = {};
	struct bytes bytes;

	if (!name)
		return 0;
	if (bytes_of(&bytes, skb))
		dissect(&key, &bytes, __builtin_bswap16(skb->protocol), keys.flows_by);
	*name = key;
	return 0;
}

/* A flow belongs to the user of the packet that made it active. */
inline_always void belong(struct sk_buff *skb, u32 at, struct flow *flow)
{
	u32 i = user_of(user_hash(skb));
	struct user *user = user_at(i);

	if (!flow->user)
		name_flow(skb, at);
	if (!i || !user || i == flow->user)
		return;
	user->flows++;
	if (flow->user)
		flow_leave(flow);
	else
		idle_join(at, flow);
	flow->user = i;
}

/* ---- Arrivals. ---- */

/* Flow `at`, which is bulk and has packets, has turns in the round of `user`, and that user in the round of users. */
inline_always void enter(u32 at, struct flow *flow, struct user *user)
{
	if (flow->in_round)
		return;
	flow->in_round = true;
	flow->fresh = true;
	flow->deficit = config.quantum;
	round_push_front(&user->round, at, &flow->turns, flow_turns);
	if (user->in_round)
		return;
	user->in_round = true;
	user->fresh = true;
	user->deficit = config.quantum;
	round_push_front(&shares.round, flow->user, &user->turns, user_turns);
}

/* A flow was in another class; its packets change the order. */
inline_always void change(u32 at, struct flow *flow, enum class from)
{
	enum class to = flow->record.class;
	struct user *user;

	/* CoDel did not see the packets that left since the flow was bulk before. */
	if (to == BULK)
		flow->codel = (struct codel){};
	if (!flow->packets)
		return;
	if (to == NEW && flow->record.busy < shares.earliest)
		shares.earliest = flow->record.busy;
	order_move(order_for(from), at, flow->cost, 0);
	flow->cost = 0;
	user = user_at(flow->user);
	count(user, from, -(s64)flow->packets, -(s64)flow->bytes);
	count(user, to, flow->packets, flow->bytes);
	if (to == BULK && user)
		enter(at, flow, user);
	place(at, flow);
}

/* The class of flow `at`, as a packet of it comes. */
verified_apart int judge(u64 now, u32 at)
{
	struct flow *flow = flow_at(at);
	enum class was, class;
	struct user *user;
	struct link link;

	if (!flow)
		return 0;
	link = meter_link(&shares.meter);
	link.crowded |= standing_is_most();
	if (shares.waiting) {
		user = user_at(flow->user);
		link.others |= user && shares.waiting > user->waiting;
	}
	was = flow->record.class;
	class = record_judge(&flow->record, flow->packets, now, &link);
	if (goes_first(class) && !goes_first(was))
		shares.meter.raised[0] += record_most(&flow->record);
	if (class != was)
		change(at, flow, was);
	return 0;
}

/* A packet of `flow`, at `at`, comes. */
inline_always void meet(u64 now, u32 at, struct flow *flow)
{
	if (record_is_forgotten(&flow->record, flow->packets, now)) {
		record_begin(&flow->record, now);
		flow->lift = (struct lift){};
	}
	record_account(&flow->record, flow->packets, now);
	meter_turn(&shares.meter, now);
	if (!pool.packets) {
		meter_begin(&shares.meter);
		idle_time_end(&shares.idle_time, now, shares.meter.frame);
		shares.earliest = now;
	}
	if (!record_is_settled(&flow->record, flow->packets, now))
		judge(now, at);
}

/* A packet of `len` joins the queue of `flow`, at `at`; its slot. */
inline_always struct slot *join(u64 now, u32 at, struct flow *flow, u32 len)
{
	struct slot *slot = pool_push(at, flow, len, now);
	enum class class = flow->record.class;
	struct user *user;

	if (!slot)
		return NULL;
	if (flow->packets == 1) {
		flow->record.busy = now;
		idle_leave(at, flow);
	}
	burst_join(now, flow->tail, slot, flow);
	user = holder_of(flow, class);
	count(user, class, 1, len);
	if (class == BULK && user)
		enter(at, flow, user);
	place(at, flow);
	if (user)
		weigh(at, flow, user);
	return slot;
}

/* Takes a packet of the longest queue out of the pool; its slot, 0 if there is none. */
verified_apart u32 evict(u64 now)
{
	struct payer pays = longest();
	bool bulk_waits = shares.waiting;
	u32 i;

	if (!pays.flow)
		return 0;
	i = pays.flow->head;
	if (!take_from(now, pays.at, pays.flow))
		return 0;
	record_loss(&pays.flow->record, now, 1);
	if (!bulk_waits)
		record_full(&pays.flow->record, shares.meter.last[0]);
	return i;
}

/* Drops a packet of the longest queue; whether there was one. */
inline_always bool drop_longest(struct bpf_sk_buff_ptr *to_free, u64 now)
{
	u32 i = evict(now);
	struct slot *slot = slot_at(i);

	if (!i || !slot)
		return false;
	give_up(slot, to_free, LONGEST_QUEUE);
	return true;
}

inline_always int makeway_enqueue(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free, const struct packet *pkt)
{
	u32 hash, at = 0;
	struct flow *flow;
	struct slot *slot;
	int n;

	if (pkt->len > config.limit_bytes)
		return refuse(skb, to_free, TOO_LARGE);
	hash = flow_hash(skb);
	flow = pool_flow(hash, &at);
	if (!flow) {
		at = flow_for_another(pkt->now, hash);
		flow = flow_at(at);
	}
	if (!at || !flow)
		return refuse(skb, to_free, FLOWS);
	/* All packets of a connection have the same addresses. But a port of a router that translates them can go to another host, and
	 * the first packet to a forwarded port is the router's. */
	if (!flow->user || ((keys.flows_by != FIVE_TUPLE || is_stamped(skb)) && !flow->in_round && !flow->packets))
		belong(skb, at, flow);
	meet(pkt->now, at, flow);
	record_arrival(&flow->record, pkt->len);
	if (record_is_asked(&flow->record, pkt->len)) {
		if (!flow->packets) {
			idle_leave(at, flow);
			idle_join(at, flow);
		}
		return refuse(skb, to_free, EARLY);
	}
	slot = flow->user && !is_beyond() ? join(pkt->now, at, flow, pkt->len) : NULL;
	if (!slot)
		return refuse(skb, to_free, FLOWS);
	hold(skb, to_free, slot);
	if (!is_over())
		return NET_XMIT_SUCCESS;
	drop_longest(to_free, pkt->now);
	if (!is_over())
		return NET_XMIT_SUCCESS;
	/* Several small packets for a large one. */
	bpf_for(n, 0, MOST_PACKETS) {
		if (!is_over() || !drop_longest(to_free, pkt->now))
			break;
	}
	return NET_XMIT_SUCCESS;
}

/* ---- Departures. ---- */

/* The packet in `slot` leaves, of `flow`. */
inline_always void depart(struct flow *flow, u64 now, const struct slot *slot)
{
	struct meter *meter = &shares.meter;

	flow->bytes_out += slot->len;
	flow->packets_out++;
	meter_turn(meter, now);
	record_departure(&flow->record, now, since(now, slot->arrived), meter_short(meter));
	meter_departure(meter, flow->record.class, slot->len, pool.packets, shares.standing, shares.waiting);
	if (!pool.packets)
		idle_time_begin(&shares.idle_time, now);
}

#include "first.h"
#include "bulk.h"

inline_always struct slot *makeway_dequeue(u64 now)
{
	/* Mostly no packet can age: the list is not looked at. */
	u32 old = shares.bursts ? aged(now) : 0;
	struct slot *slot = owed_to_new(now, old);

	if (!slot && !is_due(old))
		slot = first(now, old);
	return slot ?: bulk(now);
}

inline_always void makeway_clear(void)
{
	u32 n;

	bpf_for(n, 1, MOST_PACKETS + 2) {
		struct flow *flow = n <= pool.flows.used ? flow_at(n) : NULL;

		if (!flow)
			break;
		/* The compiler knows how large it is and would leave out what shows it to the verifier. */
		barrier_var(n);
		order_move(order_for(flow->record.class), n, flow->cost, 0);
	}
	bpf_for(n, 1, MOST_PACKETS + 3) {
		struct user *user = n <= shares.users.used ? user_at(n) : NULL;

		if (!user)
			break;
		table_forget(&user_chains, user->entry.hash);
		*user = (struct user){};
	}
	shares = (struct shares){};
	idle_clear();
}

QDISC(makeway)
