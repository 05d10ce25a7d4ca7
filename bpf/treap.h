/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Balanced search trees linked by index: the flows of each user, and the users. Twin of core/sched/order/tree.rs.
 *
 * Source: treaps, C. R. Aragon, R. G. Seidel, "Randomized search trees", FOCS 1989. Each insertion draws a new priority
 * from a generator whose seed the loader keeps secret. Expected depth about 1.4 log2 n, for any choice of loads: no
 * answer of a tree depends on its shape, so nothing that leaves tells of the priorities, and a changed load has a new one.
 *
 * In order of load, `bytes / weight`, compared exactly; of equals the one that has stood there for longest comes first,
 * both as the least and as the most. A tree hangs below a node: nodes and links are all there is. */
#pragma once

#include "kernel.h"
#include "random.h"

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
	u32 priority;
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

/* The longest path that is walked: with 2^17 nodes the chance of a longer one is below 10^-40 (Chernoff's bound). Should
 * there be one, no node is lost: it is out of order or stays where it was. */
#ifndef DEPTH
#define DEPTH 128
#endif

/* The tests define these, to count the nodes that each operation looks at. */
#ifndef TREAP_BEGINS
#define TREAP_BEGINS()
#define TREAP_STEP()
#endif

inline_always struct node *node_at(u32 i)
{
	return bpf_map_lookup_elem(&nodes, &i);
}

inline_always struct node *treap_step(u32 i)
{
	TREAP_STEP();
	return node_at(i);
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

	TREAP_BEGINS();
	for (int n = 0; i && n < DEPTH; n++) {
		other = treap_step(i);
		if (!other)
			return;
		if (other->priority < node->priority)
			break;
		hook = comes_before(other, node) ? &other->links[MORE] : &other->links[LESS];
		i = *hook;
	}
	*hook = at;
	/* The tree below is split by the key, and hangs below the node. */
	for (int n = 0; i && n < DEPTH; n++) {
		other = treap_step(i);
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
	/* The rest stays in one piece. */
	*less = i;
	*more = 0;
}

/* Takes node `at` out of the tree whose root is `*hook`; if it is too deep it stays, and the answer is false. */
inline_always bool treap_remove(u32 *hook, u32 at, struct node *node)
{
	u32 less = node->links[LESS], more = node->links[MORE];
	struct node *other;

	TREAP_BEGINS();
	for (int n = 0; *hook != at; n++) {
		other = n < DEPTH && *hook ? treap_step(*hook) : NULL;
		if (!other)
			return false;
		hook = comes_before(other, node) ? &other->links[MORE] : &other->links[LESS];
	}
	/* Its two subtrees are merged in its place. */
	for (int n = 0; less && more && n < DEPTH; n++) {
		struct node *a = treap_step(less), *b = treap_step(more);
		bool is_less;

		if (!a || !b)
			return false;
		is_less = a->priority >= b->priority;
		other = is_less ? a : b;
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
	/* So far it was rotated down. */
	if (less && more) {
		node->links[LESS] = less;
		node->links[MORE] = more;
		*hook = at;
		return false;
	}
	*hook = less ?: more;
	return true;
}

/* Node `at` of the tree below `above` now has another load; without bytes it leaves the tree. */
verified_apart int treap_update(u32 above, u32 at, u32 bytes, u32 weight)
{
	struct node *parent = node_at(above), *node = node_at(at);

	if (!parent || !node)
		return 0;
	if (node->bytes && !treap_remove(&parent->links[BELOW], at, node))
		return 0;
	node->bytes = bytes;
	node->weight = weight;
	node->since = ++treap_changes;
	node->priority = next_random_word();
	if (bytes)
		treap_insert(&parent->links[BELOW], at, node);
	return 0;
}

/* The node of least load of the tree below `above`; 0 if it is empty. */
verified_apart u32 treap_least(u32 above)
{
	struct node *node = node_at(above);
	u32 least = node ? node->links[BELOW] : 0;

	TREAP_BEGINS();
	for (int n = 0; n < DEPTH; n++) {
		node = treap_step(least);
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

	TREAP_BEGINS();
	for (int n = 0; n < DEPTH; n++) {
		node = treap_step(most);
		if (!node || !node->links[MORE])
			break;
		most = node->links[MORE];
	}
	last = node_at(most);
	if (!last)
		return 0;
	/* Of equals the first. */
	for (int n = 0; i && n < DEPTH; n++) {
		node = treap_step(i);
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
