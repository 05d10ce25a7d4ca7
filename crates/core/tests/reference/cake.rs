// SPDX-License-Identifier: MIT OR Apache-2.0
//! CAKE's lists of flows, and COBALT as a machine that is asked of one packet after the other.

use super::Config;
use super::codel::law;
use makeway_core::packet::{DropReason, Packet};
use makeway_core::random::Rng;
use makeway_core::sched::{CakeParams, Isolation};
use makeway_core::units::{Bytes, Duration, Instant, Rate};

pub struct Cake {
    params: CakeParams,
    rate: Option<Rate>,
    new: Vec<u32>,
    old: Vec<u32>,
    decaying: Vec<u32>,
    flows: Vec<FlowState>,
    rng: Rng,
}

#[derive(Clone, Default)]
struct FlowState {
    /// In 2^-16 B.
    deficit: i128,
    user: u32,
    /// Counted among those of its user while it is old.
    bulk: bool,
    cobalt: Cobalt,
}

#[derive(Clone, Default)]
struct Cobalt {
    count: u32,
    /// The count that drops are spaced by; none at first.
    spaced_by: Option<u32>,
    dropping: bool,
    drop_next: Instant,
    /// In 2^-32.
    chance: u64,
    chance_changed: Option<Instant>,
}

impl Cake {
    pub fn new(config: &Config) -> Self {
        Self {
            params: config.cake.clone(),
            rate: config.rate,
            new: Vec::new(),
            old: Vec::new(),
            decaying: Vec::new(),
            flows: vec![FlowState::default(); config.limits.flows as usize],
            rng: Rng::new(config.seed),
        }
    }

    /// Bytes of a turn of a flow of `user`.
    fn grant(&self, user: u32) -> i128 {
        let is_bulk = |flow: &&u32| {
            let flow = &self.flows[**flow as usize];
            flow.bulk && flow.user == user
        };
        let load = match self.params.isolation {
            Isolation::Dual => self.old.iter().filter(is_bulk).count().max(1),
            Isolation::Flows => 1,
        };
        let quantum = match self.rate {
            // Bytes of 1/4096 s.
            Some(rate) => (rate.bps() / 32_768).clamp(300, 1514),
            None => 1514,
        };
        i128::from(quantum) * 65_536 / load.min(1024) as i128
    }

    /// `pkt` has come.
    pub fn arrive(&mut self, pkt: &Packet) {
        let flow = pkt.flow.0;
        if self.old.contains(&flow) {
            self.flows[flow as usize].bulk = true;
        } else if !self.new.contains(&flow) {
            self.decaying.retain(|other| *other != flow);
            let deficit = self.grant(pkt.user().0);
            let state = &mut self.flows[flow as usize];
            state.user = pkt.user().0;
            state.bulk = false;
            state.deficit = deficit;
            self.new.push(flow);
        }
    }

    /// A packet of `flow` was in the way of others.
    pub fn overflow(&mut self, now: Instant, flow: u32) {
        let target = self.target();
        let cobalt = &mut self.flows[flow as usize].cobalt;
        cobalt.change_chance(now, target, |p| (p + (1 << 24)).min(u64::from(u32::MAX)));
        cobalt.dropping = true;
        cobalt.drop_next = now;
        cobalt.count = cobalt.count.max(1);
    }

    /// Flow whose packet is looked at next. `holds` says which have some, of which there is one at least.
    pub fn turn(&mut self, now: Instant, holds: impl Fn(u32) -> bool) -> u32 {
        if !self.decaying.is_empty() {
            let flow = self.decaying.remove(0);
            self.rest(now, flow);
        }
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let flow = list[0];
            let (owes, waits) = (self.flows[flow as usize].deficit <= 0, holds(flow));
            if !owes && waits {
                return flow;
            }
            list.remove(0);
            if owes {
                if is_new {
                    self.flows[flow as usize].bulk = waits;
                }
                self.old.push(flow);
                let grant = self.grant(self.flows[flow as usize].user);
                self.flows[flow as usize].deficit += grant;
            } else {
                self.rest(now, flow);
            }
        }
    }

    /// `flow` is empty and in no list now.
    fn rest(&mut self, now: Instant, flow: u32) {
        let (target, interval) = (self.target(), self.interval());
        let cobalt = &mut self.flows[flow as usize].cobalt;
        if cobalt.chance > 0 {
            cobalt.change_chance(now, target, |p| p.saturating_sub(1 << 20));
        }
        cobalt.dropping = false;
        if cobalt.count > 0 && now >= cobalt.drop_next {
            cobalt.step(cobalt.count - 1, interval);
        }
        if cobalt.chance > 0 || cobalt.count > 0 || now < cobalt.drop_next {
            self.decaying.push(flow);
        }
    }

    /// Why `pkt`, the head of its flow, should not be sent.
    pub fn judge(&mut self, now: Instant, pkt: &Packet) -> Option<DropReason> {
        let (target, interval) = (self.target(), self.interval());
        let sojourn = now.saturating_since(pkt.arrived);
        let stands = sojourn > target && sojourn > self.mtu_time() * 4;
        let cobalt = &mut self.flows[pkt.flow.0 as usize].cobalt;
        let due = cobalt.count > 0 && cobalt.drop_next <= now;
        let mut was_due_before = cobalt.drop_next < now;
        if stands && !cobalt.dropping {
            let spacing = cobalt
                .spaced_by
                .map_or(Duration::ZERO, |n| law(interval, n));
            cobalt.drop_next = now + spacing;
        }
        cobalt.dropping = stands;
        if stands && cobalt.count == 0 {
            cobalt.count = 1;
        }
        if due {
            if stands {
                cobalt.step(cobalt.count + 1, interval);
            }
            while !stands && cobalt.count > 0 && cobalt.drop_next <= now {
                cobalt.step(cobalt.count - 1, interval);
            }
            was_due_before = cobalt.drop_next < now;
        }
        let chosen = cobalt.chance > 0 && self.rng.next_u64() < cobalt.chance << 32;
        let why = match (due && stands, chosen) {
            (true, _) => Some(DropReason::Sojourn),
            (false, true) => Some(DropReason::Early),
            (false, false) => None,
        };
        match (cobalt.count, why) {
            (0, _) => cobalt.drop_next = now + interval,
            (_, None) if was_due_before => cobalt.drop_next = now,
            _ => {}
        }
        why
    }

    /// `pkt` is sent.
    pub fn charge(&mut self, pkt: &Packet) {
        let cost = i128::from(pkt.len().get()) * 65_536;
        self.flows[pkt.flow.0 as usize].deficit -= cost;
    }

    fn mtu_time(&self) -> Duration {
        let time = |rate| Bytes::new(1514) / rate;
        self.rate.map_or(Duration::ZERO, time)
    }

    fn target(&self) -> Duration {
        (self.params.rtt / 20).max(self.mtu_time() * 3 / 2)
    }

    fn interval(&self) -> Duration {
        let more = self.target().as_nanos() - (self.params.rtt / 20).as_nanos();
        let interval = (self.params.rtt + Duration::from_nanos(more)).max(self.target() * 2);
        interval.min(Duration::from_secs(4))
    }
}

impl Cobalt {
    fn step(&mut self, count: u32, interval: Duration) {
        self.count = count;
        self.spaced_by = Some(count.max(1));
        self.drop_next += law(interval, count.max(1));
    }

    fn change_chance(&mut self, now: Instant, target: Duration, change: impl Fn(u64) -> u64) {
        let may = match self.chance_changed {
            Some(at) => now.saturating_since(at) > target,
            None => now > Instant::ZERO,
        };
        if may {
            self.chance = change(self.chance);
            self.chance_changed = Some(now);
        }
    }
}
