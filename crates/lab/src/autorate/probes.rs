// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes over the link: they wait in its queues as any packet does, and take a path's delay and noise.

use makeway_core::random::Rng;
use makeway_core::units::{Duration, Instant};

use super::link::{PATHS, Probes, uniform};

/// A probe that has returned: one-way delays, of clocks that agree.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    pub path: u16,
    pub up: Duration,
    pub down: Duration,
}

/// A probe under way.
struct Flight {
    path: u16,
    sent: Instant,
    /// It is at the reflector then.
    up: Option<Duration>,
    due: Instant,
    down: Duration,
}

/// All probes of a run.
pub struct Prober {
    kind: Probes,
    seed: u64,
    every: Duration,
    next: [Instant; PATHS as usize],
    flights: Vec<Flight>,
}

impl Prober {
    /// One probe of each path in `every`, evenly apart.
    pub fn new(kind: Probes, seed: u64, every: Duration) -> Self {
        let first = |n: usize| Instant::ZERO + every * n as u64 / u64::from(PATHS);
        Self {
            kind,
            seed,
            every,
            next: std::array::from_fn(first),
            flights: Vec::new(),
        }
    }

    /// Moves on to `now`, where a packet waits for `wait` up and down; the probes that have returned.
    pub fn step(&mut self, now: Instant, wait: [Duration; 2]) -> Vec<Probe> {
        for path in 0..PATHS {
            let next = &mut self.next[usize::from(path)];
            if *next <= now {
                *next += self.every;
                let up = self.delay(now, path, 0) + wait[0];
                self.flights.push(Flight {
                    path,
                    sent: now,
                    up: None,
                    due: now + up,
                    down: Duration::ZERO,
                });
            }
        }
        let mut back = Vec::new();
        let mut flights = std::mem::take(&mut self.flights);
        flights.retain_mut(|flight| {
            if flight.due > now {
                return true;
            }
            let Some(up) = flight.up else {
                flight.up = Some(flight.due.saturating_since(flight.sent));
                flight.down = self.delay(now, flight.path, 1) + wait[1];
                flight.due += flight.down;
                return true;
            };
            if !self.is_lost(flight.sent) {
                back.push(Probe {
                    path: flight.path,
                    up,
                    down: flight.down,
                });
            }
            false
        });
        self.flights = flights;
        back
    }

    fn is_lost(&self, sent: Instant) -> bool {
        let at = seconds(sent);
        matches!(self.kind, Probes::Blackout(from, to) if (from..to).contains(&at))
    }

    /// Delay of `path` in a direction at `now`: the same for every algorithm.
    fn delay(&self, now: Instant, path: u16, direction: u64) -> Duration {
        let slot = now.as_nanos() / 10_000_000;
        let place = u64::from(path) << 1 | direction;
        let mut rng = Rng::new(self.seed ^ slot << 8 ^ place);
        // Two draws apart: neighbours of a seed are alike in the first.
        rng.next_u64();
        let mut exponential = |mean: f64| -(1.0 - uniform(&mut rng)).ln() * mean;
        let mut ms = 6.0 + 2.0 * f64::from(path) + exponential(0.3);
        let at = seconds(now);
        match self.kind {
            Probes::Reroute(from) if at >= from => ms += 30.0,
            Probes::Reflector(from, to) if path == 2 && (from..to).contains(&at) => ms += 50.0,
            Probes::Jitter(mean) => {
                let jitter = exponential(mean);
                let is_long = exponential(1.0) > 50.0_f64.ln();
                ms += if is_long { jitter * 10.0 } else { jitter };
            }
            _ => {}
        }
        Duration::from_nanos((ms * 1e6) as u64)
    }
}

fn seconds(at: Instant) -> f64 {
    at.saturating_since(Instant::ZERO).as_secs_f64()
}
