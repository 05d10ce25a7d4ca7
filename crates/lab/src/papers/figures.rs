// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures that statements of every paper are judged by: means over the runs of a set-up, and how they are written.

use makeway_report::chart::Series;
use makeway_report::estimate::{Estimate, Unit};
use makeway_report::model::Report;
use makeway_report::summary;

use crate::experiment::Verdict;

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

/// A figure that is computed, or of one run.
pub fn only(value: f64) -> Estimate {
    Estimate::of([value])
}

/// A figure in another unit.
pub fn times(x: Estimate, factor: f64) -> Estimate {
    Estimate {
        mean: x.mean * factor,
        half_width: x.half_width.map(|half| half * factor.abs()),
        ..x
    }
}

/// A share in percent.
pub fn in_percent(x: Estimate) -> Estimate {
    times(x, 100.0)
}

/// The least factor from a figure to the next.
pub fn least_step(figures: &[(u32, Estimate)]) -> f64 {
    smallest(figures.windows(2).map(|w| w[1].1.mean / w[0].1.mean))
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

/// Goodput of all downloads in Mbit/s.
pub fn downloads(report: &Report) -> f64 {
    let bulk = report.flows.iter().filter(|flow| flow.kind == "bulk");
    bulk.map(|flow| flow.goodput_bps).sum::<f64>() / 1e6
}

/// Stands for a figure that was not measured.
pub const NOT_MEASURED: &str = Verdict::NotMeasured.name();

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

/// The estimate whose interval begins lowest; a figure that was not measured goes before all.
pub fn lowest(figures: impl IntoIterator<Item = Estimate>) -> Estimate {
    let end = |x: &Estimate| x.mean - x.half_width.unwrap_or(0.0);
    first_of(figures, |a, b| end(a) < end(b))
}

/// The estimate whose interval ends highest, likewise.
pub fn highest(figures: impl IntoIterator<Item = Estimate>) -> Estimate {
    let end = |x: &Estimate| x.mean + x.half_width.unwrap_or(0.0);
    first_of(figures, |a, b| end(a) > end(b))
}

fn first_of(
    figures: impl IntoIterator<Item = Estimate>,
    before: impl Fn(&Estimate, &Estimate) -> bool,
) -> Estimate {
    let choose = |a: Estimate, b: Estimate| {
        let stays = a.mean.is_nan() || !(b.mean.is_nan() || before(&b, &a));
        if stays { a } else { b }
    };
    figures
        .into_iter()
        .reduce(choose)
        .unwrap_or_else(|| only(f64::NAN))
}

/// Replications of a set-up in pairs with those of another: both saw the same luck.
pub type Pairs<'a> = Vec<[&'a Report; 2]>;

/// Each replication with that of the other.
pub fn in_pairs<'a>(runs: &'a [Report], others: &'a [Report]) -> Pairs<'a> {
    runs.iter().zip(others).map(|(a, b)| [a, b]).collect()
}

/// Each replication with another one of the same set-up, `step` later: what chance makes of no difference.
pub fn by_chance(runs: &[Report], step: usize) -> Pairs<'_> {
    let pairs = runs.iter().enumerate();
    match runs.len() > step {
        true => pairs
            .map(|(i, run)| [run, &runs[(i + step) % runs.len()]])
            .collect(),
        false => Vec::new(),
    }
}

/// For each replication `of` the figures of its pairs in all set-ups, taken together.
pub fn together(
    setups: &[Pairs<'_>],
    figure: impl Fn(&Report) -> f64,
    of: impl Fn(f64, f64) -> f64,
    take: impl Fn(Vec<f64>) -> f64,
) -> Vec<f64> {
    let runs = setups.iter().map(Vec::len).min().unwrap_or(0);
    let of = |[run, other]: [&Report; 2]| of(figure(run), figure(other));
    (0..runs)
        .map(|run| take(setups.iter().map(|pairs| of(pairs[run])).collect()))
        .collect()
}

/// For [`together`]: the mean.
pub fn average(values: Vec<f64>) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
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
    fn an_estimate_is_chosen_by_the_end_of_its_interval() {
        let of = |mean, half| Estimate {
            mean,
            half_width: Some(half),
            runs: 3,
        };
        let all = [of(1.0, 0.1), of(1.2, 0.5), of(1.1, 0.1)];
        assert_eq!((lowest(all), highest(all)), (all[1], all[1]));
        let steady = [all[0], all[2]];
        assert_eq!((lowest(steady), highest(steady)), (all[0], all[2]));
        let missing = [all[0], only(f64::NAN), all[1]];
        assert!(lowest(missing).mean.is_nan() && highest(missing).mean.is_nan());
        assert!(lowest([]).mean.is_nan());
    }

    #[test]
    fn chance_pairs_each_run_with_another() {
        let run = |seed| Report {
            seed,
            ..crate::papers::tests::made_up(1.0, vec![], vec![])
        };
        let runs = [run(1), run(2), run(3)];
        let seeds: Vec<_> = by_chance(&runs, 2)
            .iter()
            .map(|[a, b]| (a.seed, b.seed))
            .collect();
        assert_eq!(seeds, [(1, 3), (2, 1), (3, 2)]);
        assert!(by_chance(&runs[..1], 1).is_empty());
        let setups = [in_pairs(&runs, &runs), by_chance(&runs, 1)];
        let of =
            |take: fn(Vec<f64>) -> f64| together(&setups, |x| x.seed as f64, |a, b| b - a, take);
        assert_eq!(of(average), [0.5, 0.5, -1.0]);
        assert_eq!(of(largest), [1.0, 1.0, 0.0]);
    }

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
