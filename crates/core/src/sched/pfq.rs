// SPDX-License-Identifier: MIT OR Apache-2.0
//! Priority fair queueing: packets of flows that are not backlogged go first, all others by deficit
//! round robin; when the buffer is full, one packet less in the flow that holds the most bytes.
//!
//! Source: A. Kortebi, S. Oueslati, J. Roberts, "Cross-protect: implicit service differentiation and
//! admission control", HPSR 2004 (PFQ), and with L. Muscariello, "Minimizing the overhead in
//! implementing flow-aware networking", ANCS 2005 (PDRR, the form with deficit round robin). Written
//! from the algorithm's published description, not from its listing.
//!
//! | paper | here |
//! | --- | --- |
//! | priority queue | [`Ring`] `first`, of packets |
//! | `ActiveList` | [`Ring`] `active`, of flows |
//! | `Q_i` | `quantum`, the same for all flows |
//! | `DC_i` | `deficit`, below zero by what went with priority |
//! | `ByteCount_i` | `counted` |
//!
//! A flow that comes to the list counts its bytes from zero. While they are within a quantum its
//! packets have priority; the first that is not, and all behind it, wait for the flow's turns. Bytes
//! sent with priority are taken from the first turn. A flow leaves the list when its turn comes and it
//! has nothing: a whole round after it last sent, so no flow gains by stopping for a moment.
//!
//! Cost per packet: O(1), as for `fq`.
//!
//! Departures from the paper: when the buffer runs empty every flow leaves the list at once, since on
//! an idle link a round takes no time. For the drop a packet counts [`LEAST_COST`] bytes at least.

use super::order::{Buckets, Position};
use super::queues::{LEAST_COST, Moved, Queues};
use super::ring::Ring;
use super::spec::{self, Describe, FULL_FRAME};
use super::{Backlog, DropFrom, Drops, Env, Limits, Needs, Scheduler};
use crate::packet::{DropReason, Packet};
use crate::param::Visitor;
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PfqParams {
    /// Bytes that a flow may send in a round; 64 B to 1 MiB.
    pub quantum: Bytes,
    /// Where longest queue drop takes its packet.
    pub drop_from: DropFrom,
}

impl Default for PfqParams {
    /// One full Ethernet frame on the wire, and from the head.
    fn default() -> Self {
        Self {
            quantum: FULL_FRAME,
            drop_from: DropFrom::default(),
        }
    }
}

impl Describe for PfqParams {
    const NAME: &'static str = "pfq";
    const ABOUT: &'static str = "flows that are not backlogged, then each flow in turn";

    fn needs(&self) -> Needs {
        Needs {
            drops_longest: true,
            ..Needs::default()
        }
    }

    fn fields(&mut self, visit: &mut Visitor<'_>) {
        spec::quantum(&mut self.quantum, visit);
        spec::drop_from(&mut self.drop_from, visit);
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        Box::new(Pfq::new(env.limits, self.quantum, self.drop_from, env.seed))
    }
}

/// Priority for flows that are not backlogged, deficit round robin for the rest.
#[derive(Clone, Debug)]
pub struct Pfq {
    queues: Queues<Buckets>,
    /// Slots of the packets that have priority.
    first: Ring,
    active: Ring,
    flows: Vec<FlowState>,
    /// The flow at the head of the list has had its quantum; it has packets waiting.
    granted: bool,
    quantum: i64,
    drop_from: DropFrom,
}

#[derive(Clone, Copy, Debug, Default)]
struct FlowState {
    deficit: i64,
    counted: i64,
    /// Packets that wait for the flow's turn.
    waiting: u32,
}

impl Pfq {
    /// No packets; each flow may send `quantum` bytes with priority, and in a round.
    pub fn new(limits: Limits, quantum: Bytes, drop_from: DropFrom, seed: u64) -> Self {
        Self {
            queues: Queues::new(limits, LEAST_COST, seed),
            first: Ring::new(limits.packets + 1),
            active: Ring::new(limits.flows),
            flows: vec![FlowState::default(); limits.flows as usize],
            granted: false,
            quantum: quantum.get() as i64,
            drop_from,
        }
    }

    fn take(&mut self, position: Position) -> Packet {
        let moved = self.queues.pop(position, DropFrom::Head);
        self.forget(&moved);
        moved.packet
    }

    /// After a packet was taken out of its queue, wherever it stood.
    fn forget(&mut self, moved: &Moved) {
        let flow = moved.packet.flow.0;
        if self.first.contains(moved.slot) {
            self.first.remove(moved.slot);
        } else {
            let state = &mut self.flows[flow as usize];
            state.waiting -= 1;
            if state.waiting == 0 && self.granted && self.active.head() == Some(flow) {
                // Its turn ends with no credit kept.
                state.deficit = 0;
                self.next_turn();
            }
        }
    }

    fn next_turn(&mut self) {
        self.active.rotate();
        self.granted = false;
    }

    /// An idle link has gone round: nobody is in the list.
    fn clear_if_idle(&mut self) {
        if self.queues.pool.backlog().packets > 0 {
            return;
        }
        while let Some(flow) = self.active.head() {
            self.active.remove(flow);
        }
        self.granted = false;
    }
}

impl Scheduler for Pfq {
    fn enqueue(&mut self, _now: Instant, pkt: Packet, drops: &mut Drops) {
        if !self.queues.pool.admits(&pkt) {
            return drops.push(pkt, DropReason::TooLarge);
        }
        let flow = pkt.flow.0;
        let state = &mut self.flows[flow as usize];
        if !self.active.contains(flow) {
            self.active.push(flow);
            *state = FlowState::default();
        }
        state.counted += i64::from(pkt.len_u32());
        let slot = self.queues.push(pkt).slot;
        if state.counted <= self.quantum {
            self.first.push(slot);
        } else {
            state.waiting += 1;
        }
        while let Some(dropped) = self.queues.drop_longest(self.drop_from) {
            self.forget(&dropped);
            drops.push(dropped.packet, DropReason::LongestQueue);
        }
    }

    fn dequeue(&mut self, _now: Instant, _drops: &mut Drops) -> Option<Packet> {
        if self.queues.pool.backlog().packets == 0 {
            return None;
        }
        let sent = match self.first.head() {
            Some(slot) => {
                // Within a flow the packets with priority are the oldest.
                let flow = self.queues.pool.flow_at(slot);
                let sent = self.take(self.queues.pool.position(flow));
                self.flows[flow as usize].deficit -= i64::from(sent.len_u32());
                sent
            }
            None => self.round()?,
        };
        self.clear_if_idle();
        Some(sent)
    }

    fn next_departure(&self) -> Option<Instant> {
        self.queues.pool.next_departure()
    }

    fn backlog(&self) -> Backlog {
        self.queues.pool.backlog()
    }
}

impl Pfq {
    /// Deficit round robin over the flows in the list.
    fn round(&mut self) -> Option<Packet> {
        loop {
            let flow = self.active.head()?;
            let state = &mut self.flows[flow as usize];
            if state.waiting == 0 {
                self.active.remove(flow);
                continue;
            }
            if !self.granted {
                state.deficit += self.quantum;
                self.granted = true;
            }
            let position = self.queues.pool.position(flow);
            let len = i64::from(self.queues.pool.head_len(position));
            if len <= state.deficit {
                state.deficit -= len;
                return Some(self.take(position));
            }
            self.next_turn();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::{limits, packet, run};

    #[test]
    fn a_flow_that_is_not_backlogged_overtakes_those_that_are() {
        let mut pfq = Pfq::new(limits(50, 75_000), Bytes::new(1500), DropFrom::Head, 7);
        let mut drops = Drops::default();
        for n in 0..10 {
            pfq.enqueue(Instant::ZERO, packet(n, 0, 1500), &mut drops);
        }
        // The bulk flow's own first packet has had its quantum of priority.
        pfq.enqueue(Instant::ZERO, packet(10, 1, 200), &mut drops);
        let order: Vec<_> = run(&mut pfq, [].into_iter())
            .iter()
            .map(|p| p.handle.0)
            .collect();
        assert_eq!(order[..3], [0, 10, 1]);
    }

    #[test]
    fn priority_ends_with_the_quantum_and_the_order_in_the_flow_stays() {
        let mut pfq = Pfq::new(limits(50, 75_000), Bytes::new(1500), DropFrom::Head, 7);
        let bulk = (0..4).map(|n| packet(n, 0, 1500));
        let burst = (4..12).map(|n| packet(n, 1, 400));
        let sent = run(&mut pfq, bulk.chain(burst));
        let order: Vec<_> = sent.iter().map(|p| p.handle.0).collect();
        // Three of the burst are within 1500 bytes; the bulk flow's turn is next.
        assert_eq!(order[..5], [0, 4, 5, 6, 1]);
        let burst: Vec<_> = order.iter().filter(|h| **h >= 4).collect();
        assert!(burst.is_sorted());
    }
}
