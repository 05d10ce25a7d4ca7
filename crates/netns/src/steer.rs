// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queues of a running scenario, for a program that reads them and sets rates.

use makeway_core::units::{Bytes, Duration, Instant, Rate};

use crate::egress::{Queue, QueueError};

/// The queues of the scenario's links, by the number of the link and of its end, as the file has them.
#[derive(Debug)]
pub struct Ports<'q> {
    queues: &'q mut [Queue],
    now: Instant,
    failed: &'q mut Option<QueueError>,
}

impl<'q> Ports<'q> {
    pub(crate) fn new(
        queues: &'q mut [Queue],
        now: Instant,
        failed: &'q mut Option<QueueError>,
    ) -> Self {
        Self {
            queues,
            now,
            failed,
        }
    }

    /// The time since traffic began.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Bytes on the wire that have left so far.
    pub fn sent(&self, link: usize, end: usize) -> Bytes {
        Bytes::new(self.queue(link, end).map_or(0, |queue| queue.traffic().0))
    }

    /// Bytes that wait.
    pub fn backlog(&self, link: usize, end: usize) -> Bytes {
        Bytes::new(self.queue(link, end).map_or(0, |queue| queue.traffic().1))
    }

    /// Time that a packet would wait which arrived now at a FIFO queue; without a rate none.
    pub fn wait(&self, link: usize, end: usize) -> Duration {
        match self.rate(link, end) {
            Some(rate) if rate > Rate::default() => self.backlog(link, end) / rate,
            _ => Duration::ZERO,
        }
    }

    /// The rate; `None`: not limited.
    pub fn rate(&self, link: usize, end: usize) -> Option<Rate> {
        self.queue(link, end)?.rate()
    }

    /// The queue has `rate` from now on. A failure ends the run.
    pub fn set_rate(&mut self, link: usize, end: usize, rate: Rate) {
        let mut all = self.queues.iter_mut();
        if let Some(queue) = all.find(|queue| queue.link_and_end() == (link, end))
            && let Err(error) = queue.set_rate(rate)
        {
            self.failed.get_or_insert(error);
        }
    }

    fn queue(&self, link: usize, end: usize) -> Option<&Queue> {
        let mut all = self.queues.iter();
        all.find(|queue| queue.link_and_end() == (link, end))
    }
}
