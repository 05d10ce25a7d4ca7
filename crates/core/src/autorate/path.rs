// SPDX-License-Identifier: MIT OR Apache-2.0
//! Baselines of a path: the delay that it has without a queue.

use super::Direction;
use crate::units::{Duration, Instant};

/// The minimum is of one to two of these; only time without load counts. Chosen by us.
const WINDOW: Duration = Duration::from_secs(60);
/// A baseline rises by one part in this of the time that passes: 50 ppm, as clocks of two hosts may drift.
const CREEP: u64 = 20_000;
/// Weight of a sample in the noise: 1/16.
const NOISE_WEIGHT: u64 = 16;
/// Before the first idle second.
const FIRST_NOISE: Duration = Duration::from_millis(1);
/// Noise counts up to here: more is a queue that somebody else keeps.
const MOST_NOISE: Duration = Duration::from_millis(10);

/// A sample above its baseline.
#[derive(Clone, Copy, Debug, Default)]
pub struct Excess {
    /// Delay above the baseline.
    pub delay: Duration,
    /// Mean excess of the path without load.
    pub noise: Duration,
}

/// A windowed minimum and the noise above it.
#[derive(Clone, Copy, Debug)]
pub struct Baseline {
    /// Least of the window that fills, and of the one before.
    least: [Duration; 2],
    filled: Duration,
    noise: Duration,
    at: Option<Instant>,
    last: [Duration; 2],
}

const NONE: Duration = Duration::from_nanos(u64::MAX);

impl Default for Baseline {
    fn default() -> Self {
        Self {
            least: [NONE; 2],
            filled: Duration::ZERO,
            noise: FIRST_NOISE,
            at: None,
            last: [NONE; 2],
        }
    }
}

impl Baseline {
    /// Takes a sample; under load the window does not move on.
    pub fn sample(&mut self, now: Instant, delay: Duration, loaded: bool) -> Excess {
        let since = self
            .at
            .map_or(Duration::ZERO, |at| now.saturating_since(at));
        self.at = Some(now);
        let passed = since.min(Duration::from_secs(1));
        self.last = [delay, self.last[0]];
        for least in self.least.iter_mut().filter(|least| **least != NONE) {
            *least += passed / CREEP;
        }
        self.least[0] = self.least[0].min(delay);
        if !loaded {
            self.filled += passed;
            if self.filled >= WINDOW {
                self.least = [delay, self.least[0]];
                self.filled = Duration::ZERO;
            }
        }
        let base = self.least[0].min(self.least[1]);
        let excess = minus(delay, base);
        if !loaded {
            let kept = self.noise * (NOISE_WEIGHT - 1) + excess.min(MOST_NOISE * 2);
            self.noise = (kept / NOISE_WEIGHT).min(MOST_NOISE);
        }
        Excess {
            delay: excess,
            noise: self.noise,
        }
    }

    /// The delay of now is no queue of ours: the least of the last samples is the baseline.
    fn take(&mut self) {
        let least = self.last.iter().copied().filter(|last| *last != NONE).min();
        if let Some(least) = least {
            self.least = [least, NONE];
            self.filled = Duration::ZERO;
            // A path that raised an alarm without reason is trusted less.
            let more = self.noise * 3 / 2 + Duration::from_micros(100);
            self.noise = more.min(MOST_NOISE);
        }
    }
}

/// Speaker of a sample: paths of one voice count once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// Voice of a path by itself.
    Own(u16),
    /// Voice that all paths with this number share.
    Shared(u64),
}

/// The baselines of a path, apart for one way and both: their clocks differ.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path {
    /// Shared with other paths, if any.
    pub voice: Option<u64>,
    pub one_way: [Baseline; 2],
    pub both_ways: Baseline,
}

impl Path {
    pub fn take_as_baseline(&mut self, direction: Direction) {
        self.one_way[direction as usize].take();
        self.both_ways.take();
    }
}

/// Differences of spans stop at zero.
pub fn minus(a: Duration, b: Duration) -> Duration {
    Duration::from_nanos(a.as_nanos().saturating_sub(b.as_nanos()))
}
