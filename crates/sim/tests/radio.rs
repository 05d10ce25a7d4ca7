// SPDX-License-Identifier: MIT OR Apache-2.0
//! Radio channels in scenarios: an access point, and 25 stations that find their ways by AODV.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;

use makeway_report::model::{FlowReport, RadioReport, Report};
use makeway_scenario::Scenario;
use makeway_sim::{Options, run, run_in_full};
use proptest::prelude::*;

fn read(text: &str) -> Scenario {
    makeway_scenario::parse(text, "radio.toml", Path::new("."), &[]).unwrap()
}

fn report(text: &str) -> Report {
    run(&read(text), &Options::default(), |_| {}).unwrap()
}

fn flow<'a>(report: &'a Report, name: &str) -> &'a FlowReport {
    report.flows.iter().find(|flow| flow.name == name).unwrap()
}

fn radio<'a>(report: &'a Report, name: &str) -> &'a RadioReport {
    let of = |radio: &&RadioReport| radio.station == name;
    report.radios.iter().find(of).unwrap()
}

/// Packets of a stream that came, and that were sent.
fn came(report: &Report, name: &str) -> (u64, u64) {
    let datagrams = flow(report, name).datagrams.as_ref().unwrap();
    (datagrams.received, datagrams.sent)
}

/// A grid of 5 by 5 stations `n0` to `n24`, 200 m apart, so that each understands those beside, above and
/// below; `n0` is in a corner. `more` is put into the channel, `flows` behind it.
fn grid(seconds: u32, more: &str, flows: &str) -> String {
    let nodes: Vec<String> = (0..25).map(|n| format!("n{n} = {{}}")).collect();
    let stations: Vec<String> = (0..25).map(|n| format!("\"n{n}\"")).collect();
    let places: Vec<String> = (0..25)
        .map(|n| format!("[{}, {}]", n % 5 * 200, n / 5 * 200))
        .collect();
    format!(
        "duration = \"{seconds}s\"\n[node]\n{}\n[wlan.grid]\nstations = [{}]\nplaces = [{}]\n{more}\n{flows}",
        nodes.join("\n"),
        stations.join(", "),
        places.join(", ")
    )
}

fn cbr(name: &str, from: &str, to: &str, more: &str) -> String {
    format!(
        "[flow.{name}]\nkind = \"cbr\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"16kbit\"\npayload = \"60B\"\n{more}\n"
    )
}

#[test]
fn every_station_of_a_grid_is_reached_over_the_others() {
    let ends = [(0, 24), (4, 20), (24, 0), (12, 3), (10, 14)];
    let flows = ends.iter().enumerate().map(|(n, (from, to))| {
        let start = format!("start = \"{}ms\"", 107 * n);
        cbr(
            &format!("f{n}"),
            &format!("n{from}"),
            &format!("n{to}"),
            &start,
        )
    });
    let report = report(&grid(60, "", &flows.collect::<String>()));
    let all = (0..ends.len()).map(|n| came(&report, &format!("f{n}")));
    let (got, sent) = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    eprintln!("{got} of {sent} packets came");
    assert!(sent > 5900);
    assert!(got as f64 >= 0.99 * sent as f64, "{got} of {sent}");
}

/// Stations between the ends of a flow from `n10` to `n14` that carry it.
fn relays(report: &Report) -> Vec<String> {
    let ends = ["n10", "n14"];
    let carries = |r: &&RadioReport| r.frames > 200 && !ends.contains(&r.station.as_str());
    let radios = report.radios.iter().filter(carries);
    radios.map(|radio| radio.station.clone()).collect()
}

#[test]
fn a_way_is_repaired_after_a_station_on_it_dies() {
    let flow = cbr("f", "n10", "n14", "");
    let before = report(&grid(20, "", &flow));
    // Four hops, straight on.
    let relays_before = relays(&before);
    assert_eq!(came(&before, "f"), (400, 400));
    assert_eq!(relays_before.len(), 3);
    for dead in &relays_before {
        let after = report(&grid(60, &format!("off = {{ {dead} = \"20s\" }}"), &flow));
        let (got, sent) = came(&after, "f");
        eprintln!("without {dead}: {got} of {sent}");
        // Packets in flight or at the source: less than a second of them.
        assert_eq!(sent, 1200);
        assert!((1180..=1200).contains(&got), "{got}");
        let radio = radio(&after, dead);
        let on = radio.send_s + radio.receive_s + radio.idle_s;
        assert!((on - 20.0).abs() < 1e-9, "{on}");
        let others = relays(&after);
        assert!(
            others.iter().any(|r| !relays_before.contains(r)),
            "{others:?}"
        );
    }
}

/// A stream from an access point, whose channel loses frames.
fn lossy(loss: f64, tries: u32) -> Report {
    report(&format!(
        "duration = \"200s\"\nnode = {{ ap = {{}}, phone = {{}} }}\n[wlan.home]\nstations = [\"ap\", \"phone\"]\n\
         access_point = \"ap\"\n{MEASURED}loss = {loss}\nretry_limit = {tries}\n{}",
        cbr("f", "ap", "phone", "")
    ))
}

#[test]
fn what_a_channel_loses_is_sent_again_up_to_the_retry_limit() {
    for (loss, tries) in [(0.1, 1), (0.4, 2), (0.5, 7)] {
        let report = lossy(loss, tries);
        let (got, sent) = came(&report, "f");
        let expected = loss.powi(tries as i32);
        let share = 1.0 - got as f64 / sent as f64;
        let error = 3.0 * (expected * (1.0 - expected) / sent as f64).sqrt();
        assert!((share - expected).abs() < error, "{share} for {expected}");
        assert_eq!(lost(&report, "retries"), sent - got);
    }
    assert_eq!(lossy(0.0, 1).radios[0].failures, 0);
}

/// Packets dropped at stations, for one reason.
fn lost(report: &Report, why: &str) -> u64 {
    let queues = report.queues.iter();
    queues.filter_map(|queue| queue.drops.get(why)).sum()
}

const MEASURED: &str = "queue = { discipline = \"fifo\", limit = \"50 packets\" }\n";

#[test]
fn what_cannot_be_reached_is_given_up_and_counted() {
    let flow = cbr("f", "n0", "n24", "");
    let more = format!("{MEASURED}off = {{ n19 = \"20s\", n23 = \"20s\" }}");
    let report = report(&grid(60, &more, &flow));
    let (got, sent) = came(&report, "f");
    assert!((399..=400).contains(&got), "{got}");
    assert_eq!(sent, 1200);
    let [no_route, retries, off] = ["no-route", "retries", "off"].map(|why| lost(&report, why));
    assert_eq!(got + no_route + retries + off, sent);
    assert!(no_route > 790, "{no_route}");
}

#[test]
fn a_grid_and_a_wire_are_one_network() {
    let flows = cbr("up", "n24", "far", "") + &cbr("down", "far", "n20", "");
    let wire = "[link.wire]\nbetween = [\"n0\", \"far\"]\nrate = \"1mbit\"\ndelay = \"5ms\"\n";
    let text = grid(20, "", &(wire.to_owned() + &flows)).replacen("[node]", "[node]\nfar = {}", 1);
    let report = report(&text);
    for name in ["up", "down"] {
        let (got, sent) = came(&report, name);
        assert!(got >= 395 && sent == 400, "{name}: {got} of {sent}");
    }
}

fn home(more: &str) -> Scenario {
    let text = include_str!("../../../scenarios/examples/wireless.toml");
    read(&format!("{text}\n{more}"))
}

#[test]
fn a_download_over_an_access_point_gets_what_the_medium_leaves() {
    let outcome = run_in_full(&home(""), &Options::default(), |_| {}).unwrap();
    let report = &outcome.report;
    // 1500 B every 1310 + 10 + 248 + 50 us and half a window of 310 us are 6.2 Mbit/s; half of the
    // segments are answered by a frame of its own of 248 us, a preamble of 192 us and as much around.
    let goodput = flow(report, "download").goodput_bps / 1e6;
    eprintln!("{goodput:.2} Mbit/s");
    assert!((4.3..5.2).contains(&goodput), "{goodput}");
    for call in ["call", "answer"] {
        let (got, sent) = came(report, call);
        assert_eq!((got, sent), (1250, 1250), "{call}");
    }
    let again = run_in_full(&home(""), &Options::default(), |_| {}).unwrap();
    assert_eq!(outcome.fingerprint, again.fingerprint);
}

#[test]
fn stations_talk_to_one_another_through_their_access_point() {
    let more = cbr("between", "phone", "laptop", "");
    let report = run(&home(&more), &Options::default(), |_| {}).unwrap();
    let (got, sent) = came(&report, "between");
    assert_eq!((got, sent), (500, 500));
    let frames = |name| radio(&report, name).frames;
    assert!(frames("ap") > frames("phone"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However stations are placed and die: every packet comes once or is counted at the station that
    /// dropped it, and none goes in a circle.
    #[test]
    fn no_packet_circles_and_none_is_lost_that_is_not_counted(
        places in prop::collection::vec((0u32..700, 0u32..700), 3..10),
        ends in prop::collection::vec((0usize..10, 0usize..10), 1..5),
        off in prop::collection::btree_map(0usize..10, 1u32..12, 0..4),
        seed in 0u32..1000,
    ) {
        let n = places.len();
        let list = |one: &dyn Fn(usize) -> String| (0..n).map(one).collect::<Vec<_>>().join(", ");
        let off: Vec<String> = off.iter().filter(|(s, _)| **s < n)
            .map(|(s, at)| format!("n{s} = \"{at}s\"")).collect();
        let mut text = format!(
            "duration = \"12s\"\nseed = {seed}\nnode = {{ {} }}\n[wlan.all]\nstations = [{}]\nplaces = [{}]\n{MEASURED}off = {{ {} }}\n",
            list(&|s| format!("n{s} = {{}}")),
            list(&|s| format!("\"n{s}\"")),
            list(&|s| format!("[{}, {}]", places[s].0, places[s].1)),
            off.join(", ")
        );
        let mut flows = 0;
        for (from, to) in ends {
            let (from, to) = (from % n, to % n);
            if from != to {
                let rate = "kind = \"poisson\"\nrate = \"60kbit\"\npayload = \"60B\"";
                text += &format!("[flow.f{flows}]\n{rate}\nfrom = \"n{from}\"\nto = \"n{to}\"\n");
                flows += 1;
            }
        }
        prop_assume!(flows > 0);
        let report = report(&text);
        let all = (0..flows).map(|f| came(&report, &format!("f{f}")));
        let (got, sent) = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let given_up: u64 = report.queues.iter().map(|queue| queue.dropped()).sum();
        prop_assert_eq!(got + given_up, sent);
        prop_assert_eq!(lost(&report, "ttl"), 0);
    }
}
