// SPDX-License-Identifier: MIT OR Apache-2.0
//! Strict priority between users: a packet of the user with the largest weight leaves first, in order
//! of arrival within a weight. When the buffer is full, the newest packet of the lowest level makes
//! room for one of a higher level; else who comes is refused.
//!
//! Source: the head-of-line priority queue of A. Cobham, "Priority Assignment in Waiting Line Problems",
//! Journal of the Operations Research Society of America 2(1), 1954. It is what marking packets
//! (RFC 3246's expedited forwarding, Linux's `prio`) gives where the marks are right, so a baseline for
//! disciplines that need none.
//!
//! | paper | here |
//! | --- | --- |
//! | priority 1 to r | the weights in use, the largest first: `levels` |
//! | the units of a priority | the list of [`Level`] |
//!
//! Cost per packet: O(levels) to look for one with packets, without a search in any.
//!
//! Departures from the paper: its queues are unbounded; the response to a full buffer is chosen by us. No packet
//! is dropped in vain: if all lower packets do not make room, the arrival is refused. Linux's `prio`
//! has a limit for each band instead. A flow belongs to the user of the packet that made it active,
//! until it is empty, so that its order is kept.

use super::order::NIL;
use super::spec::Describe;
use super::{Backlog, Drops, Env, Limits, Needs, Scheduler};
use crate::packet::{DropReason, Packet, UserId};
use crate::units::Instant;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// It has no parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrioParams;

impl Describe for PrioParams {
    const NAME: &'static str = "prio";
    const ABOUT: &'static str = "the user of the largest weight";

    fn needs(&self) -> Needs {
        Needs {
            users: true,
            weights: true,
            ..Needs::default()
        }
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        Box::new(Prio::new(env.limits, env.users, &env.weights))
    }
}

/// Strict priority, first in first out within a level.
#[derive(Clone, Debug)]
pub struct Prio {
    /// The highest first.
    levels: Vec<Level>,
    /// Each user's level.
    of_user: Vec<u32>,
    flows: Vec<FlowState>,
    slots: Vec<Slot>,
    /// The first of the slots that are free.
    free: u32,
    held: Backlog,
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    head: u32,
    tail: u32,
    held: Backlog,
}

/// While it has packets, a flow stays in its level.
#[derive(Clone, Copy, Debug, Default)]
struct FlowState {
    level: u32,
    packets: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    pkt: Option<Packet>,
    before: u32,
    after: u32,
}

impl Prio {
    /// No packets; `users` users of weight 1 but for those in `weights`, of which the last word counts.
    ///
    /// # Panics
    /// If a weight is set for a missing user.
    pub fn new(limits: Limits, users: u32, weights: &[(UserId, u32)]) -> Self {
        let mut weight_of = vec![1; users as usize];
        for (user, weight) in weights {
            weight_of[user.0 as usize] = *weight;
        }
        let mut order = weight_of.clone();
        order.sort_unstable_by(|a, b| b.cmp(a));
        order.dedup();
        let level_of = |weight: &u32| order.partition_point(|w| w > weight) as u32;
        let level = Level {
            head: NIL,
            tail: NIL,
            held: Backlog::default(),
        };
        let slot = |n| Slot {
            pkt: None,
            before: NIL,
            after: n,
        };
        Self {
            levels: vec![level; order.len()],
            of_user: weight_of.iter().map(level_of).collect(),
            flows: vec![FlowState::default(); limits.flows as usize],
            slots: (1..limits.packets).chain([NIL]).map(slot).collect(),
            free: 0,
            held: Backlog::default(),
            limits,
        }
    }

    /// Whether `pkt` fits beside what is held, less `spared`.
    fn fits(&self, pkt: &Packet, spared: Backlog) -> bool {
        self.held.packets - spared.packets < self.limits.packets
            && self.held.bytes - spared.bytes + pkt.len() <= self.limits.bytes
    }

    /// The backlog of the levels below `level`.
    fn below(&self, level: u32) -> Backlog {
        let mut sum = Backlog::default();
        for lower in &self.levels[level as usize + 1..] {
            sum.packets += lower.held.packets;
            sum.bytes += lower.held.bytes;
        }
        sum
    }

    fn push(&mut self, level: u32, pkt: Packet) {
        let at = self.free;
        let Level { tail, held, .. } = &mut self.levels[level as usize];
        held.packets += 1;
        held.bytes += pkt.len();
        let last = core::mem::replace(tail, at);
        let slot = &mut self.slots[at as usize];
        self.free = slot.after;
        *slot = Slot {
            pkt: Some(pkt),
            before: last,
            after: NIL,
        };
        match last {
            NIL => self.levels[level as usize].head = at,
            last => self.slots[last as usize].after = at,
        }
        self.held.packets += 1;
        self.held.bytes += pkt.len();
        let flow = &mut self.flows[pkt.flow.0 as usize];
        flow.level = level;
        flow.packets += 1;
    }

    /// Takes out the packet at `at`, which is the first or the last of `level`.
    fn take(&mut self, level: usize, at: u32) -> Option<Packet> {
        let Slot { pkt, before, after } = *self.slots.get(at as usize)?;
        let pkt = pkt?;
        self.slots[at as usize] = Slot {
            pkt: None,
            before: NIL,
            after: self.free,
        };
        self.free = at;
        let Level { head, tail, held } = &mut self.levels[level];
        held.packets -= 1;
        held.bytes -= pkt.len();
        match before {
            NIL => *head = after,
            before => self.slots[before as usize].after = after,
        }
        match after {
            NIL => *tail = before,
            after => self.slots[after as usize].before = before,
        }
        self.held.packets -= 1;
        self.held.bytes -= pkt.len();
        self.flows[pkt.flow.0 as usize].packets -= 1;
        Some(pkt)
    }

    /// The newest packet of the lowest level.
    fn take_lowest(&mut self) -> Option<Packet> {
        let lowest = self.levels.iter().rposition(|level| level.tail != NIL)?;
        self.take(lowest, self.levels[lowest].tail)
    }
}

impl Scheduler for Prio {
    fn enqueue(&mut self, _now: Instant, pkt: Packet, drops: &mut Drops) {
        if pkt.len() > self.limits.bytes {
            return drops.push(pkt, DropReason::TooLarge);
        }
        let level = match self.flows[pkt.flow.0 as usize] {
            FlowState { packets: 0, .. } => self.of_user[pkt.user().0 as usize],
            FlowState { level, .. } => level,
        };
        if !self.fits(&pkt, Backlog::default()) {
            if !self.fits(&pkt, self.below(level)) {
                return drops.push(pkt, DropReason::Tail);
            }
            while !self.fits(&pkt, Backlog::default()) {
                let Some(lowest) = self.take_lowest() else {
                    break;
                };
                drops.push(lowest, DropReason::Tail);
            }
        }
        self.push(level, pkt);
    }

    fn dequeue(&mut self, _now: Instant, _drops: &mut Drops) -> Option<Packet> {
        let highest = self.levels.iter().position(|level| level.head != NIL)?;
        self.take(highest, self.levels[highest].head)
    }

    fn next_departure(&self) -> Option<Instant> {
        (self.held.packets > 0).then_some(Instant::ZERO)
    }

    fn backlog(&self) -> Backlog {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::{limits, of, packet};

    /// Two users of weight 1, one of 5, one of 2.
    fn prio(packets: u32, bytes: u64) -> Prio {
        let weights = [(UserId(2), 5), (UserId(3), 2)];
        Prio::new(limits(packets, bytes), 4, &weights)
    }

    /// Packets of these users and lengths, each a separate flow: handles dropped, then sent.
    fn run(prio: &mut Prio, packets: &[(u32, u64)]) -> (Vec<u32>, Vec<u32>) {
        let mut drops = Drops::default();
        for (n, (user, len)) in (0..).zip(packets) {
            prio.enqueue(Instant::ZERO, of(*user, packet(n, n, *len)), &mut drops);
        }
        let sent = std::iter::from_fn(|| prio.dequeue(Instant::ZERO, &mut drops));
        let sent = sent.map(|pkt| pkt.handle.0).collect();
        (drops.drain().map(|(pkt, _)| pkt.handle.0).collect(), sent)
    }

    #[test]
    fn the_largest_weight_leaves_first_and_equals_in_order_of_arrival() {
        let packets = [(0, 100), (3, 100), (1, 100), (2, 100), (0, 100), (2, 100)];
        let (_, sent) = run(&mut prio(10, 10_000), &packets);
        assert_eq!(sent, [3, 5, 1, 0, 2, 4]);
    }

    #[test]
    fn the_newest_of_the_lowest_level_makes_room_for_a_higher_one() {
        let packets = [(0, 100), (1, 100), (3, 100), (2, 100), (1, 100), (2, 100)];
        let (dropped, sent) = run(&mut prio(3, 10_000), &packets);
        // 1 for 3, 4 finds nobody lower, 0 for 5.
        assert_eq!((dropped, sent), (vec![1, 4, 0], vec![3, 5, 2]));
    }

    #[test]
    fn nothing_is_given_up_for_a_packet_that_would_not_fit_even_then() {
        let packets = [(2, 600), (0, 300), (3, 500), (3, 350)];
        let (dropped, sent) = run(&mut prio(9, 1000), &packets);
        assert_eq!((dropped, sent), (vec![2, 1], vec![0, 3]));
    }

    #[test]
    fn a_flow_that_changes_its_user_keeps_its_order_until_it_is_empty() {
        let mut prio = prio(9, 10_000);
        let mut drops = Drops::default();
        for (n, user, flow) in [(0, 0, 7), (1, 3, 8), (2, 2, 7)] {
            prio.enqueue(Instant::ZERO, of(user, packet(n, flow, 100)), &mut drops);
        }
        let sent = std::iter::from_fn(|| prio.dequeue(Instant::ZERO, &mut drops));
        assert_eq!(sent.map(|pkt| pkt.handle.0).collect::<Vec<_>>(), [1, 0, 2]);
    }
}
