/* Balanced search trees linked by index: the flows of each user, and the users. Twin of core/sched/order/tree.rs.
 *
 * Source: treaps, C. R. Aragon, R. G. Seidel, "Randomized search trees", FOCS 1989. A node's priority is a hash of its
 * index, so nothing is stored for it. Expected depth about 1.4 log2 n.
 *
 * In order of load, `bytes / weight`, compared exactly; of equals the one that has stood there for longest comes first,
 * both as the least and as the most. A tree hangs below a node, so that there is no more than nodes and links. */
#pragma once

#include "kernel.h"

enum side {
	LESS,
	MORE,
	/* The root of the tree that hangs below. */
	BELOW,
	SIDES,
};

struct node {
	u32 links[SIDES];
	u32 bytes;
	u32 weight;
	/* When it came to its load: `treap_changes` then. */
	u64 since;
};

/* Sized by the loader; node 0 is nobody. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, struct node);
} nodes SEC(".maps");

u64 treap_changes;

/* No path is longer: with 2^17 nodes the chance of one is below 10^-40 (Chernoff's bound). */
#define DEPTH 128

inline_always struct node *node_at(u32 i)
{
	return bpf_map_lookup_elem(&nodes, &i);
}

inline_always u32 priority(u32 i)
{
	u32 hash = (i + 1) * 0x9e3779b1;

	return (hash ^ hash >> 15) * 0x85ebca77;
}

/* As of numbers: below, at or above zero. */
inline_always int load_compare(const struct node *a, const struct node *b)
{
	u64 mine = (u64)a->bytes * b->weight, theirs = (u64)b->bytes * a->weight;

	return mine < theirs ? -1 : mine > theirs;
}

inline_always bool comes_before(const struct node *a, const struct node *b)
{
	int loads = load_compare(a, b);

	return loads ? loads < 0 : a->since < b->since;
}

/* Adds node `at` to the tree whose root is `*hook`. */
inline_always void treap_insert(u32 *hook, u32 at, struct node *node)
{
	u32 *less = &node->links[LESS], *more = &node->links[MORE];
	u32 i = *hook;
	struct node *other;

	for (int n = 0; i && n < DEPTH; n++) {
		if (priority(i) < priority(at))
			break;
		other = node_at(i);
		if (!other)
			return;
		hook = comes_before(other, node) ? &other->links[MORE] : &other->links[LESS];
		i = *hook;
	}
	*hook = at;
	/* What was here is split by the key, and hangs below the node. */
	for (int n = 0; i && n < DEPTH; n++) {
		other = node_at(i);
		if (!other)
			return;
		if (comes_before(other, node)) {
			*less = i;
			less = &other->links[MORE];
			i = *less;
		} else {
			*more = i;
			more = &other->links[LESS];
			i = *more;
		}
	}
	*less = 0;
	*more = 0;
}

/* Takes node `at` out of the tree whose root is `*hook`. */
inline_always void treap_remove(u32 *hook, u32 at, struct node *node)
{
	u32 less = node->links[LESS], more = node->links[MORE];
	struct node *other;

	for (int n = 0; *hook != at && n < DEPTH; n++) {
		other = node_at(*hook);
		if (!other)
			return;
		hook = comes_before(other, node) ? &other->links[MORE] : &other->links[LESS];
	}
	/* Its two subtrees are merged in its place. */
	for (int n = 0; less && more && n < DEPTH; n++) {
		bool is_less = priority(less) >= priority(more);

		other = node_at(is_less ? less : more);
		if (!other)
			return;
		if (is_less) {
			*hook = less;
			hook = &other->links[MORE];
			less = *hook;
		} else {
			*hook = more;
			hook = &other->links[LESS];
			more = *hook;
		}
	}
	*hook = less ?: more;
}

/* Node `at` of the tree below `above` now has another load; without bytes it leaves the tree. */
verified_apart int treap_update(u32 above, u32 at, u32 bytes, u32 weight)
{
	struct node *parent = node_at(above), *node = node_at(at);

	if (!parent || !node)
		return 0;
	if (node->bytes)
		treap_remove(&parent->links[BELOW], at, node);
	node->bytes = bytes;
	node->weight = weight;
	node->since = ++treap_changes;
	if (bytes)
		treap_insert(&parent->links[BELOW], at, node);
	return 0;
}

/* The node of least load of the tree below `above`; 0 if it is empty. */
verified_apart u32 treap_least(u32 above)
{
	struct node *node = node_at(above);
	u32 least = node ? node->links[BELOW] : 0;

	for (int n = 0; n < DEPTH; n++) {
		node = node_at(least);
		if (!node || !node->links[LESS])
			break;
		least = node->links[LESS];
	}
	return least;
}

/* The node of most load of the tree below `above`; 0 if it is empty. */
verified_apart u32 treap_most(u32 above)
{
	struct node *node = node_at(above), *last;
	u32 root = node ? node->links[BELOW] : 0, most = root, i = root;

	for (int n = 0; n < DEPTH; n++) {
		node = node_at(most);
		if (!node || !node->links[MORE])
			break;
		most = node->links[MORE];
	}
	last = node_at(most);
	if (!last)
		return 0;
	/* Of equals the first. */
	for (int n = 0; i && n < DEPTH; n++) {
		node = node_at(i);
		if (!node)
			break;
		if (load_compare(node, last) < 0) {
			i = node->links[MORE];
		} else {
			most = i;
			i = node->links[LESS];
		}
	}
	return most;
}
