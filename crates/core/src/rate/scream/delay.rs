// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delays of SCReAM: how far one is above the least (RFC 6817), and how the last ones spread (§4.2.1.4.1).

use crate::units::{Duration, Instant};

/// The least delay of each of the last ten minutes, in ns (RFC 6817 §3.4.2, BASE_HISTORY).
#[derive(Clone, Copy, Debug)]
pub struct Base {
    minutes: [i64; 10],
    began: Instant,
}

/// The last 200 delays, by QDELAY_TARGET_LO.
#[derive(Clone, Debug)]
pub struct Norms {
    ring: [f32; Self::ALL],
    count: usize,
}

impl Base {
    const MINUTE: Duration = Duration::from_secs(60);

    /// No delay yet.
    pub fn new() -> Self {
        Self {
            minutes: [i64::MAX; 10],
            began: Instant::ZERO,
        }
    }

    /// Notes a delay; how far it is above the least.
    pub fn note(&mut self, now: Instant, delay: i64) -> f64 {
        if now.saturating_since(self.began) >= Self::MINUTE {
            self.began = now;
            self.minutes.rotate_right(1);
            self.minutes[0] = delay;
        }
        self.minutes[0] = self.minutes[0].min(delay);
        let least = self.minutes.iter().copied().min().unwrap_or(delay);
        delay.saturating_sub(least) as f64 / 1e9
    }
}

impl Norms {
    const ALL: usize = 200;
    pub const LATEST: usize = 50;

    /// No delay yet.
    pub fn new() -> Self {
        Self {
            ring: [0.0; Self::ALL],
            count: 0,
        }
    }

    pub fn push(&mut self, norm: f64) {
        self.ring[self.count % Self::ALL] = norm as f32;
        self.count += 1;
    }

    pub fn mean(&self, latest: usize) -> f64 {
        let n = latest.min(self.count);
        let last = (self.count - n)..self.count;
        let sum: f64 = last.map(|at| f64::from(self.ring[at % Self::ALL])).sum();
        sum / n.max(1) as f64
    }

    pub fn variance(&self) -> f64 {
        let n = Self::ALL.min(self.count);
        let mean = self.mean(Self::ALL);
        let all = self.ring[..n].iter().map(|norm| f64::from(*norm) - mean);
        all.map(|off| off * off).sum::<f64>() / n.max(1) as f64
    }
}
