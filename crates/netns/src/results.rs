//! From counters to the report.

use std::collections::BTreeMap;

use makeway_core::measure::Histogram;
use makeway_report::model::{DatagramReport, FORMAT, FlowReport, Quantiles, Report};
use makeway_scenario::model::{Flow, Scenario, Source};

use crate::bulk::Fetched;
use crate::datagram::{Received, Sent};
use crate::egress::Queue;
use crate::interval::Interval;
use crate::run::{Arrivals, Outcome, RunError, Traffic};

/// Puts a run's counters together; the queues end here.
pub(crate) fn outcome(
    scenario: &Scenario,
    traffic: Traffic,
    queues: Vec<Queue>,
    interval: Interval,
) -> Result<Outcome, RunError> {
    let mut environment = environment(&traffic.sent);
    if let Some(queue) = queues.first() {
        environment.insert("rules".into(), queue.tool.clone());
    }
    let mut warnings = Vec::new();
    let seconds = traffic.ended.saturating_sub(interval.from()) as f64 / 1e9;
    let steps = traffic.ended.div_ceil(interval.step().as_nanos()) as usize;
    let mut flows = Vec::with_capacity(scenario.flows.len());
    let mut arrivals = Vec::with_capacity(scenario.flows.len());
    let mut fetched = traffic.fetched.into_iter();
    let mut datagrams = traffic.sent.into_iter().zip(traffic.received);
    for flow in &scenario.flows {
        let mut report = blank(flow, interval);
        let mut came = Arrivals::default();
        match &flow.source {
            Source::Bulk { .. } => {
                if let Some(fetched) = fetched.next() {
                    bulk(&mut report, &fetched, seconds, interval);
                    if let Some(error) = fetched.error {
                        warnings.push(format!("flow `{}` ended early: {error}", flow.name));
                    }
                }
            }
            _ => {
                if let Some((sent, received)) = datagrams.next() {
                    datagram(&mut report, &sent, &received, seconds, interval);
                    if received.local_loss > 0 {
                        warnings.push(format!(
                            "flow `{}`: {} packets were lost by the receiver's own socket, not by \
                             the network: this machine is too busy",
                            flow.name, received.local_loss
                        ));
                    }
                    if let Some(error) = sent.error {
                        warnings.push(format!("flow `{}` ended early: {error}", flow.name));
                    }
                    came = Arrivals(received.arrived);
                }
            }
        }
        for series in [
            &mut report.goodput_series_bps,
            &mut report.loss_series,
            &mut report.delay_series_ms,
        ] {
            series.truncate(steps);
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
        seconds,
        complete: traffic.complete,
        warnings,
        flows,
        queues: reports,
    };
    Ok(Outcome { report, arrivals })
}

fn environment(sent: &[Sent]) -> BTreeMap<String, String> {
    let kernel = rustix::system::uname();
    let mut environment = BTreeMap::from([
        ("makeway".into(), env!("CARGO_PKG_VERSION").into()),
        (
            "kernel".into(),
            kernel.release().to_string_lossy().into_owned(),
        ),
    ]);
    let mut lateness = Histogram::new();
    sent.iter().for_each(|sent| lateness.merge(&sent.lateness));
    if lateness.count() > 0 {
        let ms = |d: makeway_core::units::Duration| d.as_millis_f64();
        let text = format!(
            "p50 {:.3} ms, p99 {:.3} ms, max {:.3} ms",
            ms(lateness.quantile(0.5)),
            ms(lateness.quantile(0.99)),
            ms(lateness.max())
        );
        environment.insert("sender lateness".into(), text);
    }
    environment
}

fn blank(flow: &Flow, interval: Interval) -> FlowReport {
    FlowReport {
        name: flow.name.clone(),
        group: flow.group.clone(),
        kind: match flow.source {
            Source::Bulk { .. } => "bulk",
            Source::Rtp { .. } => "rtp",
            Source::Cbr { .. } => "cbr",
            Source::Poisson { .. } => "poisson",
        }
        .into(),
        series_step_s: interval.step().as_secs_f64(),
        ..FlowReport::default()
    }
}

fn bulk(report: &mut FlowReport, fetched: &Fetched, seconds: f64, interval: Interval) {
    report.goodput_bps = per_second(fetched.bytes, seconds);
    report.goodput_series_bps = rates(&fetched.steps, interval);
}

fn datagram(
    report: &mut FlowReport,
    sent: &Sent,
    received: &Received,
    seconds: f64,
    interval: Interval,
) {
    report.goodput_bps = per_second(received.bytes, seconds);
    report.goodput_series_bps = rates(&received.bytes_steps, interval);
    let steps = sent.steps.iter().zip(&received.steps);
    report.loss_series = steps.map(|(&sent, &came)| lost(sent, came)).collect();
    let delays = received.delay_steps.iter();
    report.delay_series_ms = delays.map(|&ns| ns as f64 / 1e6).collect();
    report.datagrams = Some(DatagramReport {
        sent: sent.measured,
        received: received.measured,
        loss: lost(sent.measured, received.measured),
        delay_ms: quantiles(&received.delay),
        ipdv_ms: quantiles(received.ipdv.absolute()),
    });
}

fn lost(sent: u64, received: u64) -> f64 {
    match sent {
        0 => 0.0,
        sent => 1.0 - received as f64 / sent as f64,
    }
}

fn per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        bytes as f64 * 8.0 / seconds
    } else {
        0.0
    }
}

fn rates(steps: &[u64], interval: Interval) -> Vec<f64> {
    let steps = steps.iter().enumerate();
    steps
        .map(|(n, &bytes)| per_second(bytes, interval.step_length(n) as f64 / 1e9))
        .collect()
}

fn quantiles(histogram: &Histogram) -> Quantiles {
    Quantiles {
        mean: histogram.mean().as_millis_f64(),
        p50: histogram.quantile(0.5).as_millis_f64(),
        p99: histogram.quantile(0.99).as_millis_f64(),
        max: histogram.max().as_millis_f64(),
    }
}
