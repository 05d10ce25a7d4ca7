// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sender's record of its last packets: departure time and length of each; and the RTT from a report on one.

use super::FeedbackError;
use crate::units::{Duration, Instant};
use alloc::vec;
use alloc::vec::Vec;

/// A packet that left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentPacket {
    /// When it left.
    pub at: Instant,
    /// All payload sent up to it, itself included, in bytes.
    pub total: u64,
    /// When the sender had last sent all that it might, up to then.
    pub all_sent: Option<Instant>,
}

/// A ring of the last packets; 32 bytes for each. It begins with room for some and grows, up to [`SentLog::MOST`], while the packet
/// that would make room is younger than a report on it may be.
#[derive(Clone, Debug)]
pub struct SentLog {
    ring: Vec<SentPacket>,
    next: u64,
    total: u64,
    all_sent: Option<Instant>,
    /// The shortest time from a packet's departure to a report on it, and the longest.
    shortest: Option<Duration>,
    longest: Duration,
}

/// A report that takes longer is forgotten at high rates, unless reports have taken a quarter of that before. Chosen by us.
const LATEST: Duration = Duration::from_secs(2);

impl SentLog {
    /// The most packets that are remembered: 2 s at 500 000 a second.
    pub const MOST: u32 = 1 << 20;

    /// Remembers `packets` and more where they leave quickly; 1 to [`SentLog::MOST`].
    pub fn new(packets: u32) -> Self {
        Self {
            ring: vec![SentPacket::default(); packets.clamp(1, Self::MOST) as usize],
            next: 0,
            total: 0,
            all_sent: None,
            shortest: None,
            longest: Duration::ZERO,
        }
    }

    /// The packet after the last one leaves.
    pub fn push(&mut self, at: Instant, bytes: u32) {
        if self.next >= self.ring.len() as u64 {
            let oldest = self.ring[self.index_of(self.next)].at;
            if at.saturating_since(oldest) < LATEST.max(self.longest * 4) {
                self.grow();
            }
        }
        self.total += u64::from(bytes);
        let index = self.index_of(self.next);
        self.ring[index] = SentPacket {
            at,
            total: self.total,
            all_sent: self.all_sent,
        };
        self.next += 1;
    }

    /// After the last packet no other might leave.
    pub fn note_all_sent(&mut self) {
        if let Some(last) = self.next.checked_sub(1) {
            let index = self.index_of(last);
            self.all_sent = Some(self.ring[index].at);
            self.ring[index].all_sent = self.all_sent;
        }
    }

    /// The packet with this number.
    ///
    /// # Errors
    /// It was not sent yet, or so long ago that it is forgotten.
    pub fn packet(&self, sequence: u64) -> Result<SentPacket, FeedbackError> {
        if sequence >= self.next {
            return Err(FeedbackError::NotSent(sequence));
        }
        if sequence < self.oldest() {
            return Err(FeedbackError::Forgotten(sequence));
        }
        Ok(self.ring[self.index_of(sequence)])
    }

    /// The last packet of those remembered that had left by `at`, and its number.
    pub fn last_by(&self, at: Instant) -> Option<(u64, SentPacket)> {
        let (mut from, mut to) = (self.oldest(), self.next);
        while from < to {
            let middle = from + (to - from) / 2;
            match self.ring[self.index_of(middle)].at <= at {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        let last = from.checked_sub(1).filter(|last| *last >= self.oldest())?;
        Some((last, self.ring[self.index_of(last)]))
    }

    /// Payload of a packet in bytes; `None` where it or the one before it is not known.
    pub fn payload(&self, sequence: u64) -> Option<u64> {
        let total = self.packet(sequence).ok()?.total;
        let before = match sequence.checked_sub(1) {
            Some(before) => self.packet(before).ok()?.total,
            None => 0,
        };
        Some(total - before)
    }

    /// The RTT that a report shows, which comes now and says that the packet was held for so long.
    ///
    /// The time from departure to report cannot be made shorter by what the report says, so an RTT counts as no less than
    /// half of the shortest of them so far. Only a receiver that held every packet that it reported on for longer than the RTT
    /// comes there without lying.
    ///
    /// # Errors
    /// The packet was held for as long as it was away, or longer.
    pub fn rtt(
        &self,
        now: Instant,
        packet: SentPacket,
        held: Duration,
    ) -> Result<Duration, FeedbackError> {
        let away = now.saturating_since(packet.at);
        let sample = now.saturating_since(packet.at + held);
        if sample == Duration::ZERO {
            return Err(FeedbackError::HeldTooLong);
        }
        let shortest = self.shortest.map_or(away, |shortest| shortest.min(away));
        Ok(sample.max(shortest / 2))
    }

    /// A report on the packet was believed.
    pub fn note_report(&mut self, now: Instant, packet: SentPacket) {
        let away = now.saturating_since(packet.at);
        self.shortest = Some(self.shortest.map_or(away, |shortest| shortest.min(away)));
        self.longest = self.longest.max(away);
    }

    /// Payload in the packets that it remembers, up to this one, in bytes.
    pub fn bytes_until(&self, packet: SentPacket) -> u64 {
        let oldest = self.oldest();
        let before = match oldest {
            0 => 0,
            // The oldest itself is left out; it is one in many.
            oldest => self.ring[self.index_of(oldest)].total,
        };
        packet.total.saturating_sub(before)
    }

    /// How many were sent: the number of the next packet.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// All payload sent, in bytes.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Twice the room.
    #[cold]
    fn grow(&mut self) {
        let len = (self.ring.len() * 2).min(Self::MOST as usize);
        let mut ring = vec![SentPacket::default(); len];
        for sequence in self.oldest()..self.next {
            ring[(sequence % len as u64) as usize] = self.ring[self.index_of(sequence)];
        }
        self.ring = ring;
    }

    fn oldest(&self) -> u64 {
        self.next.saturating_sub(self.ring.len() as u64)
    }

    fn index_of(&self, sequence: u64) -> usize {
        (sequence % self.ring.len() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::from_nanos(s * 1_000_000_000)
    }

    #[test]
    fn a_packet_is_known_until_as_many_have_followed_as_the_ring_holds() {
        let mut log = SentLog::new(3);
        assert_eq!(log.packet(0), Err(FeedbackError::NotSent(0)));
        for i in 0..5 {
            log.push(at(i), 100);
        }
        assert_eq!(log.packet(1), Err(FeedbackError::Forgotten(1)));
        assert_eq!(log.packet(2).map(|p| p.at), Ok(at(2)));
        assert_eq!(log.packet(4).map(|p| p.total), Ok(500));
        assert_eq!(log.packet(5), Err(FeedbackError::NotSent(5)));
    }

    #[test]
    fn the_last_packet_that_had_left_is_found() {
        let mut log = SentLog::new(4);
        assert_eq!(log.last_by(at(9)), None);
        for i in 0..6 {
            log.push(at(10 * i), 100);
        }
        let last_by = |s| {
            log.last_by(at(s))
                .map(|(sequence, packet)| (sequence, packet.total))
        };
        // 0 and 1 are forgotten.
        assert_eq!(
            [19, 20, 39, 1000].map(last_by),
            [None, Some((2, 300)), Some((3, 400)), Some((5, 600))]
        );
    }

    #[test]
    fn the_ring_grows_while_its_packets_are_young() {
        let mut log = SentLog::new(4);
        for i in 0..1000 {
            log.push(Instant::from_nanos(i * 1_000_000), 100);
        }
        assert_eq!(log.packet(0).map(|p| p.total), Ok(100));
        // Reports that took 3 s may take 12.
        log.note_report(at(4), log.packet(999).unwrap());
        for i in 0..2000 {
            log.push(at(4 + i / 200), 100);
        }
        assert_eq!(log.packet(500).map(|p| p.total), Ok(50_100));
        for i in 0..100_000 {
            log.push(at(20 + i), 100);
        }
        assert!(log.ring.len() <= 4096, "{}", log.ring.len());
    }
}
