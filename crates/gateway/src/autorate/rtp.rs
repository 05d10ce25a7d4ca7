// SPDX-License-Identifier: MIT OR Apache-2.0
//! RTP (RFC 3550) and its receivers' reports on each packet, as far as they tell of delay: TWCC
//! (draft-holmer-rmcat-transport-wide-cc-extensions-01) and RFC 8888. Reads any bytes; no clock, no socket.

use std::ops::RangeInclusive;

/// Header extensions in the one-byte form have the numbers 1 to 14 (RFC 8285 §4.2).
pub const ELEMENTS: usize = 15;
/// Packets that one report of TWCC may speak of: two bytes say 8191 times the same. Chosen by us.
const MOST_STATUSES: usize = 2048;
/// Time after which the receiver's clock begins again, in ns: TWCC has 24 bits of 64 ms, RFC 8888 16 bits of seconds.
pub const TWCC_WRAPS: i64 = REFERENCE << 24;
pub const CCFB_WRAPS: i64 = SECOND << 16;

const SECOND: i64 = 1_000_000_000;
/// Units of TWCC's reference time, and of its deltas, in ns.
const REFERENCE: i64 = 64_000_000;
const DELTA: i64 = 250_000;
/// Bits of a metric of RFC 8888: received, and the time before the report in 1/1024 s, from the last value on without a time.
const RECEIVED: u16 = 0x8000;
const OFFSET: u16 = 0x1fff;
const OVER_RANGE: u16 = 0x1ffe;
/// The version of RTP and RTCP, in the two highest bits.
const VERSION: u8 = 2;
const PADDING: u8 = 0x20;
const EXTENSION: u8 = 0x10;
/// Second bytes of RTCP on a port that it shares with RTP (RFC 5761 §4).
const RTCP: RangeInclusive<u8> = 192..=223;
const ONE_BYTE: u16 = 0xbede;
const TRANSPORT_FEEDBACK: u8 = 205;
const TWCC: u8 = 15;
const CCFB: u8 = 11;

/// A packet of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    pub ssrc: u32,
    /// Its number in its stream.
    pub number: u16,
    /// Values of its header extensions of two bytes, by their numbers.
    pub elements: [Option<u16>; ELEMENTS],
}

/// A report on each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report<'a> {
    /// By transport-wide numbers: [`twcc`] reads `body`.
    Twcc { ssrc: u32, body: &'a [u8] },
    /// By streams and their numbers: [`blocks`] reads it.
    Ccfb { blocks: &'a [u8], stamp: u32 },
}

/// Arrivals of consecutive packets, in ns of the receiver's clock; `None`: not arrived, or at an unknown time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// Number of the first.
    pub first: u16,
    pub at: Vec<Option<i64>>,
}

/// Reads a packet of media that may be cut behind its header.
pub fn packet(bytes: &[u8]) -> Option<Packet> {
    let (head, rest) = bytes.split_first_chunk::<12>()?;
    if head[0] >> 6 != VERSION || RTCP.contains(&head[1]) {
        return None;
    }
    let sources = usize::from(head[0] & 15) * 4;
    let extension = rest.get(sources..).filter(|_| head[0] & EXTENSION != 0);
    Some(Packet {
        ssrc: u32::from_be_bytes([head[8], head[9], head[10], head[11]]),
        number: u16::from_be_bytes([head[2], head[3]]),
        elements: extension.map_or([None; ELEMENTS], elements),
    })
}

/// Header extensions of two bytes.
fn elements(bytes: &[u8]) -> [Option<u16>; ELEMENTS] {
    let mut found = [None; ELEMENTS];
    let Some((&[a, b, c, d], rest)) = bytes.split_first_chunk::<4>() else {
        return found;
    };
    if u16::from_be_bytes([a, b]) != ONE_BYTE {
        return found;
    }
    let words = usize::from(u16::from_be_bytes([c, d]));
    let mut data = &rest[..rest.len().min(words * 4)];
    while let Some((&head, after)) = data.split_first() {
        data = after;
        let number = usize::from(head >> 4);
        match number {
            // A byte of padding.
            0 => continue,
            15 => break,
            _ => {}
        }
        let Some((value, after)) = data.split_at_checked(usize::from(head & 15) + 1) else {
            break;
        };
        data = after;
        if let [a, b] = *value {
            found[number] = Some(u16::from_be_bytes([a, b]));
        }
    }
    found
}

/// Reports in a datagram of RTCP, until its end or a packet that is none.
pub fn reports(datagram: &[u8]) -> impl Iterator<Item = Report<'_>> {
    let mut rest = datagram;
    let packets = std::iter::from_fn(move || {
        let (&[head, _, a, b], _) = rest.split_first_chunk::<4>()?;
        let words = usize::from(u16::from_be_bytes([a, b])) + 1;
        let (packet, after) = rest.split_at_checked(words * 4)?;
        rest = after;
        (head >> 6 == VERSION).then_some(packet)
    });
    packets.filter_map(report)
}

fn report(packet: &[u8]) -> Option<Report<'_>> {
    let (&[head, kind, _, _], _) = packet.split_first_chunk::<4>()?;
    if kind != TRANSPORT_FEEDBACK {
        return None;
    }
    let padding = packet.last().filter(|_| head & PADDING != 0);
    let end = packet
        .len()
        .checked_sub(padding.map_or(0, |last| usize::from(*last)))?;
    // Behind the SSRC of the report's sender.
    let rest = packet[..end].get(8..)?;
    match head & 31 {
        TWCC => {
            let (ssrc, body) = rest.split_first_chunk()?;
            Some(Report::Twcc {
                ssrc: u32::from_be_bytes(*ssrc),
                body,
            })
        }
        CCFB => {
            let (blocks, stamp) = rest.split_last_chunk()?;
            Some(Report::Ccfb {
                blocks,
                stamp: u32::from_be_bytes(*stamp),
            })
        }
        _ => None,
    }
}

/// Reads the body of a report of TWCC, whole or not at all.
pub fn twcc(body: &[u8]) -> Option<Arrivals> {
    let (&[a, b, c, d, e, f, g, _], mut rest) = body.split_first_chunk::<8>()?;
    let count = usize::from(u16::from_be_bytes([c, d]));
    if count > MOST_STATUSES {
        return None;
    }
    let mut symbols: Vec<u16> = Vec::with_capacity(count);
    while symbols.len() < count {
        let (chunk, after) = rest.split_first_chunk()?;
        rest = after;
        let chunk = u16::from_be_bytes(*chunk);
        match chunk >> 14 {
            2 => symbols.extend((0..14).rev().map(|n| chunk >> n & 1)),
            3 => symbols.extend((0..7).rev().map(|n| chunk >> (2 * n) & 3)),
            _ => {
                let run = usize::from(chunk & 0x1fff).min(count - symbols.len());
                symbols.extend(std::iter::repeat_n(chunk >> 13, run));
            }
        }
    }
    // Of the last chunk there may be more.
    symbols.truncate(count);
    let mut now = i64::from(u32::from_be_bytes([0, e, f, g])) * REFERENCE;
    let mut at = Vec::with_capacity(count);
    for symbol in symbols {
        let delta = match symbol {
            1 => {
                let (&delta, after) = rest.split_first()?;
                rest = after;
                i64::from(delta)
            }
            2 => {
                let (delta, after) = rest.split_first_chunk()?;
                rest = after;
                i64::from(i16::from_be_bytes(*delta))
            }
            _ => {
                at.push(None);
                continue;
            }
        };
        now += delta * DELTA;
        at.push(Some(now));
    }
    Some(Arrivals {
        first: u16::from_be_bytes([a, b]),
        at,
    })
}

/// Reads the blocks of a report of RFC 8888 (§3.1): each is of the stream with this SSRC.
pub fn blocks(blocks: &[u8], stamp: u32) -> impl Iterator<Item = (u32, Arrivals)> {
    let made = (i64::from(stamp) * SECOND) >> 16;
    let mut rest = blocks;
    std::iter::from_fn(move || {
        let (&[a, b, c, d, e, f, g, h], after) = rest.split_first_chunk::<8>()?;
        let count = usize::from(u16::from_be_bytes([g, h]));
        // Two bytes each, padded to four.
        let (metrics, after) = after.split_at_checked(count.next_multiple_of(2) * 2)?;
        rest = after;
        let metrics = metrics.as_chunks().0.iter().take(count);
        let at = metrics.map(|bytes| {
            let word = u16::from_be_bytes(*bytes);
            let offset = word & OFFSET;
            let is_known = word & RECEIVED != 0 && offset < OVER_RANGE;
            is_known.then(|| made - i64::from(offset) * SECOND / 1024)
        });
        let arrivals = Arrivals {
            first: u16::from_be_bytes([e, f]),
            at: at.collect(),
        };
        Some((u32::from_be_bytes([a, b, c, d]), arrivals))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn media_has_its_stream_its_number_and_elements_of_two_bytes() {
        let mut bytes = vec![0x91, 96, 1, 2, 0, 0, 0, 0, 0xaa, 0xbb, 0xcc, 0xdd];
        // A contributing source; padding, number 7 of one byte, number 3 of two, the end, and what must not be read.
        bytes.extend([9, 9, 9, 9, 0xbe, 0xde, 0, 3]);
        bytes.extend([
            0, 0x70, 9, 0x31, 0x12, 0x34, 0xf0, 0, 0x51, 1, 1, 0, 0x61, 2, 2,
        ]);
        let found = packet(&bytes).unwrap();
        assert_eq!((found.ssrc, found.number), (0xaabb_ccdd, 0x0102));
        let mut elements = [None; ELEMENTS];
        elements[3] = Some(0x1234);
        assert_eq!(found.elements, elements);
        // Cut, it has fewer elements; without its header it is none, nor is RTCP.
        for cut in 0..bytes.len() {
            assert_eq!(packet(&bytes[..cut]).is_some(), cut >= 12, "{cut}");
        }
        bytes[1] = 200;
        assert_eq!(packet(&bytes), None);
    }

    /// A report of TWCC behind a receiver report, and one of RFC 8888 behind both.
    fn datagram() -> Vec<u8> {
        let mut bytes = vec![0x80, 201, 0, 1, 0, 0, 0, 9];
        bytes.extend([0x8f, 205, 0, 8, 0, 0, 0, 9, 0, 0, 0, 5]);
        // From 0x0102 on 16 packets, after 2 * 64 ms.
        bytes.extend([1, 2, 0, 16, 0, 0, 2, 7]);
        // Three by small deltas, two that did not arrive; seven by two bits each; four of fourteen by one bit each.
        bytes.extend([0x20, 3, 0, 2, 0xe1, 0, 0x98, 0]);
        bytes.extend([4, 8, 0, 0xff, 0xfc, 40, 1, 2]);
        bytes.extend([0x8b, 205, 0, 6, 0, 0, 0, 9]);
        // Stream 6 from 0xffff on: 1/1024 s before the report, not arrived, at an unknown time.
        bytes.extend([0, 0, 0, 6, 0xff, 0xff, 0, 3]);
        bytes.extend([0x80, 1, 0, 0, 0x9f, 0xff, 0, 0]);
        bytes.extend([0, 3, 0x80, 0]);
        bytes
    }

    #[test]
    fn reports_of_both_kinds_are_read_as_their_drafts_have_them() {
        let bytes = datagram();
        let all: Vec<_> = reports(&bytes).collect();
        let [
            Report::Twcc { ssrc: 5, body },
            Report::Ccfb {
                blocks: of_streams,
                stamp,
            },
        ] = all[..]
        else {
            panic!("{all:?}");
        };
        let us = |us: i64| Some(us * MS / 1000);
        let mut at = vec![us(129_000), us(131_000), us(131_000), None, None];
        at.extend([us(130_000), None, us(140_000), None, None, None, None]);
        at.extend([None, us(140_250), us(140_750), None]);
        assert_eq!(twcc(body), Some(Arrivals { first: 0x0102, at }));
        let read: Vec<_> = blocks(of_streams, stamp).collect();
        let at = vec![Some(3500 * MS - SECOND / 1024), None, None];
        assert_eq!(read, [(6, Arrivals { first: 0xffff, at })]);
    }

    #[test]
    fn a_report_that_is_cut_or_too_long_is_none() {
        let bytes = datagram();
        // Up to the end of TWCC's there is no report, and then one until both are whole.
        for cut in 0..bytes.len() {
            assert_eq!(
                reports(&bytes[..cut]).count(),
                usize::from(cut >= 44),
                "{cut}"
            );
        }
        let Some(Report::Twcc { body, .. }) = reports(&bytes).next() else {
            panic!("no TWCC");
        };
        for cut in 0..body.len() {
            assert_eq!(twcc(&body[..cut]), None, "{cut}");
        }
        // One chunk says all that may be said, and not one more.
        for (count, is_read) in [(MOST_STATUSES, true), (MOST_STATUSES + 1, false)] {
            let [a, b] = (count as u16).to_be_bytes();
            let body = [0, 0, a, b, 0, 0, 0, 0, a, b];
            assert_eq!(twcc(&body).is_some(), is_read, "{count}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes: Vec<u8>, stamp: u32) {
            let _ = packet(&bytes);
            prop_assert!(reports(&bytes).count() <= bytes.len() / 4);
            if let Some(arrivals) = twcc(&bytes) {
                prop_assert!(arrivals.at.len() <= MOST_STATUSES);
            }
            let told: usize = blocks(&bytes, stamp).map(|(_, one)| one.at.len()).sum();
            prop_assert!(told <= bytes.len() / 2);
        }
    }
}
