//! Runs many scenarios in simulated time, one thread for each core, in this process.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use indicatif::ProgressBar;
use makeway_report::model::Report;
use makeway_sim::Options;

use super::grid::{Cell, Results};
use crate::builtin;
use crate::commands::session::stop_on_signals;

/// Cores of this machine.
pub fn default_jobs() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Runs all `cells`, `jobs` at a time. `None`: a signal stopped it.
pub fn run(cells: &[Cell], folder: &Path, jobs: usize) -> anyhow::Result<Option<Results>> {
    let scenarios = folder.join("scenarios");
    builtin::unpack(&scenarios)?;
    let options = Options {
        stop: stop_on_signals()?,
        ..Options::default()
    };
    let bar = ProgressBar::new(cells.len() as u64);
    let next = AtomicUsize::new(0);
    let reports: Mutex<Vec<anyhow::Result<(String, Report)>>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..jobs.min(cells.len()) {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let report = one(cell, &scenarios, &options);
                    bar.inc(1);
                    let report = report.map(|report| (cell.name.clone(), report));
                    // A thread that panicked takes the program with it when the scope ends.
                    reports
                        .lock()
                        .unwrap_or_else(|e| e.into_inner())
                        .push(report);
                }
            });
        }
    });
    bar.finish_and_clear();
    let reports = reports.into_inner().unwrap_or_else(|e| e.into_inner());
    let results = reports.into_iter().collect::<anyhow::Result<Results>>()?;
    let whole = results.values().all(|report| report.complete);
    Ok(whole.then_some(results))
}

fn one(cell: &Cell, scenarios: &Path, options: &Options) -> anyhow::Result<Report> {
    let mut set = cell.set.clone();
    set.push(format!("duration={}s", cell.seconds));
    let file = scenarios.join("papers/sqf").join(cell.file);
    let scenario = makeway_scenario::load(&file, &set)?;
    Ok(makeway_sim::run(&scenario, options, |_| {})?)
}
