// SPDX-License-Identifier: MIT OR Apache-2.0
//! Effects of a long link on sent packets: loss, delay, jitter. Order is kept.

use std::collections::VecDeque;

use fastrand::Rng;
use makeway_core::loss::{Loss, LossyLink};
use makeway_core::units::{Duration, Instant, Rate};

/// Impairments of a link behind the shaper.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairments {
    /// Random loss.
    pub loss: Loss,
    /// Propagation delay.
    pub delay: Duration,
    /// Standard deviation of Gaussian delay around it. Packets never overtake: one that drew a
    /// short delay leaves right after the one before it.
    pub jitter: Duration,
}

/// Fate of a packet that left the shaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It goes on at once.
    Now,
    /// The line keeps it.
    Kept,
    /// It was lost on the way, as asked for.
    Lost,
    /// The line is full.
    Full,
}

/// A delay line for packets, each a `T`.
#[derive(Debug)]
pub(super) struct DelayLine<T> {
    impairments: Impairments,
    lossy: LossyLink,
    rng: Rng,
    held: VecDeque<(Instant, T)>,
    capacity: usize,
}

/// Most packets on a line whose rate is not limited, or whose rate would allow more; our choice.
const MOST: u64 = 1 << 16;

impl<T: Copy> DelayLine<T> {
    /// A line as long as `rate` and delay make it, in packets of 64 bytes, up to 65 536.
    pub fn new(impairments: Impairments, rate: Option<Rate>, seed: u64) -> Self {
        let longest = impairments.delay + impairments.jitter * 6;
        let capacity = match rate {
            _ if longest == Duration::ZERO => 0,
            Some(rate) => ((rate * longest).get() / 64 + 64).min(MOST),
            None => MOST,
        };
        Self {
            impairments,
            lossy: LossyLink::new(impairments.loss),
            rng: Rng::with_seed(seed),
            held: VecDeque::with_capacity(capacity as usize),
            capacity: capacity as usize,
        }
    }

    /// Most packets that it holds.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Packets on it.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    pub fn enter(&mut self, now: Instant, packet: T) -> Fate {
        let Impairments { delay, jitter, .. } = self.impairments;
        if self.lossy.loses(|| self.rng.f64()) {
            return Fate::Lost;
        }
        if self.capacity == 0 {
            return Fate::Now;
        }
        if self.held.len() == self.capacity {
            return Fate::Full;
        }
        let mut delay = delay.as_nanos() as f64;
        if jitter > Duration::ZERO {
            delay += self.gaussian() * jitter.as_nanos() as f64;
        }
        let mut due = now + Duration::from_nanos(delay.max(0.0) as u64);
        if let Some(&(last, _)) = self.held.back() {
            due = due.max(last);
        }
        self.held.push_back((due, packet));
        Fate::Kept
    }

    /// The next packet whose delay is over.
    pub fn leave(&mut self, now: Instant) -> Option<T> {
        let &(due, packet) = self.held.front()?;
        if due > now {
            return None;
        }
        self.held.pop_front();
        Some(packet)
    }

    /// When the next packet leaves.
    pub fn next_departure(&self) -> Option<Instant> {
        self.held.front().map(|&(due, _)| due)
    }

    /// Standard normal: Box, Muller 1958.
    fn gaussian(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.rng.f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.rng.f64()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(impairments: Impairments) -> DelayLine<u32> {
        DelayLine::new(impairments, Some(Rate::from_bps(1_000_000_000)), 7)
    }

    #[test]
    fn a_constant_delay_keeps_order_and_time() {
        let mut line = line(Impairments {
            delay: Duration::from_millis(20),
            ..Impairments::default()
        });
        let start = Instant::from_nanos(5);
        for id in 0..10 {
            assert_eq!(line.enter(start, id), Fate::Kept);
        }
        let due = start + Duration::from_millis(20);
        assert_eq!(line.next_departure(), Some(due));
        assert_eq!(line.leave(due - Duration::from_nanos(1)), None);
        let ids: Vec<u32> = std::iter::from_fn(|| line.leave(due)).collect();
        assert_eq!(ids, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn jitter_has_its_deviation_and_never_reorders() {
        let mut line = line(Impairments {
            delay: Duration::from_millis(50),
            jitter: Duration::from_millis(5),
            ..Impairments::default()
        });
        // Packets so far apart that none waits for the one before.
        let mut delays = Vec::new();
        for n in 0..4000u32 {
            let now = Instant::ZERO + Duration::from_secs(u64::from(n));
            line.enter(now, n);
            let due = line.next_departure().unwrap();
            assert_eq!(line.leave(due), Some(n));
            delays.push(due.saturating_since(now).as_millis_f64());
        }
        let mean = delays.iter().sum::<f64>() / 4000.0;
        let variance = delays.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / 4000.0;
        assert!((mean - 50.0).abs() < 0.5, "{mean}");
        assert!((variance.sqrt() - 5.0).abs() < 0.3, "{variance}");

        for n in 0..1000 {
            line.enter(Instant::from_nanos(u64::from(n)), n);
        }
        let out: Vec<u32> = std::iter::from_fn(|| line.leave(Instant::FAR_FUTURE)).collect();
        assert_eq!(out, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn loss_is_as_frequent_as_asked_and_the_same_for_the_same_seed() {
        let lossy = Impairments {
            loss: Loss::bernoulli(0.1),
            ..Impairments::default()
        };
        let run = || -> Vec<Fate> {
            let mut line = line(lossy);
            (0..10_000).map(|n| line.enter(Instant::ZERO, n)).collect()
        };
        let fates = run();
        let lost = fates.iter().filter(|&&fate| fate == Fate::Lost).count();
        assert!((900..1100).contains(&lost), "{lost}");
        assert_eq!(fates, run());
    }

    #[test]
    fn a_full_line_refuses() {
        let slow = Rate::from_bps(64_000);
        let delayed = Impairments {
            delay: Duration::from_millis(8),
            ..Impairments::default()
        };
        let mut line = DelayLine::new(delayed, Some(slow), 1);
        for n in 0..line.capacity() as u32 {
            assert_eq!(line.enter(Instant::ZERO, n), Fate::Kept);
        }
        assert_eq!(line.enter(Instant::ZERO, 99), Fate::Full);
    }
}
