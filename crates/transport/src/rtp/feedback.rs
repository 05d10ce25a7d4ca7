// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports on each packet, TWCC and RFC 8888, as arrivals for a [`Reporter`] at the sender's side.
//!
//! A report is taken whole or not at all: where it speaks of a packet that was not sent, or comes from a time that the
//! receiver's clock cannot show, nothing of it counts. A packet arrives once: what is told again, or of packets that
//! are forgotten, is left out.
//!
//! A report that is lost on the way back leaves packets of which nobody says anything. They are no lost packets: the reporter
//! is told that they arrived, between those before and after them. RFC 8888's reports follow each other without gaps; TWCC's
//! count themselves, and only where the count shows a gap the packets between two reports are such.
//!
//! The reporter's time goes on where no report comes, as at a receiver of its own: after a pause of the application it has packets to
//! tell of, or that none came.

use makeway_core::rate::{Arrival, Feedback, FeedbackError, Reporter};
use makeway_core::units::{Duration, Instant};
use rtcp_types::{RtcpParseError, TransportFeedback, Twcc, TwccPacketStatus};
use thiserror::Error;

use super::ccfb::{self, Ccfb, CcfbError, Metric};
use super::history::{History, MOST_BITS, RemoteClock, Sent, Told, WrongTime};
use super::rtcp::from_compact;

/// Packets that are remembered at first: 2^13, 4 s at 2000 a second.
const HISTORY_BITS: u32 = 13;
/// Statuses that the reports of one datagram may hold together: TWCC says 8191 times the same in two bytes, and reading takes time.
const MOST_STATUSES: usize = 1 << HISTORY_BITS;
/// TWCC's reference time (draft-holmer-rmcat-transport-wide-cc-extensions-01 §3.1).
pub(super) const REFERENCE_UNIT: Duration = Duration::from_millis(64);
/// It has 24 bits.
const REFERENCE_WRAPS: Duration = Duration::from_millis(64 << 24);
/// Unit of TWCC's receive deltas.
pub(super) const DELTA_UNIT: Duration = Duration::from_micros(250);
/// Time for which a report may still come when the reporter has something to tell, twice the interval of `makeway recv`. Chosen by us.
const GRACE: Duration = Duration::from_millis(100);
/// Period of RFC 8888's time stamps: 32 bits of 1/65536 s.
const STAMP_WRAPS: Duration = Duration::from_secs(65_536);

/// A receive delta of TWCC.
fn nanos(delta: i16) -> i64 {
    i64::from(delta) * DELTA_UNIT.as_nanos() as i64
}

/// Why a datagram of the receiver was not believed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Rejected {
    /// It is no RTCP.
    #[error("is no RTCP: {0}")]
    NotRtcp(String),
    /// It is no feedback of RFC 8888.
    #[error("is no feedback of RFC 8888: it {0}")]
    NotCcfb(&'static str),
    /// It speaks of a packet that was not sent.
    #[error("speaks of packet {0} (its last 16 bits), which was not sent")]
    NotSent(u16),
    /// It speaks of a stream that is not ours.
    #[error("speaks of the stream with the SSRC {0:#010x}, which is not ours")]
    OtherStream(u32),
    /// Its time is not one that the receiver's clock can show now.
    #[error("has a time that lies {0} from what the receiver's clock can show")]
    WrongTime(Duration),
    /// It and the reports before it in its datagram speak of more packets than are remembered.
    #[error("speaks of more than 8192 packets, those of its datagram together")]
    TooLong,
    /// It names a sender report that is later than the last one.
    #[error("answers a sender report that was not sent")]
    WrongReport,
    /// The controller refused it.
    #[error("{0}")]
    Controller(#[from] FeedbackError),
}

impl From<RtcpParseError> for Rejected {
    fn from(why: RtcpParseError) -> Self {
        Self::NotRtcp(why.to_string())
    }
}

impl From<CcfbError> for Rejected {
    fn from(why: CcfbError) -> Self {
        Self::NotCcfb(match why {
            CcfbError::OtherType => "is of another type",
            CcfbError::Truncated => "ends inside of a block",
            CcfbError::TooMany => "has a block of more than 16384 packets",
        })
    }
}

impl From<WrongTime> for Rejected {
    fn from(WrongTime(by): WrongTime) -> Self {
        Self::WrongTime(by)
    }
}

/// A packet that was reported as arrived for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrived {
    /// By the receiver's clock, as [`RemoteClock`] has it.
    pub at: Instant,
    pub sent: Sent,
    pub marked: bool,
    /// No report said so: one was lost.
    pub assumed: bool,
}

/// Reads reports and hands their arrivals to a reporter.
#[derive(Clone, Debug)]
pub(super) struct Inbox<Q> {
    history: History,
    twcc: RemoteClock,
    ccfb: RemoteClock,
    /// Number of the first packet that no report of TWCC has covered, and the count of the next report.
    twcc_next: (u64, u8),
    /// The same of each stream, for RFC 8888: the RTP sequence number, once there was a report.
    ccfb_next: Vec<Option<u16>>,
    /// Packets that the report being read leaves uncovered.
    uncovered: Vec<u64>,
    /// How many more packets the datagram being read may speak of.
    budget: usize,
    reporter: Q,
    /// Arrivals of reports that were not handed on yet, in order.
    arrived: Vec<Arrived>,
    /// Number of `arrived` that the reporter has noted.
    told: usize,
    /// Arrivals of the report that is being read.
    reading: Vec<Arrived>,
    /// Whether there are such reports.
    has_report: bool,
    /// The reporter's time by the reports, and ours when the report came that moved it last. It never runs backwards.
    latest: Instant,
    heard: Instant,
}

impl<Q: Reporter> Inbox<Q> {
    pub fn new(streams: usize, reporter: Q) -> Self {
        Self {
            history: History::new(streams, HISTORY_BITS, MOST_BITS),
            twcc: RemoteClock::new(REFERENCE_WRAPS),
            ccfb: RemoteClock::new(STAMP_WRAPS),
            twcc_next: (0, 0),
            ccfb_next: vec![None; streams],
            uncovered: Vec::new(),
            budget: 0,
            reporter,
            arrived: Vec::new(),
            told: 0,
            reading: Vec::new(),
            has_report: false,
            latest: Instant::ZERO,
            heard: Instant::ZERO,
        }
    }

    pub fn on_sent(&mut self, sent: Sent) {
        self.history.push(sent);
    }

    /// A datagram comes, whose reports are read next.
    pub fn begin_datagram(&mut self) {
        self.budget = MOST_STATUSES;
    }

    /// Reads a report of TWCC. Its arrivals are in [`Inbox::arrived`] then.
    pub fn read_twcc(
        &mut self,
        now: Instant,
        feedback: &TransportFeedback,
    ) -> Result<(), Rejected> {
        self.reading.clear();
        self.uncovered.clear();
        let twcc = feedback.parse_fci::<Twcc>()?;
        // It does not say when it was made: as soon as its last packet came, as far as it shows.
        let reference = REFERENCE_UNIT * u64::from(twcc.reference_time());
        let (mut at, mut last) = (0, None);
        for packet in twcc.packets() {
            self.spend()?;
            if let (_, TwccPacketStatus::Received { delta }) = packet? {
                at += nanos(delta);
                last = last.max(Some(at));
            }
        }
        let last = last.unwrap_or(0);
        let stamp = reference.as_nanos() as i64 + last;
        let stamp = stamp.rem_euclid(REFERENCE_WRAPS.as_nanos() as i64) as u64;
        let made = self.twcc.read(now, stamp)?;
        let mut at = made - last;
        let (next, count) = self.twcc_next;
        let (mut first, mut end) = (None, next);
        for packet in twcc.packets() {
            let (number, status) = packet?;
            let sequence = self.history.extend(number);
            let sequence = sequence.ok_or(Rejected::NotSent(number))?;
            first.get_or_insert(sequence);
            end = end.max(sequence + 1);
            if let TwccPacketStatus::Received { delta } = status {
                at += nanos(delta);
                self.take(sequence, at, false);
            }
        }
        self.twcc.accept(now, stamp, made);
        let told = twcc.feedback_packet_count();
        if let Some(first) = first
            && first > next
            && told != count
        {
            self.uncovered
                .extend((next..first).rev().take(MOST_STATUSES));
        }
        // One that comes late is no gap.
        let is_late = (1..128).contains(&count.wrapping_sub(told));
        let count = if is_late { count } else { told.wrapping_add(1) };
        self.twcc_next = (end, count);
        self.commit(now, None);
        Ok(())
    }

    /// The same of RFC 8888; `streams` are the SSRCs in their order.
    pub fn read_ccfb(
        &mut self,
        now: Instant,
        packet: &[u8],
        streams: impl Iterator<Item = u32> + Clone,
    ) -> Result<(), Rejected> {
        self.reading.clear();
        self.uncovered.clear();
        let report = Ccfb::parse(packet)?;
        let stamp = from_compact(report.timestamp());
        let made = self.ccfb.read(now, stamp.as_nanos())?;
        for block in report.blocks() {
            let stream = streams.clone().position(|ssrc| ssrc == block.ssrc);
            let stream = stream.ok_or(Rejected::OtherStream(block.ssrc))?;
            for (number, metric) in (0..)
                .map(|n| block.begin.wrapping_add(n))
                .zip(block.metrics())
            {
                self.spend()?;
                let Metric::Received { ecn, offset } = metric else {
                    continue;
                };
                let sequence = self.history.by_rtp(stream, number);
                let sequence = sequence.ok_or(Rejected::NotSent(number))?;
                let before = offset.map_or(Duration::ZERO, ccfb::before);
                self.take(sequence, made - before.as_nanos() as i64, ecn == 3);
            }
        }
        self.ccfb.accept(now, stamp.as_nanos(), made);
        for block in report.blocks() {
            let Some(stream) = streams.clone().position(|ssrc| ssrc == block.ssrc) else {
                continue;
            };
            let reports = block.metrics().count() as u16;
            let end = block.begin.wrapping_add(reports);
            let next = self.ccfb_next[stream].get_or_insert(block.begin);
            let gap = block.begin.wrapping_sub(*next);
            if let Some(left) = self.budget.checked_sub(gap.into()) {
                self.budget = left;
                let missing = (0..gap).map(|n| next.wrapping_add(n));
                let missing = missing.filter_map(|rtp| self.history.by_rtp(stream, rtp));
                self.uncovered.extend(missing);
            }
            // Reports may overlap, and one may come late.
            if end.wrapping_sub(*next) < 0x8000 {
                *next = end;
            }
        }
        self.commit(now, Some(made));
        Ok(())
    }

    /// The report speaks of one more packet.
    fn spend(&mut self) -> Result<(), Rejected> {
        self.budget = self.budget.checked_sub(1).ok_or(Rejected::TooLong)?;
        Ok(())
    }

    /// Whether there are reports that were not handed on yet.
    pub fn has_report(&self) -> bool {
        self.has_report
    }

    /// Their new information, in order of arrival.
    pub fn arrived(&self) -> &[Arrived] {
        &self.arrived
    }

    /// A packet that a receiver misses: see [`History::missing`].
    pub fn missing(&self, stream: usize, rtp: u16) -> Option<Sent> {
        self.history.missing(stream, rtp)
    }

    /// When the last report was made, by the receiver's clock as far as it shows.
    pub fn latest(&self) -> Instant {
        self.latest
    }

    /// Hands these arrivals on, as many as one feedback can tell of, and gives what the controller should hear of them. Until
    /// [`Inbox::has_report`] says that none is left.
    pub fn feedback(&mut self, rtt: Option<Duration>) -> Option<Feedback> {
        while let Some(arrived) = self.arrived.get(self.told) {
            self.told += 1;
            if arrived.sent.assumed && !arrived.assumed {
                continue;
            }
            self.reporter.on_arrival(
                arrived.at,
                Arrival {
                    sequence: arrived.sent.sequence,
                    bytes: arrived.sent.bytes,
                    rtt,
                    window: None,
                    marked: arrived.marked,
                },
            );
            if self.reporter.is_full() {
                return self.reporter.poll_feedback(self.latest);
            }
        }
        self.arrived.clear();
        self.told = 0;
        self.has_report = false;
        self.reporter.poll_feedback(self.latest)
    }

    /// When [`Inbox::poll`] is due, unless a report comes before.
    pub fn next_timeout(&self) -> Option<Instant> {
        let due = self.reporter.next_timeout()?;
        Some(self.heard + due.saturating_since(self.latest) + GRACE)
    }

    /// Feedback that is due though no report has come.
    pub fn poll(&mut self, now: Instant) -> Option<Feedback> {
        self.next_timeout().filter(|at| *at <= now)?;
        // The reporter's time stands still in the grace, so that intervals are as long as at a receiver.
        let told = self.latest + now.saturating_since(self.heard + GRACE);
        let mut feedback = self.reporter.poll_feedback(told)?;
        feedback.held += GRACE;
        Some(feedback)
    }

    #[cfg(test)]
    pub fn reporter(&self) -> &Q {
        &self.reporter
    }

    fn take(&mut self, sequence: u64, at: i64, marked: bool) {
        if let Told::New(sent) = self.history.told(sequence) {
            let at = Instant::from_nanos(u64::try_from(at).unwrap_or(0));
            self.reading.push(Arrived {
                at,
                sent,
                marked,
                assumed: false,
            });
        }
    }

    /// The report is one, made at `made` if it says so.
    fn commit(&mut self, now: Instant, made: Option<i64>) {
        self.has_report = true;
        let before = self.latest;
        self.assume(made);
        let reading = &mut self.reading;
        reading.sort_unstable_by_key(|a| (a.at, a.sent.sequence));
        for arrived in reading.iter_mut() {
            self.latest = self.latest.max(arrived.at);
            arrived.at = self.latest;
            if arrived.assumed || self.history.arrived(arrived.sent.sequence) {
                self.arrived.push(*arrived);
            }
        }
        let made = made.and_then(|at| u64::try_from(at).ok());
        let made = made.map_or(Instant::ZERO, Instant::from_nanos);
        self.latest = self.latest.max(made);
        if self.latest > before {
            self.heard = now;
        }
    }

    /// Lets the uncovered packets arrive between what came before and the report.
    fn assume(&mut self, made: Option<i64>) {
        if self.uncovered.is_empty() {
            return;
        }
        self.uncovered.sort_unstable();
        let first = self.reading.iter().map(|arrived| arrived.at).min();
        let made = made.and_then(|at| u64::try_from(at).ok());
        let end = first
            .or(made.map(Instant::from_nanos))
            .unwrap_or(self.latest);
        let span = end.saturating_since(self.latest);
        let parts = self.uncovered.len() as u64 + 1;
        for (n, sequence) in (1..).zip(&self.uncovered) {
            if let Some(sent) = self.history.assume(*sequence) {
                self.reading.push(Arrived {
                    at: self.latest + span / parts * n,
                    sent,
                    marked: false,
                    assumed: true,
                });
            }
        }
    }
}
