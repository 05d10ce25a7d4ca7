// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tails of the Poisson distribution, accurate far out and for large means.

use core::f64::consts::PI;
#[cfg(not(feature = "std"))]
use num_traits::Float as _;

/// `Pr(N >= k)` for a Poisson variable of mean `mean` (0 or more), within about 1e-12 relative.
pub fn at_least(k: u64, mean: f64) -> f64 {
    if k == 0 {
        return 1.0;
    }
    if mean <= 0.0 {
        return 0.0;
    }
    if (k as f64) <= mean {
        return (1.0 - below(k, mean)).clamp(0.0, 1.0);
    }
    // From k upwards each term is the one before times mean / (i + 1), a factor below 1.
    let (mut sum, mut term, mut i) = (0.0, 1.0, k as f64);
    while term > sum * 1e-17 {
        sum += term;
        i += 1.0;
        term *= mean / i;
    }
    mass(k, mean) * sum
}

/// `Pr(N < k)` for `1 <= k <= mean`: from k - 1 downwards each term is the one before times i / mean.
fn below(k: u64, mean: f64) -> f64 {
    let (mut sum, mut term, mut i) = (0.0, 1.0, (k - 1) as f64);
    while term > sum * 1e-17 {
        sum += term;
        term *= i / mean;
        i -= 1.0;
    }
    mass(k - 1, mean) * sum
}

/// `Pr(N = k)` by the saddle point (C. Loader, "Fast and accurate computation of binomial
/// probabilities", 2000): no large terms cancel.
fn mass(k: u64, mean: f64) -> f64 {
    if k == 0 {
        return (-mean).exp();
    }
    let x = k as f64;
    (-stirling_error(x) - deviance(x, mean)).exp() / (2.0 * PI * x).sqrt()
}

/// `ln x! - ln(sqrt(2 pi x) (x/e)^x)`, `x` a whole number from 1.
fn stirling_error(x: f64) -> f64 {
    if x < 16.0 {
        let factorial: f64 = (1..=x as u32).map(f64::from).product();
        return factorial.ln() - 0.5 * (2.0 * PI * x).ln() - x * x.ln() + x;
    }
    let y = 1.0 / (x * x);
    (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y / 1188.0)))) / x
}

/// `x ln(x / m) + m - x`, by its series where `x` is near `m`.
fn deviance(x: f64, m: f64) -> f64 {
    if (x - m).abs() >= 0.1 * (x + m) {
        return x * (x / m).ln() + m - x;
    }
    let v = (x - m) / (x + m);
    let (mut sum, mut power) = ((x - m) * v, 2.0 * x * v);
    for j in 1..1000 {
        power *= v * v;
        let next = sum + power / f64::from(2 * j + 1);
        if next == sum {
            break;
        }
        sum = next;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_tails_equal_the_sum_of_the_definition() {
        for (k, mean) in [(1_u32, 0.5), (3, 2.0), (5, 9.0), (20, 4.0), (12, 12.0)] {
            let mut term = f64::exp(-mean);
            let mut below = 0.0;
            for i in 0..k {
                below += term;
                term *= mean / (f64::from(i) + 1.0);
            }
            let got = at_least(u64::from(k), mean);
            let far = 1.0 - below;
            assert!((got - far).abs() < 1e-13, "{k} {mean}: {got} {far}");
        }
    }

    #[test]
    fn far_tails_do_not_vanish_in_rounding() {
        // Pr(N >= 100) at mean 10: the first term is 10^100 e^-10 / 100!, 4.8646e-63, and the
        // ratio of the next ones 10/101, 10/102, ...
        let got = at_least(100, 10.0);
        assert!((got / 5.398_6e-63 - 1.0).abs() < 1e-3, "{got:e}");
    }

    #[test]
    fn a_large_mean_is_near_its_normal_limit() {
        let got = at_least(600_000, 600_000.0);
        assert!((got - 0.5).abs() < 1e-3, "{got}");
    }

    #[test]
    fn nothing_is_certain_to_be_at_least_nothing() {
        assert_eq!(at_least(0, 3.0), 1.0);
        assert_eq!(at_least(1, 0.0), 0.0);
    }
}
