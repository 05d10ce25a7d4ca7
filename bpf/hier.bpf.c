/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Fair between users, shortest queue first inside each: weighted deficit round robin over users; of the user whose turn
 * it is, a packet of the flow that holds the least bytes. When the buffer is full, one packet less in the longest flow
 * of the user that holds the most bytes for its weight. Twin of core/sched/hier.rs.
 *
 * Source: T. Bonald, L. Muscariello, N. Ostallo, "Self-Prioritization of Audio and Video Traffic", ICC 2011, section
 * VI, "FQ at user level and SQF at flow level". Deficit round robin: M. Shreedhar, G. Varghese, SIGCOMM 1995.
 *
 * | papers | here |
 * | --- | --- |
 * | `ActiveList`, of users | the ring |
 * | `Q_i` | `config.quantum` times the weight |
 * | `DC_i` | `deficit` |
 * | `get_shortest`, `get_longest` in a user | `treap_least`, `treap_most` |
 *
 * A user is a host, `keys.users_by`, and has an entry while it has packets. A flow belongs to the user of the packet
 * that made it active, until it is empty. */
#define FLOW_STATE u32 user;

#include "ring.h"
#include "treap.h"
#include "qdisc.h"
#include "turns.h"

struct user {
	struct entry entry;
	struct links links;
	u64 deficit;
	/* That of its flows. */
	u32 cost;
	/* `config.weights` when its weight was looked up. */
	u32 weighed;
};

#include "users.h"

struct table known_users;

/* Flows are the even nodes, users the odd ones. All users hang below the user that is nobody. */
#define FLOW(i) ((i) << 1)
#define USER(i) ((i) << 1 | 1)
#define ALL_USERS USER(0)

inline_always struct links *links_at(u32 i)
{
	struct user *user = user_at(i);

	return user ? &user->links : NULL;
}

/* The weight that user `i` has; that it had before, if the weights were not written since. */
inline_always u32 weight_of(struct user *user, const struct node *node)
{
	u32 written = config.weights, *weight;

	if (user->weighed == written)
		return node->weight;
	user->weighed = written;
	weight = bpf_map_lookup_elem(&weights, &user->entry.hash);
	return weight && *weight ? *weight : 1;
}

/* The user of a packet that makes its flow active; 0 if there is no place. */
inline_always u32 user_of(struct sk_buff *skb)
{
	u32 hash = user_hash(skb), i = 0;
	struct user *user = table_hold(&known_users, &user_chains, &users, hash, &i);
	struct node *node = node_at(USER(i));

	if (!node || !user)
		return 0;
	if (!user->cost) {
		node->weight = 1;
		user->weighed = 0;
	}
	return i;
}

inline_always void hier_leave(u32 i, struct user *user)
{
	turns_leave(i);
	user->deficit = 0;
	table_free(&known_users, &user_chains, &users, i, &user->entry);
}

/* As the other orders, with a flow's place among those of its user, and the user's among users. */
verified_apart int order_update(u32 at, u32 old, u32 new)
{
	struct flow *flow = flow_at(at);
	struct user *user;
	struct node *node;
	u32 i, cost;

	if (!flow)
		return 0;
	i = flow->user;
	user = user_at(i);
	node = node_at(USER(i));
	if (!user || !node)
		return 0;
	treap_update(USER(i), FLOW(at), new, 1);
	if (!user->cost)
		ring_push(i);
	cost = user->cost + new - old;
	user->cost = cost;
	treap_update(ALL_USERS, USER(i), cost, weight_of(user, node));
	if (!cost)
		hier_leave(i, user);
	return 0;
}

/* The longest flow of the user that holds most for its weight. */
inline_always u32 order_longest(void)
{
	return treap_most(treap_most(ALL_USERS)) >> 1;
}

#include "queues.h"

inline_always int hier_enqueue(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free, const struct packet *pkt)
{
	struct flow *flow;
	u32 at;

	if (pkt->len > config.limit_bytes)
		return refuse(skb, to_free, TOO_LARGE);
	flow = pool_flow(flow_hash(skb), &at);
	if (!flow)
		return refuse(skb, to_free, FLOWS);
	if (!flow->packets)
		flow->user = user_of(skb);
	if (!flow->user)
		return refuse(skb, to_free, FLOWS);
	return queues_take(skb, to_free, at, flow, pkt);
}

/* The shortest flow of the user at the head, if its first packet may go; NOBODY if it has none. */
verified_apart u32 hier_turn(void)
{
	u32 i = ring_head(), at;
	struct node *node = node_at(USER(i));
	struct user *user = user_at(i);
	struct flow *flow;
	struct slot *slot;

	if (!i || !node || !user)
		return NOBODY;
	at = treap_least(USER(i)) >> 1;
	flow = flow_at(at);
	slot = flow ? slot_at(flow->head) : NULL;
	if (!at || !slot)
		return NOBODY;
	return turn_allows(&user->deficit, (u64)config.quantum * node->weight, slot->len) ? at : 0;
}

inline_always struct slot *hier_dequeue(u64 now)
{
	return turns_dequeue(hier_turn);
}

inline_always void hier_clear(void)
{
	u32 n;

	/* Nobody, whose links are the ends of the ring and the tree of all users, among them. */
	bpf_for(n, 0, MOST_PACKETS + 2) {
		struct node *flow = node_at(FLOW(n)), *node = node_at(USER(n));
		struct user *user = user_at(n);

		if ((n > pool.flows.used && n > known_users.used) || !flow || !node || !user)
			break;
		if (n)
			table_forget(&user_chains, user->entry.hash);
		*flow = (struct node){};
		*node = (struct node){};
		*user = (struct user){};
	}
	known_users = (struct table){};
	granted = false;
}

QDISC(hier)
