// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mean, variance, confidence interval.

#[cfg(not(feature = "std"))]
use num_traits::Float as _;

/// Running mean and variance (Welford 1962), merged by Chan, Golub, LeVeque 1979.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    count: u64,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
}

impl Moments {
    /// No sample.
    pub const fn new() -> Self {
        Self {
            count: 0,
            mean: 0.0,
            squares: 0.0,
        }
    }

    /// Takes one sample.
    pub fn record(&mut self, x: f64) {
        self.count += 1;
        let before = x - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (x - self.mean);
    }

    /// Takes the samples of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let (n, m) = (self.count as f64, other.count as f64);
        let apart = other.mean - self.mean;
        self.count += other.count;
        self.mean += apart * m / (n + m);
        self.squares += other.squares + apart * apart * n * m / (n + m);
    }

    /// Samples taken.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean; zero without samples.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The unbiased variance; zero with fewer than two samples.
    pub fn variance(&self) -> f64 {
        if self.count < 2 {
            0.0
        } else {
            self.squares / (self.count - 1) as f64
        }
    }

    /// The standard deviation.
    pub fn deviation(&self) -> f64 {
        self.variance().sqrt()
    }

    /// Half the width of the two-sided 95 % interval of the mean, by Student's t; `None` with
    /// fewer than two samples. The samples must be independent.
    pub fn interval95(&self) -> Option<f64> {
        let freedom = self.count.checked_sub(1).filter(|&f| f > 0)?;
        Some(t975(freedom) * self.deviation() / (self.count as f64).sqrt())
    }
}

/// The 0.975 quantile of Student's t: a table to 10 degrees of freedom, then the Cornish-Fisher
/// expansion (Abramowitz and Stegun 26.7.5), within 1e-4.
fn t975(freedom: u64) -> f64 {
    const TABLE: [f64; 10] = [
        12.706_205, 4.302_653, 3.182_446, 2.776_445, 2.570_582, 2.446_912, 2.364_624, 2.306_004,
        2.262_157, 2.228_139,
    ];
    if let Some(&t) = TABLE.get(freedom as usize - 1) {
        return t;
    }
    let (z, n) = (1.959_963_985_f64, freedom as f64);
    let (z3, z5, z7, z9) = (z.powi(3), z.powi(5), z.powi(7), z.powi(9));
    z + (z3 + z) / (4.0 * n)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * n * n)
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * n.powi(3))
        + (79.0 * z9 + 776.0 * z7 + 1482.0 * z5 - 1920.0 * z3 - 945.0 * z) / (92_160.0 * n.powi(4))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(samples: &[f64]) -> Moments {
        let mut m = Moments::new();
        samples.iter().for_each(|&x| m.record(x));
        m
    }

    #[test]
    fn variance_is_unbiased() {
        let m = of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(m.mean(), 5.0);
        assert!((m.variance() - 32.0 / 7.0).abs() < 1e-12);
    }

    #[test]
    fn student_quantiles_are_the_tables() {
        for (freedom, t) in [
            (1, 12.7062),
            (5, 2.5706),
            (11, 2.2010),
            (29, 2.0452),
            (120, 1.9799),
        ] {
            assert!((t975(freedom) - t).abs() < 1e-4, "{freedom}");
        }
    }

    #[test]
    fn the_interval_of_three_samples_is_known() {
        // Mean 2, deviation 1: 4.302653 / sqrt(3).
        let half = of(&[1.0, 2.0, 3.0]).interval95().unwrap();
        assert!((half - 2.484_138).abs() < 1e-5);
        assert_eq!(of(&[1.0]).interval95(), None);
    }

    proptest! {
        #[test]
        fn merging_equals_recording_together(
            a in prop::collection::vec(-1e3f64..1e3, 0..40),
            b in prop::collection::vec(-1e3f64..1e3, 0..40),
        ) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let whole = of(&[a, b].concat());
            prop_assert_eq!(merged.count(), whole.count());
            prop_assert!((merged.mean() - whole.mean()).abs() < 1e-9);
            prop_assert!((merged.variance() - whole.variance()).abs() < 1e-6);
        }
    }
}
