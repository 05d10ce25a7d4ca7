// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transmission time of a packet on a link, from the times between arrivals.
//!
//! Packets in succession on a busy link come as far apart as it takes for one: the least time that many have. A link that is a
//! program wakes late and then lets go of two at once; few times are as short as that.

use alloc::boxed::Box;
use alloc::vec;

/// Steps of a doubling: 6 % at most from one to the next.
const STEPS_LOG2: u32 = 4;
/// Nothing is longer than 2^36 ns, 69 s.
const DOUBLINGS: usize = 36;
/// Bits below those of a step in an `f64`.
const SHIFT: u32 = f64::MANTISSA_DIGITS - 1 - STEPS_LOG2;

/// The part of all times below which one is an accident.
const FEW: f64 = 0.02;
/// Decay per interval of the earlier ones: sixteen count.
const KEEPS: f64 = 15.0 / 16.0;
/// Times this much longer than the least are still of packets in succession: with another between it is twice.
const PAIR: f64 = 1.5;

/// Times between packets, the recent ones more than the older; 9 kB, allocated when made.
#[derive(Clone, Debug)]
pub struct Gaps {
    /// Weight and sum of the times of each step.
    steps: Box<[(f64, f64)]>,
}

impl Gaps {
    /// None yet.
    pub fn new() -> Self {
        Self {
            steps: vec![(0.0, 0.0); DOUBLINGS << STEPS_LOG2].into(),
        }
    }

    /// A time between two packets, or for a byte of the later one, in nanoseconds.
    pub fn note(&mut self, gap: f64) {
        // The bits of numbers from 1 are in their order.
        let step = (gap.max(1.0).to_bits() - 1f64.to_bits()) >> SHIFT;
        let step = (step as usize).min(self.steps.len() - 1);
        self.steps[step].0 += 1.0;
        self.steps[step].1 += gap;
    }

    /// An interval is over: what was noted counts less.
    pub fn age(&mut self) {
        for (weight, sum) in &mut self.steps {
            *weight *= KEEPS;
            *sum *= KEEPS;
        }
    }

    /// The mean of those of packets in succession: from two thirds of the least that not only few have, to one and a half of it.
    pub fn pairs(&self) -> Option<f64> {
        let all: f64 = self.steps.iter().map(|step| step.0).sum();
        let mut below = 0.0;
        let least = self.steps.iter().find(|step| {
            below += step.0;
            step.0 > 0.0 && below > FEW * all
        })?;
        let least = least.1 / least.0;
        let near = (least / PAIR)..=(least * PAIR);
        let pairs = self
            .steps
            .iter()
            .filter(|step| step.0 > 0.0 && near.contains(&(step.1 / step.0)))
            .fold((0.0, 0.0), |all, step| (all.0 + step.0, all.1 + step.1));
        Some(pairs.1 / pairs.0)
    }
}

impl Default for Gaps {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_the_least_that_many_have() {
        let mut gaps = Gaps::new();
        assert_eq!(gaps.pairs(), None);
        for i in 0..1000 {
            gaps.note(if i % 10 == 0 { 2e6 } else { 6e6 });
        }
        assert_eq!(gaps.pairs(), Some(2e6));
        // As many as are an accident.
        for _ in 0..20 {
            gaps.note(2e4);
        }
        assert_eq!(gaps.pairs(), Some(2e6));
        for _ in 0..20 {
            gaps.note(2e4);
        }
        assert_eq!(gaps.pairs(), Some(2e4));
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut gaps = Gaps::new();
        for interval in 0..200 {
            let scale = if interval < 100 { 1.0 } else { 4.0 };
            for _ in 0..100 {
                gaps.note(2e6 * scale);
            }
            gaps.age();
        }
        let pairs = gaps.pairs().unwrap_or_default();
        assert!((pairs / 8e6 - 1.0).abs() < 1e-9, "{pairs}");
    }

    #[test]
    fn any_time_has_its_step() {
        let mut gaps = Gaps::new();
        for gap in [0.0, 0.5, 1.0, 1e3, 7e10, 1e18, f64::MAX] {
            gaps.note(gap);
        }
        assert!(gaps.pairs().is_some());
    }
}
