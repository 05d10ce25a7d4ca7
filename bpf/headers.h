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

/* Copies `len` bytes, `at` behind the beginning of the IP header; whether there are as many. */
inline_always bool header_read(struct sk_buff *skb, u32 at, void *to, u32 len)
{
	struct bpf_dynptr packet;

	return !bpf_dynptr_from_skb(skb, 0, &packet) && !bpf_dynptr_read(to, len, &packet, link_header(skb) + at, 0);
}

inline_always u32 be16(const u8 *bytes)
{
	return bytes[0] << 8 | bytes[1];
}

enum {
	IPV4_HEADER = 20,
	IPV6_HEADER = 40,
	TCP_HEADER = 20,
};

/* IANA's numbers of protocols and of IPv6's extension headers. */
enum {
	HOP_BY_HOP = 0,
	TCP = 6,
	ROUTE = 43,
	FRAGMENT = 44,
	AH = 51,
	DESTINATION = 60,
};
