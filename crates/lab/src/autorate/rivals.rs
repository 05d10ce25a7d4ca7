// SPDX-License-Identifier: MIT OR Apache-2.0
//! The algorithms, each as a controller of two rates.

mod cake;
mod lua;
mod oracle;
mod sprout;

use makeway_core::autorate::{Autorate, Bounds, Direction, Rates, TICK, Way};
use makeway_core::units::{Bytes, Duration, Instant, Rate};

use super::probes::Probe;
pub use cake::CakeAutorate;
pub use lua::SqmAutorate;
pub use oracle::Oracle;
pub use sprout::SproutLike;

/// State of the shapers, up and down.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Bytes that have crossed our end of the link since the start.
    pub bytes: [Bytes; 2],
    /// Backlog of our own queues.
    pub backlog: [Bytes; 2],
    /// Rate of the link and wait before it: for the oracle alone.
    pub link: [(Rate, Duration); 2],
}

/// A controller as the harness drives it.
pub trait Algorithm {
    /// Time between two probes of a path.
    fn probes(&self) -> Duration;
    /// Time between two ticks.
    fn period(&self) -> Duration;
    /// A probe has returned.
    fn on_probe(&mut self, now: Instant, probe: Probe);
    /// The rates from now on.
    fn tick(&mut self, now: Instant, seen: Seen) -> Rates;
}

/// Names, in the order of the table.
pub const NAMES: [&str; 5] = [
    "makeway",
    "cake-autorate",
    "sqm-autorate",
    "sprout-like",
    ORACLE,
];
/// Name of the controller that is told the link's rate and wait.
pub const ORACLE: &str = "oracle";

/// The algorithm of that name, between the bounds of up and down.
pub fn make(name: &str, bounds: [Bounds; 2], seed: u64) -> Box<dyn Algorithm> {
    match name {
        "cake-autorate" => Box::new(CakeAutorate::new(bounds)),
        "sqm-autorate" => Box::new(SqmAutorate::new(bounds, seed)),
        "sprout-like" => Box::new(SproutLike::new(bounds)),
        ORACLE => Box::new(Oracle::new(bounds)),
        _ => Box::new(Own {
            autorate: Autorate::new(Instant::ZERO, bounds[0], bounds[1]),
            bytes: [Bytes::ZERO; 2],
        }),
    }
}

/// makeway's, with timestamps of one direction.
struct Own {
    autorate: Autorate,
    bytes: [Bytes; 2],
}

impl Algorithm for Own {
    fn probes(&self) -> Duration {
        Duration::from_millis(200)
    }

    fn period(&self) -> Duration {
        TICK
    }

    fn on_probe(&mut self, now: Instant, probe: Probe) {
        let Probe { path, up, down } = probe;
        self.autorate
            .on_delay(now, path, Way::One(Direction::Up), up);
        self.autorate
            .on_delay(now, path, Way::One(Direction::Down), down);
    }

    fn tick(&mut self, now: Instant, seen: Seen) -> Rates {
        for (n, direction) in Direction::BOTH.into_iter().enumerate() {
            self.autorate
                .on_bytes(direction, seen.bytes[n] - self.bytes[n]);
            self.autorate.on_backlog(now, direction, seen.backlog[n]);
        }
        self.bytes = seen.bytes;
        self.autorate.tick(now)
    }
}

/// A rate in bit/s within its bounds.
fn within(bounds: &Bounds, bps: f64) -> f64 {
    let (least, most) = (bounds.least.bps() as f64, bounds.most.bps() as f64);
    bps.clamp(least, most)
}

/// Rates of up and down in bit/s.
fn rates(bps: [f64; 2]) -> Rates {
    let [up, down] = bps.map(|bps| Rate::from_bps(bps.max(1.0) as u64));
    Rates { up, down }
}

/// Bytes since the last look, as a rate in bit/s.
#[derive(Clone, Copy, Default)]
struct Achieved {
    at: Instant,
    bytes: [Bytes; 2],
}

impl Achieved {
    fn take(&mut self, now: Instant, bytes: [Bytes; 2]) -> [f64; 2] {
        let seconds = now.saturating_since(self.at).as_secs_f64().max(1e-3);
        let rate = |n: usize| (bytes[n] - self.bytes[n]).get() as f64 * 8.0 / seconds;
        let rates = [rate(0), rate(1)];
        (self.at, self.bytes) = (now, bytes);
        rates
    }
}
