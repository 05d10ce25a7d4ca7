// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random streams: every seed of a run is derived here.

use makeway_core::random::Rng;
use makeway_core::units::Duration;
use rand_pcg::Pcg64Mcg;

use super::PHASE;

/// Components whose numbers begin at zero as those of ports do take a range of their own.
const THINKING: u64 = 1 << 40;
const PROFILES: u64 = 1 << 41;
const CHANNELS: u64 = 1 << 42;
const ROUTERS: u64 = 1 << 43;

/// The seeds of a replication. No stream depends on the discipline.
#[derive(Clone, Copy)]
pub struct Seeds {
    own: u64,
    replication: u64,
}

impl Seeds {
    /// The first replication has the scenario's own seed.
    pub fn new(seed: u64, replication: u64) -> Self {
        let own = match replication {
            0 => seed,
            // Twice through the generator: neither neighbours nor sums of the two have anything in common.
            n => Rng::new(seed ^ Rng::new(n).next_u64()).next_u64(),
        };
        Self { own, replication }
    }

    /// Seed of the sources' departures, each of which has a stream by its number.
    pub fn departures(self) -> u64 {
        self.own
    }

    /// Seed of the discipline of a port.
    pub fn discipline(self, port: u64) -> u64 {
        self.own.wrapping_add(port)
    }

    /// Loss and jitter of a port's link.
    pub fn link(self, port: u64) -> Pcg64Mcg {
        self.stream(port)
    }

    /// Times between the tasks of a flow.
    pub fn thinking(self, flow: usize) -> Pcg64Mcg {
        self.stream(THINKING + flow as u64)
    }

    /// Seed of the meter of a flow's profile.
    pub fn profile(self, flow: usize) -> u64 {
        self.mixed(PROFILES + flow as u64)
    }

    /// Seed of a radio channel.
    pub fn channel(self, number: usize) -> u64 {
        self.mixed(CHANNELS + number as u64)
    }

    /// Seed of the routers of a radio channel.
    pub fn routers(self, number: usize) -> u64 {
        self.mixed(ROUTERS + number as u64)
    }

    /// Delay of a flow's start. It depends on seed and flow alone, and is the same under every discipline.
    pub fn phase(self, flow: usize) -> Duration {
        if self.replication == 0 {
            return Duration::ZERO;
        }
        let own = self.own ^ Rng::new(flow as u64).next_u64();
        Duration::from_nanos(u64::from(Rng::new(own).below(PHASE.as_nanos() as u32)))
    }

    fn mixed(self, component: u64) -> u64 {
        Rng::new(self.own ^ Rng::new(component).next_u64()).next_u64()
    }

    fn stream(self, component: u64) -> Pcg64Mcg {
        Pcg64Mcg::new(u128::from(self.own) << 64 | u128::from(component) << 1 | 1)
    }
}
