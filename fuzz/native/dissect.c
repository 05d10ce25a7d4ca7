// SPDX-License-Identifier: MIT OR Apache-2.0
/* The dissector of bpf/dissect.h as a function, for the target `dissect`. */
#include <stddef.h>
#include <stdlib.h>

#include "../../bpf/kernel.h"
#include "../../bpf/headers.h"
#include "../../bpf/dissect.h"

struct answer {
	struct key key;
	u64 hash;
};

/* A packet is memory of no more than its length. */
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

void makeway_dissect(const u8 *packet, u32 len, u32 ether_type, u32 identity, u64 seed, struct answer *answer)
{
	struct bytes bytes = { { { (u64)packet, len } }, 0, len };

	*answer = (struct answer){};
	dissect(&answer->key, &bytes, ether_type, identity);
	answer->hash = key_hash(&answer->key, seed);
}
