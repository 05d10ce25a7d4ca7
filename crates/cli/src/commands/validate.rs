//! `makeway validate`: the simulator against closed forms and other people's simulators.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use indicatif::ProgressBar;
use makeway_core::units::Duration;
use makeway_report::model::Report;
use makeway_sim::Options;
use makeway_sim::tcp::{Config, DelayedAck, Variant};
use serde::Serialize;

use super::session;
use crate::text;

/// Holds the simulator against values that were computed or measured independently of it
///
/// Takes some seconds. Exit status 1 if one of them is missed.
#[derive(Args)]
#[command(after_help = "Examples:\n  makeway validate\n  makeway validate --json validation.json")]
pub struct Validate {
    /// Writes the table as JSON: an array of what, source, expected, ours, verdict, why.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A value that somebody else knows.
struct Oracle {
    what: String,
    source: &'static str,
    unit: &'static str,
    /// From, to: a tolerance around a value, or what others agree on.
    expected: [f64; 2],
    scenario: Setup,
    ours: fn(&Report) -> f64,
    /// What is thought to be the reason where it is known to differ.
    why: &'static str,
}

struct Setup {
    text: &'static str,
    set: Vec<String>,
    tcp: Option<Config>,
}

#[derive(Serialize)]
struct Row {
    what: String,
    source: &'static str,
    unit: &'static str,
    expected: [f64; 2],
    ours: f64,
    verdict: &'static str,
    why: &'static str,
}

const SINGLE_QUEUE: &str = include_str!("validate/queue.toml");
const LOSSY_LINK: &str = include_str!("validate/loss.toml");
const DUMBBELL: &str = include_str!("bench/sim/dumbbell.toml");

/// Runs it.
pub fn run(args: &Validate) -> anyhow::Result<ExitCode> {
    let oracles = oracles();
    let bar = ProgressBar::new(oracles.len() as u64);
    let stop = session::stop_on_signals()?;
    let mut rows = Vec::new();
    for oracle in oracles {
        let setup = &oracle.scenario;
        let scenario =
            makeway_scenario::parse(setup.text, &oracle.what, Path::new("."), &setup.set)?;
        let options = Options {
            stop: stop.clone(),
            tcp: setup.tcp,
            ..Options::default()
        };
        let report = makeway_sim::run(&scenario, &options, |_| {})?;
        if !report.complete {
            return Ok(session::exit_code(false));
        }
        let ours = (oracle.ours)(&report);
        let [from, to] = oracle.expected;
        let verdict = match ((from..=to).contains(&ours), oracle.why) {
            (true, _) => "holds",
            (false, "") => "missed",
            (false, _) => "differs",
        };
        rows.push(Row {
            what: oracle.what,
            source: oracle.source,
            unit: oracle.unit,
            expected: oracle.expected,
            ours,
            verdict,
            why: if verdict == "differs" { oracle.why } else { "" },
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&rows)? + "\n";
        std::fs::write(path, json)
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    print(&rows);
    let missed = rows.iter().any(|row| row.verdict == "missed");
    Ok(if missed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Thought to be why ns-3 drops half as much.
const GROWTH: &str = "Our window grows by what is acknowledged (RFC 3465, as Linux), ns-3's by a fixed step for each acknowledgement, of which delayed ones are half as many: half the growth would be half the losses. Not shown by an experiment yet.";

fn oracles() -> Vec<Oracle> {
    let around = |value: f64, share: f64| [value * (1.0 - share), value * (1.0 + share)];
    let mut oracles = Vec::new();
    for (load, wait, share) in [(0.5, 0.6, 0.02), (0.8, 2.4, 0.03), (0.9, 5.4, 0.05)] {
        oracles.push(Oracle {
            what: format!("M/D/1 at {load} load: mean wait"),
            source: "Pollaczek-Khinchine: rho / (2 (1 - rho)) services of 1.2 ms",
            unit: "ms",
            expected: around(wait, share),
            scenario: Setup {
                text: SINGLE_QUEUE,
                set: vec![format!("flow.poisson.rate={}mbit", load * 10.0)],
                tcp: None,
            },
            ours: |report| report.queues[0].sojourn_ms.mean,
            why: "",
        });
    }
    for (loss, packets) in [(0.001, 383.8), (0.01, 112.3), (0.05, 36.86)] {
        oracles.push(Oracle {
            what: format!("NewReno at {loss} loss, 100 ms: packet/s"),
            source: "Padhye, Firoiu, Towsley, Kurose 1998, b = 1, T0 = 0.4 s",
            unit: "1/s",
            expected: around(packets, 0.2),
            scenario: Setup {
                text: LOSSY_LINK,
                set: vec![format!("link.line.loss=[{loss}, 0.0]")],
                // What the formula assumes: T0 is the round trip of 0.1 s and this margin.
                tcp: Some(Config {
                    delayed_ack: DelayedAck::Off,
                    limited_transmit: false,
                    min_rto_margin: Duration::from_millis(300),
                    ..Config::linux(Variant::NewReno)
                }),
            },
            ours: |report| report.flows[0].goodput_bps / 8.0 / 1448.0,
            why: "",
        });
    }
    let dumbbell = |what: &str, unit, expected, ours, why| Oracle {
        what: format!("20 downloads, 10 Mbit/s, 100 packets: {what}"),
        source: "ns-3.37 and ns-3.48, pfifo",
        unit,
        expected,
        scenario: Setup {
            text: DUMBBELL,
            set: Vec::new(),
            // As ns-3 has it: SACK, delayed acknowledgements, a least timeout of 1 s.
            tcp: Some(Config {
                min_rto: Duration::from_secs(1),
                min_rto_margin: Duration::ZERO,
                ..Config::linux(Variant::Sack)
            }),
        },
        ours,
        why,
    };
    oracles.push(dumbbell(
        "goodput",
        "Mbit/s",
        [9.60, 9.66],
        |report| report.flows.iter().map(|flow| flow.goodput_bps / 1e6).sum(),
        "",
    ));
    oracles.push(dumbbell(
        "sojourn",
        "ms",
        [103.0, 107.0],
        |report| report.queues[0].sojourn_ms.mean,
        GROWTH,
    ));
    oracles.push(dumbbell(
        "drops",
        "",
        [1040.0, 1140.0],
        |report| report.queues[0].drops.values().sum::<u64>() as f64,
        GROWTH,
    ));
    oracles
}

fn print(rows: &[Row]) {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header(["what", "expected", "ours", "verdict"]);
    for row in rows {
        let [from, to] = row.expected.map(|x| format!("{x:.4}"));
        table.add_row([
            row.what.clone(),
            format!("{from} to {to} {}", row.unit),
            format!("{:.4}", row.ours),
            row.verdict.into(),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    text::say!("{table}");
    for row in rows.iter().filter(|row| !row.why.is_empty()) {
        text::say!("{}: {}", row.what, row.why);
    }
}
