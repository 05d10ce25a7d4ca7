// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a scenario to a world at time zero.

mod ports;
mod routes;
mod seeds;
mod traffic;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use makeway_core::units::{Duration, Instant};
use makeway_report::interval::Interval;
use makeway_scenario::model::Scenario;

use crate::error::RunError;
use crate::flow::Ends;
use crate::tcp;
use crate::trace::Trace;
use crate::world::World;
use ports::{cells, changing, ports};
use routes::Paths;
use seeds::Seeds;
use traffic::{kind, tags};

/// In a replication each flow begins later by a random time below this: without it a scenario that
/// has no random source would be the same run again and again, and the sources' phases, which decide
/// much at a full buffer (Floyd and Jacobson 1992), would never change. Chosen by us: many packets'
/// time, and little of any warm-up.
pub const PHASE: Duration = Duration::from_millis(100);

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Set to true from anywhere, it ends the run early, with a report of what there was.
    pub stop: Arc<AtomicBool>,
    /// TCP of every download, instead of the one of its congestion control.
    pub tcp: Option<tcp::Config>,
    /// Which of the runs that a seed stands for. 0 is the scenario as it is written; in each other
    /// one all random streams are new, and flows begin up to [`PHASE`](crate::PHASE) later.
    pub replication: u64,
}

/// The world of `scenario`.
pub fn build<T: Trace>(
    scenario: &Scenario,
    interval: Interval,
    options: &Options,
    trace: T,
) -> Result<World<T>, RunError> {
    let seeds = Seeds::new(scenario.seed, options.replication);
    let paths = Paths::find(scenario)?;
    let mut flows = Vec::with_capacity(scenario.flows.len());
    for (number, flow) in scenario.flows.iter().enumerate() {
        let phase = seeds.phase(number);
        let start = Instant::ZERO + flow.start + phase;
        let stop = flow.stop.unwrap_or(scenario.duration) + phase;
        flows.push(Ends {
            ways: paths.starts[number],
            start,
            ip_bytes: 0,
            stop: Instant::ZERO + stop.min(scenario.duration),
            tags: tags(scenario, number, seeds),
            kind: kind(
                scenario,
                number,
                start,
                interval,
                options.tcp.as_ref(),
                seeds,
            )?,
        });
    }
    let ports = ports(scenario, interval, seeds)?;
    let cells = cells(scenario, seeds);
    let mut world = World::new(ports, paths.steps, flows, cells, interval, trace);
    world.change_rates(changing(scenario));
    Ok(world)
}
