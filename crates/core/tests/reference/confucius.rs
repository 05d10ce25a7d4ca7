// SPDX-License-Identifier: MIT OR Apache-2.0
//! Confucius with lists: who has packets, who is old and what a queue weighs is counted anew each time.

use super::Config;
use makeway_core::packet::Packet;
use makeway_core::sched::DropFrom;
use makeway_core::units::Instant;

const LIGHT: usize = 0;
const NEW: usize = 1;
const HEAVY: usize = 2;

pub struct Confucius {
    doubling: u128,
    memory: u128,
    room: u64,
    known: Vec<Known>,
    births: u64,
    /// The flows of which a packet may leave, a queue each.
    turns: [Vec<u32>; 3],
    tags: [u128; 3],
    now_serving: u128,
}

#[derive(Clone)]
struct Known {
    flow: u32,
    queue: usize,
    /// When, and as which of all.
    birth: (u128, u64),
    seen: u128,
    epoch: u128,
    mean: u128,
}

impl Known {
    /// Where it waits now that it is old.
    fn sorted(&self, share: u64) -> usize {
        match self.mean {
            mean if mean > u128::from(share / 2) => HEAVY,
            mean if mean < u128::from(share / 4) => LIGHT,
            _ if self.queue == NEW => HEAVY,
            _ => self.queue,
        }
    }
}

fn bytes(packets: &[Packet], flow: u32) -> u128 {
    let of = packets.iter().filter(|p| p.flow.0 == flow);
    of.map(|p| u128::from(p.len().get())).sum()
}

impl Confucius {
    pub fn new(config: &Config) -> Self {
        Self {
            doubling: config.confucius.doubling.as_nanos().into(),
            memory: config.confucius.memory.as_nanos().into(),
            room: (u64::from(config.limits.packets) * 1538).min(config.limits.bytes.get()),
            known: Vec::new(),
            births: 0,
            turns: [const { Vec::new() }; 3],
            tags: [0; 3],
            now_serving: 0,
        }
    }

    /// A packet of `flow` comes, `packets` wait.
    pub fn arrive(&mut self, at: Instant, flow: u32, packets: &[Packet]) {
        let now = u128::from(at.as_nanos());
        let memory = self.memory;
        for known in &mut self.known {
            if now - known.seen > memory && bytes(packets, known.flow) > 0 {
                known.seen = now;
            }
        }
        self.known.retain(|k| now - k.seen <= memory);
        self.age(at);
        if !self.known.iter().any(|k| k.flow == flow) {
            self.births += 1;
            self.known.push(Known {
                flow,
                queue: NEW,
                birth: (now, self.births),
                seen: now,
                epoch: 0,
                mean: 0,
            });
        }
        let all = self.known.len();
        let share = self.room / (all as u64 + 1);
        let known = self
            .known
            .iter_mut()
            .find(|k| k.flow == flow)
            .expect("it is known");
        let over = (now - known.birth.0).min(memory).max(1);
        let since = (now - known.seen).min(over);
        known.mean = (known.mean * (over - since) + bytes(packets, flow) * since) / over;
        known.seen = now;
        if known.queue != NEW {
            known.queue = known.sorted(share);
        }
        let queue = known.queue;
        if self.turns[queue].is_empty() {
            self.tags[queue] = self.tags[queue].max(self.now_serving);
        }
        self.turns[queue].push(flow);
    }

    /// Each step of each new flow, as if time went on slowly.
    pub fn age(&mut self, now: Instant) {
        let now = u128::from(now.as_nanos());
        loop {
            let new = self.known.iter().filter(|k| k.queue == NEW).count() as u128;
            let old = self.known.len() as u128 - new;
            let share = self.room / (self.known.len() as u64 + 1);
            let doubling = self.doubling;
            let step = |k: &Known| k.birth.0 + (k.epoch + 1) * doubling;
            let due = self.known.iter_mut().filter(|k| k.queue == NEW);
            let Some(first) = due
                .filter(|k| step(k) <= now)
                .min_by_key(|k| (step(k), k.birth))
            else {
                return;
            };
            first.epoch += 1;
            if old == 0 || old * (1 << first.epoch) >= new {
                first.queue = first.sorted(share);
            }
        }
    }

    /// Flow whose packet is dropped.
    pub fn give_up(&mut self, from: DropFrom) -> u32 {
        let most = self.turns.iter().map(Vec::len).max();
        let longest = self.turns.iter_mut().rev().find(|t| Some(t.len()) == most);
        let longest = longest.expect("there are three");
        match from {
            DropFrom::Head => longest.remove(0),
            DropFrom::Tail => longest.pop().expect("something is held"),
        }
    }

    /// Flow whose packet departs, of `packets`.
    pub fn depart(&mut self, packets: &[Packet]) -> u32 {
        let waiting = (0..3).filter(|q| !self.turns[*q].is_empty());
        let queue = waiting.min_by_key(|q| (self.tags[*q], *q));
        let queue = queue.expect("something is held");
        let weight = self.weight(queue, packets);
        let flow = self.turns[queue].remove(0);
        let sent = packets.iter().find(|p| p.flow.0 == flow);
        let len = sent.expect("a turn for each packet").len().get();
        self.now_serving = self.tags[queue];
        self.tags[queue] += u128::from(len) * (1 << 32) / weight;
        flow
    }

    /// In parts of 65536.
    fn weight(&self, queue: usize, packets: &[Packet]) -> u128 {
        let new = self.known.iter().filter(|k| k.queue == NEW).count() as u128;
        let old = self.known.len() as u128 - new;
        let busy: Vec<&Known> = self
            .known
            .iter()
            .filter(|k| k.queue == queue && bytes(packets, k.flow) > 0)
            .collect();
        let each_1 = busy.len() as u128 * 65536;
        if busy.is_empty() {
            return 65536;
        }
        if queue != NEW || old == 0 {
            return each_1;
        }
        let grown: u128 = busy.iter().map(|k| 1u128 << k.epoch).sum();
        (old * grown * 65536 / new).max(1).min(each_1)
    }
}
