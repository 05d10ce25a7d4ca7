// SPDX-License-Identifier: MIT OR Apache-2.0
//! A discipline on a link that sends at the opportunities of a trace, as Mahimahi's `mm-link` does: at each, 1500 B of the queue
//! leave.
//!
//! A packet leaves with its last byte: a larger one takes several opportunities, and small ones share one. The rest of an
//! opportunity at which the queue is empty is lost, and a packet that finds it empty takes a later one.

use makeway_core::packet::{FlowId, Packet};
use makeway_core::sched::{Backlog, Counts, Drops, Scheduler, Standing};
use makeway_core::units::{Bytes, Instant};
use makeway_scenario::model::Opportunities;

/// A discipline whose packets leave at the opportunities of a trace.
pub struct Opportune {
    scheduler: Box<dyn Scheduler + Send>,
    trace: Opportunities,
    /// Number of the next time of the trace, all rounds counted.
    next: u64,
    at: Instant,
    /// Bytes that may still leave at it.
    room: u64,
    /// The packet of which a part has left, and bytes of it that have not.
    partial: Option<(Packet, u64)>,
}

impl Opportune {
    /// `scheduler` behind a link that sends at the times of `trace`, which begins with traffic.
    pub fn new(trace: Opportunities, scheduler: Box<dyn Scheduler + Send>) -> Self {
        let mut link = Self {
            scheduler,
            trace,
            next: 0,
            at: Instant::ZERO,
            room: 0,
            partial: None,
        };
        link.read();
        link
    }

    /// Reads the time of number `next`.
    fn read(&mut self) {
        let (at, count) = self.trace.nth(self.next);
        self.at = Instant::ZERO + at;
        self.room = u64::from(count) * Opportunities::SIZE.get();
    }

    /// The rest of this time is lost, or used up.
    fn advance(&mut self) {
        self.next += 1;
        self.read();
    }
}

impl Scheduler for Opportune {
    fn enqueue(&mut self, now: Instant, pkt: Packet, drops: &mut Drops) {
        if self.backlog().packets == 0 {
            while self.at <= now {
                self.advance();
            }
        }
        self.scheduler.enqueue(now, pkt, drops);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops) -> Option<Packet> {
        while self.at < now {
            self.advance();
        }
        // A round may begin at the time at which the one before ends.
        while self.at == now {
            let (packet, left) = match self.partial.take() {
                Some(partial) => partial,
                None => match self.scheduler.dequeue(now, drops) {
                    Some(packet) => (packet, packet.len().get()),
                    None => {
                        self.advance();
                        continue;
                    }
                },
            };
            if left <= self.room {
                self.room -= left;
                if self.room == 0 {
                    self.advance();
                }
                return Some(packet);
            }
            self.partial = Some((packet, left - self.room));
            self.advance();
        }
        None
    }

    fn next_departure(&self) -> Option<Instant> {
        match &self.partial {
            Some(_) => Some(self.at),
            None => Some(self.scheduler.next_departure()?.max(self.at)),
        }
    }

    fn backlog(&self) -> Backlog {
        let held = self.scheduler.backlog();
        match &self.partial {
            None => held,
            Some((_, left)) => Backlog {
                packets: held.packets + 1,
                bytes: held.bytes + Bytes::new(*left),
            },
        }
    }

    fn counts(&self) -> Counts {
        self.scheduler.counts()
    }

    fn forget(&mut self, flow: FlowId) {
        self.scheduler.forget(flow);
    }

    fn standing(&self, flow: FlowId) -> Option<Standing> {
        self.scheduler.standing(flow)
    }
}
