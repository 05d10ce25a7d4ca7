// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of verdicts.

use std::fmt::Write;

use makeway_report::table::{right, table};

use super::oracle::{Row, Verdict};

/// A line for each oracle, then how many hold, and where to read of the others.
pub fn of(rows: &[Row]) -> String {
    let mut table = table(&["what", "expected", "ours", "", "verdict"]);
    for row in rows {
        table.add_row([
            row.what.as_str().into(),
            right(row.expected.map_or_else(String::new, range)),
            right(ours(row)),
            row.unit.into(),
            row.verdict.name().into(),
        ]);
    }
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let mut out = format!("{table}\n{} hold", count(Verdict::Holds));
    for verdict in [Verdict::Differs, Verdict::Missed, Verdict::NotHere] {
        if count(verdict) > 0 {
            let _ = write!(out, ", {} {}", count(verdict), verdict.name());
        }
    }
    out += ".\n";
    for row in rows.iter().filter(|row| !row.why.is_empty()) {
        let _ = match row.verdict {
            Verdict::Differs => {
                writeln!(out, "{}: see docs/validation.md, {}", row.what, row.why)
            }
            _ => writeln!(out, "{}: {}", row.what, row.why),
        };
    }
    out
}

fn range([from, to]: [f64; 2]) -> String {
    match from == to {
        true => figure(from),
        false => format!("{} to {}", figure(from), figure(to)),
    }
}

fn ours(row: &Row) -> String {
    match (row.ours, row.interval) {
        (None, _) => String::new(),
        (Some(ours), None) => figure(ours),
        (Some(ours), Some(half)) => format!("{} ± {}", figure(ours), figure(half)),
    }
}

/// Five digits that count.
fn figure(x: f64) -> String {
    if x == x.round() && x.abs() < 1e9 {
        return format!("{x:.0}");
    }
    let digits = x.abs().log10().floor() as i32;
    let behind = (4 - digits).clamp(0, 9) as usize;
    let text = format!("{x:.behind$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn figures_have_five_digits_that_count() {
        let texts = [0.050_814, 107.964_2, 9.6, 4985.0, 1.009_375, 0.0].map(figure);
        assert_eq!(texts, ["0.050814", "107.96", "9.6", "4985", "1.0094", "0"]);
    }
}
