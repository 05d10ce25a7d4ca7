// SPDX-License-Identifier: MIT OR Apache-2.0
//! RED in real numbers, with the discipline's own random numbers.
//!
//! Floats and the discipline's fixed point may fall on different sides of a threshold or of a random
//! number that they come very close to. So each packet is judged three times, with an average that is a little
//! too short, as it is, and a little too long ([`CLOSE`]), and the reference goes on from those judgements that are the
//! discipline's. Everything else grows with the average, so the two bound what may be. Where they agree, as
//! they nearly always do, the discipline has to agree with them.

use makeway_core::packet::DropReason;
use makeway_core::random::Rng;
use makeway_core::sched::RedParams;
use makeway_core::units::{Instant, Rate};

/// Relative error of what TRED makes of a probability: its ratio has 24 bits behind the point at least where the
/// result matters, to the power of at most 8 here.
const CLOSE_FACTOR: f64 = 1e-4;

/// Relative error of the average that is allowed. Weights are 2^-20 at least, averages that matter 1 at
/// least: the discipline promises 2^-29 then, 2e-9.
const CLOSE: f64 = 1e-8;

pub struct Red {
    params: RedParams,
    rate: Option<Rate>,
    avg: f64,
    pub idle_since: Instant,
    /// Possible states; one, but for close calls.
    worlds: Vec<World>,
}

#[derive(Clone, PartialEq)]
struct World {
    /// Packets or bytes since the last drop; -1 below the thresholds.
    count: i64,
    rng: Rng,
}

impl Red {
    pub fn new(params: &RedParams, rate: Option<Rate>, seed: u64) -> Self {
        Self {
            rate,
            params: params.clone(),
            avg: 0.0,
            idle_since: Instant::ZERO,
            worlds: vec![World {
                count: -1,
                rng: Rng::new(seed),
            }],
        }
    }

    /// Why a packet of `len` goes, if it does; `held` are packets and bytes. By `factor` its probability is multiplied.
    pub fn arrive(
        &mut self,
        now: Instant,
        held: (u64, u64),
        len: u64,
        full: bool,
        seen: Option<DropReason>,
        factor: f64,
    ) -> Option<DropReason> {
        self.average(now, held);
        self.decide(len, full, seen, factor)
    }

    /// Whether the average is above the lower threshold; `None` where that is too close to call.
    pub fn compares(&self) -> Option<bool> {
        let mean = self.params.mean_packet.get() as f64;
        let min = f64::from(self.params.min) * if self.params.by_bytes { mean } else { 1.0 };
        let is_close = (self.avg - min).abs() <= min * CLOSE;
        (!is_close).then_some(self.avg > min)
    }

    /// Whether the average is above the lower threshold, and above the upper one.
    pub fn phase(&self) -> [bool; 2] {
        let mean = self.params.mean_packet.get() as f64;
        let unit = if self.params.by_bytes { mean } else { 1.0 };
        let upper = f64::from(self.params.max) * if self.params.gentle { 2.0 } else { 1.0 };
        [f64::from(self.params.min), upper].map(|threshold| self.avg >= threshold * unit)
    }

    /// The rest of [`Red::arrive`], once the average is known.
    pub fn decide(
        &mut self,
        len: u64,
        full: bool,
        seen: Option<DropReason>,
        factor: f64,
    ) -> Option<DropReason> {
        let error = if factor == 1.0 { 0.0 } else { CLOSE_FACTOR };
        let mut all = Vec::new();
        for world in &self.worlds {
            for sign in [-1.0, 0.0, 1.0] {
                let avg = self.avg * (1.0 + sign * CLOSE);
                let factor = factor * (1.0 + sign * error);
                let judged = self.judge(world.clone(), avg, len, full, factor);
                if !all.contains(&judged) {
                    all.push(judged);
                }
            }
        }
        let verdict = match all.iter().any(|(_, why)| *why == seen) {
            true => seen,
            false => all[0].1,
        };
        all.retain(|(_, why)| *why == verdict);
        self.worlds = all.into_iter().map(|(world, _)| world).collect();
        verdict
    }

    /// The average, for a packet that finds `held`.
    pub fn average(&mut self, now: Instant, held: (u64, u64)) {
        let weight = self.params.weight.as_f64();
        if held.0 == 0 {
            if let Some(rate) = self.rate {
                let packet = (self.params.mean_packet / rate).as_nanos();
                let m = now.saturating_since(self.idle_since).as_nanos() / packet;
                if m > 0 {
                    // (1 - w)^m
                    self.avg *= ((-weight).ln_1p() * m as f64).exp();
                }
            }
            self.idle_since = now;
        }
        let q = if self.params.by_bytes { held.1 } else { held.0 };
        self.avg += weight * (q as f64 - self.avg);
    }

    fn judge(
        &self,
        mut w: World,
        avg: f64,
        len: u64,
        full: bool,
        factor: f64,
    ) -> (World, Option<DropReason>) {
        let RedParams {
            gentle,
            wait,
            by_bytes,
            ..
        } = self.params;
        let mean = self.params.mean_packet.get() as f64;
        let unit = if by_bytes { mean } else { 1.0 };
        let (min, max) = (
            f64::from(self.params.min) * unit,
            f64::from(self.params.max) * unit,
        );
        let max_p = self.params.max_p.as_f64();
        if avg < min {
            w.count = -1;
        } else if avg >= max * if gentle { 2.0 } else { 1.0 } {
            w.count = 0;
            return (w, Some(DropReason::Forced));
        } else {
            w.count = match w.count {
                -1 => 0,
                count => count + if by_bytes { len as i64 } else { 1 },
            };
            let of_all = if avg < max {
                max_p * (avg - min) / (max - min)
            } else {
                max_p + (1.0 - max_p) * (avg - max) / max
            };
            let p_b = of_all * factor;
            let counted = w.count as f64 / unit * p_b;
            let mut p_a = match wait {
                _ if p_b >= 1.0 => 1.0,
                true if counted < 1.0 => 0.0,
                true if counted < 2.0 => p_b / (2.0 - counted),
                false if counted < 1.0 => p_b / (1.0 - counted),
                _ => 1.0,
            };
            if by_bytes && p_a < 1.0 {
                p_a *= len as f64 / mean;
            }
            // 2^-64 of 64 random bits.
            let random = w.rng.next_u64() as f64 / 18_446_744_073_709_551_616.0;
            if random < p_a {
                w.count = 0;
                return (w, Some(DropReason::Early));
            }
        }
        if full && w.count > 0 {
            w.count = 0;
        }
        (w, full.then_some(DropReason::Tail))
    }
}
