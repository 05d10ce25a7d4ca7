// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs many scenarios, some at a time, and keeps what is finished.
//!
//! Each run is a process of its own, so that one that fails or is killed disturbs no other.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::fs;
use std::hash::{Hash, Hasher};
use std::ops::Index;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use makeway::builtin::{self, FILES};
use makeway::session::stop_on_signals;
use makeway_netns::{LATEST_MS, lateness};
use makeway_report::json::from_json;
use makeway_report::model::Report;

/// A scenario that the program carries, with what it is run with.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Key of its results.
    pub key: Key,
    /// Under `scenarios/`: `papers/sqf/testbed.toml`.
    pub file: &'static str,
    /// `link.line.queue.discipline=sqf`.
    pub set: Vec<String>,
    /// How long its traffic runs.
    pub seconds: u64,
    /// How many of the runs at a time it counts for: fast links take more of the processor.
    pub weight: usize,
    /// Replications in the world sim, where they are not as many as those of the others.
    pub runs: Option<usize>,
    /// Whether what happened over time is kept, in the world sim.
    pub series: bool,
}

impl Cell {
    /// A scenario as its file has it, but for its length.
    pub fn new(key: Key, file: &'static str, seconds: u64) -> Self {
        Self {
            key,
            file,
            set: Vec::new(),
            seconds,
            weight: 1,
            runs: None,
            series: false,
        }
    }

    /// With `set`, its length is the last.
    pub fn settings(&self) -> Vec<String> {
        let length = format!("duration={}s", self.seconds);
        self.set.iter().cloned().chain([length]).collect()
    }

    /// Command that runs it again, in the tree: `makeway run scenarios/... --set ...`.
    pub fn command(&self) -> String {
        let set = self.settings();
        let set: Vec<String> = set.iter().map(|set| format!(" --set '{set}'")).collect();
        format!("makeway run scenarios/{}{}", self.file, set.concat())
    }

    /// Seconds of one job.
    fn cost(&self) -> u64 {
        self.seconds * self.weight as u64
    }
}

/// Key of a cell: `testbed/sqf/20`. Each paper makes a form of key in one function, for its cells and for its claims.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// `path`, unique in its paper.
    pub fn new(path: impl Into<String>) -> Self {
        Self(path.into())
    }

    /// As files and pages have it.
    pub fn path(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Finished reports of cells: one in the world netns, one for each replication in sim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results(BTreeMap<Key, Vec<Report>>);

impl Results {
    /// `None` if the cell was not run.
    pub fn get(&self, key: &Key) -> Option<&[Report]> {
        self.0.get(key).map(Vec::as_slice)
    }

    /// Whether the cell was run.
    pub fn has(&self, key: &Key) -> bool {
        self.0.contains_key(key)
    }

    /// Reports of each cell.
    pub fn runs(&self) -> impl Iterator<Item = &[Report]> {
        self.0.values().map(Vec::as_slice)
    }

    /// Adds the report of the next replication.
    pub fn push(&mut self, key: &Key, report: Report) {
        self.0.entry(key.clone()).or_default().push(report);
    }

    /// Keys of all cells.
    #[cfg(test)]
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.0.keys()
    }

    /// All reports, for tests that spoil them.
    #[cfg(test)]
    pub fn all(&mut self) -> &mut BTreeMap<Key, Vec<Report>> {
        &mut self.0
    }

    /// Those of one cell, likewise.
    #[cfg(test)]
    pub fn runs_mut(&mut self, path: &str) -> &mut [Report] {
        self.0.get_mut(&Key::new(path)).unwrap()
    }
}

impl Index<Key> for Results {
    type Output = [Report];

    fn index(&self, key: Key) -> &[Report] {
        let runs = self.get(&key);
        runs.unwrap_or_else(|| panic!("the cell {key} was not run"))
    }
}

impl FromIterator<(Key, Vec<Report>)> for Results {
    fn from_iter<I: IntoIterator<Item = (Key, Vec<Report>)>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

/// The code of worlds with a kernel: what another one made is not used.
pub const CODE: &str = env!("MAKEWAY_CODE_OF_WORLDS");
/// A run whose sender was late is repeated; the least disturbed of this number is taken if none was calm.
const ATTEMPTS: usize = 3;

/// Each run has threads that must wake on time: two for each core seldom meet.
pub fn default_jobs() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    (cores * 2).min(16)
}

/// Runs what is not in `folder` yet, `jobs` at a time. `None`: a signal stopped it.
pub fn run(cells: &[Cell], folder: &Path, jobs: usize) -> anyhow::Result<Option<Results>> {
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
    // Heavy and long ones first, so that the last is not waited for alone.
    waiting.sort_by_key(|c| (c.weight, c.seconds));
    let mut running: Vec<Running> = Vec::new();
    let progress = Progress::new(&waiting, cells.len() - waiting.len(), jobs);
    loop {
        while !stop.load(Ordering::Relaxed) {
            let Some(cell) = next(&mut waiting, &running, jobs) else {
                break;
            };
            running.push(Running::start(cell, folder, &scenarios)?);
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

/// Where a cell's reports are kept: other scenarios, settings or `code` have other names.
pub fn place(cell: &Cell, folder: &Path, code: &str) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    let texts = FILES
        .iter()
        .filter(|(name, _)| name.starts_with("traces/") || *name == cell.file);
    texts.for_each(|file| file.hash(&mut hasher));
    (&cell.set, cell.seconds, code).hash(&mut hasher);
    let name = cell.key.path().replace('/', "-");
    folder
        .join("runs")
        .join(format!("{name}-{:016x}", hasher.finish()))
}

/// Under another kernel a result is another.
fn here(cell: &Cell, folder: &Path) -> PathBuf {
    let kernel = rustix::system::uname();
    let kernel = kernel.release().to_string_lossy();
    place(cell, folder, &format!("{CODE} {kernel}"))
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
    tried.sort_by(|a, b| lateness(a).total_cmp(&lateness(b)));
    let calmest = tried.into_iter().next()?;
    (many || lateness(&calmest) <= LATEST_MS).then_some(calmest)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_settings_or_another_code_have_another_place() {
        let cell = |set: &str| Cell {
            set: vec![set.into()],
            ..Cell::new(Key::new("a/b"), "papers/sqf/testbed.toml", 1)
        };
        let place = |set: &str, code: &str| super::place(&cell(set), Path::new("out"), code);
        assert_eq!(place("x=1", "a"), place("x=1", "a"));
        assert_ne!(place("x=1", "a"), place("x=2", "a"));
        assert_ne!(place("x=1", "a"), place("x=1", "b"));
    }
}
