// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configuration of a sending session, and its faults.

use makeway_core::param::Refusal;
use makeway_core::send;
use thiserror::Error;

use crate::rtp::rtcp::NtpEpoch;

/// One RTP stream of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// SSRC: different for each stream (RFC 3550 §3).
    pub ssrc: u32,
    /// 0 to 127, but not 64 to 95 (RFC 5761 §4).
    pub payload_type: u8,
    /// Of RTP time stamps, in Hz.
    pub clock_rate: u32,
    /// Of its datagrams; 0 is the most important.
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
    /// NTP time of [`Instant::ZERO`](makeway_core::units::Instant::ZERO).
    pub ntp: NtpEpoch,
    /// Of first sequence numbers, first time stamps and RTCP's times.
    pub seed: u64,
}

/// Reason why a configuration is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// There are none, or too many.
    #[error("a call has 1 to 31 streams, not {0}")]
    Streams(usize),
    /// Two streams have the same SSRC or class.
    #[error("two streams have the {0} {1}")]
    Twice(&'static str, u32),
    /// A payload type that RTP cannot have beside RTCP.
    #[error("payload type {0} is not one of 0 to 63 and 96 to 127")]
    PayloadType(u8),
    /// A name that SDES cannot carry.
    #[error("a CNAME of {0} bytes, at most 255 may be")]
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
        if !(1..=31).contains(&self.streams.len()) {
            return Err(ConfigError::Streams(self.streams.len()));
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
        Ok(())
    }
}
