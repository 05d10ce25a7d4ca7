// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs in simulated time, on threads of this process; each replication is kept when it is done.

use std::cmp::Reverse;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use makeway::parallel::{cores, in_order};
use makeway_report::json::{from_json, to_json};
use makeway_report::model::Report;
use makeway_scenario::Scenario;
use makeway_sim::Options;

use super::{Cell, Grid, Results, bar, folder_of, keep};

/// The code that simulates: what another one made is not used.
const CODE: &str = env!("MAKEWAY_CODE");

/// Runs what is not kept yet. `None`: `stop` was set.
pub fn run(
    grid: &Grid<'_>,
    scenarios: &Path,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Option<Results>> {
    let cells = grid.cells;
    let loaded = cells
        .iter()
        .map(|cell| load(cell, scenarios))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let places = cells.iter().map(|cell| folder_of(cell, grid.folder, CODE));
    let places: Vec<PathBuf> = places.collect();
    for place in &places {
        fs::create_dir_all(place).with_context(|| format!("{} cannot be made", place.display()))?;
    }
    let mut pieces: Vec<(usize, u64)> = (cells.iter().enumerate())
        .flat_map(|(n, cell)| {
            let runs = cell.runs.unwrap_or(grid.runs) as u64;
            (1..=runs).map(move |replication| (n, replication))
        })
        .collect();
    // The long ones first, so that the last is not waited for alone; replications of a cell stay in their order.
    pieces.sort_by_key(|(n, _)| Reverse(cells[*n].cost()));
    let work = |number: usize| -> anyhow::Result<Option<Report>> {
        let (n, replication) = pieces[number];
        let file = places[n].join(format!("{replication}.json"));
        let kept = fs::read_to_string(&file).ok();
        if let Some(report) = kept.and_then(|text| from_json(&text).ok()) {
            return Ok(Some(report));
        }
        let options = Options {
            stop: Arc::clone(stop),
            replication,
            ..Options::default()
        };
        let report = makeway_sim::run(&loaded[n], &options, |_| {})
            .with_context(|| cells[n].key.to_string())?;
        if !report.complete {
            return Ok(None);
        }
        let report = match cells[n].series {
            true => report,
            false => report.without_series(),
        };
        keep(&file, &to_json(&report))
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Some(report))
    };
    let mut results = Results::default();
    let all = each(pieces.len(), grid.jobs(cores), stop, work, |n, report| {
        results.push(&cells[pieces[n].0].key, report);
    })?;
    Ok(all.then_some(results))
}

/// Does `work` for each number below `count`, `jobs` at a time, behind a bar, and gives the results to `take` in their order.
/// Whether all was done: work that `stop` ends early has no result.
///
/// # Errors
/// The first of `work`; none begins after it.
pub fn each<T: Send>(
    count: usize,
    jobs: usize,
    stop: &AtomicBool,
    work: impl Fn(usize) -> anyhow::Result<Option<T>> + Sync,
    mut take: impl FnMut(usize, T),
) -> anyhow::Result<bool> {
    let bar = bar(count)?;
    let (mut taken, mut failed) = (0, None);
    in_order(count, jobs, stop, work, |result| {
        match result {
            Ok(Some(result)) => take(taken, result),
            Ok(None) => return ControlFlow::Break(()),
            Err(error) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        taken += 1;
        bar.inc(1);
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    failed.map_or(Ok(taken == count), Err)
}

fn load(cell: &Cell, scenarios: &Path) -> anyhow::Result<Scenario> {
    let file = scenarios.join(cell.file);
    Ok(makeway_scenario::load(&file, &cell.settings())?)
}

#[cfg(test)]
mod tests {
    use super::super::{Key, World};
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
        let grid = Grid {
            cells: &[cell()],
            folder: folder.path(),
            jobs: Some(2),
            runs: 5,
        };
        let first = grid.run(World::Sim).unwrap().unwrap();
        assert_eq!(first[key()].len(), 2);
        assert_ne!(first[key()][0], first[key()][1]);
        // One is changed where it lies, so that it is seen whether it is used; the other is gone.
        let place = folder_of(&cell(), folder.path(), CODE);
        let mut changed = first[key()][0].clone();
        changed.title = "kept".into();
        keep(&place.join("1.json"), &to_json(&changed)).unwrap();
        fs::remove_file(place.join("2.json")).unwrap();
        let second = grid.run(World::Sim).unwrap().unwrap();
        assert_eq!(second[key()][0].title, "kept");
        assert_eq!(second[key()][1], first[key()][1]);
    }
    #[test]
    fn an_error_is_the_first_by_number_and_a_stop_is_none() {
        let work = |wrong: usize| {
            move |n: usize| match n >= wrong {
                true => Err(anyhow::anyhow!("{n}")),
                false => Ok(Some(n)),
            }
        };
        let mut taken = Vec::new();
        let all = each(20, 3, &AtomicBool::new(false), work(20), |n, result| {
            taken.push((n, result));
        });
        assert!(all.unwrap() && taken == (0..20).map(|n| (n, n)).collect::<Vec<_>>());
        let found = each(20, 3, &AtomicBool::new(false), work(7), |_, _| {});
        assert_eq!(found.unwrap_err().to_string(), "7");
        let stopped = |n| Ok((n < 5).then_some(n));
        let mut taken = 0;
        let all = each(20, 3, &AtomicBool::new(false), stopped, |_, _| taken += 1);
        assert!(!all.unwrap() && taken == 5);
    }
}
