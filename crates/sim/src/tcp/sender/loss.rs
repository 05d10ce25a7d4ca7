// SPDX-License-Identifier: MIT OR Apache-2.0
//! Losses: fast retransmit, the recoveries, the timer.

use super::Sender;
use super::timer::{Probe, Timer};
use crate::tcp::rack::News;
use crate::tcp::scoreboard::DUP_THRESH;
use crate::tcp::{Halved, Segment, Variant};
use makeway_core::units::Instant;

impl Sender {
    /// The time that [`Sender::next_timeout`] gave has come. Poll afterwards. An early call is harmless.
    pub fn on_timeout(&mut self, now: Instant) {
        if now < self.expires {
            return;
        }
        match self.timer {
            Timer::Retransmission => {}
            Timer::Reordering => return self.enter_recovery(now),
            Timer::Probe => {
                self.probe = Probe::Due;
                return;
            }
        }
        self.stats.timeouts += 1;
        // RFC 5681 §3.1: held if this segment was sent again by the timer before; Linux, in a fast
        // recovery.
        let held = self.rack.is_some() && self.recovery.is_some() && !self.slow_starts;
        if self.timed_out_at != Some(self.una) && !held {
            let flight = self.flight_size();
            self.window.reduce(flight);
        }
        self.timed_out_at = Some(self.una);
        self.window.collapse();
        if let Some(rack) = &mut self.rack {
            rack.begin_after_timeout(&self.scoreboard, self.max);
            self.recovery = Some(self.max);
            self.slow_starts = true;
            self.probe = Probe::None;
        } else {
            self.start_over();
            // RFC 6582 §3.2 (4), RFC 6675 §5.1.
            self.recover = Some(self.max);
            self.recovery = None;
        }
        // RFC 6298 (5.5), (5.6).
        self.rto.back_off();
        self.expires = now + self.rto.value();
    }

    /// Everything unacknowledged is to be sent again.
    fn start_over(&mut self) {
        self.nxt = self.una;
        self.retransmit = false;
        self.dup_acks = 0;
        self.timed = None;
        self.scoreboard.start_over();
    }

    /// Fast retransmit: the segment at `una` is lost.
    pub(super) fn enter_recovery(&mut self, now: Instant) {
        self.stats.fast_retransmits += 1;
        let flight = match self.halved {
            Halved::Pipe if self.variant.uses_sack() => self.scoreboard.pipe(self.max),
            _ => self.flight_size(),
        };
        self.window.reduce(flight);
        self.partial = false;
        self.timed = None;
        self.timer = Timer::Retransmission;
        // Not in RFC 6298; Linux and ns-2 do: else what began before the retransmission expires
        // before its acknowledgement can come.
        self.expires = now + self.rto.value();
        match self.variant {
            Variant::Tahoe => {
                self.window.collapse();
                self.start_over();
                // Those that are still to come are not the first.
                self.dup_acks = DUP_THRESH;
                self.recover = Some(self.max);
                return;
            }
            // RFC 5681 §3.2 (3): three segments have left the network.
            Variant::Reno => self.window.cwnd = self.window.reduced + self.three_segments(),
            // RFC 6582 §3.2 (2), (3).
            Variant::NewReno => {
                self.window.cwnd = self.window.reduced + self.three_segments();
                self.recover = Some(self.max);
            }
            // RFC 6675 §5 (4.2).
            Variant::Sack | Variant::Cubic | Variant::Ledbat => {
                match &mut self.prr {
                    Some(prr) => prr.begin(self.window.cwnd),
                    None => self.window.cwnd = self.window.reduced,
                }
                self.scoreboard.start_over();
            }
        }
        self.recovery = Some(self.max);
        if let Some(rack) = &mut self.rack {
            rack.begin(&self.scoreboard);
            self.slow_starts = false;
            self.probe = Probe::None;
            self.reduce_by(0, false);
        } else {
            self.retransmit = true;
        }
    }

    /// Proportional rate reduction: the window of a recovery after `arrived` new bytes.
    pub(super) fn reduce_by(&mut self, arrived: u64, progress: bool) {
        if self.prr.is_none() || self.recovery.is_none() || self.slow_starts {
            return;
        }
        let pipe = self.pipe();
        let mss = u64::from(self.mss);
        if let Some(prr) = &mut self.prr {
            let target = self.window.reduced;
            self.window.cwnd = prr.window(pipe, target, arrived, mss, progress);
        }
    }

    /// RFC 8985 §6.2 on an acknowledgement of `arrived` new bytes; `progress` if the first gap is closed.
    pub(super) fn look_for_losses(&mut self, now: Instant, arrived: u64, progress: bool) {
        let mut news = News::default();
        let Some(rack) = &mut self.rack else {
            return self.reduce_by(arrived, progress);
        };
        if self.recovery.is_some() {
            news = rack.update(&self.scoreboard);
            // Linux: after a timeout, what is lost again begins a fast recovery.
            if self.slow_starts && news.lost_again {
                self.window.reduce(self.window.cwnd);
                self.slow_starts = false;
                self.stats.fast_retransmits += 1;
                if let Some(prr) = &mut self.prr {
                    prr.begin(self.window.cwnd);
                }
            }
        } else if self.scoreboard.first_is_lost() {
            self.enter_recovery(now);
        }
        self.reduce_by(arrived, progress && !news.lost);
    }

    /// Bytes in the network in a recovery.
    pub(super) fn pipe(&self) -> u64 {
        match &self.rack {
            Some(rack) => rack.pipe(&self.scoreboard, self.max),
            None => self.scoreboard.pipe(self.max),
        }
    }

    fn three_segments(&self) -> u64 {
        3 * u64::from(self.mss)
    }

    /// New data was acknowledged in a fast recovery that ends at `point`. Whether the window then
    /// grows, as in ns-2 it does by what ends Reno's and NewReno's recovery.
    pub(super) fn on_ack_in_recovery(&mut self, acked: u64, point: u64) -> bool {
        if self.una >= point || self.variant == Variant::Reno {
            // RFC 5681 §3.2 (6); RFC 6582 §3.2 (3), the second way; RFC 6675 §5 (A).
            if !std::mem::take(&mut self.slow_starts) {
                self.window.cwnd = self.window.reduced;
            }
            self.recovery = None;
            self.retransmit = false;
            return !self.variant.uses_sack() || self.counts_delivered;
        }
        if self.variant == Variant::NewReno {
            // RFC 6582 §3.2 (3), partial: the next gap, and deflation by the acknowledged bytes.
            let mss = u64::from(self.mss);
            self.retransmit = true;
            self.window.cwnd = self.window.cwnd.saturating_sub(acked);
            if acked >= mss || self.window.cwnd < mss {
                self.window.cwnd += mss;
            }
        }
        self.slow_starts
    }

    /// Whether a partial acknowledgement leaves the timer as it is.
    #[inline]
    pub(super) fn keeps_timer(&mut self) -> bool {
        self.recovery.is_some()
            && self.variant == Variant::NewReno
            && std::mem::replace(&mut self.partial, true)
    }

    /// RFC 5681 §3.2 (3), RFC 6675 §5 (4.3).
    pub(super) fn retransmit_first(&mut self, now: Instant) -> Segment {
        self.retransmit = false;
        let (seq, len) = self.scoreboard.missing_from(self.una, self.max);
        self.scoreboard.resent_to(seq + u64::from(len));
        self.emit(now, seq, len)
    }

    /// RFC 6675 §5 (C): what `NextSeg()` says while the pipe has room.
    pub(super) fn next_in_recovery(&mut self, now: Instant) -> Option<Segment> {
        let mss = u64::from(self.mss);
        if self.pipe() + mss > self.window.cwnd {
            self.cwnd_limited = true;
            return None;
        }
        // (1)
        if let Some(rack) = &mut self.rack {
            if let Some((seq, len)) = rack.next_lost(self.una) {
                rack.on_resent(seq, seq + u64::from(len), self.max);
                return Some(self.emit(now, seq, len));
            }
        } else if let Some(lost) = self.scoreboard.next_lost() {
            return Some(self.fill(now, lost));
        }
        // (2)
        let len = (self.end - self.max).min(mss);
        if len > 0 && self.max + len <= self.una + self.receive_window {
            let seq = self.max;
            self.nxt = seq + len;
            return Some(self.emit(now, seq, len as u32));
        }
        if self.rack.is_some() {
            self.cwnd_limited = false;
            return None;
        }
        // (3)
        if let Some(hole) = self.scoreboard.next_hole() {
            return Some(self.fill(now, hole));
        }
        // (4)
        let (seq, len) = self.scoreboard.rescue(self.max)?;
        Some(self.emit(now, seq, len))
    }

    fn fill(&mut self, now: Instant, (seq, len): (u64, u32)) -> Segment {
        self.scoreboard.resent_to(seq + u64::from(len));
        self.emit(now, seq, len)
    }
}
