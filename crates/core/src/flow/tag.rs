// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tags in the headers of real packets: 16 bits of which the network makes no use.
//!
//! | packet | where its tag is | no tag |
//! | --- | --- | --- |
//! | atomic IPv4 | identification (RFC 791 §3.1) | 0 |
//! | IPv6 | flow label (RFC 6437), whose upper four bits are 0 | 0: the packet is not labelled |
//! | fragments, IPv4 that may be fragmented, AH over IPv4, what is not IP | it can carry none | |
//!
//! An IPv4 datagram is atomic when it may not be fragmented and is no fragment: then its identification "MUST be
//! ignored" by all who get it (RFC 6864 §4.1). Authentication Headers over IPv4 sign the identification and break when it
//! changes (RFC 4302 §3.3.3.1.1); the flow label they leave out (§3.3.3.1.2).

use crate::packet::Tag;

/// An IPv4 header without options.
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
/// The protocol number of the Authentication Header.
const AH: u8 = 51;

/// Where a packet has room for a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Identification,
    FlowLabel,
}

/// The room in an IP packet of which `bytes` is a beginning.
fn room(bytes: &[u8]) -> Option<Room> {
    match bytes.first()? >> 4 {
        4 => {
            let header: &[u8; IPV4_HEADER] = bytes.first_chunk()?;
            // Reserved, may not be fragmented, more fragments, offset.
            let fragment = u16::from_be_bytes([header[6], header[7]]);
            let is_atomic = fragment & 0x7fff == 0x4000;
            let is_whole = header[0] & 0xf >= 5 && header[9] != AH;
            (is_atomic && is_whole).then_some(Room::Identification)
        }
        6 if bytes.len() >= IPV6_HEADER => Some(Room::FlowLabel),
        _ => None,
    }
}

/// The tag of an IP packet of which `bytes` is a beginning; `None` if it can carry none.
///
/// A flow label of more than 16 bits is no tag: it says nothing.
pub fn tag(bytes: &[u8]) -> Option<Tag> {
    Some(match room(bytes)? {
        Room::Identification => Tag(u16::from_be_bytes([bytes[4], bytes[5]])),
        Room::FlowLabel => match bytes[1] & 0xf {
            0 => Tag(u16::from_be_bytes([bytes[2], bytes[3]])),
            _ => Tag(0),
        },
    })
}

/// Writes `tag` on an IP packet of which `bytes` is a beginning, and mends the header's checksum; whether that changed
/// anything. A packet that can carry none stays as it is.
pub fn set_tag(bytes: &mut [u8], tag: Tag) -> bool {
    let Some(room) = room(bytes) else {
        return false;
    };
    let new = tag.0.to_be_bytes();
    match room {
        Room::Identification => {
            let old = u16::from_be_bytes([bytes[4], bytes[5]]);
            let sum = u16::from_be_bytes([bytes[10], bytes[11]]);
            if old == tag.0 {
                return false;
            }
            bytes[4..6].copy_from_slice(&new);
            bytes[10..12].copy_from_slice(&mend(sum, old, tag.0).to_be_bytes());
        }
        Room::FlowLabel => {
            if bytes[1] & 0xf == 0 && bytes[2..4] == new {
                return false;
            }
            bytes[1] &= 0xf0;
            bytes[2..4].copy_from_slice(&new);
        }
    }
    true
}

/// The checksum of a header of which one word was `old` and is `new`: `HC' = ~(~HC + ~m + m')`, RFC 1624 eq. 3.
fn mend(sum: u16, old: u16, new: u16) -> u16 {
    let all = u32::from(!sum) + u32::from(!old) + u32::from(new);
    let folded = (all & 0xffff) + (all >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{Ipv4Header, Ipv6Header, PacketBuilder};
    use proptest::prelude::*;

    /// UDP over IPv4 as another library writes it; it sets "may not be fragmented".
    fn v4(identification: u16, payload: &[u8]) -> Vec<u8> {
        let mut header = Ipv4Header::new(
            0,
            64,
            etherparse::IpNumber::UDP,
            [10, 0, 0, 1],
            [10, 9, 8, 7],
        )
        .expect("short");
        header.identification = identification;
        let mut bytes = vec![0; 28 + payload.len()];
        let builder = PacketBuilder::ip(etherparse::IpHeaders::Ipv4(header, Default::default()));
        builder
            .udp(4000, 5004)
            .write_to_slice(&mut bytes, payload)
            .expect("room");
        bytes
    }

    fn v6(label: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 48 + payload.len()];
        PacketBuilder::ipv6([1; 16], [2; 16], 64)
            .udp(4000, 5004)
            .write_to_slice(&mut bytes, payload)
            .expect("room");
        bytes[1] |= (label >> 16) as u8;
        bytes[2..4].copy_from_slice(&(label as u16).to_be_bytes());
        bytes
    }

    #[test]
    fn what_cannot_carry_a_tag_stays_as_it_is() {
        let atomic = v4(7, &[1, 2, 3]);
        let change = |at: usize, byte: u8| {
            let mut bytes = atomic.clone();
            bytes[at] = byte;
            bytes
        };
        let cannot = [
            Vec::new(),
            // May be fragmented; first fragment; last fragment; AH; a header of four words; another version.
            change(6, 0),
            change(6, 0x60),
            change(7, 1),
            change(9, AH),
            change(0, 0x44),
            change(0, 0x55),
            atomic[..IPV4_HEADER - 1].to_vec(),
            v6(7, &[])[..IPV6_HEADER - 1].to_vec(),
        ];
        for mut bytes in cannot {
            let before = bytes.clone();
            assert_eq!(tag(&bytes), None, "{bytes:x?}");
            assert!(!set_tag(&mut bytes, Tag(9)));
            assert_eq!(bytes, before);
        }
        // The reserved bit says nothing.
        assert_eq!(tag(&change(6, 0xc0)), Some(Tag(7)));
        assert_eq!(tag(&atomic), Some(Tag(7)));
    }

    #[test]
    fn a_flow_label_that_is_no_tag_says_nothing() {
        assert_eq!(tag(&v6(0xffff, &[])), Some(Tag(0xffff)));
        assert_eq!(tag(&v6(0x1_0005, &[])), Some(Tag(0)));
        assert_eq!(tag(&v6(0, &[])), Some(Tag(0)));
    }

    proptest! {
        #[test]
        fn a_tag_reads_back_and_the_checksum_is_the_one_of_another_library(
            before: u16, new: u16, payload: [u8; 8],
        ) {
            let mut bytes = v4(before, &payload);
            prop_assert_eq!(tag(&bytes), Some(Tag(before)));
            prop_assert_eq!(set_tag(&mut bytes, Tag(new)), before != new);
            prop_assert_eq!(tag(&bytes), Some(Tag(new)));
            let (header, _) = Ipv4Header::from_slice(&bytes).expect("IPv4");
            prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
            prop_assert_eq!(&bytes, &v4(new, &payload));
        }

        #[test]
        fn a_checksum_that_was_wrong_stays_wrong(before: u16, new: u16, wrong: u16) {
            let mut bytes = v4(before, &[]);
            let right = u16::from_be_bytes([bytes[10], bytes[11]]);
            // 0 and 0xffff are one number.
            prop_assume!(wrong % 0xffff != right % 0xffff);
            bytes[10..12].copy_from_slice(&wrong.to_be_bytes());
            set_tag(&mut bytes, Tag(new));
            let (header, _) = Ipv4Header::from_slice(&bytes).expect("IPv4");
            prop_assert_ne!(header.header_checksum % 0xffff, header.calc_header_checksum() % 0xffff);
        }

        #[test]
        fn a_label_changes_nothing_else(before in 0u32..1 << 20, new: u16, payload: [u8; 8]) {
            let mut bytes = v6(before, &payload);
            // A traffic class, beside the label.
            bytes[0] |= 0xb;
            bytes[1] |= 0x80;
            let class = Ipv6Header::from_slice(&bytes).expect("IPv6").0.traffic_class;
            prop_assert_eq!(set_tag(&mut bytes, Tag(new)), before != u32::from(new));
            prop_assert_eq!(tag(&bytes), Some(Tag(new)));
            let (header, _) = Ipv6Header::from_slice(&bytes).expect("IPv6");
            prop_assert_eq!(header.flow_label.value(), u32::from(new));
            prop_assert_eq!(header.traffic_class, class);
            prop_assert_eq!(&bytes[4..], &v6(before, &payload)[4..]);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), new: u16) {
            let mut changed = bytes.clone();
            let read = tag(&bytes);
            let has_changed = set_tag(&mut changed, Tag(new));
            prop_assert_eq!(has_changed, changed != bytes);
            prop_assert_eq!(tag(&changed), read.map(|_| Tag(new)));
            prop_assert_eq!(changed.len(), bytes.len());
        }
    }
}
