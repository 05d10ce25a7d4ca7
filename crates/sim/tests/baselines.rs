// SPDX-License-Identifier: MIT OR Apache-2.0
//! CHOKe and CSFQ against what is known of them.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;

use makeway_report::model::Report;
use makeway_sim::{Options, run};

fn report(text: &str, set: &[&str]) -> Report {
    let set: Vec<String> = set.iter().map(|s| (*s).into()).collect();
    let scenario = makeway_scenario::parse(text, "test.toml", Path::new("."), &set).unwrap();
    run(&scenario, &Options::default(), |_| {}).unwrap()
}

/// Mbit/s of `flow`, headers included.
fn mbit(report: &Report, flow: &str) -> f64 {
    let flow = report.flows.iter().find(|f| f.name == flow).unwrap();
    flow.ip_bps.unwrap() / 1e6
}

/// The setting of the CHOKe paper's Fig. 3: 32 TCP flows and one that sends at a fixed rate share 1 Mbit/s.
const UNRESPONSIVE: &str = r#"
title = "32 downloads and a flood"
duration = "200s"
warmup = "50s"
[node.servers]
[node.source]
[node.router]
[node.sink]
[link.servers]
between = ["servers", "router"]
rate = "10mbit"
framing = "ip"
delay = "1ms"
[link.source]
between = ["source", "router"]
rate = "10mbit"
framing = "ip"
delay = "1ms"
[link.line]
between = ["router", "sink"]
rate = "1mbit"
framing = "ip"
delay = "1ms"
queue = { at = "router", discipline = "choke", limit = "300 packets", red = { min = 100, max = 200, wait = false, gentle = false } }
[flow.download]
kind = "bulk"
from = "servers"
to = "sink"
count = 32
congestion_control = "newreno"
tcp = { preset = "ns2", mss = "960B", window = "300kB" }
[flow.flood]
kind = "cbr"
from = "source"
to = "sink"
rate = "2mbit"
payload = "960B"
"#;

#[test]
fn choke_bounds_the_share_of_who_does_not_slow_down() {
    let red = report(UNRESPONSIVE, &["link.line.queue.discipline=red"]);
    let red = mbit(&red, "flood");
    assert!(red > 0.9, "{red}");
    let mut shares = Vec::new();
    for rate in ["1mbit", "2mbit", "5mbit"] {
        let set = format!("flow.flood.rate={rate}");
        let choke = mbit(&report(UNRESPONSIVE, &[&set]), "flood");
        // The most for any rate, with many TCP flows: 1 / (1 + e) = 0.269 (Tang, Wang, Low, INFOCOM 2003).
        assert!(choke < 0.29, "{rate}: {choke}");
        shares.push(choke);
    }
    // A sender of much more has much less.
    assert!(shares[2] < shares[1] / 2.0, "{shares:?}");
}

/// The CSFQ paper's Fig. 5: flow `n` of 32 sends n times the fair share of 10 Mbit/s, over a congested link that is the
/// edge, or over an edge and then a congested core.
fn fig_5(edge: &str, core: &str) -> String {
    let mut text = format!(
        r#"
title = "32 flows of n shares each"
duration = "100s"
warmup = "10s"
[node.source]
[node.edge]
[node.core]
[node.sink]
[link.access]
between = ["source", "edge"]
framing = "ip"
[link.first]
between = ["edge", "core"]
rate = "{edge}"
framing = "ip"
queue = {{ at = "edge", discipline = "csfq", limit = "64kB" }}
[link.second]
between = ["core", "sink"]
rate = "{core}"
framing = "ip"
queue = {{ at = "core", discipline = "csfq", limit = "64kB", csfq = {{ edge = false }} }}
"#
    );
    for n in 1..=32 {
        let bits = 312_500 * n;
        text += &format!(
            "[flow.f{n}]\nkind = \"cbr\"\nfrom = \"source\"\nto = \"sink\"\nrate = \"{bits}bit\"\npayload = \"960B\"\n"
        );
    }
    text
}

#[test]
fn csfq_gives_each_of_32_floods_its_share_at_the_edge_and_in_the_core() {
    // 165 Mbit/s come.
    for (edge, core) in [("10mbit", "100mbit"), ("200mbit", "10mbit")] {
        let report = report(&fig_5(edge, core), &[]);
        for n in 1..=32 {
            let of_share = mbit(&report, &format!("f{n}")) / 0.3125;
            // The first sends just its share, and rates waver about it.
            let least = if n == 1 { 0.85 } else { 0.93 };
            assert!(
                of_share > least && of_share < 1.07,
                "{edge} {n}: {of_share}"
            );
            println!("{edge} {n}: {of_share}");
        }
    }
}
