// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run: a scenario and its seed in, a report out.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use makeway_core::units::{Duration, Instant};
use makeway_report::flow::{Tally, per_second, quantiles};
use makeway_report::interval::{Interval, Progress};
use makeway_report::model::{FORMAT, FlowReport, QueueReport, RadioReport, Report, TasksReport};
use makeway_report::summary::asi;
use makeway_scenario::model::{self, Queue, Scenario};

use crate::build::{Options, build};
use crate::error::RunError;
use crate::flow::{Ends, Kind};
use crate::port::{Port, port_number};
use crate::steer::{Ports, Steered};
use crate::trace::{Off, Recorder, Trace};
use crate::world::World;

/// A report, and what else there is to know of a run in this world.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The report.
    pub report: Report,
    /// The same for the same scenario and seed, on every machine.
    pub fingerprint: u64,
    /// Packets that came to the far end of a link.
    pub hops: u64,
}

/// Runs `scenario` in simulated time and reports.
///
/// # Errors
/// [`RunError`] says what this world cannot do. A stop is no error: the report of what there was says
/// that it is not complete.
pub fn run(
    scenario: &Scenario,
    options: &Options,
    progress: impl FnMut(Progress),
) -> Result<Report, RunError> {
    run_in_full(scenario, options, progress).map(|outcome| outcome.report)
}

/// As [`run`], with the fingerprint.
///
/// # Errors
/// As [`run`].
pub fn run_in_full(
    scenario: &Scenario,
    options: &Options,
    progress: impl FnMut(Progress),
) -> Result<Outcome, RunError> {
    go(scenario, options, Off, progress)
}

/// As [`run_in_full`], and `recorder` writes what happens to packets. A run that is stopped ends its
/// traces in order.
///
/// # Errors
/// As [`run`], and failures to write a trace.
pub fn run_traced(
    scenario: &Scenario,
    options: &Options,
    recorder: Recorder,
    progress: impl FnMut(Progress),
) -> Result<Outcome, RunError> {
    go(scenario, options, recorder, progress)
}

/// As [`run`], and each `every` of simulated time `steer` looks at the queues and sets rates, as a controller beside
/// the network would. It sees what a port sent only where the port is measured, from the end of the warm-up on.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// If `every` is zero.
pub fn run_steered(
    scenario: &Scenario,
    options: &Options,
    every: Duration,
    mut steer: impl FnMut(&mut Ports<'_>),
) -> Result<Report, RunError> {
    assert!(every > Duration::ZERO, "a step of no time never ends");
    let interval = Interval::new(scenario.warmup, scenario.duration);
    let mut world = build(scenario, interval, options, Steered)?;
    let mut ended = 0;
    while ended < interval.to() && !options.stop.load(Ordering::Relaxed) {
        ended = (ended + every.as_nanos()).min(interval.to());
        world.run_until(Instant::from_nanos(ended), &options.stop);
        steer(&mut Ports::new(&mut world, Instant::from_nanos(ended)));
    }
    conclude(scenario, world, interval, options, ended).map(|outcome| outcome.report)
}

fn go<T: Trace>(
    scenario: &Scenario,
    options: &Options,
    trace: T,
    mut progress: impl FnMut(Progress),
) -> Result<Outcome, RunError> {
    let interval = Interval::new(scenario.warmup, scenario.duration);
    let mut world = build(scenario, interval, options, trace)?;
    let mut ended = 0;
    while ended < interval.to() && !options.stop.load(Ordering::Relaxed) {
        ended = (ended + interval.step().as_nanos()).min(interval.to());
        world.run_until(Instant::from_nanos(ended), &options.stop);
        if options.stop.load(Ordering::Relaxed) {
            ended = ended.min(world.now().as_nanos());
        }
        world.trace.check()?;
        progress(Progress {
            elapsed: Duration::from_nanos(ended),
            duration: scenario.duration,
        });
    }
    conclude(scenario, world, interval, options, ended)
}

/// Everything arrives that is under way, and is reported.
pub(crate) fn conclude<T: Trace>(
    scenario: &Scenario,
    mut world: World<T>,
    interval: Interval,
    options: &Options,
    ended: u64,
) -> Result<Outcome, RunError> {
    let radios = radios(scenario, &world, Instant::from_nanos(ended));
    // Senders are silent; what is under way arrives.
    let complete = ended == interval.to();
    if complete {
        world.drain(&options.stop);
    }
    world.trace.finish()?;
    let tally = Tally { interval, ended };
    Ok(Outcome {
        report: Report {
            radios,
            ..report(scenario, &world, tally, complete)
        },
        fingerprint: world.fingerprint(),
        hops: world.hops(),
    })
}

fn report<T: Trace>(scenario: &Scenario, world: &World<T>, tally: Tally, complete: bool) -> Report {
    let flows = scenario.flows.iter().zip(&world.flows);
    let flows: Vec<FlowReport> = flows
        .map(|(flow, ends)| flow_report(flow, ends, tally))
        .collect();
    Report {
        format: FORMAT,
        title: scenario.title.clone(),
        world: "sim".into(),
        environment: BTreeMap::from([
            ("makeway".into(), env!("CARGO_PKG_VERSION").into()),
            (
                "fingerprint".into(),
                format!("{:016x}", world.fingerprint()),
            ),
        ]),
        set: scenario.set.clone(),
        seed: scenario.seed,
        seconds: tally.seconds(),
        complete,
        lateness: None,
        warnings: Vec::new(),
        asi: asi(&flows),
        flows,
        queues: queues(scenario, world, tally),
        radios: Vec::new(),
    }
}

fn flow_report(flow: &model::Flow, ends: &Ends, tally: Tally) -> FlowReport {
    let mut report = FlowReport {
        name: flow.name.clone(),
        group: flow.group.clone(),
        kind: flow.source.kind().into(),
        ip_bps: Some(per_second(ends.ip_bytes, tally.seconds())),
        ..FlowReport::default()
    };
    match &ends.kind {
        Kind::Tcp(tcp) => {
            tally.bulk(&mut report, &tcp.bytes);
            report.queueing = tcp.delays.queueing();
            if let Some(tasks) = &tcp.tasks {
                tally.tasks(&mut report, &tasks.steps);
            }
            report.tasks = tcp.tasks.as_ref().map(|tasks| TasksReport {
                done: tasks.times.count(),
                completion_ms: quantiles(&tasks.times),
            });
        }
        Kind::Stream(stream) => {
            tally.datagram(&mut report, &stream.sent, &stream.received);
            if let Some(voice) = flow.voice {
                tally.voice(&mut report, voice.encoder_delay);
            }
        }
        Kind::Media(media) => {
            tally.datagram(&mut report, &media.sent, &media.received);
            tally.media(&mut report, &media.classes, &media.rates, &media.errors);
        }
    }
    report
}

fn queues<T>(scenario: &Scenario, world: &World<T>, tally: Tally) -> Vec<QueueReport> {
    let mut queues = Vec::new();
    for (index, link) in scenario.links.iter().enumerate() {
        for end in 0..2 {
            let names = [link.ends[end], link.ends[1 - end]].map(|node| &scenario.nodes[node].name);
            let name = format!("{} -> {}", names[0], names[1]);
            let port = &world.ports[port_number(index, end) as usize];
            let egress = &link.egress[end];
            let [from, to] = [tally.interval.from(), tally.ended].map(Duration::from_nanos);
            let rate_bps = egress.mean_bps(from, to).round() as u64;
            queues.extend(queue_report(name, &egress.queue, rate_bps, port, tally));
        }
    }
    for (index, wlan) in scenario.wlans.iter().enumerate() {
        for (node, port) in wlan.stations.iter().zip(scenario.first_port(index)..) {
            let name = format!("{} on {}", scenario.nodes[*node].name, wlan.name);
            let (port, rate_bps) = (&world.ports[port], wlan.rate.bps());
            queues.extend(queue_report(name, &wlan.queue, rate_bps, port, tally));
        }
    }
    queues
}

/// Activity of the radios until `now`.
fn radios<T>(scenario: &Scenario, world: &World<T>, now: Instant) -> Vec<RadioReport> {
    let mut radios = Vec::new();
    for (wlan, cell) in scenario.wlans.iter().zip(&world.cells) {
        for (node, station) in wlan.stations.iter().zip(0..) {
            let airtime = cell.medium.airtime(station, now);
            let times = [airtime.send, airtime.receive, airtime.idle];
            let [send_s, receive_s, idle_s] = times.map(|time| time.as_secs_f64());
            let power = wlan.power;
            let counts = cell.medium.counts(station);
            let routing = cell.mesh.as_ref().map(|mesh| mesh.router(station).counts());
            radios.push(RadioReport {
                channel: wlan.name.clone(),
                station: scenario.nodes[*node].name.clone(),
                send_s,
                receive_s,
                idle_s,
                energy_j: power.send * send_s + power.receive * receive_s + power.idle * idle_s,
                frames: counts.data,
                failures: counts.failures,
                given_up: counts.given_up,
                routing: routing.map_or(0, |c| c.requests + c.relayed + c.replies + c.errors),
            });
        }
    }
    radios
}

fn queue_report(
    name: String,
    queue: &Queue,
    rate_bps: u64,
    port: &Port,
    tally: Tally,
) -> Option<QueueReport> {
    let counts = port.counts.as_ref()?;
    let seconds = tally.seconds();
    let throughput_bps = per_second(counts.bytes_measured, seconds);
    let discipline = port.discipline_counts();
    let mut backlog_series = counts.backlog.clone();
    backlog_series.truncate(tally.steps());
    Some(QueueReport {
        name,
        discipline: queue.spec.discipline().name().into(),
        rate_bps,
        throughput_bps,
        utilisation: match rate_bps {
            0 => 0.0,
            bps => throughput_bps / bps as f64,
        },
        packets_in: counts.packets_in,
        packets_out: counts.packets_out,
        marks: counts.marks,
        favoured: discipline.favoured,
        reordered: discipline.reordered,
        expected: discipline.expected,
        drops: counts
            .drops
            .iter()
            .map(|(name, n)| ((*name).into(), *n))
            .collect(),
        sojourn_ms: Some(quantiles(&counts.sojourn)),
        backlog_series,
        series_step_s: tally.interval.step().as_secs_f64(),
    })
}
