// SPDX-License-Identifier: MIT OR Apache-2.0
//! A threshold that follows its outcome: how much longer unfavoured packets wait because of the favoured.
//!
//! A favoured packet of `len` bytes that finds `k` unfavoured ones waiting delays each of them by `len`; any packet
//! sent while `k` wait delays each of them by its length. The sums of `len * k` are `X`, the extra work that the
//! unfavoured wait for, and `W`, all of it, so that `E = X / (W - X)` is the extra wait over what it would be in
//! order of arrival, with no clock and no state for a packet. (By L. Kleinrock's conservation law it is `u / (1 - u)`
//! in the M/G/1 queue, `u` the load of the favoured.)
//!
//! Every second window, after one that the change had to take effect, the odds `o = T / (1 - T)` of the threshold
//! are multiplied by `(1 + target / E) / 2`, the quotient held between 1/2 and 2. They are not raised if the threshold
//! delayed no packet. Where the favoured are a share `T` of the packets, `c` times as long as the others on average,
//! and the link is always busy, `E = c o`: the odds become `(o + target / c) / 2`, and their error is
//! halved each time. At a load `r < 1`, `E = r c o / (1 + (1 - r) c o)`, and it still shrinks, by
//! `(1 + target (1 - r) / r) / 2`, as long as the load alone could make `E` reach the target.

use crate::units::{Bytes, Fraction};

/// Measures, and corrects the threshold.
#[derive(Clone, Debug)]
pub struct Outcome {
    target: Fraction,
    window: u32,
    /// Packets since the last correction.
    received: u32,
    /// `X` and `W`, bytes times packets: below 2^54 for each packet.
    extra: u128,
    waited: u128,
    /// The threshold kept a packet from being favoured.
    confined: bool,
}

/// 1, of the factors that the odds are multiplied by: in steps of 2^-24.
const ONE: u128 = 1 << 24;

/// From here a threshold finds back in some steps, 2^-20 and what is missing to 1.
const LEAST: u64 = Fraction::ONE.scaled() >> 20;
const MOST: u64 = Fraction::ONE.scaled() - LEAST;

impl Outcome {
    pub fn new(target: Fraction, window: u32) -> Self {
        Self {
            target,
            window,
            received: 0,
            extra: 0,
            waited: 0,
            confined: false,
        }
    }

    /// The threshold kept a candidate back.
    pub fn confine(&mut self) {
        self.confined = true;
    }

    /// A packet was favoured while this number of unfavoured ones waited.
    pub fn overtook(&mut self, len: Bytes, waiting: u32) {
        self.extra += u128::from(len.get()) * u128::from(waiting);
    }

    /// A packet left while this number of unfavoured ones waited.
    pub fn served(&mut self, len: Bytes, waiting: u32) {
        self.waited += u128::from(len.get()) * u128::from(waiting);
    }

    /// A packet came; the threshold from now on.
    pub fn received(&mut self, threshold: Fraction) -> Fraction {
        self.received += 1;
        if self.received == self.window {
            self.forget();
        }
        if self.received < 2 * self.window {
            return threshold;
        }
        self.received = 0;
        let corrected = self.corrected(threshold);
        self.forget();
        corrected
    }

    fn forget(&mut self) {
        (self.extra, self.waited, self.confined) = (0, 0, false);
    }

    fn corrected(&self, threshold: Fraction) -> Fraction {
        let without = self.waited.saturating_sub(self.extra);
        if without == 0 {
            // Nobody waited, so nothing is known.
            return threshold;
        }
        // target / E: at most 2^48 * 2^75.
        let wanted = (u128::from(self.target.scaled()) * without)
            .checked_div(self.extra)
            .map_or(2 * ONE, |quotient| quotient >> (Fraction::BITS - 24));
        if wanted > ONE && !self.confined {
            return threshold;
        }
        let factor = (ONE + wanted.clamp(ONE / 2, 2 * ONE)) / 2;
        // T f / (1 - T + T f): the odds times f.
        let part = u128::from(threshold.scaled()) * factor;
        let rest = u128::from(Fraction::ONE.scaled() - threshold.scaled()) * ONE;
        let corrected = (part << Fraction::BITS) / (part + rest);
        // Below 2^48.
        let corrected = (corrected as u64).clamp(LEAST, MOST);
        Fraction::ratio(corrected, Fraction::ONE.scaled())
    }
}
