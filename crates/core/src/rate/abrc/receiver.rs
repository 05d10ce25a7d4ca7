// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiver's half of ABRC: arrivals of an interval, and the shortest time between two.

use super::{AbrcParams, Alone, SILENT, Unit};
use crate::rate::gaps::Gaps;
use crate::rate::{Arrival, Feedback, Report, Reporter};
use crate::units::{Duration, Instant};

/// The receiver's half: a report with each interval.
#[derive(Clone, Debug)]
pub struct AbrcReceiver {
    interval: Duration,
    unit: Unit,
    /// The highest number, and when it came.
    highest: Option<(u64, Instant)>,
    /// Arrival time of the last packet of any kind.
    last: Instant,
    packets: u32,
    bytes: u64,
    alone: Alone,
    /// The shortest time between two packets so far: for a packet, or for a byte of the later one. In nanoseconds.
    shortest: Option<f64>,
    gaps: Gaps,
    began: Instant,
    /// Intervals that ended without a packet.
    empty: u64,
}

impl AbrcReceiver {
    /// Nothing received yet.
    pub fn new(params: AbrcParams) -> Self {
        Self {
            interval: params.interval,
            unit: params.unit,
            highest: None,
            last: Instant::ZERO,
            packets: 0,
            bytes: 0,
            alone: params.alone,
            shortest: None,
            gaps: Gaps::new(),
            began: Instant::ZERO,
            empty: SILENT,
        }
    }
}

impl Reporter for AbrcReceiver {
    fn on_arrival(&mut self, now: Instant, arrival: Arrival) {
        if self.highest.is_some() {
            let gap = now.saturating_since(self.last).as_nanos() as f64;
            let gap = match self.unit {
                Unit::Packets => gap,
                Unit::Bytes => gap / f64::from(arrival.bytes.max(1)),
            };
            // Two packets at one instant say nothing of the link.
            if gap > 0.0 {
                self.shortest = Some(self.shortest.map_or(gap, |shortest| shortest.min(gap)));
                self.gaps.note(gap);
            }
        }
        // A stream that begins, or begins again.
        if self.empty >= SILENT {
            self.began = now;
        }
        self.empty = 0;
        self.last = now;
        self.packets += 1;
        self.bytes += u64::from(arrival.bytes);
        if self
            .highest
            .is_none_or(|(highest, _)| arrival.sequence > highest)
        {
            self.highest = Some((arrival.sequence, now));
        }
    }

    fn poll_feedback(&mut self, now: Instant) -> Option<Feedback> {
        let (highest, at) = self.highest?;
        if self.next_timeout().is_none_or(|at| at > now) {
            return None;
        }
        let interval = now.saturating_since(self.began);
        let scale = match self.unit {
            Unit::Packets => 1.0,
            Unit::Bytes => self.bytes as f64 / f64::from(self.packets.max(1)),
        };
        let alone = match self.alone {
            Alone::Shortest => self.shortest,
            Alone::Pairs => self.gaps.pairs(),
        };
        let shortest = alone
            .map(|gap| Duration::from_nanos((gap * scale) as u64))
            .filter(|gap| (Duration::from_nanos(1)..=interval).contains(gap));
        let report = Report::Arrivals {
            interval,
            packets: self.packets,
            bytes: self.bytes,
            shortest,
        };
        if self.packets == 0 {
            self.empty += 1;
        } else {
            self.gaps.age();
        }
        self.began = now;
        self.packets = 0;
        self.bytes = 0;
        Some(Feedback {
            highest,
            held: now.saturating_since(at),
            report,
        })
    }

    fn next_timeout(&self) -> Option<Instant> {
        (self.empty < SILENT).then(|| self.began + self.interval)
    }
}
