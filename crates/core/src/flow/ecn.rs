// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ECN field in the headers of real packets (RFC 3168 §5): the low two bits of IPv4's type of service and IPv6's traffic class.

use crate::packet::Ecn;

/// The ECN field of an IP packet of which `bytes` is a beginning. A packet that is not IP, or too short to tell, understands no marks.
pub fn ecn(bytes: &[u8]) -> Ecn {
    let field = match *bytes {
        [first, second, ..] if first >> 4 == 4 => second,
        [first, second, ..] if first >> 4 == 6 => second >> 4,
        _ => 0,
    };
    match field & 3 {
        0b01 => Ecn::Scalable,
        0b10 => Ecn::Capable,
        0b11 => Ecn::Marked,
        _ => Ecn::NotCapable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_read_from_both_versions() {
        let expected = [Ecn::NotCapable, Ecn::Scalable, Ecn::Capable, Ecn::Marked];
        for (bits, ecn_field) in (0..4).zip(expected) {
            // Beside a DSCP of all ones.
            assert_eq!(ecn(&[0x45, 0xfc | bits, 0, 0]), ecn_field);
            assert_eq!(ecn(&[0x6f, 0xc0 | bits << 4 | 0xf]), ecn_field);
        }
        assert_eq!(ecn(&[]), Ecn::NotCapable);
        assert_eq!(ecn(&[0x45]), Ecn::NotCapable);
        assert_eq!(ecn(&[0x95, 0xff, 0xff]), Ecn::NotCapable);
    }
}
