// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rate of a sender: [`RateController`], and the reports of receivers to it.
//!
//! Each controller has two halves: one at the sender, and one that makes [`Feedback`] of arrivals. The second runs
//! at the receiver, or at the sender where the receiver reports each packet (RTP with TWCC or RFC 8888).

pub mod abrc;
pub mod ccid2;
mod config;
pub mod external;
pub mod fixed;
pub mod gaps;
pub mod gcc;
mod observed;
pub mod packets;
pub mod rto;
pub mod scream;
pub mod sent;
pub mod tfrc;
mod timer;

pub use config::{AnyController, AnyReporter, Config, ParseConfigError};

#[cfg(test)]
mod tests;

use thiserror::Error;

use crate::units::{Duration, Instant, Rate};

/// The sender's half. Time is an argument and never runs backwards.
pub trait RateController {
    /// The earliest time at which a packet may leave; `None`: not before feedback or a timeout.
    fn next_send(&self) -> Option<Instant>;

    /// A packet of this length leaves. Sequence numbers come in order, from 0.
    fn on_sent(&mut self, now: Instant, sequence: u64, bytes: u32);

    /// A packet could leave and there was none: the sender is limited by its data.
    fn on_nothing_to_send(&mut self, now: Instant) {
        let _ = now;
    }

    /// A packet could leave and its send time passes unused, as if one had left.
    fn on_skipped(&mut self, now: Instant) {
        let _ = now;
    }

    /// Feedback of the receiver. Impossible feedback is an error and changes nothing.
    fn on_feedback(&mut self, now: Instant, feedback: &Feedback) -> Result<(), FeedbackError>;

    /// When [`RateController::on_timeout`] is due.
    fn next_timeout(&self) -> Option<Instant>;

    /// A timer ran out.
    fn on_timeout(&mut self, now: Instant);

    /// Rate allowed now, in payload.
    fn rate(&self) -> Rate;

    /// Rate for an encoder to follow: [`RateController::rate`] without the response to a single report.
    fn target_rate(&self) -> Rate {
        self.rate()
    }

    /// The smoothed round-trip time, once there is one.
    fn rtt(&self) -> Option<Duration>;

    /// One-way delay to the receiver, once there is an estimate: half of the RTT (SBPN paper, section 3.2), unless more is known.
    fn one_way(&self) -> Option<Duration> {
        self.rtt().map(|rtt| rtt / 2)
    }
}

/// The receiver's half.
pub trait Reporter {
    /// A packet came.
    fn on_arrival(&mut self, now: Instant, arrival: Arrival);

    /// Feedback to send now, if any is due.
    fn poll_feedback(&mut self, now: Instant) -> Option<Feedback>;

    /// When feedback is due, unless a packet comes before.
    fn next_timeout(&self) -> Option<Instant>;

    /// Whether feedback is due before another packet is noted: a report holds a bounded number.
    fn is_full(&self) -> bool {
        false
    }
}

/// Knowledge of a path before the first feedback: of signalling, an earlier call, another protocol. A controller that has it begins
/// with this rate instead of its first one; the first feedback replaces the RTT, and the rate follows its rules from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Round-trip time.
    pub rtt: Duration,
    /// Rate that the path is known to carry, in payload.
    pub rate: Rate,
}

/// A packet as its receiver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number, from 0.
    pub sequence: u64,
    /// Its payload.
    pub bytes: u32,
    /// The sender's estimate of the RTT, where packets carry it (RFC 5348 §3.2.1).
    pub rtt: Option<Duration>,
    /// CCID 3's window counter, 0 to 15, instead of `rtt` (RFC 4342 §8.1).
    pub window: Option<u8>,
    /// Whether it carries a CE mark.
    pub marked: bool,
}

/// A receiver's report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feedback {
    /// The highest sequence number that it has received.
    pub highest: u64,
    /// From the arrival of that packet to the report (t_delay of RFC 5348).
    pub held: Duration,
    /// Input of a controller.
    pub report: Report,
}

/// The part of feedback that belongs to a controller.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "made per report, not per packet")]
#[non_exhaustive]
pub enum Report {
    /// TFRC and CCID 3 (RFC 5348 §3.2.2).
    LossEvents {
        /// Loss event rate p, from 0 to 1.
        rate: f64,
        /// X_recv, payload received since the last report.
        received: Rate,
    },
    /// CCID 2: which packets came (RFC 4341 §6).
    Acks(AckRanges),
    /// ABRC, for one interval of feedback.
    Arrivals {
        /// How long it was, t.
        interval: Duration,
        /// Packets received in it.
        packets: u32,
        /// Payload received in it.
        bytes: u64,
        /// T_UDP: the time of a packet that finds no other before it, as the receiver estimates it from those between two;
        /// `None` while there is none.
        shortest: Option<Duration>,
    },
    /// SCReAMv2 and GCC: single packets, with times of arrival and marks.
    Packets(packets::PacketReport),
}

/// Sequence numbers that were received, the latest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckRanges {
    ranges: [(u64, u64); Self::MOST],
    len: u8,
}

impl AckRanges {
    /// Ranges that one report holds; older ones are left out.
    pub const MOST: usize = 16;

    /// Adds the range from `first` to `last`, both included, which lies below all that are there. Whether it fitted.
    pub fn push(&mut self, first: u64, last: u64) -> bool {
        let Some(free) = self.ranges.get_mut(usize::from(self.len)) else {
            return false;
        };
        *free = (first, last);
        self.len += 1;
        true
    }

    /// Adds one packet. Where there is no room for another range, the lowest is left out, which may be the new one.
    pub fn insert(&mut self, sequence: u64) {
        let ranges = &self.ranges[..usize::from(self.len)];
        // The first range that does not lie above.
        let place = ranges.partition_point(|(first, _)| *first > sequence);
        if ranges.get(place).is_some_and(|(_, last)| *last >= sequence) {
            return;
        }
        let below = ranges
            .get(place)
            .is_some_and(|(_, last)| last + 1 == sequence);
        let above = place > 0 && ranges[place - 1].0 == sequence + 1;
        match (above, below) {
            (true, true) => {
                self.ranges[place - 1].0 = self.ranges[place].0;
                self.ranges[place..].rotate_left(1);
                self.len -= 1;
            }
            (true, false) => self.ranges[place - 1].0 = sequence,
            (false, true) => self.ranges[place].1 = sequence,
            (false, false) if place < Self::MOST => {
                self.ranges[place..].rotate_right(1);
                self.ranges[place] = (sequence, sequence);
                self.len = (self.len + 1).min(Self::MOST as u8);
            }
            (false, false) => {}
        }
    }

    /// The highest number in it.
    pub fn highest(&self) -> Option<u64> {
        self.iter().next().map(|(_, last)| last)
    }

    /// Whether each range begins no later than it ends and lies below the one before, with a gap between.
    pub fn is_ordered(&self) -> bool {
        let mut above = None;
        self.iter().all(|(first, last)| {
            let below = above.is_none_or(|above: u64| last < above.saturating_sub(1));
            above = Some(first);
            first <= last && below
        })
    }

    /// First and last of each range.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges[..usize::from(self.len)].iter().copied()
    }
}

/// Feedback that cannot be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FeedbackError {
    /// It speaks of a packet that was not sent yet.
    #[error("acknowledges packet {0}, which was not sent")]
    NotSent(u64),
    /// It speaks of a packet that was sent so long ago that the sender has forgotten when.
    #[error("acknowledges packet {0}, which is forgotten")]
    Forgotten(u64),
    /// It is older than feedback that came before, or the same again.
    #[error("is older than feedback that came before")]
    Stale,
    /// The receiver says that it held the packet for longer than its RTT: the RTT of the path would be 0 or less.
    #[error("says that the packet was held for longer than its RTT")]
    HeldTooLong,
    /// A figure is out of its range.
    #[error("has a {0} out of its range")]
    OutOfRange(&'static str),
    /// It belongs to another controller.
    #[error("belongs to another controller")]
    WrongKind,
}
