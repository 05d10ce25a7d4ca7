// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inter-packet delay variation (RFC 3393).

use super::Histogram;
use crate::units::{Duration, Instant};

/// How far apart two consecutive packets may arrive, counted in sequence numbers.
const WINDOW: usize = 64;

/// IPDV of the pairs of packets that were sent one after the other (RFC 3393, section 4.2: the
/// selection function takes sequence numbers `i` and `i + 1`). A pair with a lost packet has none.
/// A pair that arrives in the wrong order counts, if it is within 64 sequence numbers.
///
/// The two clocks need not agree: only their rates do.
#[derive(Clone, Debug)]
pub struct Ipdv {
    recent: [Option<(u64, i64)>; WINDOW],
    absolute: Histogram,
}

impl Default for Ipdv {
    fn default() -> Self {
        Self::new()
    }
}

impl Ipdv {
    /// No packet yet.
    pub fn new() -> Self {
        Self {
            recent: [None; WINDOW],
            absolute: Histogram::new(),
        }
    }

    /// A packet of sequence number `seq` (unwrapped), by the sender's and the receiver's clock.
    /// Call it for the first copy of a packet only.
    pub fn on_packet(&mut self, seq: u64, sent: Instant, received: Instant) {
        let delay = (received.as_nanos() as i64).wrapping_sub(sent.as_nanos() as i64);
        let before = seq.checked_sub(1).and_then(|s| self.delay(s));
        if let Some(d) = before {
            self.sample(delay.wrapping_sub(d));
        }
        if let Some(d) = self.delay(seq.wrapping_add(1)) {
            self.sample(d.wrapping_sub(delay));
        }
        self.recent[seq as usize % WINDOW] = Some((seq, delay));
    }

    /// Adds the samples of `other`; pairs across the two are not made.
    pub fn merge(&mut self, other: &Self) {
        self.absolute.merge(&other.absolute);
    }

    /// Absolute values.
    pub fn absolute(&self) -> &Histogram {
        &self.absolute
    }

    fn delay(&self, seq: u64) -> Option<i64> {
        self.recent[seq as usize % WINDOW].and_then(|(s, d)| (s == seq).then_some(d))
    }

    fn sample(&mut self, ns: i64) {
        self.absolute
            .record(Duration::from_nanos(ns.unsigned_abs()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn variation_is_the_difference_of_consecutive_delays() {
        // Delays 10, 15, 12 ms: +5, -3.
        let mut v = Ipdv::new();
        v.on_packet(0, at_ms(0), at_ms(10));
        v.on_packet(1, at_ms(20), at_ms(35));
        v.on_packet(2, at_ms(40), at_ms(52));
        assert_eq!(v.absolute().count(), 2);
        assert_eq!(v.absolute().mean(), Duration::from_millis(4));
        assert_eq!(v.absolute().max(), Duration::from_millis(5));
    }

    #[test]
    fn a_lost_packet_breaks_the_pair() {
        let mut v = Ipdv::new();
        v.on_packet(0, at_ms(0), at_ms(10));
        v.on_packet(2, at_ms(40), at_ms(99));
        assert_eq!(v.absolute().count(), 0);
    }

    #[test]
    fn reordered_neighbours_are_a_pair() {
        let mut v = Ipdv::new();
        v.on_packet(1, at_ms(20), at_ms(30));
        v.on_packet(0, at_ms(0), at_ms(31));
        assert_eq!(v.absolute().count(), 1);
        assert_eq!(v.absolute().max(), Duration::from_millis(21));
    }

    #[test]
    fn clocks_with_different_zeros_give_the_same_variation() {
        let mut v = Ipdv::new();
        v.on_packet(5, at_ms(1_000), at_ms(10));
        v.on_packet(6, at_ms(1_020), at_ms(33));
        assert_eq!(v.absolute().max(), Duration::from_millis(3));
    }
}
