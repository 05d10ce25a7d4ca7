// SPDX-License-Identifier: MIT OR Apache-2.0
//! CCID 2, TCP-like congestion control: a window of packets, halved at most once per window.
//!
//! Source: S. Floyd, E. Kohler, "Profile for Datagram Congestion Control Protocol (DCCP) Congestion Control ID 2: TCP-like
//! Congestion Control", RFC 4341, 2006, §5; the timeout from RFC 6298; what a window is worth that was not used from RFC 2861.
//!
//! | RFC 4341 | here |
//! | --- | --- |
//! | cwnd, ssthresh, pipe | `cwnd`, `ssthresh`, `pipe`, in packets |
//! | NUMDUPACK | [`NUMDUPACK`] |
//! | a window of data | the packets below `window_end` |
//! | RFC 2861: W_used, T_prev | `used`, `full_at` |
//!
//! Departures: the Ack Ratio is 1, and acknowledgements are not controlled; marks are not reported. Packets are paced
//! ([`Ccid2::interval`]). The window is bounded by what the sender remembers at most.

use super::rto::RtoParams;
use super::sent::SentLog;
use super::timer::{Pacer, Timeout};
use super::{AckRanges, Arrival, Feedback, FeedbackError, RateController, Report, Reporter, Start};
use crate::param::Visitor;
use crate::units::{Duration, Instant, Rate};
use alloc::collections::VecDeque;

/// Later packets that must be acknowledged before one counts as lost (RFC 4341 §5).
const NUMDUPACK: u32 = 3;

/// Parameters of CCID 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ccid2Params {
    /// The longest payload of a packet, in bytes, at least 1: the initial window follows from it.
    pub largest: u32,
    /// Bounds of the timeout.
    pub rto: RtoParams,
    /// Packets that the sender remembers at first, at least 1: more at high rates ([`SentLog`]).
    pub remembered: u32,
    /// Knowledge of the path: the first window is `rate` for `rtt`, if that is more than the initial one.
    pub start: Option<Start>,
}

impl Default for Ccid2Params {
    /// Packets of 1400 bytes at most, RFC 6298's timeout, 4096 packets.
    fn default() -> Self {
        Self {
            largest: 1400,
            rto: RtoParams::default(),
            remembered: 4096,
            start: None,
        }
    }
}

impl Ccid2Params {
    /// It has no parameters in a file.
    pub(super) fn fields(&mut self, _visit: &mut Visitor<'_>) {}
}

/// Outcome of a sent packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fate {
    #[default]
    Outstanding,
    Acknowledged,
    Lost,
}

/// The sender's half.
#[derive(Clone, Debug)]
pub struct Ccid2 {
    params: Ccid2Params,
    sent: SentLog,
    /// From `low` on.
    fates: VecDeque<Fate>,
    /// Everything below is acknowledged or lost.
    low: u64,
    /// The highest number acknowledged, and what follows it.
    acknowledged: u64,
    cwnd: u32,
    initial: u32,
    ssthresh: u32,
    pipe: u32,
    /// Newly acknowledged packets that have not moved the window yet.
    credit: u32,
    /// Losses below it belong to a window that was halved already.
    window_end: u64,
    timeout: Timeout,
    pacer: Pacer,
    /// RFC 2861.
    used: u32,
    full: bool,
    full_at: Instant,
    sent_at: Instant,
    mean: f64,
}

impl Ccid2 {
    /// Nothing sent yet.
    pub fn new(params: Ccid2Params) -> Self {
        let mss = params.largest.max(1);
        // RFC 3390: min(4 MSS, max(2 MSS, 4380 bytes)), in packets.
        let initial = (4380 / mss).clamp(2, 4);
        let start = params.start.map_or(0.0, |start| {
            start.rate.bps() as f64 / 8.0 * start.rtt.as_secs_f64() / f64::from(mss)
        });
        Self {
            params,
            sent: SentLog::new(params.remembered),
            fates: VecDeque::with_capacity(params.remembered.min(SentLog::MOST) as usize),
            low: 0,
            acknowledged: 0,
            cwnd: (start as u32).clamp(initial, SentLog::MOST),
            initial,
            ssthresh: u32::MAX,
            pipe: 0,
            credit: 0,
            window_end: 0,
            timeout: Timeout::new(params.rto),
            pacer: Pacer::new(),
            used: 0,
            full: false,
            full_at: Instant::ZERO,
            sent_at: Instant::ZERO,
            mean: f64::from(mss),
        }
    }

    /// The window, in packets.
    pub fn window(&self) -> u32 {
        self.cwnd
    }

    fn fate(&mut self, sequence: u64) -> &mut Fate {
        &mut self.fates[(sequence - self.low) as usize]
    }

    /// Time between packets: a window in an RTT, and faster by a quarter, or by twice while it is still to be found. A window that
    /// left in one burst would wait at the bottleneck, and be lost there, before it is as large as the path. RFC 4341 says nothing of
    /// it; Linux's TCP has the same factors.
    fn interval(&self) -> Duration {
        let Some(rtt) = self.rtt() else {
            return Duration::ZERO;
        };
        let quarters = if self.cwnd < self.ssthresh { 8 } else { 5 };
        rtt * 4 / (quarters * u64::from(self.cwnd))
    }

    /// New information of the ranges. RFC 4341 §5.
    fn acknowledge(&mut self, ranges: &AckRanges) -> u32 {
        let mut newly = 0;
        for (first, last) in ranges.iter() {
            for sequence in first.max(self.low)..=last {
                let fate = self.fate(sequence);
                if *fate == Fate::Outstanding {
                    *fate = Fate::Acknowledged;
                    newly += 1;
                }
            }
        }
        self.pipe -= newly;
        newly
    }

    /// Packets with NUMDUPACK later ones acknowledged are lost; whether one of a window that was not halved yet is.
    fn detect_losses(&mut self, highest: u64) -> bool {
        let mut later = 0;
        let mut halve = false;
        for sequence in (self.low..=highest).rev() {
            let certain = later >= NUMDUPACK;
            let fate = self.fate(sequence);
            match *fate {
                Fate::Acknowledged => later += 1,
                Fate::Outstanding if certain => {
                    *fate = Fate::Lost;
                    self.pipe -= 1;
                    halve |= sequence >= self.window_end;
                }
                Fate::Outstanding | Fate::Lost => {}
            }
        }
        while self
            .fates
            .front()
            .is_some_and(|fate| *fate != Fate::Outstanding)
        {
            self.fates.pop_front();
            self.low += 1;
        }
        halve
    }

    /// One window, one halving (RFC 4341 §5).
    fn halve(&mut self) {
        self.cwnd = (self.cwnd / 2).max(1);
        self.ssthresh = self.cwnd.max(2);
        self.credit = 0;
        self.window_end = self.sent.next();
    }

    /// RFC 4341 §5: one packet for two acknowledged in slow start, one for a window of them after it.
    fn grow(&mut self, newly: u32) {
        let most = SentLog::MOST;
        self.credit += newly;
        if self.cwnd < self.ssthresh {
            // An acknowledgement moves the window by half of the Ack Ratio, rounded up.
            if self.credit >= 2 {
                self.credit = 0;
                self.cwnd = (self.cwnd + 1).min(most);
            }
        } else if self.credit >= self.cwnd {
            self.credit -= self.cwnd;
            self.cwnd = (self.cwnd + 1).min(most);
        }
    }

    /// RFC 2861 §3.1, before a packet leaves: halved for each RTO without any, down to the initial window.
    fn validate_idle(&mut self, now: Instant) {
        let rto = self.timeout.rto().value();
        if self.sent.next() == 0 || self.pipe > 0 {
            return;
        }
        let silent = now.saturating_since(self.sent_at).as_nanos() / rto.as_nanos().max(1);
        if silent > 0 {
            self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3 + self.cwnd % 4 * 3 / 4);
            let halved = self.cwnd.checked_shr(silent.min(31) as u32).unwrap_or(0);
            self.cwnd = halved.max(self.initial.min(self.cwnd));
            self.used = 0;
            self.full_at = now;
        }
    }

    /// RFC 2861 §3.2, after a packet left: half-way to the used part, where that was less for an RTO.
    fn validate_used(&mut self, now: Instant) {
        // A window that is not full does not grow.
        self.full = self.pipe >= self.cwnd;
        if self.full {
            self.used = 0;
            self.full_at = now;
            return;
        }
        self.used = self.used.max(self.pipe);
        if now.saturating_since(self.full_at) >= self.timeout.rto().value() {
            self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3 + self.cwnd % 4 * 3 / 4);
            self.cwnd = self.cwnd.midpoint(self.used).max(1);
            self.used = 0;
            self.full_at = now;
        }
    }
}

impl RateController for Ccid2 {
    fn next_send(&self) -> Option<Instant> {
        let remembered = self.fates.len() < SentLog::MOST as usize;
        (self.pipe < self.cwnd && remembered).then_some(self.pacer.next())
    }

    fn on_sent(&mut self, now: Instant, sequence: u64, bytes: u32) {
        debug_assert_eq!(sequence, self.sent.next());
        if sequence == 0 {
            self.full_at = now;
            self.mean = f64::from(bytes.max(1));
        }
        self.validate_idle(now);
        self.sent.push(now, bytes);
        self.fates.push_back(Fate::Outstanding);
        self.pacer.on_sent(now, self.interval());
        self.mean += (f64::from(bytes) - self.mean) / 16.0;
        self.pipe += 1;
        self.sent_at = now;
        self.validate_used(now);
        self.timeout.on_sent(now);
    }

    fn on_feedback(&mut self, now: Instant, feedback: &Feedback) -> Result<(), FeedbackError> {
        let Report::Acks(ranges) = &feedback.report else {
            return Err(FeedbackError::WrongKind);
        };
        let packet = self.sent.packet(feedback.highest)?;
        if !ranges.is_ordered() || ranges.iter().next().is_none_or(|r| r.1 != feedback.highest) {
            return Err(FeedbackError::OutOfRange("set of packets received"));
        }
        let sample = self.sent.rtt(now, packet, feedback.held)?;
        let newest = feedback.highest >= self.acknowledged;
        let full = self.full;
        let newly = self.acknowledge(ranges);
        if newly == 0 {
            return Err(FeedbackError::Stale);
        }
        if newest {
            self.sent.note_report(now, packet);
            self.timeout.sample(now, sample);
            self.acknowledged = feedback.highest + 1;
        }
        if self.detect_losses(self.acknowledged - 1) {
            self.halve();
        } else if full {
            self.grow(newly);
        }
        self.timeout.on_report(now, self.pipe > 0);
        Ok(())
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.timeout.at()
    }

    fn on_timeout(&mut self, now: Instant) {
        if !self.timeout.expires(now) {
            return;
        }
        // RFC 4341 §5: as TCP's retransmission timeout.
        self.fates.clear();
        self.low = self.sent.next();
        self.pipe = 0;
        self.ssthresh = (self.cwnd / 2).max(2);
        self.cwnd = 1;
        self.credit = 0;
        self.window_end = self.sent.next();
    }

    /// The window in an RTT; in a second while there is none.
    fn rate(&self) -> Rate {
        let rtt = self.rtt().map_or(1.0, |rtt| rtt.as_secs_f64());
        Rate::from_bps((f64::from(self.cwnd) * self.mean * 8.0 / rtt) as u64)
    }

    fn rtt(&self) -> Option<Duration> {
        let start = self.params.start.map(|start| start.rtt);
        self.timeout.rto().srtt().or(start)
    }
}

/// The receiver's half: reports each packet, with what it has received before (RFC 4341 §6).
#[derive(Clone, Debug, Default)]
pub struct Ccid2Receiver {
    ranges: AckRanges,
    /// When the highest came.
    at: Instant,
    due: bool,
}

impl Reporter for Ccid2Receiver {
    fn on_arrival(&mut self, now: Instant, arrival: Arrival) {
        if self
            .ranges
            .highest()
            .is_none_or(|highest| arrival.sequence > highest)
        {
            self.at = now;
        }
        self.ranges.insert(arrival.sequence);
        self.due = true;
    }

    fn poll_feedback(&mut self, now: Instant) -> Option<Feedback> {
        let highest = self.ranges.highest()?;
        core::mem::take(&mut self.due).then(|| Feedback {
            highest,
            held: now.saturating_since(self.at),
            report: Report::Acks(self.ranges),
        })
    }

    fn next_timeout(&self) -> Option<Instant> {
        None
    }
}
