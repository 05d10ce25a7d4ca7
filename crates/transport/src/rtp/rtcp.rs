// SPDX-License-Identifier: MIT OR Apache-2.0
//! RTCP for both sides (RFC 3550): NTP time, times of reports, CNAME.

use makeway_core::random::Rng;
use makeway_core::units::{Duration, Instant};
use rtcp_types::prelude::{RtcpPacket, RtcpPacketParser, RtcpPacketWriter};
use rtcp_types::{
    Bye, ByeBuilder, Compound, Packet, PayloadFeedback, ReceiverReport, RtcpParseError,
    RtcpWriteError, Sdes, SdesBuilder, SdesChunk, SdesItem, SenderReport, TransportFeedback,
};

/// NTP time, 2^-32 s since 1900 (RFC 3550 §4), as an offset of our own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NtpEpoch(u64);

/// From 1900 to 1970.
const UNIX_EPOCH: u64 = 2_208_988_800;

impl NtpEpoch {
    /// [`Instant::ZERO`] was so long after 1970.
    pub fn since_unix(elapsed: std::time::Duration) -> Self {
        let seconds = elapsed.as_secs().wrapping_add(UNIX_EPOCH);
        let fraction = (u64::from(elapsed.subsec_nanos()) << 32) / 1_000_000_000;
        Self((seconds << 32).wrapping_add(fraction))
    }

    /// NTP time of an instant. It wraps in 2036.
    pub(super) fn at(self, now: Instant) -> u64 {
        let since = (u128::from(now.as_nanos()) << 32) / 1_000_000_000;
        self.0.wrapping_add(since as u64)
    }
}

/// The middle 32 bits, 1/65536 s.
pub(super) fn compact(ntp: u64) -> u32 {
    (ntp >> 16) as u32
}

/// A time in 1/65536 s.
pub(super) fn from_compact(units: u32) -> Duration {
    Duration::from_nanos((u64::from(units) * 1_000_000_000) >> 16)
}

/// The same in the other direction, at most 18 hours.
pub(super) fn to_compact(time: Duration) -> u32 {
    let units = (u128::from(time.as_nanos()) << 16) / 1_000_000_000;
    u32::try_from(units).unwrap_or(u32::MAX)
}

/// Ns from one NTP time to another, at most 68 years; below zero if that one is earlier.
pub(super) fn ntp_between(one: u64, other: u64) -> i64 {
    let units = i128::from(other.wrapping_sub(one) as i64);
    ((units * 1_000_000_000) >> 32) as i64
}

/// Time between reports. Two hosts that send some hundred bytes are far below their share of the bandwidth, so the least
/// interval counts, of 5 s, half of it for the first (RFC 3550 §6.2), at random from 0.5 to 1.5 of it, divided by
/// e - 3/2 (§6.3.1).
#[derive(Clone, Debug)]
pub(super) struct Timer {
    rng: Rng,
    next: Option<Instant>,
}

impl Timer {
    const LEAST: Duration = Duration::from_secs(5);

    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            next: None,
        }
    }

    /// There is something to report on.
    pub fn start(&mut self, now: Instant) {
        if self.next.is_none() {
            self.next = Some(now + self.interval() / 2);
        }
    }

    /// Whether a report is due; the next is planned then.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let due = self.next.is_some_and(|at| at <= now);
        if due {
            self.next = Some(now + self.interval());
        }
        due
    }

    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    fn interval(&mut self) -> Duration {
        // In thousandths: 500 to 1500, and 1218 for e - 3/2.
        let factor = 500 + u64::from(self.rng.below(1001));
        Self::LEAST * factor / 1218
    }
}

/// SDES with the CNAME of all streams (RFC 3550 §6.5.1).
pub(super) fn sdes(ssrcs: impl Iterator<Item = u32>, cname: &str) -> SdesBuilder<'_> {
    ssrcs.fold(Sdes::builder(), |sdes, ssrc| {
        let name = SdesItem::builder(SdesItem::CNAME, cname);
        sdes.add_chunk(SdesChunk::builder(ssrc).add_item(name))
    })
}

/// BYE of all streams (RFC 3550 §6.6).
pub(super) fn bye(ssrcs: impl Iterator<Item = u32>) -> ByeBuilder<'static> {
    ssrcs.fold(Bye::builder(), |bye, ssrc| bye.add_source(ssrc))
}

/// Packets of one datagram that are read; chosen by us.
const MOST_PACKETS: usize = 64;

/// The packets of a datagram that either side reads, when the lengths of all are right. Of others, SDES first, nothing is looked at:
/// rtcp-types 0.3 refuses SDES with two chunks.
pub(super) fn packets(
    mut datagram: &[u8],
) -> Result<impl Iterator<Item = Result<(Packet<'_>, &[u8]), RtcpParseError>>, RtcpParseError> {
    Compound::parse(datagram)?;
    let next = move || {
        let words = u16::from_be_bytes([*datagram.get(2)?, *datagram.get(3)?]);
        let (packet, rest) = datagram.split_at_checked((usize::from(words) + 1) * 4)?;
        datagram = rest;
        Some(packet)
    };
    let read = [
        SenderReport::PACKET_TYPE,
        ReceiverReport::PACKET_TYPE,
        Bye::PACKET_TYPE,
        TransportFeedback::PACKET_TYPE,
        PayloadFeedback::PACKET_TYPE,
    ];
    Ok(std::iter::from_fn(next)
        .take(MOST_PACKETS)
        .filter(move |bytes| read.contains(&bytes[1]))
        .map(|bytes| Ok((Packet::parse(bytes)?, bytes))))
}

/// Appends a packet.
pub(super) fn append(
    out: &mut Vec<u8>,
    packet: &impl RtcpPacketWriter,
) -> Result<(), RtcpWriteError> {
    let start = out.len();
    out.resize(start + packet.calculate_size()?, 0);
    let written = packet.write_into_unchecked(&mut out[start..]);
    out.truncate(start + written);
    Ok(())
}

/// Whether a datagram on a port that RTP and RTCP share is RTCP: payload types 64 to 95 are not used (RFC 5761 §4).
pub(super) fn is_rtcp(datagram: &[u8]) -> bool {
    datagram.get(1).is_some_and(|pt| (192..=223).contains(pt))
}

/// Whether a datagram is RTCP with BYE in it.
pub(super) fn has_bye(datagram: &[u8]) -> bool {
    is_rtcp(datagram)
        && packets(datagram)
            .is_ok_and(|mut packets| packets.any(|one| matches!(one, Ok((Packet::Bye(_), _)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ntp_time_counts_on_from_1900() {
        let epoch = NtpEpoch::since_unix(std::time::Duration::from_millis(500));
        let at = epoch.at(Instant::ZERO + Duration::from_millis(750));
        assert_eq!(at >> 32, UNIX_EPOCH + 1);
        assert_eq!(at as u32, 1 << 30);
        let later = epoch.at(Instant::ZERO + Duration::from_secs(3));
        assert_eq!(ntp_between(at, later), 2_250_000_000);
        assert_eq!(ntp_between(later, at), -2_250_000_000);
        assert_eq!(
            from_compact(compact(later) - compact(at)),
            Duration::from_millis(2250)
        );
        assert_eq!(to_compact(Duration::from_millis(2250)), 2 * 65_536 + 16_384);
    }

    #[test]
    fn reports_keep_the_mean_interval_of_the_rfc() {
        let mut timer = Timer::new(7);
        let mut now = Instant::ZERO;
        assert!(!timer.is_due(now));
        timer.start(now);
        let first = timer.next().unwrap();
        assert!((1_026..=3_079).contains(&(first.as_nanos() / 1_000_000)));
        now = first;
        for _ in 0..1000 {
            assert!(timer.is_due(now) && !timer.is_due(now));
            now = timer.next().unwrap();
        }
        // 5 s / (e - 3/2) = 4.104 s; uniform on its half to its one and a half: 0.0375 s is one deviation of the mean.
        let mean = (now.as_nanos() - first.as_nanos()) as f64 / 1e12;
        assert!((mean - 4.104).abs() < 0.12, "{mean}");
    }
}
