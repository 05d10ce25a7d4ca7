// SPDX-License-Identifier: MIT OR Apache-2.0
//! CCID 2 by RFC 4341, rule by rule, and over a path.

use super::*;
use crate::rate::ccid2::{Ccid2, Ccid2Params};

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn acks(ranges: &[(u64, u64)]) -> Feedback {
    let mut acks = AckRanges::default();
    for &(first, last) in ranges {
        assert!(acks.push(first, last));
    }
    Feedback {
        highest: ranges[0].1,
        held: Duration::ZERO,
        report: Report::Acks(acks),
    }
}

fn new() -> Ccid2 {
    Ccid2::new(Ccid2Params {
        largest: 1000,
        ..Ccid2Params::default()
    })
}

/// Sends while the window allows.
fn fill(ccid: &mut Ccid2, now: Instant, next: &mut u64) {
    while ccid.next_send().is_some() {
        ccid.on_sent(now, *next, 1000);
        *next += 1;
    }
}

/// Grown to a window of 16 by an acknowledgement each ms: the next packet, and the first that is not acknowledged.
fn grown() -> (Ccid2, u64, u64) {
    let (mut ccid, mut next) = (new(), 0);
    let mut highest = 0;
    while ccid.window() < 16 {
        fill(&mut ccid, at(highest), &mut next);
        ccid.on_feedback(at(highest + 100), &acks(&[(0, highest)]))
            .unwrap();
        highest += 1;
    }
    (ccid, next, highest)
}

/// RFC 3390: 4 packets of 1000 bytes, 3 of 1460, 2 of 2200 or more.
#[test]
fn rfc_4341_5_initial_window() {
    for (largest, packets) in [
        (500, 4),
        (1000, 4),
        (1095, 4),
        (1460, 3),
        (2190, 2),
        (9000, 2),
    ] {
        let ccid = Ccid2::new(Ccid2Params {
            largest,
            ..Ccid2Params::default()
        });
        assert_eq!(ccid.window(), packets, "{largest}");
    }
}

#[test]
fn rfc_4341_5_no_more_under_way_than_the_window() {
    let (mut ccid, mut next) = (new(), 0);
    fill(&mut ccid, at(0), &mut next);
    assert_eq!(next, 4);
    assert_eq!(ccid.next_send(), None);
}

/// Slow start: one packet for two that are acknowledged.
#[test]
fn rfc_4341_5_slow_start() {
    let (mut ccid, mut next) = (new(), 0);
    fill(&mut ccid, at(0), &mut next);
    for highest in 0..4 {
        ccid.on_feedback(at(100), &acks(&[(0, highest)])).unwrap();
        fill(&mut ccid, at(100), &mut next);
    }
    assert_eq!(ccid.window(), 6);
    assert_eq!(next, 10);
}

/// Packet 0 is lost when three later ones are acknowledged, and not before.
#[test]
fn rfc_4341_5_three_later_packets_make_a_loss() {
    let (mut ccid, mut next) = (new(), 0);
    fill(&mut ccid, at(0), &mut next);
    ccid.on_feedback(at(100), &acks(&[(1, 1)])).unwrap();
    ccid.on_feedback(at(101), &acks(&[(1, 2)])).unwrap();
    assert_eq!(ccid.window(), 5);
    ccid.on_feedback(at(102), &acks(&[(1, 3)])).unwrap();
    assert_eq!(ccid.window(), 2);
}

/// Packets 2 and 9 of 16 are lost: one window, one halving. A loss of the next window halves again.
#[test]
fn rfc_4341_5_one_halving_in_a_window() {
    let (mut ccid, mut next, h) = grown();
    fill(&mut ccid, at(h), &mut next);
    assert_eq!(next - h, 16, "under way");
    ccid.on_feedback(at(h + 101), &acks(&[(h + 3, h + 5), (0, h + 1)]))
        .unwrap();
    assert_eq!(ccid.window(), 8);
    ccid.on_feedback(
        at(h + 102),
        &acks(&[(h + 10, h + 13), (h + 3, h + 8), (0, h + 1)]),
    )
    .unwrap();
    assert_eq!(ccid.window(), 8, "the same window");
    fill(&mut ccid, at(h + 102), &mut next);
    ccid.on_feedback(
        at(h + 202),
        &acks(&[
            (h + 17, h + 19),
            (h + 10, h + 15),
            (h + 3, h + 8),
            (0, h + 1),
        ]),
    )
    .unwrap();
    assert_eq!(ccid.window(), 4, "the next window");
}

/// After a timeout one packet, and the time doubles: 1, 2, 4, ... 60 s.
#[test]
fn rfc_4341_5_a_receiver_that_never_answers_stops_the_sender() {
    let (mut ccid, mut next) = (new(), 0);
    fill(&mut ccid, at(0), &mut next);
    let mut times = Vec::new();
    for _ in 0..9 {
        let due = ccid.next_timeout().unwrap();
        times.push(due.as_nanos() / 1_000_000_000);
        ccid.on_timeout(due);
        assert_eq!(ccid.window(), 1);
        let before = next;
        fill(&mut ccid, due, &mut next);
        assert_eq!(next - before, 1);
    }
    assert_eq!(times, [1, 3, 7, 15, 31, 63, 123, 183, 243]);
}

/// RFC 2861 §3.1: half for each RTO of silence, down to the initial window.
#[test]
fn rfc_2861_an_idle_window_decays() {
    let (mut ccid, next, highest) = grown();
    ccid.on_feedback(at(highest + 100), &acks(&[(0, next - 1)]))
        .unwrap();
    let window = ccid.window();
    // The RTO is 1 s, the least.
    let mut idle = ccid.clone();
    idle.on_sent(at(highest + 1500), next, 1000);
    assert_eq!(idle.window(), window / 2);
    let mut idle = ccid.clone();
    idle.on_sent(at(highest + 100_000), next, 1000);
    assert_eq!(idle.window(), 4);
}

/// RFC 2861 §3.2: a window of which 2 packets are used shrinks half-way to them with each RTO, and does not grow.
#[test]
fn rfc_2861_an_unused_window_decays() {
    let (mut ccid, mut next, highest) = grown();
    ccid.on_feedback(at(highest + 100), &acks(&[(0, next - 1)]))
        .unwrap();
    let mut now = highest + 100;
    for _ in 0..100 {
        ccid.on_sent(at(now), next, 1000);
        ccid.on_sent(at(now), next + 1, 1000);
        next += 2;
        now += 100;
        ccid.on_feedback(at(now), &acks(&[(0, next - 1)])).unwrap();
    }
    assert!(ccid.window() <= 3, "{}", ccid.window());
}

/// Loss of 1 in n in steady state: a saw-tooth from W to W / 2, so that n = 3 W^2 / 8 packets go from loss to loss, and the rate
/// is 3 W / 4 in an RTT: sqrt(3 n / 2) in all.
#[test]
fn the_saw_tooth_has_its_closed_form() {
    for n in [150u64, 600] {
        let mut path = Path::new(
            Config::Ccid2(Ccid2Params {
                largest: 1000,
                ..Default::default()
            }),
            Duration::from_millis(50),
        );
        path.lose = Box::new(move |sequence| sequence % n == n - 1);
        path.run(Duration::from_secs(100));
        let before = path.sent;
        path.run(Duration::from_secs(300));
        let per_rtt = (path.sent - before) as f64 / 3000.0;
        let expected = (1.5 * n as f64).sqrt();
        assert!(
            (per_rtt / expected - 1.0).abs() < 0.1,
            "1 in {n}: {per_rtt}, expected {expected}"
        );
    }
}
