// SPDX-License-Identifier: MIT OR Apache-2.0
//! RACK-TLP and proportional rate reduction beyond RFC 6675.

use crate::pipe::{Fate, LOST, Pipe, untouched};
use makeway_core::units::{Bytes, Duration, Instant, Rate};
use makeway_sim::tcp::{Config, DelayedAck, Recovery, Segment, Stats, Variant};

const MSS: u64 = 1448;

fn with(recovery: Recovery) -> Config {
    Config {
        recovery,
        delayed_ack: DelayedAck::Off,
        ..Config::linux(Variant::Sack)
    }
}

/// Departures of `segments`, in ms and segments: 10 segments a ms, 100 ms of round trip.
fn sent(
    config: &Config,
    segments: u64,
    fate: impl FnMut(usize, &Segment) -> Fate,
) -> (Vec<(u64, u64)>, Stats) {
    let rate = Rate::from_bps(8 * MSS * 10_000);
    let mut pipe = Pipe::new(config, rate, Duration::from_millis(50), fate, untouched);
    pipe.sender.send(Bytes::new(segments * MSS));
    assert!(pipe.run(Instant::ZERO + Duration::from_secs(60)));
    let sent = pipe.sent.iter();
    let sent = sent.map(|(at, s)| (at.as_nanos() / 1_000_000, s.seq / MSS));
    (sent.collect(), pipe.sender.stats())
}

/// Number of first copies of these that are lost.
fn lose(which: &'static [u64], copies: u32) -> impl FnMut(usize, &Segment) -> Fate {
    let mut seen = [0; 100];
    move |_, segment| {
        let n = (segment.seq / MSS) as usize;
        seen[n] += 1;
        match which.contains(&(n as u64)) && seen[n] <= copies {
            true => LOST,
            false => Fate::default(),
        }
    }
}

#[test]
fn a_lost_tail_is_probed_before_the_timer_expires() {
    let lost = || lose(&[8, 9], 1);
    let (seen, stats) = sent(&with(Recovery::RackPrr), 10, lost());
    assert_eq!((stats.timeouts, stats.probes), (0, 1));
    // The eighth arrives at 101 ms; two round trips later 9 goes out, and what it tells shows
    // that 8 is lost a quarter of a round trip after.
    assert_eq!(seen[10..], [(301, 9), (426, 8)]);
    // RFC 6298: 200 ms beyond a round trip, and what 9 would have told comes after that.
    let (seen, stats) = sent(&with(Recovery::SackPrr), 10, lost());
    assert_eq!((stats.timeouts, stats.probes), (1, 0));
    assert_eq!(seen[10..], [(401, 8), (501, 9)]);
}

#[test]
fn the_last_segment_comes_back_by_the_probe() {
    let (seen, stats) = sent(&with(Recovery::RackPrr), 10, lose(&[9], 1));
    assert_eq!((stats.timeouts, stats.probes), (0, 1));
    assert_eq!(seen[10..], [(401, 9)]);
}

#[test]
fn a_retransmission_that_is_lost_is_sent_again_within_a_round_trip() {
    let lost = || lose(&[11], 3);
    let (seen, stats) = sent(&with(Recovery::RackPrr), 90, lost());
    assert_eq!((stats.timeouts, stats.fast_retransmits), (0, 1));
    let again = seen.iter().filter(|s| s.1 == 11).map(|s| s.0);
    let again: Vec<u64> = again.collect();
    assert_eq!(again.len(), 4);
    assert!(again.windows(2).all(|w| w[1] - w[0] <= 103), "{again:?}");
    let (_, stats) = sent(&with(Recovery::SackPrr), 90, lost());
    assert!(stats.timeouts > 0);
}

#[test]
fn a_segment_that_two_overtake_has_a_quarter_of_a_round_trip() {
    for (ms, again) in [(20, 0), (30, 1)] {
        let late = move |_, segment: &Segment| Fate {
            late: match segment.seq / MSS == 7 && !segment.retransmitted {
                true => Duration::from_millis(ms),
                false => Duration::ZERO,
            },
            ..Fate::default()
        };
        let (_, stats) = sent(&with(Recovery::RackPrr), 10, late);
        assert_eq!(stats.retransmitted, again);
    }
}

#[test]
fn after_a_timeout_losses_are_sent_again_as_the_window_grows() {
    // All of the first window.
    let lost = lose(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 1);
    let (seen, stats) = sent(&with(Recovery::RackPrr), 20, lost);
    assert_eq!((stats.timeouts, stats.probes), (1, 0));
    // After the first second one, two, then four: slow start up to half of the window.
    let rounds = [1000, 1100, 1200, 1300].map(|ms| {
        let round = seen.iter().filter(|s| (ms..ms + 100).contains(&s.0));
        round.map(|s| s.1).collect::<Vec<_>>()
    });
    assert_eq!(rounds[..3], [vec![0], vec![1, 2], vec![3, 4, 5, 6]]);
}

#[test]
fn a_proportional_reduction_is_never_silent() {
    // One loss in a window of forty, at one segment a ms.
    let longest = |recovery| {
        let config = Config {
            initial_window: 40,
            ..with(recovery)
        };
        let rate = Rate::from_bps(8 * MSS * 1000);
        let delay = Duration::from_millis(20);
        let mut pipe = Pipe::new(&config, rate, delay, lose(&[5], 1), untouched);
        pipe.sender.send(Bytes::new(100 * MSS));
        assert!(pipe.run(Instant::ZERO + Duration::from_secs(60)));
        let after = pipe.sent[40..].windows(2);
        let silences = after.map(|w| w[1].0.saturating_since(w[0].0));
        silences.max().unwrap_or_default()
    };
    // Every second acknowledgement sends, after what limited transmit and the retransmission had
    // anticipated; against half a window of waiting.
    assert_eq!(longest(Recovery::RackPrr), Duration::from_millis(4));
    assert_eq!(longest(Recovery::SackPrr), Duration::from_millis(4));
    assert!(longest(Recovery::Sack) > Duration::from_millis(20));
}
