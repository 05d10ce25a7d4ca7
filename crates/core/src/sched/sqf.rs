// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shortest queue first with longest queue drop: always a packet of the active flow that holds the
//! least bytes, and, when the buffer is full, one packet less in the flow that holds the most.
//!
//! Source: T. Bonald, L. Muscariello, N. Ostallo, "Self-Prioritization of Audio and Video Traffic",
//! ICC 2011, section III.B, Algorithm 1.
//!
//! | paper | here |
//! | --- | --- |
//! | `queue[flowid]` | [`Queues`], one queue for each flow |
//! | `queue->size`, `queue->maxsize` | [`Scheduler::backlog`], [`Limits`] |
//! | `get_shortest` | [`Queues::shortest`] |
//! | `get_longest` and `drop()` | [`Queues::drop_longest`], at the head or the tail by [`DropFrom`] |
//!
//! Cost per packet: O(1) with [`Buckets`], see there.
//!
//! Departures from the paper: the buffer is limited in bytes as well as in packets, so that one
//! arrival may cost several drops. A packet larger than the whole buffer is refused rather than
//! emptying the buffer first. A packet counts [`LEAST_COST`] bytes at least when queues are compared, so that
//! packets of equal size are the paper's and many small ones are not cheap. Left open by the paper: of equal backlogs, the flow that has stood
//! there for longest is taken, both to serve and to drop from; the drop is from the head by default.

use super::order::{Buckets, Order};
use super::queues::{LEAST_COST, Queues};
use super::spec::{self, Describe};
use super::{Backlog, DropFrom, Drops, Env, Limits, Needs, Scheduler};
use crate::packet::{DropReason, Packet};
use crate::param::Visitor;
use crate::units::Instant;
use alloc::boxed::Box;

/// Its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SqfParams {
    /// Where longest queue drop takes its packet.
    pub drop_from: DropFrom,
}

impl Describe for SqfParams {
    const NAME: &'static str = "sqf";
    const ABOUT: &'static str = "the flow with the shortest queue";

    fn needs(&self) -> Needs {
        Needs {
            drops_longest: true,
            ..Needs::default()
        }
    }

    fn fields(&mut self, visit: &mut Visitor<'_>) {
        spec::drop_from(&mut self.drop_from, visit);
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        Box::new(Sqf::<Buckets>::new(env.limits, self.drop_from, env.seed))
    }
}

/// Shortest queue first. `O` finds the shortest and the longest queue.
#[derive(Clone, Debug)]
pub struct Sqf<O = Buckets> {
    queues: Queues<O>,
    drop_from: DropFrom,
}

impl<O: Order> Sqf<O> {
    /// No packets; as many as `limits` allow.
    pub fn new(limits: Limits, drop_from: DropFrom, seed: u64) -> Self {
        Self {
            queues: Queues::new(limits, LEAST_COST, seed),
            drop_from,
        }
    }
}

impl<O: Order> Scheduler for Sqf<O> {
    fn enqueue(&mut self, _now: Instant, pkt: Packet, drops: &mut Drops) {
        if !self.queues.pool.admits(&pkt) {
            return drops.push(pkt, DropReason::TooLarge);
        }
        // Algorithm 1, at packet arrival.
        self.queues.push(pkt);
        while let Some(dropped) = self.queues.drop_longest(self.drop_from) {
            drops.push(dropped.packet, DropReason::LongestQueue);
        }
    }

    fn dequeue(&mut self, _now: Instant, _drops: &mut Drops) -> Option<Packet> {
        // Algorithm 1, at packet departure.
        let shortest = self.queues.shortest()?;
        let sent = self.queues.pop(shortest, DropFrom::Head).packet;
        self.queues.fetch_ahead();
        Some(sent)
    }

    fn next_departure(&self) -> Option<Instant> {
        self.queues.pool.next_departure()
    }

    fn backlog(&self) -> Backlog {
        self.queues.pool.backlog()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::{limits, packet, run};

    #[test]
    fn short_flow_overtakes_long_backlog() {
        let mut sqf = Sqf::<Buckets>::new(limits(50, 75_000), DropFrom::Head, 7);
        let bulk = (0..10).map(|n| packet(n, 0, 1500));
        let sent = run(&mut sqf, bulk.chain([packet(10, 1, 200)]));
        assert_eq!(sent[0].handle.0, 10);
    }

    #[test]
    fn bytes_decide_and_not_packets() {
        let mut sqf = Sqf::<Buckets>::new(limits(50, 75_000), DropFrom::Head, 7);
        let small = (0..5).map(|n| packet(n, 0, 100));
        let sent = run(&mut sqf, [packet(9, 1, 1500)].into_iter().chain(small));
        assert_eq!(sent[5].handle.0, 9);
    }

    #[test]
    fn the_longest_queue_pays_for_a_full_buffer() {
        let dropped = |from| {
            let mut sqf = Sqf::<Buckets>::new(limits(4, 75_000), from, 7);
            let mut drops = Drops::default();
            for (n, flow) in [0, 0, 0, 1, 1].into_iter().enumerate() {
                sqf.enqueue(Instant::ZERO, packet(n as u32, flow, 1500), &mut drops);
            }
            let dropped: Vec<_> = drops.drain().map(|(p, _)| p.handle.0).collect();
            dropped
        };
        assert_eq!(dropped(DropFrom::Head), [0]);
        assert_eq!(dropped(DropFrom::Tail), [2]);
    }

    #[test]
    fn of_equal_backlogs_the_one_that_stands_for_longest_comes_first() {
        let mut sqf = Sqf::<Buckets>::new(limits(50, 75_000), DropFrom::Head, 7);
        let sent = run(
            &mut sqf,
            [2, 0, 1].map(|flow| packet(flow, flow, 700)).into_iter(),
        );
        assert_eq!(sent.iter().map(|p| p.flow.0).collect::<Vec<_>>(), [2, 0, 1]);
    }
}
