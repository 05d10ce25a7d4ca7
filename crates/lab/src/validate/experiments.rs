// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes of differences between ours and theirs, by one change at a time. The tables of docs/validation.md.

use makeway_core::measure::Moments;
use makeway_report::table::{right, table};
use makeway_sim::tcp::{Config, Halved, LimitedTransmit, Recovery, Variant};

use super::oracle::Bench;
use super::oracles::ns3::{self, FIGURES, FQ_CODEL, ns3};
use super::oracles::red;
use makeway::text;

/// A name, what it sets in the scenario, TCP.
type Change = (&'static str, Vec<&'static str>, Config);

/// Prints them.
///
/// # Errors
/// A run was stopped.
pub fn run(bench: &Bench) -> anyhow::Result<()> {
    let seeds = ns3::SEEDS;
    text::say!(
        "Twenty downloads as ns-3 has them, and with one thing changed; means of {seeds} seeds"
    );
    let with = |config: fn(&mut Config)| {
        let mut tcp = ns3();
        config(&mut tcp);
        tcp
    };
    let linux = Config::linux(Variant::Sack);
    let tcp: Vec<(&'static str, Config)> = vec![
        ("as ns-3", ns3()),
        ("growth by bytes", with(|tcp| tcp.growth_limit = 2)),
        (
            "half of FlightSize",
            with(|tcp| tcp.halved = Halved::Outstanding),
        ),
        (
            "no limited transmit",
            with(|tcp| tcp.limited_transmit = LimitedTransmit::Off),
        ),
        (
            "no growth at a recovery's end",
            with(|tcp| tcp.counts_delivered = false),
        ),
        ("reduced at once", with(|tcp| tcp.recovery = Recovery::Sack)),
        ("no SACK", with(|tcp| tcp.variant = Variant::NewReno)),
        ("initial window 1", with(|tcp| tcp.initial_window = 1)),
        ("as Linux", linux),
    ];
    let all = |set: &[&'static str]| -> Vec<Change> {
        let changes = tcp.iter();
        changes
            .map(|(name, tcp)| (*name, set.to_vec(), *tcp))
            .collect()
    };
    let mut pfifo = all(&[]);
    pfifo.insert(1, ("no framing", vec!["link.line.framing=ip"], ns3()));
    print(bench, "pfifo", &pfifo)?;
    let mut fq_codel = all(&FQ_CODEL);
    let [discipline, limit, quantum, mtu] = FQ_CODEL;
    let own = [
        ("quantum 1514 B", vec![discipline, limit, mtu]),
        ("two packets behind", vec![discipline, limit, quantum]),
        ("both", vec![discipline, limit]),
    ];
    fq_codel.splice(1..1, own.map(|(name, set)| (name, set, ns3())));
    print(bench, "FqCoDel", &fq_codel)?;
    text::say!(
        "Nine downloads through RED, by what limited transmit lets out; means of {seeds} seeds"
    );
    for (name, limited) in [
        ("nothing", LimitedTransmit::Off),
        ("new data (RFC 3042)", LimitedTransmit::New),
        ("any data (ns-2)", LimitedTransmit::Any),
    ] {
        show(name, &red::FIGURES, &red::experiment(bench, limited)?);
    }
    Ok(())
}

fn print(bench: &Bench, queue: &str, changes: &[Change]) -> anyhow::Result<()> {
    let each = changes.iter();
    let rows: anyhow::Result<Vec<_>> = each
        .map(|(name, set, tcp)| Ok((*name, ns3::means(bench, set, tcp)?)))
        .collect();
    show(queue, &FIGURES, &rows?);
    Ok(())
}

fn show(name: &str, figures: &[(&str, &str)], rows: &[(&str, [Moments; 4])]) {
    let mut head = vec![name.to_owned()];
    head.extend(figures.iter().map(|(what, unit)| format!("{what} {unit}")));
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let mut table = table(&head);
    for (name, means) in rows {
        let mut cells = vec![(*name).into()];
        cells.extend(means.iter().map(|runs| right(cell(runs))));
        table.add_row(cells);
    }
    text::say!("{table}");
}

fn cell(runs: &Moments) -> String {
    let behind = if runs.mean() < 20.0 { 4 } else { 1 };
    let half = runs.interval95().unwrap_or_default();
    format!("{:.behind$} ± {half:.behind$}", runs.mean())
}
