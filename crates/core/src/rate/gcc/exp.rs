// SPDX-License-Identifier: MIT OR Apache-2.0
//! Powers of e, by operations that IEEE 754 defines to the last bit: `powf` is the C library's, which differs by a bit between libraries and
//! processors, and a run is to be the same on every machine.

/// Below it the result is 0.
const LEAST: f64 = -750.0;
/// From here to 1/8 the terms of the series beyond the tenth are below the last bit.
const SHORT: f64 = -0.125;

/// e^x for x <= 1/8.
pub fn exp(x: f64) -> f64 {
    // e^x = (e^(x / 2^n))^(2^n)
    let mut part = x.max(LEAST);
    let mut squares = 0;
    while part < SHORT {
        part /= 2.0;
        squares += 1;
    }
    // 1 + x (1 + x/2 (1 + x/3 (...)))
    let mut sum = 1.0;
    for n in (1..=10_u32).rev() {
        sum = 1.0 + part / f64::from(n) * sum;
    }
    for _ in 0..squares {
        sum *= sum;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_e_are_those_of_the_c_library_but_for_the_last_bits() {
        for n in 0..=40_000 {
            let x = f64::from(n) / 1000.0;
            let near = |x: f64| (exp(x) / x.exp() - 1.0).abs();
            assert!(near(-x) < 1e-12, "{x}");
            let x = x / 400.0;
            assert!(near(x) < 1e-15 && near(-x) < 1e-15, "{x}");
        }
        // To the bit on every machine.
        for (x, bits) in [
            (0.076_961_041_136_128_4, 0x3ff1_47ae_147a_e148),
            (-0.402_013_434_140_058, 0x3fe5_6837_7620_23ec),
            (-20.0, 0x3e21_b486_55f3_7276),
        ] {
            assert_eq!(exp(x).to_bits(), bits, "{x}");
        }
        assert_eq!([0.0, -1085.0, f64::NEG_INFINITY].map(exp), [1.0, 0.0, 0.0]);
    }
}
