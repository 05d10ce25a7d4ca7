// SPDX-License-Identifier: MIT OR Apache-2.0
//! Order of the runs of a sweep: one of each point first, which says how long a point's runs take; then the longest first, so that the last
//! runs to be waited for are short ones.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::plan::Job;

/// Runs that nobody has taken yet.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    first: VecDeque<Job>,
    /// The next at the end, once sorted.
    rest: Vec<Job>,
    sorted: bool,
    /// Number of runs that are left of each point.
    counts: BTreeMap<usize, u64>,
    /// Measured runs of a point, and how long they took together.
    measured: BTreeMap<usize, Measured>,
    /// Measured runs of all points.
    all: Measured,
}

#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    runs: u32,
    time: Duration,
}

impl Measured {
    fn mean(self) -> Option<Duration> {
        self.time.checked_div(self.runs)
    }

    fn add(&mut self, took: Duration) {
        self.runs += 1;
        self.time += took;
    }
}

impl Queue {
    /// Queue of `jobs`, which are in order.
    pub fn new(jobs: Vec<Job>) -> Self {
        let mut queue = Self::default();
        let mut last = None;
        for job in jobs {
            match last == Some(job.point) {
                true => queue.rest.push(job),
                false => queue.first.push_back(job),
            }
            *queue.counts.entry(job.point).or_default() += 1;
            last = Some(job.point);
        }
        queue
    }

    /// Runs that are left.
    pub fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A run of `point` took so long.
    pub fn measure(&mut self, point: usize, took: Duration) {
        let measured = self.measured.entry(point).or_default();
        // Another order of the rest, once more is known.
        self.sorted &= measured.runs > 0;
        measured.add(took);
        self.all.add(took);
    }

    /// The mean time of a run of `point`; of all points where none of it was measured; `None` if nothing was.
    fn time(&self, point: usize) -> Option<Duration> {
        self.measured.get(&point).unwrap_or(&self.all).mean()
    }

    /// The next run.
    pub fn take(&mut self) -> Option<Job> {
        let job = self.following()?;
        if let Some(count) = self.counts.get_mut(&job.point) {
            *count -= 1;
        }
        Some(job)
    }

    fn following(&mut self) -> Option<Job> {
        if let Some(job) = self.first.pop_front() {
            return Some(job);
        }
        if !self.sorted {
            self.sorted = true;
            let mut rest = std::mem::take(&mut self.rest);
            // Stable, and from the end: the first of equal ones comes first.
            rest.reverse();
            rest.sort_by_cached_key(|job| self.time(job.point));
            self.rest = rest;
        }
        self.rest.pop()
    }

    /// The next runs, which take about `time` together; one where nothing has been measured. Empty at the end.
    pub fn chunk(&mut self, time: Duration) -> Vec<Job> {
        let (mut jobs, mut sum) = (Vec::new(), Duration::ZERO);
        while sum < time || jobs.is_empty() {
            let Some(job) = self.take() else {
                break;
            };
            jobs.push(job);
            match self.time(job.point) {
                Some(mean) => sum += mean.max(Duration::from_micros(1)),
                None => break,
            }
        }
        jobs
    }

    /// Time that the runs left take together, as far as is known.
    pub fn left(&self) -> Duration {
        let points = self.counts.iter();
        let seconds = points.filter_map(|(point, count)| {
            let mean = self.time(*point)?;
            Some(mean.as_secs_f64() * *count as f64)
        });
        Duration::try_from_secs_f64(seconds.sum()).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(points: usize, replications: u64) -> Vec<Job> {
        let each = |point| (1..=replications).map(move |replication| Job { point, replication });
        (0..points).flat_map(each).collect()
    }

    #[test]
    fn one_run_of_each_point_comes_first_and_then_the_longest() {
        let mut queue = Queue::new(jobs(3, 3));
        let mut order = Vec::new();
        while let Some(job) = queue.take() {
            queue.measure(job.point, Duration::from_millis([1, 30, 2][job.point]));
            order.push((job.point, job.replication));
        }
        let first = [(0, 1), (1, 1), (2, 1)];
        let rest = [(1, 2), (1, 3), (2, 2), (2, 3), (0, 2), (0, 3)];
        assert_eq!(order, [&first[..], &rest[..]].concat());
    }

    #[test]
    fn the_time_left_is_that_of_all_runs_left() {
        let mut queue = Queue::new(jobs(3, 10));
        assert_eq!(queue.left(), Duration::ZERO);
        queue.measure(0, Duration::from_secs(1));
        queue.measure(1, Duration::from_secs(3));
        // The third point's runs are taken to be as long as the mean.
        assert_eq!(queue.left(), Duration::from_secs(10 + 30 + 20));
        for left in (0..30).rev() {
            queue.take().unwrap();
            assert_eq!(queue.left() == Duration::ZERO, left == 0);
        }
    }

    #[test]
    fn a_chunk_has_the_time_that_is_asked_for() {
        let mut queue = Queue::new(jobs(2, 50));
        assert_eq!(queue.chunk(Duration::from_secs(1)).len(), 1);
        queue.measure(0, Duration::from_millis(100));
        // The other point's runs are taken to be as long.
        assert_eq!(queue.chunk(Duration::from_secs(1)).len(), 10);
        queue.measure(1, Duration::from_millis(500));
        let chunk = queue.chunk(Duration::from_secs(2));
        assert_eq!(chunk.len(), 4, "{chunk:?}");
        while !queue.is_empty() {
            assert!(!queue.chunk(Duration::from_secs(60)).is_empty());
        }
        assert!(queue.chunk(Duration::from_secs(1)).is_empty());
    }
}
