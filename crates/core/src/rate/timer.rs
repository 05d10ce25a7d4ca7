// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timers of a sender: the timeout of RFC 6298 with its timer, and the earliest departure of the next packet.

use super::rto::{Rto, RtoParams};
use crate::units::{Duration, Instant};

/// Granularity of a sender's timers.
const LATENESS: Duration = Duration::from_millis(1);

/// A retransmission timeout, and the timer that runs while packets wait for a report.
#[derive(Clone, Debug)]
pub struct Timeout {
    rto: Rto,
    at: Option<Instant>,
}

impl Timeout {
    /// Nothing sent yet.
    pub fn new(params: RtoParams) -> Self {
        Self {
            rto: Rto::new(params),
            at: None,
        }
    }

    /// When the timer expires.
    pub fn at(&self) -> Option<Instant> {
        self.at
    }

    /// The timeout and the RTT behind it.
    pub fn rto(&self) -> &Rto {
        &self.rto
    }

    /// A packet left.
    pub fn on_sent(&mut self, now: Instant) {
        if self.at.is_none() {
            self.at = Some(now + self.rto.value());
        }
    }

    /// An RTT was measured now.
    pub fn sample(&mut self, now: Instant, rtt: Duration) {
        self.rto.sample(now - rtt, now);
    }

    /// A report came; `waits`: packets are under way that it does not cover.
    pub fn on_report(&mut self, now: Instant, waits: bool) {
        self.at = waits.then(|| now + self.rto.value());
    }

    /// Whether the timer has expired; if so it stops, and the next timeout is twice as long.
    pub fn expires(&mut self, now: Instant) -> bool {
        let is_due = self.at.is_some_and(|at| at <= now);
        if is_due {
            self.rto.back_off();
            self.at = None;
        }
        is_due
    }
}

/// Spaces packets.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    next: Instant,
}

impl Pacer {
    /// The first packet may leave at once.
    pub const fn new() -> Self {
        Self {
            next: Instant::ZERO,
        }
    }

    /// The earliest departure of the next packet.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// A packet left; the next one follows after `interval`. A sender that is late makes up for a millisecond of it.
    pub fn on_sent(&mut self, now: Instant, interval: Duration) {
        self.next = self.next.max(now - LATENESS) + interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn the_timer_runs_from_the_first_packet_without_a_report_and_doubles_when_it_expires() {
        let mut timeout = Timeout::new(RtoParams::default());
        assert!(!timeout.expires(at_ms(5000)));
        timeout.on_sent(at_ms(0));
        timeout.on_sent(at_ms(900));
        assert!(!timeout.expires(at_ms(999)));
        assert!(timeout.expires(at_ms(1000)));
        assert_eq!(timeout.at(), None);
        timeout.on_sent(at_ms(1000));
        assert_eq!(timeout.at(), Some(at_ms(3000)));
        timeout.sample(at_ms(1100), Duration::from_millis(100));
        timeout.on_report(at_ms(1100), true);
        assert_eq!(timeout.at(), Some(at_ms(2100)));
        timeout.on_report(at_ms(1200), false);
        assert_eq!(timeout.at(), None);
    }

    #[test]
    fn a_late_sender_makes_up_for_a_millisecond() {
        let mut pacer = Pacer::new();
        let interval = Duration::from_millis(10);
        pacer.on_sent(at_ms(100), interval);
        assert_eq!(pacer.next(), at_ms(109));
        // Late by less than a millisecond: nothing is lost.
        pacer.on_sent(at_ms(109) + Duration::from_nanos(500_000), interval);
        assert_eq!(pacer.next(), at_ms(119));
        pacer.on_sent(at_ms(150), interval);
        assert_eq!(pacer.next(), at_ms(159));
    }
}
