/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Replaces libbpf's, so that the programs compile for the machine's own processor: maps are arrays whose memory
 * main() gives them, kptrs are pointers, and drive.c is the kernel. */
#pragma once

#include <stddef.h>

#define SEC(name)
#define __ksym
#define __arg_trusted
#define __kptr
#define barrier_var(var) asm volatile("" : "+r"(var))

/* The pointers that describe a map to libbpf: here `max_entries` holds the number itself, `key` the size of a value, and
 * `value` the memory. Where that size is 0, the memory is of pairs. */
#define __uint(name, number) int (*name)[number]
#define __type(name, type) typeof(type) *name

struct map {
	void *type;
	unsigned long entries;
	unsigned long size;
	char *values;
} __attribute__((may_alias));

#define map_size(map, entries)                                                                                         \
	((map)->max_entries = (void *)(unsigned long)(entries), (map)->key = (void *)sizeof(*(map)->value),            \
	 (map)->value = calloc(entries, sizeof(*(map)->value)))

struct pair {
	u32 key;
	u32 value;
};

#define map_pairs(map, number, pairs) ((map)->max_entries = (void *)(unsigned long)(number), (map)->value = (void *)(pairs))

static inline void *bpf_map_lookup_elem(void *of, const u32 *key)
{
	struct map *map = of;
	struct pair *pairs = (void *)map->values;

	if (!map->size) {
		for (unsigned long i = 0; i < map->entries; i++)
			if (pairs[i].key == *key)
				return &pairs[i].value;
		return NULL;
	}
	return *key < map->entries ? map->values + *key * map->size : NULL;
}

#define bpf_kptr_xchg(place, new)                                                                                      \
	({                                                                                                             \
		typeof(place) place_ = (place);                                                                        \
		typeof(*place_) old_ = *place_;                                                                        \
                                                                                                                       \
		*place_ = (new);                                                                                       \
		old_;                                                                                                  \
	})

#define bpf_for(i, from, to) for ((i) = (from); (i) < (to); (i)++)

struct bpf_dynptr;

u64 bpf_ktime_get_ns(void);
long bpf_dynptr_read(void *to, u32 len, struct bpf_dynptr *packet, u32 at, u64 flags);
