// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports on single packets, for controllers that look at the delay of each: which came, when, and with which mark.
//!
//! A report has the latest [`PacketReport::MOST`] packets, those of earlier reports included: a lost report is then no lost media as long
//! as not more packets came between two that arrive (draft-johansson-ccwg-rfc8298bis-screamv2, section 6, has the same remedy).
//!
//! Source of the interval: the same draft, section 5: 2 % of the received rate for reports of 100 B, 10 to 1000 a second, and one at least
//! for 16 packets.

use super::{Arrival, Feedback, Report, Reporter};
use crate::units::{Duration, Instant};

/// A packet that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketArrival {
    /// By how much its number is below the highest.
    pub back: u16,
    /// Arrival by that of the packet with the highest number: before it in us, or after it below 0.
    pub before_us: i32,
    /// Whether it carries a CE mark.
    pub marked: bool,
}

/// Packets that came, in the order of their arrival, with the receiver's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketReport {
    /// When the packet with the highest number came, by a clock of any zero.
    pub at: Instant,
    packets: [PacketArrival; Self::MOST],
    len: u8,
}

impl PacketReport {
    /// Packets that one report holds.
    pub const MOST: usize = 64;

    /// None but the highest, which came at `at`.
    pub fn new(at: Instant) -> Self {
        Self {
            at,
            packets: [PacketArrival::default(); Self::MOST],
            len: 0,
        }
    }

    /// Adds a packet. Whether it fitted.
    pub fn push(&mut self, packet: PacketArrival) -> bool {
        let Some(free) = self.packets.get_mut(usize::from(self.len)) else {
            return false;
        };
        *free = packet;
        self.len += 1;
        true
    }

    /// The packets.
    pub fn packets(&self) -> &[PacketArrival] {
        &self.packets[..usize::from(self.len)]
    }

    /// When a packet came, in ns of the receiver's clock.
    pub fn arrival(&self, packet: &PacketArrival) -> i64 {
        self.at.as_nanos() as i64 - i64::from(packet.before_us) * 1000
    }
}

/// The receiver's half.
#[derive(Clone, Debug)]
pub struct PacketsReceiver {
    /// The latest packets; the last one came in the place before `next`.
    latest: [(u64, Instant, bool); PacketReport::MOST],
    count: u64,
    highest: Option<(u64, Instant)>,
    /// Since the last report: packets, payload.
    packets: u32,
    bytes: u64,
    /// Bit/s, smoothed over about a second.
    rate: f64,
    reported: Option<Instant>,
}

/// Reports in a second for a received rate (section 5): 100 B each.
const SHARE: f64 = 0.02 / 800.0;
/// As many packets want a report at once. The draft leaves N open; its text has 16 in section 6.
const AT_ONCE: u32 = 16;

impl Default for PacketsReceiver {
    fn default() -> Self {
        Self {
            latest: [(0, Instant::ZERO, false); PacketReport::MOST],
            count: 0,
            highest: None,
            packets: 0,
            bytes: 0,
            rate: 0.0,
            reported: None,
        }
    }
}

impl PacketsReceiver {
    fn interval(&self) -> Duration {
        Duration::from_nanos((1e9 / (SHARE * self.rate).clamp(10.0, 1000.0)) as u64)
    }
}

impl Reporter for PacketsReceiver {
    fn on_arrival(&mut self, now: Instant, arrival: Arrival) {
        let place = (self.count % PacketReport::MOST as u64) as usize;
        self.latest[place] = (arrival.sequence, now, arrival.marked);
        self.count += 1;
        self.packets += 1;
        self.bytes += u64::from(arrival.bytes);
        self.reported.get_or_insert(now);
        if self
            .highest
            .is_none_or(|(highest, _)| highest < arrival.sequence)
        {
            self.highest = Some((arrival.sequence, now));
        }
    }

    fn poll_feedback(&mut self, now: Instant) -> Option<Feedback> {
        if self.next_timeout()? > now && !self.is_full() {
            return None;
        }
        let (highest, at) = self.highest?;
        let span = now.saturating_since(self.reported?);
        if span > Duration::ZERO {
            let rate = self.bytes as f64 * 8.0 / span.as_secs_f64();
            let weight = span.as_secs_f64().min(1.0);
            self.rate += (rate - self.rate) * weight;
            self.bytes = 0;
            self.reported = Some(now);
        }
        self.packets = 0;
        let mut report = PacketReport::new(at);
        let most = PacketReport::MOST as u64;
        for n in self.count.saturating_sub(most)..self.count {
            let (sequence, came, marked) = self.latest[(n % most) as usize];
            let us = |later: Instant, earlier: Instant| {
                let us = later.saturating_since(earlier).as_nanos() / 1000;
                i32::try_from(us).unwrap_or(i32::MAX)
            };
            let before_us = us(at, came) - us(came, at);
            if let Ok(back) = u16::try_from(highest - sequence) {
                report.push(PacketArrival {
                    back,
                    before_us,
                    marked,
                });
            }
        }
        Some(Feedback {
            highest,
            held: now.saturating_since(at),
            report: Report::Packets(report),
        })
    }

    fn is_full(&self) -> bool {
        self.packets >= AT_ONCE
    }

    fn next_timeout(&self) -> Option<Instant> {
        (self.packets > 0).then_some(self.reported? + self.interval())
    }
}
