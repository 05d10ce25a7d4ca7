// SPDX-License-Identifier: MIT OR Apache-2.0
//! The feedback of RFC 8888: for each stream which of its packets came, when, and with which ECN mark.
//!
//! An RTCP packet of type 205 and format 11 (§3.1). Times are offsets before the packet's own time stamp.

use makeway_core::units::Duration;
use thiserror::Error;

/// RTPFB, RFC 4585 §6.1.
const PACKET_TYPE: u8 = 205;
/// CCFB, RFC 8888 §3.1.
pub(super) const FORMAT: u8 = 11;
/// The bit that says that the last byte counts padding (RFC 3550 §6.4.1).
const PADDING: u8 = 0x20;
/// Header, SSRC of the sender of the report, time stamp.
const LEAST: usize = 12;
/// The most packets that a block speaks of (§3.1).
const MOST_REPORTS: usize = 16_384;
/// An arrival time offset of this value or more (§3.1).
const OVER_RANGE: u16 = 0x1ffe;
/// There is no arrival time, or it lies after the time stamp (§3.1).
const NOT_AVAILABLE: u16 = 0x1fff;

/// Why an RTCP packet is no feedback of RFC 8888.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum CcfbError {
    #[error("is not of type 205, format 11")]
    OtherType,
    #[error("ends inside of a block")]
    Truncated,
    #[error("has a block of more than 16384 packets")]
    TooMany,
}

/// Report on one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    Lost,
    Received {
        /// The two bits of ECN; 3 is CE.
        ecn: u8,
        /// In 1/1024 s before the report; `None` where the receiver has no time.
        offset: Option<u16>,
    },
}

/// A checked report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ccfb<'a> {
    blocks: &'a [u8],
    timestamp: u32,
}

/// Report on one stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block<'a> {
    pub ssrc: u32,
    /// RTP sequence number of the first packet.
    pub begin: u16,
    metrics: &'a [u8],
}

impl<'a> Ccfb<'a> {
    /// Checks a whole RTCP packet of one feedback message.
    pub fn parse(mut packet: &'a [u8]) -> Result<Self, CcfbError> {
        if let [head, .., padding] = *packet
            && head & PADDING != 0
        {
            let end = packet.len().checked_sub(padding.into());
            packet = &packet[..end.ok_or(CcfbError::Truncated)?];
        }
        if packet.len() < LEAST || packet[0] & 0x1f != FORMAT || packet[1] != PACKET_TYPE {
            return Err(CcfbError::OtherType);
        }
        let (blocks, timestamp) = packet[8..].split_last_chunk().ok_or(CcfbError::Truncated)?;
        let ccfb = Self {
            blocks,
            timestamp: u32::from_be_bytes(*timestamp),
        };
        let mut rest = blocks;
        while !rest.is_empty() {
            (_, rest) = block(rest)?;
        }
        Ok(ccfb)
    }

    /// When it was made: the middle 32 bits of NTP time, 1/65536 s.
    pub fn timestamp(&self) -> u32 {
        self.timestamp
    }

    /// Block by block.
    pub fn blocks(&self) -> impl Iterator<Item = Block<'a>> + use<'a> {
        let mut rest = self.blocks;
        std::iter::from_fn(move || {
            let (one, after) = block(rest).ok()?;
            rest = after;
            Some(one)
        })
    }
}

impl Block<'_> {
    /// Packet by packet, from `begin`.
    pub fn metrics(&self) -> impl Iterator<Item = Metric> + '_ {
        self.metrics.as_chunks().0.iter().map(|&bytes| {
            let word = u16::from_be_bytes(bytes);
            if word & 0x8000 == 0 {
                return Metric::Lost;
            }
            let offset = word & NOT_AVAILABLE;
            Metric::Received {
                ecn: (word >> 13) as u8 & 3,
                offset: (offset != NOT_AVAILABLE).then_some(offset),
            }
        })
    }
}

/// The first block of `bytes`, and the rest.
fn block(bytes: &[u8]) -> Result<(Block<'_>, &[u8]), CcfbError> {
    let (head, rest) = bytes.split_first_chunk::<8>().ok_or(CcfbError::Truncated)?;
    let [a, b, c, d, e, f, g, h] = *head;
    let reports = usize::from(u16::from_be_bytes([g, h]));
    if reports > MOST_REPORTS {
        return Err(CcfbError::TooMany);
    }
    // Two bytes each, padded to four.
    let (padded, after) = rest
        .split_at_checked(reports.next_multiple_of(2) * 2)
        .ok_or(CcfbError::Truncated)?;
    let block = Block {
        ssrc: u32::from_be_bytes([a, b, c, d]),
        begin: u16::from_be_bytes([e, f]),
        metrics: &padded[..reports * 2],
    };
    Ok((block, after))
}

/// The offset of an arrival so long before the report.
pub(super) fn offset(before: Duration) -> u16 {
    let units = u128::from(before.as_nanos()) * 1024 / 1_000_000_000;
    u16::try_from(units).map_or(OVER_RANGE, |units| units.min(OVER_RANGE))
}

/// The time of an offset.
pub(super) fn before(offset: u16) -> Duration {
    Duration::from_nanos(u64::from(offset) * 1_000_000_000 / 1024)
}

/// Writes a report block by block.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Writer<'a> {
    /// A report of the receiver `ssrc`, appended to `out`.
    pub fn new(out: &'a mut Vec<u8>, ssrc: u32) -> Self {
        let start = out.len();
        out.extend([0x80 | FORMAT, PACKET_TYPE, 0, 0]);
        out.extend(ssrc.to_be_bytes());
        Self { out, start }
    }

    /// Adds a block; of more than 16 384 metrics the first. How many they are.
    pub fn block(&mut self, ssrc: u32, begin: u16, metrics: impl Iterator<Item = Metric>) -> u16 {
        self.out.extend(ssrc.to_be_bytes());
        self.out.extend(begin.to_be_bytes());
        let count_at = self.out.len();
        self.out.extend([0, 0]);
        let mut reports = 0_u16;
        for metric in metrics.take(MOST_REPORTS) {
            let word = match metric {
                Metric::Lost => 0,
                Metric::Received { ecn, offset } => {
                    0x8000 | u16::from(ecn & 3) << 13 | offset.unwrap_or(NOT_AVAILABLE)
                }
            };
            self.out.extend(word.to_be_bytes());
            reports += 1;
        }
        if reports % 2 == 1 {
            self.out.extend([0, 0]);
        }
        self.out[count_at..count_at + 2].copy_from_slice(&reports.to_be_bytes());
        reports
    }

    /// Ends it with its time, the middle 32 bits of NTP time.
    pub fn finish(self, timestamp: u32) {
        self.out.extend(timestamp.to_be_bytes());
        let words = (self.out.len() - self.start) / 4 - 1;
        let words = u16::try_from(words).unwrap_or(u16::MAX);
        self.out[self.start + 2..self.start + 4].copy_from_slice(&words.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAME: Metric = Metric::Received {
        ecn: 3,
        offset: Some(1024),
    };

    #[test]
    fn bytes_are_those_of_the_figure() {
        // RFC 8888, the packet of §3.1: one stream, three packets from 0xfffe, the second lost.
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, 0x0a0b_0c0d);
        let unknown = Metric::Received {
            ecn: 0,
            offset: None,
        };
        writer.block(7, 0xfffe, [CAME, Metric::Lost, unknown].into_iter());
        writer.finish(0x0001_8000);
        let written = [
            0x8b, 205, 0, 6, 10, 11, 12, 13, 0, 0, 0, 7, 0xff, 0xfe, 0, 3, 0xe4, 0, 0, 0, 0x9f,
            0xff, 0, 0, 0, 1, 0x80, 0,
        ];
        assert_eq!(bytes, written);
        let report = Ccfb::parse(&bytes).unwrap();
        assert_eq!(report.timestamp(), 0x0001_8000);
        let block = report.blocks().next().unwrap();
        assert_eq!((block.ssrc, block.begin), (7, 0xfffe));
        assert!(block.metrics().eq([CAME, Metric::Lost, unknown]));
    }

    #[test]
    fn offsets_are_in_1024ths_and_stop_at_the_range() {
        assert_eq!(offset(Duration::from_secs(1)), 1024);
        assert_eq!(offset(Duration::from_millis(1)), 1);
        assert_eq!(offset(Duration::from_secs(3600)), OVER_RANGE);
    }

    #[test]
    fn what_is_cut_or_too_long_is_refused() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, 1);
        writer.block(7, 0, [CAME, CAME].into_iter());
        writer.finish(0);
        for cut in (LEAST..bytes.len()).step_by(4).filter(|&cut| cut != 12) {
            assert!(Ccfb::parse(&bytes[..cut]).is_err(), "{cut}");
        }
        bytes[14..16].copy_from_slice(&20_000_u16.to_be_bytes());
        assert_eq!(Ccfb::parse(&bytes).unwrap_err(), CcfbError::TooMany);
        bytes[0] = 0x80 | 15;
        assert_eq!(Ccfb::parse(&bytes).unwrap_err(), CcfbError::OtherType);
    }

    fn metric() -> impl Strategy<Value = Metric> {
        let received = (0u8..4, prop::option::of(0..NOT_AVAILABLE));
        prop_oneof![
            Just(Metric::Lost),
            received.prop_map(|(ecn, offset)| Metric::Received { ecn, offset }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            blocks in prop::collection::vec((any::<u32>(), any::<u16>(), prop::collection::vec(metric(), 0..40)), 0..5),
            timestamp: u32,
        ) {
            let mut bytes = vec![9; 3];
            let mut writer = Writer::new(&mut bytes, 1);
            for (ssrc, begin, metrics) in &blocks {
                writer.block(*ssrc, *begin, metrics.iter().copied());
            }
            writer.finish(timestamp);
            let report = Ccfb::parse(&bytes[3..]).unwrap();
            prop_assert_eq!(report.timestamp(), timestamp);
            let read: Vec<_> = report
                .blocks()
                .map(|b| (b.ssrc, b.begin, b.metrics().collect::<Vec<_>>()))
                .collect();
            prop_assert_eq!(read, blocks);
        }

        #[test]
        fn any_bytes_can_be_read(mut bytes in prop::collection::vec(any::<u8>(), 12..200)) {
            bytes[0] = 0x80 | FORMAT;
            bytes[1] = PACKET_TYPE;
            if let Ok(report) = Ccfb::parse(&bytes) {
                let metrics: usize = report.blocks().map(|b| b.metrics().count()).sum();
                prop_assert!(metrics * 2 <= bytes.len());
            }
        }
    }
}
