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
//! emptying the buffer first. A packet counts [`SqfParams::least_cost`] bytes at least when queues are compared, so that
//! packets of equal size are the paper's and many small ones are not cheap; with 0 it counts its own, as in the paper. Left open by the paper: of equal backlogs, the flow that has stood
//! there for longest is taken, both to serve and to drop from; the drop is from the head by default.

use super::order::{Buckets, Order};
use super::queues::{LEAST_COST, Queues};
use super::spec::{self, Describe};
use super::{Backlog, DropFrom, Drops, Env, Limits, Needs, Scheduler};
use crate::packet::{DropReason, Packet};
use crate::param::{Ranged, Visitor};
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;

/// Its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqfParams {
    /// Where longest queue drop takes its packet.
    pub drop_from: DropFrom,
    /// Bytes that a packet counts at least when queues are compared; 0 to 16 KiB. The paper has no such floor.
    pub least_cost: Bytes,
}

impl Default for SqfParams {
    /// From the head, and 256 B.
    fn default() -> Self {
        Self {
            drop_from: DropFrom::default(),
            least_cost: Bytes::new(LEAST_COST.into()),
        }
    }
}

impl Describe for SqfParams {
    const NAME: &'static str = "sqf";
    const ABOUT: &'static str = "the flow with the shortest queue";
    const IN_THE_KERNEL: bool = true;

    fn needs(&self) -> Needs {
        Needs {
            drops_longest: true,
            ..Needs::default()
        }
    }

    fn not_in_the_kernel(&self) -> Option<&'static str> {
        (self.least_cost != Self::default().least_cost).then_some("least_cost")
    }

    fn fields(&mut self, visit: &mut Visitor<'_>) {
        spec::drop_from(&mut self.drop_from, visit);
        visit(
            "least_cost",
            "bytes that a packet counts at least where backlogs are compared; `0B`: its own",
            &mut Ranged(&mut self.least_cost, Bytes::ZERO..=Bytes::new(16 << 10)),
        );
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        // At most 16 KiB.
        let least_cost = self.least_cost.get() as u32;
        Box::new(Sqf::<Buckets>::counting(
            env.limits,
            self.drop_from,
            least_cost,
            env.seed,
        ))
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
        Self::counting(limits, drop_from, LEAST_COST, seed)
    }

    /// The same, but that a packet counts `least_cost` bytes at least when queues are compared, or its own with 0.
    pub fn counting(limits: Limits, drop_from: DropFrom, least_cost: u32, seed: u64) -> Self {
        Self {
            queues: Queues::new(limits, least_cost, seed),
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
    use crate::sched::{Discipline, Spec};

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
    fn in_the_paper_a_packet_counts_its_own_bytes() {
        let first = |least_cost| {
            let mut sqf =
                Sqf::<Buckets>::counting(limits(50, 75_000), DropFrom::Head, least_cost, 7);
            // 200 B in two packets beside 300 B in one.
            let small = (0..2).map(|n| packet(n, 0, 100));
            run(&mut sqf, small.chain([packet(9, 1, 300)]))[0].flow.0
        };
        assert_eq!([first(0), first(LEAST_COST)], [0, 1]);
    }

    #[test]
    fn its_floor_can_be_left_out_by_a_parameter() {
        let mut spec = Discipline::Sqf.spec();
        spec.set("least_cost", "0B").unwrap();
        let printed = SqfParams {
            least_cost: Bytes::ZERO,
            ..SqfParams::default()
        };
        assert_eq!(spec, Spec::Sqf(printed));
        let error = spec.set("least_cost", "20kB").unwrap_err().to_string();
        assert!(error.contains("a size from 0B to 16384B"), "{error}");
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
