// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts from TCP's headers: packets without data, and retransmitted data.

use etherparse::{IpNumber, LaxIpSlice};

/// A TCP header without options (RFC 9293 §3.1).
const TCP_HEADER: usize = 20;

/// Whether an IP packet is a TCP segment without payload: an acknowledgement, or what opens and ends a connection.
/// Fragments, and packets of which `bytes` is only a beginning, are not taken for one.
pub fn is_control(bytes: &[u8]) -> bool {
    segment(bytes).is_some_and(|(_, data)| data == 0)
}

/// The sequence numbers that a TCP segment takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Behind the last of them.
    pub end: u32,
    /// Whether the segment opens a connection, whose numbers have nothing to do with earlier ones.
    pub opens: bool,
}

impl Sequence {
    /// Sequence numbers of an IP packet; `None` if it takes none, or if [`is_control`] does not look at it.
    pub fn from_ip(bytes: &[u8]) -> Option<Self> {
        const FIN: u8 = 1;
        const SYN: u8 = 2;
        let (header, data) = segment(bytes)?;
        let flags = header[13];
        let length = data as u32 + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        let first = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        (length > 0).then_some(Self {
            end: first.wrapping_add(length),
            opens: flags & SYN != 0,
        })
    }

    /// Whether it goes beyond `seen`: numbers wrap, and the later is less than half of them ahead (RFC 9293 §3.4).
    pub fn is_beyond(self, seen: u32) -> bool {
        (self.end.wrapping_sub(seen) as i32) > 0
    }
}

/// The header of the whole TCP segment in an IP packet, and its bytes of data.
fn segment(bytes: &[u8]) -> Option<(&[u8; TCP_HEADER], usize)> {
    let (ip, _) = LaxIpSlice::from_slice(bytes).ok()?;
    let payload = ip.payload();
    if payload.ip_number != IpNumber::TCP || payload.fragmented || payload.incomplete {
        return None;
    }
    let segment = payload.payload;
    let header = segment.first_chunk::<TCP_HEADER>()?;
    // The data offset, in words of 32 bits.
    let offset = usize::from(header[12] >> 4) * 4;
    let data = segment.len().checked_sub(offset)?;
    (offset >= TCP_HEADER).then_some((header, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet: `offset` words of TCP header, then `payload` bytes.
    fn v4(protocol: u8, offset: u8, payload: usize) -> Vec<u8> {
        let len = 20 + usize::from(offset) * 4 + payload;
        let mut packet = vec![0; len];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        packet[8] = 64;
        packet[9] = protocol;
        packet[32] = offset << 4;
        packet
    }

    fn v6(offset: u8, payload: usize) -> Vec<u8> {
        let len = usize::from(offset) * 4 + payload;
        let mut packet = vec![0; 40 + len];
        packet[0] = 0x60;
        packet[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        packet[6] = 6;
        packet[52] = offset << 4;
        packet
    }

    #[test]
    fn a_segment_without_payload_is_control_with_and_without_options() {
        for offset in [5, 8, 15] {
            for (payload, expected) in [(0, true), (1, false), (100, false)] {
                assert_eq!(is_control(&v4(6, offset, payload)), expected);
                assert_eq!(is_control(&v6(offset, payload)), expected);
            }
        }
        // UDP that looks like it.
        assert!(!is_control(&v4(17, 5, 0)));
    }

    #[test]
    fn sequence_numbers_count_data_syn_and_fin_and_wrap() {
        let sequence = |flags: u8, payload: usize| {
            let mut packet = v4(6, 5, payload);
            packet[24..28].copy_from_slice(&(u32::MAX - 9).to_be_bytes());
            packet[33] = flags;
            Sequence::from_ip(&packet)
        };
        let of = |end, opens| Some(Sequence { end, opens });
        // ACK; SYN; FIN with data; data.
        assert_eq!(sequence(0x10, 0), None);
        assert_eq!(sequence(2, 0), of(u32::MAX - 8, true));
        assert_eq!(sequence(0x11, 5), of(u32::MAX - 3, false));
        assert_eq!(sequence(0x18, 100), of(90, false));
        assert_eq!(Sequence::from_ip(&v4(17, 5, 100)), None);

        let data = sequence(0x18, 100).unwrap();
        assert!(data.is_beyond(u32::MAX - 9) && data.is_beyond(89));
        assert!(!data.is_beyond(90) && !data.is_beyond(91));
    }

    #[test]
    fn padding_behind_the_packet_is_no_payload() {
        let mut padded = v4(6, 5, 0);
        padded.extend([0; 6]);
        assert!(is_control(&padded));
    }

    #[test]
    fn what_is_cut_off_fragmented_or_malformed_is_not_control() {
        let ack = v4(6, 8, 0);
        for cut in 0..ack.len() {
            assert!(!is_control(&ack[..cut]), "{cut}");
        }
        let mut fragment = ack.clone();
        fragment[6] = 0x20;
        assert!(!is_control(&fragment));
        // A header that ends before its least length.
        let mut short = v4(6, 5, 0);
        short.truncate(36);
        short[3] = 36;
        short[32] = 4 << 4;
        assert!(!is_control(&short));
    }
}
