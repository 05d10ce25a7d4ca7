// SPDX-License-Identifier: MIT OR Apache-2.0
//! Autorate on a real link: the controller of `core/autorate` with its sources, and the rates that it sets.
//!
//! Delay comes from the link itself: a packet socket ([`tap`]) sees each packet as it leaves our queue and as it arrives before it, so
//! that our own queue is no part of a delay, with every backend. Samples are of TCP connections that pass ([`tcp`]), of calls that pass
//! ([`calls`]) and of probes to reflectors ([`reflectors`]). Without samples the rates stay.

// Three are public for the fuzz target `calls`.
#[doc(hidden)]
#[allow(missing_docs)]
pub mod calls;
#[doc(hidden)]
#[allow(missing_docs)]
pub mod packet;
mod reflectors;
#[doc(hidden)]
#[allow(missing_docs)]
pub mod rtp;
mod sources;
pub mod status;
mod tap;
mod tcp;
mod time;

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use makeway_core::autorate::{self as control, Autorate, Bounds, State, TICK};
use makeway_core::units::{Bytes, Duration, Instant, Rate};

use crate::datapath::Traffic;
use crate::interface::Interface;
use crate::protocol::Settings;
use crate::rules::Direction;
use calls::Calls;
use status::{Autorated, RateEvent, ReflectorStatus, Steered};
use tcp::Tcp;
use time::{cpu_seconds, now};

use sources::{News, Sources};

/// A rate that differs by less than one part in this is not set anew.
const STEP: u64 = 200;
/// A change by less than one part in this since the last event is none.
const TOLD: u64 = 5;
/// Growth is told this seldom.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// Events that are remembered.
const MOST_EVENTS: usize = 40;
/// Sources without a sample for so long are an event, and so is the next sample.
const SILENT: Duration = Duration::from_secs(10);
/// A link is busy for so long after it carried this share of a rate, or queued.
const BUSY: Duration = Duration::from_secs(5);
const BUSY_SHARE: u64 = 10;
/// Rate in an event without a change of a rate.
const NO_RATE: Rate = Rate::from_bps(0);

/// Bounds and sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Bounds of the egress rate; the first rate is that of the direction.
    pub upload: Option<(Rate, Rate)>,
    /// Bounds of the ingress rate.
    pub download: Option<(Rate, Rate)>,
    /// Hosts that are probed: at most six at a time, of which silent ones are replaced by the next.
    pub reflectors: Vec<IpAddr>,
    /// Whether TCP timestamps are read.
    pub tcp: bool,
    /// Whether the reports of calls are read.
    pub calls: bool,
}

/// A direction as the controller has it.
#[derive(Debug)]
struct Side {
    direction: Direction,
    bounds: Bounds,
    /// As it was set last, and as it was told last.
    rate: Rate,
    told: (Rate, Instant),
    bytes: Option<u64>,
    state: State,
    cuts: u64,
    /// Rate before the cut that goes on.
    before: Rate,
}

/// The controller with its sources.
#[derive(Debug)]
pub struct Steering {
    autorate: Autorate,
    sides: Vec<Side>,
    sources: Sources,
    started: Instant,
    next: Instant,
    busy: Option<Instant>,
    samples: u64,
    last_sample: Option<Instant>,
    is_silent: bool,
    refused: Option<String>,
    events: VecDeque<RateEvent>,
    number: u64,
    cpu_seconds: f64,
}

impl Steering {
    /// Begins with the rates of `traffic`, on `interface` of the calling thread's network namespace.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or if nothing is to tell of delay.
    pub fn start(config: &Config, interface: &Interface, traffic: &[Traffic]) -> io::Result<Self> {
        let sources = Sources::new(interface, config)?;
        let now = now();
        let bounds = |direction| {
            let mut all = traffic.iter();
            let own = all.find(|one| one.direction == direction);
            let asked = match direction {
                Direction::Egress => config.upload,
                Direction::Ingress => config.download,
            };
            // One that is not shaped has no rate to set.
            let most = Rate::from_bps(1 << 40);
            let first = own.map_or(most, |one| one.rate);
            let (least, most) = asked.unwrap_or((first, first));
            Bounds { first, least, most }
        };
        let both = Direction::BOTH.map(bounds);
        let side = |one: &Traffic| Side {
            direction: one.direction,
            bounds: both[one.direction as usize],
            rate: one.rate,
            told: (one.rate, now),
            bytes: None,
            state: State::Hold,
            cuts: 0,
            before: one.rate,
        };
        Ok(Self {
            autorate: Autorate::new(now, both[0], both[1]),
            sides: traffic.iter().map(side).collect(),
            sources,
            started: now,
            next: now,
            busy: None,
            samples: 0,
            last_sample: None,
            is_silent: false,
            refused: None,
            events: VecDeque::new(),
            number: 0,
            cpu_seconds: 0.0,
        })
    }

    /// Time until the next tick.
    pub fn left(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.next.saturating_since(now()).as_nanos())
    }

    /// Reads the sources; the rates that are to change. `traffic` tells of now.
    pub fn tick(&mut self, traffic: &[Traffic]) -> Option<Settings> {
        let spent = cpu_seconds();
        let now = now();
        // One that was late has no more ticks to make up for.
        self.next = (self.next + TICK).max(now + TICK / 2);
        for one in traffic {
            self.count(now, one);
        }
        self.listen(now);
        let rates = self.autorate.tick(now);
        let mut settings = Settings::default();
        for n in 0..self.sides.len() {
            let rate = match self.sides[n].direction {
                Direction::Egress => rates.up,
                Direction::Ingress => rates.down,
            };
            if self.steer(now, n, rate) {
                match self.sides[n].direction {
                    Direction::Egress => settings.rate_bps = Some(rate.bps()),
                    Direction::Ingress => settings.down_bps = Some(rate.bps()),
                }
            }
        }
        self.watch_sources(now);
        self.cpu_seconds += cpu_seconds() - spent;
        (settings != Settings::default()).then_some(settings)
    }

    /// Somebody else has set rates: the search goes on from there.
    pub fn set(&mut self, settings: &Settings) {
        let now = now();
        for n in 0..self.sides.len() {
            let direction = self.sides[n].direction;
            let asked = match direction {
                Direction::Egress => settings.rate_bps,
                Direction::Ingress => settings.down_bps,
            };
            let Some(rate) = asked.map(Rate::from_bps) else {
                continue;
            };
            self.autorate.set_rate(way(direction), rate);
            let from = self.sides[n].rate;
            self.sides[n].rate = rate;
            self.tell(
                now,
                n,
                from,
                rate,
                "set by hand; the search goes on from here".into(),
            );
        }
    }

    /// For `makeway status`.
    pub fn status(&self) -> Autorated {
        let now = now();
        let directions = self.sides.iter().map(|side| Steered {
            direction: side.direction,
            rate_bps: side.rate.bps(),
            least_bps: side.bounds.least.bps(),
            most_bps: side.bounds.most.bps(),
            state: side.state.name().into(),
            standing_ms: self
                .autorate
                .standing(now, way(side.direction))
                .map(Duration::as_millis_f64),
            cuts: side.cuts,
        });
        let reflectors = self
            .sources
            .reflectors
            .all
            .iter()
            .map(|one| ReflectorStatus {
                address: one.address.to_string(),
                kind: one.kind.name().into(),
                answers: one.answers,
                lost: one.lost,
                is_silent: one.is_silent,
            });
        Autorated {
            directions: directions.collect(),
            reflectors: reflectors.collect(),
            connections: self
                .sources
                .tcp
                .as_ref()
                .map_or(0, |tcp| tcp.count() as u64),
            calls: self
                .sources
                .calls
                .as_ref()
                .map_or(0, |calls| calls.count() as u64),
            samples: self.samples,
            tcp_samples: self.sources.tcp.as_ref().map_or(0, Tcp::samples),
            call_samples: self.sources.calls.as_ref().map_or(0, Calls::samples),
            last_sample_s: self
                .last_sample
                .map(|at| now.saturating_since(at).as_secs_f64()),
            cpu_seconds: self.cpu_seconds,
            seconds: now.saturating_since(self.started).as_secs_f64(),
            events: self.events.iter().cloned().collect(),
        }
    }

    /// Events whose numbers are above `seen`.
    pub fn events_after(&self, seen: u64) -> impl Iterator<Item = &RateEvent> {
        self.events.iter().filter(move |event| event.number > seen)
    }

    fn count(&mut self, now: Instant, one: &Traffic) {
        let mut sides = self.sides.iter_mut();
        let Some(side) = sides.find(|side| side.direction == one.direction) else {
            return;
        };
        let way = way(one.direction);
        let total = match one.direction {
            Direction::Egress => one.bytes_out,
            Direction::Ingress => one.bytes_in,
        };
        let new = total.saturating_sub(side.bytes.unwrap_or(total));
        side.bytes = Some(total);
        self.autorate.on_bytes(way, Bytes::new(new));
        self.autorate.on_backlog(now, way, Bytes::new(one.backlog));
        let in_a_tick = (side.rate * TICK).get();
        if one.backlog > 0 || new * BUSY_SHARE > in_a_tick {
            self.busy = Some(now);
        }
    }

    /// Delays since the last tick.
    fn listen(&mut self, now: Instant) {
        let is_busy = self.busy.is_some_and(|at| now.saturating_since(at) <= BUSY);
        let Self {
            sources, autorate, ..
        } = self;
        let (mut count, mut refused) = (0, None);
        sources.look(is_busy, |news| match news {
            News::Sample(sample) => {
                count += 1;
                if let Some(voice) = sample.voice {
                    autorate.set_voice(sample.path, voice);
                }
                let mut any = false;
                for (direction, delay) in control::Direction::BOTH.into_iter().zip(sample.one_way) {
                    if let Some(delay) = delay {
                        any = true;
                        autorate.on_delay(now, sample.path, control::Way::One(direction), delay);
                    }
                }
                if let (false, Some(delay)) = (any, sample.both) {
                    autorate.on_delay(now, sample.path, control::Way::Both, delay);
                }
            }
            News::Anew(path) => autorate.on_route_change(path),
            News::Refused(why) => refused = Some(why),
        });
        self.samples += count;
        if count > 0 {
            self.last_sample = Some(now);
        }
        if refused.is_some() && self.refused != refused {
            self.refused.clone_from(&refused);
            self.note(None, NO_RATE, NO_RATE, refused.unwrap_or_default());
        }
    }

    /// Takes the controller's rate of a direction; whether it is to be set.
    fn steer(&mut self, now: Instant, n: usize, rate: Rate) -> bool {
        let way = way(self.sides[n].direction);
        let state = self.autorate.state(way);
        let side = &mut self.sides[n];
        let was = std::mem::replace(&mut side.state, state);
        let begins = state == State::Drain && was != State::Drain;
        if begins {
            side.cuts += 1;
            side.before = side.rate;
        }
        let ends = was == State::Drain && state != State::Drain;
        let apart = rate.max(side.rate).bps() - rate.min(side.rate).bps();
        let is_new = apart > 0 && (begins || ends || apart.saturating_mul(STEP) >= side.rate.bps());
        if is_new {
            side.rate = rate;
        }
        let (told, at) = side.told;
        let since_told = rate.max(told).bps() - rate.min(told).bps();
        let is_much = since_told.saturating_mul(TOLD) >= told.bps();
        let (before, standing) = (side.before, self.autorate.standing(now, way));
        if begins && rate < told && is_much {
            let ms = standing.map_or(0.0, Duration::as_millis_f64);
            let why = format!("{ms:.0} ms of delay stand before the link");
            self.tell(now, n, told, rate, why);
        } else if ends && is_much && rate >= before && before > NO_RATE {
            let why = "the delay stayed at a lower rate, so it is not of this link".into();
            self.tell(now, n, told, rate, why);
        } else if rate > told && is_much && now.saturating_since(at) >= TOLD_EVERY {
            self.tell(
                now,
                n,
                told,
                rate,
                "the link takes more without delay".into(),
            );
        }
        is_new
    }

    fn tell(&mut self, now: Instant, n: usize, from: Rate, to: Rate, why: String) {
        self.sides[n].told = (to, now);
        self.note(Some(self.sides[n].direction), from, to, why);
    }

    /// Sources that fall silent, and come back.
    fn watch_sources(&mut self, now: Instant) {
        let since = self.last_sample.unwrap_or(self.started);
        let is_silent = now.saturating_since(since) > SILENT;
        // An idle link without reflectors has nothing to tell.
        let is_asked = !self.sources.reflectors.all.is_empty()
            || self.busy.is_some_and(|at| now.saturating_since(at) <= BUSY);
        if is_silent && is_asked && !self.is_silent {
            self.is_silent = true;
            let why = "no answer of a reflector, no TCP timestamp and no feedback of a call for 10 s: rates stay";
            self.note(None, NO_RATE, NO_RATE, why.into());
        } else if !is_silent && std::mem::replace(&mut self.is_silent, false) {
            self.note(
                None,
                Rate::from_bps(0),
                Rate::from_bps(0),
                "samples of delay again".into(),
            );
        }
    }

    fn note(&mut self, direction: Option<Direction>, from: Rate, to: Rate, why: String) {
        self.number += 1;
        if self.events.len() == MOST_EVENTS {
            self.events.pop_front();
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        self.events.push_back(RateEvent {
            number: self.number,
            at_ms: since.map_or(0, |since| since.as_millis() as u64),
            direction,
            from_bps: from.bps(),
            to_bps: to.bps(),
            why,
        });
    }
}

fn way(direction: Direction) -> control::Direction {
    match direction {
        Direction::Egress => control::Direction::Up,
        Direction::Ingress => control::Direction::Down,
    }
}
