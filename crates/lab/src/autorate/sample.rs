// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of a link under an algorithm, and its figures.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use makeway::session::write;
use makeway_core::autorate::Bounds;
use makeway_core::measure::Histogram;
use makeway_core::units::{Bytes, Duration, Instant, Rate};
use makeway_scenario::Scenario;

use super::link::{JUDGED, SECONDS, VaryingLink};
use super::probes::Prober;
use super::rivals::{Algorithm, Seen, make};

/// Look at the link this often.
const STEP: Duration = Duration::from_millis(10);
/// Rates that an operator would write, as shares of the nominal ones: the first, the least, the most.
const WRITTEN: [f64; 3] = [0.7, 0.1, 2.0];
/// Places in the scenario: link and end that sends.
const SHAPER: [(usize, usize); 2] = [(1, 0), (0, 0)];
const LINE: [(usize, usize); 2] = [(2, 0), (2, 1)];
/// Recovered: delay and share of the new rate over a second.
const RECOVERED: (f64, f64) = (30.0, 0.9);

/// Figures of one run.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// 99th percentile over time of the wait before the link, of both directions together.
    pub added_p99_ms: f64,
    /// Bytes that the link carried under load, as a share of what it could have; mean of the directions.
    pub used_share: f64,
    /// Mean time from an event to a second of little delay and a used link.
    pub recovery_s: Option<f64>,
}

/// Figures as they are collected.
struct Record {
    added: Histogram,
    /// Bits carried and possible under load, up and down.
    carried: [f64; 2],
    possible: [f64; 2],
    /// Wait in ms, bits carried and bits possible in each step of the run.
    steps: Vec<(f64, [f64; 2], [f64; 2])>,
    sent: [Bytes; 2],
    /// Time of the last step in s.
    at: f64,
    series: String,
}

/// Where the links run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum World {
    /// Simulated time and TCP.
    Sim,
    /// Namespaces of this machine, with the kernel's TCP, in real time.
    Netns,
}

impl World {
    pub fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Netns => "netns",
        }
    }
}

/// Queues of a world, by link and end.
trait Ports {
    fn now(&self) -> Instant;
    fn sent(&self, at: (usize, usize)) -> Bytes;
    fn backlog(&self, at: (usize, usize)) -> Bytes;
    fn wait(&self, at: (usize, usize)) -> Duration;
    fn rate(&self, at: (usize, usize)) -> Option<Rate>;
    fn set_rate(&mut self, at: (usize, usize), rate: Rate);
}

impl Ports for makeway_sim::Ports<'_> {
    fn now(&self) -> Instant {
        self.now()
    }
    fn sent(&self, (link, end): (usize, usize)) -> Bytes {
        self.sent(link, end)
    }
    fn backlog(&self, (link, end): (usize, usize)) -> Bytes {
        self.backlog(link, end).bytes
    }
    fn wait(&self, (link, end): (usize, usize)) -> Duration {
        self.wait(link, end)
    }
    fn rate(&self, (link, end): (usize, usize)) -> Option<Rate> {
        self.rate(link, end)
    }
    fn set_rate(&mut self, (link, end): (usize, usize), rate: Rate) {
        self.set_rate(link, end, rate);
    }
}

impl Ports for makeway_netns::Ports<'_> {
    fn now(&self) -> Instant {
        self.now()
    }
    fn sent(&self, (link, end): (usize, usize)) -> Bytes {
        self.sent(link, end)
    }
    fn backlog(&self, (link, end): (usize, usize)) -> Bytes {
        self.backlog(link, end)
    }
    fn wait(&self, (link, end): (usize, usize)) -> Duration {
        self.wait(link, end)
    }
    fn rate(&self, (link, end): (usize, usize)) -> Option<Rate> {
        self.rate(link, end)
    }
    fn set_rate(&mut self, (link, end): (usize, usize), rate: Rate) {
        self.set_rate(link, end, rate);
    }
}

/// Runs `scenario`, and calls `each` every [`STEP`].
fn steer_in(
    world: World,
    scenario: &Scenario,
    replication: u64,
    stop: &Arc<AtomicBool>,
    mut each: impl FnMut(&mut dyn Ports),
) -> anyhow::Result<()> {
    match world {
        World::Sim => {
            let options = makeway_sim::Options {
                stop: Arc::clone(stop),
                replication,
                ..makeway_sim::Options::default()
            };
            makeway_sim::run_steered(scenario, &options, STEP, |ports| each(ports))?;
        }
        World::Netns => {
            let options = makeway_netns::Options {
                stop: Arc::clone(stop),
                ..makeway_netns::Options::default()
            };
            makeway_netns::run_steered(scenario, options, STEP, |ports| each(ports))?;
        }
    }
    Ok(())
}

/// Runs `link` under the algorithm `name`. `None`: it was stopped.
pub fn sample(
    world: World,
    link: &VaryingLink,
    name: &str,
    replication: u64,
    stop: &Arc<AtomicBool>,
    series: Option<&Path>,
) -> anyhow::Result<Option<Sample>> {
    let seed = makeway_core::random::Rng::new(replication).next_u64();
    let written = link.nominal.map(|mbit| {
        let [first, least, most] = WRITTEN.map(|share| Rate::from_bps((mbit * share * 1e6) as u64));
        Bounds { first, least, most }
    });
    let first = written.map(|bounds| bounds.first.as_mbit_f64());
    let scenario =
        makeway_scenario::parse(&link.scenario(seed, first), link.name, Path::new("."), &[])?;
    let mut algorithm = make(name, written, seed);
    let mut prober = Prober::new(link.probes, seed, algorithm.probes());
    let mut next = Instant::ZERO;
    let mut record = Record {
        added: Histogram::new(),
        carried: [0.0; 2],
        possible: [0.0; 2],
        steps: Vec::new(),
        sent: [Bytes::ZERO; 2],
        at: 0.0,
        series: "time_s,wait_up_ms,wait_down_ms,line_up_mbit,line_down_mbit,up_mbit,down_mbit\n"
            .into(),
    };
    let writes = series.is_some();
    steer_in(world, &scenario, replication, stop, |ports| {
        let now = ports.now();
        let wait = LINE.map(|place| ports.wait(place));
        record.step(link, ports, wait, writes);
        for probe in prober.step(now, wait) {
            algorithm.on_probe(now, probe);
        }
        if now >= next {
            next = now + algorithm.period();
            steer(&mut *algorithm, ports);
        }
    })?;
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    if let Some(file) = series {
        write(file, &record.series)?;
    }
    Ok(Some(record.figures(link)))
}

/// A tick of the algorithm.
fn steer(algorithm: &mut dyn Algorithm, ports: &mut dyn Ports) {
    let seen = Seen {
        // Upwards what our shaper sent, downwards what came over the link.
        bytes: [ports.sent(SHAPER[0]), ports.sent(LINE[1])],
        backlog: SHAPER.map(|place| ports.backlog(place)),
        link: LINE.map(|place| (ports.rate(place).unwrap_or_default(), ports.wait(place))),
    };
    let rates = algorithm.tick(ports.now(), seen);
    for (place, rate) in SHAPER.into_iter().zip([rates.up, rates.down]) {
        if ports.rate(place) != Some(rate) {
            ports.set_rate(place, rate);
        }
    }
}

impl Record {
    fn step(&mut self, link: &VaryingLink, ports: &dyn Ports, wait: [Duration; 2], writes: bool) {
        let at = ports.now().saturating_since(Instant::ZERO).as_secs_f64();
        // Of real time a step may be longer, and the next one shorter.
        let seconds = at - std::mem::replace(&mut self.at, at);
        let sent = LINE.map(|place| ports.sent(place));
        let carried = [0, 1].map(|n| (sent[n] - self.sent[n]).get() as f64 * 8.0);
        self.sent = sent;
        let rate = LINE.map(|place| ports.rate(place).unwrap_or_default());
        let possible = rate.map(|rate| rate.bps() as f64 * seconds);
        let added = wait[0] + wait[1];
        self.steps.push((added.as_millis_f64(), carried, possible));
        if writes && self.steps.len().is_multiple_of(5) {
            let own = SHAPER.map(|place| ports.rate(place).unwrap_or_default());
            // Writing to a string cannot fail.
            let _ = writeln!(
                self.series,
                "{at:.2},{:.1},{:.1},{:.2},{:.2},{:.2},{:.2}",
                wait[0].as_millis_f64(),
                wait[1].as_millis_f64(),
                rate[0].as_mbit_f64(),
                rate[1].as_mbit_f64(),
                own[0].as_mbit_f64(),
                own[1].as_mbit_f64(),
            );
        }
        if at < f64::from(JUDGED) {
            return;
        }
        self.added.record(added);
        if link.is_loaded(at) {
            for n in 0..2 {
                self.carried[n] += carried[n];
                self.possible[n] += possible[n];
            }
        }
    }

    fn figures(&self, link: &VaryingLink) -> Sample {
        let share = |n: usize| self.carried[n] / self.possible[n];
        let events = link.events();
        let mut times = Vec::new();
        for (n, event) in events.iter().enumerate() {
            let until = events.get(n + 1).copied().unwrap_or(f64::from(SECONDS));
            times.extend(self.recovery(link, *event, until));
        }
        let count = times.len() as f64;
        Sample {
            added_p99_ms: self.added.quantile(0.99).as_millis_f64(),
            used_share: (share(0) + share(1)) / 2.0,
            recovery_s: (count > 0.0).then(|| times.iter().sum::<f64>() / count),
        }
    }

    /// Time from `event` to the first loaded second of little delay and a used link; at most until `until`.
    fn recovery(&self, link: &VaryingLink, event: f64, until: f64) -> Option<f64> {
        let per_second = (1.0 / STEP.as_secs_f64()) as usize;
        let first = (event * per_second as f64) as usize;
        let last = ((until * per_second as f64) as usize).min(self.steps.len());
        let is_loaded = |step: usize| link.is_loaded(step as f64 / per_second as f64);
        let begin = (first..last).find(|step| is_loaded(*step))?;
        for from in begin..last.saturating_sub(per_second) {
            let second = &self.steps[from..from + per_second];
            let used = |n: usize| {
                let carried: f64 = second.iter().map(|step| step.1[n]).sum();
                let possible: f64 = second.iter().map(|step| step.2[n]).sum();
                carried / possible
            };
            let calm = second.iter().all(|step| step.0 <= RECOVERED.0);
            if calm && (0..2).all(|n| used(n) >= RECOVERED.1) {
                return Some((from - begin) as f64 / per_second as f64);
            }
        }
        Some((last - begin) as f64 / per_second as f64)
    }
}
