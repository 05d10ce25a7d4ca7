// SPDX-License-Identifier: MIT OR Apache-2.0
//! Confucius: flows that have just begun gain their share slowly, so that a stream that adapts has time to
//! yield; flows that keep a backlog wait apart from those that do not.
//!
//! Source: Z. Meng, N. Atre, M. Xu, J. Sherry, M. Apostolaki, "Confucius: Achieving Consistent Low Latency with
//! Practical Queue Management for Real-Time Communications", arXiv 2310.18030v2, 2024 (version 1: "Confucius
//! Queue Management: Be Fair But Not Too Fast"). We had its abstract, not its text. The weight is as
//! J. Morton summed it up on the list bloat, 14 February 2024; that flows are distinguished by occupancy, with
//! hysteresis, for a small number of queues, is from published summaries.
//!
//! | paper | here |
//! | --- | --- |
//! | weight of an old flow: 1 | [`ONE`] |
//! | weight of a new one: old flows / new flows * 2^(k t) | [`Confucius::weight`]; `1 / k` is [`ConfuciusParams::doubling`] |
//! | a new flow whose weight reaches 1 is old | [`Confucius::age`] |
//! | its age t, in whole steps | `epoch` |
//! | occupancy of a flow | `mean` |
//!
//! Our reading, where we know of no rule:
//!
//! - **Queues**: three, first in first out each: of new flows ([`NEW`]), and of old ones with little
//!   backlog ([`LIGHT`]) and with much ([`HEAVY`]). A queue has the weights of the flows in it that have packets, and queues
//!   share by start-time fair queueing (P. Goyal, H. Vin, H. Cheng, SIGCOMM 1996).
//! - **Occupancy** is a flow's mean backlog, over its age at first. A flow with more than half of its even share
//!   of the buffer is heavy, below a quarter light, in between what it was; heavy where it was new.
//! - **A step** is needed before a flow is old; else the first flow of a burst were old at once, and then
//!   the next. Without old flows the new have a weight of 1. A queue's weight is no more than its flows with packets.
//! - **Flows** that send nothing for the time `memory` are forgotten, and new when they come again.
//! - **A full buffer** takes from the queue with the most packets.
//!
//! A flow that changes its queue keeps its order: a queue holds turns and not packets, and at each turn the
//! flow's oldest packet leaves.
//!
//! Cost per packet: O(1), but that forgetting looks at each flow with packets once in `memory`.

use super::queues::Pool;
use super::ring::Ring;
use super::spec::{self, Describe, FULL_FRAME};
use super::{Backlog, DropFrom, Drops, Env, Limits, Scheduler};
use crate::packet::{DropReason, Packet};
use crate::param::{Ranged, Visitor};
use crate::units::{Duration, Instant};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// How slowly flows gain their share, and how long they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfuciusParams {
    /// In which the weight of a new flow doubles; 1 ms to 1 h.
    pub doubling: Duration,
    /// Over which a backlog is averaged, and after which a flow without packets is forgotten; 1 ms to 1 h.
    pub memory: Duration,
    /// Where longest queue drop takes its packet.
    pub drop_from: DropFrom,
}

impl Default for ConfuciusParams {
    /// 200 ms, a few round trips of a home, in each of which a sender can learn of it; 1 s, which spans the
    /// gaps between frames. Chosen by us.
    fn default() -> Self {
        Self {
            doubling: Duration::from_millis(200),
            memory: Duration::from_secs(1),
            drop_from: DropFrom::default(),
        }
    }
}

/// The queues, in the order in which they are served where tags are equal.
const LIGHT: usize = 0;
const NEW: usize = 1;
const HEAVY: usize = 2;

/// A weight of 1: weights have 16 bits behind the point.
const ONE: u128 = 1 << 16;

impl Describe for ConfuciusParams {
    const NAME: &'static str = "confucius";
    const ABOUT: &'static str = "light flows, while new flows gain their share slowly";

    fn fields(&mut self, visit: &mut Visitor<'_>) {
        let times = Duration::from_millis(1)..=Duration::from_secs(3600);
        visit(
            "confucius.doubling",
            "time in which the weight of a new flow doubles",
            &mut Ranged(&mut self.doubling, times.clone()),
        );
        visit(
            "confucius.memory",
            "time over which a backlog is averaged, and after which a flow is forgotten",
            &mut Ranged(&mut self.memory, times),
        );
        spec::drop_from(&mut self.drop_from, visit);
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        Box::new(Confucius::new(env.limits, *self))
    }
}

/// Weights by age, a queue for new flows, for light and for heavy ones.
#[derive(Clone, Debug)]
pub struct Confucius {
    pool: Pool,
    flows: Vec<FlowState>,
    /// The flows that are known, the one that has sent nothing for longest first.
    known: Ring,
    /// The new ones of them, in the order of their next steps.
    growing: Ring,
    /// How many of them there are in each queue.
    members: [u64; 3],
    queues: [Queue; 3],
    /// Sum of 2^epoch over the new flows with packets.
    grown: u64,
    /// Start tag of the packet that left last.
    virtual_time: u128,
    /// Size of the buffer, in full packets if its limit is in packets.
    room: u64,
    params: ConfuciusParams,
}

#[derive(Clone, Debug)]
struct Queue {
    /// Queues in the order of their turns, one for each packet.
    turns: VecDeque<u32>,
    /// Its flows that have packets.
    busy: u64,
    /// Start tag of its next packet.
    tag: u128,
}

#[derive(Clone, Copy, Debug, Default)]
struct FlowState {
    born: Instant,
    /// When its last packet came.
    seen: Instant,
    /// When its weight doubles next, while it is new.
    step: Instant,
    queue: usize,
    /// Mean backlog in bytes.
    mean: u32,
    epoch: u8,
}

impl Confucius {
    /// No packets; as many as `limits` allow.
    pub fn new(limits: Limits, params: ConfuciusParams) -> Self {
        let full = FULL_FRAME.get() * u64::from(limits.packets);
        let queue = || Queue {
            turns: VecDeque::with_capacity(limits.packets as usize + 1),
            busy: 0,
            tag: 0,
        };
        Self {
            pool: Pool::new(limits, 0),
            flows: vec![FlowState::default(); limits.flows as usize],
            known: Ring::new(limits.flows),
            growing: Ring::new(limits.flows),
            members: [0; 3],
            queues: [queue(), queue(), queue()],
            grown: 0,
            virtual_time: 0,
            room: full.min(limits.bytes.get()),
            params,
        }
    }

    /// The weight of a queue, which has packets.
    fn weight(&self, queue: usize) -> u128 {
        let most = u128::from(self.queues[queue].busy) * ONE;
        let weight = match (queue, self.old()) {
            (NEW, old @ 1..) if self.members[NEW] > 0 => {
                u128::from(old) * u128::from(self.grown) * ONE / u128::from(self.members[NEW])
            }
            _ => most,
        };
        // Nothing but turns of flows that have gone to another queue: as one flow.
        if most == 0 {
            ONE
        } else {
            weight.clamp(1, most)
        }
    }

    fn old(&self) -> u64 {
        self.members[LIGHT] + self.members[HEAVY]
    }

    /// Forgets flows that are idle.
    fn forget(&mut self, now: Instant) {
        while let Some(other) = self.known.head() {
            let FlowState { seen, queue, .. } = self.flows[other as usize];
            if now.saturating_since(seen) <= self.params.memory {
                break;
            }
            if self.pool.bytes(other) > 0 {
                self.flows[other as usize].seen = now;
                self.known.rotate();
            } else {
                self.known.remove(other);
                self.members[queue] -= 1;
                if queue == NEW {
                    self.growing.remove(other);
                }
            }
        }
    }

    /// `flow` is known, or new.
    fn meet(&mut self, now: Instant, flow: u32) {
        if self.known.contains(flow) {
            self.known.remove(flow);
        } else {
            self.members[NEW] += 1;
            self.growing.push(flow);
            self.flows[flow as usize] = FlowState {
                queue: NEW,
                born: now,
                seen: now,
                step: now + self.params.doubling,
                ..FlowState::default()
            };
        }
        self.known.push(flow);
    }

    /// New flows double their weights, and those that reach 1 are old.
    fn age(&mut self, now: Instant) {
        while let Some(flow) = self.growing.head() {
            let state = &mut self.flows[flow as usize];
            if now < state.step {
                return;
            }
            state.step += self.params.doubling;
            let before = state.epoch;
            state.epoch += 1;
            if self.pool.bytes(flow) > 0 {
                self.grown += 1 << before;
            }
            let old = self.old();
            if old == 0 || old << (before + 1) >= self.members[NEW] {
                self.growing.remove(flow);
                self.change(flow, HEAVY);
                self.sort(flow);
            } else {
                self.growing.rotate();
            }
        }
    }

    /// Brings the mean backlog of `flow`, to which a packet comes, up to date.
    fn average(&mut self, now: Instant, flow: u32) {
        let bytes = self.pool.bytes(flow);
        let state = &mut self.flows[flow as usize];
        // The backlog that the packet finds counts for the time since the last.
        let age = now.saturating_since(state.born).min(self.params.memory);
        let over = age.as_nanos().max(1);
        let for_ns = now.saturating_since(state.seen).as_nanos().min(over);
        let sum = u128::from(state.mean) * u128::from(over - for_ns)
            + u128::from(bytes) * u128::from(for_ns);
        state.mean = (sum / u128::from(over)) as u32;
        state.seen = now;
    }

    /// An old flow waits with those of little or of much backlog.
    fn sort(&mut self, flow: u32) {
        let share = self.room / (self.members.iter().sum::<u64>() + 1);
        let mean = u64::from(self.flows[flow as usize].mean);
        if mean > share / 2 {
            self.change(flow, HEAVY);
        } else if mean < share / 4 {
            self.change(flow, LIGHT);
        }
    }

    /// From its next packet on, `flow` waits in `queue`.
    fn change(&mut self, flow: u32, queue: usize) {
        let is_busy = self.pool.bytes(flow) > 0;
        if is_busy {
            self.rest(flow);
        }
        let before = core::mem::replace(&mut self.flows[flow as usize].queue, queue);
        self.members[before] -= 1;
        self.members[queue] += 1;
        if is_busy {
            self.work(flow);
        }
    }

    /// `flow` has packets.
    fn work(&mut self, flow: u32) {
        let FlowState { queue, epoch, .. } = self.flows[flow as usize];
        self.queues[queue].busy += 1;
        if queue == NEW {
            self.grown += 1 << epoch;
        }
    }

    /// `flow` has packets no more.
    fn rest(&mut self, flow: u32) {
        let FlowState { queue, epoch, .. } = self.flows[flow as usize];
        self.queues[queue].busy -= 1;
        if queue == NEW {
            self.grown -= 1 << epoch;
        }
    }

    /// A turn of `queue`, from one of its ends; it has one.
    fn take(&mut self, queue: usize, from: DropFrom) -> Option<Packet> {
        let turns = &mut self.queues[queue].turns;
        let flow = match from {
            DropFrom::Head => turns.pop_front(),
            DropFrom::Tail => turns.pop_back(),
        }?;
        let taken = self.pool.pop(self.pool.position(flow), from);
        if taken.new.bytes == 0 {
            self.rest(flow);
        }
        Some(taken.packet)
    }
}

impl Scheduler for Confucius {
    fn enqueue(&mut self, now: Instant, pkt: Packet, drops: &mut Drops) {
        if !self.pool.admits(&pkt) {
            return drops.push(pkt, DropReason::TooLarge);
        }
        let flow = pkt.flow.0;
        self.forget(now);
        self.age(now);
        self.meet(now, flow);
        self.average(now, flow);
        if self.flows[flow as usize].queue != NEW {
            self.sort(flow);
        }
        if self.pool.push(pkt).old.bytes == 0 {
            self.work(flow);
        }
        let queue = &mut self.queues[self.flows[flow as usize].queue];
        if queue.turns.is_empty() {
            queue.tag = queue.tag.max(self.virtual_time);
        }
        queue.turns.push_back(flow);
        while self.pool.is_over() {
            // Of equal ones the last in their order.
            let longest = (LIGHT..=HEAVY).max_by_key(|q| self.queues[*q].turns.len());
            if let Some(dropped) = longest.and_then(|q| self.take(q, self.params.drop_from)) {
                drops.push(dropped, DropReason::LongestQueue);
            }
        }
    }

    fn dequeue(&mut self, now: Instant, _drops: &mut Drops) -> Option<Packet> {
        self.age(now);
        let waiting = (LIGHT..=HEAVY).filter(|q| !self.queues[*q].turns.is_empty());
        let first = waiting.min_by_key(|q| self.queues[*q].tag)?;
        let weight = self.weight(first);
        let sent = self.take(first, DropFrom::Head)?;
        let tag = &mut self.queues[first].tag;
        self.virtual_time = *tag;
        *tag += (u128::from(sent.len_u32()) << 32) / weight;
        Some(sent)
    }

    fn next_departure(&self) -> Option<Instant> {
        self.pool.next_departure()
    }

    fn backlog(&self) -> Backlog {
        self.pool.backlog()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{FlowId, Handle, UserId};
    use crate::sched::testing::limits;
    use crate::units::Bytes;

    /// A link that sends a packet of 1000 B each millisecond, and sources that keep a number of packets waiting.
    struct Link {
        confucius: Confucius,
        ms: u64,
        waiting: [u32; 64],
        sent: [u32; 64],
    }

    impl Link {
        fn new() -> Self {
            let params = ConfuciusParams::default();
            Self {
                confucius: Confucius::new(limits(200, 1_000_000), params),
                ms: 0,
                waiting: [0; 64],
                sent: [0; 64],
            }
        }

        fn come(&mut self, flow: u32) {
            let now = Instant::ZERO + Duration::from_millis(self.ms);
            let mut drops = Drops::default();
            let pkt = Packet::new(now, Handle(0), FlowId(flow), UserId(0), Bytes::new(1000));
            self.confucius.enqueue(now, pkt, &mut drops);
            self.waiting[flow as usize] += 1;
            for (pkt, _) in drops.drain() {
                self.waiting[pkt.flow.0 as usize] -= 1;
            }
        }

        /// Each of `flows` keeps `packets` waiting for this number of milliseconds. Packets that each sent meanwhile.
        fn run(&mut self, ms: u64, flows: std::ops::Range<u32>, packets: u32) -> [u32; 64] {
            let before = self.sent;
            for _ in 0..ms {
                for flow in flows.clone() {
                    while self.waiting[flow as usize] < packets {
                        self.come(flow);
                    }
                }
                let now = Instant::ZERO + Duration::from_millis(self.ms);
                if let Some(pkt) = self.confucius.dequeue(now, &mut Drops::default()) {
                    self.sent[pkt.flow.0 as usize] += 1;
                    self.waiting[pkt.flow.0 as usize] -= 1;
                }
                self.ms += 1;
            }
            std::array::from_fn(|flow| self.sent[flow] - before[flow])
        }
    }

    #[test]
    fn a_burst_of_flows_gains_its_share_by_doubling() {
        // The old flow weighs 1, ten new ones together 1, 2, 4 and 8; then all are old.
        let mut line = Link::new();
        line.run(1000, 0..1, 10);
        for all in [2, 3, 5, 9] {
            let sent = line.run(200, 0..11, 10)[0];
            assert!(sent.abs_diff(200 / all) <= 2, "1 / {all}: {sent}");
        }
        line.run(200, 0..11, 10);
        let sent = line.run(2200, 0..11, 10);
        assert!((190..=210).contains(&sent[0]), "{sent:?}");
    }

    #[test]
    fn a_single_new_flow_beside_an_old_one_has_half_at_once() {
        let mut line = Link::new();
        line.run(1000, 0..1, 10);
        let sent = line.run(100, 0..2, 10);
        assert_eq!(sent[..2], [50, 50]);
    }

    #[test]
    fn a_flow_that_keeps_little_waiting_does_not_stand_behind_one_that_keeps_much() {
        let mut line = Link::new();
        line.run(1000, 0..1, 80);
        // Each twenty milliseconds a packet; the other has 80 waiting.
        let mut waits = Vec::new();
        for _ in 0..200 {
            line.come(1);
            let came = line.ms;
            while line.waiting[1] > 0 {
                line.run(1, 0..1, 80);
            }
            waits.push(line.ms - came);
            let rest = 20 - (line.ms - came);
            line.run(rest, 0..1, 80);
        }
        assert!(waits.iter().all(|ms| *ms <= 2), "{waits:?}");
        // The same two, but that both keep much waiting: they share a queue.
        let sent = line.run(2000, 0..2, 80);
        assert!((900..=1100).contains(&sent[1]), "{sent:?}");
        assert_eq!(line.confucius.flows[1].queue, HEAVY);
    }

    #[test]
    fn a_flow_that_comes_again_after_a_second_is_new() {
        let mut line = Link::new();
        line.run(1000, 0..4, 10);
        assert_eq!(line.confucius.members[NEW], 0);
        line.run(990, 0..3, 10);
        line.come(3);
        assert_eq!(line.confucius.members[NEW], 0);
        // Its packet has left when this begins.
        line.run(1100, 0..3, 10);
        line.come(3);
        assert_eq!(line.confucius.members[NEW], 1);
        assert_eq!(line.confucius.flows[3].queue, NEW);
    }

    #[test]
    fn on_an_idle_line_new_flows_share_at_once() {
        let sent = Link::new().run(100, 0..10, 10);
        assert_eq!(sent[..10], [10; 10]);
    }
}
