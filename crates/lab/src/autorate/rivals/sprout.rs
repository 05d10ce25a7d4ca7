// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rate tracking as of Sprout (K. Winstein, A. Sivaraman, H. Balakrishnan, "Stochastic Forecasts Achieve High
//! Throughput and Low Delay over Cellular Networks", NSDI 2013), for a shaper instead of a sender.
//!
//! As there: the link's rate is a Brownian motion, kept as a distribution over bins and updated each 20 ms by the bytes
//! that came, as of a Poisson process; the forecast is the 5th percentile over the next 100 ms, and what already waits
//! before the link is taken off it. A shaper sees the link's own rate only while the link has a queue; else a tick says
//! that the link is at least as fast, as ticks of Sprout do in which its sender had nothing more to send.

use makeway_core::autorate::{Bounds, Rates};
use makeway_core::units::{Duration, Instant};

use super::{Achieved, Algorithm, Seen, rates, within};
use crate::autorate::link::PATHS;
use crate::autorate::probes::Probe;

const BINS: usize = 128;
const TICK: f64 = 0.02;
/// In the paper 200 packets/s in a second, of 1000 packets/s in all.
const DEVIATION: f64 = 0.2;
const PERCENTILE: f64 = 0.05;
const AHEAD: f64 = 0.1;
const PACKET_BITS: f64 = 12_000.0;
/// Delay above which the link has a queue.
const QUEUE_MS: f64 = 5.0;

struct Forecast {
    /// Probability of each bin.
    bins: Vec<f64>,
    /// Rate of the last bin, bit/s.
    most: f64,
    /// Weights of a step by some bins in a tick, and in the time ahead.
    spread: [Vec<f64>; 2],
}

impl Forecast {
    fn new(most: f64) -> Self {
        let kernel = |seconds: f64| {
            let deviation = DEVIATION * BINS as f64 * seconds.sqrt();
            let reach = (3.0 * deviation).ceil() as usize;
            let weights: Vec<f64> = (0..=2 * reach)
                .map(|n| (-0.5 * ((n as f64 - reach as f64) / deviation).powi(2)).exp())
                .collect();
            let sum: f64 = weights.iter().sum();
            weights.iter().map(|weight| weight / sum).collect()
        };
        Self {
            bins: vec![1.0 / BINS as f64; BINS],
            most,
            spread: [kernel(TICK), kernel(AHEAD)],
        }
    }

    fn rate(&self, bin: usize) -> f64 {
        self.most * (bin as f64 + 0.5) / BINS as f64
    }

    fn evolve(&self, weights: &[f64]) -> Vec<f64> {
        let reach = weights.len() / 2;
        let mut next = vec![0.0; BINS];
        for (bin, probability) in self.bins.iter().enumerate() {
            for (n, weight) in weights.iter().enumerate() {
                // The ends reflect nothing: what would leave stays there.
                let to = (bin + n).saturating_sub(reach).min(BINS - 1);
                next[to] += probability * weight;
            }
        }
        next
    }

    /// `bits` came in a tick; `exact` if the link had a queue.
    fn observe(&mut self, bits: f64, exact: bool) {
        self.bins = self.evolve(&self.spread[0]);
        let packets = bits / PACKET_BITS;
        let mut sum = 0.0;
        for bin in 0..BINS {
            let mean = self.rate(bin) * TICK / PACKET_BITS;
            // Of Poisson, with packets that need not be whole; its deviation at least that of one packet.
            let distance = (packets - mean) / mean.max(1.0).sqrt();
            let likely = match exact || distance > 0.0 {
                true => (-0.5 * distance * distance).exp().max(1e-9),
                false => 1.0,
            };
            self.bins[bin] *= likely;
            sum += self.bins[bin];
        }
        self.bins.iter_mut().for_each(|p| *p /= sum);
    }

    /// 5th percentile of the rate over the time ahead.
    fn cautious(&self) -> f64 {
        let ahead = self.evolve(&self.spread[1]);
        let mut sum = 0.0;
        let bin = ahead.iter().position(|p| {
            sum += p;
            sum >= PERCENTILE
        });
        self.rate(bin.unwrap_or(BINS - 1))
    }
}

pub struct SproutLike {
    bounds: [Bounds; 2],
    forecasts: [Forecast; 2],
    least: [[f64; 2]; PATHS as usize],
    queue_ms: [f64; 2],
    before_ms: [f64; 2],
    achieved: Achieved,
}

impl SproutLike {
    pub fn new(bounds: [Bounds; 2]) -> Self {
        Self {
            bounds,
            forecasts: bounds.map(|b| Forecast::new(b.most.bps() as f64)),
            least: [[f64::INFINITY; 2]; PATHS as usize],
            queue_ms: [0.0; 2],
            before_ms: [0.0; 2],
            achieved: Achieved::default(),
        }
    }
}

impl Algorithm for SproutLike {
    fn probes(&self) -> Duration {
        Duration::from_millis(300)
    }

    fn period(&self) -> Duration {
        Duration::from_nanos((TICK * 1e9) as u64)
    }

    fn on_probe(&mut self, _now: Instant, probe: Probe) {
        let ms = [probe.up, probe.down].map(Duration::as_millis_f64);
        for (n, ms) in ms.into_iter().enumerate() {
            let least = &mut self.least[usize::from(probe.path)][n];
            *least = least.min(ms);
            self.queue_ms[n] = ms - *least;
        }
    }

    fn tick(&mut self, now: Instant, seen: Seen) -> Rates {
        let achieved = self.achieved.take(now, seen.bytes);
        let mut bps = [0.0; 2];
        for (n, achieved) in achieved.into_iter().enumerate() {
            let forecast = &mut self.forecasts[n];
            // Upwards the link took what was sent less the growth of its queue.
            let growth = match n {
                0 => (self.queue_ms[n] - self.before_ms[n]) / 1e3 * achieved,
                _ => 0.0,
            };
            self.before_ms[n] = self.queue_ms[n];
            let bits = (achieved * TICK - growth).max(0.0);
            forecast.observe(bits, self.queue_ms[n] > QUEUE_MS);
            let cautious = forecast.cautious();
            let waiting = (self.queue_ms[n] / 1e3).min(AHEAD);
            bps[n] = within(&self.bounds[n], cautious * (AHEAD - waiting) / AHEAD);
        }
        rates(bps)
    }
}
