// SPDX-License-Identifier: MIT OR Apache-2.0
//! A link that sends at the times of a trace of Mahimahi: when each packet leaves it.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::fs;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use makeway_report::model::Report;
use makeway_scenario::Scenario;
use makeway_sim::trace::{Recorder, Taps};
use makeway_sim::{Options, run_traced};

const SCENARIO: &str = r#"
duration = "1s"
[node.server]
[node.client]
[link.line]
between = ["server", "client"]
rate = "10mbit"
framing = "ip"
delay = "3ms"
changes = { at = "server", file = "trace.txt", exact = true }
queue = { at = "server", discipline = "fifo", limit = "20 packets" }
[flow.stream]
kind = "cbr"
from = "server"
to = "client"
rate = "12mbit"
payload = "1460B"
"#;

/// Two opportunities at 5 ms, one at 20 ms, and again from there.
const TRACE: &str = "5\n5\n20\n";

fn scenario(name: &str, set: &[&str]) -> Scenario {
    let folder = std::env::temp_dir().join(format!("makeway-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("trace.txt"), TRACE).unwrap();
    let set: Vec<String> = set.iter().map(|s| (*s).into()).collect();
    let scenario = makeway_scenario::parse(SCENARIO, "test.toml", &folder, &set).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    scenario
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// When packets left, in ms, and the report.
fn departures(scenario: &Scenario) -> (Vec<f64>, Report) {
    let (mut recorder, file) = (Recorder::new(scenario), Shared::default());
    let taps = Taps::find(scenario, "line:server").unwrap();
    recorder.ns2(scenario, &taps, "test", Box::new(file.clone()));
    let outcome = run_traced(scenario, &Options::default(), recorder, |_| {}).unwrap();
    let text = String::from_utf8(std::mem::take(&mut *file.0.lock().unwrap())).unwrap();
    let left = text.lines().filter_map(|line| {
        let time: f64 = line.strip_prefix("- ")?.split(' ').next()?.parse().ok()?;
        Some((time * 1e6).round() / 1e3)
    });
    (left.collect(), outcome.report)
}

#[test]
fn a_full_queue_uses_every_opportunity_at_its_millisecond() {
    let (left, report) = departures(&scenario("whole", &[]));
    let expected: Vec<f64> = (0..50)
        .flat_map(|round| [5.0, 5.0, 20.0].map(|ms| ms + 20.0 * f64::from(round)))
        .collect();
    assert_eq!(left[..150], expected);
    let queue = &report.queues[0];
    // 36 kbit in 20 ms; the queue is empty for the first millisecond.
    assert_eq!(queue.rate_bps, 1_800_000);
    assert!(queue.utilisation > 0.99, "{}", queue.utilisation);
    // Everything leaves in the end, or was dropped.
    let dropped: u64 = queue.drops.values().sum();
    assert_eq!(queue.packets_in, queue.packets_out + dropped);
    assert_eq!(left.len() as u64, queue.packets_out);
}

#[test]
fn small_packets_share_an_opportunity_and_a_packet_leaves_with_its_last_byte() {
    // Two of 750 B each time.
    let (left, _) = departures(&scenario("half", &["flow.stream.payload=710B"]));
    assert_eq!(left[..8], [5.0, 5.0, 5.0, 5.0, 20.0, 20.0, 25.0, 25.0]);
    // Of 1000 B: 3000 B by 5 ms, 4500 B by 20 ms, 7500 B by 25 ms, 9000 B by 40 ms.
    let (left, _) = departures(&scenario("parts", &["flow.stream.payload=960B"]));
    assert_eq!(
        left[..9],
        [5.0, 5.0, 5.0, 20.0, 25.0, 25.0, 25.0, 40.0, 40.0]
    );
}

#[test]
fn an_opportunity_without_a_packet_is_lost() {
    // A packet each 40 ms, at which a round ends: it finds that opportunity gone, and takes the next.
    let (left, report) = departures(&scenario("idle", &["flow.stream.rate=300kbit"]));
    assert!(left.len() >= 24, "{left:?}");
    assert!(left.iter().all(|ms| ms % 40.0 == 5.0), "{left:?}");
    let delay = report.flows[0].datagrams.as_ref().unwrap().delay_ms;
    assert!((delay.mean - 8.0).abs() < 0.2, "{}", delay.mean);
}

#[test]
fn the_same_trace_without_exact_is_a_rate() {
    let rate = r#"link.line.changes={ at = "server", file = "trace.txt" }"#;
    let (left, _) = departures(&scenario("rate", &[rate]));
    // 1500 B take 6.67 ms at 1.8 Mbit/s, and transmission begins at once.
    assert!(
        left[0] < 0.001 && (left[1] - 6.667).abs() < 0.01,
        "{left:?}"
    );
}
