// SPDX-License-Identifier: MIT OR Apache-2.0
//! A folder of finished runs.
//!
//! - `plans/ID.json`: sweeps that were begun; `plan.json`: the last of them;
//! - `runs/PART.parquet`, `figures/PART.parquet`, `reports/PART.parquet`: finished runs;
//! - `damaged/`: parts that could not be read, whose runs are made again.
//!
//! A part is written whole: its figures and reports, then its runs, each to a file of another name that is synchronised and renamed. PART
//! is the hash of the runs' file, which names the hashes of the others, so that runs and figures that are damaged in any way are noticed
//! when the store is opened, and reports, which may be large, when they are read. Several processes may write to one store, since the
//! files that they write have different names.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::error::StoreError;
use crate::part::{Part, hash, reports};
use crate::plan::{Detail, Job, Plan, Shard};
use crate::table::{Column, Table, Text};

/// Bytes of a part's file that is read at most.
const MOST_BYTES: u64 = 1 << 30;

/// A folder of finished runs, and an index of them.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    index: HashMap<String, Entry>,
    parts: Vec<String>,
    damaged: Vec<String>,
}

/// A finished run of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub part: usize,
    pub row: usize,
    /// None of a run that failed.
    pub fingerprint: Option<String>,
    /// How much of it is kept.
    pub detail: Detail,
}

impl Store {
    /// Opens the store in `folder`, which is made where it is missing. Damaged parts are moved aside.
    ///
    /// # Errors
    /// The system's, and [`StoreError::TwoResults`].
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        for name in ["plans", "runs", "figures", "reports"] {
            let inner = folder.join(name);
            fs::create_dir_all(&inner).map_err(|error| StoreError::file(&inner, error))?;
        }
        let mut store = Self {
            folder: folder.into(),
            index: HashMap::new(),
            parts: Vec::new(),
            damaged: Vec::new(),
        };
        store.scan()?;
        Ok(store)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Finished runs of all sweeps, failed ones included.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Names of parts that were moved aside when it was opened.
    pub fn damaged(&self) -> &[String] {
        &self.damaged
    }

    /// Takes parts in that other processes have written since.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn scan(&mut self) -> Result<(), StoreError> {
        let folder = self.folder.join("runs");
        let entries = fs::read_dir(&folder).map_err(|error| StoreError::file(&folder, error))?;
        let names = entries.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some(name.strip_suffix(".parquet")?.to_owned())
        });
        let mut names: Vec<String> = names.filter(|name| !self.parts.contains(name)).collect();
        names.sort();
        for name in names {
            match self.part(&name)?.map(|part| part.runs(&in_index)) {
                Some(Ok(runs)) => {
                    let reported = self.path("reports", &name).exists();
                    let new = self.new_in(&runs, reported)?;
                    self.add(name, new);
                }
                _ => self.set_aside(name)?,
            }
        }
        Ok(())
    }

    /// The part `name` without its reports; `None` if one of its files is missing, is none of ours, or is another's: a name is a hash.
    fn part(&self, name: &str) -> Result<Option<Part>, StoreError> {
        let both = (self.bytes("runs", name)?, self.bytes("figures", name)?);
        Ok(match both {
            (Some(runs), Some(figures)) => Some(Part {
                runs,
                figures,
                reports: None,
            }),
            _ => None,
        }
        .filter(|part| part.name() == name))
    }

    /// A file of the part `name`; `None` if it is missing, or is none of ours.
    fn bytes(&self, kind: &str, name: &str) -> Result<Option<Bytes>, StoreError> {
        let path = self.path(kind, name);
        match whole(&path) {
            Ok(bytes) => Ok(bytes.map(Into::into)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::file(&path, error)),
        }
    }

    fn path(&self, kind: &str, name: &str) -> PathBuf {
        self.folder.join(kind).join(format!("{name}.parquet"))
    }

    /// Its runs are missing then, and are made again.
    fn set_aside(&mut self, name: String) -> Result<(), StoreError> {
        for kind in ["runs", "figures", "reports"] {
            self.move_aside(kind, &name)?;
        }
        self.damaged.push(name);
        Ok(())
    }

    fn move_aside(&self, kind: &str, name: &str) -> Result<(), StoreError> {
        let folder = self.folder.join("damaged");
        fs::create_dir_all(&folder).map_err(|error| StoreError::file(&folder, error))?;
        let path = self.path(kind, name);
        match fs::rename(&path, folder.join(format!("{name}.{kind}.parquet"))) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(StoreError::file(&path, error))
            }
            _ => Ok(()),
        }
    }

    /// Runs of the next part that the index does not have, or not with as much. `reported`: its file of reports is there.
    fn new_in(&self, runs: &Table, reported: bool) -> Result<HashMap<String, Entry>, StoreError> {
        let (keys, fingerprints) = (text(runs, "key")?, text(runs, "fingerprint")?);
        // Parts of before reports have no such column.
        let details = text(runs, "detail").ok().filter(|_| reported);
        let mut new: HashMap<String, Entry> = HashMap::new();
        for (row, (key, fingerprint)) in keys.iter().zip(fingerprints.iter()).enumerate() {
            let key = key.unwrap_or_default();
            let detail = details.and_then(|details| details.get(row)?.parse::<Detail>().ok());
            let detail = detail.unwrap_or_default();
            // A part may have a run twice, with more of it and with less. One that failed counts as no result.
            let known = new.get(key).or_else(|| self.index.get(key));
            let known = known.and_then(|known| Some((known.fingerprint.as_deref()?, known.detail)));
            if let (Some((one, _)), Some(other)) = (known, fingerprint)
                && one != other
            {
                return Err(StoreError::TwoResults {
                    key: key.into(),
                    one: one.into(),
                    other: other.into(),
                });
            }
            // A result stays, even if it fails later, unless there is more of it.
            let is_new = match known {
                Some((_, has)) => fingerprint.is_some() && detail > has,
                None => true,
            };
            if is_new {
                let entry = Entry {
                    part: self.parts.len(),
                    row,
                    fingerprint: fingerprint.map(str::to_owned),
                    detail,
                };
                new.insert(key.to_owned(), entry);
            }
        }
        Ok(new)
    }

    fn add(&mut self, name: String, new: HashMap<String, Entry>) {
        self.index.extend(new);
        self.parts.push(name);
    }

    /// Writes a part: when this returns, it is on the disk whole.
    ///
    /// # Errors
    /// The system's, after which nothing of the part is left; [`StoreError::TwoResults`]; that the part is damaged.
    pub fn commit(&mut self, part: &Part) -> Result<(), StoreError> {
        let name = part.name();
        if self.parts.contains(&name) {
            return Ok(());
        }
        let [runs, _] = part.tables()?;
        let new = self.new_in(&runs, part.reports.is_some())?;
        // In this order, and removed in the other: runs that are seen have the rest.
        let files = [
            ("figures", Some(&part.figures)),
            ("reports", part.reports.as_ref()),
            ("runs", Some(&part.runs)),
        ];
        let files = files.into_iter();
        let files = files.filter_map(|(kind, bytes)| Some((self.path(kind, &name), bytes?)));
        let files: Vec<(PathBuf, &Bytes)> = files.collect();
        if let Err(error) = files
            .iter()
            .try_for_each(|(path, bytes)| write_whole(path, bytes))
        {
            for (path, _) in files.iter().rev() {
                let _ = fs::remove_file(path);
            }
            return Err(error);
        }
        self.add(name, new);
        Ok(())
    }

    /// Reports of the runs with these keys, as JSON, as far as `detail` or more of them is kept. Reports that are damaged or gone are
    /// moved aside; of their runs only figures are kept then.
    ///
    /// # Errors
    /// The system's.
    pub fn reports(
        &mut self,
        keys: &[String],
        detail: Detail,
    ) -> Result<HashMap<String, String>, StoreError> {
        let mut wanted: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for key in keys {
            if let Some(entry) = self.index.get(key)
                && entry.detail >= detail.max(Detail::Report)
            {
                wanted.entry(entry.part).or_default().push(key);
            }
        }
        let mut found = HashMap::new();
        for (part, keys) in wanted {
            let Some(table) = self.reports_of(part)? else {
                self.forget_reports(part)?;
                continue;
            };
            let mut rows = fullest(&table)?;
            found.extend(keys.into_iter().filter_map(|key| {
                let (_, text) = rows.remove(key)?;
                Some((key.to_owned(), text.to_owned()))
            }));
        }
        Ok(found)
    }

    /// The table of reports of a part; `None` if it is not the one that was written.
    fn reports_of(&self, part: usize) -> Result<Option<Table>, StoreError> {
        let name = &self.parts[part];
        let both = (self.bytes("runs", name)?, self.bytes("reports", name)?);
        let (Some(of_runs), Some(of_reports)) = both else {
            return Ok(None);
        };
        if hash(&of_runs) != *name {
            return Ok(None);
        }
        Ok(reports(of_runs, of_reports).ok())
    }

    fn forget_reports(&mut self, part: usize) -> Result<(), StoreError> {
        self.move_aside("reports", &self.parts[part])?;
        let entries = self.index.values_mut();
        entries
            .filter(|entry| entry.part == part)
            .for_each(|entry| entry.detail = Detail::Figures);
        Ok(())
    }

    /// Keeps the plans of sweeps that begin, of which the last is that of [`Store::last`].
    ///
    /// # Errors
    /// The system's.
    pub fn begin(&self, plans: &[&Plan]) -> Result<(), StoreError> {
        let folder = self.folder.join("plans");
        for plan in plans {
            let path = folder.join(format!("{}.json", plan.id()));
            write_whole(&path, plan.json().as_bytes())?;
        }
        plans.last().map_or(Ok(()), |last| {
            write_whole(&self.folder.join("plan.json"), last.json().as_bytes())
        })
    }

    /// The plan of the sweep that began last.
    ///
    /// # Errors
    /// None has begun, or the file is damaged.
    pub fn last(&self) -> Result<Plan, StoreError> {
        let path = self.folder.join("plan.json");
        match whole(&path) {
            Ok(Some(bytes)) => Plan::from_json(&String::from_utf8_lossy(&bytes)),
            Ok(None) => Err(StoreError::refused(format!(
                "{} is no file of {} MB at most: it is not a plan",
                path.display(),
                MOST_BYTES / 1_000_000
            ))),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(StoreError::refused(format!(
                "no sweep has been run with the store {}: run one first",
                self.folder.display()
            ))),
            Err(error) => Err(StoreError::file(&path, error)),
        }
    }

    /// Runs of `plan` that are not in the store, or of which less is kept than the plan says; of points that share their runs, those of the
    /// first. Those that failed count as missing if `again`.
    pub fn missing(&self, plan: &Plan, shard: Shard, again: bool) -> Vec<Job> {
        let firsts = plan.firsts();
        let jobs = plan.jobs(shard);
        let done = |job: &Job| match self.index.get(&plan.key(*job)) {
            Some(entry) if entry.fingerprint.is_some() => entry.detail >= plan.detail,
            Some(_) => !again,
            None => false,
        };
        jobs.filter(|job| firsts[job.point] == job.point && !done(job))
            .collect()
    }

    /// The same of each of `plans`. A run that several of them have is missing in the first alone, unless a later one keeps more of it.
    pub fn missing_of_each(&self, plans: &[&Plan], shard: Shard, again: bool) -> Vec<Vec<Job>> {
        // By key: the most that a plan before keeps of a run.
        let mut taken: HashMap<String, Option<Detail>> = HashMap::new();
        let of_each = plans.iter().map(|plan| {
            let mut jobs = self.missing(plan, shard, again);
            // A plan alone needs no keys of a million runs.
            if plans.len() > 1 {
                jobs.retain(|job| {
                    let before = taken.entry(plan.key(*job)).or_default();
                    let is_more = *before < Some(plan.detail);
                    *before = (*before).max(Some(plan.detail));
                    is_more
                });
            }
            jobs
        });
        of_each.collect()
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.index.get(key)
    }

    /// The table of runs of a part of the index.
    pub(crate) fn runs(&self, part: usize) -> Result<Table, StoreError> {
        self.still(part)?.runs(&|_| true)
    }

    /// The table of figures of a part of the index.
    pub(crate) fn figures(&self, part: usize) -> Result<Table, StoreError> {
        self.still(part)?.figures()
    }

    /// A part of the index, if it still is as it was.
    fn still(&self, part: usize) -> Result<Part, StoreError> {
        let name = &self.parts[part];
        self.part(name)?.ok_or_else(|| {
            StoreError::refused(format!(
                "the part {name} is gone or damaged: open the store again"
            ))
        })
    }
}

/// Whether the index has something of this column.
fn in_index(column: &str) -> bool {
    matches!(column, "key" | "fingerprint" | "detail")
}

/// Bytes of a file; `None` of one that is too long, and of a pipe or a device, which may have no end.
fn whole(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    if !fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    match makeway_scenario::bytes_of(path, MOST_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        // A file of /proc has no length, and perhaps no end.
        Err(error) if error.kind() == ErrorKind::FileTooLarge => Ok(None),
        Err(error) => Err(error),
    }
}

/// A column of text.
pub(crate) fn text<'t>(table: &'t Table, name: &str) -> Result<&'t Text, StoreError> {
    match table.column(name) {
        Some(Column::Text(text)) => Ok(text),
        _ => Err(StoreError::Table(format!("no text `{name}`"))),
    }
}

/// The report of each key with the most detail: a part may have a run twice.
fn fullest(table: &Table) -> Result<HashMap<&str, (Detail, &str)>, StoreError> {
    let (keys, texts) = (text(table, "key")?, text(table, "report")?);
    let details = text(table, "detail")?;
    let mut fullest: HashMap<&str, (Detail, &str)> = HashMap::new();
    for ((key, detail), report) in keys.iter().zip(details.iter()).zip(texts.iter()) {
        let (Some(key), Some(report)) = (key, report) else {
            continue;
        };
        let detail = detail.and_then(|detail| detail.parse::<Detail>().ok());
        let detail = detail.unwrap_or_default();
        let known = fullest.get(key);
        if known.is_none_or(|(has, _)| detail > *has) {
            fullest.insert(key, (detail, report));
        }
    }
    Ok(fullest)
}

/// Either the whole file is there under its name, or none.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let refuse = |error| StoreError::file(path, error);
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .tempfile_in(folder)
        .map_err(refuse)?;
    // Of the file itself, for errors with their number.
    file.as_file_mut().write_all(bytes).map_err(refuse)?;
    file.as_file().sync_all().map_err(refuse)?;
    file.persist(path).map_err(|error| refuse(error.error))?;
    // The name itself.
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(refuse)
}

#[cfg(test)]
mod tests;
