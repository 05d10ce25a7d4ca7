// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues and rates of a running world, for a controller outside it.

use makeway_core::sched::Backlog;
use makeway_core::units::{Bytes, Duration, Instant, Rate};

use crate::port::{Port, port_number};
use crate::trace::Trace;
use crate::world::World;

/// The trace of a steered run: none, as of `Off`. A type of its own keeps the loop of other runs compiled for itself, since a second caller costs
/// it one percent.
pub(crate) struct Steered;

impl Trace for Steered {
    const ON: bool = false;
}

/// The ports of a world, each named by the index of its link in the scenario and the end that sends, 0 or 1.
pub struct Ports<'w> {
    world: &'w mut World<Steered>,
    now: Instant,
}

impl<'w> Ports<'w> {
    pub(crate) fn new(world: &'w mut World<Steered>, now: Instant) -> Self {
        Self { world, now }
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Bytes on the wire that the port has sent since the warm-up; zero if it is not measured.
    pub fn sent(&self, link: usize, end: usize) -> Bytes {
        let counts = self.port(link, end).counts.as_ref();
        Bytes::new(counts.map_or(0, |counts| counts.bytes_measured))
    }

    /// Packets and bytes that wait.
    pub fn backlog(&self, link: usize, end: usize) -> Backlog {
        self.port(link, end).waiting()
    }

    /// Time that a packet would wait which arrived now at a FIFO queue; without a rate none.
    pub fn wait(&self, link: usize, end: usize) -> Duration {
        let port = self.port(link, end);
        let rest = port.busy_until().saturating_since(self.now);
        match port.rate() {
            Some(rate) if rate > Rate::default() => rest + port.waiting().bytes / rate,
            _ => Duration::ZERO,
        }
    }

    /// The rate; `None`: not limited.
    pub fn rate(&self, link: usize, end: usize) -> Option<Rate> {
        self.port(link, end).rate()
    }

    /// The port has `rate` from now on.
    ///
    /// # Panics
    /// If it is zero.
    pub fn set_rate(&mut self, link: usize, end: usize, rate: Rate) {
        assert!(rate > Rate::default(), "a link of no rate never sends");
        self.world.set_rate(self.now, port_number(link, end), rate);
    }

    fn port(&self, link: usize, end: usize) -> &Port {
        &self.world.ports[port_number(link, end) as usize]
    }
}
