// SPDX-License-Identifier: MIT OR Apache-2.0
//! From counters to the report.

use std::collections::BTreeMap;

use makeway_core::measure::Histogram;
use makeway_report::delivery::Errors;
use makeway_report::flow::Tally;
use makeway_report::interval::Interval;
use makeway_report::model::{FORMAT, FlowReport, Lateness, Report};
use makeway_report::summary::asi;
use makeway_scenario::model::{Flow, Scenario, Source};

use crate::egress::Queue;
use crate::run::{Arrivals, Backend, Options, Outcome, RunError, Traffic};
use crate::sender::Carried;

/// Key of the senders' lateness in the environment.
const LATENESS: &str = "sender lateness";
/// A sender that was ever later than this, in ms, has sent a burst that is not in its trace: at the video's rate it is one packet. Chosen
/// by us; figures are not looked at.
pub const LATEST_MS: f64 = 2.5;

/// How long the machine may keep a sender or a queue from running, in ms, before a run counts as not measured: see
/// docs/reliability.md, which has the table that it was chosen from.
pub const STALL_MS: f64 = 10.0;

/// Puts a run's counters together; the queues end here.
pub(crate) fn outcome(
    scenario: &Scenario,
    traffic: Traffic,
    queues: Vec<Queue>,
    interval: Interval,
    options: &Options,
) -> Result<Outcome, RunError> {
    let mut environment = environment(&traffic);
    let queues_ms = queues.iter().map(Queue::late_ms).fold(0.0, f64::max);
    // Qdiscs are the kernel's, and run in guests whose time is not this machine's.
    let bears_ms = options.bears_ms.unwrap_or(STALL_MS);
    let lateness = (options.backend == Backend::Nfqueue)
        .then(|| Lateness::new(traffic.late.as_millis_f64(), queues_ms, bears_ms));
    if let Some(queue) = queues.first() {
        environment.insert("rules".into(), queue.tool.clone());
    }
    let mut warnings = Vec::new();
    let tally = Tally {
        interval,
        ended: traffic.ended,
    };
    let mut flows = Vec::with_capacity(scenario.flows.len());
    let mut arrivals = Vec::with_capacity(scenario.flows.len());
    let mut fetched = traffic.fetched.into_iter();
    let mut carried = traffic.carried.into_iter();
    let mut datagrams = traffic.sent.into_iter().zip(traffic.received);
    for flow in &scenario.flows {
        let mut report = blank(flow);
        let mut came = Arrivals::default();
        match &flow.source {
            Source::Bulk { .. } => {
                if let Some(fetched) = fetched.next() {
                    tally.bulk(&mut report, &fetched.bytes);
                    if let Some(error) = fetched.error {
                        warnings.push(format!("flow `{}` ended early: {error}", flow.name));
                    }
                }
            }
            Source::Media(_) => {
                if let Some(Carried {
                    media, local_loss, ..
                }) = carried.next()
                {
                    tally.datagram(&mut report, &media.sent, &media.received);
                    // Nobody here sees the queue, so estimates of it stay unjudged.
                    let errors = Errors::default();
                    tally.media(&mut report, &media.classes, &media.rates, &errors);
                    warnings.extend(lost_here(flow, local_loss));
                }
            }
            _ => {
                if let Some((sent, received)) = datagrams.next() {
                    tally.datagram(&mut report, &sent.counts, &received.counts);
                    if let Some(voice) = flow.voice {
                        tally.voice(&mut report, voice.encoder_delay);
                    }
                    warnings.extend(lost_here(flow, received.local_loss));
                    if let Some(error) = sent.error {
                        warnings.push(format!("flow `{}` ended early: {error}", flow.name));
                    }
                    came = Arrivals(received.arrived);
                }
            }
        }
        flows.push(report);
        arrivals.push(came);
    }
    let mut reports = Vec::new();
    for queue in queues {
        reports.extend(queue.finish(interval)?);
    }
    let report = Report {
        format: FORMAT,
        title: scenario.title.clone(),
        world: "netns".into(),
        environment,
        set: scenario.set.clone(),
        seed: scenario.seed,
        seconds: tally.seconds(),
        complete: traffic.complete,
        lateness,
        warnings,
        asi: asi(&flows),
        flows,
        queues: reports,
        radios: Vec::new(),
    };
    Ok(Outcome { report, arrivals })
}

fn lost_here(flow: &Flow, packets: u64) -> Option<String> {
    (packets > 0).then(|| {
        format!(
            "flow `{}`: {packets} packets were lost by the receiver's own socket, not by the network: this machine \
             is too busy",
            flow.name
        )
    })
}

fn environment(traffic: &Traffic) -> BTreeMap<String, String> {
    let kernel = rustix::system::uname();
    let mut environment = BTreeMap::from([
        ("makeway".into(), env!("CARGO_PKG_VERSION").into()),
        (
            "kernel".into(),
            kernel.release().to_string_lossy().into_owned(),
        ),
    ]);
    let mut lateness = Histogram::new();
    let sent = traffic.sent.iter().map(|sent| &sent.lateness);
    let carried = traffic.carried.iter().map(|carried| &carried.lateness);
    sent.chain(carried).for_each(|of| lateness.merge(of));
    if lateness.count() > 0 {
        let ms = |d: makeway_core::units::Duration| d.as_millis_f64();
        let text = format!(
            "p50 {:.3} ms, p99 {:.3} ms, max {:.3} ms",
            ms(lateness.quantile(0.5)),
            ms(lateness.quantile(0.99)),
            ms(lateness.max())
        );
        environment.insert(LATENESS.into(), text);
    }
    environment
}

/// How late a sender of the run was at worst, in ms; `None` where none recorded it: the kernel's TCP is no sender of ours.
pub fn lateness(report: &Report) -> Option<f64> {
    let text = report.environment.get(LATENESS)?;
    let worst = text.split("max ").nth(1)?;
    worst.split(' ').next()?.parse().ok()
}

fn blank(flow: &Flow) -> FlowReport {
    FlowReport {
        name: flow.name.clone(),
        group: flow.group.clone(),
        kind: flow.source.kind().into(),
        ..FlowReport::default()
    }
}
