// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probabilistic Packet Scheduling's own experiments, with the defaults: who is due what gets it.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;

use makeway_report::model::Report;
use makeway_scenario::load;
use makeway_sim::{Options, run};

/// A run of 600 s of a scenario of the paper.
fn run_of(file: &str, set: &[&str]) -> Report {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/papers/pps");
    let set: Vec<String> = set.iter().map(|set| set.to_string()).collect();
    let scenario = load(&folder.join(file), &set).unwrap();
    run(&scenario, &Options::default(), |_| {}).unwrap()
}

fn mbit(report: &Report) -> Vec<f64> {
    let rates = report.flows.iter().map(|flow| flow.ip_bps.unwrap() / 1e6);
    rates.collect()
}

/// The largest relative distance of a flow to its ideal.
fn worst(report: &Report, ideal: &[f64]) -> f64 {
    let rates = mbit(report).into_iter().zip(ideal);
    rates
        .map(|(x, ideal)| (x / ideal - 1.0).abs())
        .fold(0.0, f64::max)
}

#[test]
fn nine_flows_share_a_link_as_tickets_were_issued() {
    // Fig. 5: flow i is issued 100 i tickets/s of 4500 and is due 1.5 i / 45 Mbit/s.
    let report = run_of("one-hop.toml", &[]);
    let rates = mbit(&report);
    let due: Vec<f64> = (1..=9).map(|i| 1.5 * f64::from(i) / 45.0).collect();
    assert!(worst(&report, &due) <= 0.10, "{rates:?}");
    // Least squares through the origin.
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        let points = rates.iter().zip(&due);
        points.map(|(rate, due)| f(*rate, *due)).sum()
    };
    let slope = sum(&|rate, due| rate * due) / sum(&|_, due| due * due);
    let mean = sum(&|rate, _| rate) / 9.0;
    let rest = sum(&|rate, due| (rate - slope * due).powi(2));
    let r2 = 1.0 - rest / sum(&|rate, _| (rate - mean).powi(2));
    assert!(r2 >= 0.99, "{r2} {rates:?}");
    let queue = &report.queues[0];
    assert!(queue.utilisation >= 0.98, "{}", queue.utilisation);
    // Section 2.4.2: with K = 1.4 it is more than 98 % in the paper.
    let within = queue.expected as f64 / queue.packets_in as f64;
    assert!(within >= 0.98, "{within}");
}

#[test]
fn tickets_keep_their_share_through_currencies_and_round_trips() {
    // Tables 1, 4 and 6 (b): what the paper measured was up to 4, 5.5 and 7 % off.
    for (file, set, ideal, most) in [
        ("multi-hop.toml", &[][..], &[0.5, 0.25, 0.25][..], 0.04),
        (
            "bottlenecks.toml",
            &["link.q.rate=10mbit", "link.r.rate=1mbit"],
            &[2.0 / 3.0, 4.0 / 3.0, 1.0 / 3.0],
            0.055,
        ),
        ("rtt.toml", &[], &[0.1; 10], 0.07),
    ] {
        let report = run_of(file, set);
        let worst = worst(&report, ideal);
        assert!(worst <= most, "{file}: {worst} {:?}", mbit(&report));
    }
}
