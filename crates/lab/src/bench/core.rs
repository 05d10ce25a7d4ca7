// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab bench core`: nanoseconds for an arrival and a departure, for each discipline.
//!
//! See [`super::rounds`].

use std::hint::black_box;
use std::process::ExitCode;

use clap::Args;
use makeway_core::sched::order::{Heaps, Tree};
use makeway_core::sched::sqf::Sqf;
use makeway_core::sched::{Backlog, Discipline, DropFrom, Drops, Scheduler};
use makeway_core::workload::{Bench, Case};
use makeway_core::{packet::Packet, units::Instant};
use serde::Serialize;

use super::rounds::{self, Cost, Subject};
use super::{Origin, Output};
use makeway::text;

/// Measures the schedulers: ns for each packet that comes and goes, making the packet included.
#[derive(Args)]
pub struct Core {
    #[command(flatten)]
    output: Output,
    /// Measures for a few seconds only, up to 65 536 flows.
    #[arg(long)]
    quick: bool,
    /// Only this number of flows [default: 1, 64, 1024, 65536, and 1048576 for `pairs`].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 22))]
    flows: Option<u32>,
    /// Only this case: pairs, waves or overload.
    #[arg(long, value_parser = case)]
    case: Option<Case>,
    /// Only this row, like sqf or sqf-heaps.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    origin: Origin,
    rows: Vec<Row>,
    targets: Vec<Target>,
}

#[derive(Serialize)]
struct Row {
    case: &'static str,
    name: &'static str,
    flows: u32,
    /// For each pair.
    #[serde(flatten)]
    cost: Cost,
}

#[derive(Serialize)]
struct Target {
    name: &'static str,
    flows: u32,
    /// At most this many ns for each pair.
    target: f64,
    /// The case `pairs`.
    measured: f64,
    met: bool,
}

/// Disciplines, flows, and the most that a pair may cost, in ns.
const TARGETS: [(&str, u32, f64); 6] = [
    ("sqf", 1024, 25.0),
    ("sqf", 65_536, 45.0),
    ("sqf", 1 << 20, 120.0),
    ("makeway", 1024, 60.0),
    ("makeway", 65_536, 90.0),
    ("makeway", 1 << 20, 250.0),
];

pub fn run(args: &Core) -> anyhow::Result<ExitCode> {
    let mut report = Report {
        origin: Origin::new("makeway-lab bench core"),
        rows: Vec::new(),
        targets: Vec::new(),
    };
    for case in Case::ALL {
        if args.case.is_some_and(|only| only != case) {
            continue;
        }
        for flows in sizes(args, case) {
            let rows = measure(args, case, flows)?;
            report.rows.extend(rows);
        }
        if args.output.has_tables() {
            print_case(&report, case);
        }
    }
    report.targets = targets(&report.rows);
    if args.output.has_tables() {
        print_end(&report);
    }
    args.output.json(&report)?;
    Ok(ExitCode::SUCCESS)
}

fn case(name: &str) -> Result<Case, String> {
    let found = Case::ALL.into_iter().find(|case| case.name() == name);
    found.ok_or_else(|| format!("`{name}` is not a case: choose pairs, waves or overload"))
}

/// A million flows take minutes in the other cases: they are measured when asked for by `--flows`.
fn sizes(args: &Core, case: Case) -> Vec<u32> {
    match args.flows {
        Some(flows) => vec![flows],
        None if args.quick || case != Case::Pairs => vec![1, 64, 1024, 65_536],
        None => vec![1, 64, 1024, 65_536, 1 << 20],
    }
}

fn subjects(args: &Core, case: Case, flows: u32) -> anyhow::Result<Vec<Subject>> {
    let bench = Bench::new(case, flows, 1);
    type Made = Box<dyn Scheduler + Send>;
    type Make<'a> = Box<dyn Fn() -> Made + 'a>;
    let limits = bench.env().limits;
    let mut all: Vec<(&str, Make<'_>)> = vec![("nothing", Box::new(|| Box::new(Nothing)))];
    for discipline in Discipline::ALL {
        let bench = &bench;
        all.push((discipline.name(), Box::new(move || bench.build(discipline))));
    }
    let heaps = move || -> Made { Box::new(Sqf::<Heaps>::new(limits, DropFrom::Head, 1)) };
    let tree = move || -> Made { Box::new(Sqf::<Tree>::new(limits, DropFrom::Head, 1)) };
    all.push(("sqf-heaps", Box::new(heaps)));
    all.push(("sqf-tree", Box::new(tree)));
    let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
    let mut subjects = Vec::new();
    for (name, make) in all {
        if args.only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        let (mut bench, mut scheduler) = (bench.clone(), make());
        bench.prefill(&mut *scheduler);
        let mut drops = Drops::with_capacity(16);
        let work = move |pairs| bench.run(&mut *scheduler, &mut drops, pairs);
        subjects.push(Subject {
            name,
            work: Box::new(work),
        });
    }
    anyhow::ensure!(
        !subjects.is_empty(),
        "`{}` is not measured here: choose one of {}",
        args.only.as_deref().unwrap_or_default(),
        names.join(", ")
    );
    Ok(subjects)
}

fn measure(args: &Core, case: Case, flows: u32) -> anyhow::Result<Vec<Row>> {
    // Some milliseconds each; many short rounds find the quiet moments of a shared machine.
    let (rounds, least) = if args.quick {
        (7, 50_000)
    } else {
        (15, 200_000)
    };
    let pairs = (u64::from(flows) / 2).max(least);
    let costs = rounds::measure(subjects(args, case, flows)?, rounds, pairs);
    let rows = costs.into_iter().map(|(name, cost)| Row {
        case: case.name(),
        name,
        flows,
        cost,
    });
    Ok(rows.collect())
}

fn targets(rows: &[Row]) -> Vec<Target> {
    let target = |(name, flows, target): (&'static str, u32, f64)| {
        let is_it = |row: &&Row| row.name == name && row.flows == flows && row.case == "pairs";
        let measured = rows.iter().find(is_it)?.cost.median;
        Some(Target {
            name,
            flows,
            target,
            measured,
            met: measured <= target,
        })
    };
    TARGETS.into_iter().filter_map(target).collect()
}

fn print_case(report: &Report, case: Case) {
    let rows = report.rows.iter().filter(|row| row.case == case.name());
    let rows: Vec<_> = rows.map(|row| (row.name, row.flows, row.cost)).collect();
    let title = format!("{case}: ns for each packet in and out");
    rounds::print(&title, "flows", &rows);
}

fn print_end(report: &Report) {
    for target in &report.targets {
        text::say!(
            "target: {} at {} flows, at most {} ns in `pairs`: {:.1} ns, {}",
            target.name,
            target.flows,
            target.target,
            target.measured,
            if target.met { "met" } else { "missed" }
        );
    }
    text::say!(
        "`nothing` only makes the packets; `sqf-heaps` and `sqf-tree` are published structures."
    );
    text::say!("{}", report.origin);
}

/// Looks at each packet and forgets it: what the traffic itself costs.
struct Nothing;

impl Scheduler for Nothing {
    fn enqueue(&mut self, _now: Instant, pkt: Packet, _drops: &mut Drops) {
        black_box(pkt.len());
    }

    fn dequeue(&mut self, _now: Instant, _drops: &mut Drops) -> Option<Packet> {
        None
    }

    fn next_departure(&self) -> Option<Instant> {
        None
    }

    fn backlog(&self) -> Backlog {
        Backlog::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_of_pairs_under_each_discipline_that_has_some() {
        let row = |case, name, flows, median| Row {
            case,
            name,
            flows,
            cost: Cost {
                median,
                least: median,
                p90: median,
            },
        };
        let rows = [
            row("pairs", "makeway", 1024, 60.0),
            row("pairs", "makeway", 65_536, 90.1),
            row("waves", "sqf", 1024, 1.0),
            row("pairs", "sqf", 1024, 25.1),
            row("pairs", "fifo", 1024, 1.0),
        ];
        let found = targets(&rows);
        let told: Vec<_> = found.iter().map(|t| (t.name, t.flows, t.met)).collect();
        let expected = [
            ("sqf", 1024, false),
            ("makeway", 1024, true),
            ("makeway", 65_536, false),
        ];
        assert_eq!(told, expected);
    }
}
