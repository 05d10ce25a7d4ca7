// SPDX-License-Identifier: MIT OR Apache-2.0
//! The disciplines once more, from each paper's pseudo-code, with nothing but lists and loops.
//!
//! Used by the contract test and by the fuzz targets. Slow on purpose: every question is answered by
//! looking at every packet.

mod cake;
mod check;
mod choke;
mod codel;
mod confucius;
mod csfq;
mod harvest;
mod held;
mod ncq;
mod red;
mod setup;
mod tred;
mod turns;

use cake::Cake;
use choke::Choke;
use codel::CoDel;
use confucius::Confucius;
use csfq::Csfq;
use harvest::Harvest;
use makeway_core::packet::{DropReason, Packet, Tag};
use makeway_core::sched::{Discipline, DropFrom};
use makeway_core::units::{Bytes, Instant};
use ncq::Ncq;
use red::Red;
use tred::Tred;

pub use check::check;
#[allow(unused_imports)] // The fuzz targets have a reference for each discipline.
pub use check::check_alone;
pub use setup::{Config, Op};

/// One departure or drop.
pub type Event = (Packet, Option<DropReason>);

/// Disciplines with a reference here; others are held to the contract alone. The rules of `makeway` are tested by their properties, in
/// tests/makeway.
const KNOWN: [Discipline; 17] = [
    Discipline::Fifo,
    Discipline::Fq,
    Discipline::Pfq,
    Discipline::Sqf,
    Discipline::Hier,
    Discipline::Red,
    Discipline::CoDel,
    Discipline::FqCoDel,
    Discipline::Cake,
    Discipline::Prio,
    Discipline::Ncq,
    Discipline::Tred,
    Discipline::Rio,
    Discipline::Choke,
    Discipline::Csfq,
    Discipline::Harvest,
    Discipline::Confucius,
];

/// Whether `discipline` has a reference here.
pub fn is_known(discipline: Discipline) -> bool {
    KNOWN.contains(&discipline)
}

/// The reference for `config`.
pub struct Model {
    config: Config,
    /// Everything held, in the order of arrival.
    held: Vec<Held>,
    changes: u64,
    /// When each flow's and user's backlog last changed.
    flow_since: Vec<u64>,
    user_since: Vec<u64>,
    owner: Vec<u32>,
    /// Round robin, of flows (`fq`, `pfq`) or of users (`hier`).
    active: Vec<u32>,
    deficit: Vec<i64>,
    counted: Vec<i64>,
    granted: bool,
    /// New flows of `fq-codel`; `active` has the old.
    new: Vec<u32>,
    /// For each flow; `codel` has only the first.
    codels: Vec<CoDel>,
    /// The largest packet that CoDel has looked at.
    largest: u64,
    cake: Cake,
    red: Red,
    ncq: Ncq,
    tred: Tred,
    choke: Choke,
    confucius: Confucius,
    csfq: Csfq,
    harvest: Harvest,
    /// Queues of `rio`: packets inside their profile, and all.
    rio: [Red; 2],
    events: Vec<Event>,
}

#[derive(Clone, Copy)]
struct Held {
    pkt: Packet,
    priority: bool,
}

impl Model {
    /// The reference for `config`, if its discipline has one.
    pub fn of(config: &Config) -> Option<Self> {
        is_known(config.discipline).then(|| Self::new(config))
    }

    fn new(config: &Config) -> Self {
        let turns = config.limits.flows.max(config.users) as usize;
        let flows = config.limits.flows as usize;
        // As if the weights had been set one by one.
        let mut user_since = vec![0; config.users as usize];
        for (n, (user, _)) in config.weights.iter().enumerate() {
            user_since[user.0 as usize] = n as u64;
        }
        Self {
            config: config.clone(),
            held: Vec::new(),
            changes: 1000,
            flow_since: vec![0; flows],
            user_since,
            owner: vec![0; flows],
            active: Vec::new(),
            deficit: vec![0; turns],
            counted: vec![0; turns],
            granted: false,
            new: Vec::new(),
            codels: vec![CoDel::default(); flows],
            largest: 0,
            cake: Cake::new(config),
            red: Red::new(&config.red, config.rate, config.seed),
            ncq: Ncq::new(config, flows),
            tred: Tred::new(config.codec, config.tred.clone()),
            choke: Choke::new(config.seed),
            confucius: Confucius::new(config),
            csfq: Csfq::new(config),
            harvest: Harvest::new(config),
            rio: [
                Red::new(&config.rio.inside, config.rate, config.seed),
                Red::new(&config.rio.outside, config.rate, !config.seed),
            ],
            events: Vec::new(),
        }
    }

    /// Packets dropped when `pkt` comes. `gone` are those of the discipline: it decides where real numbers are too
    /// close to call, see [`red`].
    pub fn enqueue(&mut self, now: Instant, mut pkt: Packet, gone: &[Event]) -> Vec<Event> {
        let seen = gone
            .iter()
            .find(|(p, _)| p.handle == pkt.handle)
            .and_then(|(_, why)| *why);
        let limits = self.config.limits;
        let factor = match self.config.discipline {
            Discipline::Tred => self.tred.factor(now, &pkt),
            _ => 1.0,
        };
        if self.config.discipline == Discipline::Harvest {
            self.harvest.count(now, &pkt);
        }
        if pkt.len() > limits.bytes {
            return vec![(pkt, Some(DropReason::TooLarge))];
        }
        let full = self.held.len() + 1 > limits.packets as usize
            || self.total() + pkt.len() > limits.bytes;
        let mut first = false;
        let refused = match self.config.discipline {
            Discipline::Fifo | Discipline::CoDel => full.then_some(DropReason::Tail),
            Discipline::Red | Discipline::Tred => {
                let held = (self.held.len() as u64, self.total().get());
                self.red
                    .arrive(now, held, pkt.len().get(), full, seen, factor)
            }
            Discipline::Choke => {
                let held = (self.held.len() as u64, self.total().get());
                self.red.average(now, held);
                let is_met = |at: &usize| {
                    let candidate = self.held[*at].pkt;
                    let seen = gone.first().is_none_or(|(first, _)| *first == candidate);
                    (candidate.flow == pkt.flow, seen)
                };
                let compares = self.red.compares();
                if let Some(at) = self.choke.meet(compares, self.held.len(), seen, is_met) {
                    let candidate = self.remove(at);
                    self.choke.remove(at);
                    self.note_idle(now);
                    let both = [candidate, pkt].map(|pkt| (pkt, Some(DropReason::Match)));
                    return both.to_vec();
                }
                self.red.decide(pkt.len().get(), full, seen, 1.0)
            }
            Discipline::Harvest => {
                let held = (self.held.len() as u64, self.total().get());
                self.red.average(now, held);
                let (tag, why) = self.harvest.arrive(&pkt, self.red.phase(), seen);
                pkt = pkt.with_tag(tag);
                why.or(full.then_some(DropReason::Tail))
            }
            Discipline::Csfq => {
                let weight = u64::from(self.weight(pkt.user().0));
                let held = self.total().get();
                let (tag, drops) = self.csfq.arrive(now, &pkt, weight, held, seen);
                pkt = pkt.with_tag(tag);
                if full && !drops {
                    self.csfq.overflow();
                }
                let early = drops.then_some(DropReason::Early);
                early.or(full.then_some(DropReason::Tail))
            }
            Discipline::Rio => {
                let of_in = self.held.iter().filter(|h| h.pkt.tag() != Tag(0));
                let bytes = of_in.clone().map(|h| h.pkt.len().get()).sum();
                let held_in = (of_in.count() as u64, bytes);
                let held = (self.held.len() as u64, self.total().get());
                let len = pkt.len().get();
                let [inside, outside] = &mut self.rio;
                if pkt.tag() == Tag(0) {
                    outside.arrive(now, held, len, full, seen, 1.0)
                } else {
                    outside.average(now, held);
                    inside.arrive(now, held_in, len, full, seen, 1.0)
                }
            }
            Discipline::Prio => {
                // Lower levels, the newest packet of the lowest first, as long as room is missing.
                let level = self.level(&pkt);
                let mut spare: Vec<usize> = (0..self.held.len())
                    .filter(|at| self.level(&self.held[*at].pkt) < level)
                    .collect();
                spare.sort_by_key(|at| (self.level(&self.held[*at].pkt), usize::MAX - at));
                let (mut packets, mut bytes) = (self.held.len(), self.total());
                let mut gone = Vec::new();
                for at in spare {
                    if packets < limits.packets as usize && bytes + pkt.len() <= limits.bytes {
                        break;
                    }
                    packets -= 1;
                    bytes -= self.held[at].pkt.len();
                    gone.push(at);
                }
                let fits = packets < limits.packets as usize && bytes + pkt.len() <= limits.bytes;
                if fits {
                    let dropped: Vec<Packet> = gone.iter().map(|at| self.held[*at].pkt).collect();
                    self.held.retain(|h| !dropped.contains(&h.pkt));
                    let events = dropped.into_iter().map(|pkt| (pkt, Some(DropReason::Tail)));
                    self.events.extend(events);
                }
                (!fits).then_some(DropReason::Tail)
            }
            Discipline::Ncq => {
                let fits = self.ncq(now, &pkt, full, &mut first);
                (!fits).then_some(DropReason::Tail)
            }
            _ => None,
        };
        if refused.is_some() {
            return vec![(pkt, refused)];
        }
        if self.config.discipline == Discipline::Confucius {
            let packets: Vec<Packet> = self.held.iter().map(|h| h.pkt).collect();
            self.confucius.arrive(now, pkt.flow.0, &packets);
        }
        self.arrive(pkt, first);
        while self.held.len() > limits.packets as usize || self.total() > limits.bytes {
            let longest = match self.config.discipline {
                Discipline::Confucius => self.confucius.give_up(self.config.drop_from),
                _ => self.longest(),
            };
            if self.config.discipline == Discipline::FqCoDel {
                self.give_up_half(longest);
                continue;
            }
            let of_it = self.held.iter().position(|h| h.pkt.flow.0 == longest);
            let last = self.held.iter().rposition(|h| h.pkt.flow.0 == longest);
            let at = match self.config.drop_from {
                _ if self.config.discipline == Discipline::Cake => of_it,
                DropFrom::Head => of_it,
                DropFrom::Tail => last,
            };
            if self.config.discipline == Discipline::Cake {
                self.cake.overflow(now, longest);
            }
            let dropped = self.remove(at.expect("the longest queue is not empty"));
            self.events.push((dropped, Some(DropReason::LongestQueue)));
        }
        std::mem::take(&mut self.events)
    }

    /// Packets dropped before the next departure, and the packet that departs.
    pub fn dequeue(&mut self, now: Instant) -> (Vec<Event>, Option<Packet>) {
        let sent = self.depart(now);
        (std::mem::take(&mut self.events), sent)
    }

    fn depart(&mut self, now: Instant) -> Option<Packet> {
        self.confucius.age(now);
        // Its lists change even then.
        if self.held.is_empty() && self.config.discipline != Discipline::FqCoDel {
            self.codels[0].empty();
            return None;
        }
        let at = match self.config.discipline {
            Discipline::Fifo | Discipline::Red | Discipline::Tred => 0,
            Discipline::Rio | Discipline::Csfq | Discipline::Harvest => 0,
            Discipline::Choke => {
                self.choke.remove(0);
                0
            }
            Discipline::CoDel => return Some(self.codel(now, 0, |_| true)),
            Discipline::FqCoDel => return self.fq_codel(now),
            Discipline::Cake => return Some(self.cake(now)),
            Discipline::Sqf => self.shortest_of(|_| true),
            Discipline::Fq => self.drr(),
            Discipline::Pfq => match self.held.iter().position(|h| h.priority) {
                Some(at) => {
                    let pkt = self.held[at].pkt;
                    self.deficit[pkt.flow.0 as usize] -= len(&pkt);
                    at
                }
                None => self.drr(),
            },
            Discipline::Hier => self.hierarchy(),
            Discipline::Confucius => {
                let packets: Vec<Packet> = self.held.iter().map(|h| h.pkt).collect();
                let flow = self.confucius.depart(&packets);
                self.head(flow)
            }
            Discipline::Ncq => self.held.iter().position(|h| h.priority).unwrap_or(0),
            Discipline::Prio => {
                let levels = self.held.iter().map(|h| self.level(&h.pkt));
                let highest = levels.max();
                let is_highest = |h: &Held| Some(self.level(&h.pkt)) == highest;
                self.held
                    .iter()
                    .position(is_highest)
                    .expect("something is held")
            }
            other => unreachable!("no reference of {other}"),
        };
        let sent = self.remove(at);
        if self.config.discipline == Discipline::Ncq {
            self.ncq.send(&sent, self.unfavoured().len());
        }
        if self.held.is_empty() && self.config.discipline == Discipline::Pfq {
            self.active.clear();
            self.granted = false;
        }
        self.note_idle(now);
        if sent.tag() != Tag(0) && self.held.iter().all(|h| h.pkt.tag() == Tag(0)) {
            self.rio[0].idle_since = now;
        }
        Some(sent)
    }

    fn note_idle(&mut self, now: Instant) {
        if self.held.is_empty() {
            self.red.idle_since = now;
            self.rio[1].idle_since = now;
        }
    }

    /// Whether NCQ takes `pkt` in, and puts it `first`; instead of the last unfavoured ones, if it does so.
    fn ncq(&mut self, now: Instant, pkt: &Packet, full: bool, first: &mut bool) -> bool {
        let push_out = self.config.ncq.push_out;
        let could = self.ncq.could_be_favoured(now, pkt);
        if full && !push_out {
            return false;
        }
        let of_it = |h: &&Held| h.pkt.flow == pkt.flow && !h.priority;
        let waiting = self.held.iter().filter(of_it).count();
        *first = self.ncq.is_favoured(could, waiting);
        let limits = self.config.limits;
        let (mut packets, mut bytes) = (self.held.len() + 1, self.total() + pkt.len());
        let mut gone = Vec::new();
        for at in self.unfavoured().into_iter().rev() {
            if packets > limits.packets as usize || bytes > limits.bytes {
                packets -= 1;
                bytes -= self.held[at].pkt.len();
                gone.push(at);
            }
        }
        let fits = packets <= limits.packets as usize && bytes <= limits.bytes;
        if !fits || (full && !*first) {
            return false;
        }
        for at in gone {
            let dropped = self.remove(at);
            self.events.push((dropped, Some(DropReason::Tail)));
        }
        let waiting = self.unfavoured().len();
        self.ncq.take(pkt, could, *first, waiting);
        true
    }

    /// Where the packets without priority are.
    fn unfavoured(&self) -> Vec<usize> {
        let all = 0..self.held.len();
        all.filter(|at| !self.held[*at].priority).collect()
    }

    /// A packet of the flow whose turn it is; COBALT never drops the last one.
    fn cake(&mut self, now: Instant) -> Packet {
        let held = &self.held;
        let holds = |flow| held.iter().any(|h| h.pkt.flow.0 == flow);
        let flow = self.cake.turn(now, holds);
        loop {
            let pkt = self.remove(self.head(flow));
            match self.cake.judge(now, &pkt) {
                Some(why) if self.is_held(flow) => self.events.push((pkt, Some(why))),
                _ => {
                    self.cake.charge(&pkt);
                    return pkt;
                }
            }
        }
    }

    /// CoDel `which` over the packets whose flow is `of_it`, of which there are some.
    fn codel(&mut self, now: Instant, which: u32, of_it: impl Fn(u32) -> bool) -> Packet {
        loop {
            let at = self.held.iter().position(|h| of_it(h.pkt.flow.0));
            let pkt = self.remove(at.expect("CoDel never drops the last packet"));
            self.largest = self.largest.max(pkt.len().get());
            let queue = self.held.iter().filter(|h| of_it(h.pkt.flow.0));
            let behind: u64 = queue.map(|h| h.pkt.len().get()).sum();
            let params = self.config.codel;
            let stands = behind > params.mtu.map_or(self.largest, Bytes::get);
            if self.codels[which as usize].sends(now, &pkt, stands, &params) {
                return pkt;
            }
            self.events.push((pkt, Some(DropReason::Sojourn)));
        }
    }

    fn arrive(&mut self, pkt: Packet, first: bool) {
        let flow = pkt.flow.0 as usize;
        if !self.is_held(pkt.flow.0) {
            self.owner[flow] = pkt.user().0;
        }
        let mut priority = first;
        match self.config.discipline {
            Discipline::Fq => self.activate(pkt.flow.0),
            Discipline::Hier => self.activate(self.owner[flow]),
            Discipline::Pfq => {
                if !self.active.contains(&pkt.flow.0) {
                    self.activate(pkt.flow.0);
                    self.counted[flow] = 0;
                    self.deficit[flow] = 0;
                }
                self.counted[flow] += len(&pkt);
                priority = self.counted[flow] <= self.config.quantum.get() as i64;
            }
            Discipline::FqCoDel
                if !self.new.contains(&pkt.flow.0) && !self.active.contains(&pkt.flow.0) =>
            {
                self.new.push(pkt.flow.0);
                self.deficit[flow] = self.config.quantum.get() as i64;
            }
            Discipline::Choke => self.choke.arrive(),
            Discipline::Cake => self.cake.arrive(&pkt),
            _ => {}
        }
        self.held.push(Held { pkt, priority });
        self.touch(pkt.flow.0);
    }

    fn remove(&mut self, at: usize) -> Packet {
        let Held { pkt, priority } = self.held.remove(at);
        let flow = pkt.flow.0;
        let user = self.owner[flow as usize];
        self.touch(flow);
        match self.config.discipline {
            Discipline::Fq if !self.is_held(flow) => self.deactivate(flow),
            Discipline::Hier if self.bytes_of_user(user) == 0 => self.deactivate(user),
            Discipline::Pfq => {
                let waits = |h: &Held| h.pkt.flow.0 == flow && !h.priority;
                let in_turn = self.granted && self.active.first() == Some(&flow);
                if !priority && in_turn && !self.held.iter().any(waits) {
                    self.deficit[flow as usize] = 0;
                    self.granted = false;
                    self.active.rotate_left(1);
                }
            }
            _ => {}
        }
        pkt
    }

    fn touch(&mut self, flow: u32) {
        self.changes += 1;
        self.flow_since[flow as usize] = self.changes;
        self.user_since[self.owner[flow as usize] as usize] = self.changes;
    }
}

fn len(pkt: &Packet) -> i64 {
    pkt.len().get() as i64
}
