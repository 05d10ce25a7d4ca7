// SPDX-License-Identifier: MIT OR Apache-2.0
//! One to four segments of a window lost: K. Fall, S. Floyd, "Simulation-based Comparisons of Tahoe,
//! Reno, and SACK TCP", ACM CCR 26(3), 1996, with its losses: segments 14, 26, 24, 28 of a slow start.
//!
//! By hand: segment 14 is the eighth and last of its round. The seven acknowledged before it let
//! 15 to 28 out, so that the window is 15 when the duplicates begin, and half of that 7.5; slow start ends at 7.

use crate::pipe::{Pipe, drops, untouched};
use makeway_core::units::{Bytes, Duration, Instant, Rate};
use makeway_sim::tcp::{Config, Halved, Stats, Variant};

const RTT: Duration = Duration::from_millis(200);

struct Seen {
    stats: Stats,
    ssthresh: u64,
    /// Segments sent again, and when.
    again: Vec<(Instant, u64)>,
}

impl Seen {
    /// From the first segment sent again to the last.
    fn spread(&self) -> Duration {
        let first = self.again[0].0;
        self.again[self.again.len() - 1].0.saturating_since(first)
    }

    fn segments(&self) -> Vec<u64> {
        self.again.iter().map(|(_, n)| *n).collect()
    }
}

fn lose(variant: Variant, lost: &'static [u64]) -> Seen {
    lose_with(&Config::ns2(variant), lost)
}

fn lose_with(config: &Config, lost: &'static [u64]) -> Seen {
    let config = Config {
        window: Bytes::new(100_000),
        initial_ssthresh: Bytes::new(100_000),
        ..*config
    };
    // 1 ms for each segment: a window is sent within a round trip.
    let rate = Rate::from_bps(8_000_000);
    let fates = drops(config.mss, lost);
    let mut pipe = Pipe::new(&config, rate, RTT / 2, fates, untouched);
    pipe.sender.send(Bytes::new(80_000));
    assert!(pipe.run(Instant::ZERO + Duration::from_secs(60)));
    assert_eq!(pipe.receiver.delivered(), Bytes::new(80_000));
    let again = pipe.sent.iter().filter(|(_, s)| s.retransmitted);
    Seen {
        stats: pipe.sender.stats(),
        ssthresh: pipe.sender.ssthresh().get(),
        again: again.map(|(at, s)| (*at, s.seq / 1000)).collect(),
    }
}

const ONE: &[u64] = &[14];
const TWO: &[u64] = &[14, 28];
const THREE: &[u64] = &[14, 26, 28];
const FOUR: &[u64] = &[14, 24, 26, 28];

#[test]
fn one_loss_is_found_by_three_duplicates_whatever_the_variant() {
    for variant in Variant::LOSS_BASED {
        let seen = lose(variant, ONE);
        assert_eq!(seen.segments(), ONE, "{variant:?}");
        assert_eq!((seen.stats.timeouts, seen.stats.fast_retransmits), (0, 1));
        let half = match variant {
            Variant::Cubic => 10_000,
            _ => 7_000,
        };
        assert_eq!(seen.ssthresh, half, "{variant:?}");
    }
}

#[test]
fn tahoe_never_waits_for_the_timer_but_sends_again_what_had_arrived() {
    for lost in [TWO, THREE, FOUR] {
        let seen = lose(Variant::Tahoe, lost);
        assert_eq!(seen.stats.timeouts, 0, "{lost:?}");
        assert_eq!(seen.stats.fast_retransmits, 1, "{lost:?}");
        assert_eq!(seen.ssthresh, 7_000);
    }
    assert_eq!(lose(Variant::Tahoe, TWO).segments(), [14, 28]);
    // 27 is between two that were lost.
    assert_eq!(lose(Variant::Tahoe, THREE).segments(), [14, 26, 27, 28]);
}

#[test]
fn reno_halves_twice_for_two_losses_and_waits_for_the_timer_from_three_on() {
    let two = lose(Variant::Reno, TWO);
    assert_eq!((two.stats.timeouts, two.stats.fast_retransmits), (0, 2));
    assert_eq!(two.segments(), TWO);
    // Seven outstanding, 28 to 34, in a window of 7.5.
    assert_eq!(two.ssthresh, 3_000);
    for lost in [THREE, FOUR] {
        let seen = lose(Variant::Reno, lost);
        assert_eq!(seen.stats.timeouts, 1, "{lost:?}");
        assert!(seen.spread() > Duration::from_secs(1), "{lost:?}");
    }
}

#[test]
fn newreno_sends_one_lost_segment_each_round_trip() {
    for lost in [ONE, TWO, THREE, FOUR] {
        let seen = lose(Variant::NewReno, lost);
        assert_eq!((seen.stats.timeouts, seen.stats.fast_retransmits), (0, 1));
        assert_eq!(seen.segments(), lost);
        assert_eq!(seen.ssthresh, 7_000);
        let rounds = lost.len() as u64 - 1;
        let spread = seen.spread();
        assert!(spread >= RTT * rounds, "{lost:?}: {spread}");
        assert!(spread < RTT * rounds + RTT / 2, "{lost:?}: {spread}");
    }
}

#[test]
fn selective_acknowledgements_fill_all_gaps_in_a_round_trip() {
    for variant in [Variant::Sack, Variant::Cubic] {
        for lost in [ONE, TWO, THREE, FOUR] {
            let seen = lose(variant, lost);
            assert_eq!((seen.stats.timeouts, seen.stats.fast_retransmits), (0, 1));
            assert_eq!(seen.segments(), lost, "{variant:?}");
            // The last of the window is known to be lost when what was sent after it arrives.
            assert!(seen.spread() < RTT + RTT / 4, "{lost:?}: {}", seen.spread());
        }
    }
}

#[test]
fn half_is_of_the_window_of_what_is_outstanding_or_of_the_pipe() {
    let ssthresh = |halved| {
        let config = Config {
            halved,
            ..Config::ns2(Variant::Sack)
        };
        lose_with(&config, ONE).ssthresh
    };
    // 15 segments are outstanding, three have arrived beyond the lost one.
    assert_eq!(ssthresh(Halved::Window), 7_000);
    assert_eq!(ssthresh(Halved::Outstanding), 7_000);
    assert_eq!(ssthresh(Halved::Pipe), 5_000);
}
