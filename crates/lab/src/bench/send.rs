// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab bench send`: what a datagram costs a sender, and how evenly it leaves.

mod paced;

use std::process::ExitCode;

use clap::Args;
use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use makeway_core::send::AnyPolicy;
use makeway_core::workload::{SendBench, SendCase};
use serde::Serialize;

use super::rounds::{self, Cost, Subject};
use super::{Origin, Output};
use makeway::text;
use paced::Paced;

/// Measures the sender's half: ns for each datagram that comes and ends, by policy and by how many wait; the pace of a sender over UDP
/// on the loopback
#[derive(Args)]
#[command(
    after_help = "Examples:\n  makeway-lab bench send\n  makeway-lab bench send --json send.json"
)]
pub struct SendArgs {
    #[command(flatten)]
    output: Output,
    /// Measures for a few seconds only
    #[arg(long)]
    quick: bool,
    /// Only this policy, like sbpn2
    #[arg(long, value_name = "NAME")]
    only: Option<AnyPolicy>,
    /// Only this many that wait [default: 32, 1000, 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    waiting: Option<u32>,
    /// Seconds for which the paced sender sends
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    origin: Origin,
    rows: Vec<Row>,
    paced: Paced,
    targets: Vec<Target>,
}

#[derive(Serialize)]
struct Row {
    case: &'static str,
    policy: &'static str,
    waiting: u32,
    /// For each datagram.
    #[serde(flatten)]
    cost: Cost,
}

#[derive(Serialize)]
struct Target {
    name: String,
    unit: &'static str,
    target: f64,
    measured: f64,
    met: bool,
}

/// How many wait, and the most that a datagram may cost in `pairs` under any policy, in ns.
const COSTS: [(u32, f64); 2] = [(32, 150.0), (100_000, 400.0)];

pub fn run(args: &SendArgs) -> anyhow::Result<ExitCode> {
    let origin = Origin::new("makeway-lab bench send");
    let sizes = match args.waiting {
        Some(waiting) => vec![waiting],
        None => vec![32, 1000, 100_000],
    };
    let mut rows = Vec::new();
    for case in SendCase::ALL {
        let of_case: Vec<Row> = sizes
            .iter()
            .flat_map(|waiting| measure(args, case, *waiting))
            .collect();
        if args.output.has_tables() {
            let rows: Vec<_> = of_case
                .iter()
                .map(|row| (row.policy, row.waiting, row.cost))
                .collect();
            let title = format!("{case}: ns for each datagram that comes and ends");
            rounds::print(&title, "waiting", &rows);
        }
        rows.extend(of_case);
    }
    let paced = paced::run(args.seconds)?;
    let targets = targets(&rows, &paced);
    let report = Report {
        origin,
        rows,
        paced,
        targets,
    };
    if args.output.has_tables() {
        print_end(&report);
    }
    args.output.json(&report)?;
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &SendArgs, case: SendCase, waiting: u32) -> Vec<Row> {
    let policies = AnyPolicy::all().into_iter();
    let policies = policies.filter(|policy| args.only.is_none_or(|only| only == *policy));
    let subjects = policies.map(|policy| {
        let mut bench = SendBench::new(case, policy, waiting, 1);
        Subject {
            name: policy.name(),
            work: Box::new(move |datagrams| bench.run(datagrams)),
        }
    });
    let (rounds, work) = if args.quick {
        (7, 50_000)
    } else {
        (15, 200_000)
    };
    let costs = rounds::measure(subjects.collect(), rounds, work);
    let row = |(policy, cost)| Row {
        case: case.name(),
        policy,
        waiting,
        cost,
    };
    costs.into_iter().map(row).collect()
}

fn targets(rows: &[Row], paced: &Paced) -> Vec<Target> {
    let costs = COSTS.into_iter().filter_map(|(waiting, target)| {
        let pairs = |row: &&Row| row.case == SendCase::Pairs.name() && row.waiting == waiting;
        let costs = rows.iter().filter(pairs).map(|row| row.cost.median);
        let measured = costs.max_by(f64::total_cmp)?;
        Some(Target {
            name: format!("the dearest policy, {waiting} waiting, at most"),
            unit: "ns",
            target,
            measured,
            met: measured <= target,
        })
    });
    let pace = [
        Target {
            name: "paced sender, at least".into(),
            unit: "packet/s",
            target: paced.wanted,
            measured: paced.rate,
            // The effect of the clock's last packet.
            met: paced.rate >= paced.wanted * 0.9999,
        },
        Target {
            name: "processor time of its thread, at most".into(),
            unit: "% of a core",
            target: 100.0,
            measured: paced.core_percent,
            met: paced.core_percent <= 100.0,
        },
        Target {
            name: "pacing error p99, at most".into(),
            unit: "ms",
            target: 1.0,
            measured: paced.error_ms.p99,
            met: paced.error_ms.p99 <= 1.0,
        },
    ];
    costs.chain(pace).collect()
}

fn print_end(report: &Report) {
    text::say!("{}", report.paced);
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header(["target", "wanted", "measured", ""]);
    for target in &report.targets {
        let [wanted, measured] =
            [target.target, target.measured].map(|x| format!("{x:.2} {}", target.unit));
        let met = if target.met { "met" } else { "missed" };
        table.add_row([target.name.clone(), wanted, measured, met.into()]);
    }
    text::say!("{table}");
    text::say!("{}", report.origin);
}
