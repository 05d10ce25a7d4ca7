// SPDX-License-Identifier: MIT OR Apache-2.0
//! The work that `makeway-lab bench core` and the benches of the crate measure.

use super::{Rng, Workload};
use crate::packet::{FlowId, Packet};
use crate::sched::{Discipline, Drops, Env, Isolation, Limits, RedParams, Scheduler, Spec, build};
use crate::units::{Bytes, Fraction, Instant};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// Operation of a scheduler that is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// One packet in, one out. Of 2 N flows, N hold 8 packets each; arrivals are of uniformly random
    /// flows among the other N. One packet of the 8 is of the largest size, so that each of the N holds
    /// more than any packet: under SQF who comes is served next, and the active flows stay N.
    Pairs,
    /// All N flows get 1 to 8 packets in random order, then everything leaves, then again. Arrival and
    /// departure of a flow are far apart, so each finds a cold cache; 0 to N flows are active.
    Waves,
    /// The buffer holds 4 packets for each of N flows and is full: every arrival, of a uniformly random
    /// flow, costs the longest queue a packet (under `fifo`, `red` and `codel` the arrival itself; under
    /// `fq-codel` some cost it half and others nothing).
    Overload,
}

impl Case {
    /// Every case, in the order in which they are listed to people.
    pub const ALL: [Self; 3] = [Self::Pairs, Self::Waves, Self::Overload];

    /// The name in tables and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::Waves => "waves",
            Self::Overload => "overload",
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A case for a number of flows.
#[derive(Clone, Debug)]
pub struct Bench {
    case: Case,
    flows: u32,
    /// The arrivals of a wave.
    order: Vec<u32>,
    rng: Rng,
    workload: Workload,
}

/// Packets of a flow at most.
const DEPTH: u32 = 8;

impl Bench {
    /// Draws all that does not belong to the measured time. 1 to 2^22 flows.
    pub fn new(case: Case, flows: u32, seed: u64) -> Self {
        assert!(
            (1..=1 << 22).contains(&flows),
            "{flows} flows are outside 1 to 2^22"
        );
        let mut rng = Rng::new(seed);
        let mut order: Vec<u32> = match case {
            Case::Waves => (0..flows)
                .flat_map(|flow| (0..=rng.below(DEPTH)).map(move |_| flow))
                .collect(),
            Case::Pairs | Case::Overload => Vec::new(),
        };
        rng.shuffle(&mut order);
        Self {
            case,
            flows,
            order,
            rng,
            workload: Workload::new(seed, flows, USERS),
        }
    }

    /// Environment of a discipline in this case.
    pub fn env(&self) -> Env {
        let packets = match self.case {
            Case::Pairs | Case::Waves => self.flows * DEPTH + 1,
            Case::Overload => self.flows * 4,
        };
        Env {
            users: USERS,
            ..Env::new(Limits {
                packets,
                // Never reached: packets are the limit here.
                bytes: Bytes::new((u64::from(packets) * 1550).min(4_000_000_000)),
                flows: self.flows * 2,
            })
        }
    }

    /// `discipline`, made for this case.
    ///
    /// # Panics
    /// If it cannot be made, as every one of ours can.
    pub fn build(&self, discipline: Discipline) -> Box<dyn Scheduler + Send> {
        let env = self.env();
        let packets = env.limits.packets;
        // Between the thresholds, where RED has most to do, but next to no chance of a drop.
        let busy = |red: &mut RedParams| {
            red.min = 1;
            red.max = packets + 1;
            red.max_p = Fraction::ratio(1, 1_000_000_000_000);
        };
        let mut spec = discipline.spec();
        match &mut spec {
            Spec::Red(red) => busy(red),
            Spec::Tred(tred) => busy(&mut tred.red),
            Spec::Harvest(harvest) => busy(&mut harvest.red),
            Spec::Rio(rio) => [&mut rio.inside, &mut rio.outside]
                .into_iter()
                .for_each(busy),
            Spec::Choke(choke) => {
                busy(&mut choke.red);
                // CHOKe would empty the buffer: each arrival meets its own flow.
                choke.red.min = packets;
            }
            // With isolation of users a packet's cost grows with the flows of its user, as it does in Linux.
            Spec::Cake(cake) => cake.isolation = Isolation::Flows,
            _ => {}
        }
        build(&spec, &env).expect("a good configuration")
    }

    /// Brings `scheduler`, which is empty, to where the measuring begins.
    pub fn prefill(&mut self, scheduler: &mut dyn Scheduler) {
        let mut drops = Drops::default();
        let (rounds, flows) = match self.case {
            Case::Pairs => (DEPTH, self.flows),
            Case::Waves => (0, 0),
            Case::Overload => (4, self.flows),
        };
        for round in 0..rounds {
            for i in 0..flows {
                let now = Instant::ZERO;
                let pkt = match (self.case, round) {
                    (Case::Pairs, 0) => self.workload.large_packet_of(now, FlowId(2 * i)),
                    (Case::Pairs, _) => self.workload.packet_of(now, FlowId(2 * i)),
                    _ => self.workload.packet_of(now, FlowId(i)),
                };
                scheduler.enqueue(now, pkt, &mut drops);
            }
        }
        if self.case == Case::Overload {
            // Until drops have made the backlogs what they stay.
            self.run(scheduler, &mut drops, 8 * u64::from(flows));
        }
    }

    /// Does at least `pairs` of arrival and departure (or of arrival and drop), and says how many.
    #[inline(never)]
    pub fn run(&mut self, scheduler: &mut dyn Scheduler, drops: &mut Drops, pairs: u64) -> u64 {
        let now = Instant::ZERO;
        let mut done = 0;
        while done < pairs {
            match self.case {
                Case::Pairs => {
                    let flow = 2 * self.rng.below(self.flows) + 1;
                    let pkt = self.workload.packet_of(now, FlowId(flow));
                    scheduler.enqueue(now, pkt, drops);
                    keep(scheduler.dequeue(now, drops));
                    done += 1;
                }
                Case::Waves => {
                    for flow in &self.order {
                        let pkt = self.workload.packet_of(now, FlowId(*flow));
                        scheduler.enqueue(now, pkt, drops);
                    }
                    while let Some(pkt) = scheduler.dequeue(now, drops) {
                        keep(Some(pkt));
                    }
                    done += self.order.len() as u64;
                }
                Case::Overload => {
                    let pkt = self.workload.packet(now);
                    scheduler.enqueue(now, pkt, drops);
                    drops.drain().for_each(|(pkt, _)| keep(Some(pkt)));
                    done += 1;
                }
            }
        }
        done
    }
}

/// Users of the hierarchical discipline.
const USERS: u32 = 64;

/// Makes the compiler believe that somebody wants the packet.
fn keep(pkt: Option<Packet>) {
    core::hint::black_box(pkt.map(|p| p.handle));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::Backlog;

    #[test]
    fn in_pairs_who_comes_is_served_next_under_sqf() {
        struct Next(Box<dyn Scheduler + Send>, Option<Packet>);
        impl Scheduler for Next {
            fn enqueue(&mut self, now: Instant, pkt: Packet, drops: &mut Drops) {
                self.1 = Some(pkt);
                self.0.enqueue(now, pkt, drops);
            }
            fn dequeue(&mut self, now: Instant, drops: &mut Drops) -> Option<Packet> {
                let sent = self.0.dequeue(now, drops);
                assert_eq!(sent, self.1);
                sent
            }
            fn next_departure(&self) -> Option<Instant> {
                self.0.next_departure()
            }
            fn backlog(&self) -> Backlog {
                self.0.backlog()
            }
        }
        let mut bench = Bench::new(Case::Pairs, 1024, 1);
        let mut next = Next(bench.build(Discipline::Sqf), None);
        bench.prefill(&mut next);
        bench.run(&mut next, &mut Drops::default(), 100_000);
    }

    #[test]
    fn pairs_and_overload_keep_the_buffer_as_full_as_they_say() {
        for (case, held) in [
            (Case::Pairs, 8 * 64),
            (Case::Overload, 4 * 64),
            (Case::Waves, 0),
        ] {
            for discipline in Discipline::ALL {
                let mut bench = Bench::new(case, 64, 1);
                let mut scheduler = bench.build(discipline);
                let mut drops = Drops::default();
                bench.prefill(&mut *scheduler);
                bench.run(&mut *scheduler, &mut drops, 10_000);
                let packets = scheduler.backlog().packets;
                // It drops half of the longest queue at once.
                let room = match (case, discipline) {
                    (Case::Overload, Discipline::FqCoDel) => DEPTH,
                    _ => 0,
                };
                assert!(
                    (held - room..=held).contains(&packets),
                    "{case} {discipline} {packets}"
                );
                assert!(drops.is_empty());
            }
        }
    }
}
