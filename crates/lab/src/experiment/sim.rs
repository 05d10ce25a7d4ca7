// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs in simulated time, on threads of this process; a store keeps each replication.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use makeway::parallel::{cores, in_order};
use makeway_scenario::Scenario;
use makeway_store::plan::{Detail, Source};

use super::kept::{Runs, Wanted};
use super::plans::{self, Replications};
use super::{Cell, Grid, Results, bar};

/// The store of a grid's folder.
const STORE: &str = "store";

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
    let mut wanted: Vec<Wanted> = (cells.iter().enumerate())
        .flat_map(|(n, cell)| {
            let detail = cell.detail();
            (1..=grid.replications(cell)).map(move |replication| Wanted {
                cell: n,
                replication,
                detail,
            })
        })
        .collect();
    // The long ones first, so that the last is not waited for alone; replications of a cell stay in their order.
    wanted.sort_by_key(|run| Reverse(cells[run.cell].cost()));
    let store = grid.folder.join(STORE);
    let scenario = |cell: usize| Cow::Borrowed(&loaded[cell]);
    let name = |cell: usize| cells[cell].key.to_string();
    let runs = Runs {
        store: Some(&store),
        scenario: &scenario,
        name: &name,
        wanted: &wanted,
        jobs: grid.jobs(cores),
    };
    let mut results = Results::default();
    let all = runs.reports(stop, |n, report| {
        results.push(&cells[wanted[n].cell].key, report);
    })?;
    Ok(all.then_some(results))
}

/// Writes a plan of each cell to `folder`, whose `scenarios` they name: `PREFIX-KEY.json`. How many there are.
///
/// # Errors
/// A scenario is refused, or a file cannot be written.
pub fn write_plans(grid: &Grid<'_>, folder: &Path, prefix: &str) -> anyhow::Result<usize> {
    let scenarios = folder.join("scenarios");
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    makeway::builtin::unpack(&scenarios)?;
    for cell in grid.cells {
        let runs = Replications {
            first: 1,
            count: grid.replications(cell),
        };
        let source = Source::load(&scenarios.join(cell.file), &cell.settings())?;
        let scenario = load(cell, &scenarios)?;
        let name = format!("{prefix}-{}", cell.key);
        plans::write(folder, &name, source, &scenario, runs, cell.detail())?;
    }
    Ok(grid.cells.len())
}

impl Cell {
    /// How much is kept of its runs.
    fn detail(&self) -> Detail {
        match self.series {
            true => Detail::Series,
            false => Detail::Report,
        }
    }
}

impl Grid<'_> {
    /// Replications of a cell.
    pub fn replications(&self, cell: &Cell) -> u64 {
        cell.runs.unwrap_or(self.runs) as u64
    }
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
    use std::path::PathBuf;

    use makeway_store::plan::Plan;
    use makeway_store::store::Store;
    use makeway_store::sweep;

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

    fn grid<'a>(cells: &'a [Cell], folder: &'a Path) -> Grid<'a> {
        Grid {
            cells,
            folder,
            jobs: Some(2),
            runs: 5,
        }
    }

    /// Files of finished runs in the store.
    fn parts(folder: &Path) -> Vec<PathBuf> {
        let parts = fs::read_dir(folder.join(STORE).join("runs")).unwrap();
        let mut parts: Vec<PathBuf> = parts.map(|entry| entry.unwrap().path()).collect();
        parts.sort();
        parts
    }

    #[test]
    fn what_is_kept_is_not_run_again_and_what_is_missing_is() {
        let folder = tempfile::tempdir().unwrap();
        let run = |cell: Cell| {
            let results = grid(&[cell], folder.path()).run(World::Sim);
            results.unwrap().unwrap()[key()].to_vec()
        };
        let first = run(cell());
        assert_eq!(first.len(), 2);
        assert_ne!(first[0], first[1]);
        let of_first = parts(folder.path());
        assert_eq!(run(cell()), first);
        assert_eq!(parts(folder.path()), of_first);
        // A third replication, and the first two are those that are kept.
        let more = Cell {
            runs: Some(3),
            ..cell()
        };
        let second = run(more.clone());
        assert_eq!(second.len(), 3);
        assert_eq!(second[..2], first);
        assert_eq!(parts(folder.path()).len(), of_first.len() + 1);
        // Without its part it is made again, and is the same.
        let lost = parts(folder.path());
        let lost = lost.iter().find(|path| !of_first.contains(path)).unwrap();
        fs::remove_file(lost).unwrap();
        assert_eq!(run(more), second);
        assert_eq!(parts(folder.path()).len(), of_first.len() + 1);
    }

    #[test]
    fn another_paper_with_the_same_run_has_it_under_its_own_title_and_series_are_made_if_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let run = |cell: Cell| {
            let key = cell.key.clone();
            let results = grid(&[cell], folder.path()).run(World::Sim);
            results.unwrap().unwrap()[key].to_vec()
        };
        let first = run(cell());
        let of_first = parts(folder.path());
        let same = Cell {
            set: vec!["flow.download.count=1".into(), "title=another".into()],
            key: Key::new("c"),
            ..cell()
        };
        let renamed = run(same.clone());
        assert_eq!(parts(folder.path()), of_first);
        assert_eq!(renamed[0].title, "another");
        assert_eq!(renamed[0].flows, first[0].flows);
        let whole = run(Cell {
            series: true,
            ..same.clone()
        });
        assert_ne!(whole[0].flows, first[0].flows);
        assert_eq!(whole[0].clone().without_series(), renamed[0]);
        // They are no less afterwards.
        let made = parts(folder.path());
        assert_eq!(run(same), renamed);
        assert_eq!(parts(folder.path()), made);
    }

    #[test]
    fn a_run_that_cells_share_is_given_to_each_as_if_it_were_alone() {
        let folder = tempfile::tempdir().unwrap();
        let named = |name: &str, series: bool, runs: usize| Cell {
            key: Key::new(name),
            set: vec!["flow.download.count=1".into(), format!("title={name}")],
            series,
            runs: Some(runs),
            ..cell()
        };
        let cells = [
            named("few", false, 1),
            named("series", true, 2),
            named("most", false, 3),
        ];
        let of = |cells: &[Cell], folder: &Path| {
            let results = grid(cells, folder).run(World::Sim).unwrap().unwrap();
            cells
                .iter()
                .map(|cell| results[cell.key.clone()].to_vec())
                .collect::<Vec<_>>()
        };
        let together = of(&cells, folder.path());
        for (cell, reports) in cells.iter().zip(&together) {
            let alone = tempfile::tempdir().unwrap();
            let alone = of(std::slice::from_ref(cell), alone.path());
            assert_eq!(reports, &alone[0], "{}", cell.key);
        }
    }

    #[test]
    fn a_run_that_fails_is_named_and_others_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let failing = Cell {
            key: Key::new("no/model"),
            set: vec![
                "flow.download.count=1".into(),
                "flow.download.congestion_control=bbr".into(),
            ],
            ..cell()
        };
        // The heavier one goes first.
        let heavy = Cell {
            weight: 2,
            ..cell()
        };
        let cells = [heavy, failing];
        let one_by_one = Grid {
            jobs: Some(1),
            ..grid(&cells, folder.path())
        };
        let error = one_by_one.run(World::Sim).unwrap_err().to_string();
        assert!(error.starts_with("no/model: "), "{error}");
        assert!(error.contains("bbr"), "{error}");
        let store = Store::open(&folder.path().join(STORE)).unwrap();
        assert_eq!(store.len(), 2);
    }

    #[test]
    fn a_plan_that_another_machine_has_run_leaves_nothing_to_run() {
        let [folder, away] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let cells = [cell()];
        let grid = grid(&cells, folder.path());
        assert_eq!(write_plans(&grid, away.path(), "sqf").unwrap(), 1);
        let text = fs::read_to_string(away.path().join("sqf-a-b.json")).unwrap();
        let plan = Plan::from_json(&text).unwrap();
        let mut store = Store::open(&folder.path().join(STORE)).unwrap();
        let summary = sweep::run(&mut store, &plan, &sweep::How::default(), |_| true).unwrap();
        assert_eq!(summary.made, 2);
        let made = parts(folder.path());
        let ours = grid.run(World::Sim).unwrap().unwrap();
        assert_eq!(parts(folder.path()), made);
        let fresh = tempfile::tempdir().unwrap();
        let fresh = self::grid(&cells, fresh.path()).run(World::Sim);
        assert_eq!(ours, fresh.unwrap().unwrap());
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
