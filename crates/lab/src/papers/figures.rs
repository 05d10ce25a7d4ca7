// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures that statements of every paper are judged by: means over the runs of a set-up, and how they are written.

use makeway_report::chart::Series;
use makeway_report::estimate::{Estimate, Unit};
use makeway_report::model::Report;
use makeway_report::summary;

/// A figure by what the set-up is run with: downloads, flows, ms.
pub type Figures = Vec<(u32, Estimate)>;

/// A figure of a set-up: the mean over its runs.
pub fn mean(runs: &[Report], figure: impl Fn(&Report) -> f64) -> Estimate {
    Estimate::of(runs.iter().map(figure))
}

/// A figure of a set-up less, or divided by, that of another, replication by replication: both saw the same luck.
pub fn paired(
    runs: &[Report],
    others: &[Report],
    figure: impl Fn(&Report) -> f64,
    of: impl Fn(f64, f64) -> f64,
) -> Estimate {
    let pairs = runs.iter().zip(others);
    Estimate::of(pairs.map(|(run, other)| of(figure(run), figure(other))))
}

/// The largest of some values; not a number where there is none, or one of them was not measured.
pub fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    let larger = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
    values.into_iter().reduce(larger).unwrap_or(f64::NAN)
}

/// The smallest of some values, likewise.
pub fn smallest(values: impl IntoIterator<Item = f64>) -> f64 {
    -largest(values.into_iter().map(|value| -value))
}

/// The largest mean, likewise.
pub fn worst(figures: &[(u32, Estimate)]) -> Estimate {
    with_mean(figures, largest(figures.iter().map(|f| f.1.mean)))
}

/// The smallest mean, likewise.
pub fn least(figures: &[(u32, Estimate)]) -> Estimate {
    with_mean(figures, smallest(figures.iter().map(|f| f.1.mean)))
}

fn with_mean(figures: &[(u32, Estimate)], mean: f64) -> Estimate {
    let found = figures.iter().find(|f| f.1.mean == mean);
    found.map_or_else(|| Estimate::of([]), |f| f.1)
}

/// `0.41 at n = 1, ...`
pub fn row(figures: &[(u32, Estimate)], shown: impl Fn(&Estimate) -> String) -> String {
    figures
        .iter()
        .map(|(n, x)| format!("{} at n = {n}", shown(x)))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Each figure is at least the one before it, less `slack` of it.
pub fn rising(figures: &[(u32, Estimate)], slack: f64) -> bool {
    let pairs = figures.windows(2).map(|w| (w[0].1.mean, w[1].1.mean));
    pairs.into_iter().all(|(a, b)| b >= a * (1.0 - slack))
}

/// Stands for a figure that was not measured.
pub const NOT_MEASURED: &str = "not measured";

/// `3.2 %`.
pub fn percent(share: f64) -> String {
    match share.is_nan() {
        true => NOT_MEASURED.into(),
        false => summary::percent(share),
    }
}

/// `3.2 %`, and with its interval where there are several runs.
pub fn share(x: &Estimate) -> String {
    match x.half_width {
        _ if x.mean.is_nan() => NOT_MEASURED.into(),
        Some(_) => Unit::Share.show(x),
        None => percent(x.mean),
    }
}

/// `0.41 ms`, likewise.
pub fn ms(x: &Estimate) -> String {
    match x.half_width {
        _ if x.mean.is_nan() => NOT_MEASURED.into(),
        Some(_) => Unit::Millis.show(x),
        None => format!("{:.2} ms", x.mean),
    }
}

/// `0.41`, likewise.
pub fn plain(x: &Estimate) -> String {
    match x.half_width {
        _ if x.mean.is_nan() => NOT_MEASURED.into(),
        Some(_) => Unit::Index.show(x),
        None => format!("{:.2}", x.mean),
    }
}

/// A curve of means times `factor`, and whiskers where there are several runs.
pub fn with_intervals(name: impl Into<String>, figures: &[(u32, Estimate)], factor: f64) -> Series {
    let points = figures
        .iter()
        .map(|(x, e)| (f64::from(*x), e.mean * factor));
    let halves = figures
        .iter()
        .map(|f| f.1.half_width.unwrap_or(0.0) * factor);
    Series::marked(name, points.collect()).with_whiskers(halves.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_neither_large_nor_small() {
        let nan = f64::NAN;
        assert_eq!(
            (largest([1.0, 3.0, 2.0]), smallest([2.0, 1.0, 3.0])),
            (3.0, 1.0)
        );
        for values in [&[][..], &[nan, 1.0], &[1.0, nan], &[1.0, -nan, 2.0]] {
            let each = || values.iter().copied();
            assert!(
                largest(each()).is_nan() && smallest(each()).is_nan(),
                "{values:?}"
            );
            let figures: Vec<_> = each().map(|value| (1, Estimate::of([value]))).collect();
            assert!(worst(&figures).mean.is_nan() && least(&figures).mean.is_nan());
        }
        let none = Estimate::of([]);
        for shown in [share(&none), ms(&none), plain(&none), percent(nan)] {
            assert_eq!(shown, NOT_MEASURED);
        }
    }
}
