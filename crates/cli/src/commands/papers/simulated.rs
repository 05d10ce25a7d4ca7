//! Runs many scenarios in simulated time, each some times, on threads of this process.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use makeway_report::model::Report;
use makeway_scenario::Scenario;
use makeway_sim::Options;

use super::grid::{Cell, Results};
use crate::builtin;
use crate::commands::parallel::in_order;
use crate::commands::session::stop_on_signals;

/// Runs all `cells`, `runs` replications of each, `jobs` at a time. `None`: a signal stopped it.
pub fn run(
    cells: &[Cell],
    folder: &Path,
    jobs: usize,
    runs: usize,
) -> anyhow::Result<Option<Results>> {
    let scenarios = folder.join("scenarios");
    builtin::unpack(&scenarios)?;
    let stop = stop_on_signals()?;
    let loaded = cells
        .iter()
        .map(|cell| load(cell, &scenarios))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let bar = ProgressBar::new((cells.len() * runs) as u64);
    bar.set_style(ProgressStyle::with_template(
        "{wide_bar} {pos} of {len} runs, {eta} left",
    )?);
    let mut reports = Vec::with_capacity(cells.len() * runs);
    let mut failed = None;
    let work = |number: usize| {
        let options = Options {
            stop: Arc::clone(&stop),
            replication: (number % runs) as u64 + 1,
            ..Options::default()
        };
        makeway_sim::run(&loaded[number / runs], &options, |_| {}).map(Report::without_series)
    };
    in_order(cells.len() * runs, jobs, &stop, work, |result| {
        bar.inc(1);
        match result {
            Ok(report) if report.complete => reports.push(report),
            Ok(_) => return ControlFlow::Break(()),
            Err(error) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    if let Some(error) = failed {
        return Err(error.into());
    }
    if reports.len() < cells.len() * runs {
        return Ok(None);
    }
    let mut results = Results::new();
    for (number, report) in reports.into_iter().enumerate() {
        let name = &cells[number / runs].name;
        results.entry(name.clone()).or_default().push(report);
    }
    Ok(Some(results))
}

fn load(cell: &Cell, scenarios: &Path) -> anyhow::Result<Scenario> {
    let mut set = cell.set.clone();
    set.push(format!("duration={}s", cell.seconds));
    let file = scenarios.join("papers/sqf").join(cell.file);
    Ok(makeway_scenario::load(&file, &set)?)
}
