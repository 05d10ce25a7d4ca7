// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs in the world vm: some guests at a time, each with its share of the runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Context;
use indicatif::ProgressBar;
use makeway::parallel::cores;
use makeway::vm::{self, Job};
use makeway_report::json::{from_json, to_json};
use makeway_report::model::Report;
use makeway_vm::{Kernel, cache};

use super::{CODE, Cell, Grid, Results, bar, folder_of, keep};

/// Runs what is not kept yet. `None`: `stop` was set.
pub fn run(
    grid: &Grid<'_>,
    scenarios: &Path,
    stop: &AtomicBool,
) -> anyhow::Result<Option<Results>> {
    let folder = grid.folder;
    let [_, kernel] = Kernel::with_bpf_qdiscs(&cache())?;
    let at = |cell: &Cell| at(cell, folder, kernel.release());
    let (results, waiting) = grid.split(|cell| kept(&at(cell)));
    let results = Mutex::new(results);
    let job = |number: usize| Job {
        file: scenarios.join(waiting[number].file),
        set: waiting[number].settings(),
    };
    let took = |number: usize, report: Report, bar: &ProgressBar| {
        let cell = waiting[number];
        let file = at(cell);
        fs::create_dir_all(file.parent().unwrap_or(folder))
            .and_then(|()| keep(&file, &to_json(&report)))
            .with_context(|| format!("cannot write {}", file.display()))?;
        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
        results.push(&cell.key, report);
        bar.println(format!("done: {}", cell.key));
        Ok(())
    };
    let all = each_in_guests(waiting.len(), grid.jobs(cores), stop, job, took)?;
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(all.then_some(results))
}

/// Runs the job of each number below `count` in this number of guests, each of which has its share, and gives the reports to `took`
/// as they come. Whether all were run: `stop` ends them.
///
/// # Errors
/// There is no such guest here, a run failed in it, or `took` failed.
pub fn each_in_guests(
    count: usize,
    guests: usize,
    stop: &AtomicBool,
    job: impl Fn(usize) -> Job + Sync,
    took: impl Fn(usize, Report, &ProgressBar) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<bool> {
    let bar = bar(count)?;
    let guests = guests.min(count);
    let one = |guest: usize| {
        let share = || (0..count).skip(guest).step_by(guests);
        let jobs: Vec<Job> = share().map(&job).collect();
        let mut numbers = share();
        let took = |report| {
            let Some(number) = numbers.next() else {
                return Ok(());
            };
            took(number, report, &bar)?;
            bar.inc(1);
            Ok(())
        };
        vm::run(&jobs, false, stop, |_, _, _| {}, took)
    };
    let ended: Vec<anyhow::Result<bool>> = thread::scope(|scope| {
        let one = &one;
        let guests: Vec<_> = (0..guests)
            .map(|guest| scope.spawn(move || one(guest)))
            .collect();
        let join = |guest: thread::ScopedJoinHandle<'_, _>| {
            guest
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        guests.into_iter().map(join).collect()
    });
    bar.finish_and_clear();
    if stop.load(Ordering::Relaxed) {
        return Ok(false);
    }
    ended.into_iter().try_fold(true, |all, one| Ok(all & one?))
}

/// Another world has other places, and so has another kernel.
fn at(cell: &Cell, folder: &Path, release: &str) -> PathBuf {
    folder_of(cell, folder, &format!("{CODE} vm {release}")).join("report.json")
}

fn kept(file: &Path) -> Option<Report> {
    let text = fs::read_to_string(file).ok()?;
    from_json(&text).ok().filter(|report| report.complete)
}
