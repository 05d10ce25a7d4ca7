// SPDX-License-Identifier: MIT OR Apache-2.0
/* The dissector of bpf/dissect.h as a function, for the target `dissect`. */
#include <stddef.h>
#include <stdlib.h>

#include "../../bpf/native/dissected.h"

void makeway_dissect(const u8 *packet, u32 len, u32 ether_type, u32 identity, u64 seed, struct answer *answer)
{
	*answer = dissected(packet, len, ether_type, identity, seed);
}
