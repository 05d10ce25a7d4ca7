// SPDX-License-Identifier: MIT OR Apache-2.0
//! Promises of a link under [`makeway`](crate::sched) to streams in good standing while bulk waits, and the rest of the link for
//! bulk: properties (a) and (c) of docs/disciplines/makeway.md.
//!
//! Streams go first at `R = room C` of the link's rate `C`, after two turns and two packets of bulk at most: a rate of `R` and a
//! latency, as in the network calculus (J.-Y. Le Boudec, P. Thiran, *Network Calculus*, LNCS 2050, 2001, section 1.4).
//! `rate` and `burst` are those of a token bucket that the streams keep to, together.

use crate::sched::makeway;
use crate::units::{Bytes, Rate};

/// The users whose downloads wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Downloads {
    /// Downloads of the streams' own user, or of one user for all.
    Own,
    /// Downloads of other users.
    OfOthers,
}

/// A link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Bit/s, above 0.
    pub rate: Rate,
    /// Bytes that a bulk flow may send in a turn.
    pub quantum: Bytes,
    /// The largest packet of bulk.
    pub packet: Bytes,
    /// Limit of the queue.
    pub buffer: Bytes,
}

impl Link {
    /// Seconds for which a queue of a stream may last: of one that lasts longer the packets that wait for long are dropped.
    pub const LASTS: f64 = makeway::STANDS.as_secs_f64();

    /// Bit/s for which streams in standing go first.
    pub fn room(&self, downloads: Downloads) -> f64 {
        let owed = match downloads {
            Downloads::Own => makeway::OWED_STANDING,
            Downloads::OfOthers => makeway::OWED_USERS,
        };
        let of = makeway::OWED_OF as f64;
        self.rate.bps() as f64 * of / (of + owed as f64)
    }

    /// Seconds that a packet of one of `streams` waits at most, infinite if they have no room; `rate` in bit/s, `burst` in bits.
    ///
    /// One stream's packets leave in order, so that its burst is before a packet: `burst / R`. Of several, the shortest queue is first, and one
    /// may wait for a whole busy period: `burst / (R - rate)`.
    pub fn delay(&self, downloads: Downloads, streams: u32, rate: f64, burst: f64) -> f64 {
        let room = self.room(downloads);
        if rate >= room {
            return f64::INFINITY;
        }
        let bulk = (self.quantum.get() + self.packet.get()) as f64 * 16.0;
        let served = if streams > 1 { room - rate } else { room };
        (burst + bulk) / served
    }

    /// Bytes that each of `streams` may hold while `downloads` fill the rest of the buffer: more loses packets to it. Three
    /// quarters of the buffer for all of them, and 64 times the longest queue of bulk for each, which is the mean one at least.
    pub fn burst(&self, streams: u32, downloads: u32) -> f64 {
        let buffer = self.buffer.get() as f64;
        let [streams, downloads] = [streams, downloads].map(f64::from);
        let shield = makeway::SHIELD as f64;
        let shielded = shield * buffer / (downloads + shield * streams);
        shielded.min(0.75 * buffer / streams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Link = Link {
        rate: Rate::from_bps(10_000_000),
        quantum: Bytes::new(1538),
        packet: Bytes::new(1500),
        buffer: Bytes::new(300_000),
    };

    #[test]
    fn the_floors_of_bulk_are_a_tenth_and_three_eighths() {
        let left = [Downloads::Own, Downloads::OfOthers].map(|of| 1.0 - LINK.room(of) / 1e7);
        assert!((left[0] - 13.0 / 133.0).abs() < 1e-12, "{}", left[0]);
        assert!((left[1] - 0.375).abs() < 1e-12, "{}", left[1]);
    }

    #[test]
    fn a_burst_is_shielded_64_times_and_up_to_three_quarters() {
        assert_eq!(LINK.burst(1, 1), 225_000.0);
        // 64 queues of bulk, 100 and it fill the buffer.
        assert!((LINK.burst(1, 100) - 64.0 * 300_000.0 / 164.0).abs() < 1e-6);
        assert!((LINK.burst(3, 100) - 64.0 * 300_000.0 / 292.0).abs() < 1e-6);
        assert_eq!(LINK.burst(5, 1), 45_000.0);
    }

    #[test]
    fn a_burst_of_one_stream_waits_for_itself_and_of_several_for_a_busy_period() {
        let delay = |streams, rate| LINK.delay(Downloads::OfOthers, streams, rate, 451_392.0);
        // With two turns and packets of bulk 500 kbit, at 6.25 Mbit/s.
        assert!((delay(1, 5e6) - 0.08).abs() < 1e-9);
        assert!((delay(2, 5e6) - 0.4).abs() < 1e-9);
        assert_eq!(delay(1, 6.25e6), f64::INFINITY);
    }
}
