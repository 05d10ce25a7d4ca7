/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Drives one discipline, compiled for the machine's own processor, through the kernel's callbacks: reads what it is made
 * with and then operations, and writes what it answers to each, with the state that the kernel would see. Tests:
 * crates/gateway/tests/bpf_native, against core. DISCIPLINE names the file, OPS its table of callbacks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nodes that the running operation of a tree has looked at, and the most that any did. */
unsigned int steps, most_steps;
#define TREAP_BEGINS() (steps = 0)
#define TREAP_STEP() (most_steps = ++steps > most_steps ? steps : most_steps)

/* Values that the loader writes before loading are constant to the programs alone. */
#define const
#include DISCIPLINE
#undef const

/* The header of Ethernet, before a packet on its way out. */
#define LINK_BYTES 14

#define HOSTS 8

struct setup {
	struct config config;
	/* Maps, as the loader sizes them: entries, and the seed of the chains. */
	u32 slots;
	u32 chains;
	u32 kinds;
	u32 chain_seed;
	u64 random;
	/* Bytes of the parameters, which follow: `params`, `red` and the tickets of tags, of which a discipline has some. */
	u64 params;
	/* Of the hosts 10.0.0.0, 10.0.0.1 and so on; 0: none is given. */
	u32 weights[HOSTS];
	/* Entries of the maps of flows and of users. */
	u32 flows;
	u32 users;
	/* `enum identity`. */
	u32 flows_by;
	/* Entries of the map of tickets, which are the last of the parameters. */
	u32 tickets;
};

enum what {
	DO_ENQUEUE,
	DO_DEQUEUE,
	DO_SET_RATE,
	DO_RESET,
	/* `bytes` begins with another configuration. */
	DO_CONFIGURE,
	/* The host 10.0.0.`packet` has the weight `len`. */
	DO_WEIGH,
	/* Packets that arrive from now on have a stamp of the word `rate`, of a host with the hash `hash`. */
	DO_STAMP,
};

/* The word of stamps that are believed. */
#define WORD 7

struct op {
	u64 now;
	u64 rate;
	u32 what;
	/* The packet's number, the hash of its flow or 0 for that of its headers, its length from the header of IP on. */
	u32 packet;
	u32 hash;
	u32 len;
	/* Of a GSO packet: its headers from that of IP on, the payload of a segment, and how many; else 0. */
	u32 headers;
	u32 gso_size;
	u32 gso_segs;
	u32 unused;
	/* The first bytes from the header of IP on; the others are zero. */
	u8 bytes[64];
};

enum told {
	/* The packet was answered with `value`. */
	TOLD_ANSWER,
	/* It left. */
	TOLD_LEFT,
	/* It was dropped for the reason `value`. */
	TOLD_DROPPED,
	/* It was freed by `reset`. */
	TOLD_FREED,
	/* Backlog in packets and bytes, as the kernel is told. */
	TOLD_HELD,
	/* The link is busy until `value`, if it has a rate. */
	TOLD_BUSY,
	/* The kernel was asked to call again at `value`. */
	TOLD_WATCHDOG,
	/* Number of drops, as the kernel is told. */
	TOLD_DROPS,
	/* Numbers of favoured and of overtaken packets. */
	TOLD_NCQ,
	/* One operation of a tree looked at `value` nodes, and none at more. */
	TOLD_STEPS,
	/* The flow of the packet is in a class, and for a reason (8 bits up), since `value`. */
	TOLD_STANDING,
	/* Its queue stood for `value` ms, where that is why. */
	TOLD_STOOD,
	/* Number of packets with tickets below the threshold of TRED. */
	TOLD_EXPECTED,
};

struct event {
	u32 told;
	u32 packet;
	u64 value;
};

/* The same structures and numbers are in drive.rs. */
#define IS_IN_RUST(what) _Static_assert(what, "drive.rs has it otherwise")
IS_IN_RUST(sizeof(struct config) == 40 && offsetof(struct config, framing) == 16 && offsetof(struct config, weights) == 36);
IS_IN_RUST(sizeof(struct setup) == 120 && offsetof(struct setup, random) == 56 && offsetof(struct setup, flows) == 104);
IS_IN_RUST(sizeof(struct op) == 112 && offsetof(struct op, headers) == 32 && offsetof(struct op, bytes) == 48);
IS_IN_RUST(sizeof(struct event) == 16 && offsetof(struct event, value) == 8);
IS_IN_RUST(DO_STAMP == 6 && WORD == 7);
IS_IN_RUST(DO_DEQUEUE == 1 && DO_WEIGH == 5 && TOLD_LEFT == 1 && TOLD_BUSY == 5 && TOLD_STEPS == 9 && TOLD_EXPECTED == 12);

struct held {
	struct sk_buff skb;
	u8 data[LINK_BYTES + 64];
	struct skb_shared_info shared;
	u32 number;
	u32 hash;
};

static u64 now;
static u64 reasons[REASONS];
static struct stamp stamped;

static void tell(enum told told, u32 packet, u64 value)
{
	struct event event = { told, packet, value };

	fwrite(&event, sizeof(event), 1, stdout);
}

u64 bpf_ktime_get_ns(void)
{
	return now;
}

u32 plain_hash(struct sk_buff *skb)
{
	return ((struct held *)skb)->hash;
}

void *bpf_rdonly_cast(void *obj, u32 btf_id)
{
	return obj;
}

int bpf_dynptr_from_skb(struct sk_buff *skb, u64 flags, struct bpf_dynptr *packet)
{
	packet->opaque[0] = (u64)skb;
	return 0;
}

long bpf_dynptr_read(void *to, u32 len, struct bpf_dynptr *packet, u32 at, u64 flags)
{
	struct held *held = (struct held *)packet->opaque[0];

	if (at + (u64)len > held->skb.len)
		return -1;
	for (u32 i = 0; i < len; i++)
		((u8 *)to)[i] = at + i < sizeof(held->data) ? held->data[at + i] : 0;
	return 0;
}

void *bpf_dynptr_slice(struct bpf_dynptr *packet, u32 at, void *room, u32 len)
{
	return bpf_dynptr_read(room, len, packet, at, 0) ? NULL : room;
}

static void tell_and_free(enum told told, struct sk_buff *skb, u64 value)
{
	tell(told, ((struct held *)skb)->number, value);
	free(skb);
}

/* The reason that was counted since it was asked for last; REASONS if there is none. */
static u64 counted(void)
{
	u64 reason = 0;

	while (reason < REASONS && reasons[reason] == counters.drops[reason])
		reason++;
	if (reason < REASONS)
		reasons[reason]++;
	return reason;
}

/* Dropped as another is asked for, or freed by `reset`, which counts afterwards. */
void bpf_kfree_skb(struct sk_buff *skb)
{
	u64 reason = counted();

	if (reason < RESET)
		tell_and_free(TOLD_DROPPED, skb, reason);
	else
		tell_and_free(TOLD_FREED, skb, 0);
}

void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free)
{
	tell_and_free(TOLD_DROPPED, skb, counted());
}

void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, u64 expire, u64 delta_ns)
{
	tell(TOLD_WATCHDOG, 0, expire);
}

void bpf_qdisc_bstats_update(struct Qdisc *sch, struct sk_buff *skb)
{
}

static struct sk_buff *packet_of(struct op *op)
{
	struct held *held = calloc(1, sizeof(*held));
	u32 more = op->gso_segs > 1 ? (op->gso_segs - 1) * (LINK_BYTES + op->headers) : 0;

	held->number = op->packet;
	held->hash = op->hash;
	memcpy(held->data + LINK_BYTES, op->bytes, sizeof(op->bytes));
	held->shared.gso_size = op->gso_size;
	held->shared.gso_segs = op->gso_segs;
	held->skb.head = held->skb.data = held->data;
	held->skb.end = offsetof(struct held, shared) - offsetof(struct held, data);
	held->skb.network_header = LINK_BYTES;
	/* The version in the header decides. */
	held->skb.protocol = __builtin_bswap16(op->bytes[0] >> 4 == 6 ? ETHER_IPV6 : ETHER_IPV4);
	held->skb.len = LINK_BYTES + op->len;
	((struct qdisc_skb_cb *)held->skb.cb)->pkt_len = held->skb.len + more;
	memcpy(((struct qdisc_skb_cb *)held->skb.cb)->data, &stamped, sizeof(stamped));
	return &held->skb;
}

#ifdef HAS_RECORD
static void tell_standing(u32 hash)
{
	for (u32 at = 1; at <= pool.flows.used; at++) {
		struct flow *flow = flow_at(at);

		if (!flow || flow->entry.hash != hash || !flow->record.known)
			continue;
		tell(TOLD_STANDING, flow->record.class | flow->record.why << 8, flow->record.entered);
		tell(TOLD_STOOD, 0, flow->record.stood);
	}
}
#endif

#ifdef HAS_USERS
static struct pair weight_pairs[HOSTS];
#endif

/* The next of the parameters, which follow `setup`; whether they are there. */
static bool read_params(struct setup *setup, void *to, u64 size)
{
	if (setup->params < size || fread(to, size, 1, stdin) != 1)
		return false;
	setup->params -= size;
	return true;
}

/* As the loader does. */
static bool prepare(struct setup *setup)
{
	*(struct config *)&config = setup->config;
	map_size(&slots, setup->slots);
	map_size(&flows, setup->flows);
	map_size(&chains, setup->chains);
	sizes.chain_mask = setup->chains - 1;
	sizes.seed = setup->chain_seed;
	sizes.flows = setup->flows - 1;
	sizes.slot = setup->config.limit_bytes / setup->config.limit_packets;
	if (sizes.slot > setup->config.quantum)
		sizes.slot = setup->config.quantum;
	keys.flows_by = setup->flows_by;
	keys.word = WORD;
	keys.near = DST_HOST;
#ifdef HAS_KINDS
	map_size(&kinds, setup->kinds);
#endif
#ifdef HAS_USERS
	map_size(&users, setup->users);
	map_size(&user_chains, setup->chains);
	for (u32 i = 0; i < HOSTS; i++) {
		struct key key = { .dst = { 10 | i << 24 }, .family = 4 };

		weight_pairs[i] = (struct pair){ key_hash(&key, keys.seed), setup->weights[i] };
	}
	map_pairs(&weights, HOSTS, weight_pairs);
#endif
#ifdef HAS_RECORD
	map_size(&names, setup->flows);
#endif
#ifdef HAS_NODES
	map_size(&nodes, 2 * setup->slots);
#endif
#ifdef HAS_RANDOM
	random_state = setup->random;
#endif
#ifdef HAS_PARAMS
	if (!read_params(setup, (void *)&params, sizeof(params)))
		return false;
#endif
#ifdef HAS_RED
	if (!read_params(setup, (void *)&red, sizeof(red)))
		return false;
#endif
#ifdef HAS_TICKETS
	map_size(&tickets, setup->tickets);
	if (!read_params(setup, tickets.value, setup->tickets * sizeof(*tickets.value)))
		return false;
#endif
	return !setup->params;
}

int main(void)
{
	struct Qdisc qdisc = { 0 };
	struct sk_buff *skb;
	struct setup setup;
	struct op op;
#ifdef HAS_RECORD
	u32 hash;
#endif
	int answer;

	if (fread(&setup, sizeof(setup), 1, stdin) != 1 || !prepare(&setup)) {
		fprintf(stderr, "the setup is not of this layout\n");
		return 1;
	}
	if (((int (*)(u64 *))OPS.init)((u64[]){ (u64)&qdisc, 0, 0 }))
		return 1;
	while (fread(&op, sizeof(op), 1, stdin) == 1) {
		now = op.now;
		most_steps = 0;
		switch (op.what) {
		case DO_ENQUEUE:
			skb = packet_of(&op);
#ifdef HAS_RECORD
			hash = flow_hash(skb);
#endif
			answer = ((int (*)(u64 *))OPS.enqueue)((u64[]){ (u64)skb, (u64)&qdisc, 0 });
			tell(TOLD_ANSWER, op.packet, answer);
#ifdef HAS_RECORD
			tell_standing(hash);
#endif
			break;
		case DO_DEQUEUE:
			skb = ((struct sk_buff *(*)(u64 *))OPS.dequeue)((u64[]){ (u64)&qdisc });
			if (skb)
				tell_and_free(TOLD_LEFT, skb, 0);
			break;
		case DO_SET_RATE:
			config.rate = op.rate;
			break;
		case DO_RESET:
			((void (*)(u64 *))OPS.reset)((u64[]){ (u64)&qdisc });
			break;
		case DO_CONFIGURE:
			memcpy((void *)&config, op.bytes, sizeof(config));
			break;
		case DO_STAMP:
			stamped = (struct stamp){ op.rate, op.hash, op.hash };
			break;
#ifdef HAS_USERS
		case DO_WEIGH:
			weight_pairs[op.packet % HOSTS].value = op.len;
			config.weights++;
			break;
#endif
		}
		tell(TOLD_HELD, qdisc.q.qlen, qdisc.qstats.backlog);
		tell(TOLD_DROPS, 0, qdisc.qstats.drops);
		tell(TOLD_STEPS, 0, most_steps);
		tell(TOLD_NCQ, counters.favoured, counters.reordered);
		tell(TOLD_EXPECTED, 0, counters.expected);
		tell(TOLD_BUSY, 0, shaper.rate ? shaper.next_free : 0);
	}
	((void (*)(u64 *))OPS.destroy)((u64[]){ (u64)&qdisc });
	return instances;
}
