// SPDX-License-Identifier: MIT OR Apache-2.0
//! TFRC's receiver: when to report, and what (RFC 5348 §6; RFC 4342 §6, §8.3 where packets carry window counters).
//!
//! | RFC | here |
//! | --- | --- |
//! | R_m | `rtt` |
//! | X_recv | [`TfrcReceiver::received`] |
//! | X_target | `target`, in packets per second |
//! | p, p_prev | `p` |
//! | last_counter | `last_counter` |
//!
//! Departures: a packet that comes after it counts as lost stays lost (the RFC allows to take it back); the receive rate is
//! measured in packets for X_target, so that s need not be known (§6.3.1 allows it).

use super::equation;
use super::history::LossInterval;
use super::losses::{Losses, Spacing};
use super::window::{self, WindowRtt};
use crate::rate::{Arrival, Feedback, Report, Reporter};
use crate::units::{Duration, Instant, Rate};

/// See the module.
#[derive(Clone, Debug)]
pub struct TfrcReceiver {
    losses: Losses,
    windows: WindowRtt,
    rtt: Option<Duration>,
    /// The highest sequence number, and when it came.
    highest: Option<(u64, Instant)>,
    received: Count,
    /// When feedback was sent, and what had come by then; the latest first.
    marks: [(Instant, Count); Self::MARKS],
    reports: usize,
    target: f64,
    p: f64,
    timer: Option<Instant>,
    /// Whether something came since the last feedback.
    fresh: bool,
    /// Whether feedback is due now.
    due: bool,
    last_counter: Option<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    packets: u64,
    bytes: u64,
}

impl TfrcReceiver {
    /// Reports within an RTT that X_recv can look back over.
    const MARKS: usize = 8;

    /// Nothing received yet. `discounting` is RFC 5348 §5.5.
    pub fn new(discounting: bool) -> Self {
        Self {
            losses: Losses::new(discounting),
            windows: WindowRtt::default(),
            rtt: None,
            highest: None,
            received: Count::default(),
            marks: [(Instant::ZERO, Count::default()); Self::MARKS],
            reports: 0,
            target: 0.0,
            p: 0.0,
            timer: None,
            fresh: false,
            due: false,
            last_counter: None,
        }
    }

    /// Loss intervals, the latest first, and the number of packets up to the highest received that are not yet in one
    /// (CCID 3's Loss Intervals option, RFC 4342 §8.6).
    pub fn loss_intervals(&self) -> (u64, impl Iterator<Item = LossInterval> + '_) {
        let next = self.losses.next();
        let highest = self.highest.map_or(0, |(sequence, _)| sequence);
        let skip = (highest + 1).saturating_sub(next);
        (skip, self.losses.history.intervals(next.saturating_sub(1)))
    }

    /// The RTT that it goes by: the sender's, or that of window counters.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// Packets and bytes per second, since the latest feedback that is at least an RTT old (RFC 5348 §6.2, step 2).
    fn rates(&self, now: Instant) -> (f64, f64) {
        let marks = &self.marks[..self.reports.min(Self::MARKS)];
        let rtt = self.rtt.unwrap_or(Duration::ZERO);
        let mark = marks
            .iter()
            .find(|(at, _)| now.saturating_since(*at) >= rtt)
            .or(marks.last());
        let Some((at, then)) = mark else {
            return (0.0, 0.0);
        };
        let seconds = now.saturating_since(*at).as_secs_f64();
        if seconds == 0.0 {
            return (0.0, 0.0);
        }
        let packets = (self.received.packets - then.packets) as f64;
        let bytes = (self.received.bytes - then.bytes) as f64;
        (packets / seconds, bytes / seconds)
    }
}

impl Reporter for TfrcReceiver {
    fn on_arrival(&mut self, now: Instant, arrival: Arrival) {
        let spacing = match arrival.window {
            Some(counter) => {
                self.windows.on_arrival(now, counter);
                self.rtt = self.windows.rtt();
                Spacing::Windows
            }
            None => {
                if self.highest.is_none_or(|(s, _)| arrival.sequence > s) {
                    self.rtt = arrival.rtt.or(self.rtt);
                }
                Spacing::Time(self.rtt.unwrap_or(Duration::ZERO))
            }
        };
        // RFC 5348 §6.3.1: at least half a packet per RTT.
        let target = match self.losses.history.is_empty() {
            true => self.target.max(self.rates(now).0),
            false => 0.0,
        };
        let per_rtt = self
            .rtt
            .map_or(0.0, |rtt| target * rtt.as_secs_f64())
            .max(0.5);
        let first_interval = || 1.0 / equation::inverse(1.0 / per_rtt);
        if !self
            .losses
            .on_arrival(now, &arrival, spacing, first_interval)
        {
            return;
        }
        self.received.packets += 1;
        self.received.bytes += u64::from(arrival.bytes);
        let first = self.highest.is_none();
        if self.highest.is_none_or(|(s, _)| arrival.sequence > s) {
            self.highest = Some((arrival.sequence, now));
        }
        let p = self.loss_event_rate();
        let since = self.last_counter.zip(arrival.window);
        self.due |= first
            || p > self.p
            // RFC 5348 §6.3: each packet, until one says what the RTT is.
            || arrival.window.is_none() && self.timer.is_none()
            || since.is_some_and(|(last, new)| (4..8).contains(&window::distance(last, new)))
            || !self.fresh && self.timer.is_some_and(|at| at <= now);
        self.fresh = true;
    }

    fn poll_feedback(&mut self, now: Instant) -> Option<Feedback> {
        let (highest, at) = self.highest?;
        let expired = self.timer.is_some_and(|at| at <= now);
        let counted = self.reports > 0;
        // A rate needs some time.
        if !(self.due || self.fresh && expired) || counted && self.marks[0].0 == now {
            return None;
        }
        let (packets, bytes) = self.rates(now);
        self.target = self.target.max(packets);
        self.p = self.loss_event_rate();
        self.marks.rotate_right(1);
        self.marks[0] = (now, self.received);
        self.reports += 1;
        self.last_counter = self.windows.latest();
        // With window counters, packets say when to report (RFC 5348 §6.3).
        self.timer = match self.last_counter {
            Some(_) => None,
            None => self.rtt.map(|rtt| now + rtt),
        };
        self.due = false;
        self.fresh = false;
        Some(Feedback {
            highest,
            held: now.saturating_since(at),
            report: Report::LossEvents {
                rate: self.p,
                received: Rate::from_bps((bytes * 8.0) as u64),
            },
        })
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.timer.filter(|_| self.fresh)
    }
}

impl TfrcReceiver {
    fn loss_event_rate(&self) -> f64 {
        let highest = self.highest.map_or(0, |(sequence, _)| sequence);
        self.losses.history.rate(highest)
    }
}
