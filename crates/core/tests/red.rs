// SPDX-License-Identifier: MIT OR Apache-2.0
//! RED's fixed point beside real numbers: within 10^-6 of them, as its header promises and better.

use makeway_core::sched::RedParams;
use makeway_core::sched::red::Average;
use makeway_core::units::{Bytes, Fraction};
use proptest::prelude::*;

const CLOSE: f64 = 1e-6;

fn real(avg: Average) -> f64 {
    avg.scaled() as f64 / Fraction::ONE.scaled() as f64
}

/// In steps of 2^-64.
fn probability(p: u128) -> f64 {
    p as f64 / 18_446_744_073_709_551_616.0
}

/// Relative, and absolute where nothing depends on it.
fn close(a: f64, b: f64, nothing: f64) -> bool {
    (a - b).abs() <= CLOSE * b.abs() + nothing
}

/// From 2^-20 to 1, the small ones as likely as the large.
fn weight() -> impl Strategy<Value = Fraction> {
    (0u32..=20, 0.5f64..=1.0).prop_map(|(shift, part)| {
        let scaled = (part * (1u64 << 48) as f64) as u64 >> shift;
        Fraction::ratio(scaled.max(1 << 28), 1 << 48)
    })
}

proptest! {
    #[test]
    fn the_average_is_the_real_one(
        weight in weight(),
        // Lengths of the queue, and idle times in packets.
        steps in proptest::collection::vec(
            (prop_oneof![0u64..100, 0u64..1 << 32], prop_oneof![9 => Just(0u64), 1 => 0u64..100_000]),
            1..500,
        ),
    ) {
        let w = weight.as_f64();
        let (mut fixed, mut float) = (Average::default(), 0.0);
        for (q, m) in steps {
            fixed.decay(weight, m);
            fixed.sample(weight, q);
            if m > 0 {
                float *= ((-w).ln_1p() * m as f64).exp();
            }
            float += w * (q as f64 - float);
            prop_assert!(close(real(fixed), float, 1e-8), "{fixed:?} {float}");
        }
    }

    #[test]
    fn the_probabilities_are_the_real_ones(
        min in 1u32..1000,
        over in 1u32..1000,
        max_p in weight(),
        gentle: bool,
        wait: bool,
        by_bytes: bool,
        mean in 1u64..2000,
        part in 0.0f64..1.0,
        count in prop_oneof![0u64..50, 0u64..1_000_000],
        len in 1u64..70_000,
    ) {
        let max = min + over;
        let mean_packet = Bytes::new(mean);
        let params = RedParams { min, max, max_p, gentle, wait, by_bytes, mean_packet, ..RedParams::default() };
        let unit = if by_bytes { mean } else { 1 };
        let (low, high) = (u64::from(min) * unit, u64::from(max) * unit);
        let end = if gentle { 2 * high } else { high };
        // Any average between the thresholds, by one sample.
        let mut avg = Average::of(low);
        avg.sample(Fraction::ratio((part * 1e12) as u64, 1_000_000_000_000), end);
        let (x, low, high) = (real(avg), low as f64, high as f64);
        let max_p = max_p.as_f64();
        let p_b = match x < high {
            true => max_p * (x - low) / (high - low),
            false => max_p + (1.0 - max_p) * (x - high) / high,
        };
        let fixed = params.p_b(avg);
        prop_assert!(close(probability(fixed), p_b, 1e-12), "{fixed} {p_b}");
        // From here on with the probability that the discipline uses.
        let p_b = probability(fixed);
        let counted = p_b * count as f64 / unit as f64;
        prop_assume!(p_b > 1e-9 && (counted - 1.0).abs() > 1e-9);
        let mut p_a = match wait {
            true if counted < 1.0 => 0.0,
            true if counted < 2.0 => p_b / (2.0 - counted),
            false if counted < 1.0 => p_b / (1.0 - counted),
            _ => 1.0,
        };
        if by_bytes && p_a < 1.0 {
            p_a *= len as f64 / mean as f64;
        }
        let fixed = params.p_a(params.p_b(avg), count, Bytes::new(len));
        prop_assert!(close(probability(fixed), p_a.min(1.0), 1e-12), "{fixed} {p_a}");
    }
}
