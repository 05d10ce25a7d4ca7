// SPDX-License-Identifier: MIT OR Apache-2.0
//! RTP over UDP (RFC 3550), with feedback by TWCC or RFC 8888.
//!
//! [`Call`] sends and [`Receiver`] receives, each on a socket with a thread of its own; [`Sending`] and [`Receiving`] are the same
//! without socket, thread and clock. Both sides use one port for RTP and RTCP (RFC 5761) and send feedback in packets of its own
//! (RFC 5506).

mod call;
mod ccfb;
mod csv;
mod driver;
mod extension;
mod feedback;
mod history;
mod log;
mod misses;
mod one_way;
mod receiver;
mod receiving;
mod rtcp;
mod rtx;
mod sending;

pub use crate::network::Ecn;
pub use call::{Call, CallConfig, CallError, CallStats, tfrc};
pub use csv::{CSV_HEADER, Csv};
pub use feedback::Rejected;
pub use log::{Fate, Packet, Record, State};
pub use makeway_log::{FileLog, Format, Log, Sink};
pub use receiver::{Receiver, ReceiverConfig};
pub use receiving::{FeedbackKind, Received, Receiving, ReceivingConfig};
pub use rtcp::NtpEpoch;
pub use rtp_types::RtpPacket;
pub use rtx::{Rtx, RtxConfig, RtxStats};
pub use sending::{
    ConfigError, Frame, PacketFrame, PacketFrameError, Request, Sending, SendingConfig, Stats,
    Stream, StreamStats,
};

#[cfg(test)]
mod tests;
