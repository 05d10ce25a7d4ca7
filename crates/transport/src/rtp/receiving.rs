// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiver's side of a call, without a socket: RTP and RTCP in, feedback and measures out.

mod arrivals;
mod repair;

use std::collections::VecDeque;

use makeway_core::measure::{Arrival, Histogram, Ipdv, Sequence, Unwrap};
use makeway_core::units::{Bytes, Duration, Instant};
use rtcp_types::prelude::RtcpPacketWriter;
use rtcp_types::{
    Packet, ReceiverReport, ReportBlock, RtcpParseError, TransportFeedback, Twcc, TwccPacketStatus,
};
use rtp_types::RtpPacket;

use super::ccfb::{self, Metric};
use super::extension::Extensions;
use super::feedback::{DELTA_UNIT, REFERENCE_UNIT};
use super::rtcp::{self, NtpEpoch, Timer};
use super::rtx::Rtx;
use arrivals::{Arrivals, KEPT, Restart, TransportWide};
use repair::Repair;

/// How arrivals are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FeedbackKind {
    /// Transport-wide: one sequence of numbers for all streams, times in 250 us
    /// (draft-holmer-rmcat-transport-wide-cc-extensions-01).
    Twcc,
    /// By stream, with ECN marks, times in 1/1024 s (RFC 8888).
    Rfc8888,
}

/// Configuration of a [`Receiving`] session.
#[derive(Clone, Debug)]
pub struct ReceivingConfig {
    /// Its own SSRC.
    pub ssrc: u32,
    /// Canonical name, `user@host`, at most 255 bytes (RFC 3550 §6.5.1).
    pub cname: String,
    /// How arrivals are reported.
    pub feedback: FeedbackKind,
    /// RTX streams that the sender has, each of one stream: missing packets of those are asked for by generic NACKs. None: no packet is.
    pub rtx: Vec<Rtx>,
    /// The least time between two reports; RFC 8888 §4 has 50 to 200 ms for the rates of video calls. A report waits so long for packets
    /// that follow, but for one of TWCC after one of a single packet.
    pub interval: Duration,
    /// NTP time of [`Instant::ZERO`]. Delays and lateness are right where both sides' clocks agree.
    pub ntp: NtpEpoch,
    /// Seed of RTCP's intervals.
    pub seed: u64,
}

/// Largest number of streams; one more replaces the one that is silent for longest.
const MOST_STREAMS: usize = 16;
/// A stream that was heard in that time keeps its place.
const SILENCE: Duration = Duration::from_secs(5);
/// Packets that BYE has overtaken come within this time (chosen by us), with numbers that differ from the highest by this at most
/// (MAX_MISORDER of RFC 3550 §A.1).
const OVERTAKEN: Duration = Duration::from_millis(500);
const MISORDER: u16 = 100;
/// [`Unwrap`] begins one cycle up, RFC 3550 §6.4.1 at none.
const FIRST_CYCLE: u64 = 0x1_0000;
/// Largest report packet, so that it fits every path.
const REPORT_BYTES: usize = 1100;

/// Bytes of a block of RFC 8888 beside its metrics.
const BLOCK_HEADER: usize = 8;

/// Receive counters of one stream.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its source.
    pub ssrc: u32,
    /// Payload type of the last packet.
    pub payload_type: u8,
    /// Loss, reordering and duplicates by RTP sequence number.
    pub sequence: Sequence,
    /// Payload.
    pub bytes: Bytes,
    /// Delay variation between packets that were sent one after the other (RFC 3393).
    pub ipdv: Ipdv,
    /// From when the sender was given the packet to its arrival, by both sides' clocks.
    pub delay: Histogram,
    /// Packets that came before their deadline.
    pub on_time: u64,
    /// Packets that said when they were due.
    pub with_deadline: u64,
    /// Packets that came by retransmission alone, or first: they count in `bytes`, `delay`, `on_time` and `with_deadline`, and not
    /// in `sequence`, which is the path's.
    pub repaired: u64,
    /// Packets that came both ways, and were given to the application once.
    pub repeated: u64,
}

/// The received packets.
#[derive(Clone, Debug)]
struct Reception {
    received: Received,
    unwrap: Unwrap,
    last_heard: Instant,
    /// Number of the latest packet.
    highest: u64,
    restart: Restart,
    /// When its sender said BYE.
    ended: Option<Instant>,
    /// Arrivals by RTP sequence number, for RFC 8888.
    arrivals: Arrivals,
    /// RFC 3550 §6.4.1: what was expected and received at the last report.
    before: (u64, u64),
    /// Compact NTP time of the last sender report, and when it came.
    report: Option<(u32, Instant)>,
    /// RFC 3550 §A.8, in ns.
    jitter: u64,
    last_transit: Option<i64>,
    /// State of the RTX stream, if there is one.
    repair: Option<Repair>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Receiving {
    config: ReceivingConfig,
    lines: Vec<Reception>,
    /// State of TWCC.
    transport: TransportWide,
    /// Reports that were made and not sent yet.
    ready: VecDeque<Vec<u8>>,
    /// The last original of an RTX packet.
    restored: Vec<u8>,
    next_feedback: Option<Instant>,
    timer: Timer,
    is_closing: bool,
    refused: u64,
    has_ended: bool,
}

impl Receiving {
    /// An empty session.
    pub fn new(config: ReceivingConfig) -> Self {
        Self {
            timer: Timer::new(config.seed),
            config,
            lines: Vec::with_capacity(MOST_STREAMS),
            transport: TransportWide::new(),
            ready: VecDeque::new(),
            restored: Vec::new(),
            next_feedback: None,
            is_closing: false,
            refused: 0,
            has_ended: false,
        }
    }

    /// Takes a datagram of the sender that came at `now` with the ECN bits `ecn`. Gives the stream and the payload of a packet that is
    /// new, to be played: of an RTX packet, its original. BYE of any host counts here; [`Receiver`](super::Receiver) leaves out that of
    /// another IP address.
    pub fn handle<'a>(
        &'a mut self,
        now: Instant,
        datagram: &'a [u8],
        ecn: u8,
    ) -> Option<(&'a Received, RtpPacket<'a>)> {
        if rtcp::is_rtcp(datagram) {
            if self.rtcp(now, datagram).is_err() {
                self.refused += 1;
            }
            return None;
        }
        let Ok(packet) = RtpPacket::parse(datagram) else {
            self.refused += 1;
            return None;
        };
        match self.rtx_of(&packet) {
            Ok(None) => {}
            Ok(Some(rtx)) => return self.repair(now, datagram, &packet, ecn, &rtx),
            Err(()) => {
                self.refused += 1;
                return None;
            }
        }
        let at = self.rtp(now, &packet, ecn)?;
        Some((&self.lines[at].received, packet))
    }

    /// Puts the next datagram for the sender into `out`, which it clears. Whether there was one.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        out.clear();
        if self.ready.is_empty() {
            self.ask(now);
        }
        if self.ready.is_empty() && self.is_feedback_due(now) {
            self.make_feedback(now);
        }
        if let Some(report) = self.ready.pop_front() {
            out.extend(report);
            return true;
        }
        if self.timer.is_due(now) || self.is_closing {
            self.report(now, out);
        }
        !out.is_empty()
    }

    /// When to call [`Receiving::poll_transmit`] again, unless something comes before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        // An arrival after the interval makes TWCC's report, so that the sender hears at once and knows how long its packet
        // was away; what comes last, and RFC 8888, which says its own time, need a timer.
        let patience = match (self.config.feedback, self.transport.lone) {
            (FeedbackKind::Twcc, None) => self.config.interval,
            _ => Duration::ZERO,
        };
        let feedback = self.next_feedback.map(|at| at + patience);
        let all = [feedback, self.timer.next(), self.next_request()];
        all.into_iter().flatten().min()
    }

    /// The next datagram but feedback is the last: BYE.
    pub fn close(&mut self) {
        self.is_closing = true;
    }

    /// By stream, in the order of their first packets.
    pub fn streams(&self) -> impl Iterator<Item = &Received> {
        self.lines.iter().map(|line| &line.received)
    }

    /// Datagrams that were neither RTP nor RTCP, RTX packets without an original that can be, and packets of too many streams.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether a sender said BYE.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn rtp(&mut self, now: Instant, packet: &RtpPacket, ecn: u8) -> Option<usize> {
        let at = self.line(now, packet)?;
        let line = &mut self.lines[at];
        let mut number = line.unwrap.extend(packet.sequence_number());
        if line.restart.on_packet(line.highest, number) {
            line.begin_anew(now);
            number = line.unwrap.extend(packet.sequence_number());
        }
        line.last_heard = now;
        line.highest = line.highest.max(number);
        if line.received.sequence.on_packet(number) == Arrival::Duplicate {
            return None;
        }
        let repair = line.repair.as_mut();
        let is_new = repair.is_none_or(|repair| repair.on_packet(now, number));
        line.received.repeated += u64::from(!is_new);
        let said = Extensions::of(packet);
        let ntp = self.config.ntp.at(now);
        if is_new {
            line.measure_delay(ntp, packet, &said);
        }
        line.measure(now, ntp, number, packet, &said);
        match (self.config.feedback, said.sequence) {
            // Its sender reads no reports.
            _ if line.ended.is_some() => {}
            (FeedbackKind::Rfc8888, _) => line.arrivals.push(number, now, ecn),
            (FeedbackKind::Twcc, Some(sequence)) => self.transport.on_packet(sequence, now, ecn),
            (FeedbackKind::Twcc, None) => {}
        }
        // Where packets come one by one, TWCC's report does not wait for others: the sender would take that for the path's delay. The first
        // of many is not told of alone: TFRC would take it for all that was received since the report before.
        let due = match self.transport.lone {
            Some(at) => (at + self.config.interval).max(now),
            None => now + self.config.interval,
        };
        self.next_feedback.get_or_insert(due);
        self.timer.start(now);
        is_new.then_some(at)
    }

    /// The stream's place, made if there is one free or one that has ended or long been silent.
    fn line(&mut self, now: Instant, packet: &RtpPacket) -> Option<usize> {
        let ssrc = packet.ssrc();
        let known = self.lines.iter().position(|l| l.received.ssrc == ssrc);
        if known.is_some_and(|at| !self.lines[at].is_over(now, packet.sequence_number())) {
            return known;
        }
        // The first packet of another call, whose sender has numbers of its own.
        if self.lines.iter().all(|line| line.ended.is_some()) {
            self.transport = TransportWide::new();
        }
        if let Some(at) = known {
            self.lines[at].begin_anew(now);
            return known;
        }
        if self.lines.len() == MOST_STREAMS {
            let lines = self.lines.iter().enumerate();
            let (at, silent) =
                lines.min_by_key(|(_, line)| (line.ended.is_none(), line.last_heard))?;
            if silent.ended.is_none() && now.saturating_since(silent.last_heard) < SILENCE {
                self.refused += 1;
                return None;
            }
            self.lines.remove(at);
        }
        let mut rtx = self.config.rtx.iter();
        let repair = rtx.any(|rtx| rtx.media_ssrc == ssrc).then(Repair::new);
        self.lines.push(Reception::new(ssrc, now, repair));
        Some(self.lines.len() - 1)
    }

    fn rtcp(&mut self, now: Instant, datagram: &[u8]) -> Result<(), RtcpParseError> {
        for packet in rtcp::packets(datagram)? {
            match packet? {
                (Packet::Sr(report), _) => {
                    let mut lines = self.lines.iter_mut();
                    if let Some(line) = lines.find(|l| l.received.ssrc == report.ssrc()) {
                        line.report = Some((rtcp::compact(report.ntp_timestamp()), now));
                    }
                }
                (Packet::Bye(bye), _) => {
                    for ssrc in bye.ssrcs() {
                        let mut lines = self.lines.iter_mut();
                        if let Some(line) = lines.find(|l| l.received.ssrc == ssrc) {
                            line.end(now);
                            self.has_ended = true;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn is_feedback_due(&self, now: Instant) -> bool {
        let of_streams: usize = self.lines.iter().map(|l| l.arrivals.fresh).sum();
        self.transport.arrivals.fresh + of_streams >= KEPT / 2
            || self.next_feedback.is_some_and(|at| at <= now)
    }

    fn make_feedback(&mut self, now: Instant) {
        self.next_feedback = None;
        match self.config.feedback {
            FeedbackKind::Twcc => self.make_twcc(now),
            FeedbackKind::Rfc8888 => self.make_ccfb(now),
        }
    }

    /// One packet or several, each of what its deltas can say and its size allows.
    fn make_twcc(&mut self, now: Instant) {
        self.transport.lone = (self.transport.arrivals.fresh == 1).then_some(now);
        let latest = self.lines.iter().max_by_key(|line| line.last_heard);
        let media = latest.map_or(0, |line| line.received.ssrc);
        let Some((mut number, statuses)) = self.transport.arrivals.take() else {
            return;
        };
        let statuses: Vec<_> = statuses.collect();
        let mut rest = &statuses[..];
        while let Some((start, _)) = rest.iter().flatten().next() {
            let reference = start.as_nanos() / REFERENCE_UNIT.as_nanos();
            let mut last = (REFERENCE_UNIT * reference).as_nanos() / DELTA_UNIT.as_nanos();
            let said: Vec<_> = rest
                .iter()
                .map_while(|arrival| {
                    let Some((at, _)) = arrival else {
                        return Some(TwccPacketStatus::NotReceived);
                    };
                    let ticks = at.as_nanos() / DELTA_UNIT.as_nanos();
                    let delta = i16::try_from(ticks as i64 - last as i64).ok()?;
                    last = ticks;
                    Some(TwccPacketStatus::Received { delta })
                })
                .collect();
            // 24 bits of 64 ms: it wraps after 12 days.
            let reference = reference as u32 & 0xff_ffff;
            let fci = Twcc::builder(
                number as u16,
                reference,
                self.transport.reports,
                &said,
                Some(REPORT_BYTES),
            );
            let count = fci.packet_status_count();
            if count == 0 {
                break;
            }
            let packet = TransportFeedback::builder(&fci)
                .sender_ssrc(self.config.ssrc)
                .media_ssrc(media);
            push(&mut self.ready, &packet);
            self.transport.reports = self.transport.reports.wrapping_add(1);
            number += count as u64;
            rest = &rest[count..];
        }
    }

    /// One packet or several, each of what its size allows.
    fn make_ccfb(&mut self, now: Instant) {
        let made = rtcp::compact(self.config.ntp.at(now));
        let mut out = Vec::new();
        let mut writer = ccfb::Writer::new(&mut out, self.config.ssrc);
        let mut reports = 0;
        for line in &mut self.lines {
            let ssrc = line.received.ssrc;
            let Some((mut number, arrivals)) = line.arrivals.take() else {
                continue;
            };
            let mut metrics = arrivals
                .map(|arrival| match arrival {
                    None => Metric::Lost,
                    Some((at, ecn)) => Metric::Received {
                        ecn,
                        offset: Some(ccfb::offset(now.saturating_since(at))),
                    },
                })
                .peekable();
            while metrics.peek().is_some() {
                let room = REPORT_BYTES / 2 - reports;
                let written = writer.block(ssrc, number as u16, metrics.by_ref().take(room));
                number += u64::from(written);
                reports += usize::from(written) + BLOCK_HEADER / 2;
                if reports + BLOCK_HEADER >= REPORT_BYTES / 2 {
                    writer.finish(made);
                    self.ready.push_back(std::mem::take(&mut out));
                    writer = ccfb::Writer::new(&mut out, self.config.ssrc);
                    reports = 0;
                }
            }
        }
        writer.finish(made);
        if reports > 0 {
            self.ready.push_back(out);
        }
    }

    /// RFC 3550 §6.4.2, with our CNAME, and BYE at the end.
    fn report(&mut self, now: Instant, out: &mut Vec<u8>) {
        let mut report = ReceiverReport::builder(self.config.ssrc);
        for line in &mut self.lines {
            let (expected, received) = (
                line.received.sequence.expected(),
                line.received.sequence.received(),
            );
            let (before_expected, before_received) =
                std::mem::replace(&mut line.before, (expected, received));
            let expected_now = expected.saturating_sub(before_expected);
            let lost_now = expected_now.saturating_sub(received - before_received);
            // §A.3: a fraction of 256.
            let fraction = (lost_now * 256)
                .checked_div(expected_now)
                .unwrap_or(0)
                .min(255);
            let lost = expected.saturating_sub(received).min(0x7f_ffff);
            let (last, since) = line.report.map_or((0, 0), |(last, at)| {
                (last, rtcp::to_compact(now.saturating_since(at)))
            });
            let jitter = u128::from(line.jitter) * u128::from(JITTER_CLOCK) / 1_000_000_000;
            report = report.add_report_block(
                ReportBlock::builder(line.received.ssrc)
                    .fraction_lost(fraction as u8)
                    .cumulative_lost(lost as u32)
                    .extended_sequence_number((line.highest - FIRST_CYCLE) as u32)
                    .interarrival_jitter(jitter as u32)
                    .last_sender_report_timestamp(last)
                    .delay_since_last_sender_report_timestamp(since),
            );
        }
        let ssrc = || std::iter::once(self.config.ssrc);
        let mut written = rtcp::append(out, &report);
        written = written.and_then(|()| rtcp::append(out, &rtcp::sdes(ssrc(), &self.config.cname)));
        if self.is_closing {
            written = written.and_then(|()| rtcp::append(out, &rtcp::bye(ssrc())));
            self.is_closing = false;
        }
        debug_assert!(written.is_ok(), "a report that can be written: {written:?}");
    }
}

/// Jitter is reported in RTP time; of payload types that are agreed on elsewhere the clock is taken to be video's.
const JITTER_CLOCK: u32 = 90_000;

impl Reception {
    fn new(ssrc: u32, now: Instant, repair: Option<Repair>) -> Self {
        Self {
            received: Received {
                ssrc,
                payload_type: 0,
                sequence: Sequence::new(),
                bytes: Bytes::ZERO,
                ipdv: Ipdv::new(),
                delay: Histogram::new(),
                on_time: 0,
                with_deadline: 0,
                repaired: 0,
                repeated: 0,
            },
            unwrap: Unwrap::default(),
            last_heard: now,
            highest: 0,
            restart: Restart::default(),
            ended: None,
            arrivals: Arrivals::new(),
            before: (0, 0),
            report: None,
            jitter: 0,
            last_transit: None,
            repair,
        }
    }

    /// Its sender has said BYE, and reads no reports.
    fn end(&mut self, now: Instant) {
        if self.ended.is_none() {
            self.ended = Some(now);
            self.arrivals = Arrivals::new();
        }
    }

    /// Whether the packet with this number comes from another sender than the one that said BYE.
    fn is_over(&self, now: Instant, number: u16) -> bool {
        let Some(ended) = self.ended else {
            return false;
        };
        let ahead = number.wrapping_sub(self.highest as u16) as i16;
        now.saturating_since(ended) > OVERTAKEN || ahead.unsigned_abs() > MISORDER
    }

    /// Another sender has its SSRC.
    fn begin_anew(&mut self, now: Instant) {
        let repair = self.repair.is_some().then(Repair::new);
        *self = Self::new(self.received.ssrc, now, repair);
    }

    /// A packet that is given to the application, from the path or restored.
    fn measure_delay(&mut self, ntp: u64, packet: &RtpPacket, said: &Extensions) {
        let received = &mut self.received;
        received.bytes += Bytes::new(packet.payload_len() as u64);
        let Some(captured) = said.capture else {
            return;
        };
        let transit = rtcp::ntp_between(captured, ntp);
        let delay = Duration::from_nanos(transit.max(0) as u64);
        received.delay.record(delay);
        if let Some(playout) = said.playout {
            received.with_deadline += 1;
            received.on_time += u64::from(delay <= playout);
        }
    }

    fn measure(
        &mut self,
        now: Instant,
        ntp: u64,
        number: u64,
        packet: &RtpPacket,
        said: &Extensions,
    ) {
        let received = &mut self.received;
        received.payload_type = packet.payload_type();
        let Some(captured) = said.capture else {
            return;
        };
        let transit = rtcp::ntp_between(captured, ntp);
        // By our clock, with any zero: only differences count.
        let sent = now.as_nanos().wrapping_sub(transit as u64);
        received
            .ipdv
            .on_packet(number, Instant::from_nanos(sent), now);
        if let Some(last) = self.last_transit.replace(transit) {
            // §A.8: J += (|D| - J) / 16.
            let change = transit.abs_diff(last) as i64 - self.jitter as i64;
            self.jitter = self.jitter.saturating_add_signed(change / 16);
        }
    }
}

fn push(ready: &mut VecDeque<Vec<u8>>, packet: &impl RtcpPacketWriter) {
    let mut out = Vec::new();
    if rtcp::append(&mut out, packet).is_ok() {
        ready.push_back(out);
    }
}
