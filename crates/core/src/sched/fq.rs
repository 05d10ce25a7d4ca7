// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fair queueing: deficit round robin over the active flows, and, when the buffer is full, one packet
//! less in the flow that holds the most bytes.
//!
//! Source: M. Shreedhar, G. Varghese, "Efficient Fair Queuing using Deficit Round Robin", SIGCOMM 1995,
//! section 3; longest queue drop as in B. Suter, T. V. Lakshman, D. Stiliadis, A. K. Choudhury, "Design
//! considerations for supporting TCP with per-flow queueing", INFOCOM 1998.
//!
//! | paper | here |
//! | --- | --- |
//! | `ActiveList` | [`Ring`] `active` |
//! | `Q_i` | `quantum`, the same for all flows |
//! | `DC_i` | `deficit` |
//! | `FreeBuffer()` by "buffer stealing" | longest queue drop |
//!
//! Cost per packet: O(1) while the quantum is at least the largest packet; else a packet of `len`
//! waits `len / quantum` rounds, which are gone through one by one.
//!
//! Departures from the paper: the turn of the flow at the head goes on from one call to the next,
//! since packets are asked for one at a time (`granted` says that it has had its quantum). A flow that
//! a drop empties leaves the list as one that is served empty does. For the drop a packet counts [`LEAST_COST`]
//! bytes at least.

use super::order::Buckets;
use super::queues::{LEAST_COST, Queues};
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
pub struct FqParams {
    /// Bytes that a flow may send in a round; 64 B to 1 MiB.
    pub quantum: Bytes,
    /// Where longest queue drop takes its packet.
    pub drop_from: DropFrom,
}

impl Default for FqParams {
    /// One full Ethernet frame on the wire, and from the head.
    fn default() -> Self {
        Self {
            quantum: FULL_FRAME,
            drop_from: DropFrom::default(),
        }
    }
}

impl Describe for FqParams {
    const NAME: &'static str = "fq";
    const ABOUT: &'static str = "each flow in turn";
    const IN_THE_KERNEL: bool = true;

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
        Box::new(Fq::new(env.limits, self.quantum, self.drop_from, env.seed))
    }
}

/// Deficit round robin with longest queue drop.
#[derive(Clone, Debug)]
pub struct Fq {
    queues: Queues<Buckets>,
    active: Ring,
    deficit: Vec<u64>,
    granted: bool,
    quantum: u64,
    drop_from: DropFrom,
}

impl Fq {
    /// No packets; each flow may send `quantum` bytes in a round.
    pub fn new(limits: Limits, quantum: Bytes, drop_from: DropFrom, seed: u64) -> Self {
        Self {
            queues: Queues::new(limits, LEAST_COST, seed),
            active: Ring::new(limits.flows),
            deficit: vec![0; limits.flows as usize],
            granted: false,
            quantum: quantum.get(),
            drop_from,
        }
    }

    fn leave_if_empty(&mut self, flow: u32) {
        if self.queues.pool.bytes(flow) > 0 {
            return;
        }
        if self.active.head() == Some(flow) {
            self.granted = false;
        }
        self.active.remove(flow);
        self.deficit[flow as usize] = 0;
    }
}

impl Scheduler for Fq {
    fn enqueue(&mut self, _now: Instant, pkt: Packet, drops: &mut Drops) {
        if !self.queues.pool.admits(&pkt) {
            return drops.push(pkt, DropReason::TooLarge);
        }
        let flow = pkt.flow.0;
        self.queues.push(pkt);
        if !self.active.contains(flow) {
            self.active.push(flow);
        }
        while let Some(dropped) = self.queues.drop_longest(self.drop_from) {
            drops.push(dropped.packet, DropReason::LongestQueue);
            self.leave_if_empty(dropped.packet.flow.0);
        }
    }

    fn dequeue(&mut self, _now: Instant, _drops: &mut Drops) -> Option<Packet> {
        loop {
            let flow = self.active.head()?;
            let deficit = &mut self.deficit[flow as usize];
            if !self.granted {
                *deficit += self.quantum;
                self.granted = true;
            }
            let position = self.queues.pool.position(flow);
            let len = u64::from(self.queues.pool.head_len(position));
            if len <= *deficit {
                *deficit -= len;
                let sent = self.queues.pop(position, DropFrom::Head).packet;
                self.leave_if_empty(flow);
                return Some(sent);
            }
            self.active.rotate();
            self.granted = false;
        }
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

    fn fq() -> Fq {
        Fq::new(limits(50, 75_000), Bytes::new(500), DropFrom::Head, 7)
    }

    #[test]
    fn the_papers_example_is_served_as_its_figures_show() {
        // Figures 2 and 3: queue 1 holds 20, 750, 200; queue 2 500, 500; queue 3 200, 600, 100; queue 4
        // 50, 700, 180. In the first round queue 1 sends 200 and keeps 300; the figures go no further.
        let mut fq = fq();
        let queues = [
            [200, 750, 20].as_slice(),
            &[500, 500],
            &[100, 600, 200],
            &[180, 700, 50],
        ];
        let mut drops = Drops::default();
        for (flow, lens) in queues.iter().enumerate() {
            for (n, len) in lens.iter().enumerate() {
                fq.enqueue(
                    Instant::ZERO,
                    packet(n as u32, flow as u32, *len),
                    &mut drops,
                );
            }
        }
        assert_eq!(
            fq.dequeue(Instant::ZERO, &mut drops).unwrap().len(),
            Bytes::new(200)
        );
        assert_eq!(fq.deficit[0], 300);
        let next = fq.dequeue(Instant::ZERO, &mut drops).unwrap();
        assert_eq!((next.flow.0, next.len()), (1, Bytes::new(500)));
        assert_eq!(fq.deficit[0], 300);
    }

    #[test]
    fn flows_of_small_and_of_large_packets_send_the_same_bytes() {
        let small = (0..30).map(|n| packet(n, 0, 100));
        let large = (0..10).map(|n| packet(100 + n, 1, 1000));
        let sent = run(&mut fq(), small.chain(large));
        // After four kilobytes, half are of each flow, give or take a packet.
        let bytes = |flow| -> u64 {
            let of = sent.iter().scan(0, |sum, p| {
                *sum += p.len().get();
                (*sum <= 4000).then_some(p)
            });
            of.filter(|p| p.flow.0 == flow).map(|p| p.len().get()).sum()
        };
        assert!(
            bytes(0).abs_diff(bytes(1)) <= 1000,
            "{} {}",
            bytes(0),
            bytes(1)
        );
    }
}
