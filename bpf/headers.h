/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Bytes of the IP header and of what follows it. */
#pragma once

/* On its way out a packet begins with the header of the link: its bytes. */
inline_always u32 link_header(const struct sk_buff *skb)
{
	u64 begins = skb->data - skb->head;

	/* A difference of pointers first: the verifier knows no other sum of them. */
	barrier_var(begins);
	return skb->network_header - begins;
}

/* Four words, `at` behind the beginning of the IP header, whether they are there or not: a load that faults is 0. The kernel puts a test of
 * the address before each load, so that a word of 64 bits costs half of two. */
inline_always const struct itimerspec64 *words_at(const struct sk_buff *skb, u32 at)
{
	return bpf_rdonly_cast(skb->head + skb->network_header + at, bpf_core_type_id_kernel(struct itimerspec64));
}

/* Copies `len` bytes, `at` behind the beginning of the IP header; whether there are as many. */
inline_always bool header_read(struct sk_buff *skb, u32 at, void *to, u32 len)
{
	struct bpf_dynptr packet;

	return !bpf_dynptr_from_skb(skb, 0, &packet) && !bpf_dynptr_read(to, len, &packet, link_header(skb) + at, 0);
}

struct bytes {
	struct bpf_dynptr packet;
	u32 link;
	/* How many there are. */
	u32 len;
};

/* Whether there are any. */
inline_always bool bytes_of(struct bytes *bytes, struct sk_buff *skb)
{
	bytes->link = link_header(skb);
	bytes->len = skb->len - bytes->link;
	return !bpf_dynptr_from_skb(skb, 0, &bytes->packet) && bytes->link <= skb->len;
}

/* Bytes `at` to `at + len`, which may lie in `room`; NULL if they are not all there. */
inline_always const u8 *bytes_at(const struct bytes *bytes, u32 at, u8 *room, u32 len)
{
	return bpf_dynptr_slice(&bytes->packet, bytes->link + at, room, len);
}

/* As it lies in a packet; the processor is little-endian. */
inline_always u32 net16(u32 host)
{
	return __builtin_bswap16(host);
}

inline_always u32 be16(const u8 *bytes)
{
	return bytes[0] << 8 | bytes[1];
}

enum {
	IPV4_HEADER = 20,
	IPV6_HEADER = 40,
	TCP_HEADER = 20,
	UDP_HEADER = 8,
};

/* IANA's numbers of protocols and of IPv6's extension headers. */
enum {
	HOP_BY_HOP = 0,
	TCP = 6,
	UDP = 17,
	DCCP = 33,
	ROUTE = 43,
	FRAGMENT = 44,
	AH = 51,
	DESTINATION = 60,
	SCTP = 132,
	UDP_LITE = 136,
};

/* As many extension headers as are looked behind; core's gateway sees 128 bytes, which have no more. */
#define EXTENSIONS 12

/* Whether behind `n` others a header of `protocol` is one of IP's own. */
inline_always bool is_extension(u32 version, u32 n, u32 protocol)
{
	if (version == 4)
		return protocol == AH && !n;
	return protocol == DESTINATION || protocol == ROUTE || protocol == FRAGMENT || protocol == AH ||
	       (protocol == HOP_BY_HOP && !n);
}
