// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the runs of sweeps that a store lacks, on threads of this process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use makeway_sim::Options;

use crate::error::StoreError;
use crate::keeper::Keeper;
use crate::part::{Finished, Reader, Status};
use crate::plan::{Job, Plan, Shard};
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
    /// Runs that were in the store before, or that an earlier point or plan has too.
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
    progress: impl FnMut(&Summary) -> bool,
) -> Result<Summary, StoreError> {
    run_all(store, &[plan], how, progress)
}

/// The same of several plans, in one queue, so that no thread waits for the end of one; a run that several have is made once. The last plan
/// is that of [`Store::last`].
///
/// # Errors
/// As those of [`run`].
pub fn run_all(
    store: &mut Store,
    plans: &[&Plan],
    how: &How,
    mut progress: impl FnMut(&Summary) -> bool,
) -> Result<Summary, StoreError> {
    store.begin(plans)?;
    let of_each = store.missing_of_each(plans, how.shard, how.again);
    let (mut points, mut runs) = (0, 0);
    let (mut starts, mut missing) = (Vec::with_capacity(plans.len()), Vec::new());
    for (plan, jobs) in plans.iter().zip(of_each) {
        missing.extend(jobs.into_iter().map(|job| Job {
            point: points + job.point,
            ..job
        }));
        runs += plan.jobs(how.shard).count() as u64;
        starts.push(points);
        points += plan.points();
    }
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
            let (send, queue, starts) = (send.clone(), &queue, &starts);
            let send = move |result| send.send(result).is_ok();
            scope.spawn(move || work(plans, starts, how, queue, send));
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

/// Makes runs of `plans`. Points of all have one row of numbers in the queue; `starts` are those of the first of each.
fn work(
    plans: &[&Plan],
    starts: &[usize],
    how: &How,
    queue: &Mutex<Queue>,
    send: impl Fn(Result<Finished, StoreError>) -> bool,
) {
    let options = Options {
        stop: Arc::clone(&how.stop),
        ..Options::default()
    };
    let mut last: Option<(usize, Reader<'_>)> = None;
    let queue = || queue.lock().unwrap_or_else(PoisonError::into_inner);
    while !how.stop.load(Ordering::Relaxed) {
        let Some(job) = queue().take() else {
            return;
        };
        let number = starts.partition_point(|start| *start <= job.point) - 1;
        let mut reader = match last.take() {
            Some((of, reader)) if of == number => reader,
            _ => Reader::new(plans[number]),
        };
        let own = Job {
            point: job.point - starts[number],
            ..job
        };
        let result = match reader.run(own, &options) {
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
        last = Some((number, reader));
    }
}

#[cfg(test)]
mod tests;
