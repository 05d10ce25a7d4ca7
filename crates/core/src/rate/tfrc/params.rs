// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters of TFRC.

use crate::param::{Choice, Optional, Ranged, Slot, Visitor, flag};
use crate::rate::Start;
use crate::units::Duration;
use alloc::format;
use alloc::string::String;
use alloc::string::ToString;

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
#[non_exhaustive]
pub enum SegmentSize {
    /// The largest segment. Each packet counts as one, however long it is.
    Largest,
    /// The mean of about this number of packets, at least 1, exponentially weighted; of all, until they are as many, but for
    /// [`Revision::Rfc4342`].
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
    /// RTT with which the sender begins its estimate, 1 ms to 10 s: it sends a packet in each, and the first sample is averaged with it. `None`:
    /// the first sample is the estimate, as the RFCs have it.
    pub first_rtt: Option<Duration>,
    /// The least time of the nofeedback timer. RFC 5348 has none: its receivers report each RTT. Where they report by the clock, as RTP's do,
    /// four of those intervals; Linux has 100 ms for RTTs below its timers.
    pub least_timeout: Duration,
    /// Packets whose departures the sender remembers at first, at least 1: more at high rates ([`SentLog`](crate::rate::sent::SentLog)).
    /// Feedback on older ones is refused.
    pub remembered: u32,
    /// Knowledge of the path.
    pub start: Option<Start>,
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
            first_rtt: None,
            least_timeout: Duration::ZERO,
            remembered: 4096,
            start: None,
        }
    }
}

/// The parameter `preset`: it changes all others, so it comes first.
struct Preset<'a>(&'a mut TfrcParams);

impl Slot for Preset<'_> {
    fn set(&mut self, text: &str) -> bool {
        let largest = self.0.largest;
        let preset = (text == "linux").then(TfrcParams::linux);
        preset
            .map(|preset| *self.0 = TfrcParams { largest, ..preset })
            .is_some()
    }

    fn shown(&self) -> String {
        String::new()
    }

    fn allowed(&self) -> String {
        "linux".into()
    }

    fn is_allowed(&self) -> bool {
        true
    }
}

impl Slot for SegmentSize {
    fn set(&mut self, text: &str) -> bool {
        if text == "largest" {
            *self = Self::Largest;
            return true;
        }
        let mut packets = 1;
        let is_set = Ranged(&mut packets, Self::MEAN).set(text);
        if is_set {
            *self = Self::Mean(packets);
        }
        is_set
    }

    fn shown(&self) -> String {
        match self {
            Self::Largest => "largest".into(),
            Self::Mean(packets) => packets.to_string(),
        }
    }

    fn allowed(&self) -> String {
        format!("{}, or largest", Ranged(&mut 1, Self::MEAN).allowed())
    }

    fn is_allowed(&self) -> bool {
        !matches!(self, Self::Mean(packets) if !Self::MEAN.contains(packets))
    }
}

impl SegmentSize {
    /// Packets of which it may be the mean.
    const MEAN: core::ops::RangeInclusive<u32> = 1..=100_000;
}

impl TfrcParams {
    /// Shows the parameters to `visit`.
    #[rustfmt::skip]
    pub(in crate::rate) fn fields(&mut self, visit: &mut Visitor<'_>) {
        let revisions = &[("3448", Revision::Rfc3448), ("4342", Revision::Rfc4342), ("5348", Revision::Rfc5348)];
        let granularity = Duration::ZERO..=Duration::from_secs(1);
        let first_rtt = Duration::from_millis(1)..=Duration::from_secs(10);
        visit("preset", "all parameters as in Linux's CCID 3, unless given", &mut Preset(self));
        visit("rfc", "RFC whose rules the sender follows", &mut Choice(&mut self.revision, revisions));
        visit("segment", "segment size: the mean of about this number of packets, or the largest packet", &mut self.segment);
        visit("damping", "the rate falls as the RTT rises (RFC 5348 section 4.5)", &mut flag(&mut self.damping));
        visit("discounting", "old loss intervals count less in a long one (RFC 5348 section 5.5)", &mut flag(&mut self.discounting));
        visit("credit", "unused send times of up to one RTT are used later (RFC 5348 section 4.6)", &mut flag(&mut self.credit));
        visit("faster_restart", "after a pause the rate may quadruple in an RTT", &mut flag(&mut self.faster_restart));
        visit("granularity", "resolution of the sender's timer", &mut Ranged(&mut self.granularity, granularity));
        visit("first_rtt", "RTT with which the estimate begins; none: with the first sample", &mut Optional(&mut self.first_rtt, first_rtt));
    }

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
