// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of docs/confucius.md on a video call and a web page, with fewer replications.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;

use makeway_report::model::{ClassReport, Report};
use makeway_sim::{Options, run};

const RUNS: u64 = 10;

/// Replications of the scenario under `discipline`, and with what `set` says besides.
fn page(discipline: &str, set: &[&str]) -> Vec<Report> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/confucius/page.toml");
    let chosen = format!("link.line.queue.discipline={discipline}");
    let set: Vec<String> = [&chosen[..]]
        .iter()
        .chain(set)
        .map(|s| (*s).into())
        .collect();
    let scenario = makeway_scenario::load(&file, &set).unwrap();
    let one = |replication| {
        let options = Options {
            replication,
            ..Options::default()
        };
        run(&scenario, &options, |_| {}).unwrap()
    };
    (1..=RUNS).map(one).collect()
}

fn video(report: &Report) -> &ClassReport {
    let call = report.flows.iter().find(|f| f.name == "call").unwrap();
    &call.media.as_ref().unwrap().classes[0]
}

fn freezes(reports: &[Report]) -> u64 {
    let of = |report| video(report).freezes.unwrap().count;
    reports.iter().map(of).sum()
}

/// Until the last object had arrived, in ms; the mean of all runs.
fn page_ms(reports: &[Report]) -> f64 {
    let last = |report: &Report| {
        let tasks = report.flows.iter().filter_map(|f| f.tasks);
        let times: Vec<f64> = tasks.map(|t| t.completion_ms.max).collect();
        assert_eq!(times.len(), 30);
        times.into_iter().fold(0.0, f64::max)
    };
    reports.iter().map(last).sum::<f64>() / RUNS as f64
}

#[test]
fn a_page_freezes_a_video_under_fair_queueing_and_not_under_confucius() {
    let [fq, confucius] = ["fq", "confucius"].map(|name| page(name, &[]));
    // Once or more in each run, 1.9 times on average.
    assert!(freezes(&fq) >= RUNS, "{}", freezes(&fq));
    assert!(freezes(&confucius) <= RUNS / 5, "{}", freezes(&confucius));
    // The page pays for it, within bounds.
    let times = [page_ms(&fq), page_ms(&confucius)];
    assert!(
        times[1] > times[0] && times[1] < 2.0 * times[0],
        "{times:?}"
    );
}

#[test]
fn a_small_video_waits_for_nobody_under_sqf_and_under_confucius() {
    let small = [
        "flow.call.video.follows=[\"150kbit\",\"250kbit\"]",
        "flow.call.video.scenes.mean=1000B",
        "flow.call.video.scenes.deviation=200B",
    ];
    let p99 = |discipline| {
        let reports = page(discipline, &small);
        let of = |report| video(report).delay_ms.p99;
        reports.iter().map(of).sum::<f64>() / RUNS as f64
    };
    // 25 ms of way; the buffer holds 120 ms.
    for discipline in ["sqf", "confucius"] {
        assert!(p99(discipline) < 32.0, "{discipline}: {}", p99(discipline));
    }
    assert!(p99("fifo") > 80.0);
}
