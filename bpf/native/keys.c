/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Keys and their hashes, compiled for the machine's own processor: reads frames and answers each. */
#include <stdio.h>
#include <stdlib.h>

#include "../kernel.h"
#include "../headers.h"
#include "../dissect.h"

struct question {
	u64 seed;
	/* Bytes behind the Ethernet type `ether_type`. */
	u32 len;
	u32 ether_type;
	u32 identity;
	u32 unused;
	u8 bytes[256];
};

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

int main(void)
{
	struct question question;

	while (fread(&question, sizeof(question), 1, stdin) == 1) {
		u8 *packet = malloc(question.len ?: 1);
		struct bytes bytes = { { { (u64)packet, question.len } }, 0, question.len };
		struct answer answer = {};

		for (u32 i = 0; i < question.len; i++)
			packet[i] = question.bytes[i];
		dissect(&answer.key, &bytes, question.ether_type, question.identity);
		answer.hash = key_hash(&answer.key, question.seed);
		fwrite(&answer, sizeof(answer), 1, stdout);
		free(packet);
	}
	return 0;
}
