// SPDX-License-Identifier: MIT OR Apache-2.0
//! ABRC by hand, and before a queue that others share.

use super::*;
use crate::rate::abrc::{
    Abrc, AbrcParams, AbrcReceiver, Alone, Leaving, Path, Smoothing, Unit, stable,
};
use crate::units::Fraction;
use std::collections::VecDeque;

fn params(share: u32) -> AbrcParams {
    AbrcParams {
        share,
        retarget: 1,
        ..AbrcParams::printed()
    }
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// This number of packets of 1000 bytes have left by 1 s, one each millisecond.
fn sent(params: AbrcParams, packets: u64) -> Abrc {
    let mut abrc = Abrc::new(params);
    for sequence in 0..packets {
        abrc.on_sent(at(sequence), sequence, 1000);
    }
    abrc
}

fn report(highest: u64, packets: u32, shortest_us: u64) -> Feedback {
    Feedback {
        highest,
        held: Duration::from_micros(highest),
        report: Report::Arrivals {
            interval: Duration::from_secs(1),
            packets,
            bytes: u64::from(packets) * 1000,
            shortest: Some(Duration::from_micros(shortest_us)),
        },
    }
}

/// 500 packets sent, 470 the highest received, 100 in the last second, the shortest gap 2 ms: B_UDP = 499 - 469 = 30, T_mix =
/// 10 ms, B_TCP = (10 - 2) / 2 * 30 = 120, B_T = 2 * 120 = 240, S = 240 + 100 - 30 = 310 packet/s.
#[test]
fn equations_4_to_8_by_hand() {
    let mut abrc = sent(params(200), 500);
    abrc.on_feedback(at(1000), &report(469, 100, 2000)).unwrap();
    assert_eq!(abrc.occupancy(), 30.0);
    assert!((abrc.others() - 120.0).abs() < 1e-9);
    assert!((abrc.target() - 240.0).abs() < 1e-9);
    let before = abrc.next_send().unwrap();
    abrc.on_sent(before, 500, 1000);
    let gap = abrc.next_send().unwrap().saturating_since(before);
    assert!((gap.as_secs_f64() - 1.0 / 310.0).abs() < 1e-8, "{gap}");
}

/// With 0.25 of a packet's time for acknowledgements, B_TCP = (10 - 2) / (2 * 1.25) * 30 = 96.
#[test]
fn acknowledgements_on_the_radio_are_not_taken_for_packets_of_others() {
    let acks = Fraction::ratio(1, 4);
    let mut abrc = sent(
        AbrcParams {
            acks,
            ..params(200)
        },
        500,
    );
    abrc.on_feedback(at(1000), &report(469, 100, 2000)).unwrap();
    assert!((abrc.others() - 96.0).abs() < 1e-9);
}

/// 100 packets leave the queue, of which 60 come: S = 5 + BW - 30 with B_UDP = 499 - 469.
#[test]
fn what_is_lost_behind_the_queue_has_left_it() {
    for (leaving, expected) in [(Leaving::Received, 35.0), (Leaving::Numbered, 75.0)] {
        let mut abrc = sent(
            AbrcParams {
                leaving,
                ..params(100)
            },
            500,
        );
        for (second, highest, packets) in [(1, 369, 370), (2, 469, 60)] {
            let mut feedback = report(highest, packets, 2000);
            if let Report::Arrivals { shortest, .. } = &mut feedback.report {
                *shortest = None;
            }
            abrc.on_feedback(at(1000 * second), &feedback).unwrap();
        }
        let packets = abrc.rate().bps() as f64 / 8000.0;
        assert!((packets - expected).abs() < 1.0, "{leaving:?}: {packets}");
    }
}

/// Packets 1.6, 2.0, 2.1, 4.0 and 2.4 ms apart: the shortest, and the mean of those up to 2.4. Then an interval without such.
#[test]
fn the_time_of_a_packet_alone_is_the_shortest_or_the_mean_of_pairs() {
    for (alone, expected) in [(Alone::Shortest, 1600), (Alone::Pairs, 2025)] {
        let mut receiver = AbrcReceiver::new(AbrcParams {
            alone,
            ..params(100)
        });
        let mut now = Instant::ZERO;
        for (sequence, gap) in (0..).zip([0, 1600, 2000, 2100, 4000, 2400, 1_000_000, 3000]) {
            now += Duration::from_micros(gap);
            if let Some(feedback) = receiver.poll_feedback(now) {
                assert!(
                    matches!(feedback.report, Report::Arrivals { shortest: Some(time), .. } if time == Duration::from_micros(expected)),
                    "{feedback:?}"
                );
            }
            receiver.on_arrival(
                now,
                Arrival {
                    sequence,
                    bytes: 1000,
                    rtt: None,
                    window: None,
                    marked: false,
                },
            );
        }
        let feedback = receiver
            .poll_feedback(now + Duration::from_secs(1))
            .unwrap();
        assert!(
            matches!(feedback.report, Report::Arrivals { shortest: Some(time), .. } if time == Duration::from_micros(expected)),
            "{feedback:?}"
        );
    }
}

/// Footnote 1: in bytes the same queue is 30 kB, and the rate the same.
#[test]
fn bytes_in_the_place_of_packets_of_one_length() {
    let mut abrc = sent(
        AbrcParams {
            unit: Unit::Bytes,
            largest: 1000,
            ..params(200)
        },
        500,
    );
    abrc.on_feedback(at(1000), &report(469, 100, 2000)).unwrap();
    assert_eq!(abrc.occupancy(), 30_000.0);
    assert!((abrc.rate().bps() as f64 - 310.0 * 8000.0).abs() < 1.0);
}

/// Section 3, step 3: without others B_T is 5, so S = 5 + 400 - 60.
#[test]
fn the_target_is_never_below_five_packets() {
    let mut abrc = sent(params(100), 500);
    abrc.on_feedback(at(1000), &report(439, 400, 2500)).unwrap();
    assert_eq!(abrc.target(), 5.0);
    let packets = abrc.rate().bps() as f64 / 8.0 / 1000.0;
    assert!((packets - 345.0).abs() < 1.0, "{packets}");
}

/// (8) asks for 5 + 10 - 490 packets: one is sent, so that the receiver has something to report on.
#[test]
fn a_negative_rate_is_one_packet_in_an_interval() {
    let mut abrc = sent(params(100), 500);
    abrc.on_feedback(at(1000), &report(9, 10, 100_000)).unwrap();
    abrc.on_sent(at(1001), 500, 1000);
    let gap = abrc.next_send().unwrap().saturating_since(at(1001));
    assert_eq!(gap, Duration::from_secs(1));
}

#[test]
fn the_target_is_set_with_each_third_report() {
    let mut abrc = sent(
        AbrcParams {
            retarget: 3,
            ..params(200)
        },
        500,
    );
    for (i, target) in [(1, 5.0), (2, 5.0), (3, 2.0 * 0.6 * 29.0)] {
        let feedback = Feedback {
            highest: 467 + i,
            ..report(0, 125, 5000)
        };
        abrc.on_feedback(at(1000 * i), &feedback).unwrap();
        assert!(
            (abrc.target() - target).abs() < 1e-9,
            "{i}: {}",
            abrc.target()
        );
    }
}

/// BW of 100, 200 and 160 packets per second: the last, the mean of two, and half of the last with half of the average before.
#[test]
fn smoothing_of_the_throughput() {
    let cases = [
        (Smoothing::Last, 160.0),
        (Smoothing::Mean(2), 180.0),
        (Smoothing::Mean(200), 460.0 / 3.0),
        (
            Smoothing::Exponential(crate::units::Fraction::ratio(1, 2)),
            155.0,
        ),
    ];
    for (smoothing, expected) in cases {
        let mut abrc = sent(
            AbrcParams {
                smoothing,
                ..params(100)
            },
            500,
        );
        for (i, packets) in [(0, 100), (1, 200), (2, 160)] {
            let mut feedback = report(460 + i, packets, 1000);
            // Nothing alone on the link: no others.
            if let Report::Arrivals { shortest, .. } = &mut feedback.report {
                *shortest = None;
            }
            abrc.on_feedback(at(1000 * (i + 1)), &feedback).unwrap();
        }
        // S = 5 + BW* - 37.
        let packets = abrc.rate().bps() as f64 / 8000.0;
        assert!(
            (packets - (expected - 32.0)).abs() < 1.0,
            "{smoothing:?}: {packets}"
        );
    }
}

/// A tick of 10 ms is 4.5 packets long at 450 packets/s; a sender without its timer's resolution makes up for one.
#[test]
fn packets_of_a_tick_are_made_up_for() {
    let per_second = |granularity| {
        let params = AbrcParams {
            granularity,
            first: Rate::from_bps(3_600_000),
            largest: 1000,
            ..params(100)
        };
        let mut abrc = Abrc::new(params);
        let mut sequence = 0;
        for now in (0..100).map(|tick| at(10 * tick)) {
            while abrc.next_send().is_some_and(|due| due <= now) {
                abrc.on_sent(now, sequence, 1000);
                sequence += 1;
            }
        }
        sequence
    };
    let [fine, coarse] = [0, 10].map(|ms| per_second(Duration::from_millis(ms)));
    assert!((198..=201).contains(&fine), "{fine}");
    assert!((444..=451).contains(&coarse), "{coarse}");
}

/// After a report two packets leave at once, here the first a packet's time late; then the rate is what it was.
#[test]
fn a_pair_follows_each_report() {
    let mut abrc = sent(
        AbrcParams {
            pair: true,
            ..params(200)
        },
        500,
    );
    abrc.on_feedback(at(1000), &report(469, 100, 2000)).unwrap();
    let mut left = Vec::new();
    for sequence in 500..504 {
        let due = abrc.next_send().unwrap().max(at(1000));
        abrc.on_sent(due, sequence, 1000);
        left.push(due.saturating_since(at(1000)).as_secs_f64() * 310.0);
    }
    let expected = [0.0, 0.0, 1.0, 2.0];
    for (left, expected) in left.iter().zip(expected) {
        assert!((left - expected).abs() < 1e-3, "{left} {expected}");
    }
}

/// A receiver that never answers: half after 3 s, half again each second, to a packet in 64 s.
#[test]
fn silence_halves_the_rate() {
    let mut abrc = sent(
        AbrcParams {
            largest: 1000,
            ..params(100)
        },
        1,
    );
    let first = abrc.rate().bps();
    assert_eq!(first, 1_000_000);
    let mut seen = Vec::new();
    for _ in 0..20 {
        let due = abrc.next_timeout().unwrap();
        abrc.on_timeout(due);
        seen.push((due.as_nanos() / 1_000_000_000, abrc.rate().bps()));
    }
    assert_eq!(seen[0], (3, first / 2));
    assert_eq!(seen[1], (4, first / 4));
    assert_eq!(seen[19], (22, 1000 * 8 / 64));
}

/// Section 4: two streams of k = 1 take all there is.
#[test]
fn streams_are_stable_below_a_sum_of_one() {
    assert_eq!(stable(&[]), Ok(()));
    assert_eq!(stable(&[99, 100]), Ok(()));
    let unstable = stable(&[100, 100]).unwrap_err();
    assert_eq!((unstable.streams, unstable.thousandths), (2, 1000));
    assert_eq!(stable(&[50, 50]), Ok(()));
    assert!(stable(&[50, 50, 50]).is_err());
    assert!(stable(&[25; 5]).is_err());
    assert_eq!(stable(&[25; 4]), Ok(()));
}

/// A FIFO that others share: they hold 33 to 40 packets, as TCP does that its window holds back, and come by eights. Without
/// bursts no two packets of ours would come one after the other below k_T = 1, and T_UDP would be too long.
struct Shared {
    params: AbrcParams,
    /// When the n-th service ends.
    served: fn(u64) -> Instant,
    services: u64,
    /// When there is something to send.
    speaks: fn(Instant) -> bool,
    /// Packets of others that come at once.
    bursts: u64,
    /// The checked values.
    counts: std::ops::Range<Instant>,
}

impl Shared {
    fn new(params: AbrcParams) -> Self {
        Self {
            params,
            served: |n| at(2 * n),
            services: 60_000,
            speaks: |_| true,
            bursts: 8,
            counts: at(20_000)..Instant::FAR_FUTURE,
        }
    }

    /// Our packets by those of others. (1): it is k_T.
    fn ratio(&self) -> f64 {
        let config = Config::Abrc(self.params);
        let mut controller = config.controller();
        let mut reporter = config.reporter();
        let mut queue: VecDeque<Option<u64>> = vec![None; 40].into();
        let (mut sequence, mut others, mut ours, mut theirs) = (0, 0u64, 0u64, 0u64);
        for now in (0..self.services).map(self.served) {
            while controller.next_send().is_some_and(|at| at <= now) {
                if !(self.speaks)(now) {
                    controller.on_nothing_to_send(now);
                    break;
                }
                controller.on_sent(now, sequence, 1000);
                queue.push_back(Some(sequence));
                sequence += 1;
            }
            let counts = u64::from(self.counts.contains(&now));
            match queue.pop_front() {
                Some(None) => {
                    others += 1;
                    if others.is_multiple_of(self.bursts) {
                        queue.extend((0..self.bursts).map(|_| None));
                    }
                    theirs += counts;
                }
                Some(Some(sequence)) => {
                    ours += counts;
                    let arrival = Arrival {
                        sequence,
                        bytes: 1000,
                        rtt: None,
                        window: None,
                        marked: false,
                    };
                    reporter.on_arrival(now, arrival);
                }
                None => {}
            }
            if let Some(feedback) = reporter.poll_feedback(now) {
                let then = now + Duration::from_micros(10);
                controller.on_feedback(then, &feedback).unwrap();
            }
            if controller.next_timeout().is_some_and(|at| at <= now) {
                controller.on_timeout(now);
            }
        }
        ours as f64 / theirs as f64
    }
}

fn assert_share(ratio: f64, share: u32, within: f64) {
    let wanted = f64::from(share) / 100.0;
    assert!(
        (ratio / wanted - 1.0).abs() < within,
        "k_T {wanted}: {ratio}"
    );
}

/// T_UDP as by default; no acknowledgements come back through this queue.
fn pairs(share: u32) -> AbrcParams {
    AbrcParams {
        share,
        acks: Fraction::default(),
        ..AbrcParams::default()
    }
}

#[test]
fn the_share_of_a_queue_is_k_t() {
    for share in [50, 100, 200, 300] {
        let printed = AbrcParams {
            share,
            ..AbrcParams::printed()
        };
        assert_share(Shared::new(printed).ratio(), share, 0.03);
        assert_share(Shared::new(pairs(share)).ratio(), share, 0.03);
    }
}

/// Each hundredth service ends so late that the next follows after 20 us, as where a program serves the queue and wakes late.
#[test]
fn two_packets_at_once_now_and_then_do_not_change_the_share() {
    for share in [50, 100, 200, 300] {
        let late = Shared {
            served: |n| at(2 * n) + Duration::from_micros(if n % 100 == 99 { 1980 } else { 0 }),
            ..Shared::new(pairs(share))
        };
        assert_share(late.ratio(), share, 0.1);
    }
}

/// After a minute of 500 packets per second, 167: the share is k_T again one and a half minutes later.
#[test]
fn a_link_that_becomes_slower_is_followed() {
    for share in [50, 100, 200] {
        let slower = Shared {
            served: |n| at(2 * n.min(30_000) + 6 * n.saturating_sub(30_000)),
            counts: at(150_000)..Instant::FAR_FUTURE,
            ..Shared::new(pairs(share))
        };
        assert_share(slower.ratio(), share, 0.1);
    }
}

/// Nothing to send for 20 s: in the ten seconds after it the share is nearly k_T.
#[test]
fn after_a_pause_the_rate_is_what_it_was() {
    for share in [50, 100, 200] {
        let pausing = Shared {
            speaks: |now| !(at(40_000)..at(60_000)).contains(&now),
            counts: at(60_000)..at(70_000),
            ..Shared::new(pairs(share))
        };
        assert_share(pausing.ratio(), share, 0.2);
    }
}

/// Others come one by one, so that no two packets of a small stream follow one another unless they leave at once.
#[test]
fn a_small_stream_among_evenly_paced_ones_gets_its_share_by_pairs() {
    let of = |share, pair_each| {
        let params = AbrcParams {
            pair_each,
            ..pairs(share)
        };
        let evenly = Shared {
            bursts: 1,
            ..Shared::new(params)
        };
        evenly.ratio()
    };
    for share in [50, 75, 100] {
        assert_share(of(share, 10), share, 0.05);
    }
    // A queue that others keep at one length looks like an idle path until ours is some packets longer: 10 of their 40 would be k_T.
    let held = 40.0 * of(25, 10);
    assert!((9.5..13.5).contains(&held), "{held} packets");
    let alone = Shared {
        bursts: 1,
        ..Shared::new(AbrcParams {
            path: Path::None,
            pair_each: 0,
            ..pairs(50)
        })
    };
    assert!(alone.ratio() < 0.2, "{}", alone.ratio());
}

/// The second of each five packets follows the first at once, and the next one waits for both.
#[test]
fn pairs_of_packets_leave_at_the_rate() {
    let params = AbrcParams {
        pair_each: 5,
        first: Rate::from_bps(8_000_000),
        largest: 1000,
        ..params(100)
    };
    let mut abrc = Abrc::new(params);
    let mut left = Vec::new();
    for sequence in 0..11 {
        let due = abrc.next_send().unwrap().max(at(0));
        abrc.on_sent(due, sequence, 1000);
        left.push(due.as_nanos() / 1_000_000);
    }
    assert_eq!(left, [0, 0, 2, 3, 4, 5, 5, 7, 8, 9, 10]);
}

/// A FIFO of 250 packets a second, 50 ms from the sender and from the receiver: the share of it that a stream alone uses from 20 s on.
fn used_alone(params: AbrcParams) -> f64 {
    const BACK: Duration = Duration::from_millis(50);
    let config = Config::Abrc(params);
    let mut controller = config.controller();
    let mut reporter = config.reporter();
    let (mut queue, mut there, mut back) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
    let (mut next, mut used) = (0, 0);
    for ms in 0..60_000 {
        let now = at(ms);
        while controller.next_send().is_some_and(|at| at <= now) {
            controller.on_sent(now, next, 1000);
            queue.push_back(next);
            next += 1;
        }
        if ms % 4 == 0
            && let Some(sequence) = queue.pop_front()
        {
            there.push_back((now + BACK, sequence));
            used += u32::from(ms >= 20_000);
        }
        while let Some((_, sequence)) = there.pop_front_if(|(at, _)| *at <= now) {
            let arrival = Arrival {
                sequence,
                bytes: 1000,
                rtt: None,
                window: None,
                marked: false,
            };
            reporter.on_arrival(now, arrival);
        }
        if let Some(feedback) = reporter.poll_feedback(now) {
            back.push_back((now + BACK, feedback));
        }
        while let Some((_, feedback)) = back.pop_front_if(|(at, _)| *at <= now) {
            controller.on_feedback(now, &feedback).unwrap();
        }
        if controller.next_timeout().is_some_and(|at| at <= now) {
            controller.on_timeout(now);
        }
    }
    f64::from(used) / 10_000.0
}

/// (4) counts 25 packets on the path where the link is used in full: five of them, as printed, are a fifth of its rate.
#[test]
fn a_long_path_is_filled_and_as_printed_a_fifth_of_it_is() {
    for share in [20, 100, 200] {
        let ours = AbrcParams {
            share,
            ..AbrcParams::default()
        };
        assert!(used_alone(ours) > 0.95, "{}", used_alone(ours));
    }
    let printed = used_alone(AbrcParams::printed());
    assert!((0.15..0.3).contains(&printed), "{printed}");
}

/// Reports of nothing, and then none: nothing was sent, and the rate stays. It is halved when what is sent next brings no report.
#[test]
fn a_sender_without_data_keeps_its_rate() {
    let mut abrc = sent(params(100), 500);
    abrc.on_feedback(at(1000), &report(499, 400, 2000)).unwrap();
    let rate = abrc.rate();
    for second in 2..5 {
        let mut empty = report(499, 0, 2000);
        empty.held += Duration::from_secs(second - 1);
        abrc.on_feedback(at(1000 * second), &empty).unwrap();
        assert_eq!(abrc.rate(), rate);
    }
    assert_eq!(abrc.next_timeout(), None);
    abrc.on_sent(at(60_000), 500, 1000);
    assert_eq!(abrc.next_timeout(), Some(at(63_000)));
    abrc.on_timeout(at(63_000));
    let half = abrc.rate().bps();
    assert!(half.abs_diff(rate.bps() / 2) < 10, "{half}");
}
