// SPDX-License-Identifier: MIT OR Apache-2.0
//! A station's route to another.

use makeway_core::units::Instant;

/// An entry of the routing table (RFC 3561 sections 2 and 6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Route {
    /// The destination's sequence number, where one is known.
    pub seq: Option<u32>,
    /// Whether it came with this way (the valid sequence number flag): not that of a neighbour who was only heard,
    /// nor one that was raised here.
    pub told: bool,
    /// Hops, where there is or was a way.
    pub hops: u8,
    pub next: u16,
    /// Whether the way has not been found broken.
    pub valid: bool,
    /// A valid way is active until then.
    pub until: Instant,
    /// Neighbours that come this way, a bit each.
    pub precursors: u128,
}

/// Whether sequence number `a` is later than `b` (6.1: they wrap).
pub(super) fn later(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Route {
    pub fn is_active(&self, now: Instant) -> bool {
        self.valid && now < self.until
    }

    /// Learns of a way; whether it is taken (6.2, 6.7).
    pub fn learn(&mut self, now: Instant, seq: u32, hops: u8, next: u16, until: Instant) -> bool {
        self.expire(now);
        let better = match self.seq {
            None => true,
            Some(known) if known == seq => !self.valid || !self.told || hops < self.hops,
            Some(known) => later(seq, known),
        };
        if better {
            (self.seq, self.hops, self.next, self.valid) = (Some(seq), hops, next, true);
            (self.told, self.until) = (true, until);
        } else if self.seq == Some(seq) && self.next == next {
            self.until = self.until.max(until);
        }
        better
    }

    /// The destination is a neighbour, who has been heard.
    pub fn hear(&mut self, now: Instant, neighbour: u16, until: Instant) {
        self.expire(now);
        if self.valid && self.hops == 1 {
            self.until = self.until.max(until);
        } else {
            (self.hops, self.next, self.valid) = (1, neighbour, true);
            (self.told, self.until) = (false, until);
        }
    }

    /// The way is used, so it is good for longer.
    pub fn extend(&mut self, now: Instant, until: Instant) {
        if self.is_active(now) {
            self.until = self.until.max(until);
        }
    }

    /// There is no route any more: a request asks for a later one than this (6.11). No more than one
    /// later, or the destination would never catch up.
    pub fn fail(&mut self) {
        self.valid = false;
        if std::mem::take(&mut self.told) {
            self.seq = self.seq.map(|seq| seq.wrapping_add(1));
        }
    }

    /// As [`Self::fail`], where the time of the way is over (6.1).
    pub fn expire(&mut self, now: Instant) {
        if self.valid && self.until <= now {
            self.fail();
        }
    }
}
