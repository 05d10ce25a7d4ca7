// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single rules, seen from outside: departures and their times.

use crate::pipe::{Fate, LOST, Pipe, untouched};
use makeway_core::units::{Bytes, Duration, Instant, Rate};
use makeway_sim::tcp::{
    Config, DelayedAck, Halved, LimitedTransmit, Receiver, Recovery, Segment, Sender, Variant,
};

fn at_ms(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn drain(sender: &mut Sender, now: Instant) -> Vec<Segment> {
    std::iter::from_fn(|| sender.poll_transmit(now)).collect()
}

/// A sender with its initial window of ten out, at 0 ms, and the receiver that has none of it yet.
fn ten_out(config: &Config) -> (Sender, Receiver, Vec<Segment>) {
    let mut sender = Sender::new(config);
    sender.send_endless();
    let sent = drain(&mut sender, at_ms(0));
    assert_eq!(sent.len(), 10);
    (sender, Receiver::new(config), sent)
}

fn linux(variant: Variant) -> Config {
    Config {
        delayed_ack: DelayedAck::Off,
        // As the RFCs have it.
        halved: Halved::Outstanding,
        whole_segments: false,
        counts_delivered: false,
        recovery: Recovery::Sack,
        ..Config::linux(variant)
    }
}

#[test]
fn what_ends_a_recovery_grows_the_window_by_what_had_not_arrived_before() {
    // The first of ten is lost. Its retransmission acknowledges all ten, of which nine were known.
    let cwnd = |counts_delivered| {
        let config = Config {
            counts_delivered,
            limited_transmit: LimitedTransmit::Off,
            ..linux(Variant::Sack)
        };
        let (mut sender, mut receiver, sent) = ten_out(&config);
        let mut again = Vec::new();
        for segment in &sent[1..] {
            let ack = receiver.on_segment(at_ms(50), segment, false).unwrap();
            sender.on_ack(at_ms(100), &ack);
            again.extend(
                drain(&mut sender, at_ms(100))
                    .into_iter()
                    .filter(|s| s.seq == 0),
            );
        }
        let ack = receiver.on_segment(at_ms(150), &again[0], false).unwrap();
        assert!(sender.in_recovery());
        sender.on_ack(at_ms(200), &ack);
        assert!(!sender.in_recovery());
        sender.cwnd().get()
    };
    // A fifth of a segment in a window of five.
    assert_eq!(cwnd(false), 5 * 1448);
    assert_eq!(cwnd(true), 5 * 1448 + 1448 / 5);
}

#[test]
fn the_first_two_duplicates_let_a_new_segment_out_each() {
    // RFC 3042; for SACK RFC 6675 §5 (3).
    for variant in Variant::LOSS_BASED {
        for on in [true, false] {
            let config = Config {
                limited_transmit: match on {
                    true => LimitedTransmit::New,
                    false => LimitedTransmit::Off,
                },
                ..linux(variant)
            };
            let (mut sender, mut receiver, sent) = ten_out(&config);
            for segment in &sent[1..3] {
                let ack = receiver.on_segment(at_ms(50), segment, false).unwrap();
                sender.on_ack(at_ms(100), &ack);
                let new = drain(&mut sender, at_ms(100));
                assert_eq!(new.len(), usize::from(on), "{variant:?}");
                assert!(new.iter().all(|s| !s.retransmitted));
            }
            let ack = receiver.on_segment(at_ms(50), &sent[3], false).unwrap();
            sender.on_ack(at_ms(100), &ack);
            assert_eq!(sender.poll_transmit(at_ms(100)).unwrap().seq, 0);
            // The two extra segments are not part of FlightSize.
            let half = if variant == Variant::Cubic { 7 } else { 5 };
            assert_eq!(sender.ssthresh(), Bytes::new(half * 1448), "{variant:?}");
        }
    }
}

#[test]
fn the_timer_doubles_and_the_threshold_is_halved_once_for_a_segment() {
    let (mut sender, _, _) = ten_out(&linux(Variant::Reno));
    assert_eq!(sender.next_timeout(), Some(at_ms(1000)));
    sender.on_timeout(at_ms(999));
    assert_eq!(sender.stats().timeouts, 0);
    for (at, next) in [(1000, 3000), (3000, 7000), (7000, 15_000)] {
        sender.on_timeout(at_ms(at));
        let sent = drain(&mut sender, at_ms(at));
        assert_eq!(sent.len(), 1);
        assert_eq!((sent[0].seq, sent[0].retransmitted), (0, true));
        assert_eq!(sender.next_timeout(), Some(at_ms(next)));
        assert_eq!(sender.ssthresh(), Bytes::new(5 * 1448));
        assert_eq!(sender.cwnd(), Bytes::new(1448));
    }
}

#[test]
fn the_timer_restarts_with_each_new_acknowledgement_and_stops_with_the_last() {
    // RFC 6298 (5.2), (5.3).
    let config = linux(Variant::Reno);
    let mut sender = Sender::new(&config);
    let mut receiver = Receiver::new(&config);
    sender.send(Bytes::new(2 * 1448));
    let sent = drain(&mut sender, at_ms(0));
    let ack = receiver.on_segment(at_ms(50), &sent[0], false).unwrap();
    sender.on_ack(at_ms(100), &ack);
    // 100 ms + max(200, 4 * 50).
    assert_eq!(sender.next_timeout(), Some(at_ms(400)));
    let ack = receiver.on_segment(at_ms(60), &sent[1], false).unwrap();
    sender.on_ack(at_ms(110), &ack);
    assert_eq!(sender.next_timeout(), None);
    assert!(sender.is_done());
}

#[test]
fn without_timestamps_nothing_that_was_sent_twice_is_measured() {
    // Karn: RFC 6298 §3.
    let config = Config {
        timestamps: false,
        ..linux(Variant::Reno)
    };
    let (mut sender, mut receiver, sent) = ten_out(&config);
    sender.on_timeout(at_ms(1000));
    let again = drain(&mut sender, at_ms(1000));
    for segment in [&sent[0], &again[0]] {
        let ack = receiver.on_segment(at_ms(1050), segment, false).unwrap();
        assert_eq!(ack.echo(), None);
        sender.on_ack(at_ms(1100), &ack);
    }
    assert_eq!(sender.srtt(), None);
    assert_eq!(sender.rto(), Duration::from_secs(2));
}

#[test]
fn late_duplicates_after_a_timeout_start_no_recovery() {
    // RFC 6582 §3.2 (4), RFC 6675 §5.1.
    for variant in Variant::LOSS_BASED {
        let (mut sender, mut receiver, sent) = ten_out(&linux(variant));
        let late: Vec<_> = sent[1..6]
            .iter()
            .map(|s| receiver.on_segment(at_ms(50), s, false).unwrap())
            .collect();
        sender.on_timeout(at_ms(1000));
        assert_eq!(drain(&mut sender, at_ms(1000)).len(), 1);
        for ack in &late {
            sender.on_ack(at_ms(1010), ack);
        }
        assert_eq!(drain(&mut sender, at_ms(1010)), []);
        assert_eq!(sender.stats().fast_retransmits, 0, "{variant:?}");
    }
}

#[test]
fn a_partial_acknowledgement_deflates_by_what_it_acknowledges() {
    // RFC 6582 §3.2 (3): segments 0 and 5 of ten are lost.
    let config = Config {
        limited_transmit: LimitedTransmit::Off,
        ..linux(Variant::NewReno)
    };
    let (mut sender, mut receiver, sent) = ten_out(&config);
    for n in [1, 2, 3, 4, 6, 7, 8, 9] {
        let ack = receiver.on_segment(at_ms(50), &sent[n], false).unwrap();
        sender.on_ack(at_ms(100), &ack);
    }
    // 5 + 8 segments' window: the first again, and 10 to 12.
    assert_eq!(sender.cwnd(), Bytes::new(13 * 1448));
    let first = drain(&mut sender, at_ms(100));
    assert_eq!(first.len(), 4);
    let ack = receiver.on_segment(at_ms(150), &first[0], false).unwrap();
    sender.on_ack(at_ms(200), &ack);
    // 13 - 5 + 1.
    assert_eq!(sender.cwnd(), Bytes::new(9 * 1448));
    let second = drain(&mut sender, at_ms(200));
    let numbers: Vec<_> = second.iter().map(|s| s.seq / 1448).collect();
    assert_eq!(numbers, [5, 13]);
    // Full: back to half.
    let ack = receiver.on_segment(at_ms(250), &second[0], false).unwrap();
    sender.on_ack(at_ms(300), &ack);
    assert!(!sender.in_recovery());
    assert!(sender.cwnd() >= Bytes::new(5 * 1448) && sender.cwnd() < Bytes::new(6 * 1448));
}

#[test]
fn of_partial_acknowledgements_the_first_alone_restarts_the_timer() {
    // RFC 6582 §3.2 (3): segments 0, 3 and 6 of ten are lost.
    let (mut sender, mut receiver, sent) = ten_out(&linux(Variant::NewReno));
    for n in [1, 2, 4, 5, 7, 8, 9] {
        let ack = receiver.on_segment(at_ms(50), &sent[n], false).unwrap();
        sender.on_ack(at_ms(100), &ack);
    }
    assert_eq!(sender.next_timeout(), Some(at_ms(1100)));
    // 200 ms + SRTT 100 ms + 200 ms.
    for (now, next) in [(200, 500), (300, 500)] {
        let again = drain(&mut sender, at_ms(now - 100))[0];
        assert!(again.retransmitted);
        let ack = receiver.on_segment(at_ms(now - 50), &again, false).unwrap();
        sender.on_ack(at_ms(now), &ack);
        assert_eq!(sender.next_timeout(), Some(at_ms(next)));
    }
}

#[test]
fn marks_are_answered_once_in_a_window() {
    let config = Config {
        ecn: true,
        ..linux(Variant::NewReno)
    };
    let (mut sender, mut receiver, sent) = ten_out(&config);
    let mut answers = 0;
    for segment in &sent {
        let ack = receiver.on_segment(at_ms(50), segment, true).unwrap();
        sender.on_ack(at_ms(100), &ack);
        answers += drain(&mut sender, at_ms(100))
            .iter()
            .filter(|s| s.cwr)
            .count();
    }
    assert_eq!(sender.stats().ecn_reductions, 1);
    assert_eq!(sender.cwnd(), Bytes::new(5 * 1448));
    assert_eq!(answers, 1);
    assert_eq!(sender.stats().retransmitted, 0);
}

#[test]
fn a_window_that_rested_starts_again_from_the_initial_one() {
    // RFC 5681 §4.1.
    let config = linux(Variant::Sack);
    let mut pipe = Pipe::lossless(
        &config,
        Rate::from_bps(100_000_000),
        Duration::from_millis(50),
    );
    pipe.sender.send(Bytes::new(200 * 1448));
    assert!(pipe.run(at_ms(60_000)));
    assert!(pipe.sender.cwnd() > Bytes::new(100 * 1448));
    pipe.sender.send_endless();
    let burst = drain(&mut pipe.sender, at_ms(60_000));
    assert_eq!(burst.len(), 10);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let config = linux(Variant::Reno);
    let mut pipe = Pipe::lossless(
        &config,
        Rate::from_bps(100_000_000),
        Duration::from_millis(50),
    );
    for _ in 0..50 {
        pipe.sender.send(Bytes::new(1448));
        assert!(pipe.run(at_ms(60_000)));
    }
    assert_eq!(pipe.sender.cwnd(), Bytes::new(10 * 1448));
}

#[test]
fn the_tail_of_a_window_is_rescued_without_the_timer() {
    // RFC 6675 §4, NextSeg (4): segments 5 and 9 of ten are lost, nothing new is there to send.
    let config = linux(Variant::Sack);
    let mut pipe = Pipe::new(
        &config,
        Rate::from_bps(100_000_000),
        Duration::from_millis(50),
        |n, _| {
            if n == 5 || n == 9 {
                LOST
            } else {
                Fate::default()
            }
        },
        untouched,
    );
    pipe.sender.send(Bytes::new(10 * 1448));
    assert!(pipe.run(at_ms(60_000)));
    assert_eq!(pipe.sender.stats().timeouts, 0);
    // The loss is seen at 100 ms; half a window holds 9 back until 5 is acknowledged.
    assert!(pipe.now < at_ms(302), "{:?}", pipe.now);
}

#[test]
fn after_a_timeout_only_what_is_missing_is_sent_again() {
    // Segments 1 and 3 are lost, and so are their first retransmissions.
    let config = linux(Variant::Sack);
    let mut copies = [0; 10];
    let mut pipe = Pipe::new(
        &config,
        Rate::from_bps(100_000_000),
        Duration::from_millis(50),
        move |_, s| {
            let n = (s.seq / 1448) as usize;
            copies[n] += 1;
            match [1, 3].contains(&n) && copies[n] < 3 {
                true => LOST,
                false => Fate::default(),
            }
        },
        untouched,
    );
    pipe.sender.send(Bytes::new(10 * 1448));
    assert!(pipe.run(at_ms(60_000)));
    let stats = pipe.sender.stats();
    assert_eq!(stats.timeouts, 1);
    // 1 and 3, and in case it is the tail 9; after the timeout 1 and 3 once more, not 2 or 4.
    let again = pipe.sent.iter().filter(|(_, s)| s.retransmitted);
    let again: Vec<_> = again.map(|(_, s)| s.seq / 1448).collect();
    assert_eq!(again, [1, 3, 9, 1, 3]);
}

#[test]
fn cubic_fills_a_long_path_sooner_than_newreno() {
    // 100 Mbit/s, 200 ms: one loss at a window of some 2000 segments.
    let bytes = |variant| {
        let config = Config {
            initial_ssthresh: Bytes::new(1500 * 1448),
            window: Bytes::new(2000 * 1448),
            ..linux(variant)
        };
        let mut pipe = Pipe::new(
            &config,
            Rate::from_bps(100_000_000),
            Duration::from_millis(100),
            |n, _| if n == 4000 { LOST } else { Fate::default() },
            untouched,
        );
        pipe.sender.send_endless();
        pipe.run(at_ms(20_000));
        assert_eq!(pipe.sender.stats().fast_retransmits, 1);
        assert_eq!(pipe.sender.stats().timeouts, 0);
        pipe.receiver.delivered().get()
    };
    let (cubic, reno) = (bytes(Variant::Cubic), bytes(Variant::Sack));
    assert!(cubic > reno + reno / 8, "{cubic} {reno}");
}
