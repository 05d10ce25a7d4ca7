// SPDX-License-Identifier: MIT OR Apache-2.0
//! sqm-autorate (Lua), written from its documentation and its documented defaults.
//!
//! Timestamps of one direction, each reflector each 0.5 s. A slow average of each (half-life 135 s, never above the
//! fast one) is its baseline, a fast one (0.4 s) its delay. Each 0.5 s the third lowest difference counts, against 15 ms.
//! Below it and above 80 % load the achieved rate is remembered as a safe one (of 100), and the rate rises by 3 % of the base
//! rate and up to 10 % of itself below the largest safe rate. Above it the rate falls to the lesser of 90 % of the
//! achieved one and a random safe one. Without samples of the last second it falls to the least rate.

use makeway_core::autorate::{Bounds, Rates};
use makeway_core::random::Rng;
use makeway_core::units::{Duration, Instant};

use super::{Achieved, Algorithm, Seen, rates, within};
use crate::autorate::link::{PATHS, uniform};
use crate::autorate::probes::Probe;

const TICK: f64 = 0.5;
const THRESHOLD_MS: f64 = 15.0;
const HIGH_LOAD: f64 = 0.8;
const HISTORY: usize = 100;

/// Weight that halves a difference in `half_life` s.
fn keep(half_life: f64) -> f64 {
    0.5_f64.powf(TICK / half_life)
}

#[derive(Clone, Copy)]
struct Reflector {
    slow: [f64; 2],
    fast: [f64; 2],
    at: Instant,
}

pub struct SqmAutorate {
    bounds: [Bounds; 2],
    bps: [f64; 2],
    reflectors: [Option<Reflector>; PATHS as usize],
    achieved: Achieved,
    safe: [Vec<f64>; 2],
    next_safe: [usize; 2],
    rng: Rng,
}

impl SqmAutorate {
    pub fn new(bounds: [Bounds; 2], seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x006c_7561);
        let base = bounds.map(|b| b.first.bps() as f64);
        let safe = base.map(|base| {
            let one = |_| (uniform(&mut rng) * 0.2 + 0.75) * base;
            (0..HISTORY).map(one).collect()
        });
        Self {
            bounds,
            bps: base.map(|base| base * 0.6),
            reflectors: [None; PATHS as usize],
            achieved: Achieved::default(),
            safe,
            next_safe: [0; 2],
            rng,
        }
    }
}

impl Algorithm for SqmAutorate {
    fn probes(&self) -> Duration {
        Duration::from_millis(500)
    }

    fn period(&self) -> Duration {
        Duration::from_millis(500)
    }

    fn on_probe(&mut self, now: Instant, probe: Probe) {
        let ms = [probe.up, probe.down].map(Duration::as_millis_f64);
        let own = &mut self.reflectors[usize::from(probe.path)];
        let stale = own.is_none_or(|own| now.saturating_since(own.at) > Duration::from_secs(30));
        if stale {
            *own = Some(Reflector {
                slow: ms,
                fast: ms,
                at: now,
            });
        }
        let Some(own) = own else { return };
        own.at = now;
        for (n, ms) in ms.into_iter().enumerate() {
            own.slow[n] += (1.0 - keep(135.0)) * (ms - own.slow[n]);
            own.fast[n] += (1.0 - keep(0.4)) * (ms - own.fast[n]);
            own.slow[n] = own.slow[n].min(own.fast[n]);
        }
    }

    fn tick(&mut self, now: Instant, seen: Seen) -> Rates {
        let achieved = self.achieved.take(now, seen.bytes);
        let recent: Vec<Reflector> = (self.reflectors.iter().flatten().copied())
            .filter(|own| now.saturating_since(own.at) < Duration::from_millis(1000))
            .collect();
        for (n, achieved) in achieved.into_iter().enumerate() {
            let mut deltas: Vec<f64> = recent.iter().map(|own| own.fast[n] - own.slow[n]).collect();
            deltas.sort_by(f64::total_cmp);
            let (own, base) = (self.bps[n], self.bounds[n].first.bps() as f64);
            let load = achieved / own;
            let next = match deltas.get(2).or(deltas.first()) {
                None => 0.0,
                Some(delta) if *delta > THRESHOLD_MS => {
                    let place = self.rng.below(HISTORY as u32) as usize;
                    (0.9 * achieved).min(self.safe[n][place])
                }
                Some(_) if load > HIGH_LOAD => {
                    let place = &mut self.next_safe[n];
                    self.safe[n][*place] = achieved;
                    *place = (*place + 1) % HISTORY;
                    let most = self.safe[n].iter().copied().fold(1.0, f64::max);
                    own * (1.0 + 0.1 * (1.0 - own / most).max(0.0)) + base * 0.03
                }
                Some(_) => own,
            };
            self.bps[n] = within(&self.bounds[n], next);
        }
        rates(self.bps)
    }
}
