// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configuration of a sending session, and its faults.

use makeway_core::param::Refusal;
use makeway_core::send;
use thiserror::Error;

use crate::rtp::rtcp::NtpEpoch;
use crate::rtp::rtx::{Rtx, RtxConfig};

/// One RTP stream of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// SSRC: different for each stream (RFC 3550 §3).
    pub ssrc: u32,
    /// 0 to 127, but not 64 to 95 (RFC 5761 §4).
    pub payload_type: u8,
    /// RTP clock rate in Hz.
    pub clock_rate: u32,
    /// Class of its datagrams; 0 is the most important.
    pub class: u8,
}

/// Configuration of a [`Sending`](super::Sending) session, beside its controller and its policy.
#[derive(Clone, Debug)]
pub struct SendingConfig {
    /// 1 to 31, as many as one SDES names (RFC 3550 §6.5); each has a class of its own.
    pub streams: Vec<Stream>,
    /// Bounds of the queue. `largest` is the longest RTP payload, 1400 by default: with headers and extensions it is 1460
    /// bytes over IPv4.
    pub queue: send::Config,
    /// Canonical name, `user@host`, at most 255 bytes (RFC 3550 §6.5.1).
    pub cname: String,
    /// Retransmission; the default sends nothing again.
    pub rtx: RtxConfig,
    /// NTP time of [`Instant::ZERO`](makeway_core::units::Instant::ZERO).
    pub ntp: NtpEpoch,
    /// Seed of first sequence numbers, first time stamps and RTCP's intervals.
    pub seed: u64,
}

/// Reason why a configuration is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// There are none, or too many.
    #[error("a call has 1 to 31 streams, RTX streams included, not {0}")]
    Streams(usize),
    /// Two streams have the same SSRC or class, or an RTX stream has a payload type of another use.
    #[error("two streams have the {0} {1}")]
    Twice(&'static str, u32),
    /// A payload type that RTP cannot have beside RTCP.
    #[error("payload type {0} is not one of 0 to 63 and 96 to 127")]
    PayloadType(u8),
    /// An RTX stream of an original stream that is none.
    #[error(
        "an RTX stream of the SSRC {media_ssrc:#010x} with payload type {media_payload_type}: name a stream of the call and its payload type"
    )]
    RtxStream {
        /// SSRC of its original stream.
        media_ssrc: u32,
        /// Payload type of that.
        media_payload_type: u8,
    },
    /// A name that SDES cannot carry.
    #[error("a CNAME of {0} bytes: 255 at most, like user@host")]
    Cname(usize),
    /// A clock without ticks.
    #[error("a clock rate of 0: write ticks per second, as 48000 or 90000")]
    ClockRate,
    /// A parameter of the rate controller.
    #[error(transparent)]
    Rate(#[from] Refusal),
}

impl SendingConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let streams = self.streams.len() + self.rtx.streams.len();
        if self.streams.is_empty() || streams > 31 {
            return Err(ConfigError::Streams(streams));
        }
        if self.cname.len() > 255 {
            return Err(ConfigError::Cname(self.cname.len()));
        }
        for (n, stream) in self.streams.iter().enumerate() {
            if !matches!(stream.payload_type, 0..=63 | 96..=127) {
                return Err(ConfigError::PayloadType(stream.payload_type));
            }
            if stream.clock_rate == 0 {
                return Err(ConfigError::ClockRate);
            }
            for other in &self.streams[..n] {
                if other.ssrc == stream.ssrc {
                    return Err(ConfigError::Twice("SSRC", stream.ssrc));
                }
                if other.class == stream.class {
                    return Err(ConfigError::Twice("class", stream.class.into()));
                }
            }
        }
        let mut rtx = self.rtx.streams.iter().enumerate();
        rtx.try_for_each(|(n, rtx)| self.check_rtx(rtx, &self.rtx.streams[..n]))
    }

    /// One RTX stream, behind the `others`.
    fn check_rtx(&self, rtx: &Rtx, others: &[Rtx]) -> Result<(), ConfigError> {
        let of = (rtx.media_ssrc, rtx.media_payload_type);
        let mut streams = self.streams.iter();
        if !streams.any(|stream| (stream.ssrc, stream.payload_type) == of) {
            return Err(ConfigError::RtxStream {
                media_ssrc: rtx.media_ssrc,
                media_payload_type: rtx.media_payload_type,
            });
        }
        if !matches!(rtx.payload_type, 0..=63 | 96..=127) {
            return Err(ConfigError::PayloadType(rtx.payload_type));
        }
        let same = |a: u32, b: u32, what| match a == b {
            true => Err(ConfigError::Twice(what, a)),
            false => Ok(()),
        };
        for stream in &self.streams {
            same(rtx.ssrc, stream.ssrc, "SSRC")?;
            let (ours, theirs) = (rtx.payload_type, stream.payload_type);
            same(ours.into(), theirs.into(), "payload type")?;
        }
        for other in others {
            same(rtx.ssrc, other.ssrc, "SSRC")?;
            same(rtx.media_ssrc, other.media_ssrc, "original SSRC")?;
            // One payload type has one `apt` (RFC 4588 §8.6).
            if rtx.media_payload_type != other.media_payload_type {
                let (ours, theirs) = (rtx.payload_type, other.payload_type);
                same(ours.into(), theirs.into(), "payload type")?;
            }
        }
        Ok(())
    }
}
