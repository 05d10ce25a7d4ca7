// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replications: independent of each other, and each the same for any backlog at the bottleneck.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;

use makeway_report::estimate::Estimate;
use makeway_report::model::{FlowReport, Report};
use makeway_sim::{Options, Outcome, run_in_full};

/// Streams from behind a lossy link, a download beside them that fills the link, nothing dropped there.
const SCENARIO: &str = r#"
duration = "8s"
[node.media]
[node.web]
[node.router]
[node.client]
[link.media]
between = ["media", "router"]
loss = 0.05
jitter = "1ms"
delay = "10ms"
[link.web]
between = ["web", "router"]
rate = "100mbit"
[link.line]
between = ["router", "client"]
rate = "5mbit"
delay = "10ms"
queue = { at = "router", discipline = "fifo", limit = "20000 packets" }
[flow.download]
kind = "bulk"
from = "web"
to = "client"
[flow.poisson]
kind = "poisson"
from = "media"
to = "client"
rate = "500kbit"
payload = "500B"
[flow.jittered]
kind = "cbr"
from = "media"
to = "client"
rate = "500kbit"
jitter = "3ms"
"#;

fn run(set: &[&str], replication: u64) -> Outcome {
    let set: Vec<String> = set.iter().map(|s| (*s).into()).collect();
    let scenario = makeway_scenario::parse(SCENARIO, "test.toml", Path::new("."), &set).unwrap();
    let options = Options {
        replication,
        ..Options::default()
    };
    run_in_full(&scenario, &options, |_| {}).unwrap()
}

fn flow<'a>(report: &'a Report, name: &str) -> &'a FlowReport {
    report.flows.iter().find(|f| f.name == name).unwrap()
}

#[test]
fn sources_and_links_are_the_same_whatever_the_discipline() {
    for replication in [0, 1, 7] {
        let [fifo, sqf] = ["fifo", "sqf"].map(|name| {
            let set = format!("link.line.queue.discipline={name}");
            run(&[&set], replication)
        });
        assert_ne!(fifo.fingerprint, sqf.fingerprint);
        for name in ["poisson", "jittered"] {
            let [fifo, sqf] = [&fifo, &sqf].map(|outcome| flow(&outcome.report, name));
            let [a, b] = [fifo, sqf].map(|f| f.datagrams.as_ref().unwrap());
            // Which packets are sent when, and which of them the lossy link loses.
            assert_eq!((a.sent, a.received), (b.sent, b.received), "{name}");
            assert_eq!(fifo.loss_series, sqf.loss_series, "{name}");
            // The queue between makes the difference, and nothing else.
            assert!(a.delay_ms.mean > 2.0 * b.delay_ms.mean, "{name}");
        }
    }
}

#[test]
fn each_replication_has_losses_of_its_own_and_can_be_had_again() {
    let fingerprint = |replication| run(&[], replication).fingerprint;
    let [first, second, third] = [0, 1, 2].map(fingerprint);
    assert!(first != second && second != third && first != third);
    assert_eq!(second, fingerprint(1));
    let losses = |replication| {
        let report = run(&[], replication).report;
        flow(&report, "poisson").loss_series.clone()
    };
    assert_ne!(losses(1), losses(2));
}

#[test]
fn a_replication_of_one_seed_is_none_of_the_next_seed() {
    let of = |seed: &str| [0, 1, 2].map(|n| run(&[seed], n).fingerprint);
    let (one, two) = (of("seed=1"), of("seed=2"));
    assert!(one.iter().all(|n| !two.contains(n)));
}

#[test]
fn replications_differ_where_a_scenario_has_nothing_random() {
    let plain = [
        "link.media.loss=0",
        "link.media.jitter=0s",
        "flow.poisson.kind=cbr",
        "flow.jittered.jitter=0s",
    ];
    let prints = [0, 1, 2].map(|replication| run(&plain, replication).fingerprint);
    assert!(prints[0] != prints[1] && prints[1] != prints[2]);
    let seeds = ["seed=1", "seed=2"].map(|seed| {
        let mut set = plain.to_vec();
        set.push(seed);
        run(&set, 0).fingerprint
    });
    assert_eq!(seeds[0], seeds[1]);
}

#[test]
fn intervals_hold_the_true_mean_about_as_often_as_they_say() {
    let holds = |seed: u64| {
        // At half of the link rate: 0.6 ms of waiting, 1.8 ms in all (M/D/1).
        let set = [
            format!("seed={seed}"),
            "duration=21s".into(),
            "warmup=1s".into(),
            "flow.poisson.rate=5mbit".into(),
        ];
        let text = include_str!("queue.toml");
        let scenario = makeway_scenario::parse(text, "test.toml", Path::new("."), &set).unwrap();
        let delays = (0..8).map(|replication| {
            let options = Options {
                replication,
                ..Options::default()
            };
            let report = run_in_full(&scenario, &options, |_| {}).unwrap().report;
            report.flows[0].datagrams.as_ref().unwrap().delay_ms.mean
        });
        let delay = Estimate::of(delays);
        (delay.mean - 1.8).abs() <= delay.half_width.unwrap()
    };
    // 95 of 100 are expected, with a standard deviation of 2.2.
    let held = (1..=100).filter(|seed| holds(*seed)).count();
    assert!((89..=99).contains(&held), "{held} of 100");
}
