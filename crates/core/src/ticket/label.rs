// SPDX-License-Identifier: MIT OR Apache-2.0
//! A rate in the 16 bits of a tag: five of exponent and eleven of mantissa, as I. Stoica and H. Zhang keep state in
//! packets (SIGCOMM 1999); within 2^-12 of the rate, from 1 bit/s to 4 Tbit/s. Tag 0 says nothing.

use super::Exponential;
use crate::packet::Tag;

const MANTISSA: u32 = 11;

/// The label nearest to `rate`, of which 0 is that of the least.
pub fn encode(rate: u64) -> Tag {
    let bps = rate.saturating_add(1 << (Exponential::BITS - 1)) >> Exponential::BITS;
    // Below 2^12 codes are whole bit/s.
    let shift = bps.max(1).ilog2().saturating_sub(MANTISSA);
    if shift == 0 {
        return Tag(bps.max(1) as u16);
    }
    let half = 1 << (Exponential::BITS + shift - 1);
    let rounded = rate.saturating_add(half) >> (Exponential::BITS + shift);
    // Rounding up to the next power of two carries into the exponent.
    let code = (u64::from(shift) << MANTISSA) + rounded;
    Tag(code.min(u16::MAX.into()) as u16)
}

/// The rate that a label says, in steps of 2^-16 bit/s.
pub fn decode(label: Tag) -> u64 {
    let code = u64::from(label.0);
    let shift = (code >> MANTISSA).saturating_sub(1);
    let mantissa = code - (shift << MANTISSA);
    mantissa << shift << Exponential::BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_said_comes_back() {
        for code in 1..=u16::MAX {
            assert_eq!(encode(decode(Tag(code))), Tag(code));
        }
        for code in 1..u16::MAX {
            assert!(decode(Tag(code)) < decode(Tag(code + 1)));
        }
    }

    proptest! {
        #[test]
        fn a_label_is_close_to_its_rate(rate in 1u64 << 16..Exponential::MOST) {
            let said = decode(encode(rate)) as f64;
            let rate = rate as f64;
            // Half of a bit/s where that is more.
            prop_assert!((said - rate).abs() <= (rate / 4096.0).max(32_768.0), "{said} {rate}");
        }
    }
}
