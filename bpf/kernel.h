/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Parts of the kernel that these programs use: types by CO-RE, so that one object fits every release; kfuncs of BPF qdiscs
 * (net/sched/bpf_qdisc.c, Linux 6.16) and the helpers of libbpf. Fields that nobody reads are left out. */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

enum { false, true };

/* Of <linux/bpf.h>. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
};
enum {
	BPF_F_MMAPABLE = 1 << 10,
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct net_device {
	int ifindex;
};

struct netdev_queue {
	struct net_device *dev;
};

struct qdisc_skb_head {
	u32 qlen;
};

struct gnet_stats_queue {
	u32 qlen;
	u32 backlog;
	u32 drops;
	u32 requeues;
	u32 overlimits;
};

struct Qdisc {
	u32 limit;
	struct netdev_queue *dev_queue;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
};

struct sk_buff {
	char cb[48];
	u32 len;
	u32 data_len;
	u16 network_header;
	u16 transport_header;
	u16 mac_header;
	__be16 protocol;
	u32 end;
	u8 *head;
	u8 *data;
};

struct skb_shared_info {
	u16 gso_size;
	u16 gso_segs;
	u32 gso_type;
};

/* In `sk_buff.cb` while a qdisc has the packet. */
struct qdisc_skb_cb {
	struct {
		u32 pkt_len;
	};
	/* For the qdisc that has the packet; programs at tcx have it as `cb`. */
	unsigned char data[20] __attribute__((aligned(8)));
};

/* Four words of 64 bits of anything: of the kernel's types one that has them, and no pointer. */
struct timespec64 {
	s64 tv_sec;
	s64 tv_nsec;
};

struct itimerspec64 {
	struct timespec64 it_interval;
	struct timespec64 it_value;
};

struct nlattr {
	u16 nla_len;
};

struct netlink_ext_ack {
	const char *_msg;
};

#pragma clang attribute pop

struct bpf_sk_buff_ptr {
	struct sk_buff *skb;
};

struct bpf_dynptr {
	u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_iter_num {
	u64 opaque[1];
} __attribute__((aligned(8)));

/* Matched with the kernel's by the names of members. `id` is the kind that tc(8) shows; the loader writes it. */
struct Qdisc_ops {
	char id[16];
	int (*enqueue)(struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free);
	struct sk_buff *(*dequeue)(struct Qdisc *sch);
	int (*init)(struct Qdisc *sch, struct nlattr *arg, struct netlink_ext_ack *extack);
	void (*reset)(struct Qdisc *sch);
	void (*destroy)(struct Qdisc *sch);
};

int bpf_dynptr_from_skb(struct sk_buff *skb, u64 flags, struct bpf_dynptr *packet) __ksym;
void *bpf_dynptr_slice(const struct bpf_dynptr *packet, u32 at, void *room, u32 room__szk) __ksym;
void bpf_kfree_skb(struct sk_buff *skb) __ksym;
void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free) __ksym;
void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, u64 expire, u64 delta_ns) __ksym;
void bpf_qdisc_bstats_update(struct Qdisc *sch, const struct sk_buff *skb) __ksym;
int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym;
int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym;
void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym;
void *bpf_rdonly_cast(const void *obj, u32 btf_id) __ksym;

/* Answers of `enqueue` (<linux/netdevice.h>). */
enum {
	NET_XMIT_SUCCESS = 0,
	NET_XMIT_DROP = 1,
	NET_XMIT_CN = 2,
};

#define inline_always static inline __attribute__((always_inline))
/* The verifier looks at such a function once, for all callers and arguments: for loops, and for rare cases. */
#define verified_apart __attribute__((noinline))
