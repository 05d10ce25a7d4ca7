// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames in the packets of the application's packetiser.

use bytes::Bytes;
use makeway_core::rate::{RateController, Reporter};
use makeway_core::send::{self, ClassStats, Datagram, DatagramId, FrameId, Policy};
use makeway_core::units::Instant;
use thiserror::Error;

use super::{Sending, StreamState, WaitingPacket};

/// A frame in packets that the application's packetiser made (RFC 6184 for H.264, RFC 7741 for VP8): they leave as they are, admitted
/// as a whole ([`send::Sender::enqueue_frame`]).
///
/// Layers, cameras and kinds of frames may share a stream, each with a class of its own. Packets are numbered as they leave, which is
/// the order of the policy: a class that passes another in one stream needs a payload format whose receiver can take frames in that
/// order, or frames that depend on each other, which keep theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketFrame {
    /// Index in [`SendingConfig::streams`](super::SendingConfig::streams).
    pub stream: usize,
    /// RTP time stamp (RFC 3550 §5.1), in units of the stream's clock rate, modulo 2^32; `None`: of `capture`, by the session's clock. The
    /// sender reports follow it, so a stream has it always or never.
    pub rtp_timestamp: Option<u32>,
    /// When the frame was captured, for sender reports and for the extension of that name; `None`: now.
    pub capture: Option<Instant>,
    /// 0 is the most important; `None`: the stream's. One class belongs to one stream, the first that has it.
    pub class: Option<u8>,
    /// When all of it must have arrived.
    pub deadline: Instant,
    /// RTP payloads, each of [`Sending::largest`] bytes at most where IP should not cut it.
    pub packets: Vec<Bytes>,
    /// Whether the last packet has the marker bit: for most video, the last of a picture.
    pub marker: bool,
    /// Frames without which it cannot be decoded, directly.
    pub depends_on: Vec<FrameId>,
}

/// Reason why a frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PacketFrameError {
    /// There is no such stream.
    #[error("stream {stream} of a call with {streams}: the first is stream 0")]
    Stream {
        /// The frame's.
        stream: usize,
        /// How many there are.
        streams: usize,
    },
    /// The class belongs to another stream.
    #[error(
        "class {class} on stream {stream} belongs to stream {of}: give each stream classes of its own"
    )]
    Class {
        /// The frame's.
        class: u8,
        /// The frame's.
        stream: usize,
        /// The stream that had it first.
        of: usize,
    },
    /// The sender does not take it.
    #[error(transparent)]
    Frame(#[from] send::FrameError),
}

impl<C: RateController, Q: Reporter, P: Policy> Sending<C, Q, P> {
    /// Takes a frame in its packets: its number, which others may depend on, and the number of its first packet. Its outcome is an event.
    ///
    /// # Errors
    /// [`PacketFrameError`]; nothing is taken.
    pub fn send_packets(
        &mut self,
        now: Instant,
        frame: &PacketFrame,
    ) -> Result<(FrameId, DatagramId), PacketFrameError> {
        let (stream, streams) = (frame.stream, self.lines.len());
        let line = self.lines.get(stream);
        let line = line.ok_or(PacketFrameError::Stream { stream, streams })?;
        let class = frame.class.unwrap_or(line.stream.class);
        let of = self.lines.iter().position(|line| line.has_class(class));
        if let Some(of) = of.filter(|of| *of != stream) {
            return Err(PacketFrameError::Class { class, stream, of });
        }
        let captured = frame.capture.unwrap_or(now);
        let timestamp = frame.rtp_timestamp;
        let last = frame.packets.len().saturating_sub(1);
        let parts = frame.packets.iter().enumerate().map(|(n, payload)| {
            let media = WaitingPacket {
                stream,
                marker: frame.marker && n == last,
                captured,
                since: now,
                timestamp,
                payload: payload.clone(),
            };
            (u32::try_from(payload.len()).unwrap_or(u32::MAX), media)
        });
        let whole = send::Frame {
            class,
            deadline: frame.deadline,
            depends_on: &frame.depends_on,
        };
        let ids = self.sender.enqueue_frame(now, &whole, parts)?;
        for (n, payload) in (ids.1.0..).zip(&frame.packets) {
            let datagram = Datagram {
                class,
                len: u32::try_from(payload.len()).unwrap_or(u32::MAX),
                deadline: frame.deadline,
                frame: None,
            };
            self.record_created(now, stream, DatagramId(n), &datagram);
        }
        self.record_events(now);
        let line = &mut self.lines[stream];
        if of.is_none() {
            line.classes.push(class);
        }
        line.clock = timestamp
            .map(|timestamp| (captured, timestamp))
            .or(line.clock);
        self.stats.streams[stream].packets += frame.packets.len() as u64;
        Ok(ids)
    }

    /// The longest RTP payload that the path carries now, and the configuration allows: for a packetiser.
    pub fn largest(&self) -> usize {
        self.largest
    }

    /// Outcomes of the packets of a stream.
    pub(super) fn outcomes(&self, line: &StreamState) -> ClassStats {
        let mut all = self.sender.stats().class(line.stream.class);
        for class in &line.classes {
            all += self.sender.stats().class(*class);
        }
        all
    }
}

impl StreamState {
    fn has_class(&self, class: u8) -> bool {
        self.stream.class == class || self.classes.contains(&class)
    }
}
