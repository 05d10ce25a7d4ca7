// SPDX-License-Identifier: MIT OR Apache-2.0
//! Additive increase, multiplicative decrease.
//!
//! Source: M. Allman, V. Paxson, E. Blanton, "TCP Congestion Control", RFC 5681, section 3.1.
//!
//! Departures: the growth counts acknowledged bytes (RFC 3465), up to the limit for one
//! acknowledgement; fractions of a byte are kept, where the RFC rounds up to one.

/// Bits of a byte's fraction.
const FRACTION: u32 = 16;

/// The growth of Tahoe's, Reno's, NewReno's and SACK's window.
#[derive(Clone, Debug)]
pub struct Reno {
    mss: u64,
    limit: u64,
    /// Growth below a byte, in 2^-16 bytes.
    credit: u64,
}

impl Reno {
    pub fn new(mss: u64, limit: u64) -> Self {
        Self {
            mss,
            limit,
            credit: 0,
        }
    }

    /// A segment each round trip, eq. (3): cwnd += SMSS * SMSS / cwnd.
    #[inline]
    pub fn growth(&mut self, cwnd: u64, acked: u64) -> u64 {
        self.credit += ((self.mss * acked.min(self.limit)) << FRACTION) / cwnd;
        let bytes = self.credit >> FRACTION;
        self.credit -= bytes << FRACTION;
        bytes
    }

    /// Half of the outstanding bytes, eq. (4).
    pub fn reduced(&mut self, flight: u64) -> u64 {
        self.credit = 0;
        flight / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_acknowledgements_adds_nearly_a_segment() {
        let mut reno = Reno::new(1000, 1000);
        let mut cwnd = 10_000;
        for _ in 0..10 {
            cwnd += reno.growth(cwnd, 1000);
        }
        // 10 + 1/10 + 1/10.1 + ..., summed by hand: 10.9586.
        assert_eq!(cwnd, 10_958);
        // An acknowledgement for many counts for the limit, and fractions add up.
        assert_eq!(reno.growth(10_000, 50_000), 100);
        let mut reno = Reno::new(1000, 1000);
        let grown: u64 = (0..1000).map(|_| reno.growth(3_000_000, 1000)).sum();
        assert_eq!(grown, 333);
    }
}
