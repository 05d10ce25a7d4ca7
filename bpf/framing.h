/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Bytes of an IP packet on the wire: overhead, smallest packet, cells. Twin of core/framing.rs. */
#pragma once

struct framing {
	/* Bytes added to each packet, -64 to 256. */
	s32 overhead;
	/* Smallest packet in bytes, overhead included. */
	u32 mpu;
	/* CELLS_... */
	u32 cells;
};

enum {
	CELLS_NONE,
	CELLS_ATM,
	CELLS_PTM,
};

/* Bytes on the wire for an IP packet of `len`; at least 1. */
inline_always u32 framing_wire(const struct framing *framing, u32 len)
{
	s64 framed = (s64)len + framing->overhead;
	u32 wire;

	if (framed < framing->mpu)
		framed = framing->mpu;
	if (framed < 1)
		framed = 1;
	wire = framed;
	if (framing->cells == CELLS_ATM)
		return (wire + 47) / 48 * 53;
	if (framing->cells == CELLS_PTM)
		return wire + (wire + 63) / 64;
	return wire;
}

/* The same for a GSO packet that leaves as `segs` segments: all but the last are IP packets of `full` bytes, the
 * last one of `last`. */
inline_always u32 framing_segments(const struct framing *framing, u32 segs, u32 full, u32 last)
{
	return (segs - 1) * framing_wire(framing, full) + framing_wire(framing, last);
}
