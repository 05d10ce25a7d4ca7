// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two controllers of Google congestion control: by delay (§5.5) and by losses (§6). Rates are in bit/s, times in s.

use super::exp::exp;
use super::overuse::Signal;
#[cfg(not(feature = "std"))]
use num_traits::Float as _;

/// beta.
const BETA: f64 = 0.85;
/// The natural logarithm of eta for a second, 1.08.
const LN_ETA: f64 = 0.076_961_041_136_128_4;
/// A_hat is below this times R_hat.
const ABOVE: f64 = 1.5;
/// Weight of the average maximum, and standard deviations around it.
const SMOOTHING: f64 = 0.95;
const DEVIATIONS: f64 = 3.0;
/// The least variance of that average, by itself, in bit/s: without one the first would have none; libwebrtc's.
const LEAST_SPREAD: f64 = 400.0;

/// State of the rate control subsystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Increase,
    Decrease,
    Hold,
}

impl State {
    /// The table of §5.5.
    pub fn next(self, signal: Signal) -> Self {
        match (signal, self) {
            (Signal::Overuse, _) => Self::Decrease,
            (Signal::Underuse, _) | (Signal::Normal, Self::Decrease) => Self::Hold,
            (Signal::Normal, _) => Self::Increase,
        }
    }
}

/// The controller by delay.
#[derive(Clone, Debug)]
pub struct ByDelay {
    /// A_hat.
    pub rate: f64,
    state: State,
    /// Mean and variance of R_hat in Decrease.
    maximum: Option<(f64, f64)>,
}

impl ByDelay {
    pub fn new(rate: f64) -> Self {
        Self {
            rate,
            state: State::Increase,
            maximum: None,
        }
    }

    /// A signal, R_hat where it is known, the RTT, and the time since the last update.
    pub fn update(&mut self, signal: Signal, received: Option<f64>, rtt: f64, since: f64) {
        self.state = self.state.next(signal);
        match (self.state, received) {
            (State::Increase, _) => self.increase(received, rtt, since),
            (State::Decrease, Some(received)) => self.decrease(received),
            // Nothing is known of the path's rate.
            (State::Decrease, None) => self.rate *= BETA,
            (State::Hold, _) => {}
        }
    }

    fn spread(maximum: (f64, f64)) -> f64 {
        DEVIATIONS * maximum.1.max(LEAST_SPREAD * maximum.0).sqrt()
    }

    /// Whether R_hat is close to its average when the path was over-used.
    fn is_near(&mut self, received: f64) -> bool {
        let Some(maximum) = self.maximum else {
            return false;
        };
        if received > maximum.0 + Self::spread(maximum) {
            self.maximum = None;
        }
        (received - maximum.0).abs() <= Self::spread(maximum)
    }

    fn increase(&mut self, received: Option<f64>, rtt: f64, since: f64) {
        let is_near = received.is_some_and(|received| self.is_near(received));
        let new = if is_near {
            let response = 0.1 + rtt;
            let alpha = 0.5 * (since / response).min(1.0);
            let frame = self.rate / 30.0;
            let packets = (frame / (1200.0 * 8.0)).ceil().max(1.0);
            self.rate + (alpha * frame / packets).max(1000.0 * since.min(1.0))
        } else {
            self.rate * exp(LN_ETA * since.min(1.0))
        };
        let most = received.map_or(f64::INFINITY, |received| ABOVE * received);
        self.rate = new.min(most).max(self.rate);
    }

    fn decrease(&mut self, received: f64) {
        let new = match self.maximum {
            // Far below what it was: another path.
            Some(maximum) if received < maximum.0 - Self::spread(maximum) => (received, 0.0),
            Some((mean, variance)) => {
                let off = received - mean;
                let mean = SMOOTHING * mean + (1.0 - SMOOTHING) * received;
                (mean, SMOOTHING * variance + (1.0 - SMOOTHING) * off * off)
            }
            None => (received, 0.0),
        };
        self.maximum = Some(new);
        self.rate = self.rate.min(BETA * received);
    }
}

/// Shares of lost packets below which the rate grows, and above which it falls.
const LOSS: (f64, f64) = (0.02, 0.1);
/// Growth.
const GROWTH: f64 = 1.05;

/// Whether the share p of lost packets lets the rate grow.
pub fn grows(p: f64) -> bool {
    p < LOSS.0
}

/// The controller by losses: As_hat, from the rate that was used and the share p of packets that were lost.
pub fn by_losses(last: f64, used: f64, p: f64) -> f64 {
    if p > LOSS.1 {
        used * (1.0 - 0.5 * p)
    } else if grows(p) {
        last.max(used * GROWTH)
    } else {
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of §5.5, by signal and state.
    #[test]
    fn the_states_are_those_of_the_table() {
        use Signal::{Normal, Overuse, Underuse};
        use State::{Decrease, Hold, Increase};
        for (signal, of_hold, of_increase, of_decrease) in [
            (Overuse, Decrease, Decrease, Decrease),
            (Normal, Increase, Increase, Hold),
            (Underuse, Hold, Hold, Hold),
        ] {
            let next = [Hold, Increase, Decrease].map(|state| state.next(signal));
            assert_eq!(next, [of_hold, of_increase, of_decrease]);
        }
    }

    #[test]
    fn growth_is_eight_percent_a_second_and_half_a_packet_a_response_time_near_the_maximum() {
        let mut delay = ByDelay::new(1e6);
        delay.update(Signal::Normal, Some(1e6), 0.1, 0.5);
        assert!((delay.rate - 1e6 * 1.08_f64.powf(0.5)).abs() < 1.0);
        // At most a second counts.
        let mut delay = ByDelay::new(1e6);
        delay.update(Signal::Normal, Some(1e6), 0.1, 5.0);
        assert!((delay.rate - 1.08e6).abs() < 1.0);
        // Over-use at 1 Mbit/s: 0.85, Hold, then half a packet in 200 ms. A frame of 28.3 kbit has three packets.
        delay.update(Signal::Overuse, Some(1e6), 0.1, 0.1);
        assert!((delay.rate - 0.85e6).abs() < 1.0);
        delay.update(Signal::Normal, Some(1e6), 0.1, 0.1);
        assert!((delay.rate - 0.85e6).abs() < 1.0);
        delay.update(Signal::Normal, Some(1e6), 0.1, 0.2);
        let packet = 0.85e6 / 30.0 / 3.0;
        assert!(
            (delay.rate - (0.85e6 + packet / 2.0)).abs() < 1.0,
            "{}",
            delay.rate
        );
        // Three deviations above: the average is forgotten.
        delay.update(Signal::Normal, Some(1.2e6), 0.1, 0.2);
        let before = delay.rate;
        delay.update(Signal::Normal, Some(1e6), 0.1, 1.0);
        assert!((delay.rate / before - 1.08).abs() < 1e-6);
    }

    #[test]
    fn the_estimate_stays_below_one_and_a_half_times_what_arrives_and_never_falls_for_it() {
        let mut delay = ByDelay::new(1e6);
        delay.update(Signal::Normal, Some(0.7e6), 0.1, 1.0);
        assert!((delay.rate - 1.05e6).abs() < 1.0);
        delay.update(Signal::Normal, Some(0.1e6), 0.1, 1.0);
        assert!((delay.rate - 1.05e6).abs() < 1.0);
    }

    /// §6, with p of 1, 5 and 20 %.
    #[test]
    fn losses_below_two_percent_let_it_grow_and_above_ten_let_it_fall() {
        assert!((by_losses(1e6, 1e6, 0.01) - 1.05e6).abs() < 1.0);
        assert!((by_losses(1e6, 1e6, 0.05) - 1e6).abs() < 1.0);
        assert!((by_losses(1e6, 1e6, 0.2) - 0.9e6).abs() < 1.0);
    }
}
