// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delay from the timestamps of TCP connections that pass (RFC 7323): no probe, and the reflectors are the peers.
//!
//! A segment that leaves our queue has a clock, which its peer sends back: from departure to arrival both directions of the link and
//! the peer are between. The peer's own clock on the answer divides the time: the way up ends, and the way down begins, when the peer
//! sent the answer, up to a constant that is the same for all segments of a connection.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use makeway_core::units::{Duration, Instant};

use super::packet::Connection;
use super::sources::Sample;

/// Departures of a connection that are remembered, and for how long.
const MOST_SENT: usize = 64;
const REMEMBERED: Duration = Duration::from_secs(5);
/// Departures that follow sooner are not: clocks faster than milliseconds have far more than are needed.
const APART: Duration = Duration::from_millis(4);
/// Connections without a place whose departures are remembered.
const MOST_WAITING: usize = 512;
/// Places of one network at most.
const MOST_OF_NETWORK: usize = 8;
/// One sample of a connection in this time: the least.
const WINDOW: Duration = Duration::from_millis(100);
/// The clock of a peer is known after this time.
const LEARNT: Duration = Duration::from_millis(1000);
/// An answer after a pause is when the peer had something to say.
const PAUSE: Duration = Duration::from_millis(100);
/// A connection without an answer for this long is forgotten.
const SILENT: Duration = Duration::from_secs(5);
/// Delays of one direction begin here, since clocks differ by any constant: a connection of a day drifts by seconds.
const BASE_NS: i64 = 3_600_000_000_000;

/// A connection.
#[derive(Clone, Debug)]
struct Peer {
    connection: Connection,
    sent: Sent,
    /// Its first clock, and when that came.
    first: (Instant, u32),
    clock: Clock,
    last: Instant,
    /// When an answer to a departure came.
    answered: Instant,
    /// Begin of the window, and its least delays in ns: up, down, both.
    since: Instant,
    least: [Option<i64>; 3],
    /// Least while the clock was not known: a queue may have been shorter then.
    before: [Option<i64>; 2],
}

/// A peer's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// Taken for one of milliseconds.
    Unknown,
    /// Nanoseconds of a tick.
    Ticks(i64),
    /// Too coarse.
    Coarse,
}

/// Departures of a connection, the oldest first.
#[derive(Clone, Debug, Default)]
struct Sent {
    all: VecDeque<Departure>,
    newest: Option<u32>,
}

/// The first segment of a clock of ours.
#[derive(Clone, Copy, Debug)]
struct Departure {
    at: Instant,
    value: u32,
    /// By a segment without data: later ones tell nothing of the way up.
    is_answered: bool,
}

/// All connections that are followed.
#[derive(Debug)]
pub struct Tcp {
    peers: Vec<Option<Peer>>,
    /// Connections without a place, and in the order in which they came.
    waiting: HashMap<Connection, Sent>,
    order: VecDeque<Connection>,
    samples: u64,
}

impl Tcp {
    /// Follows at most `places` connections at a time.
    pub fn new(places: usize) -> Self {
        Self {
            peers: vec![None; places],
            waiting: HashMap::new(),
            order: VecDeque::new(),
            samples: 0,
        }
    }

    /// Samples so far.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Connections that are followed now.
    pub fn count(&self) -> usize {
        self.peers.iter().flatten().count()
    }

    /// Forgets all, as after a step of the clock.
    pub fn clear(&mut self) {
        self.peers.fill(None);
        self.waiting.clear();
        self.order.clear();
    }

    /// A segment has left our queue; the first of a clock counts.
    pub fn departed(&mut self, at: Instant, connection: Connection, value: u32) {
        if let Some(place) = self.index_of(&connection)
            && let Some(peer) = &mut self.peers[place]
        {
            peer.sent.push(at, value);
            return;
        }
        if !self.waiting.contains_key(&connection) {
            if self.order.len() == MOST_WAITING
                && let Some(oldest) = self.order.pop_front()
            {
                self.waiting.remove(&oldest);
            }
            self.order.push_back(connection);
        }
        self.waiting.entry(connection).or_default().push(at, value);
    }

    /// A segment has come, before our queue. Only one that echoes a clock which has left counts: anybody can send others.
    pub fn arrived(
        &mut self,
        at: Instant,
        connection: Connection,
        value: u32,
        echo: u32,
        has_data: bool,
    ) {
        let place = match self.index_of(&connection) {
            Some(place) => place,
            None => {
                let Some(place) = self.new_place(at, &connection, value, echo) else {
                    return;
                };
                place
            }
        };
        let Some(peer) = &mut self.peers[place] else {
            return;
        };
        let is_late = at.saturating_since(peer.last) > PAUSE;
        peer.last = peer.last.max(at);
        let Some(departure) = peer.sent.echoed(at, echo) else {
            return;
        };
        peer.answered = peer.answered.max(at);
        let is_first = !has_data && !std::mem::replace(&mut departure.is_answered, true);
        let left = (is_first && !is_late).then_some(departure.at);
        let tick = match peer.clock {
            Clock::Unknown => 1_000_000,
            Clock::Ticks(ns) => ns,
            Clock::Coarse => 0,
        };
        let since = |at: Instant| {
            let (from, to) = (peer.first.0.as_nanos(), at.as_nanos());
            to as i64 - from as i64
        };
        // The peer's time since its first clock.
        let told = i64::from(value.wrapping_sub(peer.first.1) as i32) * tick;
        let down = (tick > 0).then(|| BASE_NS + since(at) - told);
        let up = left.filter(|_| tick > 0);
        let up = up.map(|left| BASE_NS + told - since(left));
        let both = left.map(|left| at.saturating_since(left).as_nanos() as i64);
        for (least, new) in peer.least.iter_mut().zip([up, down, both]) {
            *least = match (*least, new) {
                (Some(least), Some(new)) => Some(least.min(new)),
                (least, new) => least.or(new),
            };
        }
        peer.learn(at, value);
    }

    /// Moves on to `now`: samples of windows that have ended, and places that connections have left.
    pub fn tick(
        &mut self,
        now: Instant,
        mut each: impl FnMut(Sample),
        mut gone: impl FnMut(usize),
    ) {
        self.waiting.retain(|_, sent| {
            sent.forget(now);
            !sent.all.is_empty()
        });
        self.order.retain(|one| self.waiting.contains_key(one));
        for (place, slot) in self.peers.iter_mut().enumerate() {
            let Some(peer) = slot else { continue };
            peer.sent.forget(now);
            if now.saturating_since(peer.answered) > SILENT {
                *slot = None;
                gone(place);
                continue;
            }
            if now.saturating_since(peer.since) < WINDOW {
                continue;
            }
            peer.since = now;
            let [up, down, both] = std::mem::take(&mut peer.least);
            let told = Sample {
                path: place as u16,
                voice: Some(network(peer.connection.remote.0)),
                one_way: [up, down].map(|one| one.map(span)),
                both: both.map(span),
            };
            let told = match peer.clock {
                Clock::Unknown => {
                    for (before, new) in peer.before.iter_mut().zip([up, down]) {
                        *before = match (*before, new) {
                            (Some(before), Some(new)) => Some(before.min(new)),
                            (before, new) => before.or(new),
                        };
                    }
                    continue;
                }
                Clock::Coarse => Sample {
                    one_way: [None; 2],
                    ..told
                },
                Clock::Ticks(_) => told,
            };
            let before = std::mem::take(&mut peer.before);
            if before != [None; 2] {
                // First, for the baseline.
                each(Sample {
                    one_way: before.map(|one| one.map(span)),
                    both: None,
                    ..told
                });
            }
            if told.one_way != [None; 2] || told.both.is_some() {
                self.samples += 1;
                each(told);
            }
        }
    }

    fn index_of(&self, connection: &Connection) -> Option<usize> {
        let is_it = |peer: &Option<Peer>| {
            let peer = peer.as_ref();
            peer.is_some_and(|one| one.connection == *connection)
        };
        self.peers.iter().position(is_it)
    }

    /// A free place for a connection whose peer has answered.
    fn new_place(
        &mut self,
        at: Instant,
        connection: &Connection,
        value: u32,
        echo: u32,
    ) -> Option<usize> {
        self.waiting.get_mut(connection)?.echoed(at, echo)?;
        let own = network(connection.remote.0);
        let all = self.peers.iter().flatten();
        let neighbours = all.filter(|peer| network(peer.connection.remote.0) == own);
        if neighbours.count() >= MOST_OF_NETWORK {
            return None;
        }
        let free = self.peers.iter().position(Option::is_none)?;
        self.order.retain(|one| one != connection);
        self.peers[free] = Some(Peer {
            connection: *connection,
            sent: self.waiting.remove(connection)?,
            first: (at, value),
            clock: Clock::Unknown,
            last: at,
            answered: at,
            since: at,
            least: [None; 3],
            before: [None; 2],
        });
        Some(free)
    }
}

impl Sent {
    fn push(&mut self, at: Instant, value: u32) {
        let is_near = |last: &Departure| at.saturating_since(last.at) < APART;
        if self.newest.replace(value) == Some(value) || self.all.back().is_some_and(is_near) {
            return;
        }
        if self.all.len() == MOST_SENT {
            // Every other one of the older half: a round trip of seconds still has some.
            let mut n = 0;
            self.all.retain(|_| {
                n += 1;
                n > MOST_SENT / 2 || n % 2 == 1
            });
        }
        self.all.push_back(Departure {
            at,
            value,
            is_answered: false,
        });
    }

    /// The departure that a segment answers.
    fn echoed(&mut self, at: Instant, echo: u32) -> Option<&mut Departure> {
        let mut found = self.all.iter_mut().rev();
        found.find(|one| one.value == echo && at.saturating_since(one.at) <= REMEMBERED)
    }

    fn forget(&mut self, now: Instant) {
        while let Some(oldest) = self.all.front()
            && now.saturating_since(oldest.at) > REMEMBERED
        {
            self.all.pop_front();
        }
    }
}

/// Number of the /24, or of the /56 of IPv6, that an address belongs to: one host may have all of it.
pub(super) fn network(address: IpAddr) -> u64 {
    /// 64:ff9b::/96 (RFC 6052): all of IPv4 behind a translator.
    const TRANSLATED: u128 = 0x64_ff9b << 96;
    let v4 = |bits: u32| u64::from(bits >> 8) | 1 << 63;
    match address {
        IpAddr::V4(address) => v4(address.to_bits()),
        IpAddr::V6(address) => match address.to_bits() {
            bits if bits >> 32 == TRANSLATED >> 32 => v4(bits as u32),
            bits => (bits >> 72) as u64,
        },
    }
}

impl Peer {
    /// The clock after a second: a queue that has grown meanwhile makes it look slower, so the nearest usual one is taken.
    fn learn(&mut self, at: Instant, value: u32) {
        let passed = at.saturating_since(self.first.0);
        if self.clock != Clock::Unknown || passed < LEARNT {
            return;
        }
        let ticks = f64::from(value.wrapping_sub(self.first.1));
        let hertz = ticks / passed.as_secs_f64();
        let is_near = |usual: f64| (0.7..1.4).contains(&(hertz / usual));
        self.clock = match (is_near(1e3), is_near(1e6)) {
            (true, _) => Clock::Ticks(1_000_000),
            (_, true) => Clock::Ticks(1_000),
            _ => Clock::Coarse,
        };
        if self.clock != Clock::Ticks(1_000_000) {
            // They were computed for milliseconds.
            (self.before, self.least) = ([None; 2], [None; 3]);
        }
    }
}

fn span(ns: i64) -> Duration {
    Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
}

#[cfg(test)]
mod tests;
