// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random loss on a link: each packet by itself, or in bursts.

/// The model of Gilbert and Elliott: a link is good or bad, and in each state packets are lost with a
/// probability of its own (E. O. Elliott, "Estimates of error rates for codes on burst-noise channels",
/// Bell System Technical Journal 42, 1963). With one probability for both it is Bernoulli loss.
///
/// All are probabilities from 0 to 1 for each packet: `p`, `r`, `1-h`, `1-k` of Linux's netem.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    /// From the good to the bad state.
    pub p: f64,
    /// From the bad to the good state.
    pub r: f64,
    /// Loss in the bad state.
    pub bad: f64,
    /// Loss in the good state.
    pub good: f64,
}

impl Loss {
    /// Each packet by itself with `probability`.
    pub const fn bernoulli(probability: f64) -> Self {
        Self {
            p: 0.0,
            r: 1.0,
            bad: probability,
            good: probability,
        }
    }

    /// Whether nothing is ever lost.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.good <= 0.0 && (self.p <= 0.0 || self.bad <= 0.0)
    }

    /// The share of packets that is lost in the long run.
    pub fn mean(&self) -> f64 {
        if self.p + self.r <= 0.0 {
            return self.good;
        }
        (self.r * self.good + self.p * self.bad) / (self.p + self.r)
    }
}

/// A link that loses packets; it begins in the good state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossyLink {
    loss: Loss,
    is_bad: bool,
}

impl LossyLink {
    /// One that loses as `loss` says.
    pub const fn new(loss: Loss) -> Self {
        Self {
            loss,
            is_bad: false,
        }
    }

    /// Whether the next packet is lost; `uniform` gives numbers from 0 to 1, without 1.
    #[inline]
    pub fn loses(&mut self, mut uniform: impl FnMut() -> f64) -> bool {
        if self.loss.is_none() {
            return false;
        }
        let (leave, lost) = match self.is_bad {
            true => (self.loss.r, self.loss.bad),
            false => (self.loss.p, self.loss.good),
        };
        if leave > 0.0 && uniform() < leave {
            self.is_bad = !self.is_bad;
        }
        lost > 0.0 && uniform() < lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    /// Losses of a million packets.
    fn losses(loss: Loss) -> Vec<bool> {
        let mut rng = Rng::new(1);
        let mut link = LossyLink::new(loss);
        let mut uniform = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        (0..1_000_000).map(|_| link.loses(&mut uniform)).collect()
    }

    fn share(losses: &[bool]) -> f64 {
        losses.iter().filter(|lost| **lost).count() as f64 / losses.len() as f64
    }

    #[test]
    fn the_share_that_is_lost_is_that_of_the_stationary_states() {
        let bursty = Loss {
            p: 0.01,
            r: 0.25,
            bad: 0.8,
            good: 0.001,
        };
        // (0.25 * 0.001 + 0.01 * 0.8) / 0.26
        assert!((bursty.mean() - 0.031_731).abs() < 1e-6);
        for loss in [bursty, Loss::bernoulli(0.1)] {
            let share = share(&losses(loss));
            assert!((share / loss.mean() - 1.0).abs() < 0.03, "{share}");
        }
    }

    #[test]
    fn bursts_last_as_long_as_the_bad_state() {
        let losses = losses(Loss {
            p: 0.01,
            r: 0.2,
            bad: 1.0,
            good: 0.0,
        });
        let bursts = losses.windows(2).filter(|pair| pair == &[false, true]);
        let mean = share(&losses) * losses.len() as f64 / bursts.count() as f64;
        // 1 / r; bursts that follow at once on another make it 1 / 0.99 longer.
        assert!((mean / 5.05 - 1.0).abs() < 0.03, "{mean}");
    }

    #[test]
    fn a_link_that_loses_nothing_asks_for_no_chance() {
        let mut link = LossyLink::default();
        assert!(!link.loses(|| panic!("asked")));
        assert!(
            Loss {
                p: 0.5,
                r: 0.5,
                ..Loss::default()
            }
            .is_none()
        );
        assert!(!Loss::bernoulli(1e-9).is_none());
    }
}
