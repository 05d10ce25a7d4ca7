// SPDX-License-Identifier: MIT OR Apache-2.0
//! ABRC beside a download at an access point: the share that is asked for comes out.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;

use makeway_report::model::Report;
use makeway_sim::{Options, run};

/// Occupancies in packets, no pairs, and a least B_T without the path.
const PRINTED: &str = "unit = \"packets\", pair_each = 0, path = \"none\"";

fn report(rate: &str, set: &[&str]) -> Report {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"));
    let rate = format!("flow.stream.rate={{ kind = \"abrc\", first = \"7mbit\", {rate} }}");
    let set: Vec<String> = set
        .iter()
        .copied()
        .chain([rate.as_str(), "duration=120s"])
        .map(String::from)
        .collect();
    let scenario = makeway_scenario::load(&folder.join("papers/abrc/wlan.toml"), &set).unwrap();
    run(&scenario, &Options::default(), |_| {}).unwrap()
}

fn ratio(report: &Report) -> f64 {
    let rate = |kind: &str| {
        let flows = report.flows.iter().filter(|flow| flow.kind == kind);
        flows.map(|flow| flow.goodput_bps).sum::<f64>()
    };
    rate("media") / rate("bulk")
}

#[test]
fn a_stream_gets_k_times_the_rate_of_what_is_beside_it() {
    for (k, downloads) in [(0.5, 2), (1.0, 1), (3.0, 1)] {
        let second = format!("flow.second.count={}", downloads - 1);
        let ratio = ratio(&report(&format!("k = {k}"), &[&second]));
        assert!((ratio / k - 1.0).abs() < 0.1, "{ratio} for {k}");
    }
}

/// B_T of k = 3 and the download's window are more packets than these buffers hold. Departures by number include the drops of a full buffer.
#[test]
fn a_small_buffer_is_not_flooded() {
    for (k, packets, within) in [(3.0, 100, 0.1), (1.0, 100, 0.1), (3.0, 50, 0.5)] {
        let report = report(
            &format!("k = {k}"),
            &[&format!("wlan.cell.queue.limit={packets} packets")],
        );
        let ratio = ratio(&report);
        assert!(
            (ratio / k - 1.0).abs() < within,
            "{ratio} for {k}, {packets} packets"
        );
    }
}

/// Evenly paced, streams of a fifth or a sixth of the rate seldom have two packets in succession: pairs show T_UDP.
#[test]
fn several_streams_have_beta_of_the_rate_each() {
    for ks in [&[0.25, 0.25][..], &[0.2, 0.2, 0.2]] {
        let others = ["other", "third"].iter().zip(&ks[1..]);
        let set: Vec<String> = others
            .flat_map(|(stream, k)| {
                let rate = format!("{{ kind = \"abrc\", first = \"7mbit\", k = {k} }}");
                [
                    format!("flow.{stream}.count=1"),
                    format!("flow.{stream}.rate={rate}"),
                ]
            })
            .collect();
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let report = report(&format!("k = {}", ks[0]), &set);
        let all: f64 = report.flows.iter().map(|flow| flow.goodput_bps).sum();
        let streams = report.flows.iter().filter(|flow| flow.kind == "media");
        for (flow, k) in streams.zip(ks) {
            let share = flow.goodput_bps / all * (k + 1.0) / k;
            assert!(
                (0.85..1.15).contains(&share),
                "{} of {ks:?}: {share}",
                flow.name
            );
        }
    }
}

#[test]
fn the_shortest_time_between_packets_is_that_of_a_lucky_backoff() {
    // (6) with k = 1 / k_T: T_mix = 2 * 1.618 ms, less 1.928 ms for the packet itself, is left for a segment and half an
    // acknowledgement, 1.928 + 0.28 ms: 1.69 times the download's rate instead of 1.
    let printed =
        format!("k = 1, t_udp = \"shortest\", acks = 0, leaving = \"received\", {PRINTED}");
    let ratio = ratio(&report(&printed, &[]));
    assert!((ratio / 1.69 - 1.0).abs() < 0.06, "{ratio}");
}

#[test]
fn what_the_radio_loses_does_not_lower_the_rate() {
    let lossy = [
        "wlan.cell.loss=0.05",
        "wlan.cell.retry_limit=1",
        "flow.download.count=0",
    ];
    let rate = |rate: &str, set: &[&str]| {
        let report = report(rate, set);
        report
            .flows
            .iter()
            .map(|flow| flow.goodput_bps)
            .sum::<f64>()
    };
    let without = rate("k = 1", &lossy[2..]);
    let with = rate("k = 1", &lossy);
    assert!(with > 0.93 * without, "{with} of {without}");
    // By what is received S settles at B_T / p, 5 / 0.05 packets per second.
    let printed = format!("k = 1, leaving = \"received\", {PRINTED}");
    let printed = rate(&printed, &lossy);
    assert!(
        (printed / (100.0 * 1464.0 * 8.0 * 0.95) - 1.0).abs() < 0.1,
        "{printed}"
    );
}

#[test]
fn the_estimate_of_what_waits_is_a_packet_or_two_too_large() {
    let report = report("k = 1", &[]);
    let media = report.flows.iter().find_map(|flow| flow.media.clone());
    let occupancy = media.unwrap().occupancy.unwrap();
    // One each second, but for the last.
    assert!((88..=90).contains(&occupancy.estimates), "{occupancy:?}");
    assert!((0.0..2.0).contains(&occupancy.mean_error), "{occupancy:?}");
    assert!(occupancy.within_two > 0.9, "{occupancy:?}");
}
