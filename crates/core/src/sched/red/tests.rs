// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::packet::Ecn;
use crate::sched::testing::{limits, packet};

/// `n / d` packets, as an average.
fn average(n: u64, d: u64) -> Average {
    Average(Average::of(n).0 / u128::from(d))
}

/// Whether `avg` is `millionths` after rounding.
fn is(avg: Average, millionths: u64) -> bool {
    let half = average(1, 2_000_000).0;
    avg.0.abs_diff(average(millionths, 1_000_000).0) <= half
}

/// A RED whose average is `q`, and stays there as long as it is only asked to judge.
fn red(q: u64, change: fn(&mut RedParams)) -> Red {
    let mut params = RedParams::default();
    change(&mut params);
    let mut red = Red::new(&Env::new(limits(50, 100_000)), params);
    red.early.average = Average::of(q);
    red
}

/// Fates of `n` packets of `len`.
fn verdicts(red: &mut Red, n: u32, len: u64) -> Vec<Option<DropReason>> {
    (0..n).map(|_| red.early.judge(Bytes::new(len))).collect()
}

/// Arrivals from each drop to the next.
fn spacings(verdicts: &[Option<DropReason>]) -> Vec<usize> {
    let at: Vec<usize> = (0..verdicts.len())
        .filter(|n| verdicts[*n].is_some())
        .collect();
    at.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn the_papers_average_after_a_burst_is_met() {
    // Section IV, eq. (2): the queue grows from 0 to L, one with each packet, and w_q = 0.001;
    // avg = L + 1 + ((1 - w_q)^(L+1) - 1) / w_q, at L = 100 4.88. Six decimals by exact fractions.
    let mut avg = Average::default();
    for q in 1..=100 {
        avg.sample(Fraction::ratio(1, 1000), q);
    }
    assert!(is(avg, 4_887_355), "{avg:?}");
    // w_q = 0.002 and a queue of 10 for 1000 packets: 10 (1 - 0.998^1000).
    let mut avg = Average::default();
    for _ in 0..1000 {
        avg.sample(Fraction::ratio(2, 1000), 10);
    }
    assert!(is(avg, 8_649_355), "{avg:?}");
}

#[test]
fn an_idle_time_decays_the_average_as_its_packets_would_have() {
    // 0.998^m of 10: m = 1, 500, 5000.
    for (m, left) in [
        (0, 10_000_000),
        (1, 9_980_000),
        (500, 3_675_113),
        (5000, 449),
    ] {
        let mut avg = Average::of(10);
        avg.decay(Fraction::ratio(2, 1000), m);
        assert!(is(avg, left), "{m} {avg:?}");
    }
    let mut avg = Average::of(10);
    avg.decay(Fraction::ratio(2, 1000), u64::MAX);
    assert_eq!(avg, Average::default());
    let mut avg = Average::of(u64::from(u32::MAX));
    avg.decay(Fraction::ONE, 1);
    assert_eq!(avg, Average::default());
}

#[test]
fn idle_time_is_counted_in_packets_of_the_line() {
    // 500 B at 4 Mbit/s take 1 ms. The average is 10 when the queue runs empty, at 7 ms; the packet
    // that comes 500.9 ms later is a sample of the empty queue too.
    let env = Env {
        rate: Some(Rate::from_bps(4_000_000)),
        ..Env::new(limits(50, 100_000))
    };
    let mut red = Red::new(&env, RedParams::default());
    let mut drops = Drops::default();
    red.enqueue(Instant::ZERO, packet(0, 0, 1000), &mut drops);
    red.early.average = Average::of(10);
    let at = |us| Instant::ZERO + Duration::from_micros(us);
    red.dequeue(at(7000), &mut drops);
    red.enqueue(at(507_900), packet(1, 0, 1000), &mut drops);
    let mut expected = Average::of(10);
    expected.decay(Fraction::ratio(2, 1000), 501);
    assert!(red.early.average.0.abs_diff(expected.0) <= 2);
}

#[test]
fn a_packet_that_finds_an_empty_queue_counts_even_without_idle_time() {
    // Else an average above the thresholds would drop a stream above the link rate for ever.
    let env = Env {
        rate: Some(Rate::from_bps(4_000_000)),
        ..Env::new(limits(50, 100_000))
    };
    let mut red = Red::new(&env, RedParams::default());
    red.early.average = Average::of(40);
    let mut drops = Drops::default();
    let mut n = 0;
    while red.backlog().packets == 0 && n < 1000 {
        let now = Instant::ZERO + Duration::from_micros(900 * u64::from(n));
        red.enqueue(now, packet(n, 0, 1000), &mut drops);
        n += 1;
    }
    // 40 * 0.998^n < 30 from n = 144 on.
    assert!((144..400).contains(&n), "{n}");
}

#[test]
fn drops_are_spaced_uniformly_and_never_further_than_the_probability_says() {
    // avg = 10 of 5 to 15: p_b = 0.05. The paper: 1 to 1/p_b packets, less one since the packet after
    // a drop already has count 1. With `wait` 1/p_b to 2/p_b, less one.
    for (wait, range) in [(false, 1..=19), (true, 20..=39)] {
        let mut red = red(10, |_| {});
        red.early.params.wait = wait;
        let spacings = spacings(&verdicts(&mut red, 100_000, 1000));
        assert!(spacings.iter().all(|s| range.contains(s)), "{wait}");
        for spacing in range.clone() {
            let n = spacings.iter().filter(|s| **s == spacing).count();
            let expected = spacings.len() / range.clone().count();
            // Five standard deviations.
            assert!(n.abs_diff(expected) < 5 * expected.isqrt(), "{spacing} {n}");
        }
    }
}

#[test]
fn the_probability_is_linear_between_the_thresholds_and_gentle_above() {
    let params = RedParams::default();
    let per_cent = |n, d| (params.p_b(average(n, d)) * 10_000 + ONE / 2) / ONE;
    assert_eq!(per_cent(5, 1), 0);
    assert_eq!(per_cent(15, 2), 250);
    assert_eq!(per_cent(10, 1), 500);
    assert_eq!(per_cent(15, 1), 1000);
    // From 0.1 to 1 between 15 and 30.
    assert_eq!(per_cent(45, 2), 5500);
    assert_eq!(per_cent(27, 1), 8200);
    assert_eq!(params.p_b(Average::of(30)), ONE);
}

#[test]
fn nothing_goes_early_below_the_lower_threshold_and_everything_above_the_upper() {
    let all = |q, gentle, verdict: Option<DropReason>| {
        let mut red = red(q, |_| {});
        red.early.params.gentle = gentle;
        let verdicts = verdicts(&mut red, 1000, 1000);
        verdicts.iter().all(|v| *v == verdict)
    };
    for gentle in [false, true] {
        assert!(all(4, gentle, None));
        assert!(all(30, gentle, Some(DropReason::Forced)));
    }
    assert!(all(15, false, Some(DropReason::Forced)));
    // p_b = 0.4: with `wait` every third or fourth packet.
    let gentle = verdicts(&mut red(20, |_| {}), 1000, 1000);
    let early = gentle.iter().filter(|v| **v == Some(DropReason::Early));
    assert!((250..=334).contains(&early.count()));
    assert!(!gentle.contains(&Some(DropReason::Forced)));
}

#[test]
fn by_bytes_a_small_packet_is_dropped_more_rarely() {
    let lost = |len| {
        // 20 packets of mean size, of 5 to 35.
        let mut red = red(10_000, |params| {
            params.by_bytes = true;
            params.max = 35;
        });
        let verdicts = verdicts(&mut red, 200_000, len);
        verdicts.iter().filter(|v| v.is_some()).count()
    };
    // A twentieth of the size, a twentieth of the drops; p_b = 0.05, so that 10 to 20 kB are between.
    let (small, large) = (lost(50), lost(1000));
    assert!((12_000..=15_000).contains(&large), "{large}");
    assert!((600..=750).contains(&small), "{small}");
}

#[test]
fn what_understands_a_mark_is_marked_below_the_upper_threshold_and_dropped_above() {
    for (q, early) in [(10, true), (40, false)] {
        let mut red = red(q, |params| params.ecn = true);
        let mut drops = Drops::default();
        for n in 0..50 {
            let pkt = packet(n, 0, 1000).with_ecn(Ecn::Capable);
            red.early.average = Average::of(q);
            red.enqueue(Instant::ZERO, pkt, &mut drops);
        }
        let held = std::iter::from_fn(|| red.fifo.pop());
        let marked = held.filter(|pkt| pkt.ecn() == Ecn::Marked).count();
        assert_eq!((marked > 0, drops.is_empty()), (early, early));
    }
}

#[test]
fn a_full_buffer_refuses_what_chance_let_in() {
    let params = RedParams::default();
    let mut red = Red::new(&Env::new(limits(3, 100_000)), params);
    let mut drops = Drops::default();
    for n in 0..4 {
        red.enqueue(Instant::ZERO, packet(n, 0, 1000), &mut drops);
    }
    red.enqueue(Instant::ZERO, packet(4, 0, 100_001), &mut drops);
    let reasons: Vec<_> = drops.drain().map(|(_, why)| why).collect();
    assert_eq!(reasons, [DropReason::Tail, DropReason::TooLarge]);
}
