// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replications and comparisons as pages.

use maud::{Markup, html};

use super::comparison::verdict;
use super::table::{PAIRED, notes, range, shown};
use super::{Comparison, Difference, Figure, Measure, Replications};
use crate::chart::{Chart, Series};
use crate::estimate::Unit;
use crate::html::page;

pub fn replications(all: &Replications) -> String {
    let mut means = vec![format!("{}.", all.brief())];
    means.extend(notes(all));
    let body = html! {
        section { h2 { "Figures" } (figures(all)) }
        section.charts { @for figure in all.headlines() { (each_run(figure).figure()) } }
        (environment(all))
    };
    page(&all.title, &means, body)
}

pub fn comparison(all: &Comparison) -> String {
    let Some(first) = all.variants.first() else {
        return String::new();
    };
    let mut means = vec![format!("{}.", first.brief()), PAIRED.into()];
    means.extend(notes(first));
    let body = html! {
        @for difference in &all.differences {
            section {
                h2 { (all.key) ": " (difference.value) " against " (difference.than) }
                (differences(all, difference))
            }
        }
        section.charts { @for figure in first.headlines() { (side_by_side(all, figure).figure()) } }
        (environment(first))
    };
    page(&first.title, &means, body)
}

fn figures(all: &Replications) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "group, queue" } th { "figure" } th { "mean" } th { "least" } th { "most" } } }
            tbody {
                @for figure in &all.figures {
                    tr {
                        td { (figure.of) } td { (figure.figure.name()) } td { (shown(figure)) }
                        @let (least, most) = range(figure);
                        @for value in [least, most] {
                            td { @if let Some(x) = value { (figure.figure.unit().show_value(x)) } }
                        }
                    }
                }
            }
        } }
    }
}

fn differences(all: &Comparison, difference: &Difference) -> Markup {
    let of = |value: &str, figure: &Figure| {
        let place = all.values.iter().position(|v| v == value)?;
        find(all.variants.get(place)?, figure).map(shown)
    };
    html! {
        div.scroll { table {
            thead { tr {
                th { "group, queue" } th { "figure" } th { (difference.than) } th { (difference.value) }
                th { "difference" } th { (difference.value) " is" }
            } }
            tbody {
                @for figure in &difference.figures {
                    tr {
                        td { (figure.of) } td { (figure.figure.name()) }
                        td { (of(&difference.than, figure).unwrap_or_default()) }
                        td { (of(&difference.value, figure).unwrap_or_default()) }
                        td { @if figure.estimate.runs > 0 { (figure.figure.unit().show_difference(&figure.estimate)) } }
                        td { (verdict(figure)) }
                    }
                }
            }
        } }
    }
}

fn find<'a>(all: &'a Replications, figure: &Figure) -> Option<&'a Figure> {
    let mut figures = all.figures.iter();
    figures.find(|f| f.of == figure.of && f.figure == figure.figure)
}

/// Every run, and beside them the mean with its interval.
fn each_run(figure: &Figure) -> Chart {
    let mut chart = empty(figure, "replication");
    let scale = scale(figure.figure);
    let mean = vec![(beyond(figure), figure.estimate.mean / scale)];
    chart.series = vec![
        Series::dots("each run", by_run(figure, scale)),
        Series::dots("mean, 95 % interval", mean).with_whiskers(vec![half(figure, scale)]),
    ];
    chart
}

/// A figure of all variants: by the value where that is a number, run by run where it is a name.
fn side_by_side(all: &Comparison, figure: &Figure) -> Chart {
    let numbers: Option<Vec<f64>> = all.values.iter().map(|v| v.parse().ok()).collect();
    let scale = scale(figure.figure);
    let variants = || all.variants.iter().filter_map(|v| find(v, figure));
    if let Some(numbers) = numbers {
        let mut points: Vec<_> = numbers.into_iter().zip(variants()).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let halves = points.iter().map(|(_, f)| half(f, scale)).collect();
        let points = points.iter().map(|(x, f)| (*x, f.estimate.mean / scale));
        let mut chart = empty(figure, &all.key);
        let series = Series::marked("mean, 95 % interval", points.collect());
        chart.series = vec![series.with_whiskers(halves)];
        return chart;
    }
    let mut chart = empty(
        figure,
        "replication; to the right of the last: mean, 95 % interval",
    );
    for ((value, variant), place) in all.values.iter().zip(variants()).zip(0..) {
        let mut points = by_run(variant, scale);
        let mut halves = vec![0.0; points.len()];
        let x = beyond(variant) * (1.0 + 0.03 * f64::from(place));
        points.push((x, variant.estimate.mean / scale));
        halves.push(half(variant, scale));
        let series = Series::dots(value.to_uppercase(), points);
        chart.series.push(series.with_whiskers(halves));
    }
    chart
}

fn empty(figure: &Figure, x: &str) -> Chart {
    Chart {
        title: format!("{}: {}", figure.of, figure.figure.name()),
        x: x.into(),
        y: match figure.figure.unit() {
            Unit::Rate => "Mbit/s",
            Unit::Share => "% of packets",
            Unit::Millis => "ms",
            Unit::Index | Unit::Packets => "",
        }
        .into(),
        ..Chart::default()
    }
}

fn scale(figure: Measure) -> f64 {
    match figure.unit() {
        Unit::Rate => 1e6,
        Unit::Share => 0.01,
        _ => 1.0,
    }
}

fn by_run(figure: &Figure, scale: f64) -> Vec<(f64, f64)> {
    let runs = figure.values.iter().enumerate();
    runs.filter_map(|(n, value)| Some((n as f64, (*value)? / scale)))
        .collect()
}

/// Where the mean is drawn: to the right of the runs.
fn beyond(figure: &Figure) -> f64 {
    figure.values.len() as f64
}

fn half(figure: &Figure, scale: f64) -> f64 {
    figure.estimate.half_width.unwrap_or(0.0) / scale
}

fn environment(all: &Replications) -> Markup {
    html! {
        section.environment {
            h2 { "Where these figures come from" }
            dl {
                dt { "world" } dd { (all.world) }
                @for (name, value) in all.set.iter().chain(&all.environment) { dt { (name) } dd { (value) } }
            }
        }
    }
}
