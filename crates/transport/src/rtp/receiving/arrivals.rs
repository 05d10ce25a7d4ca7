// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrivals that are to be reported, by number, and senders whose numbers begin anew.

use std::collections::VecDeque;

use makeway_core::measure::Unwrap;
use makeway_core::units::Instant;

/// Arrivals that are kept for reports; a report goes when half of them are new.
pub(super) const KEPT: usize = 2048;

/// Arrivals of the last packets, and which of them are not reported yet.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    /// By number: when, and the ECN bits. A number that is missing has none.
    ring: VecDeque<Option<(Instant, u8)>>,
    /// Number of the first in the ring.
    first: u64,
    /// Lowest number that is not reported, of packets that came.
    unreported: Option<u64>,
    /// The number after the last that was reported. Reports follow each other without gaps, so that the sender can tell a lost packet
    /// from a lost report.
    reported: Option<u64>,
    /// How many are not reported.
    pub fresh: usize,
}

impl Arrivals {
    pub fn new() -> Self {
        Self {
            ring: VecDeque::with_capacity(KEPT),
            first: 0,
            unreported: None,
            reported: None,
            fresh: 0,
        }
    }

    /// The number after the highest.
    fn end(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    /// Whether the packet with this number is known to have come.
    fn has(&self, number: u64) -> bool {
        let at = number.checked_sub(self.first);
        let found = at.and_then(|at| self.ring.get(at as usize));
        found.is_some_and(Option::is_some)
    }

    /// A packet that did not come before. One that is far older than the others is left out.
    pub fn push(&mut self, number: u64, now: Instant, ecn: u8) {
        let end = self.end();
        if self.ring.is_empty() || number >= end + KEPT as u64 {
            self.ring.clear();
            self.first = number;
            (self.unreported, self.reported) = (None, None);
        }
        if number < self.first {
            let before = (self.first - number) as usize;
            if before + self.ring.len() > KEPT {
                return;
            }
            (0..before).for_each(|_| self.ring.push_front(None));
            self.first = number;
        }
        while self.first + self.ring.len() as u64 <= number {
            if self.ring.len() == KEPT {
                self.ring.pop_front();
                self.first += 1;
            }
            self.ring.push_back(None);
        }
        self.ring[(number - self.first) as usize] = Some((now, ecn));
        self.unreported = Some(self.unreported.map_or(number, |n| n.min(number)));
        self.fresh += 1;
    }

    /// Unreported packets: the number of the first, and all from there. They count as reported then.
    pub fn take(&mut self) -> Option<(u64, impl Iterator<Item = Option<(Instant, u8)>> + Clone)> {
        let unreported = self.unreported.take()?;
        let end = self.end();
        let from = self.reported.replace(end).unwrap_or(unreported);
        let from = from.min(unreported).max(self.first);
        self.fresh = 0;
        let skip = (from - self.first) as usize;
        Some((from, self.ring.iter().skip(skip).copied()))
    }
}

/// Finds a sender that has begun anew without BYE, by two packets in succession whose numbers lie far behind the highest (RFC 3550 §A.1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Restart {
    /// The number after that of the last packet, if that lay far behind.
    next: Option<u64>,
}

impl Restart {
    /// A packet came; `highest` is the highest number before. Whether it is the second of two.
    pub fn on_packet(&mut self, highest: u64, number: u64) -> bool {
        let is_far = number + KEPT as u64 <= highest;
        let is_second = is_far && self.next == Some(number);
        self.next = is_far.then_some(number + 1);
        is_second
    }
}

/// TWCC: one sequence of numbers for all streams of a sender.
#[derive(Clone, Debug)]
pub(super) struct TransportWide {
    unwrap: Unwrap,
    restart: Restart,
    pub arrivals: Arrivals,
    /// How many reports there were, modulo 256.
    pub reports: u8,
    /// When the last report was made, if it was of one packet.
    pub lone: Option<Instant>,
}

impl TransportWide {
    pub fn new() -> Self {
        Self {
            unwrap: Unwrap::default(),
            restart: Restart::default(),
            arrivals: Arrivals::new(),
            reports: 0,
            lone: None,
        }
    }

    /// A packet came with these last 16 bits of its number.
    pub fn on_packet(&mut self, sequence: u16, now: Instant, ecn: u8) {
        let mut number = self.unwrap.extend(sequence);
        let highest = self.arrivals.end().saturating_sub(1);
        // A sender gives each number once, so one that comes again is another sender's.
        if self.arrivals.has(number) || self.restart.on_packet(highest, number) {
            *self = Self::new();
            number = self.unwrap.extend(sequence);
        }
        self.arrivals.push(number, now, ecn);
    }
}
