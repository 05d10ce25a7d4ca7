// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replications and comparisons as tables for a terminal of 80 to 100 columns.

use comfy_table::Cell;

use super::comparison::verdict;
use super::{Comparison, Figure, Replications};
use crate::table::{right, table};

pub fn replications(all: &Replications) -> String {
    let mut rows = table(&["flows, queues", "figure", "mean", "least", "most"]);
    let mut last = "";
    for figure in &all.figures {
        let unit = figure.figure.unit();
        let (least, most) = range(figure);
        rows.add_row(vec![
            Cell::new(if figure.of == last { "" } else { &figure.of }),
            Cell::new(figure.figure.name()),
            right(shown(figure)),
            right(least.map(|x| unit.show_value(x)).unwrap_or_default()),
            right(most.map(|x| unit.show_value(x)).unwrap_or_default()),
        ]);
        last = &figure.of;
    }
    let mut text = format!("{}\n{}\n\n{rows}", all.title, all.brief());
    for note in notes(all) {
        text.push_str(&format!("\n\n{note}"));
    }
    text
}

pub fn comparison(all: &Comparison) -> String {
    let Some(first) = all.variants.first() else {
        return String::new();
    };
    let mut text = format!("{}\n{}", first.title, first.brief());
    for (difference, variant) in all.differences.iter().zip(all.variants.iter().skip(1)) {
        let mut rows = table(&[
            "flows, queues",
            "figure",
            &difference.than,
            &difference.value,
            "difference",
            &format!("{} is", difference.value),
        ]);
        let mut last = "";
        for figure in &difference.figures {
            let of = |all: &Replications| {
                let same = |f: &&Figure| f.of == figure.of && f.figure == figure.figure;
                let known = all
                    .figures
                    .iter()
                    .find(same)
                    .filter(|f| f.estimate.runs > 0);
                known
                    .map(|f| f.figure.unit().show_value(f.estimate.mean))
                    .unwrap_or_default()
            };
            rows.add_row(vec![
                Cell::new(if figure.of == last { "" } else { &figure.of }),
                Cell::new(figure.figure.name()),
                right(of(first)),
                right(of(variant)),
                right(match figure.estimate.runs {
                    0 => String::new(),
                    _ => figure.figure.unit().show_difference(&figure.estimate),
                }),
                Cell::new(verdict(figure)),
            ]);
            last = &figure.of;
        }
        let (value, than) = (&difference.value, &difference.than);
        text.push_str(&format!("\n\n{}: {value} against {than}\n{rows}", all.key));
    }
    text.push_str("\n\n");
    text.push_str(PAIRED);
    for note in notes(first) {
        text.push_str(&format!("\n\n{note}"));
    }
    text
}

/// Explanation of the column of differences.
pub const PAIRED: &str = "Differences are of runs with the same random numbers, pair by pair. One of twenty \
intervals misses the true difference: \"not shown\" does not prove equality.";

pub fn shown(figure: &Figure) -> String {
    match figure.estimate.runs {
        0 => String::new(),
        _ => figure.figure.unit().show(&figure.estimate),
    }
}

pub fn range(figure: &Figure) -> (Option<f64>, Option<f64>) {
    let values = || figure.values.iter().flatten().copied();
    (values().reduce(f64::min), values().reduce(f64::max))
}

/// Cautions about the figures.
pub fn notes(all: &Replications) -> Vec<String> {
    let mut notes = Vec::new();
    if !all.complete {
        notes.push("It was cut short: these are the runs that were finished.".into());
    }
    notes.extend(all.precise());
    if all.runs.len() > 1
        && all
            .runs
            .iter()
            .all(|r| r.fingerprint == all.runs[0].fingerprint)
    {
        notes.push("All runs are the same run: the intervals say nothing.".into());
    }
    notes
}
