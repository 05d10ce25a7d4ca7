// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shares of users.

use super::*;

/// Goodput of a user with one download beside another user with `others`, of `packets` each.
fn beside(others: u32, packets: u32, rtt_ms: u64) -> f64 {
    let mut link = Link::new(200, &MBIT10);
    let one = link.flow(1, download(rtt_ms));
    for _ in 0..others {
        let source = Source::Download {
            rtt: rtt_ms * MS,
            from: 0,
            packets,
        };
        link.flow(2, source);
    }
    link.run(30 * SECOND);
    link.goodput(one, 10 * SECOND, 30 * SECOND)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// (d) More downloads gain a user nothing.
    #[test]
    fn a_host_gains_nothing_by_any_number_of_downloads(others in 2u32..60, rtt in 5u64..25) {
        let [even, many] = [1, others].map(|others| beside(others, u32::MAX, rtt));
        prop_assert!(many > 0.9 * even, "{many} of {even}");
    }
}

/// New flows without end, 30 packets each: their user has no more than half of the link and what its bulk does not pay for.
#[test]
fn a_host_gains_little_by_short_downloads() {
    let short = beside(10, 30, 20);
    assert!(short > 0.36 * 10_000_000.0, "{short}");
}

/// A download's queue is empty now and then; what goes before it fills the link.
#[test]
fn a_host_is_owed_its_part_also_by_those_that_send_more_than_the_link_carries() {
    for flows in [5, 20] {
        let mut link = Link::new(200, &MBIT10);
        let one = link.flow(1, download(40));
        for flow in 0..flows {
            let flood = Source::Stream {
                burst: 1,
                len: 1000,
                period: flows * 8_000 * SECOND / 12_000_000,
                from: flow * MS,
                to: u64::MAX,
            };
            link.flow(2, flood);
        }
        link.run(12 * SECOND);
        let rate = link.goodput(one, 2 * SECOND, 12 * SECOND) / 1e6;
        // Beside those that stand, bulk has 3/8 of the link, and each of the two users half of it.
        assert!(rate > 1.84, "{rate} Mbit/s beside {flows} flows");
    }
}
