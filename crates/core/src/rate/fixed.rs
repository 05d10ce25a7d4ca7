//! A rate that stays, whatever is reported.

use super::{Feedback, FeedbackError, RateController};
use crate::units::{Bytes, Duration, Instant, Rate};

/// Sends at one rate, evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    rate: Rate,
    next: Instant,
}

impl Fixed {
    /// `rate` counts payload and is not zero.
    pub const fn new(rate: Rate) -> Self {
        Self {
            rate,
            next: Instant::ZERO,
        }
    }
}

impl RateController for Fixed {
    fn next_send(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn on_sent(&mut self, now: Instant, _sequence: u64, bytes: u32) {
        self.next = self.next.max(now) + Bytes::new(bytes.into()) / self.rate;
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
