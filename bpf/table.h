/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Entries found by their hash, in chains. Index 0 is nobody, so that memory of zeros is an empty table; what is freed
 * is used first. The loader sizes the maps: of chains there are twice as many as entries, a power of two. */
#pragma once

struct entry {
	u32 hash;
	/* The next entry of its chain; of a free one, the next free one. */
	u32 chain;
};

struct table {
	/* The entry freed last, and how many were ever used. */
	u32 free;
	u32 used;
};

/* Written by the loader before it loads: constants to the verifier. */
const volatile struct sizes {
	u32 chain_mask;
	u32 seed;
	/* Flows that are known at most. */
	u32 flows;
	/* Under makeway: size of a packet for the drop beside its bytes, its share of the limit in packets, a quantum at most. For as long
	 * as the qdisc lives: what is held was counted by it. */
	u32 slot;
} sizes SEC(".rodata.sizes") = { 1, 1, 1, 0 };

/* Steps in a chain before an entry is taken for the last one in it; of chains half as many as entries that can be, one
 * with as many has a chance below 10^-19. */
#define CHAIN 16

inline_always u32 *chain_of(void *chains, u32 hash)
{
	/* The upper bits of a product with an odd number depend on all of the hash. */
	u32 i = (u32)(((hash ^ sizes.seed) * 0x9e3779b97f4a7c15ULL) >> 32) & sizes.chain_mask;

	return bpf_map_lookup_elem(chains, &i);
}

/* The entry of `hash` and its place, a new one if there is none; NULL if there is no place. Entries begin with `struct
 * entry`. */
inline_always void *table_hold(struct table *table, void *chains, void *entries, u32 hash, u32 *at)
{
	u32 *chain = chain_of(chains, hash);
	struct entry *entry;
	u32 i;

	if (!chain)
		return NULL;
	i = *chain;
	for (int n = 0; i && n < CHAIN; n++) {
		entry = bpf_map_lookup_elem(entries, &i);
		if (!entry)
			return NULL;
		if (entry->hash == hash || (n == CHAIN - 1)) {
			*at = i;
			return entry;
		}
		i = entry->chain;
	}
	i = table->free ?: table->used + 1;
	entry = bpf_map_lookup_elem(entries, &i);
	if (!entry)
		return NULL;
	if (table->free)
		table->free = entry->chain;
	else
		table->used = i;
	entry->hash = hash;
	entry->chain = *chain;
	*chain = i;
	*at = i;
	return entry;
}

/* Forgets the chain of `hash`. */
inline_always void table_forget(void *chains, u32 hash)
{
	u32 *chain = chain_of(chains, hash);

	if (chain)
		*chain = 0;
}

/* Takes `entry`, at `at`, out of its chain. */
inline_always void table_free(struct table *table, void *chains, void *entries, u32 at, struct entry *entry)
{
	u32 *link = chain_of(chains, entry->hash);

	for (int n = 0; link && n < CHAIN; n++) {
		struct entry *next;

		if (*link == at) {
			*link = entry->chain;
			break;
		}
		next = bpf_map_lookup_elem(entries, link);
		if (!next)
			return;
		link = &next->chain;
	}
	entry->chain = table->free;
	table->free = at;
}
