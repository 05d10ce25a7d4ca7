// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequence numbers of 48 bits that wrap (RFC 4340 §3.1, §7).

/// A sequence or acknowledgement number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seq(u64);

impl Seq {
    const BITS: u32 = 48;
    const SHORT_BITS: u32 = 24;

    /// The low 48 bits of `number`.
    pub const fn new(number: u64) -> Self {
        Self(number & ((1 << Self::BITS) - 1))
    }

    /// As a number below 2^48.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The low 24 bits: what a short header carries.
    pub const fn short(self) -> u32 {
        (self.0 & ((1 << Self::SHORT_BITS) - 1)) as u32
    }

    /// The number with these low 24 bits that is nearest to `reference` (§7.6).
    pub const fn extend(short: u32, reference: Self) -> Self {
        let shift = 64 - Self::SHORT_BITS;
        let ahead = (short as u64).wrapping_sub(reference.0) << shift;
        reference.plus((ahead as i64) >> shift)
    }

    /// Further by this number, or back.
    pub const fn plus(self, n: i64) -> Self {
        Self::new(self.0.wrapping_add_signed(n))
    }

    /// How far it lies behind `earlier`; negative where it lies before.
    pub const fn since(self, earlier: Self) -> i64 {
        let shift = 64 - Self::BITS;
        ((self.0.wrapping_sub(earlier.0) << shift) as i64) >> shift
    }

    /// The later of both.
    pub const fn max(self, other: Self) -> Self {
        if self.since(other) >= 0 { self } else { other }
    }

    /// Whether it lies from `low` to `high`, both included.
    pub const fn within(self, low: Self, high: Self) -> bool {
        self.since(low) >= 0 && high.since(self) >= 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Seq;

    proptest! {
        #[test]
        fn distances_are_circular(a in 0..1u64 << 48, n in -(1i64 << 46)..1 << 46) {
            let seq = Seq::new(a);
            prop_assert_eq!(seq.plus(n).since(seq), n);
            prop_assert_eq!(seq.plus(n).max(seq), if n > 0 { seq.plus(n) } else { seq });
        }

        #[test]
        fn a_short_number_near_the_reference_is_restored(a in 0..1u64 << 48, n in -(1i64 << 23)..1 << 23) {
            let seq = Seq::new(a).plus(n);
            prop_assert_eq!(Seq::extend(seq.short(), Seq::new(a)), seq);
        }
    }
}
