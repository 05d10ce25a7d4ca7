//! What statements are judged by, whatever the paper: means over the runs of a set-up, and how they are written.

use makeway_report::chart::Series;
use makeway_report::estimate::{Estimate, Unit};
use makeway_report::model::Report;
use makeway_report::summary::percent;

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

/// The largest mean.
pub fn worst(figures: &[(u32, Estimate)]) -> Estimate {
    let figures = figures.iter().map(|f| f.1);
    let worst = figures.max_by(|a, b| a.mean.total_cmp(&b.mean));
    worst.unwrap_or_else(|| Estimate::of([]))
}

/// The smallest mean.
pub fn least(figures: &[(u32, Estimate)]) -> Estimate {
    let figures = figures.iter().map(|f| f.1);
    let least = figures.min_by(|a, b| a.mean.total_cmp(&b.mean));
    least.unwrap_or_else(|| Estimate::of([]))
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

/// `3.2 %`, and with its interval where there are several runs.
pub fn share(x: &Estimate) -> String {
    match x.half_width {
        Some(_) => Unit::Share.show(x),
        None => percent(x.mean),
    }
}

/// `0.41 ms`, likewise.
pub fn ms(x: &Estimate) -> String {
    match x.half_width {
        Some(_) => Unit::Millis.show(x),
        None => format!("{:.2} ms", x.mean),
    }
}

/// `0.41`, likewise.
pub fn plain(x: &Estimate) -> String {
    match x.half_width {
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
