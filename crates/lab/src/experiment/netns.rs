// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs in the world netns. Each is a process of its own, so that one that fails or is killed disturbs no other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use makeway::parallel::cores;
use makeway_netns::{LATEST_MS, lateness};
use makeway_report::json::from_json;
use makeway_report::model::Report;

use super::{CODE, Cell, Grid, Results, folder_of};

/// A run whose sender was late is repeated; the least disturbed of this number is taken if none was calm.
const ATTEMPTS: usize = 3;

/// Each run has threads that must wake on time: two for each core seldom meet.
fn default_jobs() -> usize {
    (cores() * 2).min(16)
}

/// Runs what is not kept yet. `None`: `stop` was set.
pub fn run(
    grid: &Grid<'_>,
    scenarios: &Path,
    stop: &AtomicBool,
) -> anyhow::Result<Option<Results>> {
    let (folder, jobs) = (grid.folder, grid.jobs(default_jobs));
    let (mut results, mut waiting) = grid.split(|cell| kept(cell, folder));
    let kept_runs = grid.cells.len() - waiting.len();
    // Heavy and long ones first, so that the last is not waited for alone.
    waiting.sort_by_key(|c| (c.weight, c.seconds));
    let mut running: Vec<Running> = Vec::new();
    let progress = Progress::new(&waiting, kept_runs, jobs);
    loop {
        while !stop.load(Ordering::Relaxed) {
            let Some(cell) = next(&mut waiting, &running, jobs) else {
                break;
            };
            running.push(Running::start(cell, folder, scenarios)?);
        }
        // Those that run are killed when they are dropped; they leave nothing behind.
        if running.is_empty() || stop.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
        progress.show(&running, &waiting);
        let mut i = 0;
        while i < running.len() {
            let Some(status) = running[i].child.try_wait()? else {
                i += 1;
                continue;
            };
            let done = running.swap_remove(i);
            progress.done(done.cell);
            let finished = done.place.join("report.json").exists();
            match kept(done.cell, folder) {
                Some(report) => results.push(&done.cell.key, report),
                None if finished => waiting.push(done.cell),
                None => bail!("{} failed ({status}): {}", done.cell.key, done.last_words()),
            }
        }
    }
    progress.bar.finish_and_clear();
    Ok((!stop.load(Ordering::Relaxed)).then_some(results))
}

/// The last of `waiting` that fits beside those that run.
fn next<'a>(waiting: &mut Vec<&'a Cell>, running: &[Running<'_>], jobs: usize) -> Option<&'a Cell> {
    let taken: usize = running.iter().map(|r| r.cell.weight).sum();
    let free = jobs.saturating_sub(taken);
    let fits = |c: &&Cell| running.is_empty() || c.weight <= free;
    let at = waiting.iter().rposition(fits)?;
    Some(waiting.remove(at))
}

/// Under another kernel a result is another.
fn here(cell: &Cell, folder: &Path) -> PathBuf {
    let kernel = rustix::system::uname();
    let kernel = kernel.release().to_string_lossy();
    folder_of(cell, folder, &format!("{CODE} {kernel}"))
}

fn attempt(cell: &Cell, folder: &Path, n: usize) -> Option<Report> {
    let path = here(cell, folder).join(n.to_string()).join("report.json");
    let text = fs::read_to_string(path).ok()?;
    from_json(&text).ok().filter(|r| r.complete)
}

/// The calmest attempt, if it was calm or was the last.
fn kept(cell: &Cell, folder: &Path) -> Option<Report> {
    let mut tried: Vec<Report> = (1..=ATTEMPTS)
        .filter_map(|n| attempt(cell, folder, n))
        .collect();
    let many = tried.len() >= ATTEMPTS;
    let late = |report: &Report| lateness(report).unwrap_or(0.0);
    tried.sort_by(|a, b| late(a).total_cmp(&late(b)));
    let calmest = tried.into_iter().next()?;
    (many || late(&calmest) <= LATEST_MS).then_some(calmest)
}

struct Running<'a> {
    cell: &'a Cell,
    child: Child,
    place: PathBuf,
    since: Instant,
}

impl<'a> Running<'a> {
    fn start(cell: &'a Cell, folder: &Path, scenarios: &Path) -> anyhow::Result<Self> {
        let n = (1..ATTEMPTS)
            .find(|&n| attempt(cell, folder, n).is_none())
            .unwrap_or(ATTEMPTS);
        let place = here(cell, folder).join(n.to_string());
        fs::create_dir_all(&place)
            .with_context(|| format!("{} cannot be made", place.display()))?;
        let log = place.join("log");
        let file = fs::File::create(&log)
            .with_context(|| format!("{} cannot be written", log.display()))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("run").arg(scenarios.join(cell.file));
        for set in cell.settings() {
            command.args(["--set", &set]);
        }
        let child = command
            .arg("--out")
            .arg(&place)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .context("the program cannot start itself")?;
        Ok(Self {
            cell,
            child,
            place,
            since: Instant::now(),
        })
    }

    fn left(&self) -> u64 {
        let seconds = self.cell.seconds;
        seconds.saturating_sub(self.since.elapsed().as_secs()) * self.cell.weight as u64
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.place.join("log")).unwrap_or_default();
        let line = log.lines().rev().find(|l| !l.trim().is_empty());
        line.unwrap_or("it said nothing").trim().to_owned()
    }
}

/// A child that is left behind would go on sending.
impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

struct Progress {
    bar: ProgressBar,
    total: u64,
    jobs: usize,
}

impl Progress {
    fn new(waiting: &[&Cell], kept: usize, jobs: usize) -> Self {
        let total = waiting.iter().map(|c| c.cost()).sum();
        let bar = ProgressBar::new(total);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {msg}") {
            bar.set_style(style);
        }
        if !waiting.is_empty() {
            bar.println(format!(
                "{} runs, {kept} of earlier kept, {jobs} at a time: about {} min",
                waiting.len(),
                (total / jobs as u64 + 10).div_ceil(60)
            ));
        }
        Self { bar, total, jobs }
    }

    fn show(&self, running: &[Running<'_>], waiting: &[&Cell]) {
        let left: u64 = waiting.iter().map(|c| c.cost()).sum::<u64>()
            + running.iter().map(Running::left).sum::<u64>();
        self.bar.set_position(self.total.saturating_sub(left));
        let runs = running.len() + waiting.len();
        let seconds = left / self.jobs.min(runs.max(1)) as u64;
        self.bar.set_message(format!(
            "{runs} runs to go, {}:{:02} left",
            seconds / 60,
            seconds % 60
        ));
    }

    fn done(&self, cell: &Cell) {
        self.bar.println(format!("done: {}", cell.key));
    }
}
