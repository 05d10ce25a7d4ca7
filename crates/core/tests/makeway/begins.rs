// SPDX-License-Identifier: MIT OR Apache-2.0
//! New flows.

use super::MBIT10;
use super::aged::stream;
use super::link::*;
use makeway_core::packet::FlowId;
use makeway_core::sched::Class;
use makeway_core::units::{Duration, Instant};
use proptest::prelude::*;

/// A link that a flow in standing has, from 5 s on: two packets of it or three always wait, and none for long.
fn taken() -> Link {
    let mut link = Link::new(200, &MBIT10);
    // 8 Mbit/s, and then all.
    let parts = [
        stream(1, LEN, 1500 * MS / 1000, 0, 5 * SECOND),
        stream(1, LEN, 1200 * MS / 1000, 5 * SECOND, u64::MAX),
        stream(3, LEN, SECOND, 5 * SECOND, 5 * SECOND + 1),
    ];
    let parts = parts.map(|source| link.flow(0, source));
    for part in &parts[1..] {
        link.flows[*part].id = link.flows[parts[0]].id;
    }
    link
}

/// A packet of a new flow, which is its only one.
#[test]
fn a_new_flow_does_not_wait_for_ever_for_those_in_standing() {
    let mut link = taken();
    let query = stream(1, 100, SECOND, 8 * SECOND, 8 * SECOND + 1);
    let query = link.flow(1, query);
    link.run(12 * SECOND);
    let wait = link.flows[query].came[0].1;
    assert!(wait.is_some_and(|wait| wait < 25 * MS), "{wait:?}");
}

/// Bulk beside a call that begins.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Beside {
    Nobody,
    Own,
    OfOthers,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// (g) A call that begins where a flow in standing has all of the link waits for a few packets.
    #[test]
    fn a_call_that_begins_is_not_held_back_by_those_in_standing(
        len in 60u32..1400,
        kbit_per_s in 50u32..250,
        from in 0u64..2000,
        beside in prop_oneof![Just(Beside::Nobody), Just(Beside::Own), Just(Beside::OfOthers)],
    ) {
        let mut link = taken();
        let owner = match beside {
            Beside::Nobody => None,
            Beside::Own => Some(0),
            Beside::OfOthers => Some(2),
        };
        if let Some(owner) = owner {
            let (rtt, packets) = (20 * MS, u32::MAX);
            link.flow(owner, Source::Download { rtt, from: 7 * SECOND, packets });
        }
        let from = 8 * SECOND + from * MS;
        let period = u64::from(len * 8) * MS / u64::from(kbit_per_s);
        let call = link.flow(0, stream(1, len, period, from, u64::MAX));
        // No later, since large packets are asked from the next window on.
        link.run(from + SECOND / 2);
        let owed = 120.0 / 13.0 * f64::from(len) + 2.0 * f64::from(LEN);
        let bulk = 2.0 * (QUANTUM as f64 + f64::from(LEN));
        let bytes = match beside {
            Beside::Nobody => owed,
            Beside::Own => (3.0 * owed + bulk) * 133.0 / 120.0,
            Beside::OfOthers => (3.0 * owed + bulk) * 8.0 / 5.0,
        };
        let bound = bytes * 8.0 / 10e6 * 1e9;
        let waits = link.flows[call].came.iter().filter_map(|(_, wait)| *wait);
        let wait = waits.max().unwrap() as f64;
        prop_assert!(wait <= bound, "{wait} ns, bound {bound} ns");
    }
}

#[test]
fn a_call_beside_one_in_standing_with_all_of_the_link_is_soon_in_standing() {
    let mut link = taken();
    let call = link.flow(1, stream(1, 200, 20 * MS, 8 * SECOND, u64::MAX));
    link.run(20 * SECOND);
    let on_time = link.on_time(call, 8 * SECOND, 19 * SECOND, 5 * MS);
    assert_eq!(on_time, 1.0);
    let standing = link.scheduler.standing(FlowId(link.flows[call].id));
    let standing = standing.unwrap();
    assert_eq!(standing.class, Class::Standing);
    let after = standing
        .since
        .saturating_since(Instant::from_nanos(8 * SECOND));
    assert!(after < Duration::from_secs(5), "{after:?}");
}

/// A stream of 8.9 Mbit/s, beside flows without end that begin and, at times, a download.
#[test]
fn flows_that_begin_without_end_have_with_bulk_no_more_than_a_tenth() {
    for bulk in [false, true] {
        let mut link = Link::new(200, &MBIT10);
        let part = link.flow(0, stream(1, LEN, 1348 * MS / 1000, 0, u64::MAX));
        let from = 5 * SECOND;
        let mut download = |packets| {
            let rtt = 20 * MS;
            link.flow(0, Source::Download { rtt, from, packets })
        };
        for _ in 0..10 {
            download(30);
        }
        if bulk {
            download(u32::MAX);
        }
        link.run(25 * SECOND);
        let on_time = link.on_time(part, 5 * SECOND, 24 * SECOND, 30 * MS);
        assert_eq!(on_time, 1.0, "with bulk: {bulk}");
        let goodput = link.goodput(part, 5 * SECOND, 24 * SECOND);
        assert!(goodput > 8_890_000.0, "{goodput} bit/s, with bulk: {bulk}");
    }
}
