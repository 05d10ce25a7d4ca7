/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* The dissector of ../dissect.h over memory instead of a packet of the kernel's. dissected.rs says what core makes of the same. */
#pragma once

#include "../kernel.h"
#include "../headers.h"
#include "../dissect.h"

struct answer {
	struct key key;
	u64 hash;
};

/* A packet is memory of no more than its length, so that the sanitizer sees what is read beyond it. */
void *bpf_dynptr_slice(const struct bpf_dynptr *packet, u32 at, void *room, u32 len)
{
	return at + (u64)len <= packet->opaque[1] ? (u8 *)packet->opaque[0] + at : NULL;
}

int bpf_dynptr_from_skb(struct sk_buff *skb, u64 flags, struct bpf_dynptr *packet)
{
	return -1;
}

long bpf_dynptr_read(void *to, u32 len, struct bpf_dynptr *packet, u32 at, u64 flags)
{
	return -1;
}

/* The key of a packet behind the Ethernet type `ether_type`, and its hash. */
static struct answer dissected(const u8 *packet, u32 len, u32 ether_type, u32 identity, u64 seed)
{
	struct bytes bytes = { { { (u64)packet, len } }, 0, len };
	struct answer answer = {};

	dissect(&answer.key, &bytes, ether_type, identity);
	answer.hash = key_hash(&answer.key, seed);
	return answer;
}
