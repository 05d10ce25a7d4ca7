// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finished runs between their end and the disk.

use std::time::{Duration, Instant};

use crate::CODE;
use crate::error::StoreError;
use crate::part::{Finished, Part};
use crate::store::Store;

/// Time since the last commit after which finished runs are committed: what a crash costs.
pub const PART: Duration = Duration::from_secs(5);
/// Runs of a part at most, so that it fits in memory.
pub const MOST_IN_PART: usize = 20_000;
/// Bytes of reports after which a part is committed, for the same reason.
pub const MOST_REPORTED: usize = 64 << 20;

/// Finished runs that are not on the disk yet.
pub struct Keeper<'a> {
    store: &'a mut Store,
    waiting: Vec<Finished>,
    reported: usize,
    since: Instant,
}

impl<'a> Keeper<'a> {
    /// Keeper of runs for `store`.
    pub fn new(store: &'a mut Store) -> Self {
        Self {
            store,
            waiting: Vec::new(),
            reported: 0,
            since: Instant::now(),
        }
    }

    /// Takes a run, and commits those that wait if that is due.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn take(&mut self, run: Finished) -> Result<(), StoreError> {
        self.reported += run.report.as_ref().map_or(0, |(_, text)| text.len());
        self.waiting.push(run);
        self.commit_if_due()
    }

    /// Commits those that wait, if the last commit was [`PART`] ago, or there are many.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn commit_if_due(&mut self) -> Result<(), StoreError> {
        let many = self.waiting.len() >= MOST_IN_PART || self.reported >= MOST_REPORTED;
        match many || self.since.elapsed() >= PART {
            true => self.commit(),
            false => Ok(()),
        }
    }

    /// Commits all that wait.
    ///
    /// # Errors
    /// As [`Store::commit`]; they are lost then.
    pub fn commit(&mut self) -> Result<(), StoreError> {
        self.since = Instant::now();
        self.reported = 0;
        if self.waiting.is_empty() {
            return Ok(());
        }
        let part = Part::new(&std::mem::take(&mut self.waiting), CODE)?;
        self.store.commit(&part)
    }
}

#[cfg(test)]
mod tests {
    use makeway_sim::Options;

    use super::*;
    use crate::part::make;
    use crate::plan::Detail;
    use crate::sample::source;

    #[test]
    fn runs_wait_unless_their_reports_are_large() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let mut keeper = Keeper::new(&mut store);
        let scenario = source().read(&[]).unwrap();
        let mut run = |key: &str| {
            let options = Options::default();
            let run = make(&scenario, key.into(), Detail::Report, &options).unwrap();
            keeper.since = Instant::now();
            keeper.take(run).unwrap();
            let kept = keeper.store.len();
            keeper.reported = MOST_REPORTED - 1;
            kept
        };
        assert_eq!([run("a"), run("b")], [0, 2]);
        keeper.commit().unwrap();
        assert_eq!(store.len(), 2);
    }
}
