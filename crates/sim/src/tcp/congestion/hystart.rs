// SPDX-License-Identifier: MIT OR Apache-2.0
//! Leaving slow start before it overruns the buffer: when round trips grow longer, or when
//! acknowledgements that follow close on each other span half of the shortest round trip.
//!
//! Source: S. Ha, I. Rhee, "Taming the elephants: new TCP slow start", Computer Networks 55(9), 2011, with
//! the constants of Linux (`net/ipv4/tcp_cubic.c`), where it is part of CUBIC.
//!
//! | Linux | here |
//! | --- | --- |
//! | `delay_min`, `curr_rtt` | `least`, `least_in_round` |
//! | `round_start`, `last_ack`, `end_seq`, `sample_cnt` | the same in words |
//! | `found` | [`HyStart::update`] says it once, and the threshold ends slow start |
//!
//! Departures: no allowance for the time that a large segmentation offload takes.

use makeway_core::units::{Duration, Instant};

/// Smallest window in segments at which HyStart decides.
const LOW_WINDOW: u64 = 16;
/// Acknowledgements no further apart are of one train.
const TRAIN: Duration = Duration::from_millis(2);
/// Number of round trips whose shortest stands for the round.
const SAMPLES: u32 = 8;
/// Longer than any round trip.
const NEVER_MEASURED: Duration = Duration::from_secs(3600);
/// A round trip is longer if it is so by an eighth, within these.
const LONGER: [Duration; 2] = [Duration::from_millis(4), Duration::from_millis(16)];

/// Watches round trips in slow start.
#[derive(Clone, Debug)]
pub struct HyStart {
    least: Duration,
    least_in_round: Duration,
    samples: u32,
    round_start: Instant,
    last_ack: Instant,
    /// The round ends when this is acknowledged.
    end_seq: Option<u64>,
}

impl HyStart {
    pub fn new() -> Self {
        Self {
            least: NEVER_MEASURED,
            least_in_round: NEVER_MEASURED,
            samples: 0,
            round_start: Instant::ZERO,
            last_ack: Instant::ZERO,
            end_seq: None,
        }
    }

    /// An acknowledgement of everything before `una` came after a round trip of `rtt`, with data sent up
    /// to `nxt` and a window of `segments`. Whether slow start should end.
    pub fn update(
        &mut self,
        now: Instant,
        rtt: Duration,
        una: u64,
        nxt: u64,
        segments: u64,
    ) -> bool {
        self.least = self.least.min(rtt);
        if self.end_seq.is_none_or(|end| una > end) {
            self.begin(now, nxt);
        }
        if segments < LOW_WINDOW {
            return false;
        }
        let mut found = false;
        if now.saturating_since(self.last_ack) <= TRAIN {
            self.last_ack = now;
            found = now.saturating_since(self.round_start) > self.least / 2;
        }
        self.least_in_round = self.least_in_round.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
            return found;
        }
        let [from, to] = LONGER;
        let longer = (self.least / 8).clamp(from, to);
        found || self.least_in_round > self.least + longer
    }

    /// A new round: after a timeout too.
    pub fn begin(&mut self, now: Instant, nxt: u64) {
        self.round_start = now;
        self.last_ack = now;
        self.end_seq = Some(nxt);
        self.least_in_round = NEVER_MEASURED;
        self.samples = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    /// Rounds of `acks` acknowledgements, `apart` from each other, with this round trip in the n-th: the
    /// round and acknowledgement at which slow start ends.
    fn end(acks: u64, apart: Duration, rtt: impl Fn(u64) -> Duration) -> Option<(u64, u64)> {
        let mut hystart = HyStart::new();
        let (mut una, mut nxt) = (0, acks - 1);
        for round in 0..10 {
            for ack in 0..acks {
                let now = Instant::ZERO + RTT * (round + 1) + apart * ack;
                una += 1;
                nxt += 1;
                if hystart.update(now, rtt(round), una, nxt, 20) {
                    return Some((round, ack));
                }
            }
        }
        None
    }

    #[test]
    fn a_round_whose_shortest_round_trip_is_an_eighth_longer_ends_it() {
        let growing = |by: u64| move |round| RTT + Duration::from_millis(by * (round / 5));
        // At the ninth acknowledgement of the sixth round; an eighth of 40 ms is 5.
        let apart = Duration::from_millis(3);
        assert_eq!(end(10, apart, growing(6)), Some((5, 8)));
        assert_eq!(end(10, apart, growing(5)), None);
    }

    #[test]
    fn a_train_of_acknowledgements_over_half_of_the_round_trip_ends_it() {
        // More than 20 ms from the first of the round.
        let apart = Duration::from_millis(1);
        assert_eq!(end(30, apart, |_| RTT), Some((0, 21)));
        assert_eq!(end(20, apart, |_| RTT), None);
        assert_eq!(end(30, Duration::from_millis(3), |_| RTT), None);
    }

    #[test]
    fn a_small_window_is_left_to_grow() {
        let mut hystart = HyStart::new();
        for n in 0..100 {
            let now = Instant::ZERO + Duration::from_millis(n);
            assert!(!hystart.update(now, RTT * (n + 1), n, n + 100, 15));
        }
    }
}
