// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bursts at an even rate, and nothing between them.

use makeway_core::units::Duration;
use rand_distr::{Distribution, Exp1, OpenClosed01};
use rand_pcg::Pcg64Mcg;

use super::{Departure, plain, shortened};

/// A distribution of times.
pub enum Times {
    /// With this mean in ns.
    Exponential(f64),
    /// The least in ns, and the shape.
    Pareto(f64, f64),
}

impl Times {
    pub fn new(mean: Duration, shape: Option<f64>) -> Self {
        let ns = mean.as_nanos() as f64;
        match shape {
            Some(shape) => Self::Pareto(ns * (shape - 1.0) / shape, shape),
            None => Self::Exponential(ns),
        }
    }

    fn sample(&self, rng: &mut Pcg64Mcg) -> f64 {
        match self {
            Self::Exponential(mean) => {
                let unit: f64 = Exp1.sample(rng);
                unit * mean
            }
            // As the `Pareto` of rand_distr, which may take the power of the C library: that differs by a bit between libraries and processors.
            Self::Pareto(least, shape) => {
                let unit: f64 = OpenClosed01.sample(rng);
                least * libm::pow(unit, -1.0 / shape)
            }
        }
    }
}

/// Bursts of as many packets as fit the time on, one at least, as the sources of ns-2.
pub fn on_and_off(
    gap: f64,
    payload: u64,
    [on, off]: [Times; 2],
    mut rng: Pcg64Mcg,
) -> impl Iterator<Item = Departure> + Send {
    let mut left = 0u64;
    let mut next = 0.0;
    (0..).map(move |seq| {
        if left == 0 {
            // A flow begins off: many of them are not in step.
            next += off.sample(&mut rng);
            left = ((on.sample(&mut rng) / gap).round() as u64).max(1);
        }
        let at = next;
        left -= 1;
        next += gap;
        Departure {
            gap: shortened(gap as u64),
            ..plain(at as u64, seq, payload)
        }
    })
}

#[cfg(test)]
mod tests {
    use rand_distr::Pareto;

    use super::super::stream;
    use super::*;

    #[test]
    fn pareto_times_are_those_of_rand_distr_but_for_the_last_bits() {
        let times = Times::new(Duration::from_millis(400), Some(1.5));
        // A third of the mean.
        let pareto = Pareto::new(4e8 / 3.0, 1.5).unwrap();
        let (mut ours, mut theirs) = (stream(1, 0), stream(1, 0));
        for _ in 0..10_000 {
            let [one, other] = [times.sample(&mut ours), pareto.sample(&mut theirs)];
            assert!((one / other - 1.0).abs() < 1e-12, "{one} {other}");
        }
    }
}
