/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Hashes of the host behind the router that a packet is from or for, which nat.bpf.c leaves in the packet for the qdisc behind it. */
#pragma once

#include "kernel.h"

/* In `qdisc_skb_cb.data`, which a program at tcx has as `cb`. */
struct stamp {
	/* The word of the qdisc's `keys`. Other parts of the kernel leave bytes here, which a sender may have chosen. */
	u64 word;
	/* Hash of the key of that host alone, and of the key with its peer, as skb_key_hash has them. */
	u32 host;
	u32 pair;
};
