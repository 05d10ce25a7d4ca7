// SPDX-License-Identifier: MIT OR Apache-2.0
//! Retransmission payload format (RFC 4588): the packets of an RTX stream, and the originals in them.
//!
//! SSRC multiplexing (RFC 4588 §5): an RTX stream has an SSRC, a payload type and sequence numbers of its own, and shares the session
//! of its original stream. Its payload is the original sequence number (OSN, 2 bytes) and the original payload; time stamp, marker bit,
//! CSRCs and header extensions are those of the original (§4), but for the transport-wide number, which is the packet's own.

use makeway_core::send::again;
use makeway_core::units::Bytes;
use rtp_types::RtpPacket;
use thiserror::Error;

/// Length of the OSN, RFC 4588 §4.
pub(super) const OSN: usize = 2;

/// An RTX stream and its original: for both sides, as `a=ssrc-group:FID` (RFC 5576 §4.2) and `apt` (RFC 4588 §8.6) signal it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtx {
    /// SSRC of the RTX stream, which no other stream has.
    pub ssrc: u32,
    /// Payload type of the RTX stream, 0 to 127, but not 64 to 95 (RFC 5761 §4); of no original stream.
    pub payload_type: u8,
    /// SSRC of the original stream.
    pub media_ssrc: u32,
    /// Payload type of the original stream (`apt`).
    pub media_payload_type: u8,
}

/// Retransmission at the sender. The default has no streams: nothing is sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtxConfig {
    /// At most one for each stream.
    pub streams: Vec<Rtx>,
    /// Memory of sent packets, each counted as its payload and 256 B; 1 MiB by default, 4 s at 1.5 Mbit/s. The oldest are dropped for new
    /// ones, and each is dropped once its deadline has passed.
    pub bytes: Bytes,
}

impl Default for RtxConfig {
    fn default() -> Self {
        Self {
            streams: Vec::new(),
            bytes: Bytes::new(1 << 20),
        }
    }
}

/// Counters of retransmission at the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RtxStats {
    /// Requests, by what became of them.
    pub requests: again::Stats,
    /// RTX payload sent: payload and OSN.
    pub bytes: Bytes,
    /// RTX packets that were reported as arrived.
    pub arrived: u64,
}

/// Reason why an RTX packet has no original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum RtxError {
    /// It is shorter than its OSN.
    #[error("an RTX payload of {0} bytes: at least 2 have the original sequence number")]
    Short(usize),
    /// The payload type is not that of this RTX stream.
    #[error("an RTX packet of payload type {0}, which was not agreed on for its SSRC")]
    PayloadType(u8),
}

/// The original sequence number of an RTX packet.
pub(super) fn osn(rtx: &Rtx, packet: &RtpPacket<'_>) -> Result<u16, RtxError> {
    if packet.payload_type() != rtx.payload_type {
        return Err(RtxError::PayloadType(packet.payload_type()));
    }
    let payload = packet.payload();
    let osn = payload.first_chunk::<OSN>();
    osn.map(|osn| u16::from_be_bytes(*osn))
        .ok_or(RtxError::Short(payload.len()))
}

/// Puts the original of an RTX packet, `datagram`, into `out`, which it clears.
pub(super) fn restore(
    rtx: &Rtx,
    datagram: &[u8],
    packet: &RtpPacket<'_>,
    out: &mut Vec<u8>,
) -> Result<(), RtxError> {
    let osn = osn(rtx, packet)?;
    out.clear();
    out.extend_from_slice(&datagram[..packet.payload_offset()]);
    out.extend_from_slice(&packet.payload()[OSN..]);
    out[0] &= !0x20; // The padding is left out.
    out[1] = out[1] & 0x80 | rtx.media_payload_type & 0x7f;
    out[2..4].copy_from_slice(&osn.to_be_bytes());
    out[8..12].copy_from_slice(&rtx.media_ssrc.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rtp_types::RtpPacketBuilder;

    const RTX: Rtx = Rtx {
        ssrc: 0x0505_0505,
        payload_type: 97,
        media_ssrc: 0x0b0b_0b0b,
        media_payload_type: 96,
    };

    /// Bytes by hand: marker, a CSRC, an extension of one word, the OSN 0x1234, and two bytes of padding.
    #[test]
    fn the_original_is_restored_from_its_rtx_packet() {
        let packet = [
            0xb1, 0xe1, 0, 7, 1, 2, 3, 4, 5, 5, 5, 5, 9, 9, 9, 9, 0xbe, 0xde, 0, 1, 0x11, 0xaa,
            0xbb, 0, 0x12, 0x34, b'm', b'e', b'd', b'i', b'a', 0, 2,
        ];
        let original = [
            0x91, 0xe0, 0x12, 0x34, 1, 2, 3, 4, 0xb, 0xb, 0xb, 0xb, 9, 9, 9, 9, 0xbe, 0xde, 0, 1,
            0x11, 0xaa, 0xbb, 0, b'm', b'e', b'd', b'i', b'a',
        ];
        let mut out = vec![1; 100];
        let read = RtpPacket::parse(&packet).unwrap();
        restore(&RTX, &packet, &read, &mut out).unwrap();
        assert_eq!(out, original);
    }

    #[test]
    fn an_rtx_packet_without_a_number_or_of_another_type_is_refused() {
        let packet = |payload_type, payload: &[u8]| {
            let builder = RtpPacketBuilder::<&[u8], &[u8]>::new();
            let builder = builder.payload_type(payload_type).ssrc(RTX.ssrc);
            let bytes = builder.payload(payload).write_vec().unwrap();
            osn(&RTX, &RtpPacket::parse(&bytes).unwrap())
        };
        assert_eq!(packet(97, &[]), Err(RtxError::Short(0)));
        assert_eq!(packet(97, &[1]), Err(RtxError::Short(1)));
        assert_eq!(packet(97, &[1, 2]), Ok(0x0102));
        assert_eq!(packet(96, &[1, 2]), Err(RtxError::PayloadType(96)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_original_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 12..200)) {
            bytes[0] = bytes[0] & 0x3f | 0x80;
            bytes[1] = bytes[1] & 0x80 | 97;
            let Ok(packet) = RtpPacket::parse(&bytes) else {
                return Ok(());
            };
            let mut out = Vec::new();
            if restore(&RTX, &bytes, &packet, &mut out).is_ok() {
                let original = RtpPacket::parse(&out).unwrap();
                prop_assert_eq!(original.payload(), &packet.payload()[OSN..]);
                prop_assert_eq!(original.sequence_number().to_be_bytes(), &packet.payload()[..OSN]);
                prop_assert_eq!((original.ssrc(), original.payload_type()), (RTX.media_ssrc, 96));
                prop_assert_eq!(original.extension(), packet.extension());
            }
        }
    }
}
