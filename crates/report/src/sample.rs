// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small report for tests.

use std::collections::BTreeMap;

use crate::model::{DatagramReport, FORMAT, FlowReport, Quantiles, QueueReport, Report};

/// Two downloads and a stream of which `loss` is lost, under `discipline`.
pub(crate) fn report(discipline: &str, loss: f64) -> Report {
    let bulk = |n: u32| FlowReport {
        name: format!("download-{n}"),
        group: "download".into(),
        kind: "bulk".into(),
        goodput_bps: 2.0e6,
        goodput_series_bps: vec![1.9e6, 2.1e6],
        series_step_s: 1.0,
        ..FlowReport::default()
    };
    let stream = |name: &str, bps: f64| FlowReport {
        name: name.into(),
        group: name.into(),
        kind: "rtp".into(),
        goodput_bps: bps * (1.0 - loss),
        datagrams: Some(DatagramReport {
            sent: 1000,
            received: (1000.0 * (1.0 - loss)) as u64,
            loss,
            on_time: 1.0 - loss,
            delay_ms: Quantiles {
                mean: 30.0,
                p50: 31.0,
                p99: 60.0,
                max: 65.0,
            },
            ipdv_ms: Quantiles {
                mean: 1.0,
                p50: 0.8,
                p99: 4.0,
                max: 9.0,
            },
        }),
        goodput_series_bps: vec![bps, bps],
        loss_series: vec![loss, loss],
        delay_series_ms: vec![30.0, 60.0],
        series_step_s: 1.0,
        ..FlowReport::default()
    };
    Report {
        format: FORMAT,
        title: "A call and two downloads".into(),
        world: "netns".into(),
        environment: BTreeMap::from([("kernel".into(), "6.18".into())]),
        set: BTreeMap::new(),
        seed: 1,
        seconds: 2.0,
        complete: true,
        lateness: None,
        warnings: Vec::new(),
        asi: None,
        radios: Vec::new(),
        flows: vec![
            bulk(1),
            bulk(2),
            stream("video", 5.0e6),
            stream("audio", 64e3),
        ],
        queues: vec![QueueReport {
            name: "router -> client".into(),
            discipline: discipline.into(),
            rate_bps: 10_000_000,
            throughput_bps: 9.6e6,
            utilisation: 0.96,
            packets_in: 5000,
            packets_out: 4800,
            marks: 0,
            favoured: 0,
            reordered: 0,
            expected: 0,
            drops: BTreeMap::from([("longest-queue".into(), 200)]),
            sojourn_ms: Some(Quantiles {
                mean: 20.0,
                p50: 18.0,
                p99: 58.0,
                max: 61.0,
            }),
            backlog_series: vec![40.0, 48.0],
            series_step_s: 1.0,
        }],
    }
}
