// SPDX-License-Identifier: MIT OR Apache-2.0
//! A controller that is told the link's rates and the waits before it: it detects and searches nothing. No link tells them, so it is no
//! rival. Its delay is the floor: that of senders, which take a round trip to follow a rate that has fallen.

use makeway_core::autorate::{Bounds, Rates};
use makeway_core::units::{Duration, Instant};

use super::{Algorithm, Seen, rates, within};
use crate::autorate::probes::Probe;

/// The harness looks at the link as often.
const PERIOD: Duration = Duration::from_millis(10);
/// Time in which a queue before the link is to be drained, and the most of the rate that this takes: as of `makeway`.
const DRAIN: Duration = Duration::from_millis(75);
const MOST: f64 = 0.6;
/// Share of the rate that is always left. Downwards the shaper is behind the link, and at the whole rate a queue before it would stay.
const LEFT: f64 = 0.03;

pub struct Oracle {
    bounds: [Bounds; 2],
}

impl Oracle {
    pub fn new(bounds: [Bounds; 2]) -> Self {
        Self { bounds }
    }
}

impl Algorithm for Oracle {
    fn probes(&self) -> Duration {
        // It needs none, and a run has some.
        Duration::from_secs(1)
    }

    fn period(&self) -> Duration {
        PERIOD
    }

    fn on_probe(&mut self, _now: Instant, _probe: Probe) {}

    fn tick(&mut self, _now: Instant, seen: Seen) -> Rates {
        let bps = [0, 1].map(|n| {
            let (rate, wait) = seen.link[n];
            let drains = wait.as_secs_f64() / DRAIN.as_secs_f64();
            let share = 1.0 - drains.clamp(LEFT, MOST);
            within(&self.bounds[n], rate.bps() as f64 * share)
        });
        rates(bps)
    }
}

#[cfg(test)]
mod tests {
    use makeway_core::units::{Bytes, Rate};

    use super::*;

    #[test]
    fn it_takes_nearly_all_that_the_link_has_and_drains_a_queue_within_its_bounds() {
        let [first, least, most] = [14, 2, 40].map(|mbit| Rate::from_bps(mbit * 1_000_000));
        let mut oracle = Oracle::new([Bounds { first, least, most }; 2]);
        let mut mbit = |link: [(u64, u64); 2]| {
            let seen = Seen {
                bytes: [Bytes::ZERO; 2],
                backlog: [Bytes::ZERO; 2],
                link: link.map(|(mbit, ms)| {
                    let rate = Rate::from_bps(mbit * 1_000_000);
                    (rate, Duration::from_millis(ms))
                }),
            };
            let Rates { up, down } = oracle.tick(Instant::ZERO, seen);
            [up, down].map(|rate| (rate.as_mbit_f64() * 100.0).round() / 100.0)
        };
        // Without a wait, and with one of a fifth of 75 ms; at once after a change.
        assert_eq!(mbit([(20, 0), (20, 15)]), [19.4, 16.0]);
        assert_eq!(mbit([(10, 0), (10, 500)]), [9.7, 4.0]);
        assert_eq!(mbit([(1, 0), (100, 0)]), [2.0, 40.0]);
    }
}
