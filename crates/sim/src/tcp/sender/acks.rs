// SPDX-License-Identifier: MIT OR Apache-2.0
//! Acknowledgements: what they say of arrivals, of the round-trip time, of marks.

use super::Sender;
use crate::tcp::scoreboard::DUP_THRESH;
use crate::tcp::{Ack, Halved, Variant};
use makeway_core::units::Instant;

impl Sender {
    /// An acknowledgement has arrived. Poll afterwards.
    #[inline]
    pub fn on_ack(&mut self, now: Instant, ack: &Ack) {
        // RFC 9293 §3.10.7.4: of unsent data, or an old one.
        if ack.ack > self.max || ack.ack < self.una {
            return;
        }
        let same_window = self.receive_window == u64::from(ack.window);
        self.receive_window = u64::from(ack.window);
        let flight = self.flight_size();
        let known = self.scoreboard.total();
        let newly_sacked = !ack.sack.is_empty() && self.update_scoreboard(ack);
        if ack.ack > self.una {
            let marked = ack.ece && self.ecn;
            self.on_new_ack(now, ack, marked, known);
        } else if self.max > self.una {
            // RFC 5681 §2; with selective acknowledgements RFC 6675 §2: it brings news.
            let duplicate = match self.variant.uses_sack() {
                true => newly_sacked,
                false => same_window,
            };
            if duplicate {
                self.on_duplicate(now, self.scoreboard.total() - known);
            }
        }
        if ack.ece {
            self.on_mark(flight);
        }
    }

    /// RFC 6675 §4, `Update()`. Whether anything was new.
    fn update_scoreboard(&mut self, ack: &Ack) -> bool {
        let mut new = 0;
        if self.variant.uses_sack() {
            for (start, end) in ack.sacked().filter(|block| block.1 <= self.max) {
                new += self.scoreboard.sacked(start, end);
                if self.recovery.is_some()
                    && let Some(rack) = &mut self.rack
                    && start >= self.una
                {
                    rack.arrived(start, end);
                }
            }
        }
        new > 0
    }

    #[inline]
    fn on_new_ack(&mut self, now: Instant, ack: &Ack, marked: bool, known: u64) {
        let acked = ack.ack - self.una;
        self.una = ack.ack;
        self.nxt = self.nxt.max(self.una);
        self.dup_acks = 0;
        if self.variant.uses_sack() {
            self.scoreboard.advance(self.una);
        }
        self.measure(now, ack);
        self.end_probe(ack);
        let mut grows = match self.recovery {
            None => true,
            Some(point) => self.on_ack_in_recovery(acked, point),
        };
        let delivered = (acked + self.scoreboard.total()).saturating_sub(known);
        self.look_for_losses(now, delivered, true);
        grows &= self.recovery.is_none() || self.slow_starts;
        let counts = match self.counts_delivered {
            true => delivered,
            false => acked,
        };
        if grows && self.cwnd_limited && !marked {
            self.window.grow(counts, now, self.rto.srtt());
        }
        // RFC 6298 (5.2), (5.3); RFC 6582 §3.2: of partial ones, at the first only.
        if self.una == self.max {
            self.expires = Instant::FAR_FUTURE;
        } else if !self.keeps_timer() {
            self.restart_timer(now);
        }
    }

    /// RFC 7323 §4.1 with timestamps; else RFC 6298 §3.
    #[inline]
    fn measure(&mut self, now: Instant, ack: &Ack) {
        if let Some(sent) = ack.echo() {
            self.rto.sample(sent, now);
            let rtt = now.saturating_since(sent);
            if let Some(rack) = &mut self.rack {
                rack.on_round_trip(rtt);
            }
            self.window.on_round_trip(now, rtt, self.una, self.nxt);
        } else if let Some((end, sent)) = self.timed
            && self.una >= end
        {
            self.rto.sample(sent, now);
            self.timed = None;
        }
    }

    /// `arrived` bytes were selectively acknowledged.
    fn on_duplicate(&mut self, now: Instant, arrived: u64) {
        self.dup_acks += 1;
        if self.rack.is_some() {
            self.look_for_losses(now, arrived, false);
            self.restart_timer_on_duplicate(now);
            return;
        }
        if self.recovery.is_some() {
            if !self.variant.uses_sack() {
                // RFC 5681 §3.2 (4): a segment has left the network.
                self.window.cwnd += u64::from(self.mss);
            }
        } else if self.is_lost() && self.may_recover() {
            self.enter_recovery(now);
        }
        self.reduce_by(arrived, false);
    }

    /// The first segment, by RFC 6675 §5 (1), (2); RFC 5681 §3.2 (2).
    fn is_lost(&self) -> bool {
        self.dup_acks >= DUP_THRESH || (self.variant.uses_sack() && self.scoreboard.first_is_lost())
    }

    /// RFC 6582 §3.2 (1): the duplicates may come from needless retransmissions, unless
    /// more than `recover` is acknowledged. RFC 6675 §5.1 asks for no more than all of it.
    fn may_recover(&self) -> bool {
        match self.recover {
            None => true,
            Some(recover) if self.variant.uses_sack() => self.una >= recover,
            Some(recover) => self.una > recover,
        }
    }

    /// RFC 3168 §6.1.2: as for a loss, once in a window of data. `flight` is from before.
    fn on_mark(&mut self, flight: u64) {
        let heard = self.reduced_at.is_some_and(|at| self.una <= at);
        if !self.ecn || heard || self.recovery.is_some() {
            return;
        }
        self.stats.ecn_reductions += 1;
        self.window.reduce(flight);
        self.window.cwnd = self.window.reduced;
        self.reduced_at = Some(self.max);
        self.cwr = true;
    }

    /// FlightSize of RFC 5681 §3.2, and no more than the window: neither what limited transmit added
    /// counts, nor what an inflated window let out.
    pub(super) fn flight_size(&self) -> u64 {
        let window = match self.variant {
            Variant::Reno | Variant::NewReno if self.recovery.is_some() => self.window.reduced,
            _ => self.window.cwnd,
        };
        match self.halved {
            Halved::Window => window.min(self.receive_window),
            Halved::Outstanding | Halved::Pipe => window.min(self.max - self.una),
        }
    }
}
