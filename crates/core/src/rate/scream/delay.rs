// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spread of the last delays (§4.2.1.4.1).

/// The last 200 delays, by QDELAY_TARGET_LO.
#[derive(Clone, Debug)]
pub struct Norms {
    ring: [f32; Self::ALL],
    count: usize,
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
