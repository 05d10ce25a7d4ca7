// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delay from the timestamps of TCP connections that pass (RFC 7323): no probe, and the reflectors are the peers.
//!
//! A segment that leaves our queue has a clock, which its peer sends back: from departure to arrival both directions of the link and
//! the peer are between. The peer's own clock on the answer divides the time: the way up ends, and the way down begins, when the peer
//! sent the answer, up to a constant that is the same for all segments of a connection.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::net::IpAddr;

use makeway_core::units::{Duration, Instant};

use super::packet::Connection;
use super::sources::Sample;

/// Departures that are remembered, and for how long.
const MOST_SENT: usize = 4096;
const REMEMBERED: Duration = Duration::from_secs(5);
/// One sample of a connection in this time: the least.
const WINDOW: Duration = Duration::from_millis(100);
/// The clock of a peer is known after this time.
const LEARNT: Duration = Duration::from_millis(1000);
/// An answer after a pause is when the peer had something to say.
const PAUSE: Duration = Duration::from_millis(100);
/// A connection that is silent for so long gives its place up.
const SILENT: Duration = Duration::from_secs(5);
/// Delays of one direction begin here, since clocks differ by any constant: a connection of a day drifts by seconds.
const BASE_NS: i64 = 3_600_000_000_000;

/// A connection.
#[derive(Clone, Debug)]
struct Peer {
    connection: Connection,
    /// Its first clock, and when that came.
    first: (Instant, u32),
    clock: Clock,
    last: Instant,
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

/// All connections that are followed.
#[derive(Debug)]
pub struct Tcp {
    peers: Vec<Option<Peer>>,
    /// Departures: the peer, and our clock.
    sent: HashMap<(IpAddr, u16, u32), Instant>,
    order: VecDeque<(Instant, (IpAddr, u16, u32))>,
    samples: u64,
}

impl Tcp {
    /// Follows at most `places` connections at a time.
    pub fn new(places: usize) -> Self {
        Self {
            peers: vec![None; places],
            sent: HashMap::new(),
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
        self.sent.clear();
        self.order.clear();
    }

    /// A segment has left our queue; the first of a clock counts.
    pub fn departed(&mut self, at: Instant, connection: Connection, value: u32) {
        let (address, port) = connection.remote;
        let key = (address, port, value);
        if self.order.len() == MOST_SENT {
            self.forget_oldest();
        }
        if let std::collections::hash_map::Entry::Vacant(place) = self.sent.entry(key) {
            place.insert(at);
            self.order.push_back((at, key));
        }
    }

    /// A segment has come, before our queue; one that answers has an `echo`.
    pub fn arrived(&mut self, at: Instant, connection: Connection, value: u32, echo: Option<u32>) {
        let (address, port) = connection.remote;
        let left = echo.and_then(|echo| self.sent.remove(&(address, port, echo)));
        let Some(peer) = self.peer(at, connection, value) else {
            return;
        };
        let is_late = at.saturating_since(peer.last) > PAUSE;
        peer.last = peer.last.max(at);
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
        let left = left.filter(|_| !is_late);
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
        while let Some((at, _)) = self.order.front()
            && now.saturating_since(*at) > REMEMBERED
        {
            self.forget_oldest();
        }
        for (place, slot) in self.peers.iter_mut().enumerate() {
            let Some(peer) = slot else { continue };
            if now.saturating_since(peer.last) > SILENT {
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

    /// The place of a connection; one that is new takes a free one.
    fn peer(&mut self, at: Instant, connection: Connection, value: u32) -> Option<&mut Peer> {
        let is_it = |peer: &Option<Peer>| {
            peer.as_ref()
                .is_some_and(|one| one.connection == connection)
        };
        let place = self.peers.iter().position(is_it);
        let place = match place {
            Some(place) => place,
            None => {
                let free = self.peers.iter().position(Option::is_none)?;
                self.peers[free] = Some(Peer {
                    connection,
                    first: (at, value),
                    clock: Clock::Unknown,
                    last: at,
                    since: at,
                    least: [None; 3],
                    before: [None; 2],
                });
                free
            }
        };
        self.peers[place].as_mut()
    }

    fn forget_oldest(&mut self) {
        if let Some((at, key)) = self.order.pop_front()
            && self.sent.get(&key) == Some(&at)
        {
            self.sent.remove(&key);
        }
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
mod tests {
    use super::*;

    fn at_us(us: u64) -> Instant {
        Instant::from_nanos(1_000_000_000_000 + us * 1000)
    }

    fn connection(port: u16) -> Connection {
        Connection {
            remote: ("192.0.2.9".parse().unwrap(), 443),
            local: port,
        }
    }

    /// A link whose ways take these µs, and a peer that answers at once with a clock of `hertz`.
    fn run(tcp: &mut Tcp, hertz: u64, seconds: u64, ways: impl Fn(u64) -> [u64; 2]) -> Vec<Sample> {
        let mut told = Vec::new();
        let steps = seconds * 1_000_000 / 16_000;
        let mut under_way = VecDeque::new();
        for n in 0..steps {
            let us = n * 16_000;
            let [up, down] = ways(us);
            tcp.departed(at_us(us), connection(1), us as u32 / 1000);
            let there = us + up;
            let clock = (there * hertz / 1_000_000) as u32;
            // A clock near its end.
            under_way.push_back((
                there + down,
                clock.wrapping_add(u32::MAX - 500),
                us as u32 / 1000,
            ));
            while under_way.front().is_some_and(|one| one.0 <= us) {
                let (back, clock, echo) = under_way.pop_front().unwrap();
                tcp.arrived(at_us(back), connection(1), clock, Some(echo));
            }
            tcp.tick(at_us(us), |one| told.push(one), |_| {});
        }
        told
    }

    fn rise(told: &[Sample], n: usize) -> f64 {
        let all: Vec<f64> = told
            .iter()
            .filter_map(|one| one.one_way[n])
            .map(Duration::as_millis_f64)
            .collect();
        all[all.len() - 1] - all[0]
    }

    #[test]
    fn each_direction_shows_its_own_delay() {
        let mut tcp = Tcp::new(4);
        // From the third second on the way up is longer by 40 ms.
        let told = run(&mut tcp, 1000, 5, |us| {
            [10_000 + 40_000 * u64::from(us > 3_000_000), 12_000]
        });
        assert!((39.0..=41.0).contains(&rise(&told, 0)), "{told:?}");
        assert!(rise(&told, 1).abs() <= 1.0, "{told:?}");
        let both = |n: usize| told[n].both.unwrap().as_millis_f64();
        // The first is of the time before the clock was known.
        assert!((both(1) - 22.0).abs() < 0.1 && (both(told.len() - 1) - 62.0).abs() < 0.1);
        // A sample in each window, once the clock is known.
        assert!((30..=41).contains(&told.len()), "{}", told.len());
        let mut tcp = Tcp::new(4);
        let told = run(&mut tcp, 1_000_000, 5, |us| {
            [10_000, 12_000 + 40_000 * u64::from(us > 3_000_000)]
        });
        assert!(rise(&told, 0).abs() < 0.1, "{told:?}");
        assert!((39.9..40.1).contains(&rise(&told, 1)), "{told:?}");
    }

    #[test]
    fn a_queue_that_fills_while_the_clock_is_learnt_is_none_of_the_baseline() {
        let mut tcp = Tcp::new(4);
        let told = run(&mut tcp, 1000, 4, |us| {
            [10_000, 12_000 + us.min(1_500_000) / 10]
        });
        // 100 ms of the first second are told as a sample of their own, before the others.
        let all: Vec<f64> = told
            .iter()
            .filter_map(|one| one.one_way[1])
            .map(Duration::as_millis_f64)
            .collect();
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        assert_eq!(all[0], least, "{all:?}");
        assert!(rise(&told, 1) > 140.0, "{all:?}");
    }

    #[test]
    fn a_coarse_clock_tells_of_both_directions_together() {
        let mut tcp = Tcp::new(4);
        let told = run(&mut tcp, 100, 3, |_| [10_000, 12_000]);
        assert!(told.len() > 10);
        for one in told {
            assert_eq!(one.one_way, [None; 2]);
            let both = one.both.unwrap().as_millis_f64();
            assert!((21.9..22.1).contains(&both), "{both}");
        }
    }

    #[test]
    fn an_answer_after_a_pause_tells_nothing_of_the_way_up_and_a_silent_one_gives_its_place_up() {
        let mut tcp = Tcp::new(1);
        run(&mut tcp, 1000, 3, |_| [10_000, 12_000]);
        tcp.tick(at_us(3_200_000), |_| {}, |_| {});
        let mut told = Vec::new();
        let us = 4_000_000;
        tcp.departed(at_us(us), connection(1), 4000);
        // The peer thinks for two seconds.
        let clock = 6_010u32.wrapping_add(u32::MAX - 500);
        tcp.arrived(at_us(us + 2_022_000), connection(1), clock, Some(4000));
        tcp.tick(at_us(us + 2_200_000), |one| told.push(one), |_| {});
        let [one] = &told[..] else { panic!("{told:?}") };
        assert!(one.one_way[0].is_none() && one.one_way[1].is_some());
        // No room for another, until the first is silent.
        tcp.arrived(at_us(us + 2_300_000), connection(2), 1, Some(1));
        assert!(tcp.peers[0].as_ref().unwrap().connection == connection(1));
        let mut left = Vec::new();
        tcp.tick(at_us(us + 8_000_000), |_| {}, |place| left.push(place));
        assert_eq!((left, tcp.count()), (vec![0], 0));
        assert!(tcp.sent.is_empty() && tcp.order.is_empty());
    }
}
