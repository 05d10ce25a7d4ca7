// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates of a shaper in front of a link whose own rate is not known or changes.
//!
//! The controller is pure: the caller passes delays of probes over several paths, bytes and backlog of the
//! shaper's two directions, and asks for the rates each [`TICK`]. docs/autorate.md is its specification.
//!
//! In short, for each direction apart:
//!
//! - the *baseline* of a path is a windowed minimum, whose window stands still under load; the excess over it is
//!   delay that somebody adds;
//! - the *standing delay* is the least excess of the last three samples, of different voices where there are several: a path has one of
//!   its own, unless it shares one with others;
//! - above a threshold that follows the noise of idle times, and if our own queue was backlogged, the link has
//!   *bloat*: the rate falls to a share of the rate that the link delivers, until the delay is gone;
//! - then it returns to the delivered rate, stays near it and searches above it along a cubic curve (as CUBIC,
//!   RFC 9438), but only while our queue is backlogged;
//! - if two cuts leave the delay where it was, it is not our link's: the rate is restored, and the delay
//!   becomes the baseline;
//! - without samples the rate stays, under load at that of the end of a cut at most.

mod meter;
mod path;
mod side;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use crate::units::{Bytes, Duration, Instant, Rate};
use path::{Path, Voice};
use side::Side;
pub use side::State;

/// How often [`Autorate::tick`] is called.
pub const TICK: Duration = Duration::from_millis(50);
/// Paths that are followed; samples of others are ignored.
pub const MOST_PATHS: u16 = 32;

/// Direction of a link, as its subscriber sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards the network. The link is behind our queue.
    Up,
    /// From the network. The link is before our queue.
    Down,
}

impl Direction {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];
}

/// Way that a delay was measured over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One direction. The two clocks may differ by any constant.
    One(Direction),
    /// There and back; for paths without samples of one direction.
    Both,
}

/// Bounds of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The rate until there are samples.
    pub first: Rate,
    /// It never falls below this.
    pub least: Rate,
    /// It never rises above this.
    pub most: Rate,
}

impl Bounds {
    /// `rate` within the bounds; of bounds that cross, the upper one holds.
    pub(crate) fn clamp(&self, rate: Rate) -> Rate {
        rate.max(self.least).min(self.most).max(Rate::from_bps(1))
    }
}

/// Rates of the two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Towards the network.
    pub up: Rate,
    /// From the network.
    pub down: Rate,
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Autorate {
    sides: [Side; 2],
    paths: Vec<Path>,
}

impl Autorate {
    /// With the bounds of both directions, before any sample.
    pub fn new(now: Instant, up: Bounds, down: Bounds) -> Self {
        Self {
            sides: [
                Side::new(now, Direction::Up, up),
                Side::new(now, Direction::Down, down),
            ],
            paths: Vec::new(),
        }
    }

    /// A probe of `path` has returned. Numbers of paths are dense, from 0.
    pub fn on_delay(&mut self, now: Instant, path: u16, way: Way, delay: Duration) {
        if path >= MOST_PATHS {
            return;
        }
        let own = Self::path(&mut self.paths, path);
        let voice = own.voice.map_or(Voice::Own(path), Voice::Shared);
        let from = (path, voice);
        let [up, down] = &mut self.sides;
        match way {
            Way::One(direction) => {
                let side = match direction {
                    Direction::Up => up,
                    Direction::Down => down,
                };
                let baseline = &mut own.one_way[direction as usize];
                side.on_excess(now, from, true, baseline.sample(now, delay, side.loaded()));
            }
            Way::Both => {
                let loaded = up.loaded() || down.loaded();
                let excess = own.both_ways.sample(now, delay, loaded);
                up.on_excess(now, from, false, excess);
                down.on_excess(now, from, false, excess);
            }
        }
    }

    /// `path` has one say with all paths of the same `voice`, until its route changes: for peers that one host, or one network, may be.
    pub fn set_voice(&mut self, path: u16, voice: u64) {
        if path < MOST_PATHS {
            Self::path(&mut self.paths, path).voice = Some(voice);
        }
    }

    fn path(paths: &mut Vec<Path>, path: u16) -> &mut Path {
        let number = usize::from(path);
        if number >= paths.len() {
            paths.resize(number + 1, Path::default());
        }
        &mut paths[number]
    }

    /// Bytes have crossed our end of the link: of `Up` they left our queue, of `Down` they arrived before it.
    pub fn on_bytes(&mut self, direction: Direction, bytes: Bytes) {
        self.sides[direction as usize].on_bytes(bytes);
    }

    /// Backlog of our own queue now.
    pub fn on_backlog(&mut self, now: Instant, direction: Direction, backlog: Bytes) {
        self.sides[direction as usize].on_backlog(now, backlog);
    }

    /// The route of `path`, or of all, is another one from now on: baselines begin anew, rates stay.
    pub fn on_route_change(&mut self, path: Option<u16>) {
        let Some(path) = path else {
            self.paths.clear();
            self.sides.iter_mut().for_each(Side::forget_samples);
            return;
        };
        if let Some(own) = self.paths.get_mut(usize::from(path)) {
            *own = Path::default();
        }
        for side in &mut self.sides {
            side.forget_samples_of(path);
        }
    }

    /// Somebody else sets the rate of a direction: the search goes on from there. Bounds hold.
    pub fn set_rate(&mut self, direction: Direction, rate: Rate) {
        self.sides[direction as usize].set_rate(rate);
    }

    /// The rates from now on.
    pub fn tick(&mut self, now: Instant) -> Rates {
        for side in &mut self.sides {
            if side.tick(now) {
                for path in &mut self.paths {
                    path.take_as_baseline(side.direction());
                }
                side.forget_samples();
            }
        }
        self.rates()
    }

    /// The rates as of the last tick.
    pub fn rates(&self) -> Rates {
        let [up, down] = &self.sides;
        Rates {
            up: up.rate(),
            down: down.rate(),
        }
    }

    /// State of a direction, for displays and logs.
    pub fn state(&self, direction: Direction) -> State {
        self.sides[direction as usize].state()
    }

    /// Delay that stands before the link in a direction; `None` without samples of late.
    pub fn standing(&self, now: Instant, direction: Direction) -> Option<Duration> {
        self.sides[direction as usize].standing(now)
    }
}
