// SPDX-License-Identifier: MIT OR Apache-2.0
//! A constant rate, for any feedback.

use super::{Feedback, FeedbackError, RateController};
use crate::units::{Bytes, Duration, Instant, Rate};

/// Sends at one rate, evenly; of zero, nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    rate: Rate,
    next: Instant,
}

impl Fixed {
    /// `rate` counts payload.
    pub const fn new(rate: Rate) -> Self {
        Self {
            rate,
            next: Instant::ZERO,
        }
    }
}

impl RateController for Fixed {
    fn next_send(&self) -> Option<Instant> {
        (self.rate.bps() > 0).then_some(self.next)
    }

    fn on_sent(&mut self, now: Instant, _sequence: u64, bytes: u32) {
        if self.rate.bps() > 0 {
            self.next = self.next.max(now) + Bytes::new(bytes.into()) / self.rate;
        }
    }

    fn on_feedback(&mut self, _now: Instant, _feedback: &Feedback) -> Result<(), FeedbackError> {
        Ok(())
    }

    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    fn on_timeout(&mut self, _now: Instant) {}

    fn rate(&self) -> Rate {
        self.rate
    }

    fn rtt(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_zero_sends_nothing_and_does_not_panic() {
        let mut nothing = Fixed::new(Rate::from_bps(0));
        assert_eq!(nothing.next_send(), None);
        nothing.on_sent(Instant::ZERO, 0, 1000);
        assert_eq!(nothing.next_send(), None);
    }
}
