//! `makeway bench sim`: packets a second of wall time through a simulated dumbbell, beside ns-2.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use makeway_scenario::Scenario;
use makeway_sim::tcp::{Config, DelayedAck, Variant};
use makeway_sim::{Options, run_in_full};
use serde::Serialize;

use crate::text;

/// Measure the simulator: packets that its bottleneck forwards in a second of wall time, beside ns-2
/// where `ns` is installed
///
/// All are run in turn, round after round, so that a machine that changes its speed changes all alike.
#[derive(Args)]
#[command(after_help = "Examples:\n  makeway bench sim\n  makeway bench sim --json > sim.json")]
pub struct SimArgs {
    /// Print JSON in the place of the table
    #[arg(long)]
    json: bool,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
}

/// A dumbbell: its name, what it changes in the scenario, ns-2's arguments.
const DUMBBELLS: [(&str, &[&str], [&str; 5]); 2] = [
    (
        "A: 10 Mbit/s, 20 flows",
        &[],
        ["10Mb", "100Mb", "20", "60", "100"],
    ),
    (
        "B: 1 Gbit/s, 100 flows",
        &[
            "duration=5s",
            "link.access.rate=10gbit",
            "link.line.rate=1gbit",
            "link.delivery.rate=10gbit",
            "link.line.queue.limit=1667 packets",
            "flow.download.count=100",
            "flow.download.stagger=1ms",
        ],
        ["1Gb", "10Gb", "100", "5", "1667"],
    ),
];

/// What our simulator runs: name, discipline, variant, delayed acknowledgements, target on A and on B.
type Kind = (&'static str, &'static str, Variant, bool, [Option<f64>; 2]);
const KINDS: [Kind; 3] = [
    (
        "fifo, NewReno",
        "fifo",
        Variant::NewReno,
        false,
        [Some(2.2e6), Some(1.9e6)],
    ),
    (
        "fifo, SACK, delayed ACK",
        "fifo",
        Variant::Sack,
        true,
        [Some(1e6), None],
    ),
    ("sqf, NewReno", "sqf", Variant::NewReno, false, [None, None]),
];

#[derive(Serialize)]
struct Row {
    dumbbell: &'static str,
    simulator: String,
    /// Forwarded by the bottleneck, in one second of wall time: median, least, most.
    median: f64,
    least: f64,
    most: f64,
    target: Option<f64>,
    met: Option<bool>,
}

/// Runs it.
pub fn run(args: &SimArgs) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    for (n, (dumbbell, changes, ns2)) in DUMBBELLS.into_iter().enumerate() {
        let mut samples = vec![Vec::new(); KINDS.len() + 1];
        let scenarios = KINDS.map(|(_, discipline, ..)| scenario(changes, discipline));
        for _ in 0..args.rounds {
            for ((scenario, kind), samples) in scenarios.iter().zip(KINDS).zip(&mut samples) {
                samples.push(forwarded(scenario.as_ref().map_err(Clone::clone), &kind)?);
            }
            samples[KINDS.len()].extend(ns2_forwarded(ns2)?);
        }
        let names = KINDS.map(|(name, ..)| format!("makeway, {name}"));
        let names = names.into_iter().chain(["ns-2, DropTail, NewReno".into()]);
        let targets = KINDS.map(|(.., targets)| targets[n]);
        let targets = targets.into_iter().chain([None]);
        for ((simulator, mut samples), target) in names.zip(samples).zip(targets) {
            samples.sort_by(f64::total_cmp);
            let Some(&least) = samples.first() else {
                continue;
            };
            let median = samples[samples.len() / 2];
            rows.push(Row {
                dumbbell,
                simulator,
                median,
                least,
                most: samples[samples.len() - 1],
                target,
                met: target.map(|target| median >= target),
            });
        }
    }
    match args.json {
        true => text::say!("{}", serde_json::to_string_pretty(&rows)?),
        false => print(&rows),
    }
    Ok(ExitCode::SUCCESS)
}

fn scenario(changes: &[&str], discipline: &str) -> Result<Scenario, String> {
    let mut set: Vec<String> = changes.iter().map(|change| (*change).into()).collect();
    set.push(format!("link.line.queue.discipline={discipline}"));
    let text = include_str!("sim/dumbbell.toml");
    makeway_scenario::parse(text, "dumbbell.toml", Path::new("."), &set).map_err(|e| e.to_string())
}

fn forwarded(scenario: Result<&Scenario, String>, kind: &Kind) -> anyhow::Result<f64> {
    let scenario = scenario.map_err(anyhow::Error::msg)?;
    let (_, _, variant, delayed, _) = *kind;
    let mut tcp = Config::linux(variant);
    if !delayed {
        tcp.delayed_ack = DelayedAck::Off;
    }
    let options = Options {
        tcp: Some(tcp),
        ..Options::default()
    };
    let begun = Instant::now();
    let outcome = run_in_full(scenario, &options, |_| {})?;
    let seconds = begun.elapsed().as_secs_f64();
    let line = outcome
        .report
        .queues
        .first()
        .context("no queue was measured")?;
    Ok(line.packets_out as f64 / seconds)
}

/// `None` where ns-2 is not installed.
fn ns2_forwarded(arguments: [&str; 5]) -> anyhow::Result<Option<f64>> {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("dumbbell.tcl");
    std::fs::write(&script, include_str!("sim/dumbbell.tcl"))?;
    let Ok(output) = Command::new("ns").arg(script).args(arguments).output() else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let figures: Vec<f64> = text
        .split_whitespace()
        .filter_map(|f| f.parse().ok())
        .collect();
    match figures[..] {
        [packets, ms] if ms > 0.0 => Ok(Some(packets / ms * 1e3)),
        _ => Ok(None),
    }
}

fn print(rows: &[Row]) {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "dumbbell",
        "simulator",
        "packets a second",
        "least to most",
        "target",
    ]);
    for row in rows {
        let target = match (row.target, row.met) {
            (Some(target), Some(true)) => format!("{:.1} M, met", target / 1e6),
            (Some(target), _) => format!("{:.1} M, missed", target / 1e6),
            _ => String::new(),
        };
        table.add_row([
            row.dumbbell.to_owned(),
            row.simulator.clone(),
            format!("{:.2} M", row.median / 1e6),
            format!("{:.2} to {:.2}", row.least / 1e6, row.most / 1e6),
            target,
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    text::say!("{table}");
    if !rows.iter().any(|row| row.simulator.starts_with("ns-2")) {
        text::say!("ns-2 is not installed (Debian: ns2), so there is nothing beside it.");
    }
}
