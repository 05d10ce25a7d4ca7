/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Hosts behind address translation, for the users of a qdisc and for flows that are hosts. It runs at tcx on the device that has the
 * qdisc, right before a packet is queued: on the interface for egress packets, on the ifb device for ingress packets. It changes no
 * packet and drops none.
 *
 * Egress packets have passed the translation of their source, and ingress packets have not passed that of their destination: both
 * have the router's address. Of both, the tuple *from the far host to the router* is one of the two tuples of their connection, since
 * a translated connection has it as the tuple of its ingress packets. Packets of the other tuple come from the host behind the router:
 *
 * | connection | tuple from the far host | source of the other tuple |
 * | --- | --- | --- |
 * | of a host, translated (masquerade) | far > router, of replies | the host, of the original tuple |
 * | to a forwarded port | far > router, of the original tuple | the host, of replies |
 * | of the router itself, or not translated | far > local | the local address: no stamp |
 *
 * The kernel's look-up (net/netfilter/nf_conntrack_bpf.c, in the module nf_conntrack) knows TCP and UDP, and the default zone. Fragments
 * and other protocols have no stamp, nor has the first packet to a forwarded port: their user is that of the headers.
 *
 * One look-up in the table of connections for each packet, as cake's `nat`, and two hashes where it finds a host.
 *
 * Nothing here is of one interface: a process that may not load these programs can attach those that another has pinned. */
#include "kernel.h"
#include "dissect.h"
#include "stamp.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* Written by the loader before it loads: secrets of stamps, which qdiscs have as `keys.word` and `keys.seed`. */
const volatile struct nat {
	u64 word;
	u64 seed;
} nat SEC(".rodata.nat") = { 1, 1 };

/* Context of a program at tcx (<linux/bpf.h>), as far as it is used. */
struct __sk_buff {
	u32 before_cb[12];
	u32 cb[5];
};

/* Of <linux/bpf.h>: ports and addresses as they lie in a packet. */
struct bpf_sock_tuple {
	union {
		struct {
			__be32 saddr;
			__be32 daddr;
			__be16 sport;
			__be16 dport;
		} ipv4;
		struct {
			__be32 saddr[4];
			__be32 daddr[4];
			__be16 sport;
			__be16 dport;
		} ipv6;
	};
};

/* Options of a look-up, in the short form of 12 bytes, which every kernel since 5.18 takes; the last two bytes are zero. */
struct bpf_ct_opts {
	s32 netns_id;
	s32 error;
	u8 l4proto;
	/* Answer: 0 if the tuple is that of the connection's first packet, 1 if it is that of replies. */
	u8 dir;
	u8 unused[2];
};

enum {
	CURRENT_NETNS = -1,
	/* TCX_NEXT: filters behind this one are asked as ever. */
	NEXT = -1,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

union nf_inet_addr {
	u32 all[4];
};

struct nf_conntrack_man {
	union nf_inet_addr u3;
};

struct nf_conntrack_tuple {
	struct nf_conntrack_man src;
};

struct nf_conntrack_tuple_hash {
	struct nf_conntrack_tuple tuple;
};

struct nf_conn {
	struct nf_conntrack_tuple_hash tuplehash[2];
};

#pragma clang attribute pop

struct nf_conn *bpf_skb_ct_lookup(struct __sk_buff *skb_ctx, struct bpf_sock_tuple *bpf_tuple, u32 tuple__sz,
				  struct bpf_ct_opts *opts, u32 opts__sz) __ksym;
void bpf_ct_release(struct nf_conn *nfct) __ksym;
void *bpf_cast_to_kern_ctx(void *obj) __ksym;

struct host {
	u64 words[2];
};

/* The 5-tuple of the packet; whether it has ports. */
inline_always bool read_key(struct key *key, struct __sk_buff *ctx, struct sk_buff *skb)
{
	struct bytes bytes;

	bytes.link = link_header(skb);
	bytes.len = skb->len - bytes.link;
	/* The kernel takes the context here, and `skb` itself in a qdisc. */
	if (bpf_dynptr_from_skb((struct sk_buff *)ctx, 0, &bytes.packet) || bytes.link > skb->len)
		return false;
	dissect(key, &bytes, __builtin_bswap16(skb->protocol), FIVE_TUPLE);
	return (key->protocol == TCP || key->protocol == UDP) && (key->sport || key->dport);
}

/* Exchanges the ends. */
inline_always void turn(struct key *key)
{
	struct key old = *key;

	key->src[0] = old.dst[0];
	key->src[1] = old.dst[1];
	key->dst[0] = old.src[0];
	key->dst[1] = old.src[1];
	key->sport = old.dport;
	key->dport = old.sport;
}

/* Source of the tuple `DIR`, a constant: the verifier knows no other place in a connection. */
#define source_of(connection, DIR)                                                                                     \
	((struct host){ {                                                                                              \
		(connection)->tuplehash[DIR].tuple.src.u3.all[0] |                                                     \
			(u64)(connection)->tuplehash[DIR].tuple.src.u3.all[1] << 32,                                   \
		(connection)->tuplehash[DIR].tuple.src.u3.all[2] |                                                     \
			(u64)(connection)->tuplehash[DIR].tuple.src.u3.all[3] << 32,                                   \
	} })

/* The host from which packets come that are answered by those of `key`; whether there is such a connection. */
inline_always bool find_host(struct host *host, struct __sk_buff *ctx, const struct key *key)
{
	struct bpf_ct_opts opts = { .netns_id = CURRENT_NETNS, .l4proto = key->protocol };
	struct bpf_sock_tuple tuple = {};
	struct nf_conn *connection;

	if (key->family == 4) {
		tuple.ipv4.saddr = key->src[0];
		tuple.ipv4.daddr = key->dst[0];
		tuple.ipv4.sport = net16(key->sport);
		tuple.ipv4.dport = net16(key->dport);
		connection = bpf_skb_ct_lookup(ctx, &tuple, sizeof(tuple.ipv4), &opts, sizeof(opts));
	} else {
		tuple.ipv6.saddr[0] = key->src[0];
		tuple.ipv6.saddr[1] = key->src[0] >> 32;
		tuple.ipv6.saddr[2] = key->src[1];
		tuple.ipv6.saddr[3] = key->src[1] >> 32;
		tuple.ipv6.daddr[0] = key->dst[0];
		tuple.ipv6.daddr[1] = key->dst[0] >> 32;
		tuple.ipv6.daddr[2] = key->dst[1];
		tuple.ipv6.daddr[3] = key->dst[1] >> 32;
		tuple.ipv6.sport = net16(key->sport);
		tuple.ipv6.dport = net16(key->dport);
		connection = bpf_skb_ct_lookup(ctx, &tuple, sizeof(tuple.ipv6), &opts, sizeof(opts));
	}
	if (!connection)
		return false;
	if (opts.dir)
		*host = source_of(connection, 0);
	else
		*host = source_of(connection, 1);
	bpf_ct_release(connection);
	if (key->family == 4)
		*host = (struct host){ { (u32)host->words[0] } };
	return true;
}

/* Leaves the stamp of a packet that arrives by the interface (and is on its ifb device), or departs by it. */
inline_always int leave_stamp(struct __sk_buff *ctx, bool arrives)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	struct key key = {};
	struct host host;

	/* A packet that passed here before has its old stamp. */
	ctx->cb[0] = 0;
	ctx->cb[1] = 0;
	if (!read_key(&key, ctx, skb))
		return NEXT;
	if (!arrives)
		turn(&key);
	if (!find_host(&host, ctx, &key) || (host.words[0] == key.dst[0] && host.words[1] == key.dst[1]))
		return NEXT;
	key.dst[0] = host.words[0];
	key.dst[1] = host.words[1];
	if (!arrives)
		turn(&key);
	/* Keys of hosts have neither ports nor protocol. */
	key.sport = 0;
	key.dport = 0;
	key.protocol = 0;
	/* `struct stamp`. */
	ctx->cb[3] = key_hash(&key, nat.seed);
	if (arrives) {
		key.src[0] = 0;
		key.src[1] = 0;
	} else {
		key.dst[0] = 0;
		key.dst[1] = 0;
	}
	ctx->cb[2] = key_hash(&key, nat.seed);
	ctx->cb[0] = nat.word;
	ctx->cb[1] = nat.word >> 32;
	return NEXT;
}

/* For a qdisc on the interface. */
SEC("tcx/egress")
int nat_departs(struct __sk_buff *ctx)
{
	return leave_stamp(ctx, false);
}

/* For one on the ifb device. */
SEC("tcx/egress")
int nat_arrives(struct __sk_buff *ctx)
{
	return leave_stamp(ctx, true);
}
