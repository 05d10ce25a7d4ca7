// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs many scenarios in simulated time, each some times, on threads of this process, and keeps each
//! replication when it is done.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use makeway_report::json::{from_json, to_json};
use makeway_report::model::Report;
use makeway_scenario::Scenario;
use makeway_sim::Options;

use super::grid::{Cell, Results, place};
use makeway::builtin;
use makeway::parallel::in_order;
use makeway::session::stop_on_signals;

/// The code that simulates: what another one made is not used.
const CODE: &str = env!("MAKEWAY_CODE");

/// Runs what is not in `folder` yet of all `cells`, as many replications of each as it says or else `runs`, `jobs` at
/// a time. `None`: a signal stopped it.
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
    let places: Vec<PathBuf> = cells.iter().map(|cell| place(cell, folder, CODE)).collect();
    for place in &places {
        fs::create_dir_all(place).with_context(|| format!("{} cannot be made", place.display()))?;
    }
    let pieces: Vec<(usize, u64)> = (cells.iter().enumerate())
        .flat_map(|(n, cell)| {
            let runs = cell.runs.unwrap_or(runs) as u64;
            (1..=runs).map(move |replication| (n, replication))
        })
        .collect();
    let bar = ProgressBar::new(pieces.len() as u64);
    bar.set_style(ProgressStyle::with_template(
        "{wide_bar} {pos} of {len} runs, {eta} left",
    )?);
    let mut results = Results::default();
    let mut failed = None;
    let work = |number: usize| -> anyhow::Result<Report> {
        let (n, replication) = pieces[number];
        let file = places[n].join(format!("{replication}.json"));
        let kept = fs::read_to_string(&file).ok();
        if let Some(report) = kept.and_then(|text| from_json(&text).ok()) {
            return Ok(report);
        }
        let options = Options {
            stop: Arc::clone(&stop),
            replication,
            ..Options::default()
        };
        let report = makeway_sim::run(&loaded[n], &options, |_| {})
            .with_context(|| cells[n].key.to_string())?;
        let report = match cells[n].series {
            true => report,
            false => report.without_series(),
        };
        if report.complete {
            keep(&file, &to_json(&report))
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(report)
    };
    let mut taken = 0;
    in_order(pieces.len(), jobs, &stop, work, |result| {
        bar.inc(1);
        match result {
            Ok(report) if report.complete => {
                let cell = &cells[pieces[taken].0];
                results.push(&cell.key, report);
                taken += 1;
            }
            Ok(_) => return ControlFlow::Break(()),
            Err(error) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    match failed {
        Some(error) => Err(error),
        None => Ok((taken == pieces.len()).then_some(results)),
    }
}

/// A file is there as a whole or not at all: a run may be stopped at any time.
pub fn keep(file: &Path, text: &str) -> io::Result<()> {
    let unfinished = file.with_extension("part");
    fs::write(&unfinished, text)?;
    fs::rename(unfinished, file)
}

fn load(cell: &Cell, scenarios: &Path) -> anyhow::Result<Scenario> {
    let file = scenarios.join(cell.file);
    Ok(makeway_scenario::load(&file, &cell.settings())?)
}

#[cfg(test)]
mod tests {
    use super::super::grid::Key;
    use super::*;

    fn key() -> Key {
        Key::new("a/b")
    }

    fn cell() -> Cell {
        Cell {
            set: vec!["flow.download.count=1".into()],
            runs: Some(2),
            ..Cell::new(key(), "papers/sqf/testbed.toml", 6)
        }
    }

    #[test]
    fn what_is_kept_is_not_run_again_and_what_is_missing_is() {
        let folder = tempfile::tempdir().unwrap();
        let first = run(&[cell()], folder.path(), 2, 5).unwrap().unwrap();
        assert_eq!(first[key()].len(), 2);
        assert_ne!(first[key()][0], first[key()][1]);
        // One is changed where it lies, so that it is seen whether it is used; the other is gone.
        let place = place(&cell(), folder.path(), CODE);
        let mut changed = first[key()][0].clone();
        changed.title = "kept".into();
        keep(&place.join("1.json"), &to_json(&changed)).unwrap();
        fs::remove_file(place.join("2.json")).unwrap();
        let second = run(&[cell()], folder.path(), 2, 5).unwrap().unwrap();
        assert_eq!(second[key()][0].title, "kept");
        assert_eq!(second[key()][1], first[key()][1]);
    }
}
