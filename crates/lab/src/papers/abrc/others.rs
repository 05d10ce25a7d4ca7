// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statements without figures, and choices that the paper leaves open: other UDP beside the stream, downloads from afar, occupancy in
//! bytes; the interval, the smoothing of BW*, and a pair of packets for T_UDP.

use makeway_report::estimate::Estimate;
use makeway_report::model::Report;
use makeway_report::summary::group;

use super::runs::{BYTES, CHOICES, CHOSEN, REMOTE, STATED, UDP, chosen};
use super::variants::{ALONE, EXACT, OURS, PRINTED, PRINTED_BUT, VARIANTS};
use super::{downloads, stream};
use crate::experiment::Results;
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{mean, plain};

/// The stream's payload by that of all others.
fn ratio(report: &Report) -> f64 {
    let udp = group(report, "udp").goodput_bps / 1e6;
    stream(report) / (downloads(report) + udp)
}

fn figure(r: &Results, column: &str, choice: &str, k: f64) -> Estimate {
    mean(&r[chosen(column, choice, k)], ratio)
}

pub fn claims(r: &Results) -> Vec<Claim> {
    let column = |column: &str, choice: &str| {
        Column::of(CHOSEN.map(|k| {
            let name = format!("stream by all others, k_T = {k}");
            (name, figure(r, column, choice, k))
        }))
    };
    let of = |choice: &str| Claim {
        printed: column(PRINTED, choice),
        ours: column(OURS, choice),
        ideal: "1, 2".into(),
        from: &["choice/"],
        ..Claim::default()
    };
    vec![
        Claim {
            id: "abrc.udp",
            paper: "k_T is the stream's rate by that of all other traffic together, other UDP too.".into(),
            setup: "802.11b at 11 Mbit/s, the stream beside one download and 1 Mbit/s of UDP in packets of 1500 B",
            tables: vec![table(r), alone(r)],
            ..of(UDP)
        },
        Claim {
            id: "abrc.remote",
            paper: "The senders of TCP may be at a distance, within the Internet.".into(),
            setup: "802.11b at 11 Mbit/s, the stream beside one download whose server is 50 ms away (Reno, window 64 KB)",
            ..of(REMOTE)
        },
        Claim {
            id: "abrc.bytes",
            paper: "With occupancies in bytes, packets may differ in length (footnote 1).".into(),
            why: "As printed: a frame of 802.11b takes much time besides that of its bytes; on a radio of 1 Mbit/s, where it takes little, the ratios are 1.07 and 2.20, and with an exact timer and T_UDP the mean they are 0.90 and 1.89 at 11 Mbit/s (table of abrc.udp). Ours has 0.81 and 1.64 on the slow radio, so that bytes and time are not its only cause: where acknowledgements are not counted it has 0.90 and 1.89, with packets of 1152 B 0.91 and 1.82.".into(),
            setup: "802.11b at 11 Mbit/s, the stream in packets of 768 B beside one download in packets of 1500 B",
            ..of(BYTES)
        },
    ]
}

/// A row of a table: the figures of each column and choice; empty where a cell is not run.
fn row(
    r: &Results,
    says: &str,
    cells: impl IntoIterator<Item = (&'static str, &'static str)>,
) -> Vec<String> {
    let shown = |column: &str, choice: &str, k: f64| {
        let runs = r.get(&chosen(column, choice, k));
        runs.map_or_else(String::new, |runs| plain(&mean(runs, ratio)))
    };
    let figures = cells
        .into_iter()
        .flat_map(|(column, choice)| CHOSEN.map(|k| shown(column, choice, k)));
    [says.to_owned()].into_iter().chain(figures).collect()
}

/// Each choice in both columns, one that changes a value of ours in ours alone; the paper's statements as printed with one change after the
/// other, too.
fn table(r: &Results) -> Table {
    let rows = CHOICES.map(|choice| {
        let columns = [PRINTED, OURS, EXACT, ALONE];
        row(r, choice.says, columns.map(|column| (column, choice.name)))
    });
    let columns = [
        "as printed",
        "ours",
        "as printed, exact timer",
        "exact timer and T_UDP",
    ];
    let head = columns
        .into_iter()
        .flat_map(|column| CHOSEN.map(|k| format!("{column}, k_T {k}")));
    Table {
        title: "The stream's rate by that of all others, one thing changed; rows that begin with \"in bytes\" against the row of footnote 1".into(),
        head: [String::from("with")].into_iter().chain(head).collect(),
        rows: rows.into(),
    }
}

/// The three statements as printed, with one change each.
fn alone(r: &Results) -> Table {
    let variants = [VARIANTS[0], VARIANTS[1]].into_iter().chain(PRINTED_BUT);
    let rows =
        variants.map(|variant| row(r, variant.says, STATED.map(|choice| (variant.name, choice))));
    let head = STATED
        .into_iter()
        .flat_map(|choice| CHOSEN.map(|k| format!("abrc.{choice}, k_T {k}")));
    Table {
        title: "abrc.udp, abrc.remote and abrc.bytes as printed, with each change alone".into(),
        head: [String::from("with")].into_iter().chain(head).collect(),
        rows: rows.collect(),
    }
}
