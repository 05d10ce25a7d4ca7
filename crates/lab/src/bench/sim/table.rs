// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures for people.

use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;

use super::cases::NS2;
use super::{Figures, Row};
use crate::tables::align;
use makeway::text;

pub fn print(figures: &Figures) {
    text::say!("{}", figures.origin);
    let mut rows = table(&[
        "dumbbell",
        "simulator",
        "packets a second",
        "least to most",
        "set-up",
        "most memory",
    ]);
    for row in &figures.rows {
        rows.add_row(cells(row));
    }
    text::say!("{}", align(rows, 2));
    if !figures.rows.iter().any(|row| row.simulator == NS2) {
        text::say!("ns-2 is not installed (Debian: ns2), so there is nothing beside it.");
    }
    let r = &figures.replications;
    text::say!(
        "{} runs of A: {:.2} s on one thread, {:.2} s on {}.",
        r.runs,
        r.one,
        r.all,
        r.threads
    );
    let mut targets = table(&["target", "wanted", "measured", ""]);
    for target in &figures.targets {
        let met = if target.met { "met" } else { "missed" };
        let numbers = [target.target, target.measured].map(|number| format!("{number:.2}"));
        let [wanted, measured] = numbers;
        targets.add_row([target.name.clone(), wanted, measured, met.into()]);
    }
    text::say!("{}", align(targets, 1));
}

fn cells(row: &Row) -> [String; 6] {
    let optional = |figure: Option<String>| figure.unwrap_or_default();
    [
        row.dumbbell.clone(),
        row.simulator.into(),
        format!("{:.2} M", row.median / 1e6),
        format!("{:.2} to {:.2}", row.least / 1e6, row.most / 1e6),
        optional(
            row.setup_seconds
                .map(|seconds| format!("{:.1} ms", seconds * 1e3)),
        ),
        optional(row.peak_mb.map(|mb| format!("{mb:.1} MB"))),
    ]
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header(header);
    table
}
