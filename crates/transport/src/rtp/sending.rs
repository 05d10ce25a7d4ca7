// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sender's side of a call, without a socket: media in, RTP and RTCP out, feedback in.

mod config;
mod packets;
mod recording;
mod reports;
mod rtx;

use std::collections::VecDeque;

use bytes::Bytes;
use makeway_core::measure::Histogram;
use makeway_core::random::Rng;
use makeway_core::rate::{RateController, Reporter};
use makeway_core::sched::Backlog;
use makeway_core::send::{ClassStats, Datagram, DatagramId, Event, Policy, Sender};
use makeway_core::units::{Bytes as Size, Duration, Instant, Rate};
use rtcp_types::prelude::FciParser;
use rtcp_types::{Fir, Nack, Packet, Pli, Twcc};
use rtp_types::RtpPacketBuilder;

use super::ccfb;
use super::extension::{Extensions, PROFILE};
use super::feedback::{Arrived, Inbox, Rejected};
use super::history::Sent;
use super::log::Recorder;
use super::one_way::OneWay;
use super::rtcp::{self, NtpEpoch, Timer};
use super::rtx::{OSN, RtxStats};
pub use config::{ConfigError, SendingConfig, Stream};
pub use packets::{PacketFrame, PacketFrameError};
use reports::REPORTS;
use rtx::Retransmitting;

/// A frame of media.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Index in [`SendingConfig::streams`].
    pub stream: usize,
    /// When it must have arrived.
    pub deadline: Instant,
    /// A frame for the receiver, cut into packets of equal length.
    pub payload: Bytes,
}

/// A receiver's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// Its decoder can go on only from a keyframe: PLI (RFC 4585 §6.3.1) or FIR (RFC 5104 §4.3.1). Requests that nobody has read are one,
    /// and so are repetitions of one FIR.
    Keyframe {
        /// Index in [`SendingConfig::streams`].
        stream: usize,
    },
    /// A packet has not arrived: a generic NACK (RFC 4585 §6.2.1). Of packets that are forgotten, or reported as arrived, nothing is told.
    Missing {
        /// Index in [`SendingConfig::streams`].
        stream: usize,
        /// As [`Sending::send`] has numbered it.
        id: DatagramId,
    },
}

/// Requests for packets that wait for the application; the oldest are dropped.
const REQUESTS: usize = 1024;

/// A packet that waits.
#[derive(Clone, Debug)]
struct WaitingPacket {
    stream: usize,
    marker: bool,
    captured: Instant,
    /// When it was handed over.
    since: Instant,
    /// The application's RTP time stamp.
    timestamp: Option<u32>,
    payload: Bytes,
}

/// Counters of a session for one stream.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StreamStats {
    /// Packets handed over by the application.
    pub packets: u64,
    /// Outcomes of the packets that do not wait any more.
    pub outcomes: ClassStats,
    /// Payload of those sent.
    pub bytes: Size,
    /// Time in the queue of those sent.
    pub waited: Histogram,
    /// Sent packets that were reported as arrived.
    pub arrived: u64,
    /// Fraction lost in the last receiver report, 0 to 1 (RFC 3550 §6.4.1).
    pub loss: Option<f64>,
}

/// Counters of a session.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// By stream, as in [`SendingConfig::streams`].
    pub streams: Vec<StreamStats>,
    /// Reports of the receiver that were believed; those that came at once are one.
    pub feedback: u64,
    /// Reports, and other RTCP, that were not believed.
    pub rejected: u64,
    /// Why the last of them was not.
    pub last_rejected: Option<Rejected>,
    /// Round-trip time by sender and receiver reports (RFC 3550 §6.4.1), to compare with the controller's.
    pub rtcp_rtt: Option<Duration>,
    /// Whether the receiver said BYE.
    pub bye: bool,
    /// Retransmission; its packets are none of those of `streams`.
    pub rtx: RtxStats,
}

/// The state of one stream.
#[derive(Clone, Debug)]
struct StreamState {
    stream: Stream,
    next_rtp: u16,
    first_timestamp: u32,
    /// The last time stamp of the application, and its instant.
    clock: Option<(Instant, u32)>,
    /// Classes of frames beside the stream's own.
    classes: Vec<u8>,
    next_frame: u32,
    /// Whether a keyframe is asked for, and the number of the last FIR.
    wants_keyframe: bool,
    fir: Option<u8>,
}

/// See the module. `C` is the controller, `Q` makes its feedback of arrivals, `P` is the policy.
#[derive(Clone, Debug)]
pub struct Sending<C, Q, P> {
    sender: Sender<C, P, WaitingPacket>,
    inbox: Inbox<Q>,
    one_way: OneWay,
    lines: Vec<StreamState>,
    /// The longest payload, by the path and by the configuration.
    largest: usize,
    most: usize,
    cname: String,
    ntp: NtpEpoch,
    timer: Timer,
    /// NTP times of the last sender reports, the latest first.
    reports: [Option<u64>; REPORTS],
    is_closing: bool,
    missing: VecDeque<Request>,
    rtx: Retransmitting,
    stats: Stats,
    /// Where events are logged.
    recorder: Option<Recorder>,
    /// Events that are logged, and that the application has not read.
    recorded: VecDeque<Event>,
}

impl<C: RateController, Q: Reporter, P: Policy> Sending<C, Q, P> {
    /// An empty session.
    ///
    /// # Errors
    /// The fault of the configuration.
    pub fn new(
        config: SendingConfig,
        controller: C,
        reporter: Q,
        policy: P,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        let mut rng = Rng::new(config.seed);
        let line = |stream: &Stream| StreamState {
            stream: *stream,
            next_rtp: rng.next_u64() as u16,
            first_timestamp: rng.next_u64() as u32,
            clock: None,
            classes: Vec::new(),
            next_frame: 0,
            wants_keyframe: false,
            fir: None,
        };
        let lines: Vec<_> = config.streams.iter().map(line).collect();
        let timer = Timer::new(rng.next_u64());
        let ssrcs = config.streams.iter().map(|stream| stream.ssrc);
        let rtx = Retransmitting::new(config.rtx, ssrcs, || rng.next_u64() as u16);
        Ok(Self {
            sender: Sender::new(config.queue, controller, policy),
            inbox: Inbox::new(lines.len() + rtx.lines.len(), reporter),
            one_way: OneWay::default(),
            stats: Stats {
                streams: vec![StreamStats::default(); lines.len()],
                ..Stats::default()
            },
            lines,
            largest: config.queue.largest.max(1) as usize,
            most: config.queue.largest.max(1) as usize,
            cname: config.cname,
            ntp: config.ntp,
            timer,
            reports: [None; REPORTS],
            is_closing: false,
            missing: VecDeque::new(),
            rtx,
            recorder: None,
            recorded: VecDeque::new(),
        })
    }

    /// Takes a frame and cuts it into packets: the first of their numbers, and how many there are. Nothing is taken of a stream
    /// that does not exist.
    pub fn send(&mut self, now: Instant, frame: &Frame) -> Option<(DatagramId, u64)> {
        let line = self.lines.get_mut(frame.stream)?;
        let len = frame.payload.len();
        let packets = len.div_ceil(self.largest).max(1);
        let number = line.next_frame;
        line.next_frame = number.wrapping_add(1);
        let class = line.stream.class;
        let mut first = None;
        for n in 0..packets {
            let payload = frame
                .payload
                .slice(n * len / packets..(n + 1) * len / packets);
            let datagram = Datagram {
                class,
                len: payload.len() as u32,
                deadline: frame.deadline,
                frame: (packets > 1).then_some(number),
            };
            let media = WaitingPacket {
                stream: frame.stream,
                marker: n + 1 == packets,
                captured: now,
                since: now,
                timestamp: None,
                payload,
            };
            let id = self.sender.enqueue(now, datagram, media);
            self.record_created(now, frame.stream, id, &datagram);
            self.record_events(now);
            first.get_or_insert(id);
        }
        self.stats.streams[frame.stream].packets += packets as u64;
        first.map(|id| (id, packets as u64))
    }

    /// The largest datagram of the path, from now on: later frames are cut so that RTP fits it, and in pieces of
    /// [`SendingConfig::queue`]'s `largest` at most. Packets that wait leave as they are; IP may cut them.
    pub fn follow_mtu(&mut self, datagram: u32) {
        let osn = if self.rtx.lines.is_empty() { 0 } else { OSN };
        let payload = (datagram as usize).saturating_sub(HEADERS + osn);
        self.largest = payload.max(LEAST_CUT).min(self.most);
    }

    /// Puts the next datagram for the receiver into `out`, which it clears. Gives the time since which it could leave.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Instant> {
        out.clear();
        if self.timer.is_due(now) || self.is_closing {
            self.report(now, out);
            return Some(now);
        }
        let allowed = self.sender.rate().next_send()?;
        let is_original = self.sender.backlog().packets > 0 || !self.rtx.is_waiting();
        let packet = is_original.then(|| self.sender.poll_transmit(now));
        let Some(packet) = packet.flatten() else {
            return self.transmit_again(now, out);
        };
        let media = &packet.payload;
        let line = &mut self.lines[media.stream];
        let extensions = Extensions {
            sequence: Some(packet.sequence as u16),
            capture: Some(self.ntp.at(media.captured)),
            playout: Some(packet.datagram.deadline.saturating_since(media.captured)),
        }
        .write();
        let captured = line.timestamp(media.captured);
        let timestamp = media.timestamp.unwrap_or(captured);
        RtpPacketBuilder::<&[u8], &[u8]>::new()
            .payload_type(line.stream.payload_type)
            .marker_bit(media.marker)
            .sequence_number(line.next_rtp)
            .timestamp(timestamp)
            .ssrc(line.stream.ssrc)
            .extension(PROFILE, &extensions)
            .payload(&media.payload)
            .write_into_vec_unchecked(out);
        let sent = Sent {
            sequence: packet.sequence,
            id: packet.id.0,
            at: now,
            stream: media.stream as u8,
            rtp: line.next_rtp,
            bytes: packet.datagram.len,
            arrived: false,
            assumed: false,
        };
        self.inbox.on_sent(sent);
        if let Some(recorder) = &mut self.recorder {
            recorder.on_sent(&sent);
        }
        let rtp = line.next_rtp;
        line.next_rtp = rtp.wrapping_add(1);
        let stats = &mut self.stats.streams[media.stream];
        stats.bytes += Size::new(packet.datagram.len.into());
        stats.waited.record(now.saturating_since(media.since));
        self.timer.start(now);
        let since = allowed.max(media.since);
        self.rtx.keep(now, packet, rtp, timestamp);
        Some(since)
    }

    /// Takes a datagram of the receiver: RTCP. An impossible report is counted and changes nothing. A report goes to the controller with the
    /// next [`Sending::handle_timeout`], so that datagrams that come together are one report: a receiver may save several of TWCC and send
    /// them at once, as GStreamer does, and only the last packet of all says how long the way was.
    pub fn handle(&mut self, now: Instant, datagram: &[u8]) {
        let result = self.read(now, datagram);
        self.count(result);
    }

    /// When to call [`Sending::poll_transmit`] or [`Sending::handle_timeout`] again, unless something comes before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let report = self.inbox.has_report().then_some(Instant::ZERO);
        let again = self.rtx.is_waiting();
        let again = again.then(|| self.sender.rate().next_send()).flatten();
        let quiet = self.inbox.next_timeout();
        let sender = self.sender.poll_timeout();
        let next = [report, quiet, sender, self.timer.next(), again];
        next.into_iter().flatten().min()
    }

    /// A timer may have run out, or datagrams have come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.inbox.has_report() {
            self.stats.feedback += 1;
            if let Some(recorder) = &mut self.recorder {
                recorder.on_report(now, self.inbox.arrived());
            }
            let told = self.inbox.arrived().iter().filter(|a| !a.assumed);
            for arrived in told.clone() {
                if !self.rtx.on_arrival(self.lines.len(), &arrived.sent) {
                    self.stats.streams[usize::from(arrived.sent.stream)].arrived += 1;
                }
            }
            let latest = self.inbox.latest();
            let round_trip = told.clone().max_by_key(|a| a.sent.sequence).map(|last| {
                let held = latest.saturating_since(last.at);
                Duration::from_nanos(now.saturating_since(last.sent.at + held).as_nanos())
            });
            let transit = |a: &Arrived| a.at.as_nanos() as i64 - a.sent.at.as_nanos() as i64;
            self.one_way.on_report(now, round_trip, told.map(transit));
            self.sender.set_one_way(self.one_way.get(now));
            while self.inbox.has_report() {
                if let Some(feedback) = self.inbox.feedback(self.rtt()) {
                    let result = self.sender.handle_feedback(now, &feedback);
                    self.count(result.map_err(Rejected::from));
                }
            }
        }
        if let Some(feedback) = self.inbox.poll(now) {
            let result = self.sender.handle_feedback(now, &feedback);
            self.count(result.map_err(Rejected::from));
        }
        self.sender.handle_timeout(now);
    }

    /// Events for the application: see [`Sender::poll_event`].
    pub fn poll_event(&mut self) -> Option<Event> {
        let recorded = self.recorded.pop_front();
        recorded.or_else(|| self.sender.poll_event())
    }

    /// The receiver's next request.
    pub fn poll_request(&mut self) -> Option<Request> {
        let asked = self.lines.iter().position(|line| line.wants_keyframe);
        if let Some(stream) = asked {
            self.lines[stream].wants_keyframe = false;
            return Some(Request::Keyframe { stream });
        }
        self.missing.pop_front()
    }

    /// The next datagram is the last: BYE. The backlog is not sent.
    pub fn close(&mut self) {
        self.is_closing = true;
    }

    /// Its counters.
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats.clone();
        for (line, stats) in self.lines.iter().zip(&mut stats.streams) {
            stats.outcomes = self.outcomes(line);
        }
        stats.rtx = self.rtx.stats();
        stats
    }

    /// The backlog, payload.
    pub fn backlog(&self) -> Backlog {
        self.sender.backlog()
    }

    /// Rate allowed now, in payload.
    pub fn rate(&self) -> Rate {
        self.sender.rate().rate()
    }

    /// The controller's round-trip time, once there is one.
    pub fn rtt(&self) -> Option<Duration> {
        self.sender.rate().rtt()
    }

    /// Changes the controller: see [`Sender::change_rate`].
    pub fn change_rate<U>(&mut self, now: Instant, change: impl FnOnce(&mut C) -> U) -> U {
        self.sender.change_rate(now, change)
    }

    /// One-way delay to the receiver by its reports, once there is one.
    pub fn one_way(&self, now: Instant) -> Option<Duration> {
        self.one_way.get(now)
    }

    #[cfg(test)]
    pub(super) fn reporter(&self) -> &Q {
        self.inbox.reporter()
    }

    /// Reads the packets of a datagram, each by itself: what one says wrong is no reason against the others. The first reason.
    fn read(&mut self, now: Instant, datagram: &[u8]) -> Result<(), Rejected> {
        let mut result = Ok(());
        self.inbox.begin_datagram();
        for packet in rtcp::packets(datagram)? {
            let read = packet
                .map_err(Rejected::from)
                .and_then(|(packet, bytes)| self.read_packet(now, &packet, bytes));
            result = result.and(read);
        }
        result
    }

    fn read_packet(&mut self, now: Instant, packet: &Packet, bytes: &[u8]) -> Result<(), Rejected> {
        match packet {
            Packet::TransportFeedback(_) if bytes[0] & 0x1f == ccfb::FORMAT => {
                let ssrcs = self.lines.iter().map(|line| line.stream.ssrc);
                let ssrcs = ssrcs.chain(self.rtx.ssrcs());
                self.inbox.read_ccfb(now, bytes, ssrcs)
            }
            Packet::TransportFeedback(feedback) if bytes[0] & 0x1f == Twcc::FCI_FORMAT => {
                self.inbox.read_twcc(now, feedback)
            }
            Packet::TransportFeedback(feedback) if bytes[0] & 0x1f == Nack::FCI_FORMAT => {
                let nack = feedback.parse_fci::<Nack>()?;
                let stream = self.stream(feedback.media_ssrc())?;
                let pace = self.pace(now);
                for rtp in nack.entries() {
                    let missing = self.inbox.missing(stream, rtp);
                    let sequence = missing.map(|sent| sent.sequence);
                    self.ask_again(now, stream, sequence, &pace);
                    let Some(Sent { id, .. }) = missing else {
                        continue;
                    };
                    if self.missing.len() == REQUESTS {
                        self.missing.pop_front();
                    }
                    let id = DatagramId(id);
                    self.missing.push_back(Request::Missing { stream, id });
                }
                Ok(())
            }
            Packet::PayloadFeedback(feedback) if bytes[0] & 0x1f == Pli::FCI_FORMAT => {
                let stream = self.stream(feedback.media_ssrc())?;
                self.lines[stream].wants_keyframe = true;
                Ok(())
            }
            Packet::PayloadFeedback(feedback) if bytes[0] & 0x1f == Fir::FCI_FORMAT => {
                for entry in feedback.parse_fci::<Fir>()?.entries() {
                    let stream = self.stream(entry.ssrc())?;
                    let line = &mut self.lines[stream];
                    let is_new = line.fir.replace(entry.sequence()) != Some(entry.sequence());
                    line.wants_keyframe |= is_new;
                }
                Ok(())
            }
            Packet::Rr(report) => self.blocks(now, report.report_blocks()),
            Packet::Sr(report) => self.blocks(now, report.report_blocks()),
            Packet::Bye(_) => {
                self.stats.bye = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Counts what a report told, and what it was worth.
    fn count(&mut self, result: Result<(), Rejected>) {
        match result {
            Ok(()) => {}
            Err(why) => {
                self.stats.rejected += 1;
                self.stats.last_rejected = Some(why);
            }
        }
    }

    /// Index of the stream with this SSRC.
    fn stream(&self, ssrc: u32) -> Result<usize, Rejected> {
        let mut lines = self.lines.iter();
        let found = lines.position(|line| line.stream.ssrc == ssrc);
        found.ok_or(Rejected::OtherStream(ssrc))
    }
}

/// RTP's header, and our extensions.
const HEADERS: usize = 12 + 4 + 16;

/// A hop that says it carries less is not believed (RFC 791 has 576 B for every host); chosen by us.
const LEAST_CUT: usize = 400;

impl StreamState {
    /// RTP time stamp of an instant, by the last of the application if there was one.
    fn timestamp(&self, at: Instant) -> u32 {
        let (zero, first) = self.clock.unwrap_or((Instant::ZERO, self.first_timestamp));
        let ticks = |time: Duration| {
            let ticks = u128::from(time.as_nanos()) * u128::from(self.stream.clock_rate);
            (ticks / 1_000_000_000) as u32
        };
        let after = first.wrapping_add(ticks(at.saturating_since(zero)));
        after.wrapping_sub(ticks(zero.saturating_since(at)))
    }
}
