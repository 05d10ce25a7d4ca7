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
    /// Measured runs of a point, and how long they took together.
    measured: BTreeMap<usize, (u32, Duration)>,
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
        let (runs, time) = self.measured.entry(point).or_default();
        // Another order of the rest, once more is known.
        self.sorted &= *runs > 0;
        *runs += 1;
        *time += took;
    }

    /// The mean time of a run of `point`; of all points where none of it was measured; `None` if nothing was.
    fn time(&self, point: usize) -> Option<Duration> {
        let mean = |(runs, time): (u32, Duration)| time.checked_div(runs);
        match self.measured.get(&point) {
            Some(known) => mean(*known),
            None => {
                let all = self.measured.values();
                mean(all.fold((0, Duration::ZERO), |(n, sum), (runs, time)| {
                    (n + runs, sum + *time)
                }))
            }
        }
    }

    /// The next run.
    pub fn take(&mut self) -> Option<Job> {
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
        let jobs = self.first.iter().chain(&self.rest);
        jobs.filter_map(|job| self.time(job.point)).sum()
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
