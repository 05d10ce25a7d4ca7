// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measured interval of a run, steps of its series, and progress.

use makeway_core::units::Duration;

/// The measured interval `[from, to)` and the series' steps, in ns after the start of traffic.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    from: u64,
    to: u64,
    step: u64,
}

impl Interval {
    /// From the end of `warmup` to `duration`. The series begin with traffic and have
    /// steps of 100 ms up to 20 s, of half a second up to 100 s, then of seconds.
    pub fn new(warmup: Duration, duration: Duration) -> Self {
        let step = match duration.as_nanos() {
            0..=20_000_000_000 => 100_000_000,
            20_000_000_001..=100_000_000_000 => 500_000_000,
            _ => 1_000_000_000,
        };
        Self {
            from: warmup.as_nanos(),
            to: duration.as_nanos(),
            step,
        }
    }

    /// Whether `at` is measured.
    #[inline]
    pub fn measures(&self, at: u64) -> bool {
        (self.from..self.to).contains(&at)
    }

    /// The step of `at`.
    #[inline]
    pub fn step_of(&self, at: u64) -> usize {
        (at / self.step) as usize
    }

    /// A zero for each step of the run.
    pub fn steps(&self) -> Vec<u64> {
        vec![0; self.to.div_ceil(self.step) as usize]
    }

    /// Ns in the step: the last may be short.
    pub fn step_length(&self, step: usize) -> u64 {
        self.step
            .min(self.to.saturating_sub(step as u64 * self.step))
    }

    /// Length of a step.
    pub fn step(&self) -> Duration {
        Duration::from_nanos(self.step)
    }

    /// Its beginning.
    pub fn from(&self) -> u64 {
        self.from
    }

    /// Its end, and that of traffic.
    pub fn to(&self) -> u64 {
        self.to
    }
}

/// How far a run is, in its own time.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Time since the start of traffic.
    pub elapsed: Duration,
    /// Duration of all traffic.
    pub duration: Duration,
}
