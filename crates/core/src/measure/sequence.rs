// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loss by sequence number.

use alloc::boxed::Box;
use alloc::vec;

/// Packets that may be overtaken and still be told from duplicates.
const WINDOW: u64 = 32_768;

/// Class of an arriving sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// In its place or after a gap.
    New,
    /// Overtaken by a later one, and not seen before.
    Late,
    /// Seen before, or so old (32 768 numbers) that nobody can tell.
    Duplicate,
}

/// Counts distinct sequence numbers. 4 KiB, taken when it is made.
///
/// Feed it unwrapped numbers; [`Unwrap`] makes them from RTP's 16 bits.
#[derive(Clone, Debug)]
pub struct Sequence {
    seen: Box<[u64]>,
    first: u64,
    highest: u64,
    received: u64,
    late: u64,
    duplicates: u64,
}

impl Default for Sequence {
    fn default() -> Self {
        Self::new()
    }
}

impl Sequence {
    /// Nothing received yet.
    pub fn new() -> Self {
        Self {
            seen: vec![0; (WINDOW / 64) as usize].into_boxed_slice(),
            first: 0,
            highest: 0,
            received: 0,
            late: 0,
            duplicates: 0,
        }
    }

    /// Counts one arrival.
    pub fn on_packet(&mut self, seq: u64) -> Arrival {
        if self.received == 0 {
            (self.first, self.highest) = (seq, seq);
            return self.take(seq, Arrival::New);
        }
        if seq > self.highest {
            self.advance(seq);
            return self.take(seq, Arrival::New);
        }
        if self.highest - seq >= WINDOW || self.is_seen(seq) {
            self.duplicates += 1;
            return Arrival::Duplicate;
        }
        self.first = self.first.min(seq);
        self.late += 1;
        self.take(seq, Arrival::Late)
    }

    /// Adds the counts of `other`, a different flow or a later interval.
    pub fn merge(&mut self, other: &Self) {
        if other.received == 0 {
            self.duplicates += other.duplicates;
            return;
        }
        // Ranges are joined end to end, so that `expected` adds up.
        let expected = self.expected() + other.expected();
        self.received += other.received;
        self.late += other.late;
        self.duplicates += other.duplicates;
        self.highest = self.first + expected - 1;
        self.seen.fill(0);
    }

    /// Distinct packets received.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Numbers from the first to the highest seen; the sender's own count is better where it is known.
    pub fn expected(&self) -> u64 {
        if self.received == 0 {
            0
        } else {
            self.highest - self.first + 1
        }
    }

    /// Packets that came after a later one.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Copies that were thrown away.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Lost share of [`Sequence::expected`], 0 to 1.
    pub fn loss(&self) -> f64 {
        self.loss_of(self.expected())
    }

    /// Lost share of `sent` packets, 0 to 1.
    pub fn loss_of(&self, sent: u64) -> f64 {
        if sent == 0 {
            return 0.0;
        }
        (1.0 - self.received as f64 / sent as f64).max(0.0)
    }

    fn take(&mut self, seq: u64, arrival: Arrival) -> Arrival {
        self.received += 1;
        self.seen[word(seq)] |= 1 << (seq % 64);
        arrival
    }

    fn is_seen(&self, seq: u64) -> bool {
        self.seen[word(seq)] & (1 << (seq % 64)) != 0
    }

    fn advance(&mut self, seq: u64) {
        if seq - self.highest >= WINDOW {
            self.seen.fill(0);
        } else {
            for s in self.highest + 1..=seq {
                self.seen[word(s)] &= !(1 << (s % 64));
            }
        }
        self.highest = seq;
    }
}

fn word(seq: u64) -> usize {
    (seq / 64 % (WINDOW / 64)) as usize
}

/// Makes RTP's 16-bit sequence numbers (RFC 3550, section 5.1) count on past 65 535.
#[derive(Clone, Debug, Default)]
pub struct Unwrap(Option<u64>);

impl Unwrap {
    /// The number nearest to the highest so far. The first is placed one cycle up, so that numbers
    /// before it have room.
    pub fn extend(&mut self, seq: u16) -> u64 {
        let Some(highest) = self.0 else {
            let extended = 0x1_0000 + u64::from(seq);
            self.0 = Some(extended);
            return extended;
        };
        // A step of -32 768..32 767 from the highest.
        let step = i64::from(seq.wrapping_sub(highest as u16) as i16);
        let extended = highest.saturating_add_signed(step);
        self.0 = Some(highest.max(extended));
        extended
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_gap_is_loss_until_it_is_filled() {
        let mut s = Sequence::new();
        for seq in [10, 11, 14] {
            assert_eq!(s.on_packet(seq), Arrival::New);
        }
        assert_eq!((s.expected(), s.received()), (5, 3));
        assert_eq!(s.on_packet(12), Arrival::Late);
        assert_eq!(s.loss(), 1.0 - 4.0 / 5.0);
    }

    #[test]
    fn a_duplicate_is_not_received_twice() {
        let mut s = Sequence::new();
        for seq in [1, 2, 2, 1, 3] {
            s.on_packet(seq);
        }
        assert_eq!((s.received(), s.duplicates(), s.loss()), (3, 2, 0.0));
    }

    #[test]
    fn packets_before_the_first_arrival_count() {
        let mut s = Sequence::new();
        s.on_packet(5);
        assert_eq!(s.on_packet(4), Arrival::Late);
        assert_eq!((s.expected(), s.loss()), (2, 0.0));
    }

    #[test]
    fn sixteen_bits_wrap_forwards_and_backwards() {
        let mut u = Unwrap::default();
        let a = u.extend(65_534);
        assert_eq!(u.extend(1), a + 3);
        assert_eq!(u.extend(65_535), a + 1);
        assert_eq!(u.extend(2), a + 4);
    }

    #[test]
    fn merged_losses_add_up() {
        let of = |seqs: &[u64]| {
            let mut s = Sequence::new();
            seqs.iter().for_each(|&q| {
                s.on_packet(q);
            });
            s
        };
        let mut a = of(&[1, 2, 4]);
        a.merge(&of(&[100, 103]));
        assert_eq!((a.expected(), a.received()), (8, 5));
        let mut empty = Sequence::new();
        empty.merge(&of(&[7, 9]));
        assert_eq!((empty.expected(), empty.received()), (3, 2));
    }

    proptest! {
        #[test]
        fn counts_equal_those_of_a_set(
            start in 40_000u64..60_000,
            steps in prop::collection::vec(-20i64..60, 1..400),
        ) {
            let (mut s, mut u) = (Sequence::new(), Unwrap::default());
            let mut set = std::collections::BTreeSet::new();
            let mut at = start;
            for step in steps {
                at = at.saturating_add_signed(step);
                set.insert(at);
                s.on_packet(u.extend(at as u16));
            }
            let range = set.last().unwrap() - set.first().unwrap() + 1;
            prop_assert_eq!(s.received(), set.len() as u64);
            prop_assert_eq!(s.expected(), range);
        }
    }
}
