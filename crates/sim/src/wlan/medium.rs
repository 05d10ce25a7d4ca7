// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames on the air, and stations that receive them.

use std::collections::VecDeque;

use makeway_core::random::Rng;
use makeway_core::units::Instant;

use super::config::Config;
use super::reach::{Reach, Sense};
use super::station::{Airtime, BROADCAST, Counts, Frame, Heard, Kind, Lock, Signal, Station, Told};
use crate::agenda::Agenda;

/// Events for the owner of a medium. Stations have their numbers in [`Reach`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A station has nothing in hand: it takes the next frame by [`Medium::send`].
    Ready {
        /// Which.
        station: u16,
    },
    /// A frame has come, whole and for the first time.
    Received {
        /// Where.
        station: u16,
        /// Its sender.
        from: u16,
        /// The frame.
        frame: Frame,
    },
    /// A frame is dropped after its last try, and its receiver does not have it.
    GivenUp {
        /// By whom.
        station: u16,
        /// The frame.
        frame: Frame,
    },
    /// A station has been switched off.
    Off {
        /// Which.
        station: u16,
        /// The frame it had in hand, which no receiver has.
        frame: Option<Frame>,
    },
}

/// A channel and its stations.
#[derive(Clone, Debug)]
pub struct Medium {
    config: Config,
    reach: Reach,
    stations: Vec<Station>,
    /// Transmission of each station.
    air: Vec<Option<Signal>>,
    /// Which undisturbed frames are lost.
    luck: Rng,
    /// Each station's timer, then the end of what it sends, then when it is switched off.
    agenda: Agenda,
    events: VecDeque<Event>,
}

impl Medium {
    /// Idle. Backoffs are drawn from streams that belong to `seed`.
    pub fn new(config: Config, reach: Reach, seed: u64) -> Self {
        let count = reach.stations();
        let mut seeds = Rng::new(seed);
        // Twice through the generator, so that no two streams are one, shifted.
        let mut stream = || Rng::new(Rng::new(seeds.next_u64()).next_u64());
        let stations = 0..count as u16;
        Self {
            stations: stations
                .map(|id| Station::new(id, count, &config, stream()))
                .collect(),
            luck: stream(),
            config,
            reach,
            air: vec![None; count],
            agenda: Agenda::new(2 * count, count),
            events: VecDeque::with_capacity(4 * count),
        }
    }

    /// When something happens next.
    pub fn next(&self) -> Option<Instant> {
        let (at, _) = self.agenda.next_before(Instant::FAR_FUTURE)?;
        Some(at)
    }

    /// Whether `station` has nothing in hand.
    pub fn is_ready(&self, station: u16) -> bool {
        self.stations[station as usize].job.is_none()
    }

    /// Counters of `station` so far.
    pub fn counts(&self, station: u16) -> Counts {
        self.stations[station as usize].counts
    }

    /// How long the radio of `station` was at what until `now`.
    pub fn airtime(&self, station: u16, now: Instant) -> Airtime {
        self.stations[station as usize].airtime(now)
    }

    /// Has `station` fall silent and deaf at `at`, for good.
    pub fn switch_off(&mut self, station: u16, at: Instant) {
        let source = 2 * self.stations.len() + station as usize;
        self.agenda.set(source as u32, at);
    }

    /// Whether `station` has been switched off.
    pub fn is_off(&self, station: u16) -> bool {
        self.stations[station as usize].off
    }

    /// Gives `station` a frame, where it has none in hand.
    ///
    /// # Panics
    /// If it has one, or is off.
    pub fn send(&mut self, now: Instant, station: u16, frame: Frame) {
        assert!(self.is_ready(station), "one frame at a time");
        assert!(!self.is_off(station), "the station is on");
        self.stations[station as usize].send(now, &self.config, frame);
        self.note(station as usize);
    }

    /// Has everything happen that is due at `now`.
    pub fn advance(&mut self, now: Instant) {
        while let Some((at, source)) = self.agenda.next_before(Instant::FAR_FUTURE)
            && at <= now
        {
            let (source, count) = (source as usize, self.stations.len());
            match source / count {
                0 => self.timer(at, source),
                1 => self.end(at, source - count),
                _ => self.turn_off(at, source - 2 * count),
            }
        }
    }

    /// Events, in order.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn timer(&mut self, now: Instant, number: usize) {
        let (signal, told) = self.stations[number].timer(now, &self.config);
        self.note(number);
        self.tell(number, told, None);
        if let Some((signal, time)) = signal {
            self.air[number] = Some(signal);
            let ends = self.stations.len() + number;
            self.agenda.set(ends as u32, now + time);
            for listener in 0..self.stations.len() {
                self.begin(now, number, listener);
            }
        }
    }

    /// A signal of `from` begins at `to`.
    fn begin(&mut self, now: Instant, from: usize, to: usize) {
        let (sense, power) = self.reach.of(from, to);
        if from == to || sense == Sense::Deaf || self.stations[to].off {
            return;
        }
        self.stations[to].count_time(now);
        let station = &self.stations[to];
        if station.sending.is_none() {
            let alone = || station.signals == 0 || self.drowns_others(from, to);
            let new = Lock {
                from: from as u16,
                since: now,
                ok: sense == Sense::Frame && alone(),
            };
            let lock = match station.lock {
                None => new,
                // Of those that begin together the receiver takes the loudest.
                Some(old) if old.since == now && new.ok => new,
                Some(old) => Lock {
                    ok: old.ok && self.captures(self.reach.of(old.from as usize, to).1, power),
                    ..old
                },
            };
            let first = station.lock.is_none();
            let station = &mut self.stations[to];
            station.lock = Some(lock);
            if first {
                station.begins(now, &self.config);
            }
        }
        let station = &mut self.stations[to];
        station.signals += 1;
        station.busy(now, &self.config);
        self.note(to);
    }

    /// Whether `to` understands `from` beside everybody else who sends.
    fn drowns_others(&self, from: usize, to: usize) -> bool {
        let power = self.reach.of(from, to).1;
        let others = self.air.iter().enumerate().filter(|(other, signal)| {
            signal.is_some() && *other != from && self.reach.of(*other, to).0 != Sense::Deaf
        });
        let mut powers = others.map(|(other, _)| self.reach.of(other, to).1);
        powers.all(|other| self.captures(power, other))
    }

    fn captures(&self, power: f64, other: f64) -> bool {
        self.config
            .capture
            .is_some_and(|ratio| power >= ratio * other)
    }

    /// The transmission of `number` ends.
    fn end(&mut self, now: Instant, number: usize) {
        self.agenda.clear((self.stations.len() + number) as u32);
        let Some(signal) = self.air[number].take() else {
            return;
        };
        // Of a station that was switched off meanwhile nobody understands the rest.
        let cut = self.stations[number].off;
        let told = match cut {
            true => None,
            false => self.stations[number].sent(now, &self.config),
        };
        self.note(number);
        for listener in 0..self.stations.len() {
            if listener == number || self.reach.of(number, listener).0 == Sense::Deaf {
                continue;
            }
            let station = &mut self.stations[listener];
            if station.off {
                continue;
            }
            let heard = match station.lock {
                Some(lock) if lock.from as usize == number => {
                    station.lock = None;
                    let lost = signal.kind == Kind::Data
                        && [BROADCAST, listener as u16].contains(&signal.to)
                        && self.config.loss > 0
                        && self.luck.next_u64() < self.config.loss;
                    match lock.ok && !lost && !cut {
                        true => Heard::Frame(&signal),
                        false => Heard::Garbled,
                    }
                }
                _ => Heard::Energy,
            };
            for told in station.ends(now, &self.config, heard) {
                self.tell(listener, told, Some(&signal));
            }
            self.note(listener);
        }
        self.tell(number, told, None);
    }

    fn turn_off(&mut self, now: Instant, number: usize) {
        self.agenda.clear((2 * self.stations.len() + number) as u32);
        let job = self.stations[number].switch_off(now);
        self.note(number);
        self.events.push_back(Event::Off {
            station: number as u16,
            frame: job.filter(|job| !job.delivered).map(|job| job.frame),
        });
    }

    /// Passes on what `number` said, which `signal` made it say.
    fn tell(&mut self, number: usize, told: Option<Told>, signal: Option<&Signal>) {
        let station = number as u16;
        match (told, signal) {
            (Some(Told::Acknowledged | Told::Broadcast), _) => {}
            (Some(Told::GivenUp(job)), _) if job.delivered => {}
            (Some(Told::GivenUp(job)), _) => self.events.push_back(Event::GivenUp {
                station,
                frame: job.frame,
            }),
            (Some(Told::Received), Some(signal)) => {
                let job = &mut self.stations[signal.from as usize].job;
                if let Some(job) = job.as_mut().filter(|_| signal.to != BROADCAST) {
                    job.delivered = true;
                }
                return self.events.push_back(Event::Received {
                    station,
                    from: signal.from,
                    frame: signal.frame,
                });
            }
            _ => return,
        }
        self.events.push_back(Event::Ready { station });
    }

    /// Puts a station's timer down.
    fn note(&mut self, number: usize) {
        let due = self.stations[number].due;
        if self.agenda.due(number as u32) != due {
            self.agenda.set_or_clear(number as u32, due);
        }
    }
}
