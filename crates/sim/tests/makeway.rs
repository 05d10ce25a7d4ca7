// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway` with the model of TCP: what windows of packets alone do not show.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;

use makeway_core::theory::makeway::{Downloads, Link};
use makeway_core::units::{Bytes, Rate};
use makeway_report::model::FlowReport;
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

fn flows(set: &[&str], replication: u64) -> Vec<FlowReport> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"));
    let set: Vec<String> = set.iter().map(|one| (*one).into()).collect();
    let scenario = makeway_scenario::parse(SCENARIO, "apart.toml", folder, &set).unwrap();
    let options = Options {
        replication,
        ..Options::default()
    };
    makeway_sim::run(&scenario, &options, |_| {}).unwrap().flows
}

/// Share of the video within 150 ms.
fn on_time(apart: u32, replication: u64) -> f64 {
    let stagger = format!("flow.download.stagger={apart}ms");
    let flows = flows(&[&stagger], replication);
    let video = flows.iter().find(|flow| flow.group == "video");
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

/// One download over a fast link, whose buffer is too short for it to fill the link. A stream of 20 Mbit/s begins after 6 s.
const ONE_DOWNLOAD: [&str; 6] = [
    "link.bottleneck.rate=100mbit",
    "link.web.rate=1gbit",
    "flow.download.count=1",
    "flow.video.rate=20mbit",
    "flow.video.start=6s",
    "duration=30s",
];

/// Share of the video within 150 ms, and the download's goodput in Mbit/s, beside one download.
fn beside_one(set: &[&str], replication: u64) -> (f64, f64) {
    let set: Vec<&str> = ONE_DOWNLOAD.iter().chain(set).copied().collect();
    let flows = flows(&set, replication);
    let video = flows.iter().find(|flow| flow.group == "video").unwrap();
    let download = flows.iter().find(|flow| flow.group == "download").unwrap();
    (
        video.datagrams.as_ref().unwrap().on_time,
        download.goodput_bps / 1e6,
    )
}

/// The download came to standing while nobody wanted more, and its queue is short, since it is clocked by it. It filled the buffer alone
/// before, so that it is tested as soon as the link is contended; otherwise 41 to 78 % of the stream are on time. The stream leaves it 80 Mbit/s.
#[test]
fn a_stream_beside_a_download_that_had_an_idle_link_is_served() {
    let long = [
        "link.web.delay=71ms",
        "link.bottleneck.queue.limit=294 packets",
    ];
    let short = [
        "link.web.delay=14.5ms",
        "link.bottleneck.queue.limit=55 packets",
        "flow.download.congestion_control=reno",
    ];
    for replication in 101..=106 {
        for set in [&long[..], &short[..]] {
            let (on_time, rest) = beside_one(set, replication);
            assert!(
                on_time > 0.95,
                "{set:?}, replication {replication}: {on_time}"
            );
            assert!(
                rest > 40.0,
                "{set:?}, replication {replication}: {rest} Mbit/s"
            );
        }
    }
}

/// Each frame loses its end, so that the stream is never without a loss.
#[test]
fn a_stream_whose_frames_are_longer_than_the_buffer_is_served() {
    let set = [
        "link.bottleneck.rate=50mbit",
        "link.web.rate=100mbit",
        "link.bottleneck.queue.limit=87 packets",
        "flow.video.pace=burst",
        "flow.download.congestion_control=ledbat",
    ];
    for replication in 101..=106 {
        let (on_time, _) = beside_one(&set, replication);
        assert!(on_time > 0.965, "replication {replication}: {on_time}");
    }
}

/// The promise of `makeway plan`, for the token bucket that the trace keeps to: 5 Mbit/s and 212 kB, and 4 % of headers.
#[test]
fn a_video_waits_no_longer_than_is_promised_and_downloads_have_the_rest() {
    let link = Link {
        rate: Rate::from_bps(10_000_000),
        quantum: Bytes::new(1538),
        packet: Bytes::new(1500),
        buffer: Bytes::new(300_000),
    };
    let (rate, burst) = (5.2e6, 212_000.0 * 8.0 * 1.04);
    let promised = link.delay(Downloads::Own, 1, rate, burst) * 1e3;
    for replication in 1..=10 {
        let set = ["warmup=10s", "duration=30s", "flow.video.pace=burst"];
        let flows = flows(&set, replication);
        let video = flows.iter().find(|flow| flow.group == "video");
        let video = video.unwrap().datagrams.as_ref().unwrap();
        // 6 ms of propagation, and a packet on each link.
        let waited = video.delay_ms.max - 6.0 - 1.4;
        assert!(waited <= promised, "{waited} ms of {promised} ms");
        assert!(
            waited > promised / 4.0,
            "{waited} ms of {promised} ms: too easy"
        );
        assert_eq!(video.loss, 0.0);
        let downloads = flows.iter().filter(|flow| flow.group == "download");
        let rest: f64 = downloads.map(|flow| flow.goodput_bps).sum();
        // With headers, 66 B of each packet of 1514 B.
        let rest = rest * 1514.0 / 1448.0;
        assert!(rest > 0.95 * (1e7 - rate), "{rest} bit/s");
    }
}
