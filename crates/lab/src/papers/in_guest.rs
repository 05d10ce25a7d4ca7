// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs in the world vm: some guests at a time, each with its share of the runs, and what is finished is kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use makeway_report::json::{from_json, to_json};
use makeway_report::model::Report;

use super::grid::{CODE, Cell, Results, place};
use super::simulated::keep;
use makeway::builtin;
use makeway::session::stop_on_signals;
use makeway::vm::{self, Job};

/// Runs what is not in `folder` yet, in `guests` at a time. `None`: a signal stopped it.
///
/// # Errors
/// There is no such guest here, a run failed in it, or a report cannot be written.
pub fn run(cells: &[Cell], folder: &Path, guests: usize) -> anyhow::Result<Option<Results>> {
    let scenarios = folder.join("scenarios");
    builtin::unpack(&scenarios)?;
    let stop = stop_on_signals()?;
    let mut results = Results::default();
    let mut waiting: Vec<&Cell> = Vec::new();
    for cell in cells {
        match kept(cell, folder) {
            Some(report) => results.push(&cell.key, report),
            None => waiting.push(cell),
        }
    }
    let bar = ProgressBar::new(waiting.len() as u64);
    bar.set_style(ProgressStyle::with_template(
        "{wide_bar} {pos} of {len} runs",
    )?);
    let results = Mutex::new(results);
    let share = |guest| waiting.iter().skip(guest).step_by(guests).copied();
    let one = &|guest: usize| {
        let cells: Vec<&Cell> = share(guest).collect();
        let job = |cell: &&Cell| Job {
            file: scenarios.join(cell.file),
            set: cell.settings(),
        };
        let jobs: Vec<Job> = cells.iter().map(job).collect();
        let mut rest = cells.iter();
        vm::run(
            &jobs,
            false,
            &stop,
            |_, _, _| {},
            |report| {
                let Some(cell) = rest.next() else {
                    return Ok(());
                };
                let file = at(cell, folder);
                fs::create_dir_all(file.parent().unwrap_or(folder))
                    .and_then(|()| keep(&file, &to_json(&report)))
                    .with_context(|| format!("cannot write {}", file.display()))?;
                let mut results = results.lock().unwrap_or_else(|e| e.into_inner());
                results.push(&cell.key, report);
                bar.println(format!("done: {}", cell.key));
                bar.inc(1);
                Ok(())
            },
        )
    };
    let ended: Vec<anyhow::Result<bool>> = thread::scope(|scope| {
        let guests = (0..guests.min(waiting.len())).map(|guest| scope.spawn(move || one(guest)));
        let guests: Vec<_> = guests.collect();
        let join = |guest: thread::ScopedJoinHandle<'_, _>| {
            guest
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        guests.into_iter().map(join).collect()
    });
    bar.finish_and_clear();
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    for result in ended {
        result?;
    }
    Ok(Some(
        results.into_inner().unwrap_or_else(|e| e.into_inner()),
    ))
}

/// Another world has other places.
fn at(cell: &Cell, folder: &Path) -> PathBuf {
    place(cell, folder, &format!("{CODE} vm")).join("report.json")
}

fn kept(cell: &Cell, folder: &Path) -> Option<Report> {
    let text = fs::read_to_string(at(cell, folder)).ok()?;
    from_json(&text).ok().filter(|report| report.complete)
}
