// SPDX-License-Identifier: MIT OR Apache-2.0
//! The path as reports on single packets show it: RTT, delay of the queue, timeout. SCReAMv2 and GCC share it.

use super::packets::PacketReport;
use super::rto::RtoParams;
use super::sent::{SentLog, SentPacket};
use super::timer::Timeout;
use super::{Feedback, FeedbackError, Report, Start};
use crate::units::{Duration, Instant};

/// State of a path, and the packets that left on it.
#[derive(Clone, Debug)]
pub struct Observed {
    pub sent: SentLog,
    pub timeout: Timeout,
    start: Option<Start>,
    base: Base,
    qdelay: f64,
}

/// A report that was checked.
pub struct Checked<'a> {
    pub report: &'a PacketReport,
    /// The packet with the highest number, and its RTT.
    pub packet: SentPacket,
    rtt: Duration,
}

impl Observed {
    /// Nothing sent yet; the log has room for `remembered` packets.
    pub fn new(remembered: u32, start: Option<Start>) -> Self {
        Self {
            sent: SentLog::new(remembered),
            timeout: Timeout::new(RtoParams::default()),
            start,
            base: Base::new(),
            qdelay: 0.0,
        }
    }

    /// A packet leaves.
    pub fn on_sent(&mut self, now: Instant, sequence: u64, bytes: u32) {
        debug_assert_eq!(sequence, self.sent.next());
        self.sent.push(now, bytes);
        self.timeout.on_sent(now);
    }

    /// Checks a report of which one packet at least must be new.
    ///
    /// # Errors
    /// It cannot be true, or has nothing new.
    pub fn check<'a>(
        &self,
        now: Instant,
        feedback: &'a Feedback,
        is_new: impl Fn(u64) -> bool,
    ) -> Result<Checked<'a>, FeedbackError> {
        let Report::Packets(report) = &feedback.report else {
            return Err(FeedbackError::WrongKind);
        };
        let packet = self.sent.packet(feedback.highest)?;
        if report.at.as_nanos() > i64::MAX as u64 / 2 {
            return Err(FeedbackError::OutOfRange("time of arrival"));
        }
        let mut packets = report.packets().iter();
        if !packets.any(|packet| packet.back == 0 && packet.before_us == 0) {
            return Err(FeedbackError::OutOfRange("set of packets received"));
        }
        let mut has_new = false;
        for packet in report.packets() {
            let sequence = feedback.highest.checked_sub(packet.back.into());
            let sequence = sequence.ok_or(FeedbackError::OutOfRange("packet received"))?;
            has_new |= is_new(sequence);
        }
        let rtt = self.sent.rtt(now, packet, feedback.held)?;
        if !has_new {
            return Err(FeedbackError::Stale);
        }
        Ok(Checked {
            report,
            packet,
            rtt,
        })
    }

    /// Measures RTT and delay by a report whose highest packet is higher than those of all before; the delay of the queue in s.
    pub fn measure(&mut self, now: Instant, checked: &Checked<'_>) -> f64 {
        self.sent.note_report(now, checked.packet);
        self.timeout.sample(now, checked.rtt);
        let delay = checked.report.at.as_nanos() as i64 - checked.packet.at.as_nanos() as i64;
        self.qdelay = self.base.note(now, delay);
        self.qdelay
    }

    /// The smoothed RTT, the one known before until there is one.
    pub fn rtt(&self) -> Option<Duration> {
        let known = self.start.map(|start| start.rtt);
        self.timeout.rto().srtt().or(known)
    }

    /// Half of the RTT without the queue, and the queue, which is on the path to the receiver.
    pub fn one_way(&self) -> Option<Duration> {
        let rtt = self.rtt()?;
        let queue = Duration::from_nanos((self.qdelay * 1e9) as u64);
        Some((rtt + queue.min(rtt)) / 2)
    }
}

/// The least delay of each of the last ten minutes, in ns (RFC 6817 §3.4.2, BASE_HISTORY).
#[derive(Clone, Copy, Debug)]
struct Base {
    minutes: [i64; 10],
    began: Instant,
}

impl Base {
    const MINUTE: Duration = Duration::from_secs(60);

    /// No delay yet.
    fn new() -> Self {
        Self {
            minutes: [i64::MAX; 10],
            began: Instant::ZERO,
        }
    }

    /// Notes a delay; how far it is above the least.
    fn note(&mut self, now: Instant, delay: i64) -> f64 {
        if now.saturating_since(self.began) >= Self::MINUTE {
            self.began = now;
            self.minutes.rotate_right(1);
            self.minutes[0] = delay;
        }
        self.minutes[0] = self.minutes[0].min(delay);
        let least = self.minutes.iter().copied().min().unwrap_or(delay);
        delay.saturating_sub(least) as f64 / 1e9
    }
}
