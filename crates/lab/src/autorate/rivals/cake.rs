// SPDX-License-Identifier: MIT OR Apache-2.0
//! cake-autorate 3.x, written from its documentation and its documented defaults.
//!
//! Six reflectors each 0.3 s by fping, so that half of the RTT stands for either direction. The baseline of a
//! reflector is an EWMA that rises with 0.001 and falls with 0.9. Bloat is three of the last six samples more
//! than 30 ms (and a packet's time) above it. Then the rate falls to 0.99 at a mean of 30 ms and to 0.75 at 60 ms,
//! at most each 0.3 s. Without it and above 75 % load it rises each 0.2 s, by 4 % up to a mean of 10 ms and not
//! at all at 30 ms; below 75 % it goes towards the base rate by 1 % each second. Without samples it stays.

use std::collections::VecDeque;

use makeway_core::autorate::{Bounds, Rates};
use makeway_core::units::{Duration, Instant};

use super::{Achieved, Algorithm, Seen, rates, within};
use crate::autorate::link::PATHS;
use crate::autorate::probes::Probe;

const WINDOW: usize = 6;
const DELAYED: usize = 3;
const MS: [f64; 3] = [10.0, 30.0, 60.0];
const REFRACTORY: Duration = Duration::from_millis(300);
const DECAY: Duration = Duration::from_millis(1000);
const HIGH_LOAD: f64 = 0.75;
const PACKET_BITS: f64 = 12_000.0;

pub struct CakeAutorate {
    bounds: [Bounds; 2],
    bps: [f64; 2],
    baseline: [Option<f64>; PATHS as usize],
    /// Deltas in ms.
    deltas: VecDeque<f64>,
    achieved: Achieved,
    load: [f64; 2],
    /// Whether there is a reading of the load that no rise was made of.
    unused: [bool; 2],
    bloat_at: [Instant; 2],
    decay_at: [Instant; 2],
}

impl CakeAutorate {
    pub fn new(bounds: [Bounds; 2]) -> Self {
        Self {
            bounds,
            bps: bounds.map(|b| b.first.bps() as f64),
            baseline: [None; PATHS as usize],
            deltas: VecDeque::from([0.0; WINDOW]),
            achieved: Achieved::default(),
            load: [0.0; 2],
            unused: [false; 2],
            bloat_at: [Instant::ZERO; 2],
            decay_at: [Instant::ZERO; 2],
        }
    }

    fn adjust(&mut self, now: Instant, n: usize) {
        let packet_ms = PACKET_BITS / self.bps[n] * 1e3;
        let [up_to, threshold, all] = [MS[0], MS[1] + packet_ms, MS[2] + packet_ms];
        let delayed = self.deltas.iter().filter(|delta| **delta > threshold);
        let bloat = delayed.count() >= DELAYED;
        let mean = self.deltas.iter().sum::<f64>() / WINDOW as f64;
        let settled = now.saturating_since(self.bloat_at[n]) > REFRACTORY;
        let factor = if bloat {
            if !settled {
                return;
            }
            self.bloat_at[n] = now;
            let part = ((mean - threshold) / (all - threshold)).clamp(0.0, 1.0);
            0.99 - part * (0.99 - 0.75)
        } else if self.load[n] > HIGH_LOAD {
            if !settled || !std::mem::take(&mut self.unused[n]) {
                return;
            }
            let part = ((mean - up_to) / (threshold - up_to)).clamp(0.0, 1.0);
            1.04 - part * 0.04
        } else {
            if now.saturating_since(self.decay_at[n]) <= DECAY || !settled {
                return;
            }
            self.decay_at[n] = now;
            let base = self.bounds[n].first.bps() as f64;
            let own = self.bps[n];
            let next = if own > base {
                (own * 0.99).max(base)
            } else {
                (own * 1.01).min(base)
            };
            next / own
        };
        self.bps[n] = within(&self.bounds[n], self.bps[n] * factor);
    }
}

impl Algorithm for CakeAutorate {
    fn probes(&self) -> Duration {
        Duration::from_millis(300)
    }

    fn period(&self) -> Duration {
        Duration::from_millis(200)
    }

    fn on_probe(&mut self, now: Instant, probe: Probe) {
        let half = (probe.up + probe.down).as_millis_f64() / 2.0;
        let baseline = self.baseline[usize::from(probe.path)].get_or_insert(half);
        let alpha = if half >= *baseline { 0.001 } else { 0.9 };
        *baseline += alpha * (half - *baseline);
        let delta = half - *baseline;
        self.deltas.pop_front();
        self.deltas.push_back(delta);
        self.adjust(now, 0);
        self.adjust(now, 1);
    }

    fn tick(&mut self, now: Instant, seen: Seen) -> Rates {
        let achieved = self.achieved.take(now, seen.bytes);
        for (n, achieved) in achieved.into_iter().enumerate() {
            self.load[n] = achieved / self.bps[n];
            self.unused[n] = true;
        }
        rates(self.bps)
    }
}
