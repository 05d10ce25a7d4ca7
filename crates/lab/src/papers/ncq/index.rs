// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Application Satisfaction Index by other readings of its formula, one thing changed at a time: the same runs tell all of them.

use makeway_core::measure::{Service, asi, asi_as_printed};
use makeway_report::model::{FlowReport, Quantiles, Report};
use makeway_report::summary;

use crate::papers::figures::largest;

/// A reading, with its name in tables.
pub type Reading = (&'static str, fn(&Report) -> f64);

/// The first is that of the verdicts.
pub const READINGS: [Reading; 5] = [
    (
        "of all flows, each term's absolute value, delays above the flow's least",
        of_flows,
    ),
    ("the absolute value of the sum, as printed", as_printed),
    (
        "Delay_max the largest 99th percentile instead of the largest delay",
        by_p99,
    ),
    ("of two classes instead of flows", of_classes),
    ("of the downloads alone", of_downloads),
];

fn of_flows(report: &Report) -> f64 {
    report.asi.unwrap_or(f64::NAN)
}

/// Flows that received something, with their mean delay.
fn active(report: &Report) -> impl Iterator<Item = (&FlowReport, f64)> {
    let active = report.flows.iter().filter(|flow| flow.goodput_bps > 0.0);
    active.map(|flow| (flow, flow.queueing.map_or(f64::NAN, |wait| wait.mean_ms)))
}

fn services(report: &Report) -> Vec<Service> {
    let service = |(flow, delay): (&FlowReport, f64)| Service {
        delay,
        data: flow.goodput_bps,
    };
    active(report).map(service).collect()
}

/// The largest of a figure of delays over the flows.
fn most(report: &Report, of: fn(&FlowReport) -> Option<f64>) -> f64 {
    largest(active(report).map(|(flow, _)| of(flow).unwrap_or(f64::NAN)))
}

fn largest_delay(flow: &FlowReport) -> Option<f64> {
    flow.queueing.map(|wait| wait.max_ms)
}

fn as_printed(report: &Report) -> f64 {
    let most = most(report, largest_delay);
    asi_as_printed(&services(report), most).unwrap_or(f64::NAN)
}

fn by_p99(report: &Report) -> f64 {
    let most = most(report, |flow| flow.queueing.map(|wait| wait.p99_ms));
    asi(&services(report), most).unwrap_or(f64::NAN)
}

/// Index of two classes, the downloads and the flows that the paper favours: it takes flows or classes.
pub fn of_classes(report: &Report) -> f64 {
    let class = |is_download: bool| {
        let of_class = |(flow, _): &(&FlowReport, f64)| match flow.group.as_str() {
            "download" => is_download,
            "call" | "sensor" => !is_download,
            _ => false,
        };
        let flows: Vec<(&FlowReport, f64)> = active(report).filter(of_class).collect();
        Service {
            delay: flows.iter().map(|(_, delay)| delay).sum::<f64>() / flows.len() as f64,
            data: flows.iter().map(|(flow, _)| flow.goodput_bps).sum(),
        }
    };
    let most = most(report, largest_delay);
    asi(&[true, false].map(class), most).unwrap_or(f64::NAN)
}

fn of_downloads(report: &Report) -> f64 {
    let downloads = report.flows.iter().filter(|flow| flow.group == "download");
    let downloads: Vec<FlowReport> = downloads.cloned().collect();
    summary::asi(&downloads).unwrap_or(f64::NAN)
}

/// Index of all flows by waits at the one router, counted from 0, not from the flow's least: downloads wait as packets of its queue do on
/// average, any other flow as long as its delay exceeds `empty` ms; `Delay_max` is the largest of both.
pub fn by_waits(report: &Report, empty: f64) -> f64 {
    let mut queues = report.queues.iter();
    let queue = queues.find(|queue| queue.name == "left -> right");
    let waits = |of: fn(Quantiles) -> f64| {
        let sojourn = queue.and_then(|queue| queue.sojourn_ms);
        sojourn.map_or(f64::NAN, of)
    };
    let service = |(flow, _): (&FlowReport, f64)| Service {
        delay: match &flow.datagrams {
            Some(datagrams) => datagrams.delay_ms.mean - empty,
            None => waits(|x| x.mean),
        },
        data: flow.goodput_bps,
    };
    let services: Vec<Service> = active(report).map(service).collect();
    let datagrams = active(report).filter_map(|(flow, _)| flow.datagrams.as_ref());
    let delays = datagrams.map(|datagrams| datagrams.delay_ms.max - empty);
    let most = largest(delays.chain([waits(|x| x.max)]));
    asi(&services, most).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use makeway_report::model::{DatagramReport, QueueReport, QueueingReport};

    use super::*;
    use crate::papers::tests::made_up;

    fn flow(group: &str, kbit: f64, mean_ms: f64, max_ms: f64) -> FlowReport {
        FlowReport {
            group: group.into(),
            goodput_bps: kbit * 1e3,
            queueing: Some(QueueingReport {
                mean_ms,
                p99_ms: max_ms / 2.0,
                max_ms,
                ..QueueingReport::default()
            }),
            ..FlowReport::default()
        }
    }

    #[test]
    fn readings_differ_in_one_thing_each() {
        let flows = vec![
            flow("download", 600.0, 40.0, 100.0),
            flow("download", 300.0, 20.0, 80.0),
            flow("call", 100.0, 10.0, 50.0),
            flow("call", 0.0, 90.0, 90.0),
        ];
        let report = Report {
            asi: summary::asi(&flows),
            ..made_up(60.0, flows, vec![])
        };
        let found = READINGS.map(|(_, of)| of(&report));
        // Shares of 0.6, 0.3 and 0.1 of 100 ms; then of 50 ms; classes of 0.9 and 0.1; downloads of 2/3 and 1/3.
        let expected = [
            1.0 - (20.0 + 10.0 + 0.0) / 300.0,
            1.0 - (70.0_f64 - 100.0).abs() / 300.0,
            1.0 - (10.0 + 5.0 + 5.0) / 150.0,
            1.0 - (60.0 + 0.0) / 200.0,
            1.0 - (200.0 / 3.0 - 40.0 + 100.0 / 3.0 - 20.0) / 200.0,
        ];
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }

    #[test]
    fn waits_at_the_router_are_counted_from_zero_and_the_largest_is_of_all_flows() {
        let mut call = flow("call", 100.0, 1.0, 5.0);
        call.datagrams = Some(DatagramReport {
            delay_ms: Quantiles {
                mean: 40.0,
                ..Quantiles::default()
            },
            ..DatagramReport::default()
        });
        let queue = QueueReport {
            name: "left -> right".into(),
            sojourn_ms: Some(Quantiles {
                mean: 20.0,
                max: 50.0,
                ..Quantiles::default()
            }),
            ..QueueReport::default()
        };
        let flows = vec![flow("download", 900.0, 40.0, 100.0), call];
        let mut report = made_up(60.0, flows, vec![queue]);
        // Shares of 0.9 and 0.1 of 50 ms, for waits of 20 and 10 ms.
        let expected = 1.0 - (25.0 + 5.0) / 100.0;
        assert!((by_waits(&report, 30.0) - expected).abs() < 1e-12);
        // A datagram that waited 100 ms elsewhere too: of those.
        let datagrams = report.flows[1].datagrams.as_mut().unwrap();
        datagrams.delay_ms.max = 130.0;
        let expected = 1.0 - (70.0 + 0.0) / 200.0;
        assert!((by_waits(&report, 30.0) - expected).abs() < 1e-12);
        report.queues.clear();
        assert!(by_waits(&report, 30.0).is_nan());
    }

    #[test]
    fn a_delay_that_is_not_known_leaves_every_reading_unknown() {
        let mut unknown = flow("download", 600.0, 40.0, 100.0);
        unknown.queueing = None;
        let flows = vec![unknown, flow("call", 100.0, 10.0, 50.0)];
        let report = Report {
            asi: summary::asi(&flows),
            ..made_up(60.0, flows, vec![])
        };
        assert!(READINGS.iter().all(|(_, of)| of(&report).is_nan()));
    }
}
