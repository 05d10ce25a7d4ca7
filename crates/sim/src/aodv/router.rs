// SPDX-License-Identifier: MIT OR Apache-2.0
//! One station: what it knows, asks and answers.

use std::collections::VecDeque;

use makeway_core::packet::Handle;
use makeway_core::random::Rng;
use makeway_core::units::{Duration, Instant};

use super::message::{Errors, Message, Reply, Request};
use super::route::{Route, later};
use super::{
    ACTIVE_ROUTE_TIMEOUT, HELD, JITTER, MY_ROUTE_TIMEOUT, NET_DIAMETER, NET_TRAVERSAL_TIME,
    NODE_TRAVERSAL_TIME, OUTBOX, RERR_RATELIMIT, RREQ_RATELIMIT, RREQ_RETRIES, TIMEOUT_BUFFER,
    TTL_INCREMENT, TTL_START, TTL_THRESHOLD,
};

/// Counters of a router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// RREQ of its own.
    pub requests: u64,
    /// RREQ of others sent on.
    pub relayed: u64,
    /// RREP sent, its own and those of others.
    pub replies: u64,
    /// RERR sent.
    pub errors: u64,
    /// Messages that were not sent, since too many waited or a limit was reached.
    pub suppressed: u64,
    /// Packets dropped because no route was found, or because too many waited for one.
    pub packets_lost: u64,
}

/// A search for a way (6.3, 6.4).
#[derive(Clone, Copy, Debug)]
struct Search {
    to: u16,
    ttl: u8,
    /// Failures with the largest TTL.
    tries: u32,
    /// Whether this ring was asked; if not, the limit did not allow it.
    asked: bool,
    at: Instant,
}

/// The RREQ of one originator that have come: the latest number, and a bit for each of the 64 before: more
/// than one may send in PATH_DISCOVERY_TIME.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    latest: u32,
    before: u64,
}

impl Seen {
    /// Whether `id` is new.
    fn insert(&mut self, id: u32) -> bool {
        if later(id, self.latest) {
            let shift = id.wrapping_sub(self.latest);
            let before = self.before.checked_shl(shift).unwrap_or(0);
            self.before = before | 1u64.checked_shl(shift - 1).unwrap_or(0);
            self.latest = id;
            return true;
        }
        match self.latest.wrapping_sub(id) {
            age @ 1..=64 => {
                let bit = 1 << (age - 1);
                let new = self.before & bit == 0;
                self.before |= bit;
                new
            }
            _ => false,
        }
    }
}

/// Limit in any second.
#[derive(Clone, Copy, Debug)]
struct Limit<const N: usize> {
    /// When the next one may be, for each of the latest.
    free: [Instant; N],
    next: usize,
}

impl<const N: usize> Limit<N> {
    const NEW: Self = Self {
        free: [Instant::ZERO; N],
        next: 0,
    };

    /// Takes one, or says when there is one.
    fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let free = &mut self.free[self.next];
        if now < *free {
            return Err(*free);
        }
        *free = now + Duration::from_secs(1);
        self.next = (self.next + 1) % N;
        Ok(())
    }
}

/// A message that waits until it may be sent, to one neighbour or to all.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    at: Instant,
    to: Option<u16>,
    message: Message,
}

/// A station's part in AODV.
#[derive(Clone, Debug)]
pub struct Router {
    id: u16,
    rng: Rng,
    seq: u32,
    request: u32,
    /// By destination.
    routes: Vec<Route>,
    /// By originator.
    seen: Vec<Seen>,
    searches: Vec<Search>,
    /// Packets that wait for a way, and to where.
    held: VecDeque<(u16, Handle)>,
    /// Dropped packets.
    lost: Vec<Handle>,
    outbox: VecDeque<Waiting>,
    /// Destinations just lost; kept to save an allocation.
    broken: Vec<(u16, u32)>,
    requests: Limit<RREQ_RATELIMIT>,
    errors: Limit<RERR_RATELIMIT>,
    counts: Counts,
}

impl Router {
    /// Station `id` of this number of stations. `rng` is for jitter only.
    ///
    /// # Panics
    /// For more than 128 stations.
    pub fn new(id: u16, stations: usize, rng: Rng) -> Self {
        assert!(stations <= 128, "a bit for each neighbour");
        Self {
            id,
            rng,
            seq: 0,
            request: 0,
            routes: vec![Route::default(); stations],
            seen: vec![Seen::default(); stations],
            searches: Vec::with_capacity(stations),
            held: VecDeque::with_capacity(HELD),
            lost: Vec::with_capacity(HELD),
            outbox: VecDeque::with_capacity(OUTBOX),
            broken: Vec::with_capacity(stations),
            requests: Limit::NEW,
            errors: Limit::NEW,
            counts: Counts::default(),
        }
    }

    /// Its counters so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The neighbour to whom a packet for `to` goes, which keeps the way active (6.2).
    pub fn route(&mut self, now: Instant, to: u16) -> Option<u16> {
        let next = self.active(now, to)?;
        self.extend(now, to);
        self.extend(now, next);
        Some(next)
    }

    /// A packet of `source` came from the neighbour `previous`: the way back is in use too (6.2).
    pub fn carried(&mut self, now: Instant, source: u16, previous: u16) {
        self.extend(now, source);
        self.extend(now, previous);
    }

    /// Keeps a packet until there is a way, which is sought (6.3). The one held longest makes room.
    pub fn hold(&mut self, now: Instant, to: u16, packet: Handle) {
        if self.held.len() == HELD
            && let Some((_, oldest)) = self.held.pop_front()
        {
            self.give_up(oldest);
        }
        self.held.push_back((to, packet));
        if self.searches.iter().all(|search| search.to != to) {
            let known = self.routes[usize::from(to)];
            self.searches.push(Search {
                to,
                ttl: match known.hops {
                    0 => TTL_START,
                    hops => ring(hops.saturating_add(TTL_INCREMENT)),
                },
                tries: 0,
                asked: false,
                at: now,
            });
            self.ask(now, self.searches.len() - 1);
        }
    }

    /// A packet that was held, and the neighbour that it goes to.
    pub fn release(&mut self, now: Instant) -> Option<(Handle, u16)> {
        let place = (0..self.held.len()).find(|n| self.active(now, self.held[*n].0).is_some())?;
        let (to, packet) = self.held.remove(place)?;
        Some((packet, self.route(now, to)?))
    }

    /// A dropped packet.
    pub fn lost(&mut self) -> Option<Handle> {
        self.lost.pop()
    }

    /// Drops everything, for good.
    pub fn switch_off(&mut self) {
        self.searches.clear();
        self.outbox.clear();
        while let Some((_, packet)) = self.held.pop_front() {
            self.give_up(packet);
        }
    }

    /// A packet of another came that has no way on (6.11, case ii).
    pub fn no_route(&mut self, now: Instant, to: u16) {
        let seq = self.routes[usize::from(to)].seq.unwrap_or_default();
        self.broken.clear();
        self.broken.push((to, seq));
        self.report(now, u128::MAX);
    }

    /// `neighbour` does not answer (6.11, case i).
    pub fn broken(&mut self, now: Instant, neighbour: u16) {
        self.fail(now, |route, _| route.next == neighbour, |_| None);
    }

    /// The next message that is due, to one neighbour or to all.
    pub fn poll(&mut self, now: Instant) -> Option<(Option<u16>, Message)> {
        let due = |n: &usize| self.outbox[*n].at <= now;
        let first = (0..self.outbox.len()).filter(due);
        let first = first.min_by_key(|n| self.outbox[*n].at)?;
        let Waiting { to, message, .. } = self.outbox.remove(first)?;
        match message {
            Message::Request(request) if request.from == self.id => self.counts.requests += 1,
            Message::Request(_) => self.counts.relayed += 1,
            Message::Reply(_) => self.counts.replies += 1,
            Message::Error(_) => self.counts.errors += 1,
        }
        Some((to, message))
    }

    /// When [`Self::advance`] has something to do, or a message is due after `now`.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let searches = self.searches.iter().map(|search| search.at);
        let outbox = self.outbox.iter().map(|waiting| waiting.at);
        searches.chain(outbox.filter(|at| *at > now)).min()
    }

    /// Searches that had no answer in time go on, wider, or end (6.3, 6.4).
    pub fn advance(&mut self, now: Instant) {
        let mut n = 0;
        while n < self.searches.len() {
            let search = self.searches[n];
            if now < search.at {
                n += 1;
                continue;
            }
            if self.active(now, search.to).is_some() {
                self.searches.swap_remove(n);
                continue;
            }
            let next = &mut self.searches[n];
            match (search.asked, search.ttl) {
                (false, _) => {}
                (true, ttl) if ttl < NET_DIAMETER => next.ttl = ring(ttl + TTL_INCREMENT),
                (true, _) => next.tries += 1,
            }
            if next.tries > RREQ_RETRIES {
                self.searches.swap_remove(n);
                self.unreachable(search.to);
                continue;
            }
            self.ask(now, n);
            n += 1;
        }
    }

    /// A message has come from a neighbour.
    pub fn receive(&mut self, now: Instant, neighbour: u16, message: &Message) {
        let until = now + ACTIVE_ROUTE_TIMEOUT;
        self.routes[usize::from(neighbour)].hear(now, neighbour, until);
        match message {
            Message::Request(request) => self.requested(now, neighbour, request),
            Message::Reply(reply) => self.replied(now, neighbour, reply),
            Message::Error(errors) => {
                let told = |to: u16| errors.list().iter().find(|(known, _)| *known == to);
                let hit = |route: &Route, to| route.next == neighbour && told(to).is_some();
                self.fail(now, hit, |to| told(to).map(|(_, seq)| *seq));
            }
        }
    }

    /// 6.5.
    fn requested(&mut self, now: Instant, neighbour: u16, request: &Request) {
        let from = usize::from(request.from);
        if request.from == self.id || !self.seen[from].insert(request.id) {
            return;
        }
        let hops = request.hops.saturating_add(1);
        let back = NODE_TRAVERSAL_TIME * (2 * u64::from(hops));
        let until = now + NET_TRAVERSAL_TIME * 2 - back;
        self.routes[from].learn(now, request.from_seq, hops, neighbour, until);
        self.routes[from].extend(now, until);
        // 6.6
        if request.to == self.id {
            if let Some(asked) = request.to_seq.filter(|asked| later(*asked, self.seq)) {
                self.seq = asked;
            }
            return self.reply(now, request, 0, self.seq, MY_ROUTE_TIMEOUT);
        }
        let to = usize::from(request.to);
        self.routes[to].expire(now);
        let known = self.routes[to];
        let fresh = |seq: &u32| request.to_seq.is_none_or(|asked| !later(asked, *seq));
        if let Some(seq) = known.seq.filter(fresh)
            && known.valid
            && known.told
            && known.next != neighbour
        {
            let back = self.routes[from].next;
            self.routes[to].precursors |= bit(neighbour);
            self.routes[from].precursors |= bit(known.next);
            self.routes[usize::from(known.next)].precursors |= bit(back);
            let left = known.until.saturating_since(now);
            return self.reply(now, request, known.hops, seq, left);
        }
        if request.ttl > 1 {
            let to_seq = match (request.to_seq, known.seq) {
                (Some(asked), Some(seq)) if later(seq, asked) => Some(seq),
                (asked, seq) => asked.or(seq),
            };
            let request = Request {
                ttl: request.ttl - 1,
                hops,
                to_seq,
                ..*request
            };
            self.send(now, None, Message::Request(request));
        }
    }

    fn reply(&mut self, now: Instant, to: &Request, hops: u8, seq: u32, lifetime: Duration) {
        let reply = Reply {
            hops,
            to: to.to,
            to_seq: seq,
            from: to.from,
            lifetime,
        };
        if let Some(back) = self.active(now, to.from) {
            self.send(now, Some(back), Message::Reply(reply));
        }
    }

    /// 6.7.
    fn replied(&mut self, now: Instant, neighbour: u16, reply: &Reply) {
        if reply.to == self.id {
            return;
        }
        let to = usize::from(reply.to);
        let (hops, until) = (reply.hops.saturating_add(1), now + reply.lifetime);
        let taken = self.routes[to].learn(now, reply.to_seq, hops, neighbour, until);
        if reply.from == self.id || !taken {
            return;
        }
        if let Some(back) = self.route(now, reply.from) {
            self.routes[to].precursors |= bit(back);
            self.routes[usize::from(neighbour)].precursors |= bit(back);
            self.send(now, Some(back), Message::Reply(Reply { hops, ..*reply }));
        }
    }

    /// Active routes that are `hit` are lost, and their precursors are told. `seq` gives the sequence
    /// number that is told of a destination; nothing is told: it is one more.
    fn fail(
        &mut self,
        now: Instant,
        hit: impl Fn(&Route, u16) -> bool,
        seq: impl Fn(u16) -> Option<u32>,
    ) {
        self.broken.clear();
        let mut precursors = 0;
        for (to, route) in (0..).zip(&mut self.routes) {
            route.expire(now);
            if !route.valid || !hit(route, to) {
                continue;
            }
            route.fail();
            if let Some(told) = seq(to)
                && route.seq.is_none_or(|seq| later(told, seq))
            {
                route.seq = Some(told);
            }
            let told = std::mem::take(&mut route.precursors);
            if told != 0 {
                self.broken.push((to, route.seq.unwrap_or_default()));
                precursors |= told;
            }
        }
        self.report(now, precursors);
    }

    /// Sends RERR of what is `broken` to `precursors` (6.11).
    fn report(&mut self, now: Instant, precursors: u128) {
        let one = precursors.count_ones() == 1;
        let to = one.then_some(precursors.trailing_zeros() as u16);
        for n in (0..self.broken.len()).step_by(Errors::MOST) {
            let errors = Errors::of(&self.broken[n..]);
            match self.errors.take(now) {
                Ok(()) => self.send(now, to, Message::Error(errors)),
                Err(_) => self.counts.suppressed += 1,
            }
        }
    }

    /// Sends the RREQ of a search, if it may.
    fn ask(&mut self, now: Instant, search: usize) {
        let search = &mut self.searches[search];
        search.asked = match self.requests.take(now) {
            Ok(()) => true,
            Err(at) => {
                search.at = at;
                false
            }
        };
        if !search.asked {
            return;
        }
        search.at = now
            + match search.ttl {
                NET_DIAMETER.. => NET_TRAVERSAL_TIME * (1 << search.tries),
                ttl => NODE_TRAVERSAL_TIME * (2 * u64::from(ttl + TIMEOUT_BUFFER)),
            };
        self.seq = self.seq.wrapping_add(1);
        self.request = self.request.wrapping_add(1);
        let request = Request {
            ttl: search.ttl,
            hops: 0,
            id: self.request,
            to: search.to,
            to_seq: self.routes[usize::from(search.to)].seq,
            from: self.id,
            from_seq: self.seq,
        };
        self.send(now, None, Message::Request(request));
    }

    /// Nobody has a way.
    fn unreachable(&mut self, to: u16) {
        for _ in 0..self.held.len() {
            match self.held.pop_front() {
                Some((other, packet)) if other == to => self.give_up(packet),
                Some(other) => self.held.push_back(other),
                None => {}
            }
        }
    }

    fn give_up(&mut self, packet: Handle) {
        self.counts.packets_lost += 1;
        self.lost.push(packet);
    }

    /// To one neighbour, or after a random time to all.
    fn send(&mut self, now: Instant, to: Option<u16>, message: Message) {
        if self.outbox.len() == OUTBOX {
            self.counts.suppressed += 1;
            return;
        }
        let wait = match to {
            Some(_) => 0,
            None => self.rng.below(JITTER.as_nanos() as u32),
        };
        let at = now + Duration::from_nanos(u64::from(wait));
        self.outbox.push_back(Waiting { at, to, message });
    }

    fn active(&self, now: Instant, to: u16) -> Option<u16> {
        let route = &self.routes[usize::from(to)];
        route.is_active(now).then_some(route.next)
    }

    fn extend(&mut self, now: Instant, to: u16) {
        self.routes[usize::from(to)].extend(now, now + ACTIVE_ROUTE_TIMEOUT);
    }
}

/// The TTL of the next ring (6.4).
fn ring(ttl: u8) -> u8 {
    match ttl {
        ..=TTL_THRESHOLD => ttl,
        _ => NET_DIAMETER,
    }
}

fn bit(station: u16) -> u128 {
    1 << station
}
