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

/// A run that is made or read once, for all that want it.
struct Work {
    key: String,
    /// The most that is wanted.
    detail: Detail,
    /// Places among what is wanted; not empty.
    places: Vec<usize>,
}

impl Runs<'_> {
    /// Gives their reports to `take`, each with its place in [`wanted`](Self::wanted): in the order of it, but a run that is wanted again
    /// right after its first place. Replications of a cell come in their order if every cell wants them from the same first one on.
    /// Whether all were made: `stop` ends them.
    ///
    /// # Errors
    /// A run failed, or the store cannot be read or written. Finished runs are kept.
    pub fn reports(
        &self,
        stop: &Arc<AtomicBool>,
        mut take: impl FnMut(usize, Report),
    ) -> anyhow::Result<bool> {
        let mut store = self.store.map(open).transpose()?;
        let works = self.works();
        let mut kept = HashMap::new();
        if let Some(store) = &mut store {
            for detail in [Detail::Report, Detail::Series] {
                let of_detail = works.iter().filter(|work| work.detail == detail);
                let keys: Vec<String> = of_detail.map(|work| work.key.clone()).collect();
                kept.extend(store.reports(&keys, detail)?);
            }
        }
        let keeper = store.as_mut().map(|store| Mutex::new(Keeper::new(store)));
        let report = |number: usize| -> anyhow::Result<Option<Report>> {
            let work = &works[number];
            if let Some(text) = kept.get(&work.key) {
                return read(text, work.detail).map(Some);
            }
            let run = self.wanted[work.places[0]];
            let options = Options {
                stop: Arc::clone(stop),
                replication: run.replication,
                ..Options::default()
            };
            let scenario = (self.scenario)(run.cell);
            let Some(finished) = make(&scenario, work.key.clone(), work.detail, &options) else {
                return Ok(None);
            };
            let Some((_, text)) = &finished.report else {
                let why = finished.error.as_deref().unwrap_or("it has no report");
                bail!("{}: {why}", (self.name)(run.cell));
            };
            let report = read(text, work.detail)?;
            if let Some(keeper) = &keeper {
                let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
                keeper.take(finished)?;
            }
            Ok(Some(report))
        };
        let all = each(works.len(), self.jobs, stop, report, |number, report| {
            if let Some((last, before)) = works[number].places.split_last() {
                for &place in before {
                    take(place, self.at(place, report.clone()));
                }
                take(*last, self.at(*last, report));
            }
        });
        // Also after an error: what is finished is kept where it can be.
        let committed = keeper.map_or(Ok(()), |keeper| {
            let keeper = keeper.into_inner();
            keeper.unwrap_or_else(PoisonError::into_inner).commit()
        });
        let all = all?;
        committed?;
        Ok(all)
    }

    /// Runs to be made or read, in the order of those that are wanted.
    fn works(&self) -> Vec<Work> {
        let mut works: Vec<Work> = Vec::with_capacity(self.wanted.len());
        let mut digests: HashMap<usize, String> = HashMap::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        for (place, run) in self.wanted.iter().enumerate() {
            let of_cell = digests.entry(run.cell);
            let of_cell = of_cell.or_insert_with(|| digest(&(self.scenario)(run.cell)));
            let key = run_key(of_cell, run.replication);
            let number = *known.entry(key).or_insert_with_key(|key| {
                works.push(Work {
                    key: key.clone(),
                    detail: run.detail,
                    places: Vec::new(),
                });
                works.len() - 1
            });
            let work = &mut works[number];
            work.detail = work.detail.max(run.detail);
            work.places.push(place);
        }
        works
    }

    /// A report as it is wanted at a place. Its run may have come from another cell or file that means the same: title and settings are
    /// this one's.
    fn at(&self, place: usize, mut report: Report) -> Report {
        let run = self.wanted[place];
        let scenario = (self.scenario)(run.cell);
        report.title.clone_from(&scenario.title);
        report.set.clone_from(&scenario.set);
        with(run.detail, report)
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

/// A report of which this is wanted: the store may have more.
fn read(text: &str, detail: Detail) -> anyhow::Result<Report> {
    let report = from_json(text).context("a report of the store")?;
    Ok(with(detail, report))
}

/// A report with no more than this.
fn with(detail: Detail, report: Report) -> Report {
    match detail {
        Detail::Series => report,
        _ => report.without_series(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_cells_share_is_made_once_with_the_most_that_is_wanted_of_it() {
        let [first, longer, same] = ["title=one", "duration=9s", "title=another"]
            .map(|set| makeway::builtin::load("call-and-downloads.toml", &[set.into()]).unwrap());
        let scenarios = [first, longer, same];
        let wanted = |cell, replication, detail| Wanted {
            cell,
            replication,
            detail,
        };
        let runs = Runs {
            store: None,
            scenario: &|cell| Cow::Borrowed(&scenarios[cell]),
            name: &|cell| cell.to_string(),
            wanted: &[
                wanted(0, 1, Detail::Report),
                wanted(0, 2, Detail::Report),
                wanted(1, 1, Detail::Report),
                wanted(2, 1, Detail::Series),
                wanted(2, 2, Detail::Report),
            ],
            jobs: 1,
        };
        let works = runs.works();
        let what: Vec<_> = works
            .iter()
            .map(|work| (work.detail, &work.places[..]))
            .collect();
        assert_eq!(
            what,
            [
                (Detail::Series, &[0, 3][..]),
                (Detail::Report, &[1, 4]),
                (Detail::Report, &[2]),
            ]
        );
    }
}
