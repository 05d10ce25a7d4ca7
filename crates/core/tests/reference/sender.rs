// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sender's queue once more, from the policies' documentation, with nothing but a list: every question is answered by looking at every
//! datagram. Used by the property test and by the fuzz target.

mod compare;
mod late_keyframes;
mod script;

use std::collections::VecDeque;

use makeway_core::send::{
    AnyPolicy, Config, Datagram, DatagramId, Event, FrameId, Outcome, Policy, WhenFull,
};
use makeway_core::units::{Bytes, Duration, Instant, Rate};

pub use compare::check;
pub use script::{Op, Script};

/// The reference.
pub struct Model {
    config: Config,
    policy: AnyPolicy,
    rtt: Option<Duration>,
    rate: Rate,
    /// In the order of coming.
    waiting: Vec<Held>,
    /// The latest 16 frames of each class.
    frames: Vec<VecDeque<Known>>,
    wholes: Vec<Whole>,
    next: u64,
    low: bool,
    events: Vec<Event>,
}

#[derive(Clone, Copy)]
struct Held {
    id: u64,
    datagram: Datagram,
    since: Instant,
    aside: bool,
    /// Parts of a frame have the same.
    group: u64,
    /// Number of the frame, if it came as a whole, and the key behind which it leaves.
    whole: Option<usize>,
    behind: (u64, u64),
}

/// Behind all deadlines of a class.
const LAST: u64 = u64::MAX;

/// A frame that came as a whole.
struct Whole {
    group: u64,
    class: u8,
    parents: Vec<usize>,
    /// The latest keyframe that it needs.
    root: usize,
    /// A keyframe that leaves though it is late.
    mends: bool,
    /// The largest key of its parts.
    key: (u64, u64),
    since: Instant,
    late: bool,
    lost: Option<Outcome>,
    told: bool,
}

#[derive(Clone, Copy)]
struct Known {
    number: u32,
    group: u64,
    lost: Option<Outcome>,
}

impl Model {
    pub fn new(config: Config, policy: AnyPolicy) -> Self {
        Self {
            config,
            policy,
            rtt: None,
            rate: Rate::default(),
            waiting: Vec::new(),
            frames: vec![VecDeque::new(); 256],
            wholes: Vec::new(),
            next: 0,
            low: true,
            events: Vec::new(),
        }
    }

    pub fn set_rtt(&mut self, rtt: Option<Duration>) {
        self.rtt = rtt;
    }

    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }

    pub fn enqueue(&mut self, now: Instant, datagram: Datagram) {
        let id = self.next;
        self.next += 1;
        let group = self.group(id, &datagram);
        let new = Held {
            id,
            datagram,
            since: now,
            aside: false,
            group,
            whole: None,
            behind: (0, 0),
        };
        let too_large =
            datagram.len > self.config.largest || u64::from(datagram.len) > self.config.bytes.get();
        let refused = match too_large {
            true => Some(Outcome::TooLarge),
            false => self
                .lost(&datagram)
                .or_else(|| self.make_room(now, &new, 1, datagram.len.into())),
        };
        match refused {
            None => self.waiting.push(new),
            Some(outcome) => {
                self.end(&new, outcome);
                self.give_up_group(&new, outcome);
            }
        }
        self.watch();
    }

    /// A frame as a whole, which depends on those with the numbers `parents`.
    pub fn enqueue_frame(
        &mut self,
        now: Instant,
        (class, deadline): (u8, Instant),
        lens: &[u32],
        parents: &[usize],
    ) {
        let group = self.next;
        let whole = self.wholes.len();
        let behind = self.behind(parents);
        let part = |(n, len): (u64, &u32)| Held {
            id: group + n,
            datagram: Datagram {
                class,
                len: *len,
                deadline,
                frame: None,
            },
            since: now,
            aside: false,
            group,
            whole: Some(whole),
            behind,
        };
        let mut parts: Vec<Held> = (0..).zip(lens).map(part).collect();
        self.next += parts.len() as u64;
        let key = parts.iter().map(|part| self.key(part)).max();
        let mut key = key.unwrap_or_default();
        let root = parents.iter().map(|p| self.wholes[*p].root).max();
        let root = root.unwrap_or(whole);
        let is_late = self.is_late_frame(now, key, &parts);
        let may_be_late = self.may_be_late(now, whole, root, &parts);
        if is_late && may_be_late {
            key.1 = LAST;
            parts.iter_mut().for_each(|part| part.behind = key);
        }
        let new = Held {
            behind: key,
            ..parts[0]
        };
        let is_admitted =
            may_be_late || !matches!(self.policy, AnyPolicy::Sbpn1(_)) && self.waiting.is_empty();
        let lost = self.refuse_frame(now, &new, is_late && !is_admitted, lens, parents);
        self.wholes.push(Whole {
            group,
            class,
            parents: parents.to_vec(),
            root,
            mends: is_late && may_be_late && lost.is_none() && root == whole,
            key,
            since: now,
            late: false,
            lost,
            told: false,
        });
        match lost {
            None => self.waiting.extend(parts),
            Some(outcome) => parts.iter().for_each(|part| self.end(part, outcome)),
        }
        self.finish_lost(whole);
        self.give_up_older(now, whole);
        self.watch();
    }

    fn refuse_frame(
        &mut self,
        now: Instant,
        new: &Held,
        is_too_late: bool,
        lens: &[u32],
        parents: &[usize],
    ) -> Option<Outcome> {
        let bytes: u64 = lens.iter().map(|len| u64::from(*len)).sum();
        let packets = lens.len() as u32;
        if lens.iter().any(|len| *len > self.config.largest)
            || packets > self.config.packets
            || bytes > self.config.bytes.get()
        {
            return Some(Outcome::TooLarge);
        }
        let orphan = |model: &Self| parents.iter().any(|p| model.wholes[*p].lost.is_some());
        if orphan(self) {
            return Some(Outcome::Orphaned);
        }
        if is_too_late {
            return Some(Outcome::Expired);
        }
        let room = (
            self.config.packets - self.waiting.len() as u32,
            self.config.bytes.get() - self.bytes(),
        );
        let yields = self.waiting.iter().filter(|h| self.yields(now, h, new));
        let lens = yields.map(|h| u64::from(h.datagram.len));
        let (more, more_bytes) = lens.fold((0, 0), |(n, sum), len| (n + 1, sum + len));
        if room.0 + more < packets || room.1 + more_bytes < bytes {
            return Some(Outcome::Evicted);
        }
        let refused = self.make_room(now, new, packets, bytes);
        refused.or_else(|| orphan(self).then_some(Outcome::Orphaned))
    }

    /// Whether a new frame cannot end in time behind all that leaves before `key`, under a policy that asks for it.
    fn is_late_frame(&self, now: Instant, key: (u64, u64), parts: &[Held]) -> bool {
        let drops = matches!(
            self.policy,
            AnyPolicy::Sbpn1(_) | AnyPolicy::Sbpn2(_) | AnyPolicy::Weighted(_)
        );
        let order = |held: &&Held| (held.aside, self.key(held)) <= (false, key);
        let before = self.waiting.iter().filter(order);
        // All but the first, which arrives after the one-way delay.
        let bytes = before.chain(&parts[1..]).map(|h| u64::from(h.datagram.len));
        drops && self.late(now + self.takes(bytes.sum()), &parts[0].datagram)
    }

    /// The largest key of the frames that wait of those that a frame needs.
    fn behind(&self, parents: &[usize]) -> (u64, u64) {
        let waits = |parent: &&usize| self.waiting.iter().any(|h| h.whole == Some(**parent));
        let keys = parents.iter().filter(waits).map(|p| self.wholes[*p].key);
        keys.max().unwrap_or_default()
    }

    /// Whether `held` may be dropped for `new`.
    fn yields(&self, now: Instant, held: &Held, new: &Held) -> bool {
        let is_behind = self.rank(held) > self.rank(new);
        match self.policy.when_full() {
            WhenFull::Refuse => false,
            WhenFull::EvictOldest => true,
            WhenFull::EvictWorst => is_behind,
            WhenFull::EvictLate if self.late(now, &held.datagram) => {
                held.datagram.deadline <= new.datagram.deadline
            }
            WhenFull::EvictLate => is_behind && !self.late(now, &new.datagram),
            other => panic!("no reference of {other:?}"),
        }
    }

    /// The datagram that leaves.
    pub fn transmit(&mut self, now: Instant) -> Option<u64> {
        let sent = self.send_best(now);
        self.watch();
        sent
    }

    /// The datagram that would.
    pub fn peek(&mut self, now: Instant) -> Option<u64> {
        let best = self.best(now);
        self.watch();
        best.map(|(best, _)| best.id)
    }

    pub fn set_largest(&mut self, largest: u32) {
        self.config.largest = largest;
        let longer = self.waiting.iter().filter(|h| h.datagram.len > largest);
        for whole in longer.filter_map(|h| h.whole) {
            self.wholes[whole].lost.get_or_insert(Outcome::TooLarge);
        }
        for held in self.waiting.clone() {
            if held.datagram.len > largest {
                self.give_up_group(&held, Outcome::TooLarge);
            }
        }
        self.watch();
    }

    fn best(&mut self, now: Instant) -> Option<(Held, bool)> {
        loop {
            let best = *self.waiting.iter().min_by_key(|held| self.rank(held))?;
            let late = self.late(now + self.rest(&best), &best.datagram);
            let frame = |held: &&Held| held.group == best.group;
            let alone = self.waiting.iter().filter(frame).count() == self.waiting.len();
            match self.policy {
                _ if !late => {}
                AnyPolicy::Fifo(_) | AnyPolicy::Prio(_) | AnyPolicy::WhenFull(_) => {}
                AnyPolicy::Sbpn1(_) | AnyPolicy::Sbpn2(_) | AnyPolicy::Weighted(_)
                    if self.mends(now, &best) =>
                {
                    if self.put_last(&best) {
                        continue;
                    }
                }
                AnyPolicy::Sbpn2(_) | AnyPolicy::Weighted(_) if alone => {}
                AnyPolicy::LateLast(_) if best.aside => {}
                AnyPolicy::LateLast(_) => {
                    for held in self.waiting.iter_mut().filter(|held| held.id == best.id) {
                        held.aside = true;
                    }
                    continue;
                }
                AnyPolicy::Sbpn1(_) | AnyPolicy::Sbpn2(_) | AnyPolicy::Weighted(_) => {
                    self.give_up_group(&best, Outcome::Expired);
                    continue;
                }
                other => panic!("no reference of {other}"),
            }
            return Some((best, late));
        }
    }

    fn send_best(&mut self, now: Instant) -> Option<u64> {
        let (best, late) = self.best(now)?;
        let mends = late && self.mends(now, &best);
        self.waiting.retain(|held| held.id != best.id);
        let drops = matches!(self.policy, AnyPolicy::Sbpn2(_) | AnyPolicy::Weighted(_));
        let drops = drops && !mends;
        let is_last = !self.waiting.iter().any(|h| h.group == best.group);
        // The last part of a frame that came as a whole is late, but not lost.
        if late && drops && !(best.whole.is_some() && is_last) {
            self.give_up_group(&best, Outcome::Expired);
        }
        let waited = now.saturating_since(best.since);
        self.end(&best, Outcome::Sent { waited, late });
        if let Some(whole) = best.whole {
            self.wholes[whole].late |= late;
            self.wholes[whole].since = best.since;
            self.finish_at(now, whole);
        }
        Some(best.id)
    }

    fn make_room(&mut self, now: Instant, new: &Held, packets: u32, bytes: u64) -> Option<Outcome> {
        loop {
            if let Some(outcome) = self.lost(&new.datagram) {
                return Some(outcome);
            }
            let bytes = self.bytes() + bytes;
            let packets = self.waiting.len() as u32 + packets;
            if bytes <= self.config.bytes.get() && packets <= self.config.packets {
                return None;
            }
            let all = || self.waiting.iter().chain([new]);
            let worst = all().max_by_key(|held| self.rank(held));
            let late = |held: &&Held| self.late(now, &held.datagram);
            let victim = match self.policy.when_full() {
                WhenFull::Refuse => Some(new),
                WhenFull::EvictWorst => worst,
                WhenFull::EvictOldest => {
                    let key = |held: &&Held| (held.aside, self.key(held));
                    let largest = self.waiting.iter().map(|held| key(&held)).max();
                    self.waiting.iter().find(|held| Some(key(held)) == largest)
                }
                WhenFull::EvictLate => all()
                    .filter(late)
                    .min_by_key(|held| (held.datagram.deadline, held.id))
                    .or(worst),
                other => panic!("no reference of {other:?}"),
            };
            match victim.copied() {
                Some(victim) if victim.id != new.id => {
                    self.give_up_group(&victim, Outcome::Evicted);
                }
                _ => return Some(Outcome::Evicted),
            }
        }
    }

    fn key(&self, held: &Held) -> (u64, u64) {
        let Datagram {
            class,
            len,
            deadline,
            ..
        } = held.datagram;
        let (class, deadline) = (u64::from(class), deadline.as_nanos());
        let key = match self.policy {
            AnyPolicy::Fifo(_) => (0, 0),
            AnyPolicy::Prio(_) => (class, 0),
            AnyPolicy::Weighted(w) => {
                let (per_class, per_byte) = (w.per_class.as_nanos(), w.per_byte.as_nanos());
                let score = deadline + class * per_class + u64::from(len) * per_byte;
                (0, score)
            }
            _ => (class, deadline),
        };
        key.max(held.behind)
    }

    fn rank(&self, held: &Held) -> (bool, (u64, u64), u64) {
        (held.aside, self.key(held), held.id)
    }

    fn late(&self, now: Instant, datagram: &Datagram) -> bool {
        let half = self.rtt.map_or(Duration::ZERO, |rtt| rtt / 2);
        now + self.config.one_way.unwrap_or(half) > datagram.deadline
    }

    /// Until all other waiting parts of its frame have left, for policies that drop what is late.
    fn rest(&self, held: &Held) -> Duration {
        let sends = matches!(
            self.policy,
            AnyPolicy::Fifo(_) | AnyPolicy::Prio(_) | AnyPolicy::WhenFull(_)
        );
        if sends {
            return Duration::ZERO;
        }
        let others = self.waiting.iter().filter(|h| h.id != held.id);
        let parts = others.filter(|h| h.group == held.group);
        let bytes: u64 = parts.map(|h| u64::from(h.datagram.len)).sum();
        self.takes(bytes)
    }

    /// Time to send these bytes; 0 where the controller knows no rate.
    fn takes(&self, bytes: u64) -> Duration {
        match self.rate.bps() {
            0 => Duration::ZERO,
            _ => Bytes::new(bytes) / self.rate,
        }
    }

    fn bytes(&self) -> u64 {
        self.waiting.iter().map(|h| u64::from(h.datagram.len)).sum()
    }

    /// The frame that the datagram belongs to: one that is known, or one that its class knows from now on.
    fn group(&mut self, id: u64, datagram: &Datagram) -> u64 {
        let Some(number) = datagram.frame else {
            return id;
        };
        let frames = &mut self.frames[usize::from(datagram.class)];
        if let Some(frame) = frames.iter().find(|frame| frame.number == number) {
            return frame.group;
        }
        if frames.len() == 16 {
            frames.pop_front();
        }
        frames.push_back(Known {
            number,
            group: id,
            lost: None,
        });
        id
    }

    fn frame(&mut self, datagram: &Datagram) -> Option<&mut Known> {
        let frames = &mut self.frames[usize::from(datagram.class)];
        frames.iter_mut().find(|f| Some(f.number) == datagram.frame)
    }

    /// Tells the end of a frame that came as a whole, if nothing of it waits any more.
    fn finish_at(&mut self, now: Instant, whole: usize) {
        let waits = self.waiting.iter().any(|h| h.whole == Some(whole));
        let frame = &mut self.wholes[whole];
        if !waits && !std::mem::replace(&mut frame.told, true) {
            let waited = now.saturating_since(frame.since);
            let late = frame.late;
            let sent = Outcome::Sent { waited, late };
            let event = Event::Frame(FrameId(whole as u64), frame.lost.unwrap_or(sent));
            self.events.push(event);
        }
    }

    /// As [`Model::finish_at`], where it may be lost.
    fn finish_lost(&mut self, whole: usize) {
        if self.wholes[whole].lost.is_some() {
            self.finish_at(Instant::ZERO, whole);
        }
    }

    fn lost(&mut self, datagram: &Datagram) -> Option<Outcome> {
        self.frame(datagram)?.lost
    }

    /// Waiting datagrams of the frame of `held`, which may be gone itself.
    fn give_up_group(&mut self, held: &Held, outcome: Outcome) {
        if let Some(frame) = self.frame(&held.datagram) {
            frame.lost.get_or_insert(outcome);
        }
        let (gone, left): (Vec<_>, Vec<_>) =
            self.waiting.iter().partition(|h| h.group == held.group);
        self.waiting = left;
        for held in gone {
            self.end(&held, outcome);
        }
        let Some(whole) = held.whole else {
            return;
        };
        self.wholes[whole].lost.get_or_insert(outcome);
        self.finish_lost(whole);
        for next in whole + 1..self.wholes.len() {
            let Whole {
                group,
                parents,
                lost,
                ..
            } = &self.wholes[next];
            if lost.is_some() || parents.iter().all(|p| self.wholes[*p].lost.is_none()) {
                continue;
            }
            let group = *group;
            self.wholes[next].lost = Some(Outcome::Orphaned);
            let (gone, left): (Vec<_>, Vec<_>) =
                self.waiting.iter().partition(|h| h.group == group);
            self.waiting = left;
            for held in gone {
                self.end(&held, Outcome::Orphaned);
            }
            self.finish_lost(next);
        }
    }

    fn end(&mut self, held: &Held, outcome: Outcome) {
        let event = Event::Outcome(DatagramId(held.id), held.datagram, outcome);
        self.events.push(event);
    }

    fn watch(&mut self) {
        let low = self.bytes() < self.config.low.get();
        if low && !self.low {
            self.events.push(Event::Low);
        }
        self.low = low;
    }
}
