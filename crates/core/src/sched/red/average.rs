// SPDX-License-Identifier: MIT OR Apache-2.0
//! The average queue in fixed point, and its decay over idle time.

use crate::units::Fraction;

/// An average queue in packets or bytes, below 2^32, in steps of 2^-48.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Average(pub(super) u128);

impl Average {
    /// The average of a queue that has always held `q`.
    pub const fn of(q: u64) -> Self {
        Self((q as u128) << Fraction::BITS)
    }

    /// In steps of 2^-48.
    pub const fn scaled(self) -> u128 {
        self.0
    }

    /// `avg <- (1 - w_q) avg + w_q q`, for `q` below 2^32.
    pub fn sample(&mut self, weight: Fraction, q: u64) {
        let Self(target) = Self::of(q);
        let step = (target.abs_diff(self.0) * u128::from(weight.scaled()) + HALF) >> Fraction::BITS;
        if target > self.0 {
            self.0 += step;
        } else {
            self.0 -= step;
        }
    }

    /// `avg <- (1 - w_q)^m avg`.
    pub fn decay(&mut self, weight: Fraction, m: u64) {
        let power = power(weight, m);
        let (high, low) = (self.0 >> 64, self.0 & u128::from(u64::MAX));
        self.0 = high * power + times(low, power);
    }
}

/// A probability of one, in steps of 2^-64.
pub(in crate::sched) const ONE: u128 = 1 << 64;

/// Half of 2^-48, to round to the nearest step.
const HALF: u128 = 1 << (Fraction::BITS - 1);

/// `(1 - weight)^m` in steps of 2^-64, by repeated squaring.
fn power(weight: Fraction, mut m: u64) -> u128 {
    let mut power = ONE;
    let mut square = ONE - (u128::from(weight.scaled()) << (64 - Fraction::BITS));
    while m > 0 && power > 0 {
        if m & 1 == 1 {
            power = times(power, square);
        }
        square = times(square, square);
        m >>= 1;
    }
    power
}

/// The product of two numbers up to 1, not both of them 1, in steps of 2^-64.
fn times(a: u128, b: u128) -> u128 {
    (a * b + (1 << 63)) >> 64
}
