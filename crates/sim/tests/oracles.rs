// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulator against closed forms and against itself.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;

use makeway_core::units::{Bytes, Duration};
use makeway_report::model::{QueueReport, Report};
use makeway_scenario::Scenario;
use makeway_sim::tcp::{Config, Variant};
use makeway_sim::{Options, Outcome, run_in_full};

fn scenario(text: &str, set: &[&str]) -> Scenario {
    let set: Vec<String> = set.iter().map(|s| (*s).into()).collect();
    makeway_scenario::parse(text, "test.toml", Path::new("."), &set).unwrap()
}

fn outcome(scenario: &Scenario) -> Outcome {
    run_in_full(scenario, &Options::default(), |_| {}).unwrap()
}

fn report(text: &str, set: &[&str]) -> Report {
    outcome(&scenario(text, set)).report
}

fn queue(report: &Report) -> &QueueReport {
    &report.queues[0]
}

/// Poisson arrivals of 1500 B at a link of 10 Mbit/s.
const SINGLE_QUEUE: &str = include_str!("queue.toml");

#[test]
fn waits_are_those_of_m_d_1() {
    // rho / (2 (1 - rho)) services of 1.2 ms each.
    for (rate, wait) in [("5mbit", 0.6), ("8mbit", 2.4), ("9mbit", 5.4)] {
        let set = format!("flow.poisson.rate={rate}");
        let report = report(SINGLE_QUEUE, &[&set]);
        let mean = queue(&report).mean_sojourn_ms();
        // A million packets and more: the interval of the mean is about 2 % at 90 % load.
        assert!(
            (mean / wait - 1.0).abs() < 0.04,
            "{rate}: {mean} ms for {wait}"
        );
    }
}

#[test]
fn the_fullest_buffer_is_that_of_its_limit_and_every_packet_is_accounted_for() {
    let set = [
        "flow.poisson.rate=15mbit",
        "duration=20s",
        "link.line.queue.limit=10 packets",
    ];
    let report = report(SINGLE_QUEUE, &set);
    let queue = queue(&report);
    let dropped: u64 = queue.drops.values().sum();
    assert_eq!(queue.packets_in, queue.packets_out + dropped);
    assert!(queue.backlog_series.iter().all(|n| *n <= 10.0));
    let stream = report.flows[0].datagrams.as_ref().unwrap();
    assert_eq!(stream.sent, stream.received + dropped);
    assert!((queue.throughput_bps / 1e7 - 1.0).abs() < 1e-3);
}

/// Ten downloads and a stream through a bottleneck, over a link that delays.
const DUMBBELL: &str = r#"
title = "dumbbell"
duration = "20s"
warmup = "2s"
seed = 7
[node.server]
[node.router]
[node.client]
[link.access]
between = ["server", "router"]
rate = "100mbit"
framing = "ip"
delay = "4ms"
[link.line]
between = ["router", "client"]
rate = "10mbit"
framing = "ip"
delay = "6ms"
queue = { at = "router", discipline = "sqf", limit = "100 packets" }
[flow.download]
kind = "bulk"
from = "server"
to = "client"
count = 10
congestion_control = "reno"
stagger = "10ms"
[flow.call]
kind = "cbr"
from = "server"
to = "client"
rate = "1mbit"
payload = "460B"
"#;

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let set = "flow.call.kind=poisson";
    let run = |seed: &str| outcome(&scenario(DUMBBELL, &[set, seed])).fingerprint;
    assert_eq!(run("seed=1"), run("seed=1"));
    assert_ne!(run("seed=1"), run("seed=2"));
}

#[test]
fn every_discipline_fills_the_line_and_sqf_keeps_the_call_whole() {
    for discipline in ["fifo", "fq", "pfq", "sqf", "hier", "prio"] {
        let set = format!("link.line.queue.discipline={discipline}");
        let report = report(DUMBBELL, &[&set]);
        assert!(
            queue(&report).utilisation > 0.99,
            "{discipline}: {:?}",
            queue(&report)
        );
        // Framing is IP's own, and what left the queue came to the receivers.
        let ip: f64 = report.flows.iter().filter_map(|flow| flow.ip_bps).sum();
        assert!((ip / queue(&report).throughput_bps - 1.0).abs() < 1e-3);
        let call = report.flows.last().unwrap().datagrams.clone().unwrap();
        match discipline {
            "fifo" => assert!(call.loss > 0.0 && call.delay_ms.p50 > 50.0),
            "sqf" => assert!(call.loss == 0.0 && call.delay_ms.p99 < 15.0, "{call:?}"),
            _ => {}
        }
    }
}

/// Doubling every rate and halving every time is the same run, played twice as fast.
#[test]
fn twice_as_fast_is_the_same_run() {
    let slow = report(DUMBBELL, &["flow.download.count=1"]);
    let fast = report(
        DUMBBELL,
        &[
            "flow.download.count=1",
            "duration=10s",
            "warmup=1s",
            "link.access.rate=200mbit",
            "link.line.rate=20mbit",
            "link.access.delay=2ms",
            "link.line.delay=3ms",
            "flow.call.rate=2mbit",
        ],
    );
    // TCP's timers have times of their own: its least timeout and delayed acknowledgement.
    let goodput = |report: &Report| report.flows[0].goodput_bps;
    assert!((goodput(&fast) / goodput(&slow) / 2.0 - 1.0).abs() < 0.02);
    let call = |report: &Report| report.flows[1].datagrams.clone().unwrap();
    assert_eq!(call(&slow).sent, call(&fast).sent);
    assert!((call(&slow).delay_ms.p50 / call(&fast).delay_ms.p50 / 2.0 - 1.0).abs() < 0.05);
}

#[test]
fn what_cannot_be_simulated_is_refused_with_what_can() {
    let scenario = scenario(DUMBBELL, &["flow.download.congestion_control=bbr"]);
    let error = run_in_full(&scenario, &Options::default(), |_| {}).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("test.toml:20") && text.contains("choose cubic, reno"),
        "{text}"
    );
}

/// One download over a link whose other end is a millisecond away.
const ONE_DOWNLOAD: &str = r#"
title = "one download"
duration = "60s"
warmup = "0s"
[node.server]
[node.client]
[link.line]
between = ["server", "client"]
rate = "8mbit"
framing = "ip"
delay = "10ms"
queue = { at = "server", discipline = "fifo", limit = "50 packets" }
[flow.download]
kind = "bulk"
from = "server"
to = "client"
congestion_control = "reno"
"#;

fn mean(series: &[f64]) -> f64 {
    series.iter().sum::<f64>() / series.len() as f64
}

#[test]
fn a_link_follows_its_rates_and_an_outage_holds_what_is_on_it() {
    let steps = r#"link.line.changes={at="server",steps=[["10s","2mbit"],["20s","0bit"],["25s","4mbit"]],every="30s"}"#;
    let report = report(ONE_DOWNLOAD, &[steps]);
    let goodput = &report.flows[0].goodput_series_bps;
    // Steps of half a second. 1448 of 1500 B are payload; the second round is as the first, but for
    // its beginning at 4 Mbit/s.
    for (from, to, mbit) in [(4, 20, 8.0), (22, 40, 2.0), (54, 80, 4.0), (82, 100, 2.0)] {
        let got = mean(&goodput[from..to]) / 1e6;
        let most = mbit * 1448.0 / 1500.0;
        assert!(
            (got / most - 1.0).abs() < 0.03,
            "{got} of {most} from {from}"
        );
    }
    assert_eq!(mean(&goodput[41..50]), 0.0);
    // (8 * 10 + 2 * 10 + 4 * 5 + 4 * 10 + 2 * 10 + 4 * 5) / 60
    let queue = queue(&report);
    assert_eq!(queue.rate_bps, 3_333_333);
    assert!(queue.utilisation > 0.97, "{}", queue.utilisation);
    let held = queue.packets_in - queue.packets_out - queue.drops.values().sum::<u64>();
    assert_eq!(held, 0);
}

#[test]
fn what_is_under_way_at_the_end_comes_to_its_end_or_is_counted() {
    // An outage from the last second on: the backlog is sent at 1 bit/s, long after the end.
    let steps = r#"link.line.changes={at="server",steps=[["59s","0bit"]]}"#;
    let report = report(ONE_DOWNLOAD, &[steps]);
    let queue = queue(&report);
    let dropped = queue.drops.values().sum::<u64>();
    assert_eq!(queue.packets_in, queue.packets_out + dropped);
    // A sample each half second, none after the end.
    assert_eq!(queue.backlog_series.len(), 120);
}

#[test]
fn a_stream_that_stops_before_it_begins_sends_nothing() {
    let set = ["flow.poisson.stop=1ms", "duration=5s"];
    let scenario = scenario(SINGLE_QUEUE, &set);
    for replication in 1..30 {
        let options = Options {
            replication,
            ..Options::default()
        };
        let outcome = run_in_full(&scenario, &options, |_| {}).unwrap();
        let stream = outcome.report.flows[0].datagrams.clone().unwrap();
        // About 0.7 are due in a millisecond, whenever that begins.
        assert!(stream.sent <= 6, "{}", stream.sent);
    }
}

#[test]
fn a_download_that_takes_no_time_is_refused() {
    let text = ONE_DOWNLOAD
        .replace("rate = \"8mbit\"", "")
        .replace("delay = \"10ms\"", "")
        .replace(
            "queue = { at = \"server\", discipline = \"fifo\", limit = \"50 packets\" }",
            "",
        );
    let error = run_in_full(&scenario(&text, &[]), &Options::default(), |_| {}).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("the RTT of its path is 0") && error.contains("test.toml:"),
        "{error}"
    );
}

#[test]
fn a_stop_is_seen_within_a_step_of_the_series() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let scenario = scenario(ONE_DOWNLOAD, &["link.line.rate=10gbit", "duration=1000s"]);
    let options = Options::default();
    let stop = options.stop.clone();
    let (begun, mut after) = (AtomicBool::new(false), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !begun.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
        });
        let report = run_in_full(&scenario, &options, |_| {
            begun.store(true, Ordering::Relaxed);
            // At the end of each step.
            after += u32::from(stop.load(Ordering::Relaxed));
        });
        let report = report.unwrap().report;
        assert!(!report.complete && report.seconds < 1000.0);
    });
    assert!(after <= 1, "{after} steps ended after the stop");
}

#[test]
fn bursts_of_loss_have_their_share_and_their_length() {
    let set = [
        "link.line.loss=[{p=0.01,r=0.25,bad=1.0},0.0]",
        "link.line.rate=100mbit",
        "duration=500s",
    ];
    let report = report(SINGLE_QUEUE, &set);
    let queue = queue(&report);
    let lost = queue.drops["loss"] as f64 / queue.packets_out as f64;
    assert!((lost / (0.01 / 0.26) - 1.0).abs() < 0.05, "{lost}");
}

#[test]
fn what_understands_marks_is_marked_and_loses_little() {
    for queue in ["codel", "fq-codel", "cake", "red"] {
        let discipline = format!("link.line.queue.discipline={queue}");
        let run = |ecn: bool| {
            let queue_ecn = format!("link.line.queue.ecn={ecn}");
            let tcp_ecn = format!("flow.download.tcp.ecn={ecn}");
            report(ONE_DOWNLOAD, &[&discipline, &queue_ecn, &tcp_ecn])
        };
        let (with, without) = (run(true), run(false));
        let lost = |report: &Report| self::queue(report).drops.values().sum::<u64>();
        // The first slow start may still overrun RED's upper threshold, or the buffer.
        assert!(self::queue(&with).marks > 10, "{queue}");
        assert_eq!(self::queue(&without).marks, 0, "{queue}");
        assert!(
            lost(&without) > 10 && lost(&with) * 3 < lost(&without),
            "{queue} {} {}",
            lost(&with),
            lost(&without)
        );
        assert!(
            with.flows[0].goodput_bps > 0.95 * without.flows[0].goodput_bps,
            "{queue}"
        );
    }
}

#[test]
fn tasks_follow_one_another_and_are_timed() {
    let set = [
        "flow.download.bytes=1MB",
        "flow.download.think=500ms",
        "duration=600s",
    ];
    let report = report(ONE_DOWNLOAD, &set);
    let tasks = report.flows[0].tasks.unwrap();
    // A megabyte at 8 Mbit/s on IP takes 1.036 s, and some round trips of 20 ms for the window.
    assert!(
        (1036.0..1300.0).contains(&tasks.completion_ms.p50),
        "{tasks:?}"
    );
    let over_time = &report.flows[0].tasks_series;
    assert!(over_time.is_sorted());
    let last = over_time.last().copied().unwrap_or_default();
    assert!((0.0..2.0).contains(&(last - tasks.done as f64)), "{last}");
    let cycle = tasks.completion_ms.mean / 1e3 + 0.5;
    let expected = 600.0 / cycle;
    assert!(
        (tasks.done as f64 / expected - 1.0).abs() < 0.1,
        "{tasks:?}"
    );
    let once = outcome(&scenario(ONE_DOWNLOAD, &["flow.download.bytes=1MB"])).report;
    assert_eq!(once.flows[0].tasks.unwrap().done, 1);
    let bits: f64 = once.flows[0].goodput_bps * once.seconds;
    assert_eq!(bits.round(), 8e6);
}

/// 25 kB each 40 ms are 5 Mbit/s, which a link of 8 Mbit/s carries: each takes 26 ms and a part of the round trip of 20 ms.
#[test]
fn an_application_writes_at_its_own_rate_over_tcp() {
    let set = [
        "flow.download.bytes=25kB",
        "flow.download.every=40ms",
        "duration=60s",
    ];
    let report = report(ONE_DOWNLOAD, &set);
    let flow = &report.flows[0];
    assert!((flow.goodput_bps / 5e6 - 1.0).abs() < 0.01, "{flow:?}");
    let tasks = flow.tasks.unwrap();
    assert!((tasks.done as f64 * 0.04 / report.seconds - 1.0).abs() < 0.02);
    assert!((35.0..60.0).contains(&tasks.completion_ms.p50), "{tasks:?}");
}

/// Three downloads of one program share a queue where a flow is a source port; beside another download that is half of the link.
#[test]
fn flows_of_one_program_are_one_by_source_port() {
    let other = r#"
[flow.other]
kind = "bulk"
from = "server"
to = "client"
congestion_control = "reno"
"#;
    let share = |shared: bool| {
        let set = [
            "flow.download.count=3",
            "link.line.queue.discipline=fq",
            "link.line.queue.flows=src-port",
            &format!("flow.download.shared_port={shared}"),
        ];
        let report = report(&[ONE_DOWNLOAD, other].concat(), &set);
        let all: f64 = report.flows.iter().map(|flow| flow.goodput_bps).sum();
        let own = report.flows.iter().find(|flow| flow.name == "other");
        own.unwrap().goodput_bps / all
    };
    let [apart, together] = [false, true].map(share);
    assert!((apart - 0.25).abs() < 0.02, "{apart}");
    assert!((together - 0.5).abs() < 0.03, "{together}");
}

/// Small packets before large ones: 0.1 load of 100 B, 0.7 of 1500 B.
const TWO_CLASSES: &str = r#"
title = "two classes"
duration = "500s"
warmup = "0s"
[node.first]
[node.second]
[node.router]
[node.client]
[link.first]
between = ["first", "router"]
framing = "ip"
[link.second]
between = ["second", "router"]
framing = "ip"
[link.line]
between = ["router", "client"]
rate = "10mbit"
framing = "ip"
queue = { at = "router", discipline = "prio", limit = "10000 packets", users = "src-host", weights = { first = 2 } }
[flow.small]
kind = "poisson"
from = "first"
to = "client"
rate = "1mbit"
payload = "60B"
[flow.large]
kind = "poisson"
from = "second"
to = "client"
rate = "7mbit"
payload = "1460B"
"#;

#[test]
fn waits_under_priority_are_cobhams_and_under_fifo_those_of_m_g_1() {
    // W0 = 0.424 ms: W0 / (1 - 0.1), that over (1 - 0.8); W0 / (1 - 0.8).
    for (discipline, small, large) in [("prio", 0.4711, 2.3556), ("fifo", 2.12, 2.12)] {
        let set = format!("link.line.queue.discipline={discipline}");
        let report = report(TWO_CLASSES, &[&set]);
        let seen = [0, 1].map(|n| report.flows[n].datagrams.as_ref().unwrap().delay_ms.mean);
        // Less the packet's own time at 10 Mbit/s.
        let waits = [seen[0] - 0.08, seen[1] - 1.2];
        for (wait, expected) in waits.into_iter().zip([small, large]) {
            let apart = (wait / expected - 1.0).abs();
            assert!(apart < 0.04, "{discipline}: {wait} ms for {expected}");
        }
    }
}

#[test]
fn a_short_buffer_loses_what_m_m_1_10_says() {
    let set = [
        "link.line.rate=40mbit",
        "flow.poisson.sizes=exponential",
        "flow.poisson.payload=5960B",
        "flow.poisson.rate=36mbit",
        // Ten with the one in service.
        "link.line.queue.limit=9 packets",
    ];
    let report = report(SINGLE_QUEUE, &set);
    let lost = queue(&report).drops["tail"] as f64 / queue(&report).packets_in as f64;
    // (1 - a) a^10 / (1 - a^11) for a = 0.9.
    assert!((lost / 0.050_814 - 1.0).abs() < 0.02, "{lost}");
}

/// Nine downloads through 1.5 Mbit/s and 26 ms, as ns-2's RED has them.
const NINE_DOWNLOADS: &str = r#"
title = "RED"
duration = "600s"
warmup = "0s"
[node.server]
[node.client]
[link.line]
between = ["server", "client"]
rate = "1.5mbit"
framing = "ip"
delay = "13ms"
queue = { at = "server", discipline = "red", limit = "50 packets", red = { min = 5, max = 15, weight = 0.002, max_p = 0.1, mean_packet = "500B" } }
[flow.download]
kind = "bulk"
from = "server"
to = "client"
count = 9
stagger = "11ms"
"#;

#[test]
fn red_drops_and_holds_what_it_does_in_ns_2() {
    // ns-2.35 with its defaults, a window of 100 and no limited transmit, 20 seeds: 1.4370 to 1.4378 Mbit/s
    // of payload, 8.99 to 9.19 % dropped, 15.75 to 15.79 packets on average.
    let tcp = Config {
        window: Bytes::new(100_000),
        initial_ssthresh: Bytes::new(100_000),
        initial_window: 2,
        initial_rto: Duration::from_secs(3),
        min_rto: Duration::from_millis(200),
        tick: Duration::from_millis(10),
        ..Config::ns2(Variant::NewReno)
    };
    let options = Options {
        tcp: Some(tcp),
        ..Options::default()
    };
    let scenario = scenario(NINE_DOWNLOADS, &[]);
    let report = run_in_full(&scenario, &options, |_| {}).unwrap().report;
    let queue = queue(&report);
    let payload: f64 = report.flows.iter().map(|flow| flow.goodput_bps / 1e6).sum();
    let dropped = queue.drops.values().sum::<u64>() as f64 / queue.packets_in as f64;
    let mean = queue.packets_out as f64 * queue.mean_sojourn_ms() / 1e3 / 600.0;
    for (what, seen, expected) in [
        ("payload", payload, 1.4374),
        ("dropped", dropped, 0.0912),
        ("mean queue", mean, 15.78),
    ] {
        assert!((seen / expected - 1.0).abs() < 0.02, "{what}: {seen}");
    }
}
