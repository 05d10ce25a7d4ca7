// SPDX-License-Identifier: MIT OR Apache-2.0
//! A rate by exponential averaging: section II-C of the CSFQ paper, eq. (3) and (5).

use crate::units::{Bytes, Duration, Instant};

/// Arrival rate, in steps of 2^-16 bit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exponential {
    rate: u64,
    last: Instant,
}

impl Exponential {
    /// Bits behind the binary point of rates.
    pub const BITS: u32 = 16;
    /// Above this a rate is not told from others: 4 Tbit/s.
    pub const MOST: u64 = 1 << (42 + Self::BITS);

    /// `len` more has come at `now`: `r <- (1 - e^(-T/K)) len / T + e^(-T/K) r`, `T` since the last time and `k` the
    /// window. Of packets that come at once each adds `len / K`, the limit for `T` to 0.
    pub fn count(&mut self, now: Instant, len: Bytes, k: Duration) -> u64 {
        let k = u128::from(k.as_nanos().max(1));
        let since = u128::from(now.saturating_since(self.last).as_nanos());
        self.last = now;
        // T / K, in steps of 2^-48.
        let x = (since << 48) / k;
        let decay = exp_neg(x);
        // (1 - e^-x) / x, in steps of 2^-63.
        let gain = match x {
            0..SMALL => ONE - (x << 14) + (x * x) / (6 << 33),
            _ => ((ONE - decay) << 48) / x,
        };
        let sample = ((u128::from(len.get()) * 8_000_000_000) << Self::BITS) / k;
        let rate = (u128::from(self.rate) * decay + sample * gain + ONE / 2) >> 63;
        self.rate = rate.min(Self::MOST.into()) as u64;
        self.rate
    }

    /// The rate when something last came.
    pub fn rate(&self) -> u64 {
        self.rate
    }
}

/// One, of powers of e.
const ONE: u128 = 1 << 63;
/// 2^-12 in steps of 2^-48. Below it the first terms of a series are exact to 2^-48.
const SMALL: u128 = 1 << 36;
/// `e^-(2^i / 2^12)`.
const POWERS: [u128; 18] = {
    // 1 - y + y^2 / 2 - y^3 / 6 + y^4 / 24 for y = 2^-12, then squares.
    let mut power = ONE - (ONE >> 12) + (ONE >> 25) - (ONE >> 36) / 6 + (ONE >> 48) / 24;
    let mut powers = [0; 18];
    let mut i = 0;
    while i < powers.len() {
        powers[i] = power;
        power = (power * power) >> 63;
        i += 1;
    }
    powers
};

/// `e^-x` for `x` in steps of 2^-48, in steps of 2^-63.
fn exp_neg(x: u128) -> u128 {
    // e^-44 is below a step.
    if x >= 44 << 48 {
        return 0;
    }
    let y = x % SMALL;
    let (square, cube) = ((y * y) >> 48, (((y * y) >> 48) * y) >> 48);
    let mut power = ONE - (y << 15) + (square << 14) - (cube << 15) / 6;
    for (i, of_bit) in POWERS.iter().enumerate() {
        if x >> (36 + i) & 1 == 1 {
            power = (power * of_bit) >> 63;
        }
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const K: Duration = Duration::from_millis(100);

    #[test]
    fn an_even_stream_is_estimated_at_its_rate() {
        // 1000 B each ms: 8 Mbit/s. Fixed point of eq. (3), for any spacing.
        for us in [10, 1000, 1_000_000] {
            let mut average = Exponential::default();
            for n in 1..=10_000_000 / us.min(100_000) {
                average.count(Instant::from_nanos(n * us * 1000), Bytes::new(us), K);
            }
            let bps = average.rate() as f64 / 65_536.0;
            assert!((bps / 8e6 - 1.0).abs() < 1e-4, "{us}: {bps}");
        }
    }

    #[test]
    fn packets_at_once_count_as_one_of_their_length() {
        let (mut one, mut many) = (Exponential::default(), Exponential::default());
        let at = Instant::from_nanos(5_000_000_000);
        for n in 0..=4 {
            let when = if n == 0 { at } else { at + K };
            many.count(when, Bytes::new(300), K);
        }
        one.count(at, Bytes::new(300), K);
        one.count(at + K, Bytes::new(300), K);
        // Three more of 300 B over 100 ms.
        assert_eq!(many.rate() - one.rate(), (3 * 24_000) << Exponential::BITS);
    }

    proptest! {
        #[test]
        fn powers_of_e_are_the_real_ones(x in 0u64..1 << 52) {
            let real = (-(x as f64) / (1u64 << 48) as f64).exp();
            let fixed = exp_neg(x.into()) as f64 / ONE as f64;
            prop_assert!((fixed - real).abs() < 1e-13, "{fixed} {real}");
        }

        #[test]
        fn the_rate_is_the_real_one(
            k in 1_000_000u64..3_600_000_000_000,
            steps in proptest::collection::vec((0u64..1 << 34, 1u64..100_000), 1..100),
        ) {
            let (mut average, mut now, mut real) = (Exponential::default(), Instant::ZERO, 0.0);
            for (ns, len) in steps {
                now += Duration::from_nanos(ns);
                average.count(now, Bytes::new(len), Duration::from_nanos(k));
                let x = ns as f64 / k as f64;
                let gain = if x == 0.0 { 1.0 } else { -(-x).exp_m1() / x };
                real = real * (-x).exp() + len as f64 * 8e9 / k as f64 * gain;
                let fixed = average.rate() as f64 / 65_536.0;
                prop_assert!((fixed - real).abs() <= 1e-9 * real + 0.01, "{fixed} {real}");
            }
        }

        #[test]
        fn nothing_makes_it_overflow(
            k: u64, steps in proptest::collection::vec((any::<u64>(), 0u64..1 << 24), 1..50),
        ) {
            let mut average = Exponential::default();
            for (ns, len) in steps {
                let k = Duration::from_nanos(k.max(1_000_000));
                average.count(Instant::from_nanos(ns), Bytes::new(len), k);
            }
        }
    }
}
