// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway` with the model of TCP: what windows of packets alone do not show.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;

use makeway_sim::Options;

const SCENARIO: &str = r#"
duration = "20s"
warmup = "4s"
[node.web]
[node.router]
[node.client]
[link.web]
between = ["web", "router"]
rate = "100mbit"
delay = "5ms"
[link.bottleneck]
between = ["router", "client"]
rate = "10mbit"
delay = "1ms"
queue = { at = "router", discipline = "makeway", limit = "100 packets" }
[flow.download]
kind = "bulk"
from = "web"
to = "client"
count = 10
stagger = "500ms"
[flow.video]
kind = "rtp"
from = "web"
to = "client"
trace = "traces/mpeg2-5m.csv"
pace = "frame"
"#;

/// Share of the video within 150 ms.
fn on_time(apart: u32, replication: u64) -> f64 {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"));
    let set = [format!("flow.download.stagger={apart}ms")];
    let scenario = makeway_scenario::parse(SCENARIO, "apart.toml", folder, &set).unwrap();
    let options = Options {
        replication,
        ..Options::default()
    };
    let report = makeway_sim::run(&scenario, &options, |_| {}).unwrap();
    let video = report.flows.iter().find(|flow| flow.group == "video");
    video.unwrap().datagrams.as_ref().unwrap().on_time
}

/// Each download that begins fills the buffer once. A stream that is not in standing yet loses by it, again and again, for
/// longer than it may be new.
#[test]
fn a_stream_beside_downloads_that_begin_one_after_the_other_comes_to_stand() {
    for apart in [300, 400, 500] {
        for replication in 1..=30 {
            let on_time = on_time(apart, replication);
            assert!(
                on_time > 0.98,
                "{apart} ms apart, replication {replication}: {on_time}"
            );
        }
    }
}
