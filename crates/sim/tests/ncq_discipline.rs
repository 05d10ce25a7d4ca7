// SPDX-License-Identifier: MIT OR Apache-2.0
//! NCQ in the simulator: against the closed forms of its paper, and as reports show it.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;

use makeway_report::model::Report;
use makeway_sim::{Options, run};

fn report(text: &str, set: &[&str]) -> Report {
    let set: Vec<String> = set.iter().map(|s| (*s).into()).collect();
    let scenario = makeway_scenario::parse(text, "ncq.toml", Path::new("."), &set).unwrap();
    run(&scenario, &Options::default(), |_| {}).unwrap()
}

/// Section 4.1: 10 % of the packets take 0.5 ms, the others 5 ms, at a load of 0.6. 125 B and 1250 B at 2 Mbit/s.
const ANALYSIS: &str = r#"
title = "section 4.1"
duration = "8000s"
warmup = "0s"
[node.sensors]
[node.server]
[node.router]
[node.client]
[link.first]
between = ["sensors", "router"]
framing = "ip"
[link.second]
between = ["server", "router"]
framing = "ip"
[link.line]
between = ["router", "client"]
rate = "2mbit"
framing = "ip"
queue = { at = "router", discipline = "ncq", limit = "10000 packets", ncq = {} }
[flow.short]
kind = "poisson"
from = "sensors"
to = "client"
rate = "13187bit"
payload = "85B"
[flow.long]
kind = "poisson"
from = "server"
to = "client"
rate = "1186813bit"
payload = "1210B"
"#;

/// Mean time in the system in ms of both classes, service included, and the share of packets that was favoured.
fn analysis(set: &[&str]) -> ([f64; 2], f64) {
    let set: Vec<String> = set
        .iter()
        .map(|s| format!("link.line.queue.ncq.{s}"))
        .collect();
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let report = report(ANALYSIS, &set);
    let delay = |n: usize| report.flows[n].datagrams.as_ref().unwrap().delay_ms.mean;
    let queue = &report.queues[0];
    let share = queue.favoured as f64 / queue.packets_in as f64;
    ([delay(0), delay(1)], share)
}

fn is_close(seen: [f64; 2], expected: [f64; 2], within: f64) {
    for (seen, expected) in seen.into_iter().zip(expected) {
        let apart = (seen / expected - 1.0).abs();
        assert!(apart < within, "{seen} ms for {expected}");
    }
}

#[test]
fn without_a_threshold_delays_are_those_of_eq_4_and_5_and_with_none_of_pollaczek_and_khinchine() {
    // W0 = 1.48515 ms, u1 = 0.0065934: W0 / (1 - u1) + 0.5, W0 / (1 - u1) / 0.4 + 5; W0 / 0.4 + 0.5, + 5.
    let (seen, share) = analysis(&["threshold=1"]);
    is_close(seen, [1.995, 8.738], 0.02);
    assert!((share / 0.1 - 1.0).abs() < 0.02, "{share}");
    let (seen, share) = analysis(&["threshold=0"]);
    is_close(seen, [4.213, 8.713], 0.02);
    assert_eq!(share, 0.0);
}

#[test]
fn with_a_threshold_half_of_the_short_packets_go_first_as_kthresh_the_right_way_round_says() {
    // kthresh = 0.05 / 0.1, where the paper prints 0.05 * 0.1 (which gives 3.904 ms by its eq. (9) and (15)).
    // u1' = 0.0032967: 0.5 W0 / (1 - u1') (1 + 1 / 0.4) + 0.5, W0 / (1 - u1') / 0.4 + 5.
    let (seen, share) = analysis(&["threshold=0.05", "probabilistic=true"]);
    is_close(seen, [3.108, 8.725], 0.02);
    assert!((share / 0.05 - 1.0).abs() < 0.01, "{share}");
}

#[test]
fn counters_favour_as_many_and_leave_behind_those_who_find_a_shorter_queue() {
    // The closed form is that of a coin. A packet soon after a favoured one is refused, when fewer wait than usual: the
    // short wait less than it says, by up to an eighth (tests/ncq.rs has the same of a model).
    let (seen, share) = analysis(&["threshold=0.05"]);
    assert!((share / 0.05 - 1.0).abs() < 0.01, "{share}");
    let [wait, expected] = [seen[0], 3.108].map(|delay| delay - 0.5);
    assert!(
        (0.86..0.98).contains(&(wait / expected)),
        "{wait} ms for {expected}"
    );
    assert!((seen[1] / 8.725 - 1.0).abs() < 0.02, "{}", seen[1]);
}

#[test]
fn the_threshold_settles_where_the_conservation_law_says() {
    // u1 / (0.6 (1 - u1)) = 0.003 at u1 = 0.0017968: 0.027251 of the packets.
    let settled = |threshold, probabilistic| {
        analysis(&["window=5000", "extra_wait=0.003", threshold, probabilistic]).1
    };
    for threshold in ["threshold=0.05", "threshold=0.001"] {
        let share = settled(threshold, "probabilistic=true");
        assert!(
            (share / 0.027_251 - 1.0).abs() < 0.05,
            "{threshold}: {share}"
        );
    }
}

/// A call of 120 B packets in too great a number beside a download, whose acknowledgements share a link with an
/// upload.
const BOTH_WAYS: &str = r#"
title = "both ways"
duration = "20s"
warmup = "2s"
[node.server]
[node.router]
[node.client]
[link.access]
between = ["server", "router"]
delay = "10ms"
[link.line]
between = ["router", "client"]
rate = "4mbit"
queue = [
    { at = "router", discipline = "ncq", limit = "50 packets", ncq = { threshold = 0.05 } },
    { at = "client", discipline = "ncq", limit = "50 packets", ncq = { threshold = 1 } },
]
[flow.download]
kind = "bulk"
from = "server"
to = "client"
[flow.upload]
kind = "bulk"
from = "client"
to = "server"
[flow.call]
kind = "cbr"
from = "server"
to = "client"
rate = "512kbit"
payload = "80B"
"#;

#[test]
fn acknowledgements_are_told_from_data_and_quicken_the_download_where_they_go_first() {
    let goodput = |control: bool| {
        let set = format!("link.line.queue.1.ncq.control={control}");
        let report = report(BOTH_WAYS, &[&set]);
        assert_eq!(report.queues[1].favoured > 0, control);
        report.flows[0].goodput_bps
    };
    let [without, with] = [false, true].map(goodput);
    assert!(with > without, "{with} {without}");
}

#[test]
fn reordering_is_reported_and_may_be_forbidden() {
    let reordered = |keep_order: bool| {
        let set = format!("link.line.queue.0.ncq.keep_order={keep_order}");
        let queue = report(BOTH_WAYS, &[&set]).queues.remove(0);
        assert!(queue.favoured > 0);
        queue.reordered
    };
    assert!(reordered(false) > 100);
    assert_eq!(reordered(true), 0);
}
