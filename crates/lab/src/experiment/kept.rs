// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs in simulated time whose reports a store keeps: those that it has are not made again. It is the store of `makeway run --sweep` and
//! of Python, so that runs may also come from there, and from a cluster.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use makeway_report::json::from_json;
use makeway_report::model::Report;
use makeway_scenario::Scenario;
use makeway_sim::Options;
use makeway_store::keeper::Keeper;
use makeway_store::part::make;
use makeway_store::plan::{Detail, digest, run_key};
use makeway_store::store::Store;

use super::sim::each;

/// A run that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Number of its cell.
    pub cell: usize,
    pub replication: u64,
    /// How much of the report.
    pub detail: Detail,
}

/// Runs that are wanted, and the scenarios of their cells.
pub struct Runs<'a> {
    /// Folder of the store; without one all of them are made.
    pub store: Option<&'a Path>,
    /// The scenario of a cell.
    pub scenario: &'a (dyn Fn(usize) -> Cow<'a, Scenario> + Sync),
    /// The name of a cell, for errors.
    pub name: &'a (dyn Fn(usize) -> String + Sync),
    pub wanted: &'a [Wanted],
    /// Runs at a time.
    pub jobs: usize,
}

impl Runs<'_> {
    /// Gives their reports to `take`, in order. Whether all were made: `stop` ends them.
    ///
    /// # Errors
    /// A run failed, or the store cannot be read or written. Finished runs are kept.
    pub fn reports(
        &self,
        stop: &Arc<AtomicBool>,
        take: impl FnMut(usize, Report),
    ) -> anyhow::Result<bool> {
        let mut store = self.store.map(open).transpose()?;
        let keys = self.keys(store.is_some());
        let (mut reports, mut series) = (HashMap::new(), HashMap::new());
        if let Some(store) = &mut store {
            reports = store.reports(&self.keys_of(&keys, Detail::Report), Detail::Report)?;
            series = store.reports(&self.keys_of(&keys, Detail::Series), Detail::Series)?;
        }
        let keeper = store.as_mut().map(|store| Mutex::new(Keeper::new(store)));
        let work = |number: usize| -> anyhow::Result<Option<Report>> {
            let (run, key) = (self.wanted[number], &keys[number]);
            let scenario = (self.scenario)(run.cell);
            let kept = match run.detail {
                Detail::Series => series.get(key),
                _ => reports.get(key),
            };
            if let Some(text) = kept {
                return read(text, run.detail, &scenario).map(Some);
            }
            let options = Options {
                stop: Arc::clone(stop),
                replication: run.replication,
                ..Options::default()
            };
            let Some(finished) = make(&scenario, key.clone(), run.detail, &options) else {
                return Ok(None);
            };
            let Some((_, text)) = &finished.report else {
                let why = finished.error.as_deref().unwrap_or("it has no report");
                bail!("{}: {why}", (self.name)(run.cell));
            };
            let report = read(text, run.detail, &scenario)?;
            if let Some(keeper) = &keeper {
                let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
                keeper.take(finished)?;
            }
            Ok(Some(report))
        };
        let all = each(self.wanted.len(), self.jobs, stop, work, take);
        // Also after an error: what is finished is kept where it can be.
        let committed = keeper.map_or(Ok(()), |keeper| {
            let keeper = keeper.into_inner();
            keeper.unwrap_or_else(PoisonError::into_inner).commit()
        });
        let all = all?;
        committed?;
        Ok(all)
    }

    /// Keys of the runs; nothing where no store has them.
    fn keys(&self, kept: bool) -> Vec<String> {
        let mut digests: HashMap<usize, String> = HashMap::new();
        let runs = self.wanted.iter();
        runs.map(|run| match kept {
            true => {
                let known = digests.entry(run.cell);
                let known = known.or_insert_with(|| digest(&(self.scenario)(run.cell)));
                run_key(known, run.replication)
            }
            false => String::new(),
        })
        .collect()
    }

    /// Keys of the runs of which this is wanted.
    fn keys_of(&self, keys: &[String], detail: Detail) -> Vec<String> {
        let runs = self.wanted.iter().zip(keys);
        runs.filter(|(run, _)| run.detail == detail)
            .map(|(_, key)| key.clone())
            .collect()
    }
}

fn open(folder: &Path) -> anyhow::Result<Store> {
    let store = Store::open(folder)?;
    if !store.damaged().is_empty() {
        eprintln!(
            "{} damaged parts were moved to {}: their runs are made again",
            store.damaged().len(),
            folder.join("damaged").display()
        );
    }
    Ok(store)
}

/// A report of the store. Its run may have come from another file that means the same: title and settings are this one's.
fn read(text: &str, detail: Detail, scenario: &Scenario) -> anyhow::Result<Report> {
    let mut report = from_json(text).context("a report of the store")?;
    report.title.clone_from(&scenario.title);
    report.set.clone_from(&scenario.set);
    Ok(match detail {
        Detail::Series => report,
        _ => report.without_series(),
    })
}
