/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Keys and their hashes, compiled for the machine's own processor: reads frames and answers each. */
#include <stdio.h>
#include <stdlib.h>

#include "dissected.h"

struct question {
	u64 seed;
	/* Bytes behind the Ethernet type `ether_type`. */
	u32 len;
	u32 ether_type;
	u32 identity;
	u32 unused;
	u8 bytes[256];
};

int main(void)
{
	struct question question;

	while (fread(&question, sizeof(question), 1, stdin) == 1) {
		u8 *packet = malloc(question.len ?: 1);
		struct answer answer;

		for (u32 i = 0; i < question.len; i++)
			packet[i] = question.bytes[i];
		answer = dissected(packet, question.len, question.ether_type, question.identity, question.seed);
		fwrite(&answer, sizeof(answer), 1, stdout);
		free(packet);
	}
	return 0;
}
