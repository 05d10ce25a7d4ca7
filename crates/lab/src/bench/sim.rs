// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab bench sim`: packets a second of wall time through simulated dumbbells, beside ns-2; what
//! many flows cost, memory, and many runs on all cores.

mod cases;
mod table;

use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Args;
use serde::Serialize;

use self::cases::{Dumbbell, NS2, Sample, dumbbells};
use super::{Origin, Output};

/// Measures the simulator: packets that its bottleneck forwards in a second of wall time, beside ns-2
/// where `ns` is installed; memory; many runs on all cores.
///
/// All are run in turn, round after round, so that a machine that changes its speed changes all alike.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  makeway-lab bench sim\n  makeway-lab bench sim --json sim.json"
)]
pub struct SimArgs {
    #[command(flatten)]
    output: Output,
    /// Rounds; the median counts. The largest dumbbell has three at most.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Runs the case of this number once, and prints the most memory that this process had, in kB.
    #[arg(long, hide = true, value_name = "N")]
    peak_of: Option<usize>,
}

/// Packets a second of FIFO and NewReno, and of FIFO with SACK and delayed ACK, on A and on B.
const SPEEDS: [[Option<f64>; 2]; 2] = [[Some(2.2e6), Some(1e6)], [Some(1.9e6), None]];
/// Cost allowed for SQF: at least this part of FIFO's packets a second.
const SQF_SHARE: f64 = 0.8;
/// The most memory on A, in MB.
const PEAK: f64 = 10.0;
/// On `n` cores, many runs are at least this part of `n` times as fast as on one.
const EFFICIENCY: f64 = 0.9;

#[derive(Serialize)]
struct Figures {
    #[serde(flatten)]
    origin: Origin,
    rows: Vec<Row>,
    replications: Replications,
    targets: Vec<Target>,
}

#[derive(Serialize)]
struct Row {
    dumbbell: String,
    simulator: &'static str,
    /// Forwarded by the bottleneck, in one second of wall time: median, least, most.
    median: f64,
    least: f64,
    most: f64,
    /// To build the world and to report.
    setup_seconds: Option<f64>,
    /// The most memory that a process of its own had, the program included.
    peak_mb: Option<f64>,
}

/// The same small scenario again and again.
#[derive(Serialize)]
struct Replications {
    runs: usize,
    threads: usize,
    /// Seconds on one thread, then on all.
    one: f64,
    all: f64,
    /// Median of the rounds' ratios.
    efficiency: f64,
}

#[derive(Serialize)]
struct Target {
    name: String,
    target: f64,
    measured: f64,
    met: bool,
}

/// Runs it.
pub fn run(args: &SimArgs) -> anyhow::Result<ExitCode> {
    let dumbbells = dumbbells();
    if let Some(number) = args.peak_of {
        return peak_here(&dumbbells, number);
    }
    let mut figures = Figures {
        origin: Origin::new("makeway-lab bench sim"),
        rows: Vec::new(),
        replications: replicate(&dumbbells[0], args.rounds)?,
        targets: Vec::new(),
    };
    let largest = dumbbells.len() - 1;
    let mut number = 0;
    for (n, dumbbell) in dumbbells.iter().enumerate() {
        let rounds = if n == largest {
            args.rounds.min(3)
        } else {
            args.rounds
        };
        figures.rows.extend(measure(dumbbell, rounds, number)?);
        number += dumbbell.kinds.len();
    }
    figures.targets = targets(&dumbbells, &figures);
    if args.output.has_tables() {
        table::print(&figures);
    }
    args.output.json(&figures)?;
    Ok(ExitCode::SUCCESS)
}

/// The rows of `dumbbell`, whose cases are numbered from `number` on.
fn measure(dumbbell: &Dumbbell, rounds: u32, number: usize) -> anyhow::Result<Vec<Row>> {
    let scenarios = dumbbell.kinds.iter().map(|kind| dumbbell.scenario(kind));
    let scenarios = scenarios.collect::<anyhow::Result<Vec<_>>>()?;
    let mut samples: Vec<Vec<Sample>> = dumbbell.kinds.iter().map(|_| Vec::new()).collect();
    let mut ns2 = Vec::new();
    for _ in 0..rounds {
        for ((kind, scenario), samples) in dumbbell.kinds.iter().zip(&scenarios).zip(&mut samples) {
            samples.push(kind.sample(scenario)?);
        }
        ns2.extend(dumbbell.ns2()?);
    }
    let mut rows = Vec::new();
    for (n, (kind, samples)) in dumbbell.kinds.iter().zip(samples).enumerate() {
        let mut setups: Vec<f64> = samples.iter().map(|sample| sample.setup).collect();
        let speeds = samples.iter().map(|sample| sample.speed).collect();
        let mut row = row(dumbbell, kind.name, speeds);
        row.setup_seconds = Some(median(&mut setups));
        row.peak_mb = peak(number + n)?;
        rows.push(row);
    }
    if !ns2.is_empty() {
        rows.push(row(dumbbell, NS2, ns2));
    }
    Ok(rows)
}

fn row(dumbbell: &Dumbbell, simulator: &'static str, mut speeds: Vec<f64>) -> Row {
    let median = median(&mut speeds);
    Row {
        dumbbell: dumbbell.name.clone(),
        simulator,
        median,
        least: speeds[0],
        most: speeds[speeds.len() - 1],
        setup_seconds: None,
        peak_mb: None,
    }
}

/// Median of one sample or more; sorts them.
fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// The most memory, in MB, of a process that does nothing but the case of this number.
fn peak(number: usize) -> anyhow::Result<Option<f64>> {
    let program = std::env::current_exe().context("this program cannot find itself")?;
    let output = Command::new(program)
        .args(["bench", "sim", "--peak-of", &number.to_string()])
        .output()?;
    ensure!(
        output.status.success(),
        "measuring memory: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let kib: Option<f64> = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
    Ok(kib.map(|kib| kib * 1.024 / 1e3))
}

fn peak_here(dumbbells: &[Dumbbell], number: usize) -> anyhow::Result<ExitCode> {
    let mut cases = dumbbells
        .iter()
        .flat_map(|dumbbell| dumbbell.kinds.iter().map(move |kind| (dumbbell, kind)));
    let (dumbbell, kind) = cases.nth(number).context("there is no such case")?;
    kind.run(&dumbbell.scenario(kind)?)?;
    // VmHWM of proc(5), in KiB.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    makeway::text::say!("{}", peak.unwrap_or_default().trim_end_matches("kB").trim());
    Ok(ExitCode::SUCCESS)
}

/// Sixteen runs for each core, on one thread and on all.
fn replicate(dumbbell: &Dumbbell, rounds: u32) -> anyhow::Result<Replications> {
    let kind = &dumbbell.kinds[0];
    let scenario = dumbbell.scenario(kind)?;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let runs = 16 * threads;
    let seconds = |threads: usize| {
        let next = AtomicUsize::new(0);
        let work = || {
            while next.fetch_add(1, Ordering::Relaxed) < runs {
                kind.run(&scenario)?;
            }
            anyhow::Ok(())
        };
        let begun = Instant::now();
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            // A thread that panicked takes the program with it when the scope ends.
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().unwrap_or(Ok(())))
        })?;
        anyhow::Ok(begun.elapsed().as_secs_f64())
    };
    let (mut ones, mut alls, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (one, all) = (seconds(1)?, seconds(threads)?);
        ones.push(one);
        alls.push(all);
        ratios.push(one / (threads as f64 * all));
    }
    Ok(Replications {
        runs,
        threads,
        one: median(&mut ones),
        all: median(&mut alls),
        efficiency: median(&mut ratios),
    })
}

fn targets(dumbbells: &[Dumbbell], figures: &Figures) -> Vec<Target> {
    let mut targets = Vec::new();
    for (dumbbell, speeds) in dumbbells.iter().zip(SPEEDS) {
        let rows: Vec<&Row> = figures
            .rows
            .iter()
            .filter(|row| row.dumbbell == dumbbell.name)
            .collect();
        let letter = &dumbbell.name[..1];
        for (row, target) in rows.iter().zip(speeds) {
            let name = format!("{letter}: {}, million packets a second", row.simulator);
            targets.extend(target.map(|target| at_least(name, target / 1e6, row.median / 1e6)));
        }
        let share = rows[2].median / rows[0].median;
        targets.push(at_least(
            format!("{letter}: SQF, part of FIFO"),
            SQF_SHARE,
            share,
        ));
    }
    for row in figures
        .rows
        .iter()
        .filter(|row| row.dumbbell == dumbbells[0].name)
    {
        if let Some(peak) = row.peak_mb {
            targets.push(Target {
                name: format!("A: {}, most memory in MB", row.simulator),
                target: PEAK,
                measured: peak,
                met: peak <= PEAK,
            });
        }
    }
    let name = format!(
        "{} runs on {} cores, efficiency",
        figures.replications.runs, figures.replications.threads
    );
    targets.push(at_least(name, EFFICIENCY, figures.replications.efficiency));
    targets
}

fn at_least(name: String, target: f64, measured: f64) -> Target {
    Target {
        name,
        target,
        measured,
        met: measured >= target,
    }
}
