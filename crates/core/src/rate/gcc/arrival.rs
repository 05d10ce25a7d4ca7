// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arrival-time model of Google congestion control: groups of packets (§5.2) and the filter of their delay variation (§5.3).
//! Times are in ms.

use super::exp::exp;
#[cfg(not(feature = "std"))]
use num_traits::Float as _;

/// burst_time.
const BURST: f64 = 5.0;
/// A group of packets that arrive ever closer than they left ends after this; ours.
const LONGEST: f64 = 100.0;
/// By more than this a packet arrives before others only because the receiver's clock was set; ours.
pub const JUMP: f64 = 1000.0;

/// Inter-group times of two groups in succession.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variation {
    /// T(i) - T(i-1), between departures.
    pub departure: f64,
    /// t(i) - t(i-1), between arrivals.
    pub arrival: f64,
}

impl Variation {
    /// d(i), the inter-group delay variation.
    pub fn d(&self) -> f64 {
        self.arrival - self.departure
    }
}

/// First departure, last departure, first arrival and last arrival of a group.
#[derive(Clone, Copy, Debug)]
struct Group {
    first_sent: f64,
    sent: f64,
    first_came: f64,
    came: f64,
}

/// Puts packets into groups.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    current: Option<Group>,
    before: Option<Group>,
}

impl Groups {
    /// A packet that left and arrived then, in the order of arrival; times of a finished group. Packets out of order count for nothing.
    pub fn packet(&mut self, sent: f64, came: f64) -> Option<Variation> {
        let new = Group {
            first_sent: sent,
            sent,
            first_came: came,
            came,
        };
        let Some(group) = &mut self.current else {
            self.current = Some(new);
            return None;
        };
        if group.came - came > JUMP {
            self.current = Some(new);
            self.before = None;
            return None;
        }
        if sent < group.sent || came < group.came {
            return None;
        }
        let (apart, late) = (came - group.came, came - group.came - (sent - group.sent));
        let is_burst = apart < BURST && late < 0.0 && came - group.first_came < LONGEST;
        if sent - group.first_sent < BURST || is_burst {
            (group.sent, group.came) = (sent, came);
            return None;
        }
        let done = core::mem::replace(group, new);
        let before = self.before.replace(done)?;
        Some(Variation {
            departure: done.sent - before.sent,
            arrival: done.came - before.came,
        })
    }
}

/// q, the state noise variance; e(0); the least of var_v_hat.
const Q: f64 = 1e-3;
const E: f64 = 0.1;
const LEAST_VARIANCE: f64 = 1.0;
/// The natural logarithm of 1 - chi, with a chi of 0.01, of 0.001 to 0.1.
const LN_KEPT: f64 = -0.010_050_335_853_501_45;
/// K, groups over which the highest rate of groups is taken; ours.
const K: usize = 60;

/// The Kalman filter of m(i), the delay gradient in ms for a group.
#[derive(Clone, Debug)]
pub struct Filter {
    m: f64,
    e: f64,
    var_v: f64,
    /// The last times between groups.
    between: [f32; K],
    count: usize,
}

impl Filter {
    pub fn new() -> Self {
        Self {
            m: 0.0,
            e: E,
            var_v: LEAST_VARIANCE,
            between: [f32::INFINITY; K],
            count: 0,
        }
    }

    /// Groups seen.
    pub fn count(&self) -> usize {
        self.count
    }

    /// m_hat(i).
    pub fn update(&mut self, variation: Variation) -> f64 {
        self.between[self.count % K] = variation.departure.max(0.001) as f32;
        self.count += 1;
        let shortest = self.between.iter().fold(f32::INFINITY, |a, b| a.min(*b));
        // f_max in groups a second.
        let f_max = 1000.0 / f64::from(shortest);
        let alpha = exp(LN_KEPT * (30.0 / f_max));
        let most = 3.0 * self.var_v.sqrt();
        let z = (variation.d() - self.m).clamp(-most, most);
        self.var_v = (alpha * self.var_v + (1.0 - alpha) * z * z).max(LEAST_VARIANCE);
        let noise = self.e + Q;
        let k = noise / (self.var_v + noise);
        self.m += z * k;
        self.e = (1.0 - k) * noise;
        self.m
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_within_five_ms_and_those_of_a_burst_are_one_group() {
        let mut groups = Groups::default();
        // Left at 0 and 4: one group. 20: another, whose packet of 30 ms arrives with it. 60: a third.
        let seen = [(0.0, 50.0), (4.0, 56.0), (20.0, 75.0), (30.0, 76.0)];
        for (sent, came) in seen {
            assert_eq!(groups.packet(sent, came), None);
        }
        assert_eq!(
            groups.packet(60.0, 110.0),
            Some(Variation {
                departure: 26.0,
                arrival: 20.0
            })
        );
        // An older packet counts for nothing.
        assert_eq!(groups.packet(50.0, 111.0), None);
        let next = Variation {
            departure: 30.0,
            arrival: 34.0,
        };
        assert_eq!(groups.packet(90.0, 145.0), Some(next));
        // The receiver's clock is set back: the groups begin anew.
        for came in [-5000.0, -4970.0] {
            assert_eq!(groups.packet(came + 5120.0, came), None);
        }
        let next = groups.packet(185.0, -4935.0);
        assert_eq!(
            next,
            Some(Variation {
                departure: 30.0,
                arrival: 30.0
            })
        );
    }

    #[test]
    fn the_first_steps_are_those_of_the_equations() {
        let mut filter = Filter::new();
        let step = |filter: &mut Filter, d: f64| {
            filter.update(Variation {
                departure: 1000.0 / 30.0,
                arrival: 1000.0 / 30.0 + d,
            })
        };
        // 30 groups a second: alpha = 0.99. z = 2: var = 0.99 + 0.04; k = 0.101 / (1.03 + 0.101).
        let k = 0.101 / 1.131;
        let m = 2.0 * k;
        assert!((step(&mut filter, 2.0) - m).abs() < 1e-6);
        // e(1) = (1 - k) 0.101. A z of 100 counts as 3 sqrt(var).
        let e = (1.0 - k) * 0.101;
        let z = 3.0 * 1.03_f64.sqrt();
        let var = 0.99 * 1.03 + 0.01 * z * z;
        let k = (e + 1e-3) / (var + e + 1e-3);
        assert!((step(&mut filter, 100.0) - (m + z * k)).abs() < 1e-6);
    }

    #[test]
    fn a_queue_that_grows_steadily_is_found_and_noise_is_not() {
        let mut filter = Filter::new();
        let mut rng = crate::random::Rng::new(1);
        let mut m = 0.0;
        for _ in 0..3000 {
            let noise = f64::from(rng.below(2001)) / 500.0 - 2.0;
            m = filter.update(Variation {
                departure: 20.0,
                arrival: 20.0 + noise,
            });
        }
        assert!(m.abs() < 0.3, "{m}");
        for _ in 0..300 {
            let noise = f64::from(rng.below(2001)) / 500.0 - 2.0;
            m = filter.update(Variation {
                departure: 20.0,
                arrival: 22.0 + noise,
            });
        }
        assert!((m - 2.0).abs() < 0.4, "{m}");
    }
}
