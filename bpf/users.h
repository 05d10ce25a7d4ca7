/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Users, found by the hash of their key, and their weights. A discipline defines `struct user` before, which begins with its entry. */
#pragma once

#include "table.h"

/* As many as flows, or one more. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 3);
	__type(key, u32);
	__type(value, struct user);
} users SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u32);
} user_chains SEC(".maps");

/* Weights of users that have another one than 1, by the hash of their key, 1 to 65 536; written by the loader at any time, and then
 * `config.weights`. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} weights SEC(".maps");

inline_always struct user *user_at(u32 i)
{
	return bpf_map_lookup_elem(&users, &i);
}
