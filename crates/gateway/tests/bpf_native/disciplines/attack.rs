// SPDX-License-Identifier: MIT OR Apache-2.0
//! Strangers who choose the sizes of their packets, so that the trees of `hier` become deep.

use super::*;
use makeway_core::random::Rng;

const HOST: u8 = 1;
const VICTIM: u8 = 2;

static HIER: LazyLock<Native> = LazyLock::new(|| Native::discipline("hier"));

/// `hier` without a rate, in which nothing overflows.
fn hier(seed: u64) -> Link {
    let limits = Limits {
        packets: 2000,
        bytes: Bytes::new(1 << 24),
        flows: FLOWS,
    };
    Link {
        spec: Discipline::Hier.spec(),
        env: Env {
            users: USERS,
            seed,
            ..Env::new(limits)
        },
        rate: None,
        framing: Framing::default(),
        weights: [0; HOSTS],
        flows_by: FIVE_TUPLE,
    }
}

fn arrival(packet: u32, flow: u32, len: u32, host: u8) -> Op {
    Op {
        now: 1,
        what: ENQUEUE,
        packet,
        hash: (flow + 1).wrapping_mul(0x9e37_79b9),
        flow,
        len,
        bytes: headers(4, len, None, host),
        ..Op::zeroed()
    }
}

fn departures(n: u32) -> impl Iterator<Item = Op> {
    let one = Op {
        now: 2,
        what: DEQUEUE,
        ..Op::zeroed()
    };
    (0..n).map(move |_| one)
}

fn packets(events: &[Event], told: u32) -> Vec<u32> {
    let of = events.iter().filter(|event| event.told == told);
    of.map(|event| event.packet).collect()
}

fn most_steps(events: &[Event]) -> u64 {
    let steps = events.iter().filter(|event| event.told == STEPS);
    steps.map(|event| event.value).max().unwrap_or(0)
}

/// At most 4 log2 n.
fn bound(nodes: usize) -> u64 {
    (4.0 * (nodes as f64).log2()) as u64
}

/// The public hash of an index that priorities once were; indices are handed out in the order of arrival.
fn known_priority(node: u32) -> u32 {
    let hash = (node + 1).wrapping_mul(0x9e37_79b1);
    (hash ^ hash >> 15).wrapping_mul(0x85eb_ca77)
}

#[test]
fn sizes_chosen_by_the_known_hash_hold_nobody_up() {
    const ATTACKERS: u32 = 199;
    const AGAIN: u32 = 20;
    // Each next smaller priority has a smaller packet: one path through all, the least at its end.
    let mut by_priority: Vec<u32> = (0..ATTACKERS).collect();
    by_priority.sort_by_key(|i| std::cmp::Reverse(known_priority((i + 1) << 1)));
    let mut lens = vec![0; ATTACKERS as usize];
    for (&i, rank) in by_priority.iter().zip(0..) {
        lens[i as usize] = 500 - rank;
    }
    let flood = (0..ATTACKERS).map(|i| arrival(i, i, lens[i as usize], HOST));
    // A second packet for those at the end: they change their places.
    let deepest = by_priority.iter().rev().take(AGAIN as usize);
    let again = deepest.zip(1000..).map(|(&i, n)| arrival(n, i, 100, HOST));
    // Another host comes once the tree has been walked.
    let victim = 2000..2020;
    let others = victim.clone().map(|n| arrival(n, 500, 200, VICTIM));
    let ops: Vec<Op> = flood
        .chain(again)
        .chain(departures(300))
        .chain(others)
        .chain(departures(400))
        .collect();
    let events = HIER.drive(&hier(77), &ops);
    let left = packets(&events, LEFT);
    let of_victim = left.iter().filter(|n| victim.contains(n)).count();
    let all = (ATTACKERS + AGAIN + 20) as usize;
    assert_eq!((of_victim, left.len()), (20, all), "packets are stuck");
    let steps = most_steps(&events);
    let bound = bound(ATTACKERS as usize);
    assert!(
        (1..=bound).contains(&steps),
        "{steps} steps, at most {bound}"
    );
}

/// Packets of one host whose sizes are a rank in some order, all of flows of their own; then the half of them that is
/// served comes again.
fn insistent(order: &[u32]) -> Vec<Op> {
    let n = order.len() as u32;
    let first = order
        .iter()
        .zip(0..)
        .map(|(rank, i)| arrival(i, i, 300 + rank, HOST));
    let again = (0..n / 2).map(|i| arrival(n + i, n + i, 300 + i, HOST));
    first
        .chain(departures(n / 2))
        .chain(again)
        .chain(departures(2 * n))
        .collect()
}

fn orders() -> Vec<Vec<u32>> {
    const N: u32 = 400;
    let ends = (0..N).map(|i| if i % 2 == 0 { i / 2 } else { N - 1 - i / 2 });
    let mut shuffled: Vec<u32> = (0..N).collect();
    Rng::new(9).shuffle(&mut shuffled);
    let from_the_middle: Vec<u32> = ends.clone().collect::<Vec<_>>().into_iter().rev().collect();
    vec![
        (0..N).collect(),
        (0..N).rev().collect(),
        ends.collect(),
        from_the_middle,
        shuffled,
    ]
}

/// Nothing that an adversary sees depends on the seed, so nothing tells of it; and without it no order of sizes makes a
/// deep tree.
#[test]
fn what_leaves_says_nothing_of_the_seed_and_no_order_of_sizes_is_deep() {
    for order in orders() {
        let ops = insistent(&order);
        let mut seen = None;
        for seed in 0..20 {
            let events = HIER.drive(&hier(seed), &ops);
            let steps = most_steps(&events);
            let bound = bound(order.len());
            assert!(
                (1..=bound).contains(&steps),
                "{steps} steps, at most {bound}"
            );
            let visible = common(&events);
            assert_eq!(seen.get_or_insert_with(|| visible.clone()), &visible);
        }
    }
}

/// Trees that are deeper than what is walked, as with a chance of 10^-40: no packet waits for ever, and none is lost.
#[test]
fn a_tree_that_is_too_deep_loses_no_packet() {
    let macros = [
        "DISCIPLINE=\"../hier.bpf.c\"",
        "OPS=hier",
        "HAS_USERS",
        "HAS_NODES",
        "HAS_RANDOM",
        "DEPTH=6",
    ];
    let shallow = Native::compile("drive-shallow", "drive.c", &macros.map(String::from));
    let mut freed = 0;
    for order in orders() {
        let mut ops = insistent(&order);
        // A second host beside it.
        let victim = 5000..5020;
        ops.splice(
            100..100,
            victim.clone().map(|n| arrival(n, 900, 200, VICTIM)),
        );
        ops.push(Op {
            now: 3,
            what: RESET,
            ..Op::zeroed()
        });
        ops.extend((6000..6020).map(|n| arrival(n, n - 6000, 200, VICTIM)));
        ops.extend(departures(20));
        let events = shallow.drive(&hier(7), &ops);
        let mut came: Vec<u32> = ops
            .iter()
            .filter(|op| op.what == ENQUEUE)
            .map(|op| op.packet)
            .collect();
        let left = packets(&events, LEFT);
        let mut gone = [
            left.clone(),
            packets(&events, DROPPED),
            packets(&events, FREED),
        ]
        .concat();
        came.sort_unstable();
        gone.sort_unstable();
        assert_eq!(gone, came, "each packet goes once");
        freed += packets(&events, FREED).len();
        let of_victim = left.iter().filter(|n| victim.contains(n)).count();
        assert_eq!(of_victim, 20, "another host's packets leave");
        let after = left.iter().filter(|n| **n >= 6000).count();
        assert_eq!(after, 20, "after a reset all is as new");
    }
    assert!(freed > 0, "no tree was too deep");
}

/// The label of an IPv6 packet is no part of the flow.
#[test]
fn rotating_flow_labels_are_one_flow() {
    static SQF: LazyLock<Native> = LazyLock::new(|| Native::discipline("sqf"));
    let packet = |n: u32, label: u32, port: u8, len: u32| {
        let mut bytes = [0; 64];
        let [_, a, b, c] = label.to_be_bytes();
        bytes[..8].copy_from_slice(&[0x60, a & 15, b, c, 0, len as u8 - 40, 17, 64]);
        bytes[23] = 1;
        bytes[39] = 2;
        bytes[40..44].copy_from_slice(&[4, port, 19, 136]);
        Op {
            hash: 0,
            bytes,
            ..arrival(n, 0, len, HOST)
        }
    };
    let rotating = (0..10).map(|n| packet(n, 0x1111 * n, 1, 140));
    let steady = (10..12).map(|n| packet(n, 5, 2, 250));
    let ops: Vec<Op> = rotating.chain(steady).chain(departures(12)).collect();
    let link = Link {
        spec: Discipline::Sqf.spec(),
        ..hier(1)
    };
    let left = packets(&SQF.drive(&link, &ops), LEFT);
    // 500 B are less than ten times 256 B.
    assert_eq!(left[..2], [10, 11]);
}
