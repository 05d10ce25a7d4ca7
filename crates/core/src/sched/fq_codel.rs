// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flow queue CoDel: deficit round robin over the flows, those that have just begun first, and CoDel
//! in each queue; when the buffer is full, the flow that holds the most bytes drops half of them.
//!
//! Source: T. Hoeiland-Joergensen, P. McKenney, D. Taht, J. Gettys, E. Dumazet, "The Flow Queue CoDel
//! Packet Scheduler and Active Queue Management Algorithm", RFC 8290, 2018, section 4.
//!
//! | RFC | here |
//! | --- | --- |
//! | list of new queues, of old queues | [`Ring`] `new`, `old` |
//! | quantum | [`FqCoDelParams::quantum`] |
//! | byte credits (`deficit`) | `deficit` |
//! | CoDel of a queue | [`Control`], see `codel` |
//! | the queue with the largest byte count | [`Queues::longest`] |
//!
//! Cost per packet: O(1) while the quantum is about the largest packet, else as for `fq`. Finding the
//! fattest flow costs no search.
//!
//! Departures from the RFC: flows are exact, where it hashes them to 1024 queues, so no two share one. A
//! full buffer takes half of the fattest flow from its head, 64 packets at most; the half is one of bytes,
//! as in Linux. Linux also adds those drops to the flow's CoDel count, and asks whether the whole buffer
//! and not the flow has more than a packet left; neither is done here.

use super::codel::{CoDelParams, Control, Law};
use super::order::Buckets;
use super::queues::Queues;
use super::ring::Ring;
use super::spec::{self, Describe};
use super::{Backlog, DropFrom, Drops, Env, Limits, Needs, Scheduler};
use crate::packet::{DropReason, Packet};
use crate::param::Visitor;
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Packets that a full buffer takes from the fattest flow at once, at most: the default of Linux, made to
/// pay for its search.
const DROP_BATCH: usize = 64;

/// How flows share, and what CoDel aims at in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCoDelParams {
    /// Bytes that a flow may send in a round; 64 B to 1 MiB.
    pub quantum: Bytes,
    /// CoDel's.
    pub codel: CoDelParams,
}

impl Default for FqCoDelParams {
    /// 1514 B, an Ethernet frame without its checksum (RFC 8290 §5.2), CoDel's own defaults, and marks
    /// (§5.2.7).
    fn default() -> Self {
        Self {
            quantum: Bytes::new(1514),
            codel: CoDelParams {
                ecn: true,
                ..CoDelParams::default()
            },
        }
    }
}

impl Describe for FqCoDelParams {
    const NAME: &'static str = "fq-codel";
    const ABOUT: &'static str = "new flows, then each in turn, with CoDel in each";

    fn needs(&self) -> Needs {
        Needs {
            drops_longest: true,
            ..Needs::default()
        }
    }

    fn fields(&mut self, visit: &mut Visitor<'_>) {
        spec::quantum(&mut self.quantum, visit);
        self.codel.fields(visit);
    }

    fn check(&self) -> Result<(), String> {
        self.codel.check()
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        Box::new(FqCoDel::new(env.limits, *self, env.seed))
    }
}

/// Deficit round robin of new and old flows, CoDel in each.
#[derive(Clone, Debug)]
pub struct FqCoDel {
    queues: Queues<Buckets>,
    new: Ring,
    old: Ring,
    flows: Vec<FlowState>,
    quantum: i64,
    law: Law,
}

#[derive(Clone, Debug, Default)]
struct FlowState {
    deficit: i64,
    control: Control,
}

impl FqCoDel {
    /// No packets; as many as `limits` allow.
    pub fn new(limits: Limits, params: FqCoDelParams, seed: u64) -> Self {
        Self {
            queues: Queues::new(limits, 0, seed),
            new: Ring::new(limits.flows),
            old: Ring::new(limits.flows),
            flows: vec![FlowState::default(); limits.flows as usize],
            quantum: params.quantum.get() as i64,
            law: Law::new(params.codel),
        }
    }

    /// Half of the flow that holds the most bytes, or [`DROP_BATCH`] packets of it, from the head.
    fn drop_from_fattest(&mut self, drops: &mut Drops) {
        let Some(mut fattest) = self.queues.longest() else {
            return;
        };
        let half = fattest.bytes / 2;
        let mut given_up = 0;
        for _ in 0..DROP_BATCH {
            let dropped = self.queues.pop(fattest, DropFrom::Head);
            drops.push(dropped.packet, DropReason::LongestQueue);
            given_up += dropped.packet.len_u32();
            // Until then it is not empty.
            if given_up >= half {
                return;
            }
            fattest = dropped.new;
        }
    }
}

impl Scheduler for FqCoDel {
    fn enqueue(&mut self, _now: Instant, pkt: Packet, drops: &mut Drops) {
        // RFC 8290 §4.1
        if !self.queues.pool.admits(&pkt) {
            return drops.push(pkt, DropReason::TooLarge);
        }
        let flow = pkt.flow.0;
        self.queues.push(pkt);
        if !self.new.contains(flow) && !self.old.contains(flow) {
            self.new.push(flow);
            self.flows[flow as usize].deficit = self.quantum;
        }
        while self.queues.pool.is_over() {
            self.drop_from_fattest(drops);
        }
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops) -> Option<Packet> {
        // RFC 8290 §4.2
        loop {
            let (flow, is_new) = match (self.new.head(), self.old.head()) {
                (Some(flow), _) => (flow, true),
                (None, Some(flow)) => (flow, false),
                (None, None) => return None,
            };
            let FlowState { deficit, control } = &mut self.flows[flow as usize];
            if *deficit <= 0 {
                *deficit += self.quantum;
                self.make_old(flow, is_new);
                continue;
            }
            let queues = &mut self.queues;
            let pop = || {
                let position = queues.pool.position(flow);
                let sent = (position.bytes > 0).then(|| queues.pop(position, DropFrom::Head))?;
                Some((sent.packet, Bytes::new(sent.new.bytes.into())))
            };
            if let Some(pkt) = control.dequeue(now, &mut self.law, pop, drops) {
                *deficit -= i64::from(pkt.len_u32());
                return Some(pkt);
            }
            // Empty. A new flow waits a round as an old one before it can be new again, so that nobody
            // lives on the priority of new flows.
            if is_new {
                self.make_old(flow, true);
            } else {
                self.old.remove(flow);
            }
        }
    }

    fn next_departure(&self) -> Option<Instant> {
        self.queues.pool.next_departure()
    }

    fn backlog(&self) -> Backlog {
        self.queues.pool.backlog()
    }
}

impl FqCoDel {
    /// Moves the flow at the head of its list to the end of the old flows.
    fn make_old(&mut self, flow: u32, is_new: bool) {
        if is_new {
            self.new.remove(flow);
            self.old.push(flow);
        } else {
            self.old.rotate();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{FlowId, Handle, UserId};
    use crate::sched::testing::{limits, packet, run};
    use crate::units::Duration;

    fn fq_codel() -> FqCoDel {
        FqCoDel::new(limits(200, 1_000_000), FqCoDelParams::default(), 7)
    }

    #[test]
    fn a_sparse_flow_goes_first() {
        let mut fq = fq_codel();
        let mut drops = Drops::default();
        for n in 0..20 {
            fq.enqueue(Instant::ZERO, packet(n, n % 2, 1500), &mut drops);
        }
        for _ in 0..6 {
            fq.dequeue(Instant::ZERO, &mut drops);
        }
        fq.enqueue(Instant::ZERO, packet(100, 2, 200), &mut drops);
        let next = fq.dequeue(Instant::ZERO, &mut drops).unwrap();
        assert_eq!(next.handle.0, 100);
    }

    #[test]
    fn a_flow_that_stops_for_a_moment_is_not_new_at_once() {
        // Flow 2 sends a packet each time that its last has left. After the first it waits for the
        // turns of the two others.
        let mut fq = fq_codel();
        let mut drops = Drops::default();
        let bulk = (0..20).map(|n| packet(n, n % 2, 1600));
        for pkt in bulk.chain([packet(100, 2, 200)]) {
            fq.enqueue(Instant::ZERO, pkt, &mut drops);
        }
        let mut order = Vec::new();
        for n in 101..110 {
            let sent = fq.dequeue(Instant::ZERO, &mut drops).unwrap();
            order.push(sent.flow.0);
            if sent.flow.0 == 2 {
                // The flow is found empty before its next packet comes.
                let again = fq.dequeue(Instant::ZERO, &mut drops).unwrap();
                order.push(again.flow.0);
                fq.enqueue(Instant::ZERO, packet(n, 2, 200), &mut drops);
            }
        }
        assert_eq!(order[..6], [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn flows_of_small_and_of_large_packets_send_the_same_bytes() {
        let small = (0..150).map(|n| packet(n, 0, 100));
        let large = (0..10).map(|n| packet(1000 + n, 1, 1500));
        let sent = run(&mut fq_codel(), small.chain(large));
        let mut bytes = [0i64; 2];
        for pkt in &sent {
            bytes[pkt.flow.0 as usize] += i64::from(pkt.len_u32());
            // A quantum and a packet.
            assert!((bytes[0] - bytes[1]).abs() <= 1514 + 1500, "{bytes:?}");
        }
        assert_eq!(bytes, [15_000, 15_000]);
    }

    #[test]
    fn the_fattest_flow_pays_with_half_of_its_bytes_from_the_head() {
        let mut fq = FqCoDel::new(limits(20, 1_000_000), FqCoDelParams::default(), 7);
        let mut drops = Drops::default();
        // Twelve packets of flow 0 hold less than eight of flow 1.
        for n in 0..12 {
            fq.enqueue(Instant::ZERO, packet(n, 0, 100), &mut drops);
        }
        for n in 12..20 {
            fq.enqueue(Instant::ZERO, packet(n, 1, 1000), &mut drops);
        }
        assert!(drops.is_empty());
        fq.enqueue(Instant::ZERO, packet(20, 0, 100), &mut drops);
        let dropped: Vec<_> = drops.drain().map(|(p, why)| (p.handle.0, why)).collect();
        let longest = DropReason::LongestQueue;
        assert_eq!(dropped, [12, 13, 14, 15].map(|n| (n, longest)));
    }

    #[test]
    fn no_more_than_64_packets_are_given_up_at_once() {
        let mut fq = fq_codel();
        let mut drops = Drops::default();
        for n in 0..=200 {
            fq.enqueue(Instant::ZERO, packet(n, 0, 100), &mut drops);
        }
        let dropped: Vec<_> = drops.drain().map(|(p, _)| p.handle.0).collect();
        assert_eq!(dropped, (0..64).collect::<Vec<_>>());
    }

    #[test]
    fn codel_drops_from_the_flow_that_stands_and_not_from_its_neighbour() {
        // A packet leaves each millisecond. Flow 0 keeps ten packets waiting, flow 1 sends now and then.
        let mut fq = fq_codel();
        let mut drops = Drops::default();
        for ms in 0..1000 {
            let now = Instant::ZERO + Duration::from_millis(ms);
            let came = |flow, len| {
                let len = Bytes::new(len);
                Packet::new(now, Handle(ms as u32), FlowId(flow), UserId(0), len)
            };
            while fq.queues.pool.position(0).bytes < 10_000 {
                fq.enqueue(now, came(0, 1000), &mut drops);
            }
            if ms % 20 == 0 {
                fq.enqueue(now, came(1, 200), &mut drops);
            }
            fq.dequeue(now, &mut drops).unwrap();
        }
        let flows: Vec<_> = drops.drain().map(|(p, _)| p.flow.0).collect();
        assert!(flows.len() > 10, "{}", flows.len());
        assert!(flows.iter().all(|flow| *flow == 0));
    }
}
