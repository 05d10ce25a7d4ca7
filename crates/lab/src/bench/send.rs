// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab bench send`: what a datagram costs a sender, and how evenly it leaves.

mod paced;

use std::collections::VecDeque;
use std::hint::black_box;
use std::process::ExitCode;

use clap::Args;
use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use makeway_core::send::{AnyPolicy, Datagram};
use makeway_core::units::Instant;
use makeway_core::workload::{SendBench, SendCase};
use serde::Serialize;

use super::rounds::{self, Cost, Subject};
use super::{Origin, Output};
use makeway::text;
use paced::Paced;

/// Measures the sender's half: ns for each datagram that comes and ends, by policy and by how many wait, beside a bare ring; the pace of
/// a sender over UDP on the loopback, beside a bare loop
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
    /// The median, by that of the ring in the same rounds.
    ratio: f64,
}

/// A ring of as many datagrams: one comes in, the oldest leaves.
const RING: &str = "ring";

#[derive(Serialize)]
struct Target {
    name: String,
    unit: &'static str,
    target: f64,
    measured: f64,
    met: bool,
    /// By the bare ring, or the bare loop, where it is a time.
    ratio: Option<f64>,
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
    let ring = Subject {
        name: RING,
        work: Box::new(ring(waiting)),
    };
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
    let subjects = std::iter::once(ring).chain(subjects).collect();
    let costs = rounds::measure(subjects, rounds, work);
    let least = costs[0].1.median;
    let row = |(policy, cost): (_, Cost)| Row {
        case: case.name(),
        policy,
        waiting,
        cost,
        ratio: cost.median / least,
    };
    costs.into_iter().map(row).collect()
}

fn ring(waiting: u32) -> impl FnMut(u64) -> u64 {
    let datagram = |deadline| Datagram {
        class: 1,
        len: 1000,
        deadline: Instant::from_nanos(deadline),
        frame: None,
    };
    let mut ring: VecDeque<Datagram> = (0..waiting.into()).map(datagram).collect();
    move |datagrams| {
        for deadline in 0..datagrams {
            ring.push_back(black_box(datagram(deadline)));
            black_box(ring.pop_front());
        }
        datagrams
    }
}

fn targets(rows: &[Row], paced: &Paced) -> Vec<Target> {
    let costs = COSTS.into_iter().filter_map(|(waiting, target)| {
        let pairs = |row: &&Row| row.case == SendCase::Pairs.name() && row.waiting == waiting;
        let by_cost = |a: &&Row, b: &&Row| a.cost.median.total_cmp(&b.cost.median);
        let row = rows.iter().filter(pairs).max_by(by_cost)?;
        let measured = row.cost.median;
        Some(Target {
            name: format!("the dearest policy, {waiting} waiting, at most"),
            unit: "ns",
            target,
            measured,
            met: measured <= target,
            ratio: Some(row.ratio),
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
            ratio: None,
        },
        Target {
            name: "processor time of its thread, at most".into(),
            unit: "% of a core",
            target: 100.0,
            measured: paced.core_percent,
            met: paced.core_percent <= 100.0,
            ratio: Some(paced.ratio.core),
        },
        Target {
            name: "pacing error p99, at most".into(),
            unit: "ms",
            target: 1.0,
            measured: paced.error_ms.p99,
            met: paced.error_ms.p99 <= 1.0,
            ratio: Some(paced.ratio.p99),
        },
    ];
    costs.chain(pace).collect()
}

fn print_end(report: &Report) {
    text::say!("{}", report.paced);
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header(["target", "wanted", "measured", "", "by a bare one"]);
    for target in &report.targets {
        let [wanted, measured] =
            [target.target, target.measured].map(|x| format!("{x:.2} {}", target.unit));
        let met = if target.met { "met" } else { "missed" };
        let ratio = target.ratio.map(|ratio| format!("{ratio:.2}"));
        let ratio = ratio.unwrap_or_default();
        table.add_row([target.name.clone(), wanted, measured, met.into(), ratio]);
    }
    text::say!("{table}");
    text::say!("{}", report.origin);
}
