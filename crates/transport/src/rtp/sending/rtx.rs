// SPDX-License-Identifier: MIT OR Apache-2.0
//! Retransmission at the sender: RTX packets (RFC 4588) of those that the receiver misses, after originals.

use makeway_core::rate::{RateController, Reporter};
use makeway_core::send::again::{Again, Pace};
use makeway_core::send::{Policy, Transmit};
use makeway_core::units::{Bytes, Duration, Instant};
use rtp_types::RtpPacketBuilder;

use super::{Sending, WaitingPacket};
use crate::rtp::extension::{Extensions, PROFILE};
use crate::rtp::history::Sent;
use crate::rtp::rtx::{OSN, Rtx, RtxConfig, RtxStats};

/// Round trip before one is known; chosen by us, GStreamer's and libwebrtc's first guess.
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(100);
/// The least that counts: a receiver that reports a shorter one gets no more retransmissions for it. Chosen by us.
const LEAST_ROUND_TRIP: Duration = Duration::from_millis(5);

/// Sent packets of streams with an RTX stream, and the state of those.
#[derive(Clone, Debug)]
pub(super) struct Retransmitting {
    again: Again<Original>,
    pub lines: Vec<RtxLine>,
    bytes: Bytes,
    arrived: u64,
}

/// An RTX stream.
#[derive(Clone, Debug)]
pub(super) struct RtxLine {
    pub rtx: Rtx,
    /// Index of its original stream.
    pub stream: usize,
    next_rtp: u16,
    pub packets: u32,
    pub bytes: u64,
}

/// A packet that was sent.
#[derive(Clone, Debug)]
struct Original {
    /// Index of its RTX stream.
    line: usize,
    rtp: u16,
    timestamp: u32,
    media: WaitingPacket,
}

// The record of which `again::OVERHEAD` speaks.
const _: () = assert!(size_of::<Original>() <= 88);

impl Retransmitting {
    /// For the streams with these SSRCs; the configuration was checked.
    pub fn new(
        config: RtxConfig,
        ssrcs: impl Iterator<Item = u32> + Clone,
        mut first: impl FnMut() -> u16,
    ) -> Self {
        let lines = config.streams.into_iter().filter_map(|rtx| {
            Some(RtxLine {
                rtx,
                stream: ssrcs.clone().position(|ssrc| ssrc == rtx.media_ssrc)?,
                next_rtp: first(),
                packets: 0,
                bytes: 0,
            })
        });
        Self {
            again: Again::new(config.bytes),
            lines: lines.collect(),
            bytes: Bytes::ZERO,
            arrived: 0,
        }
    }

    /// A packet leaves for the first time, as `rtp` of its stream.
    pub fn keep(
        &mut self,
        now: Instant,
        packet: Transmit<WaitingPacket>,
        rtp: u16,
        timestamp: u32,
    ) {
        let stream = packet.payload.stream;
        let Some(line) = self.lines.iter().position(|line| line.stream == stream) else {
            return;
        };
        let original = Original {
            line,
            rtp,
            timestamp,
            media: packet.payload,
        };
        self.again
            .keep(now, packet.sequence, packet.datagram, original);
    }

    /// A report says that a packet arrived, of `streams` originals' streams: whether it was an RTX packet.
    pub fn on_arrival(&mut self, streams: usize, sent: &Sent) -> bool {
        let is_rtx = usize::from(sent.stream) >= streams;
        self.arrived += u64::from(is_rtx);
        self.again
            .settle(if is_rtx { sent.id } else { sent.sequence });
        is_rtx
    }

    pub fn is_waiting(&self) -> bool {
        self.again.is_waiting()
    }

    pub fn ssrcs(&self) -> impl Iterator<Item = u32> + Clone + '_ {
        self.lines.iter().map(|line| line.rtx.ssrc)
    }

    pub fn stats(&self) -> RtxStats {
        RtxStats {
            requests: *self.again.stats(),
            bytes: self.bytes,
            arrived: self.arrived,
        }
    }
}

impl<C: RateController, Q: Reporter, P: Policy> Sending<C, Q, P> {
    /// The state by which requests for retransmissions are judged.
    pub(super) fn pace(&self, now: Instant) -> Pace {
        let rate = self.sender.rate();
        let round_trip = rate.rtt().or(self.one_way.round_trip());
        let round_trip = round_trip.or(self.stats.rtcp_rtt);
        Pace {
            start: rate.next_send().unwrap_or(now),
            one_way: self.sender.one_way(),
            rate: rate.rate(),
            ahead: self.sender.backlog().bytes,
            round_trip: round_trip.unwrap_or(FIRST_ROUND_TRIP).max(LEAST_ROUND_TRIP),
        }
    }

    /// The receiver misses a packet of `stream`: its number among all, if it is known.
    pub(super) fn ask_again(
        &mut self,
        now: Instant,
        stream: usize,
        sequence: Option<u64>,
        pace: &Pace,
    ) {
        if self.rtx.lines.iter().any(|line| line.stream == stream) {
            self.rtx.again.ask(now, sequence, pace);
        }
    }

    /// Puts the next RTX packet into `out` if no original waits. Gives the time since which it could leave.
    pub(super) fn transmit_again(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Instant> {
        let allowed = self.sender.rate().next_send()?;
        let len = self.rtx.again.peek(now, self.sender.one_way())? + OSN as u32;
        let sequence = self.sender.poll_transmit_extra(now, len)?;
        let copy = self.rtx.again.take(now)?;
        let original = copy.payload;
        let line = &mut self.rtx.lines[original.line];
        let media = &original.media;
        let extensions = Extensions {
            sequence: Some(sequence as u16),
            capture: Some(self.ntp.at(media.captured)),
            playout: Some(copy.datagram.deadline.saturating_since(media.captured)),
        }
        .write();
        RtpPacketBuilder::<&[u8], &[u8]>::new()
            .payload_type(line.rtx.payload_type)
            .marker_bit(media.marker)
            .sequence_number(line.next_rtp)
            .timestamp(original.timestamp)
            .ssrc(line.rtx.ssrc)
            .extension(PROFILE, &extensions)
            .payload(&original.rtp.to_be_bytes())
            .payload(&media.payload)
            .write_into_vec_unchecked(out);
        let sent = Sent {
            sequence,
            id: copy.number,
            at: now,
            stream: (self.lines.len() + original.line) as u8,
            rtp: line.next_rtp,
            bytes: len,
            arrived: false,
            assumed: false,
        };
        self.inbox.on_sent(sent);
        if let Some(recorder) = &mut self.recorder {
            recorder.on_again(copy.number, line.rtx.ssrc, &sent);
        }
        line.next_rtp = line.next_rtp.wrapping_add(1);
        line.packets = line.packets.wrapping_add(1);
        line.bytes += u64::from(len);
        self.rtx.bytes += Bytes::new(len.into());
        self.timer.start(now);
        Some(allowed.max(copy.since))
    }
}
