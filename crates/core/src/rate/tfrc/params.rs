// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters of TFRC.

use crate::units::Duration;

/// Which rules the sender follows where they differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Revision {
    /// RFC 3448 (2003): the rate is at most twice the receive rate, also when the application sent less than it might. One
    /// packet per RTT at first.
    Rfc3448,
    /// RFC 3448 as RFC 4342 (CCID 3, 2006) amends it: the initial window of RFC 3390 per RTT, at first and after a pause. So is
    /// Linux, in all versions that had DCCP.
    Rfc4342,
    /// RFC 5348 (2008): what was received while the sender was limited by its data does not lower the rate.
    #[default]
    Rfc5348,
}

/// The segment size s of the throughput equation (RFC 5348 §4.1, RFC 4342 §5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentSize {
    /// The largest segment. Each packet counts as one, however long it is.
    Largest,
    /// The mean of about this number of packets, at least 1, exponentially weighted.
    Mean(u32),
}

/// Parameters of TFRC's two halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TfrcParams {
    /// Which RFC.
    pub revision: Revision,
    /// After a pause the rate may quadruple in an RTT (draft-ietf-dccp-tfrc-faster-restart-06).
    pub faster_restart: bool,
    /// MSS: the longest payload of a packet, in bytes, at least 1.
    pub largest: u32,
    /// s.
    pub segment: SegmentSize,
    /// The sender lowers its rate as the RTT rises (RFC 5348 §4.5).
    pub damping: bool,
    /// The receiver gives old loss intervals less weight in a long one (RFC 5348 §5.5).
    pub discounting: bool,
    /// The sender makes up for send times that it did not use, of one RTT at most (RFC 5348 §4.6); RFC 3448 says nothing of it.
    pub credit: bool,
    /// How finely the sender's timers run, t_gran (RFC 5348 §8.3): a packet may leave early by half of it.
    pub granularity: Duration,
    /// The least time of the nofeedback timer. RFC 5348 has none: its receivers report each RTT. Where they report by the clock, as RTP's do,
    /// four of those intervals; Linux has 100 ms for RTTs below its timers.
    pub least_timeout: Duration,
    /// Packets whose departures the sender remembers, at least 1; feedback on older ones is refused.
    pub remembered: u32,
}

impl Default for TfrcParams {
    /// RFC 5348 with all that it recommends; segments of 1400 bytes at most, and the mean of about 128 (chosen by us: four
    /// loss intervals at 3 %).
    fn default() -> Self {
        Self {
            revision: Revision::Rfc5348,
            faster_restart: false,
            largest: 1400,
            segment: SegmentSize::Mean(128),
            damping: true,
            discounting: true,
            credit: true,
            granularity: Duration::from_millis(1),
            least_timeout: Duration::ZERO,
            remembered: 4096,
        }
    }
}

impl TfrcParams {
    /// CCID 3 as Linux has it: RFC 4342, the mean of about ten packets, neither damping nor discounting. Its timer has a tick
    /// of 4 ms in most distributions. Linux makes up for unused send times without any limit; here it is one RTT.
    pub fn linux() -> Self {
        Self {
            revision: Revision::Rfc4342,
            segment: SegmentSize::Mean(10),
            damping: false,
            discounting: false,
            granularity: Duration::from_millis(4),
            ..Self::default()
        }
    }

    /// RFC 3448 with all that it recommends. It does not know of credit for unused send times.
    pub fn rfc3448() -> Self {
        Self {
            revision: Revision::Rfc3448,
            credit: false,
            ..Self::default()
        }
    }
}
