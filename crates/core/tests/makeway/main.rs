// SPDX-License-Identifier: MIT OR Apache-2.0
//! Promises of docs/disciplines/makeway.md, on a link in virtual time: streams whose packets are on a
//! timetable, and downloads that keep a window of packets under way as TCP does.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

mod aged;
mod begins;
mod hostile;
mod lift;
mod link;
mod numbers;
mod users;

use link::*;
use makeway_core::packet::FlowId;
use makeway_core::sched::{Class, Reason, Standing};
use makeway_core::units::Instant;
use proptest::prelude::*;
const MBIT10: [(u64, u64); 1] = [(0, 10_000_000)];

fn download(rtt_ms: u64) -> Source {
    Source::Download {
        rtt: rtt_ms * MS,
        from: 0,
        packets: u32::MAX,
    }
}

/// 5 Mbit/s as frames, one every 40 ms.
fn video() -> Source {
    Source::Stream {
        burst: 17,
        len: 1470,
        period: 40 * MS,
        from: 0,
        to: u64::MAX,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// (a) With `R` of the link for packets that go first, 120/133, and 5/8 beside bulk of other users, no packet in standing waits longer
    /// than the bursts of all streams and two of bulk's packets take at `R` less the streams' rates.
    #[test]
    fn a_stream_in_standing_waits_no_longer_than_the_bursts_of_all(
        streams in proptest::collection::vec((1u32..12, 100u32..1500, 10u64..60), 1..5),
        floods in 0u64..20,
        of_others in any::<bool>(),
    ) {
        let mut link = Link::new(400, &MBIT10);
        let (room, most, third) = if of_others { (5.0 / 8.0, 5_000_000.0, 2) } else { (120.0 / 133.0, 7_000_000.0, 0) };
        let mut rates = 0.0;
        let (mut bursts, mut numbers) = (0.0, Vec::new());
        for (n, (burst, len, period)) in streams.into_iter().enumerate() {
            let rate = f64::from(burst * len * 8) / (period as f64 / 1000.0);
            if rates + rate > most {
                continue;
            }
            rates += rate;
            bursts += f64::from(burst * len * 8);
            numbers.push(link.flow(0, Source::Stream {
                burst, len, period: period * MS, from: n as u64 * 7 * MS, to: u64::MAX,
            }));
        }
        // New flows without end; those of a third user bring the debt to other users' bulk to its limit.
        for _ in 0..10 {
            link.flow(third, Source::Download { rtt: 20 * MS, from: 3 * SECOND, packets: 30 });
        }
        // Bulk in no time, and for ever.
        for n in 0..floods {
            link.flow(of_others.into(), Source::Stream {
                burst: 10, len: LEN, period: 10 * MS, from: 3 * SECOND + n * MS, to: u64::MAX,
            });
        }
        link.run(8 * SECOND);
        let bulk = 2.0 * (QUANTUM as f64 + f64::from(LEN)) * 8.0;
        let bound = (bursts + bulk) / (10_000_000.0 * room - rates);
        for number in numbers {
            let late = link.flows[number].came.iter()
                .filter(|(at, _)| *at > 4 * SECOND)
                .filter_map(|(_, delay)| *delay)
                .max().unwrap_or(0);
            prop_assert!(late as f64 / 1e9 <= bound, "{late} ns, bound {bound} s");
            prop_assert!(link.on_time(number, 3 * SECOND, 7 * SECOND, SECOND) > 0.9);
        }
    }

    /// (b) After a link of 2 Mbit/s for six seconds, a stream of half of the link stands again within 5 s.
    #[test]
    fn a_stream_that_fits_regains_its_standing_for_every_number_of_downloads(
        downloads in 1u64..=80,
        rtt in 5u64..60,
    ) {
        let dip = [(0, 10_000_000), (10 * SECOND, 2_000_000), (16 * SECOND, 10_000_000)];
        let mut link = Link::new(100, &dip);
        let stream = link.flow(0, video());
        for _ in 0..downloads {
            link.flow(0, download(rtt));
        }
        link.run(25 * SECOND);
        let during = link.on_time(stream, 12 * SECOND, 16 * SECOND, 150 * MS);
        prop_assert!(during < 0.5, "no disturbance: {during}");
        let after = link.on_time(stream, 21 * SECOND, 24 * SECOND, 150 * MS);
        prop_assert!(after > 0.99, "{after}");
    }

    /// (c) Beside any traffic that goes first, bulk has 9 % of the link in every second, half of that if flows begin without end, and each flow of it its
    /// even part; one that floods an eighth of that.
    #[test]
    fn bulk_has_its_floor_whatever_goes_first(
        streams in proptest::collection::vec((1u32..30, 60u32..1500, 5u64..60, 0u64..9), 1..40),
        begin in prop_oneof![Just(0u32), 1..10u32],
    ) {
        let mut link = Link::new(200, &MBIT10);
        for _ in 0..begin {
            link.flow(1, Source::Download { rtt: 20 * MS, from: 2 * SECOND, packets: 30 });
        }
        let floor = if begin == 0 { 900_000.0 } else { 450_000.0 };
        for (burst, len, period, from) in streams {
            link.flow(0, Source::Stream {
                burst, len, period: period * MS, from: from * SECOND, to: u64::MAX,
            });
        }
        // It never responds, so that it always has packets waiting, and floods.
        let bulk = link.flow(0, Source::Stream {
            burst: 10, len: LEN, period: 10 * MS, from: 0, to: u64::MAX,
        });
        let responds = link.flow(0, download(20));
        link.run(12 * SECOND);
        let flows = link.flows.len() as f64;
        let rate = link.goodput(responds, 3 * SECOND, 11 * SECOND);
        prop_assert!(rate >= 0.75 * floor / flows, "{rate} bit/s of a download, {flows} flows");
        for from in 3..11 {
            let rate = link.goodput(bulk, from * SECOND, (from + 1) * SECOND);
            let flows = link.flows.len() as f64;
            // In a second, to a packet.
            let packet = f64::from(LEN * 8);
            prop_assert!(rate + packet >= floor / flows / 8.0, "{rate} bit/s from {from} s, {flows} flows");
        }
    }
}

#[test]
fn the_class_of_a_flow_its_reason_and_its_time_can_be_read() {
    let mut link = Link::new(100, &MBIT10);
    let stream = link.flow(0, video());
    let flood = Source::Stream {
        burst: 10,
        len: LEN,
        period: 10 * MS,
        from: 5 * SECOND,
        to: u64::MAX,
    };
    let flood = link.flow(0, flood);
    let read = |link: &Link, flow: usize| link.scheduler.standing(FlowId(link.flows[flow].id));
    assert_eq!(read(&link, stream), None);
    link.run(SECOND);
    let begins = Standing {
        class: Class::New,
        reason: Reason::Begins,
        since: Instant::ZERO,
    };
    assert_eq!(read(&link, stream), Some(begins));
    link.run(10 * SECOND);
    let stands = read(&link, stream).unwrap();
    assert_eq!(
        (stands.class, stands.reason),
        (Class::Standing, Reason::NoQueue)
    );
    assert!((2 * SECOND..3 * SECOND).contains(&stands.since.as_nanos()));
    let bulk = read(&link, flood).unwrap();
    let Reason::StandingQueue(ms) = bulk.reason else {
        panic!("{bulk:?}");
    };
    assert!(
        bulk.class == Class::Bulk && (250..1000).contains(&ms),
        "{bulk:?}"
    );
    // With a standing queue it stays so, and since then.
    link.run(20 * SECOND);
    assert_eq!(read(&link, flood), Some(bulk));
    assert_eq!(link.scheduler.standing(FlowId(4096)), None);
}

/// The buffer holds 70 packets, of which each download has one or two; a frame is 24.
#[test]
fn a_frame_beside_many_downloads_keeps_its_packets_in_a_small_buffer() {
    let mut link = Link::new(70, &MBIT10);
    let frames = Source::Stream {
        burst: 24,
        len: 1250,
        period: 80 * MS,
        from: 0,
        to: u64::MAX,
    };
    let stream = link.flow(0, frames);
    for _ in 0..100 {
        link.flow(0, download(40));
    }
    link.run(30 * SECOND);
    let on_time = link.on_time(stream, 5 * SECOND, 30 * SECOND - 200 * MS, 100 * MS);
    assert!(on_time > 0.99, "{on_time}");
}

/// The class of a flow with these packets in its windows, and why, beside four downloads and a stream with which it has more than
/// half of the link, so that it is asked; with 447 packets the link is full.
fn judged(packets: &'static [u64], windows: u64) -> (Class, Reason) {
    let mut link = Link::new(200, &MBIT10);
    let flow = link.flow(0, Source::Windows(packets));
    link.flow(0, Source::Windows(&[150]));
    for _ in 0..4 {
        link.flow(0, download(40));
    }
    link.run((windows << WINDOW_BITS) + 50 * MS);
    let standing = link.scheduler.standing(FlowId(link.flows[flow].id));
    let standing = standing.unwrap();
    (standing.class, standing.reason)
}

/// Packets of a flow that were dropped or wait.
fn missing(link: &Link, flow: usize) -> usize {
    let came = link.flows[flow].came.iter();
    came.filter(|(_, delay)| delay.is_none()).count()
}

#[test]
fn a_flow_that_is_asked_stands_if_it_goes_on_as_before() {
    assert_eq!(judged(&[100], 12), (Class::Standing, Reason::NoQueue));
    assert_eq!(
        judged(&[100, 100, 85, 80, 95], 12),
        (Class::Standing, Reason::NoQueue)
    );
    assert_eq!(
        judged(&[100, 100, 110, 120, 130], 12),
        (Class::Standing, Reason::NoQueue)
    );
    // It doubles in the middle of the window in which it is asked first.
    assert_eq!(
        judged(&[70, 105, 140], 12),
        (Class::Standing, Reason::NoQueue)
    );
}

#[test]
fn a_flow_that_falls_and_has_it_back_when_the_question_ends_is_bulk() {
    let bulk = (Class::Bulk, Reason::RespondsToLoss);
    assert_eq!(judged(&[100, 100, 85, 80, 125], 5), bulk);
    assert_eq!(judged(&[100, 100, 85, 60], 4), bulk);
    assert_eq!(judged(&[100, 100, 40], 3), bulk);
}

#[test]
fn a_flow_that_grows_while_it_is_asked_is_bulk() {
    let bulk = (Class::Bulk, Reason::Grew);
    assert_eq!(judged(&[100, 100, 105, 150], 4), bulk);
    assert_eq!(judged(&[100, 100, 110, 130, 160], 5), bulk);
    // In standing it takes the link.
    const TAKES: &[u64] = &[100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 230];
    assert_eq!(judged(TAKES, 10).0, Class::Standing);
    assert_eq!(judged(TAKES, 12), bulk);
}

/// Packets lost of a flow that begins at 4 s beside four downloads, with these rates in Mbit/s, each for half a second but the last.
fn lost_while_it_grows(rates: &[f64]) -> (usize, Class) {
    let mut link = Link::new(200, &MBIT10);
    for _ in 0..4 {
        link.flow(0, download(40));
    }
    let half = SECOND / 2;
    let parts: Vec<usize> = (0u64..)
        .zip(rates)
        .map(|(n, rate)| {
            let stream = Source::Stream {
                burst: 1,
                len: LEN,
                period: (12_000.0 / rate * 1000.0) as u64,
                from: 4 * SECOND + n * half,
                to: 4 * SECOND
                    + if n + 1 == rates.len() as u64 {
                        100 * half
                    } else {
                        (n + 1) * half
                    },
            };
            link.flow(0, stream)
        })
        .collect();
    for part in &parts {
        link.flows[*part].id = link.flows[parts[0]].id;
    }
    link.run(19 * SECOND);
    let lost = parts.iter().map(|part| missing(&link, *part)).sum();
    let standing = link.scheduler.standing(FlowId(link.flows[parts[0]].id));
    (lost, standing.unwrap().class)
}

#[test]
fn a_flow_that_leaves_half_of_the_link_to_bulk_is_not_asked_as_it_begins() {
    let (lost, class) = lost_while_it_grows(&[0.8, 1.6, 3.0, 4.0, 4.5]);
    assert!(lost <= 1 && class == Class::Standing, "{lost}, {class:?}");
}

#[test]
fn a_flow_that_goes_on_growing_in_standing_is_asked() {
    // TCP adds a packet in each round trip.
    let grows: Vec<f64> = (0..28).map(|n| 0.5 + f64::from(n) * 0.15).collect();
    let (lost, _) = lost_while_it_grows(&grows);
    assert!(lost > 5, "{lost}");
}

/// Packets lost of a flow that has a link for itself for 8 s, until downloads begin, and its class in time.
fn beside_downloads(packets: &'static [u64]) -> (usize, Class) {
    let mut link = Link::new(200, &MBIT10);
    let flow = link.flow(0, Source::Windows(packets));
    for _ in 0..4 {
        let from = 8 * SECOND;
        let (rtt, packets) = (40 * MS, u32::MAX);
        link.flow(0, Source::Download { rtt, from, packets });
    }
    link.run(9800 * MS);
    let standing = link.scheduler.standing(FlowId(link.flows[flow].id));
    (missing(&link, flow), standing.unwrap().class)
}

#[test]
fn a_stream_that_did_not_fill_an_idle_link_is_not_asked_when_downloads_begin() {
    let (lost, class) = beside_downloads(&[330]);
    assert!(lost <= 2 && class == Class::Standing, "{lost}, {class:?}");
    // BBR fills it, and builds no queue.
    assert_eq!(beside_downloads(&[430]).1, Class::Bulk);
    // More than half as much again as it has shown, and the link is full.
    const TAKES: &[u64] = &[
        220, 220, 220, 220, 220, 220, 220, 220, 220, 220, 220, 220, 220, 220, 220, 220, 360,
    ];
    assert_eq!(beside_downloads(TAKES).1, Class::Bulk);
}

/// A stream of 1.806 Mbit/s over a link of 2 Mbit/s, of which bulk has 0.195: a packet or two of it always wait.
#[test]
fn a_queue_from_which_packets_leave_soon_does_not_stand() {
    let mut link = Link::new(200, &[(0, 2_000_000)]);
    let stream = Source::Stream {
        burst: 1,
        len: 1225,
        period: 5426 * MS / 1000,
        from: 0,
        to: u64::MAX,
    };
    let stream = link.flow(0, stream);
    for _ in 0..10 {
        let from = 6 * SECOND;
        let (rtt, packets) = (40 * MS, u32::MAX);
        link.flow(0, Source::Download { rtt, from, packets });
    }
    link.run(20 * SECOND);
    let on_time = link.on_time(stream, 6 * SECOND, 19 * SECOND, 50 * MS);
    assert!(on_time > 0.99, "{on_time}");
}

/// The time from `from` on after which the class of `flow` is `class`, in steps of 50 ms.
fn waits_for(link: &mut Link, flow: usize, from: u64, class: Class) -> u64 {
    let id = FlowId(link.flows[flow].id);
    let mut steps = (0..800).map(|step| from + step * 50 * MS);
    let found = steps.find(|at| {
        link.run(*at);
        link.scheduler.standing(id).unwrap().class == class
    });
    found.unwrap() - from
}

#[test]
fn a_queue_may_stand_for_eight_seconds_after_a_long_time_in_standing() {
    let mut link = Link::new(200, &MBIT10);
    let stream = |rate: u64, from, to| Source::Stream {
        burst: 1,
        len: LEN,
        period: u64::from(LEN) * 8 * SECOND / rate,
        from,
        to,
    };
    let flow = link.flow(0, stream(7_000_000, 0, 45 * SECOND));
    let more = link.flow(0, stream(9_800_000, 45 * SECOND, 70 * SECOND));
    link.flows[more].id = link.flows[flow].id;
    link.flow(0, stream(20_000_000, 6 * SECOND, 70 * SECOND));
    link.run(45 * SECOND);
    let stood = waits_for(&mut link, flow, 45 * SECOND, Class::Bulk);
    assert!((7900 * MS..8600 * MS).contains(&stood), "{stood}");
}

#[test]
fn a_stream_that_fell_is_let_up_with_less_than_it_has_shown() {
    let mut link = Link::new(200, &MBIT10);
    let stream = |burst, from, to| Source::Stream {
        burst,
        len: LEN,
        period: 60 * MS,
        from: from * SECOND,
        to: to * SECOND,
    };
    // 4, then 12, then 1.6 Mbit/s, beside 3 downloads.
    let flow = link.flow(0, stream(20, 0, 6));
    for (burst, from, to) in [(60, 6, 9), (8, 9, 60)] {
        let part = link.flow(0, stream(burst, from, to));
        link.flows[part].id = link.flows[flow].id;
    }
    for _ in 0..3 {
        let from = 5 * SECOND;
        let (rtt, packets) = (40 * MS, u32::MAX);
        link.flow(0, Source::Download { rtt, from, packets });
    }
    waits_for(&mut link, flow, 6 * SECOND, Class::Bulk);
    let waited = waits_for(&mut link, flow, 9 * SECOND, Class::New);
    assert!((8 * SECOND..12 * SECOND).contains(&waited), "{waited}");
}

/// The longest delay of a stream in standing that brings a tenth more than the link carries for a second, beside a flood.
fn longest_delay(rate: u64, packets: &'static [u64]) -> u64 {
    let mut link = Link::new(400, &[(0, rate)]);
    let stream = link.flow(0, Source::Windows(packets));
    let flood = Source::Stream {
        burst: 1,
        len: LEN,
        period: u64::from(LEN) * 8 * SECOND / rate,
        from: 5 * SECOND,
        to: u64::MAX,
    };
    link.flow(0, flood);
    link.run(14 << WINDOW_BITS);
    let standing = link.scheduler.standing(FlowId(link.flows[stream].id));
    assert_eq!(standing.unwrap().class, Class::Standing);
    let delays = link.flows[stream].came.iter();
    delays.filter_map(|(_, delay)| *delay).max().unwrap()
}

#[test]
fn the_deadline_of_a_packet_in_standing_is_longer_on_a_slow_link() {
    const FAST: &[u64] = &[
        330, 330, 330, 330, 330, 330, 330, 330, 330, 330, 330, 330, 490,
    ];
    const SLOW: &[u64] = &[66, 66, 66, 66, 66, 66, 66, 66, 66, 66, 66, 66, 98];
    const SLOWER: &[u64] = &[33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 49];
    for (rate, packets, deadline) in [
        (10_000_000, FAST, 75.0),
        (2_000_000, SLOW, 98.4),
        (1_000_000, SLOWER, 125.0),
    ] {
        let delay = longest_delay(rate, packets) as f64 / 1e6;
        assert!(
            (0.9 * deadline..=1.01 * deadline).contains(&delay),
            "{rate}: {delay} ms"
        );
    }
}

/// The classes of a flow that starves beside eight downloads, and brings twice as much in the windows after those in which it
/// has shown that.
fn grows_on_probation() -> Vec<Standing> {
    const GROWS: &[u64] = &[200, 200, 200, 200, 420, 420, 200];
    let mut link = Link::new(200, &MBIT10);
    let flow = link.flow(0, Source::Windows(GROWS));
    for _ in 0..8 {
        link.flow(0, download(40));
    }
    let mut changes: Vec<Standing> = Vec::new();
    for step in 1..=800 {
        link.run(step * 25 * MS);
        let standing = link.scheduler.standing(FlowId(link.flows[flow].id));
        changes.extend(standing.filter(|now| changes.last() != Some(now)));
    }
    changes
}

#[test]
fn a_flow_that_grows_on_probation_falls_as_soon_as_it_has() {
    let changes = grows_on_probation();
    let fell = changes.iter().find(|change| change.reason == Reason::Grew);
    let part = fell.unwrap().since.as_nanos() & ((1 << WINDOW_BITS) - 1);
    // 300 packets of 420: 5/7 of the window.
    assert!((380 * MS..400 * MS).contains(&part), "{part}");
}

#[test]
fn a_flow_that_grew_on_probation_waits_longer_for_the_next() {
    let changes = grows_on_probation();
    let waited = |reason: fn(Reason) -> bool| {
        let mut pairs = changes.windows(2);
        let found = pairs.find(|pair| pair[1].class == Class::Probation && reason(pair[0].reason));
        let [before, after] = found.unwrap() else {
            unreachable!();
        };
        after.since.saturating_since(before.since).as_nanos() >> WINDOW_BITS
    };
    let first = waited(|why| matches!(why, Reason::StandingQueue(_)));
    let second = waited(|why| why == Reason::Grew);
    // Two windows, and four.
    assert!((2..4).contains(&first) && second >= 4, "{first}, {second}");
}

#[test]
fn a_flow_that_is_silent_is_forgotten() {
    let mut link = Link::new(100, &MBIT10);
    let bulk = link.flow(0, video());
    for _ in 0..5 {
        link.flow(0, download(10));
    }
    // Too much for the link: bulk for certain.
    let flood = link.flow(
        0,
        Source::Stream {
            burst: 20,
            len: LEN,
            period: 10 * MS,
            from: 0,
            to: 4 * SECOND,
        },
    );
    link.run(8 * SECOND);
    assert!(link.on_time(flood, 2 * SECOND, 4 * SECOND, 150 * MS) < 0.5);
    // The same flow again, as a call's first second, with more than its fair share.
    let again = link.flows.len();
    link.flow(
        0,
        Source::Stream {
            burst: 5,
            len: 1000,
            period: 20 * MS,
            from: 8 * SECOND,
            to: 9 * SECOND,
        },
    );
    link.flows[again].id = link.flows[flood].id;
    link.run(10 * SECOND);
    // The question costs a packet of 16.
    let on_time = link.on_time(again, 8 * SECOND, 9 * SECOND, 100 * MS);
    assert!(on_time > 0.9, "{on_time}");
    assert!(link.on_time(bulk, 5 * SECOND, 8 * SECOND, 150 * MS) > 0.99);
}

#[test]
fn a_stream_keeps_its_standing_after_a_stall_that_lets_a_second_of_it_go_at_once() {
    let mut link = Link::new(100, &MBIT10);
    let parts = [(0, 10), (11, 20)].map(|(from, to)| {
        let stream = Source::Stream {
            burst: 1,
            len: 1470,
            period: 40 * MS / 17,
            from: from * SECOND,
            to: to * SECOND,
        };
        link.flow(0, stream)
    });
    let held_back = link.flow(
        0,
        Source::Stream {
            burst: 425,
            len: 1470,
            period: SECOND,
            from: 11 * SECOND,
            to: 11 * SECOND + 1,
        },
    );
    for part in [parts[1], held_back] {
        link.flows[part].id = link.flows[parts[0]].id;
    }
    for _ in 0..10 {
        link.flow(0, download(12));
    }
    link.run(16 * SECOND);
    let on_time = link.on_time(parts[1], 11 * SECOND + 200 * MS, 15 * SECOND, 150 * MS);
    assert!(on_time > 0.99, "{on_time}");
}
