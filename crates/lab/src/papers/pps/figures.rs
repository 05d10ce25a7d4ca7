// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures that the statements of the PPS paper are judged by.

use makeway_report::estimate::Estimate;
use makeway_report::model::Report;

use super::runs::{Setup, TABLES};
use crate::experiment::Results;
use crate::papers::figures::{largest, mean, smallest};

/// Mbit/s of each flow in IP packets, as the link carries them: the paper's rates are of the same.
pub fn rates(runs: &[Report]) -> Vec<Estimate> {
    let flows = runs.first().map_or(0, |run| run.flows.len());
    let rate = |flow: usize| mean(runs, |run| run.flows[flow].ip_bps.unwrap_or(f64::NAN) / 1e6);
    (0..flows).map(rate).collect()
}

/// The largest `|rate - ideal| / ideal`.
pub fn worst(rates: impl IntoIterator<Item = f64>, ideal: &[f64]) -> f64 {
    let pairs = rates.into_iter().zip(ideal);
    largest(pairs.map(|(rate, ideal)| (rate / ideal - 1.0).abs()))
}

impl Setup {
    /// The worst relative distance of a flow's mean rate to its ideal, under a variant.
    pub fn distance(&self, r: &Results, variant: &str) -> f64 {
        let rates = rates(&r[self.key(variant)]);
        worst(rates.iter().map(|x| x.mean), self.ideal)
    }

    /// The same of single runs: its mean over them.
    pub fn of_single_runs(&self, r: &Results, variant: &str) -> Estimate {
        mean(&r[self.key(variant)], |run| {
            let rates = run.flows.iter().map(|f| f.ip_bps.unwrap_or(f64::NAN) / 1e6);
            worst(rates, self.ideal)
        })
    }

    /// The paper's.
    pub fn paper_distance(&self) -> f64 {
        worst(self.paper.iter().copied(), self.ideal)
    }

    /// How much of the least used of the full links is used.
    pub fn utilisation(&self, r: &Results, variant: &str) -> f64 {
        let runs = &r[self.key(variant)];
        let used = self.full.iter().map(|name| {
            let queue = |run: &Report| run.queues.iter().find(|q| q.name == *name).cloned();
            mean(runs, |run| queue(run).map_or(f64::NAN, |q| q.utilisation)).mean
        });
        smallest(used)
    }
}

/// The mean of [`Setup::distance`] over all tables.
pub fn mean_distance(r: &Results, variant: &str) -> f64 {
    let sum: f64 = TABLES.iter().map(|setup| setup.distance(r, variant)).sum();
    sum / TABLES.len() as f64
}

/// The least [`Setup::utilisation`] of all tables.
pub fn least_utilisation(r: &Results, variant: &str) -> f64 {
    let used = TABLES.iter().map(|setup| setup.utilisation(r, variant));
    smallest(used)
}

/// Share of the variance about zero that `y = slope x` explains, by least squares through the origin:
/// R^2 = 1 - sum (y - slope x)^2 / sum (y - mean)^2.
pub fn fit(points: &[(f64, f64)]) -> (f64, f64) {
    let sum = |f: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>();
    let slope = sum(&|(x, y)| x * y) / sum(&|(x, _)| x * x);
    let mean = sum(&|(_, y)| *y) / points.len() as f64;
    let rest = sum(&|(x, y)| (y - slope * x).powi(2));
    (slope, 1.0 - rest / sum(&|(_, y)| (y - mean).powi(2)))
}

/// Rate of a flow over time, Mbit/s in packets of which 960 B of 1000 are payload: the mean over runs of each stretch of `step`
/// seconds, with its end.
pub fn over_time(runs: &[Report], flow: usize, step: f64) -> Vec<(f64, f64)> {
    const PACKET: f64 = 1000.0 / 960.0;
    let Some(first) = runs.first().map(|run| &run.flows[flow]) else {
        return Vec::new();
    };
    let each = (step / first.series_step_s).round() as usize;
    let stretches = first.goodput_series_bps.len() / each;
    let rate = |n: usize| {
        let of = |run: &Report| {
            let series = &run.flows[flow].goodput_series_bps[n * each..(n + 1) * each];
            series.iter().sum::<f64>() / each as f64
        };
        mean(runs, of).mean * PACKET / 1e6
    };
    (0..stretches)
        .map(|n| ((n + 1) as f64 * step, rate(n)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_through_the_origin_is_fitted_by_least_squares() {
        let (slope, r2) = fit(&[(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)]);
        assert!((slope - 2.0).abs() < 1e-12 && (r2 - 1.0).abs() < 1e-12);
        // Slope 25 / 14; residues 3/14, 6/14, -5/14 of 1, 4, 5 about 10/3.
        let (slope, r2) = fit(&[(1.0, 2.0), (2.0, 4.0), (3.0, 5.0)]);
        assert!((slope - 25.0 / 14.0).abs() < 1e-12);
        assert!(
            (r2 - (1.0 - 70.0 / 196.0 / (14.0 / 3.0))).abs() < 1e-12,
            "{r2}"
        );
    }

    #[test]
    fn the_papers_own_distances_are_those_of_its_tables() {
        let per_cent: Vec<f64> = TABLES
            .iter()
            .map(|setup| (setup.paper_distance() * 1000.0).round() / 10.0)
            .collect();
        assert_eq!(per_cent, [4.0, 5.4, 7.0, 5.5, 4.0, 1.0, 7.0, 5.0]);
    }
}
