// SPDX-License-Identifier: MIT OR Apache-2.0
//! RTP header extensions in the one-byte form (RFC 8285 §4.2).
//!
//! | number | URI | what |
//! | --- | --- | --- |
//! | 1 | `http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01` | the packet's number among all of the sender's |
//! | 2 | `http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time` | when the sender was given it, NTP time |
//! | 3 | `http://www.webrtc.org/experiments/rtp-hdrext/playout-delay` | within what time of that it must arrive |
//!
//! The numbers are agreed on outside of RTP (in SDP's `a=extmap`). A receiver that knows none of them skips them.

use makeway_core::units::Duration;
use rtp_types::RtpPacket;

/// The profile of one-byte headers.
pub(super) const PROFILE: u16 = 0xBEDE;
const SEQUENCE: u8 = 1;
const CAPTURE: u8 = 2;
const PLAYOUT: u8 = 3;
/// Unit of the playout delay.
const PLAYOUT_UNIT: Duration = Duration::from_millis(10);
/// It has 12 bits.
const PLAYOUT_MOST: u64 = 0xfff;

/// Content of a packet's extensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extensions {
    /// Transport-wide sequence number.
    pub sequence: Option<u16>,
    /// NTP time in 2^-32 s.
    pub capture: Option<u64>,
    /// From capture to the deadline; on the wire in steps of 10 ms up to 40.95 s.
    pub playout: Option<Duration>,
}

impl Extensions {
    /// All three, with 0 for what is not there.
    pub fn write(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[0] = SEQUENCE << 4 | 1;
        bytes[1..3].copy_from_slice(&self.sequence.unwrap_or(0).to_be_bytes());
        bytes[3] = CAPTURE << 4 | 7;
        bytes[4..12].copy_from_slice(&self.capture.unwrap_or(0).to_be_bytes());
        bytes[12] = PLAYOUT << 4 | 2;
        let playout = self.playout.unwrap_or_default().as_nanos();
        let playout = playout.div_ceil(PLAYOUT_UNIT.as_nanos()).min(PLAYOUT_MOST) as u32;
        // The least delay is 0, the largest this; 12 bits each.
        bytes[13..].copy_from_slice(&playout.to_be_bytes()[1..]);
        bytes
    }

    /// Extensions of a packet.
    pub fn of(packet: &RtpPacket<'_>) -> Self {
        let extension = packet.extension();
        extension.map_or_else(Self::default, |(profile, data)| Self::read(profile, data))
    }

    /// The readable elements; those of other numbers and lengths are skipped.
    pub fn read(profile: u16, mut data: &[u8]) -> Self {
        let mut found = Self::default();
        if profile != PROFILE {
            return found;
        }
        while let Some((&head, rest)) = data.split_first() {
            let (number, len) = (head >> 4, usize::from(head & 15) + 1);
            match number {
                0 => {
                    data = rest; // padding
                    continue;
                }
                15 => break, // RFC 8285 §4.2: the end of what can be read
                _ => {}
            }
            let Some((value, after)) = rest.split_at_checked(len) else {
                break;
            };
            data = after;
            match (number, value) {
                (SEQUENCE, &[a, b]) => found.sequence = Some(u16::from_be_bytes([a, b])),
                (CAPTURE, value) if len >= 8 => {
                    found.capture = value.first_chunk().map(|b| u64::from_be_bytes(*b));
                }
                (PLAYOUT, &[_, b, c]) => {
                    let units = u64::from(b & 15) << 8 | u64::from(c);
                    found.playout = Some(PLAYOUT_UNIT * units);
                }
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_are_those_of_the_drafts() {
        let all = Extensions {
            sequence: Some(0x0102),
            capture: Some(0x1122_3344_5566_7788),
            playout: Some(Duration::from_millis(150)),
        };
        let bytes = [
            0x11, 1, 2, 0x27, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x32, 0, 0, 15,
        ];
        assert_eq!(all.write(), bytes);
        assert_eq!(Extensions::read(PROFILE, &bytes), all);
        assert_eq!(Extensions::read(0x1000, &bytes), Extensions::default());
    }

    #[test]
    fn others_and_padding_are_skipped() {
        // One byte of padding, number 7 with 1 byte, then ours; then the end, and what must not be read.
        let bytes = [0, 0x70, 9, 0x11, 0, 5, 0xf0, 0x11, 0, 6];
        assert_eq!(Extensions::read(PROFILE, &bytes).sequence, Some(5));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(sequence: u16, capture: u64, units in 0u64..=PLAYOUT_MOST) {
            let all = Extensions {
                sequence: Some(sequence),
                capture: Some(capture),
                playout: Some(PLAYOUT_UNIT * units),
            };
            prop_assert_eq!(Extensions::read(PROFILE, &all.write()), all);
        }

        #[test]
        fn any_bytes_can_be_read(bytes: Vec<u8>) {
            Extensions::read(PROFILE, &bytes);
        }
    }
}
