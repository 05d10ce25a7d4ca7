/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Packets that carry no data of their own. Twin of core/flow/control.rs. */
#pragma once

#include "dissect.h"

/* Whether the packet is a TCP segment without payload (RFC 9293): an acknowledgement, or what opens and ends a
 * connection. Fragments, and packets that end before their header says so, are not taken for one. */
inline_always bool is_control(struct sk_buff *skb)
{
	u32 version, protocol, at, end;
	struct bytes bytes;
	const u8 *header;
	u8 room[IPV4_HEADER];

	if (!find_packet(&bytes, &at, skb))
		return false;
	header = bytes_at(&bytes, at, room, IPV4_HEADER);
	if (!header)
		return false;
	version = header[0] >> 4;
	if (version == 4) {
		u32 size = (header[0] & 0xf) * 4, len = be16(header + 2);

		protocol = header[9];
		/* More fragments, or an offset. */
		if (size < IPV4_HEADER || be16(header + 6) & 0x3fff)
			return false;
		/* Without a length it ends where the bytes do. */
		end = len < size ? bytes.len : at + len;
		at += size;
	} else if (version == 6) {
		u32 len = be16(header + 4);

		protocol = header[6];
		at += IPV6_HEADER;
		end = len ? at + len : bytes.len;
	} else {
		return false;
	}
	if (end > bytes.len)
		return false;
	for (u32 n = 0; n < EXTENSIONS && is_extension(version, n, protocol); n++) {
		if (at + 8 > end)
			return false;
		header = bytes_at(&bytes, at, room, 8);
		if (!header)
			return false;
		if (protocol == FRAGMENT) {
			/* Offset, or more fragments (RFC 8200 §4.5). */
			if (be16(header + 2) & 0xfff9)
				return false;
			at += 8;
		} else if (protocol == AH) {
			if (!header[1])
				return false;
			at += (header[1] + 2) * 4;
		} else {
			at += (header[1] + 1) * 8;
		}
		protocol = header[0];
	}
	if (protocol != TCP || at + TCP_HEADER > end)
		return false;
	header = bytes_at(&bytes, at, room, TCP_HEADER);
	/* The data offset is what is left of the packet. */
	return header && (header[12] >> 4) * 4 == end - at;
}
