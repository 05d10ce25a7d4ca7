/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Tags in the headers of packets: an atomic IPv4 datagram's identification (RFC 6864), an IPv6 packet's flow label
 * (RFC 6437) of no more than 16 bits. Twin of core/flow/tag.rs. */
#pragma once

#include "dissect.h"

/* The packet's tag; 0 says nothing, as does a packet that can carry none. */
inline_always u32 packet_tag(struct sk_buff *skb)
{
	struct bytes bytes;
	u8 room[IPV4_HEADER];
	const u8 *ip;
	u32 at;

	if (!find_packet(&bytes, &at, skb))
		return 0;
	ip = bytes_at(&bytes, at, room, IPV4_HEADER);
	if (!ip)
		return 0;
	switch (ip[0] >> 4) {
	case 4:
		/* May not be fragmented and is no fragment; its identification is not signed. */
		if ((be16(ip + 6) & 0x7fff) != 0x4000 || (ip[0] & 0xf) < 5 || ip[9] == AH)
			return 0;
		return be16(ip + 4);
	case 6:
		if (bytes.len - at < IPV6_HEADER || ip[1] & 0xf)
			return 0;
		return be16(ip + 2);
	}
	return 0;
}
