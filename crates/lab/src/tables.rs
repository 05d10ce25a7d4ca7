// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of figures: in Markdown, and as JSON.

use std::path::Path;

use comfy_table::{CellAlignment, Row, Table, presets};
use makeway::session::write;
use makeway_report::estimate::{Estimate, Unit};
use serde::Serialize;

/// A table in Markdown, with this head.
pub fn markdown(head: impl Into<Row>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(head);
    table
}

/// Columns from the index `first` on to the right: they have numbers.
pub fn align(mut table: Table, first: usize) -> Table {
    for column in table.column_iter_mut().skip(first) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A column of means: its head, their unit, and the mean of a line.
pub struct Column<F>(pub &'static str, pub Unit, pub fn(&F) -> &Estimate);

/// A line for each sender, with its figures; a cell stays empty where no run has the figure.
pub fn of_senders<'r, F: 'r>(
    columns: &[Column<F>],
    lines: impl IntoIterator<Item = (&'r str, &'r F)>,
) -> Table {
    let heads = columns.iter().map(|Column(head, ..)| *head);
    let mut table = markdown(["sender"].into_iter().chain(heads));
    for (sender, figures) in lines {
        let cells = columns.iter().map(|Column(_, unit, of)| {
            let figure = of(figures);
            match figure.runs {
                0 => String::new(),
                _ => unit.show(figure),
            }
        });
        table.add_row([sender.to_owned()].into_iter().chain(cells));
    }
    align(table, 1)
}

/// Writes `rows` as JSON, where a file for it is named.
pub fn write_json(file: Option<&Path>, rows: &impl Serialize) -> anyhow::Result<()> {
    match file {
        Some(file) => write(file, &(serde_json::to_string_pretty(rows)? + "\n")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scripts/renew` writes the same.
    #[test]
    fn numbers_are_on_the_right_and_a_figure_of_no_run_is_empty() {
        let columns: [Column<[Estimate; 2]>; 2] = [
            Column("shown", Unit::Share, |of| &of[0]),
            Column("p99", Unit::Millis, |of| &of[1]),
        ];
        let none = Estimate::of([]);
        let lines = [
            [Estimate::of([1.0]), Estimate::of([4.5])],
            [Estimate::of([0.25]), none],
        ];
        let table = of_senders(&columns, ["fifo", "weighted"].into_iter().zip(&lines));
        let expected = [
            "| sender   | shown |    p99 |",
            "|----------|-------|--------|",
            "| fifo     | 100 % | 4.5 ms |",
            "| weighted |  25 % |        |",
        ];
        assert_eq!(table.to_string(), expected.join("\n"));
    }
}
