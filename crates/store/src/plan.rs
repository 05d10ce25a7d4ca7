// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sweep: a scenario, the values that keys of it take, and replications. Its points are all combinations of the values; the first key
//! changes slowest.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use makeway_scenario::{Scenario, model};
use serde::{Deserialize, Serialize};

use crate::CODE;
use crate::error::StoreError;

/// Version of the plan's JSON and of the tables; it is a part of each run's key.
pub const FORMAT: u32 = 1;
/// Runs of a sweep at most; chosen by us, so that a mistyped range is no full memory.
pub const MOST_RUNS: u64 = 100_000_000;

/// Bytes of a scenario, and of a file of axes.
pub(crate) const LARGEST_TEXT: u64 = 1_000_000;

/// Values of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// As `--set` takes it: `link.line.rate`.
    pub key: String,
    /// As `--set` takes them.
    pub values: Vec<String>,
}

/// A scenario as text, before it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Name in errors, of which the title is made where the text has none.
    pub file: String,
    /// Traces are named from here.
    pub folder: PathBuf,
    /// TOML.
    pub text: String,
    /// `KEY=VALUE`, put in before those of a point.
    pub set: Vec<String>,
}

impl Source {
    /// The file at `path`.
    ///
    /// # Errors
    /// It is no scenario.
    pub fn load(path: &Path, set: &[String]) -> Result<Self, StoreError> {
        // For its errors: of a file that is missing or too large.
        makeway_scenario::load(path, set)?;
        let text = makeway_scenario::text_of(path, LARGEST_TEXT)
            .map_err(|error| StoreError::file(path, error))?;
        let path = std::path::absolute(path).map_err(|error| StoreError::file(path, error))?;
        Ok(Self {
            file: path.display().to_string(),
            folder: path.parent().unwrap_or(Path::new("/")).into(),
            text,
            set: set.to_vec(),
        })
    }

    /// The scenario with `more` settings.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line or setting.
    pub fn read(&self, more: &[String]) -> Result<Scenario, StoreError> {
        let set: Vec<String> = self.set.iter().chain(more).cloned().collect();
        let scenario = makeway_scenario::parse(&self.text, &self.file, &self.folder, &set)?;
        Ok(scenario)
    }
}

/// How much of a run is kept; more of it includes the less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    /// Its figures.
    #[default]
    Figures,
    /// Its report too, without what happened over time.
    Report,
    /// Its report with that.
    Series,
}

impl Detail {
    const ALL: [Self; 3] = [Self::Figures, Self::Report, Self::Series];

    /// As tables and settings have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Figures => "figures",
            Self::Report => "report",
            Self::Series => "series",
        }
    }
}

impl std::str::FromStr for Detail {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|detail| detail.name() == text);
        found.ok_or_else(|| {
            format!("`{text}` cannot be kept of a run: choose figures, report or series")
        })
    }
}

/// A sweep whose points have been read and checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    format: u32,
    /// Title of the scenario.
    pub title: String,
    /// The scenario.
    pub source: Source,
    /// Keys that change, with their values.
    pub axes: Vec<Axis>,
    /// Replications of each point.
    pub replications: u64,
    /// Number of the first; 1 unless [`Plan::with_first`] says another, as `makeway run --runs` numbers them.
    #[serde(default = "one")]
    pub first: u64,
    /// How much of each run is kept.
    #[serde(default)]
    pub detail: Detail,
    /// Fingerprint of the simulator that read it.
    pub code: String,
    /// Digest of each point's scenario.
    digests: Vec<String>,
}

fn one() -> u64 {
    1
}

/// One run of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Job {
    /// Number of the point, from 0.
    pub point: usize,
    /// Number of the replication, from that of the plan's first.
    pub replication: u64,
}

/// A part of all runs, for one of several machines: `1/4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    number: u64,
    of: u64,
}

impl Shard {
    /// Every run.
    pub const ALL: Self = Self { number: 1, of: 1 };

    fn has(self, run: u64) -> bool {
        run % self.of == self.number - 1
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text
            .split_once('/')
            .and_then(|(number, of)| Some((number.trim().parse().ok()?, of.trim().parse().ok()?)));
        match numbers {
            Some((number, of)) if number >= 1 && number <= of => Ok(Self { number, of }),
            _ => Err(format!(
                "`{text}` is no shard: write NUMBER/COUNT with 1 <= NUMBER <= COUNT, like 1/4"
            )),
        }
    }
}

impl Plan {
    /// Reads and checks the scenario of every point.
    ///
    /// # Errors
    /// A scenario is refused; or a key is there twice, has no value, or has two that mean the same; or there are too many runs.
    pub fn new(source: Source, axes: Vec<Axis>, replications: u64) -> Result<Self, StoreError> {
        let points = points(&axes, replications)?;
        let title = source.read(&[])?.title;
        let mut plan = Self {
            format: FORMAT,
            title,
            source,
            axes,
            replications,
            first: one(),
            detail: Detail::default(),
            code: CODE.into(),
            digests: Vec::new(),
        };
        for point in 0..points {
            let scenario = plan.source.read(&plan.settings(point))?;
            plan.digests.push(digest(&scenario));
        }
        different(&plan.axes, &plan.digests)?;
        Ok(plan)
    }

    /// With replications from this number on.
    ///
    /// # Errors
    /// There are not as many numbers.
    pub fn with_first(mut self, first: u64) -> Result<Self, StoreError> {
        self.first = first;
        self.numbered()
    }

    /// With more of each run kept than its figures.
    #[must_use]
    pub fn keeping(mut self, detail: Detail) -> Self {
        self.detail = detail;
        self
    }

    fn numbered(self) -> Result<Self, StoreError> {
        // Tables have them as signed numbers.
        let end = self.first.checked_add(self.replications);
        match end.is_some_and(|end| i64::try_from(end).is_ok()) {
            true => Ok(self),
            false => Err(StoreError::refused(format!(
                "{} replications from number {} on: begin at a smaller number, like 1",
                self.replications, self.first
            ))),
        }
    }

    /// As [`Plan::json`] wrote it.
    ///
    /// # Errors
    /// It is none, or of another format, or of a sweep that [`Plan::new`] refuses.
    pub fn from_json(text: &str) -> Result<Self, StoreError> {
        let plan: Self = serde_json::from_str(text)
            .map_err(|error| StoreError::refused(format!("this is no plan of a sweep: {error}")))?;
        if plan.format != FORMAT {
            return Err(StoreError::refused(format!(
                "a plan of format {}, and this program has {FORMAT}",
                plan.format
            )));
        }
        let (points, has) = (points(&plan.axes, plan.replications)?, plan.points());
        if points != has {
            return Err(StoreError::refused(format!(
                "this is no plan of a sweep: it has {has} of {points} points"
            )));
        }
        different(&plan.axes, &plan.digests)?;
        plan.numbered()
    }

    /// As JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("it holds only plain values")
    }

    /// Name of the sweep: the same for the same scenarios and keys, however many replications.
    pub fn id(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let parts = serde_json::to_vec(&(&self.axes, &self.digests, &self.code));
        hasher.update(&parts.expect("it holds only plain values"));
        short(&hasher)
    }

    /// Number of points.
    pub fn points(&self) -> usize {
        self.digests.len()
    }

    /// Number of runs.
    pub fn runs(&self) -> u64 {
        self.points() as u64 * self.replications
    }

    /// All runs of `shard`, point by point.
    pub fn jobs(&self, shard: Shard) -> impl Iterator<Item = Job> + '_ {
        let runs = (0..self.runs()).filter(move |run| shard.has(*run));
        runs.map(|run| Job {
            point: (run / self.replications) as usize,
            replication: self.first + run % self.replications,
        })
    }

    /// For each point the first one of the same scenario: another one where a value changes nothing, as that of a parameter of another
    /// discipline. The two share their runs.
    pub(crate) fn firsts(&self) -> Vec<usize> {
        let mut known: HashMap<&str, usize> = HashMap::new();
        let points = self.digests.iter().enumerate();
        points
            .map(|(point, digest)| *known.entry(digest).or_insert(point))
            .collect()
    }

    /// Place of each axis's value at a point.
    pub fn places(&self, point: usize) -> Vec<usize> {
        let mut left = point;
        let mut places: Vec<usize> = Vec::with_capacity(self.axes.len());
        for axis in self.axes.iter().rev() {
            places.push(left % axis.values.len());
            left /= axis.values.len();
        }
        places.reverse();
        places
    }

    /// Number of the point with these places.
    pub fn point(&self, places: &[usize]) -> usize {
        let axes = self.axes.iter().zip(places);
        axes.fold(0, |point, (axis, place)| point * axis.values.len() + place)
    }

    /// `KEY=VALUE` of each axis at a point.
    pub fn settings(&self, point: usize) -> Vec<String> {
        let axes = self.axes.iter().zip(self.places(point));
        axes.map(|(axis, place)| format!("{}={}", axis.key, axis.values[place]))
            .collect()
    }

    /// The scenario of a point, as it was when the sweep was planned.
    ///
    /// # Errors
    /// Another simulator planned it, or a file that it names differs here.
    pub fn scenario(&self, point: usize) -> Result<Scenario, StoreError> {
        if self.code != CODE {
            return Err(StoreError::OtherCode {
                planned: self.code.clone(),
                here: CODE.into(),
            });
        }
        let scenario = self.source.read(&self.settings(point))?;
        if self.digests.get(point) != Some(&digest(&scenario)) {
            return Err(StoreError::OtherScenario {
                file: self.source.file.clone(),
                point,
                folder: self.source.folder.display().to_string(),
            });
        }
        Ok(scenario)
    }

    /// Key of a run.
    pub fn key(&self, job: Job) -> String {
        key(&self.digests[job.point], job.replication, &self.code)
    }
}

/// Key of a run by this program, of a scenario with this digest.
pub fn run_key(digest: &str, replication: u64) -> String {
    key(digest, replication, CODE)
}

/// Key of a run: of the scenario as it was read, without its title, with the content of the files that it names; the seed, which is in
/// it; the replication, the world, the simulator's code and the format.
fn key(digest: &str, replication: u64, code: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(format!("run {FORMAT} sim {digest} {replication} {code}").as_bytes());
    short(&hasher)
}

/// Number of points of a sweep that can be.
///
/// # Errors
/// As those of [`Plan::new`], scenarios left out.
fn points(axes: &[Axis], replications: u64) -> Result<usize, StoreError> {
    if replications == 0 {
        return Err(StoreError::refused("0 replications: ask for 1 at least"));
    }
    for (place, axis) in axes.iter().enumerate() {
        let key = &axis.key;
        if axes[..place].iter().any(|other| other.key == *key) {
            return Err(StoreError::refused(format!(
                "`{key}` is there twice: give its values in one list"
            )));
        }
        if axis.values.is_empty() {
            return Err(StoreError::refused(format!(
                "`{key}` has no value: give one at least"
            )));
        }
        let twice = |n: usize| axis.values[..n].contains(&axis.values[n]);
        if let Some(n) = (1..axis.values.len()).find(|n| twice(*n)) {
            let value = &axis.values[n];
            return Err(StoreError::refused(format!(
                "`{key}` has the value `{value}` twice"
            )));
        }
    }
    let points = axes.iter().map(|axis| axis.values.len() as u64);
    let runs = points.chain([replications]).try_fold(1, u64::checked_mul);
    let Some(runs) = runs.filter(|runs| *runs <= MOST_RUNS) else {
        return Err(StoreError::refused(format!(
            "a sweep of more than {MOST_RUNS} runs: give fewer values or replications"
        )));
    };
    Ok((runs / replications) as usize)
}

/// Refuses values of a key that mean the same wherever the others are: `10mbit` and `10000kbit`, or any values of a key that has no effect.
fn different(axes: &[Axis], digests: &[String]) -> Result<(), StoreError> {
    for (number, axis) in axes.iter().enumerate() {
        let (count, later) = (axis.values.len(), &axes[number + 1..]);
        // Points that follow each other with the same value of this key.
        let run: usize = later.iter().map(|axis| axis.values.len()).product();
        let digests_of = |place: usize| {
            let rounds = digests.chunks(run * count);
            rounds.flat_map(move |round| &round[place * run..][..run])
        };
        let mut places: Vec<usize> = (0..count).collect();
        places.sort_by(|a, b| digests_of(*a).cmp(digests_of(*b)));
        let same = |a: &usize, b: &usize| digests_of(*a).eq(digests_of(*b));
        if let Some(places) = places.chunk_by(same).find(|places| places.len() > 1) {
            let value = |place: &usize| format!("`{}`", axis.values[*place]);
            let values: Vec<String> = places.iter().map(value).collect();
            return Err(StoreError::refused(format!(
                "`{}` has values that mean the same in this scenario, {}: keep one of them",
                axis.key,
                values.join(" and ")
            )));
        }
    }
    Ok(())
}

/// Digest of a scenario as it was read: its numbers, and the content of the files that it names; not its title, nor where a value was
/// written, nor the paths of the files. Two files that mean the same have the same digest: `10mbit` and `10000kbit`.
pub fn digest(scenario: &Scenario) -> String {
    let mut plain = scenario.clone();
    plain.title.clear();
    plain.set.clear();
    for flow in &mut plain.flows {
        flow.place.clear();
        if let model::Source::Rtp { trace: path, .. } | model::Source::Pcap { file: path, .. } =
            &mut flow.source
        {
            path.clear();
        }
    }
    let mut hasher = Hashed(blake3::Hasher::new());
    // Every number of the model is written exactly, and its maps are in order.
    write!(hasher, "{plain:?}").expect("a hash takes everything");
    short(&hasher.0)
}

/// Text that goes into a hash and not into memory.
struct Hashed(blake3::Hasher);

impl Write for Hashed {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

fn short(hasher: &blake3::Hasher) -> String {
    hasher.finalize().to_hex()[..32].to_owned()
}

#[cfg(test)]
mod tests;
