//! Packets that carry no data of their own.

use etherparse::{IpNumber, LaxIpSlice};

/// A TCP header without options (RFC 9293 §3.1).
const TCP_HEADER: usize = 20;

/// Whether an IP packet is a TCP segment without payload: an acknowledgement, or what opens and ends a connection.
/// Fragments, and packets of which `bytes` is only a beginning, are not taken for one.
pub fn is_control(bytes: &[u8]) -> bool {
    let Ok((ip, _)) = LaxIpSlice::from_slice(bytes) else {
        return false;
    };
    let payload = ip.payload();
    if payload.ip_number != IpNumber::TCP || payload.fragmented || payload.incomplete {
        return false;
    }
    let segment = payload.payload;
    // The data offset, in words of 32 bits.
    let offset = segment.get(12).map(|byte| usize::from(byte >> 4) * 4);
    segment.len() >= TCP_HEADER && offset == Some(segment.len())
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
