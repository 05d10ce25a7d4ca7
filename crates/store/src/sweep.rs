// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the runs of a sweep that a store lacks, on threads of this process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use makeway_sim::Options;

use crate::error::StoreError;
use crate::keeper::Keeper;
use crate::part::{Finished, Reader, Status};
use crate::plan::{Plan, Shard};
use crate::queue::Queue;
use crate::store::Store;

/// How to make them.
#[derive(Clone, Debug)]
pub struct How {
    /// Threads.
    pub workers: usize,
    /// Which of the runs.
    pub shard: Shard,
    /// Whether runs that failed are made again.
    pub again: bool,
    /// Set to true from anywhere, it ends the sweep: finished runs are committed.
    pub stop: Arc<AtomicBool>,
}

impl Default for How {
    /// A thread for each core, every run.
    fn default() -> Self {
        Self {
            workers: thread::available_parallelism().map_or(1, usize::from),
            shard: Shard::ALL,
            again: false,
            stop: Arc::default(),
        }
    }
}

/// How far a sweep is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Runs of the sweep, or of its shard.
    pub runs: u64,
    /// Runs that were in the store before, or that an earlier point has too.
    pub kept: u64,
    /// Made now, failed ones included.
    pub made: u64,
    /// Runs made now without figures.
    pub failed: u64,
    /// Time of those that were made, by the clock.
    pub busy: Duration,
    /// Their processor time.
    pub cpu: Duration,
    /// Since the sweep began.
    pub elapsed: Duration,
    /// Threads.
    pub workers: usize,
}

impl Summary {
    /// Whether every run is in the store.
    pub fn complete(&self) -> bool {
        self.kept + self.made == self.runs
    }

    /// Share of the workers' time that runs took.
    pub fn scheduling(&self) -> f64 {
        let time = self.elapsed.as_secs_f64() * self.workers as f64;
        if time > 0.0 {
            self.busy.as_secs_f64() / time
        } else {
            0.0
        }
    }
}

/// Makes the missing runs of `plan`. `progress` is told ten times a second at least, and ends the sweep by returning false.
///
/// # Errors
/// A scenario reads otherwise than when it was planned, or a part cannot be written. Runs that were committed stay.
pub fn run(
    store: &mut Store,
    plan: &Plan,
    how: &How,
    mut progress: impl FnMut(&Summary) -> bool,
) -> Result<Summary, StoreError> {
    store.begin(plan)?;
    let missing = store.missing(plan, how.shard, how.again);
    let runs = plan.jobs(how.shard).count() as u64;
    let mut summary = Summary {
        runs,
        kept: runs - missing.len() as u64,
        workers: how.workers.clamp(1, missing.len().max(1)),
        ..Summary::default()
    };
    let began = Instant::now();
    let queue = Mutex::new(Queue::new(missing));
    let (send, results) = mpsc::channel();
    let mut keeper = Keeper::new(store);
    let ended = thread::scope(|scope| {
        for _ in 0..summary.workers {
            let (send, queue) = (send.clone(), &queue);
            scope.spawn(move || work(plan, how, queue, |result| send.send(result).is_ok()));
        }
        drop(send);
        let ended = take(
            &results,
            &mut keeper,
            &mut summary,
            || began.elapsed(),
            |summary| {
                if !progress(summary) {
                    how.stop.store(true, Ordering::Relaxed);
                }
            },
        );
        if ended.is_err() {
            how.stop.store(true, Ordering::Relaxed);
        }
        ended
    });
    // Also after an error: what is finished is kept where it can be.
    let kept = keeper.commit();
    ended?;
    kept?;
    summary.elapsed = began.elapsed();
    Ok(summary)
}

/// Takes results until the last worker is gone.
fn take(
    results: &Receiver<Result<Finished, StoreError>>,
    keeper: &mut Keeper<'_>,
    summary: &mut Summary,
    elapsed: impl Fn() -> Duration,
    mut progress: impl FnMut(&Summary),
) -> Result<(), StoreError> {
    loop {
        let result = results.recv_timeout(Duration::from_millis(100));
        summary.elapsed = elapsed();
        match result {
            Ok(run) => {
                let run = run?;
                summary.made += 1;
                summary.failed += u64::from(run.status != Status::Ok);
                summary.busy += run.wall;
                summary.cpu += run.cpu;
                keeper.take(run)?;
            }
            Err(RecvTimeoutError::Timeout) => keeper.commit_if_due()?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        progress(summary);
    }
}

fn work(
    plan: &Plan,
    how: &How,
    queue: &Mutex<Queue>,
    send: impl Fn(Result<Finished, StoreError>) -> bool,
) {
    let options = Options {
        stop: Arc::clone(&how.stop),
        ..Options::default()
    };
    let mut reader = Reader::new(plan);
    let queue = || queue.lock().unwrap_or_else(PoisonError::into_inner);
    while !how.stop.load(Ordering::Relaxed) {
        let Some(job) = queue().take() else {
            return;
        };
        let result = match reader.run(job, &options) {
            Ok(None) => return,
            Ok(Some(run)) => {
                queue().measure(job.point, run.cpu);
                Ok(run)
            }
            Err(error) => Err(error),
        };
        let failed = result.is_err();
        if !send(result) || failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
