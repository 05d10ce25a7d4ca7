// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bursts at an even rate, and nothing between them.

use makeway_core::units::Duration;
use rand_distr::{Distribution, Exp1, Pareto};
use rand_pcg::Pcg64Mcg;

use super::{Departure, plain, shortened};

/// A distribution of times.
pub enum Times {
    /// With this mean in ns.
    Exponential(f64),
    Pareto(Pareto<f64>),
}

impl Times {
    pub fn new(mean: Duration, shape: Option<f64>) -> Self {
        let ns = mean.as_nanos() as f64;
        let pareto = shape.and_then(|shape| Pareto::new(ns * (shape - 1.0) / shape, shape).ok());
        pareto.map_or(Self::Exponential(ns), Self::Pareto)
    }

    fn sample(&self, rng: &mut Pcg64Mcg) -> f64 {
        match self {
            Self::Exponential(mean) => {
                let unit: f64 = Exp1.sample(rng);
                unit * mean
            }
            Self::Pareto(pareto) => pareto.sample(rng),
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
