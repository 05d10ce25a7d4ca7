/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Keys read from headers, and their hash. Twin of core/flow/key.rs: VLAN tags and the PPPoE header are skipped and no
 * part of a key; a fragment has no ports, be it the first; what is not IP or cannot be read has one key for all.
 *
 * Formats: RFC 791, RFC 8200, RFC 4302, RFC 2516, IEEE 802.1Q. Here, and not in core, TAGS and EXTENSIONS are bounds:
 * behind more tags a packet is not IP, and a further extension header is taken for the protocol. */
#pragma once

#include "headers.h"
#include "siphash.h"

#define TAGS 8

/* Flow keys, in the order of core's `Identity`. */
enum identity {
	FIVE_TUPLE,
	SRC_PORT,
	SRC_HOST,
	DST_HOST,
	HOST_PAIR,
};

/* Ports are in host order. Fields outside the identity are zero, and all fields of packets that are not IP. */
struct key {
	/* Words of an address as they lie in the packet; IPv4 has one of four bytes. */
	u64 src[2];
	u64 dst[2];
	u32 sport;
	u32 dport;
	u32 protocol;
	/* 4, 6, or 0. */
	u32 family;
};

enum {
	ETHER_IPV4 = 0x0800,
	ETHER_IPV6 = 0x86dd,
	ETHER_PPPOE = 0x8864,
	PPP_IPV4 = 0x0021,
	PPP_IPV6 = 0x0057,
};

/* Four bytes as they lie. */
inline_always u64 word(const u8 *bytes)
{
#ifdef __bpf__
	return *(const u32 *)bytes;
#else
	u32 word;

	__builtin_memcpy(&word, bytes, sizeof(word));
	return word;
#endif
}

inline_always bool is_vlan(u32 ether_type)
{
	return ether_type == 0x8100 || ether_type == 0x88a8 || ether_type == 0x9100;
}

inline_always bool has_ports(u32 protocol)
{
	return protocol == TCP || protocol == UDP || protocol == DCCP || protocol == SCTP || protocol == UDP_LITE;
}

/* Where the IP header is behind what `ether_type` announces; beyond the end if there is none. */
inline_always u32 find_ip(const struct bytes *bytes, u32 ether_type)
{
	u8 room[8];
	const u8 *tag;
	u32 at = 0;

	for (int n = 0; n < TAGS; n++) {
		if (!is_vlan(ether_type))
			break;
		tag = bytes_at(bytes, at, room, 4);
		if (!tag)
			return ~0U;
		ether_type = be16(tag + 2);
		at += 4;
	}
	if (ether_type == ETHER_IPV4 || ether_type == ETHER_IPV6)
		return at;
	if (ether_type != ETHER_PPPOE)
		return ~0U;
	tag = bytes_at(bytes, at, room, 8);
	if (!tag)
		return ~0U;
	ether_type = be16(tag + 6);
	return ether_type == PPP_IPV4 || ether_type == PPP_IPV6 ? at + 8 : ~0U;
}

/* The bytes of a packet, and where its IP header is among them; whether there is one. */
inline_always bool find_packet(struct bytes *bytes, u32 *at, struct sk_buff *skb)
{
	if (!bytes_of(bytes, skb))
		return false;
	*at = find_ip(bytes, __builtin_bswap16(skb->protocol));
	return *at <= bytes->len;
}

/* Protocol and ports of what is at `at` and ends at `end`; `key` has the number of the header there. */
inline_always void read_transport(struct key *key, const struct bytes *bytes, u32 at, u32 end)
{
	u8 room[8];
	const u8 *header;

	for (int n = 0; n < EXTENSIONS; n++) {
		u32 protocol = key->protocol, size;

		if (!is_extension(key->family, n, protocol))
			break;
		if (end - at < 8)
			return;
		header = bytes_at(bytes, at, room, 8);
		if (!header)
			return;
		size = header[1] * 8 + 8;
		if (protocol == AH) {
			size = header[1] * 4 + 8;
			if (size < 12)
				return;
		} else if (protocol == FRAGMENT) {
			size = 8;
		}
		if (size > end - at)
			return;
		key->protocol = header[0];
		at += size;
		/* A fragment of one piece is a whole datagram (RFC 6946). */
		if (protocol == FRAGMENT && be16(header + 2) & 0xfff9)
			return;
	}
	if (!has_ports(key->protocol) || end - at < 2)
		return;
	header = bytes_at(bytes, at, room, 2);
	if (header)
		key->sport = be16(header);
	if (end - at < 4)
		return;
	header = bytes_at(bytes, at + 2, room, 2);
	if (header)
		key->dport = be16(header);
}

/* Of the packet behind `ether_type`, what `identity` keeps. `key` is all zeros. */
inline_always void dissect(struct key *key, const struct bytes *bytes, u32 ether_type, enum identity identity)
{
	u32 at = find_ip(bytes, ether_type), size, len, rest;
	u8 room[IPV6_HEADER];
	const u8 *ip;

	if (at > bytes->len)
		return;
	rest = bytes->len - at;
	ip = bytes_at(bytes, at, room, IPV4_HEADER);
	if (!ip)
		return;
	if (ip[0] >> 4 == 4) {
		size = (ip[0] & 15) * 4;
		if (size < IPV4_HEADER || size > rest)
			return;
		len = be16(ip + 2);
		key->family = 4;
		key->protocol = ip[9];
		key->src[0] = word(ip + 12);
		key->dst[0] = word(ip + 16);
		/* More of them, or not the first. */
		if (be16(ip + 6) & 0x3fff)
			rest = 0;
	} else if (ip[0] >> 4 == 6) {
		size = IPV6_HEADER;
		ip = bytes_at(bytes, at, room, IPV6_HEADER);
		if (!ip)
			return;
		len = be16(ip + 4) ? be16(ip + 4) + size : rest;
		key->family = 6;
		key->protocol = ip[6];
		key->src[0] = word(ip + 8) | word(ip + 12) << 32;
		key->src[1] = word(ip + 16) | word(ip + 20) << 32;
		key->dst[0] = word(ip + 24) | word(ip + 28) << 32;
		key->dst[1] = word(ip + 32) | word(ip + 36) << 32;
	} else {
		return;
	}
	/* A length that cannot be counts for nothing. */
	if (len >= size && len < rest)
		rest = len;
	if (identity == FIVE_TUPLE || identity == SRC_PORT) {
		if (rest)
			read_transport(key, bytes, at + size, at + rest);
	} else {
		key->protocol = 0;
	}
	if (identity == SRC_PORT)
		key->dport = 0;
	if (identity == SRC_PORT || identity == SRC_HOST)
		key->dst[0] = key->dst[1] = 0;
	if (identity == DST_HOST)
		key->src[0] = key->src[1] = 0;
}

/* SipHash-1-3 under (`seed`, 0) of 38 bytes: source, destination, source port and destination port from the lower byte
 * on, protocol, family; its lower 32 bits. */
inline_always u32 key_hash(const struct key *key, u64 seed)
{
	struct siphash hash = siphash_begin(seed, 0);

	siphash_word(&hash, key->src[0]);
	siphash_word(&hash, key->src[1]);
	siphash_word(&hash, key->dst[0]);
	siphash_word(&hash, key->dst[1]);
	siphash_word(&hash, key->sport | (u64)key->dport << 16 | (u64)key->protocol << 32 | (u64)key->family << 40 |
				    38ULL << 56);
	return siphash_end(&hash);
}
