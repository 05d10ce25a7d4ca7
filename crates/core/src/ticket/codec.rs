// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tickets in n bits of a packet.
//!
//! Source: section 3.9 of the paper: eight bits say 0 to 255 tickets. The logarithmic scale is ours: over the same
//! range each step is the same part of the value, so that what few tickets are on a packet is said as exactly as
//! many.
//!
//! | bits | least code | linear: step at 2, 20, 200 tickets | logarithmic: any step |
//! | --- | --- | --- | --- |
//! | 4 | 16 tickets; 1.4 | -, 80, 8 % | 41 % |
//! | 8 | 1; 1.02 | 50, 5, 0.5 % | 2.2 % |
//! | 12 | 1/16; 1.001 | 3.1, 0.3, 0.03 % | 0.14 % |
//!
//! Code 0 is no ticket. Both scales end at 256 tickets for each 1000 bytes (linear: a step below).

use super::Tickets;
use crate::packet::Tag;

/// How codes grow with tickets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Scale {
    /// Code `c` of n bits is `256 c / 2^n` tickets: c with the paper's 8 bits.
    Linear,
    /// Code `c` above 0 is `2^(8 c / 2^n)` tickets.
    #[default]
    Logarithmic,
}

/// Meaning of codes: the same at all sources and links of a network.
///
/// ```
/// use makeway_core::packet::Tag;
/// use makeway_core::ticket::{Codec, Scale, Tickets};
///
/// // As in the paper: 8 bits say 0 to 255 tickets.
/// let codec = Codec::new(8, Scale::Linear)?;
/// assert_eq!(codec.encode(Tickets::new(20)), Tag(20));
/// assert_eq!(codec.decode(Tag(20)), Tickets::new(20));
/// assert_eq!(codec.most(), Tag(255));
/// # Ok::<(), makeway_core::ticket::CodecError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec {
    bits: u32,
    scale: Scale,
}

/// A tag cannot have this number of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tags of {0} bits are outside 2 to 16")]
pub struct CodecError(pub u32);

impl Default for Codec {
    /// As many bits as the paper's, 8, but logarithmic: a flow of few tickets on a packet has its share to 1.1 %, and not
    /// to half a ticket (docs/disciplines/tred.md says what that makes).
    fn default() -> Self {
        Self {
            bits: 8,
            scale: Scale::default(),
        }
    }
}

/// Bits before the binary point: 256 tickets are the end of both scales.
const OCTAVES: u32 = 8;
/// One, for the logarithm.
const ONE: u64 = 1 << 32;

impl Codec {
    /// Tags of `bits`.
    ///
    /// # Errors
    /// `bits` outside 2 to 16.
    pub const fn new(bits: u32, scale: Scale) -> Result<Self, CodecError> {
        if bits < 2 || bits > 16 {
            return Err(CodecError(bits));
        }
        Ok(Self { bits, scale })
    }

    /// The largest code.
    pub const fn most(self) -> Tag {
        Tag(((1u32 << self.bits) - 1) as u16)
    }

    /// The code nearest to `tickets`: below the logarithmic scale its least, above either scale its largest,
    /// and 0 for no tickets only.
    pub fn encode(self, tickets: Tickets) -> Tag {
        let steps = u64::from(tickets.scaled());
        if steps == 0 {
            return Tag(0);
        }
        let code = match self.scale {
            Scale::Linear => {
                // 256 << 16 steps are 2^bits codes.
                let shift = OCTAVES + Tickets::BITS - self.bits;
                (steps + (1 << shift >> 1)) >> shift
            }
            Scale::Logarithmic => log2(steps, self.bits),
        };
        Tag(code.clamp(1, self.most().0.into()) as u16)
    }

    /// Tickets of `tag`. A code above the largest, foreign to this network, counts as the largest.
    pub fn decode(self, tag: Tag) -> Tickets {
        let code = u64::from(tag.min(self.most()).0);
        let scaled = match self.scale {
            _ if code == 0 => 0,
            Scale::Linear => code << (OCTAVES + Tickets::BITS - self.bits),
            Scale::Logarithmic => exp2(code, self.bits),
        };
        Tickets::from_scaled(scaled.into())
    }
}

/// `log2(steps / 2^16)` in codes, to the nearest: the digits of a logarithm by squaring.
fn log2(steps: u64, bits: u32) -> u64 {
    let exponent = steps.ilog2();
    if exponent < Tickets::BITS {
        return 0;
    }
    // 1 to 2.
    let mut x = (u128::from(ONE) * u128::from(steps)) >> exponent;
    let mut log = u64::from(exponent - Tickets::BITS);
    // Eight digits more than the code has, so that it is rounded to the nearest.
    let digits = bits + 5;
    for _ in 0..digits {
        x = (x * x) >> 32;
        log <<= 1;
        if x >= 2 * u128::from(ONE) {
            x >>= 1;
            log += 1;
        }
    }
    (log + 128) >> 8
}

/// `2^(8 code / 2^bits)` in steps of 2^-16: a product of the roots of 2 that the digits ask for.
fn exp2(code: u64, bits: u32) -> u64 {
    // 13 digits behind the point, for any number of bits.
    let log = code << (16 - bits);
    let whole = log >> 13;
    let mut root = 2 * ONE;
    let mut x = u128::from(ONE);
    for digit in (0..13).rev() {
        root = (u128::from(root) << 32).isqrt() as u64;
        if log >> digit & 1 == 1 {
            x = (x * u128::from(root)) >> 32;
        }
    }
    ((x << whole) >> (32 - Tickets::BITS)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn codec(bits: u32, scale: Scale) -> Codec {
        Codec::new(bits, scale).unwrap()
    }

    #[test]
    fn eight_linear_bits_are_the_papers() {
        let codec = codec(8, Scale::Linear);
        for n in 0..=255 {
            assert_eq!(codec.encode(Tickets::new(n)), Tag(n));
            assert_eq!(codec.decode(Tag(n)), Tickets::new(n));
        }
        assert_eq!(codec.encode(Tickets::MAX), Tag(255));
        // 9.6 tickets, of which `tickets/s / packets/s` gives any part.
        assert_eq!(codec.encode(Tickets::from_scaled(629_146)), Tag(10));
    }

    #[test]
    fn logarithmic_codes_are_powers_of_two() {
        let codec = codec(8, Scale::Logarithmic);
        for (code, tickets) in [(32, 2), (64, 4), (128, 16), (224, 128)] {
            assert_eq!(codec.decode(Tag(code)), Tickets::new(tickets));
            assert_eq!(codec.encode(Tickets::new(tickets)), Tag(code));
        }
        // 2^(1/32).
        let one_step = codec.decode(Tag(1)).as_f64();
        assert!((one_step - 1.021_897).abs() < 2e-5, "{one_step}");
    }

    #[test]
    fn bits_out_of_range_are_refused_and_codes_out_of_range_read_as_the_largest() {
        for bits in [0, 1, 17] {
            let error = Codec::new(bits, Scale::Linear).unwrap_err().to_string();
            assert!(error.contains(&bits.to_string()), "{error}");
        }
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let codec = codec(4, scale);
            assert_eq!(codec.decode(Tag(16)), codec.decode(Tag(15)));
            assert_eq!(codec.decode(Tag(u16::MAX)), codec.decode(Tag(15)));
        }
    }

    fn any_codec() -> impl Strategy<Value = Codec> {
        let scale = prop_oneof![Just(Scale::Linear), Just(Scale::Logarithmic)];
        (2u32..=16, scale).prop_map(|(bits, scale)| codec(bits, scale))
    }

    proptest! {
        #[test]
        fn the_code_is_the_nearest(codec in any_codec(), scaled in 1u32..1 << 25) {
            let tickets = Tickets::from_scaled(scaled.into());
            let code = codec.encode(tickets);
            prop_assert!(code.0 > 0 && code <= codec.most());
            let x = |t: Tickets| match codec.scale {
                Scale::Linear => t.as_f64(),
                Scale::Logarithmic => t.as_f64().log2(),
            };
            let far = |code: u16| (x(codec.decode(Tag(code))) - x(tickets)).abs();
            let others = [code.0.saturating_sub(1).max(1), code.0.saturating_add(1).min(codec.most().0)];
            for other in others {
                prop_assert!(far(code.0) <= far(other) + 2e-5, "{code:?} {other}");
            }
        }

        #[test]
        fn what_is_said_comes_back(codec in any_codec(), code: u16) {
            let tag = Tag(code).min(codec.most());
            // With most bits the least logarithmic codes are less than a step apart.
            if codec.scale == Scale::Linear || codec.bits <= 12 {
                prop_assert_eq!(codec.encode(codec.decode(tag)), tag);
            }
        }
    }
}
