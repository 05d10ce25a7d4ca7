// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts behind a router, known by the stamps of `nat.bpf.c`: the headers of all packets have the router's address.

use super::*;

const ROUTER: u8 = 1;
const DST_HOST: u32 = layout::identity(Identity::DstHost);
/// Packets of each transfer of the host that has ten, and of the transfer of the other host.
const PACKETS: [u32; 2] = [8, 9];
/// Number of that transfer.
const ONE: u32 = 10;

/// A discipline as a program of its own: other tests compile theirs beside these.
fn native(discipline: &str, more: &[&str]) -> Native {
    let mut macros = vec![
        format!("DISCIPLINE=\"../{discipline}.bpf.c\""),
        format!("OPS={discipline}"),
    ];
    macros.extend(more.iter().map(|one| (*one).to_owned()));
    Native::compile(&format!("drive-stamped-{discipline}"), "drive.c", &macros)
}

/// Packets of `flows`, whose host has the hash `hash` in stamps of the word `word`.
fn transfers(flows: std::ops::Range<u32>, packets: u32, word: u64, hash: u32) -> Vec<Op> {
    let stamp = Op {
        now: 1,
        what: STAMP,
        rate: word,
        hash,
        ..Op::zeroed()
    };
    let each = flows.flat_map(|flow| (0..packets).map(move |n| (flow, n)));
    let arrivals = each.map(|(flow, n)| Op {
        now: 1,
        what: ENQUEUE,
        packet: 100 * flow + n,
        hash: flow + 1,
        flow,
        len: 1000,
        bytes: headers(4, 1000, None, ROUTER),
        ..Op::zeroed()
    });
    [stamp].into_iter().chain(arrivals).collect()
}

/// Packets of the host with one transfer among the first `departures`; the host with ten was there before it.
fn of_one(native: &Native, spec: Spec, flows_by: u32, word: u64, departures: usize) -> usize {
    let limits = Limits {
        packets: 200,
        bytes: Bytes::new(1 << 20),
        flows: FLOWS,
    };
    let link = Link {
        spec,
        env: Env {
            users: USERS,
            ..Env::new(limits)
        },
        rate: None,
        framing: Framing::default(),
        weights: [0; HOSTS],
        flows_by,
    };
    let departure = Op {
        now: 2,
        what: DEQUEUE,
        ..Op::zeroed()
    };
    let ops = [
        transfers(0..ONE, PACKETS[0], word, 100),
        transfers(ONE..ONE + 1, PACKETS[1], word, 200),
        vec![departure; departures],
    ];
    let events = native.drive(&link, &ops.concat());
    let left = events.iter().filter(|event| event.told == LEFT);
    let left: Vec<u32> = left.map(|event| event.packet / 100).collect();
    assert_eq!(left.len(), departures);
    left.iter().filter(|flow| **flow == ONE).count()
}

#[test]
fn hosts_behind_a_router_are_users_by_their_stamps() {
    let hier = native("hier", &["HAS_USERS", "HAS_NODES", "HAS_RANDOM"]);
    let of_one = |word| {
        let spec = Spec::Hier(HierParams {
            quantum: Bytes::new(1000),
            ..HierParams::default()
        });
        of_one(&hier, spec, FIVE_TUPLE, word, 16)
    };
    let with_stamps = of_one(WORD);
    assert!((7..=9).contains(&with_stamps), "{with_stamps} of 16");
    // Any content that is there by chance, and none: one user, whose longest transfer is the last one.
    for word in [0, WORD + 1, WORD << 32] {
        assert_eq!(of_one(word), 0, "{word}");
    }
}

#[test]
fn hosts_behind_a_router_are_flows_by_their_stamps() {
    let sqf = native("sqf", &[]);
    let of_one = |word| of_one(&sqf, Discipline::Sqf.spec(), DST_HOST, word, 9);
    assert_eq!((of_one(WORD), of_one(WORD + 1)), (9, 0));
}
