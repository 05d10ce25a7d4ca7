// SPDX-License-Identifier: MIT OR Apache-2.0
//! FIFO, drop-tail: packets leave in the order in which they came; one that does not fit is refused.
//!
//! Source: the baseline of T. Bonald, L. Muscariello, N. Ostallo, "Self-Prioritization of Audio and
//! Video Traffic", ICC 2011, section V ("FIFO without buffer management").
//!
//! Cost per packet: O(1), one slot written and read.
//!
//! Departures from the paper: none. The limit is in packets there; here in packets and in bytes.

use super::spec::Describe;
use super::{Backlog, Drops, Env, Limits, Scheduler};
use crate::packet::{DropReason, Packet};
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// It has no parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FifoParams;

impl Describe for FifoParams {
    const NAME: &'static str = "fifo";
    const ABOUT: &'static str = "packets in order of arrival";
    const IN_THE_KERNEL: bool = true;

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        Box::new(Fifo::new(env.limits))
    }
}

/// First in, first out.
#[derive(Clone, Debug)]
pub struct Fifo {
    queue: VecDeque<Packet>,
    bytes: Bytes,
    limits: Limits,
}

impl Fifo {
    /// An empty queue that holds no more than `limits`.
    pub fn new(limits: Limits) -> Self {
        Self {
            queue: VecDeque::with_capacity(limits.packets as usize),
            bytes: Bytes::ZERO,
            limits,
        }
    }

    /// Adds `pkt`, which the caller knows to fit.
    pub(super) fn push(&mut self, pkt: Packet) {
        self.bytes += pkt.len();
        self.queue.push_back(pkt);
    }

    /// The packet at the head.
    pub(super) fn pop(&mut self) -> Option<Packet> {
        let pkt = self.queue.pop_front()?;
        self.bytes -= pkt.len();
        Some(pkt)
    }

    /// The packet that came last.
    pub(super) fn pop_last(&mut self) -> Option<Packet> {
        let pkt = self.queue.pop_back()?;
        self.bytes -= pkt.len();
        Some(pkt)
    }

    /// The packet at the head stays there.
    pub(super) fn head(&self) -> Option<&Packet> {
        self.queue.front()
    }

    /// Why `pkt` would be refused now.
    pub(super) fn refusal(&self, pkt: &Packet) -> Option<DropReason> {
        self.limits.refusal(self.backlog(), pkt)
    }
}

impl Scheduler for Fifo {
    fn enqueue(&mut self, _now: Instant, pkt: Packet, drops: &mut Drops) {
        if let Some(reason) = self.refusal(&pkt) {
            return drops.push(pkt, reason);
        }
        self.push(pkt);
    }

    fn dequeue(&mut self, _now: Instant, _drops: &mut Drops) -> Option<Packet> {
        self.pop()
    }

    fn next_departure(&self) -> Option<Instant> {
        (!self.queue.is_empty()).then_some(Instant::ZERO)
    }

    fn backlog(&self) -> Backlog {
        Backlog {
            packets: self.queue.len() as u32,
            bytes: self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::{limits, packet};

    #[test]
    fn a_packet_that_does_not_fit_is_refused_and_the_rest_stays() {
        let mut fifo = Fifo::new(limits(2, 3000));
        let mut drops = Drops::default();
        for n in 0..3 {
            fifo.enqueue(Instant::ZERO, packet(n, 0, 1000), &mut drops);
        }
        let dropped: Vec<_> = drops.drain().map(|(p, why)| (p.handle.0, why)).collect();
        assert_eq!(dropped, [(2, DropReason::Tail)]);
        assert_eq!(fifo.dequeue(Instant::ZERO, &mut drops).unwrap().handle.0, 0);
        fifo.enqueue(Instant::ZERO, packet(3, 0, 2001), &mut drops);
        fifo.enqueue(Instant::ZERO, packet(4, 0, 3001), &mut drops);
        let reasons: Vec<_> = drops.drain().map(|(_, why)| why).collect();
        assert_eq!(reasons, [DropReason::Tail, DropReason::TooLarge]);
    }
}
