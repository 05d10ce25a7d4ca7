// SPDX-License-Identifier: MIT OR Apache-2.0
//! An experiment: many scenarios, each in one of the worlds, and their reports, which are kept and not made again: those of simulated time
//! in a store that sweeps have too, those of worlds with a kernel, of which no two are the same, in files.

pub(crate) mod kept;
mod netns;
pub(crate) mod plans;
mod sim;
mod verdict;
mod vm;

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::Index;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fmt, fs, io};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use makeway::builtin::{self, FILES};
use makeway::session::stop_on_signals;
use makeway_report::model::Report;

pub use sim::each;
pub use verdict::Verdict;
pub use vm::each_in_guests;

/// Where scenarios run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum World {
    /// Simulated time, with a model of TCP.
    Sim,
    /// Network namespaces of this machine, in real time: the kernel's TCP, and our disciplines over NFQUEUE.
    Netns,
    /// A guest of QEMU with Debian's newest kernel: its TCP, its own qdiscs, and our disciplines as BPF.
    Vm,
}

impl World {
    /// As reports have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Netns => "netns",
            Self::Vm => "vm",
        }
    }
}

/// Cells, and how they are run.
#[derive(Clone, Copy, Debug)]
pub struct Grid<'a> {
    /// Their keys differ.
    pub cells: &'a [Cell],
    /// Where reports are kept.
    pub folder: &'a Path,
    /// Runs at a time; `None`: as many as the machine bears in that world.
    pub jobs: Option<usize>,
    /// Replications in the world sim of cells that do not say it.
    pub runs: usize,
}

impl Grid<'_> {
    /// Runs what is not kept yet. `None`: a signal stopped it.
    ///
    /// # Errors
    /// A run failed, or its report cannot be kept.
    pub fn run(&self, world: World) -> anyhow::Result<Option<Results>> {
        let scenarios = self.folder.join("scenarios");
        builtin::unpack(&scenarios)?;
        let stop = stop_on_signals()?;
        match world {
            World::Sim => sim::run(self, &scenarios, &stop),
            World::Netns => netns::run(self, &scenarios, &stop),
            World::Vm => vm::run(self, &scenarios, &stop),
        }
    }

    /// Writes a plan of each cell in the world sim to `folder`, as `PREFIX-KEY.json`, for another machine. How many there are.
    ///
    /// # Errors
    /// A scenario is refused, or a file cannot be written.
    pub fn plans(&self, folder: &Path, prefix: &str) -> anyhow::Result<usize> {
        sim::write_plans(self, folder, prefix)
    }

    fn jobs(&self, default: impl Fn() -> usize) -> usize {
        self.jobs.unwrap_or_else(default).max(1)
    }

    /// Reports that `kept` finds, and the cells for which it finds none.
    fn split(&self, kept: impl Fn(&Cell) -> Option<Report>) -> (Results, Vec<&Cell>) {
        let (mut results, mut waiting) = (Results::default(), Vec::new());
        for cell in self.cells {
            match kept(cell) {
                Some(report) => results.push(&cell.key, report),
                None => waiting.push(cell),
            }
        }
        (results, waiting)
    }
}

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

    /// Each cell with its reports.
    pub fn cells(&self) -> impl Iterator<Item = (&Key, &[Report])> {
        self.0.iter().map(|(key, runs)| (key, &runs[..]))
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

    /// Reports of one cell, likewise.
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

/// Where a cell's reports are kept in a world with a kernel: other scenarios, settings or `code` have other names.
pub fn folder_of(cell: &Cell, folder: &Path, code: &str) -> PathBuf {
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

/// A file is there as a whole or not at all: a run may be stopped at any time.
pub fn keep(file: &Path, text: &str) -> io::Result<()> {
    let unfinished = file.with_extension("part");
    fs::write(&unfinished, text)?;
    fs::rename(unfinished, file)
}

/// Says that a signal stopped the runs of `folder`, and how they go on; the exit status for it.
pub(crate) fn stopped(folder: &Path) -> ExitCode {
    eprintln!(
        "stopped; what was finished is kept in {}: the same command goes on from there",
        folder.display()
    );
    ExitCode::from(130)
}

/// A bar for this number of runs.
fn bar(runs: usize) -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::new(runs as u64);
    bar.set_style(ProgressStyle::with_template(
        "{wide_bar} {pos} of {len} runs, {eta} left",
    )?);
    Ok(bar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_settings_or_another_code_have_another_folder() {
        let cell = |set: &str| Cell {
            set: vec![set.into()],
            ..Cell::new(Key::new("a/b"), "papers/sqf/testbed.toml", 1)
        };
        let folder = |set: &str, code: &str| super::folder_of(&cell(set), Path::new("out"), code);
        assert_eq!(folder("x=1", "a"), folder("x=1", "a"));
        assert_ne!(folder("x=1", "a"), folder("x=2", "a"));
        assert_ne!(folder("x=1", "a"), folder("x=1", "b"));
    }
}
