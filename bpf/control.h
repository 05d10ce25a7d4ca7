/* Packets that carry no data of their own. Twin of core/flow/control.rs. */
#pragma once

#include "headers.h"

/* Whether the packet is a TCP segment without payload (RFC 9293): an acknowledgement, or what opens and ends a
 * connection. Fragments, and packets that end before their header says so, are not taken for one. */
inline_always bool is_control(struct sk_buff *skb)
{
	u32 len = skb->len - link_header(skb), version, protocol, at, end;
	u8 ip[IPV4_HEADER], header[8];

	if (!header_read(skb, 0, ip, sizeof(ip)))
		return false;
	version = ip[0] >> 4;
	if (version == 4) {
		at = (ip[0] & 0xf) * 4;
		end = be16(ip + 2);
		protocol = ip[9];
		/* More fragments, or an offset. */
		if (at < IPV4_HEADER || be16(ip + 6) & 0x3fff)
			return false;
		/* Without a length it ends where the bytes do. */
		if (end < at)
			end = len;
	} else if (version == 6) {
		at = IPV6_HEADER;
		end = be16(ip + 4) ? at + be16(ip + 4) : len;
		protocol = ip[6];
	} else {
		return false;
	}
	if (end > len)
		return false;
	for (u32 n = 0; n < EXTENSIONS && is_extension(version, n, protocol); n++) {
		u32 size;

		if (at + sizeof(header) > end || !header_read(skb, at, header, sizeof(header)))
			return false;
		if (protocol == FRAGMENT) {
			/* Offset, or more fragments (RFC 8200 §4.5). */
			if (be16(header + 2) & 0xfff9)
				return false;
			size = 8;
		} else if (protocol == AH) {
			if (!header[1])
				return false;
			size = (header[1] + 2) * 4;
		} else {
			size = (header[1] + 1) * 8;
		}
		protocol = header[0];
		at += size;
	}
	/* The data offset is what is left of the packet. */
	if (protocol != TCP || at + TCP_HEADER > end || !header_read(skb, at + 12, header, 1))
		return false;
	return (header[0] >> 4) * 4 == end - at;
}
