//! CHOKe against what is known of it.

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
    // Who sends much more has much less.
    assert!(shares[2] < shares[1] / 2.0, "{shares:?}");
}
