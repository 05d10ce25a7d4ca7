// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sender's record of its last packets: departure time and length of each; and the RTT from a report on one.

use super::FeedbackError;
use crate::units::{Duration, Instant};
use alloc::boxed::Box;
use alloc::vec;

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

/// A ring of the last packets; 32 bytes for each, allocated when made.
#[derive(Clone, Debug)]
pub struct SentLog {
    ring: Box<[SentPacket]>,
    next: u64,
    total: u64,
    all_sent: Option<Instant>,
    /// The shortest time from a packet's departure to a report on it.
    shortest: Option<Duration>,
}

impl SentLog {
    /// Remembers `packets`, at least 1.
    pub fn new(packets: u32) -> Self {
        Self {
            ring: vec![SentPacket::default(); packets.max(1) as usize].into(),
            next: 0,
            total: 0,
            all_sent: None,
            shortest: None,
        }
    }

    /// The packet after the last one leaves.
    pub fn push(&mut self, at: Instant, bytes: u32) {
        self.total += u64::from(bytes);
        let place = self.place(self.next);
        self.ring[place] = SentPacket {
            at,
            total: self.total,
            all_sent: self.all_sent,
        };
        self.next += 1;
    }

    /// After the last packet no other might leave.
    pub fn note_all_sent(&mut self) {
        if let Some(last) = self.next.checked_sub(1) {
            let place = self.place(last);
            self.all_sent = Some(self.ring[place].at);
            self.ring[place].all_sent = self.all_sent;
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
        Ok(self.ring[self.place(sequence)])
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
    }

    /// Payload in the packets that it remembers, up to this one, in bytes.
    pub fn bytes_until(&self, packet: SentPacket) -> u64 {
        let oldest = self.oldest();
        let before = match oldest {
            0 => 0,
            // The oldest itself is left out; it is one in many.
            oldest => self.ring[self.place(oldest)].total,
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

    fn oldest(&self) -> u64 {
        self.next.saturating_sub(self.ring.len() as u64)
    }

    fn place(&self, sequence: u64) -> usize {
        (sequence % self.ring.len() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_known_until_as_many_have_followed_as_the_ring_holds() {
        let mut log = SentLog::new(3);
        assert_eq!(log.packet(0), Err(FeedbackError::NotSent(0)));
        for i in 0..5 {
            log.push(Instant::from_nanos(i), 100);
        }
        assert_eq!(log.packet(1), Err(FeedbackError::Forgotten(1)));
        assert_eq!(log.packet(2).map(|p| p.at), Ok(Instant::from_nanos(2)));
        assert_eq!(log.packet(4).map(|p| p.total), Ok(500));
        assert_eq!(log.packet(5), Err(FeedbackError::NotSent(5)));
    }
}
