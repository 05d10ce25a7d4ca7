// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rate estimates from outside: an application, its library or another transport gives the rate, and this paces.
//!
//! [`External::set`] takes an estimate at any time; feedback is ignored, so a receiver needs to send none. Where estimates come late
//! or end, the last one holds: only their source knows what silence means.

use super::{Feedback, FeedbackError, RateController};
use crate::units::{Bytes, Duration, Instant, Rate};

/// Granularity of timers: a packet that left late is made up for, by this at most.
const LATENESS: Duration = Duration::from_millis(1);

/// Sends evenly at the rate of the last estimate; at 0, nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct External {
    rate: Rate,
    rtt: Option<Duration>,
    /// The last packet: when it left or should have left, and its payload.
    last: Option<(Instant, Bytes)>,
}

impl External {
    /// `rate` counts payload, and stays until the first estimate.
    pub const fn new(rate: Rate) -> Self {
        Self {
            rate,
            rtt: None,
            last: None,
        }
    }

    /// The estimate from now on. A packet that waits for its departure leaves by the new rate.
    pub fn set(&mut self, rate: Rate, rtt: Option<Duration>) {
        self.rate = rate;
        self.rtt = rtt.or(self.rtt);
    }
}

impl RateController for External {
    fn next_send(&self) -> Option<Instant> {
        if self.rate.bps() == 0 {
            return None;
        }
        let next = self.last.map(|(at, bytes)| at + bytes / self.rate);
        Some(next.unwrap_or(Instant::ZERO))
    }

    fn on_sent(&mut self, now: Instant, _sequence: u64, bytes: u32) {
        let due = self.last.and_then(|_| self.next_send());
        let due = due.unwrap_or(now).clamp(now - LATENESS, now);
        self.last = Some((due, Bytes::new(bytes.into())));
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
        self.rtt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// Packets of 1000 B from `from` to `to` ms.
    fn sent(external: &mut External, from: u64, to: u64) -> u32 {
        let mut sent = 0;
        for ms in from..to {
            while external.next_send().is_some_and(|due| due <= at(ms)) {
                external.on_sent(at(ms), 0, 1000);
                sent += 1;
            }
        }
        sent
    }

    #[test]
    fn packets_leave_at_the_estimate_and_a_new_one_counts_at_once() {
        let mut external = External::new(Rate::from_bps(800_000));
        assert_eq!(sent(&mut external, 0, 1000), 100);
        external.set(Rate::from_bps(8_000), Some(Duration::from_millis(30)));
        assert_eq!(external.rtt(), Some(Duration::from_millis(30)));
        assert_eq!(sent(&mut external, 1000, 1900), 0);
        // The packet that would have left at 1990 ms leaves now.
        external.set(Rate::from_bps(8_000_000), None);
        assert_eq!(external.rtt(), Some(Duration::from_millis(30)));
        let burst = sent(&mut external, 1900, 1901);
        assert!((1..=2).contains(&burst), "{burst}");
        assert_eq!(sent(&mut external, 1901, 2901), 1000);
        external.set(Rate::from_bps(0), None);
        assert_eq!(external.next_send(), None);
        external.on_sent(at(3000), 0, 1000);
    }
}
