// SPDX-License-Identifier: MIT OR Apache-2.0
//! MPEG-2 video over RTP (RFC 2250 section 3): an elementary stream cut in pictures and packets,
//! and put together again from the packets that arrived.

/// Bytes of the MPEG video-specific header that opens each payload (RFC 2250 section 3.4).
const HEADER: usize = 4;

/// A coded picture with the packets that carry it, in coding order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Place in display order, from 0.
    pub display: u32,
    /// `I`, `P`, `B` (`D` is not used in MPEG-2).
    pub kind: char,
    /// RTP payloads, none larger than was asked for.
    pub packets: Vec<Vec<u8>>,
}

/// Why a stream could not be cut.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// No picture start code was found.
    #[error("the clip holds no MPEG-2 picture: make it with `-c:v mpeg2video -f mpeg2video`")]
    NoPicture,
    /// The payload has no room for a header and data.
    #[error("an RTP payload of {0} B is too small: 256 B or more are needed")]
    Payload(usize),
}

/// Cuts an elementary stream in pictures, and each picture in payloads of at most `payload` bytes.
pub fn packetise(stream: &[u8], payload: usize) -> Result<Vec<Picture>, StreamError> {
    if payload < 256 {
        return Err(StreamError::Payload(payload));
    }
    let mut pictures: Vec<Picture> = Vec::new();
    let mut group = 0;
    for unit in picture_units(stream) {
        let Some(header) = find(unit, 0x00) else {
            continue;
        };
        let &[_, _, _, _, a, b, ..] = &unit[header..] else {
            continue;
        };
        if find(&unit[..header], 0xb8).is_some() {
            // ISO 13818-2 6.3.9: temporal_reference starts again after a group header.
            group = pictures.len() as u32;
        }
        let temporal = u16::from(a) << 2 | u16::from(b >> 6);
        let coding = b >> 3 & 7;
        pictures.push(Picture {
            display: group + u32::from(temporal),
            kind: ['?', 'I', 'P', 'B', 'D', '?', '?', '?'][usize::from(coding)],
            packets: payloads(unit, temporal, coding, payload),
        });
    }
    if pictures.is_empty() {
        Err(StreamError::NoPicture)
    } else {
        Ok(pictures)
    }
}

/// A received picture: the data of the packets that arrived, in order.
pub fn depacketise<'a>(packets: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    packets
        .flat_map(|p| p.get(HEADER..).unwrap_or_default().iter().copied())
        .collect()
}

/// The stream cut before each picture, its sequence and group headers included.
fn picture_units(stream: &[u8]) -> Vec<&[u8]> {
    let mut starts = Vec::new();
    let mut after_slice = true;
    for (at, code) in start_codes(stream) {
        if after_slice && !is_slice(code) {
            starts.push(at);
        }
        after_slice = is_slice(code);
    }
    starts.push(stream.len());
    starts.windows(2).map(|w| &stream[w[0]..w[1]]).collect()
}

/// Payloads of one picture. A slice begins a payload or follows whole slices (RFC 2250 section 3.1).
fn payloads(picture: &[u8], temporal: u16, coding: u8, payload: usize) -> Vec<Vec<u8>> {
    let room = payload - HEADER;
    let sequence = find(picture, 0xb3) == Some(0);
    let mut cuts: Vec<usize> = start_codes(picture)
        .filter(|&(_, code)| is_slice(code))
        .map(|(at, _)| at)
        .collect();
    cuts.push(picture.len());

    let mut packets: Vec<Vec<u8>> = Vec::new();
    let mut emit = |from: usize, to: usize, ends_slice: bool| {
        let begins = cuts.binary_search(&from).is_ok() || from == 0;
        let flags = u8::from(from == 0 && sequence) << 5
            | u8::from(begins) << 4
            | u8::from(ends_slice) << 3;
        let mut packet = Vec::with_capacity(HEADER + to - from);
        packet.extend([(temporal >> 8) as u8 & 3, temporal as u8, flags | coding, 0]);
        packet.extend(&picture[from..to]);
        packets.push(packet);
    };
    let mut from = 0;
    let mut filled = 0;
    for &end in &cuts {
        if end - from <= room {
            filled = end;
            continue;
        }
        if filled > from {
            emit(from, filled, true);
            from = filled;
        }
        while end - from > room {
            emit(from, from + room, false);
            from += room;
        }
        filled = end;
        // A fragment's rest travels alone: the next slice must begin a packet.
        if cuts.binary_search(&from).is_err() && from != 0 {
            emit(from, end, true);
            from = end;
        }
    }
    if filled > from {
        emit(from, filled, true);
    }
    packets
}

fn is_slice(code: u8) -> bool {
    (0x01..=0xaf).contains(&code)
}

/// Every start code: its place and its last byte.
fn start_codes(data: &[u8]) -> impl Iterator<Item = (usize, u8)> {
    data.windows(4)
        .enumerate()
        .filter(|(_, w)| w[..3] == [0, 0, 1])
        .map(|(at, w)| (at, w[3]))
}

fn find(data: &[u8], code: u8) -> Option<usize> {
    start_codes(data)
        .find(|&(_, c)| c == code)
        .map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn picture(temporal: u16, coding: u8, group: bool, slices: &[usize]) -> Vec<u8> {
        let mut es = Vec::new();
        if group {
            es.extend([0, 0, 1, 0xb3, 45, 2, 64, 35, 0, 0, 1, 0xb8, 0, 8, 0, 0]);
        }
        es.extend([
            0,
            0,
            1,
            0,
            (temporal >> 2) as u8,
            (temporal << 6) as u8 | coding << 3,
            0xff,
            0xf8,
        ]);
        for (row, &len) in slices.iter().enumerate() {
            es.extend([0, 0, 1, row as u8 + 1]);
            es.extend(std::iter::repeat_n(0x55, len));
        }
        es
    }

    #[test]
    fn pictures_carry_their_display_order() {
        let mut es = picture(0, 1, true, &[100]);
        es.extend(picture(3, 2, false, &[100]));
        es.extend(picture(1, 3, false, &[100]));
        es.extend(picture(2, 3, false, &[100]));
        es.extend(picture(0, 1, true, &[100]));
        let pictures = packetise(&es, 1316).unwrap();
        let seen: Vec<_> = pictures.iter().map(|p| (p.display, p.kind)).collect();
        assert_eq!(seen, [(0, 'I'), (3, 'P'), (1, 'B'), (2, 'B'), (4, 'I')]);
    }

    #[test]
    fn a_slice_after_a_fragment_begins_a_packet() {
        let es = picture(0, 1, true, &[1000, 100]);
        let packets = &packetise(&es, 516).unwrap()[0].packets;
        assert_eq!(packets.last().unwrap()[HEADER..][..4], [0, 0, 1, 2]);
        assert_eq!(
            packets.last().unwrap()[2] & 0x18,
            0x18,
            "begins and ends a slice"
        );
        assert_eq!(packets[0][2] >> 5, 1, "sequence header");
    }

    #[test]
    fn a_stream_without_pictures_is_refused() {
        assert_eq!(packetise(&[0; 100], 1316), Err(StreamError::NoPicture));
    }

    proptest! {
        #[test]
        fn what_is_cut_is_put_together_again(
            slices in prop::collection::vec(0_usize..3000, 1..20),
            payload in 256_usize..1400,
        ) {
            let es = picture(5, 2, true, &slices);
            let pictures = packetise(&es, payload).unwrap();
            prop_assert_eq!(pictures.len(), 1);
            let packets = &pictures[0].packets;
            prop_assert!(packets.iter().all(|p| p.len() <= payload));
            prop_assert_eq!(depacketise(packets.iter().map(Vec::as_slice)), es);
        }

        #[test]
        fn any_bytes_are_cut_without_panic(data in prop::collection::vec(prop::sample::select(vec![0_u8, 0, 1, 1, 2, 0xb3, 0xb8]), 0..400)) {
            if let Ok(pictures) = packetise(&data, 256) {
                prop_assert!(pictures.iter().all(|p| p.packets.iter().all(|b| b.len() <= 256)));
            }
        }
    }
}
