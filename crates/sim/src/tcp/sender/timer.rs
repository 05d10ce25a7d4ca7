// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one timer of a sender: the retransmission timer, or what comes before it would expire.

use super::Sender;
use crate::tcp::{Ack, Segment};
use makeway_core::units::{Duration, Instant};

/// Purpose of the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// RFC 6298.
    Retransmission,
    /// The tail loss probe of RFC 8985 §7.
    Probe,
    /// Missing segments are no longer taken for reordered, RFC 8985 §6.3.
    Reordering,
}

/// A tail loss probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    None,
    /// To be sent now.
    Due,
    /// Out until all of `end` is acknowledged; if something was sent `again`, then at that time.
    Out {
        end: u64,
        again: Option<Instant>,
    },
}

impl Sender {
    /// Something is in the network.
    #[inline]
    pub(super) fn restart_timer(&mut self, now: Instant) {
        self.timer = Timer::Retransmission;
        self.expires = now + self.rto.value();
        if let Some(rack) = &self.rack
            && self.recovery.is_none()
        {
            if !self.scoreboard.is_empty() {
                self.timer = Timer::Reordering;
                self.expires = now + rack.patience();
            } else if self.probe == Probe::None
                && let Some(srtt) = self.rto.srtt()
            {
                let one = self.max - self.una <= u64::from(self.mss);
                let delayed = if one {
                    self.max_ack_delay
                } else {
                    Duration::ZERO
                };
                self.timer = Timer::Probe;
                self.expires = self.expires.min(now + srtt * 2 + delayed);
            }
        }
    }

    /// A selective acknowledgement, and nothing new in order. With RACK only.
    pub(super) fn restart_timer_on_duplicate(&mut self, now: Instant) {
        match self.recovery {
            None if self.timer != Timer::Reordering => self.restart_timer(now),
            None => {}
            // Linux: if it was sent before the first gap was filled, that cannot have arrived yet.
            Some(_) => {
                let rack = self.rack.as_ref();
                if rack.is_some_and(|rack| rack.first_is_younger(&self.scoreboard)) {
                    self.restart_timer(now);
                }
            }
        }
    }

    /// RFC 8985 §7.3: new data if there is some, else the last segment again.
    pub(super) fn probe_tail(&mut self, now: Instant) -> Option<Segment> {
        let mss = u64::from(self.mss);
        let new = (self.end - self.max).min(mss);
        let new = new.min((self.una + self.receive_window).saturating_sub(self.max));
        let (seq, len, again) = match new {
            0 => {
                let len = (self.max - self.una).min(mss);
                (self.max - len, len, Some(now))
            }
            len => (self.max, len, None),
        };
        self.stats.probes += 1;
        self.nxt = self.nxt.max(seq + len);
        let segment = self.emit(now, seq, len as u32);
        self.probe = Probe::Out {
            end: self.max,
            again,
        };
        self.timer = Timer::Retransmission;
        self.expires = now + self.rto.value();
        Some(segment)
    }

    /// RFC 8985 §7.4: what the probe has repaired was a loss, and the window is reduced for it.
    pub(super) fn end_probe(&mut self, ack: &Ack) {
        let Probe::Out { end, again } = self.probe else {
            return;
        };
        if self.una < end {
            return;
        }
        self.probe = Probe::None;
        if let Some(sent) = again
            && ack.echo().is_none_or(|echo| echo >= sent)
            && self.recovery.is_none()
        {
            let flight = self.flight_size();
            self.window.reduce(flight);
            self.window.cwnd = self.window.reduced;
        }
    }
}
