// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of made-up runs, whose means and intervals are known.

use super::*;
use crate::model::{ClassReport, Freezes, MediaReport, VoiceReport};
use crate::sample;

/// Replications of which the loss of both streams is given.
fn replications(losses: &[f64]) -> Replications {
    named("sqf", losses)
}

fn named(discipline: &str, losses: &[f64]) -> Replications {
    let mut reports = losses.iter().enumerate().map(|(n, loss)| {
        let mut report = sample::report(discipline, *loss);
        report.world = "sim".into();
        let fingerprint = format!("{n:016x}");
        report.environment.insert("fingerprint".into(), fingerprint);
        report
    });
    let mut all = Replications::new(&reports.next().unwrap());
    reports.for_each(|report| all.add(&report));
    all
}

fn figure<'a>(all: &'a Replications, of: &str, measure: Measure) -> &'a Figure {
    let mut figures = all.figures.iter();
    figures.find(|f| f.of == of && f.figure == measure).unwrap()
}

#[test]
fn each_figure_is_the_mean_over_runs_with_its_t_interval() {
    let all = replications(&[0.1, 0.2, 0.3]);
    let loss = figure(&all, "video", Measure::Loss);
    assert!((loss.estimate.mean - 0.2).abs() < 1e-12);
    // t of two degrees of freedom, deviation 0.1.
    let half = 4.302_653 * 0.1 / 3_f64.sqrt();
    assert!((loss.estimate.half_width.unwrap() - half).abs() < 1e-6);
    let goodput = figure(&all, "video", Measure::GoodputBps);
    assert!((goodput.estimate.mean - 4.0e6).abs() < 1e-3);
    let queue = figure(&all, "router -> client", Measure::Drops);
    assert_eq!(
        (queue.estimate.mean, queue.estimate.half_width),
        (200.0, Some(0.0))
    );
}

#[test]
fn figures_are_those_of_the_table() {
    let all = replications(&[0.1, 0.2]);
    let of = |name: &str| all.figures.iter().filter(|f| f.of == name).count();
    // Downloads: goodput and Jain; a stream: goodput, loss, on time, three delays, two of IPDV; a queue: four.
    assert_eq!(
        ["download", "video", "audio", "router -> client"].map(of),
        [2, 8, 8, 4]
    );
}

#[test]
fn calls_have_their_quality_and_all_flows_their_satisfaction() {
    let mut report = sample::report("fifo", 0.5);
    report.asi = Some(0.75);
    report.flows[3].voice = Some(VoiceReport {
        mouth_to_ear_ms: 110.0,
        r_factor: 80.0,
        mos: 4.03,
    });
    let mut all = Replications::new(&report);
    report.asi = None;
    report.flows[3].datagrams.as_mut().unwrap().sent = 0;
    all.add(&report);
    for (of, measure, value) in [
        ("audio", Measure::RFactor, 80.0),
        ("audio", Measure::Mos, 4.03),
        ("all flows", Measure::Asi, 0.75),
    ] {
        assert_eq!(figure(&all, of, measure).values, [Some(value), None]);
    }
}

#[test]
fn a_class_of_frames_has_the_share_of_them_that_was_shown() {
    let mut report = sample::report("fifo", 0.0);
    let class = |name: &str, freezes| ClassReport {
        name: name.into(),
        too_large: 7,
        freezes,
        ..ClassReport::default()
    };
    let frames = Freezes {
        made: 200,
        frames: 150,
        ..Freezes::default()
    };
    report.flows[2].media = Some(MediaReport {
        classes: vec![class("frames", Some(frames)), class("stream", None)],
        ..Default::default()
    });
    let mut all = Replications::new(&report);
    let media = report.flows[2].media.as_mut().unwrap();
    media.classes[0].freezes = Some(Freezes::default());
    all.add(&report);
    // None were made in the second run.
    let shown = figure(&all, "video frames", Measure::Shown);
    assert_eq!(shown.values, [Some(0.75), None]);
    let too_large = figure(&all, "video frames", Measure::TooLarge);
    assert_eq!(too_large.values, [Some(7.0); 2]);
    let mut of_stream = all.figures.iter().filter(|f| f.of == "video stream");
    assert!(of_stream.all(|f| f.figure != Measure::Shown));
}

#[test]
fn a_stream_of_which_nothing_arrives_has_no_delay() {
    let mut report = sample::report("fifo", 0.5);
    let mut all = Replications::new(&report);
    report.flows[2].datagrams.as_mut().unwrap().received = 0;
    all.add(&report);
    let delay = figure(&all, "video", Measure::DelayMeanMs);
    assert_eq!(delay.values, [Some(30.0), None]);
    assert_eq!((delay.estimate.mean, delay.estimate.runs), (30.0, 1));
}

#[test]
fn a_precision_asks_for_every_headline_figure_and_five_runs() {
    // Alike runs are settled, from the fifth on.
    assert!(!replications(&[0.1; 4]).settled(0.05));
    assert!(replications(&[0.1; 5]).settled(0.05));
    // Goodput of the streams is 0.9 of their rate and nearly the same; their loss is not.
    let losses = [0.09, 0.10, 0.11, 0.10, 0.10];
    let all = replications(&losses);
    assert!(figure(&all, "video", Measure::GoodputBps).settled(0.05));
    assert!(!figure(&all, "video", Measure::Loss).settled(0.05));
    assert!(!all.settled(0.05));
    assert!(all.settled(0.10));
}

#[test]
fn next_to_no_loss_is_settled_by_the_floor() {
    // The half-width is as large as the mean, and 0.02 % of packets.
    let all = replications(&[0.0, 0.0, 0.0005, 0.0002, 0.0002]);
    let loss = figure(&all, "audio", Measure::Loss);
    assert!(loss.estimate.half_width.unwrap() > loss.estimate.mean);
    assert!(all.settled(0.05));
    assert!(replications(&[0.0; 5]).settled(0.01));
    // No floor for what is lost in earnest, nor for anything but loss.
    let all = replications(&[0.0, 0.9, 0.1, 0.5, 0.3]);
    assert!(!figure(&all, "audio", Measure::GoodputBps).settled(0.05));
    assert!(!replications(&[0.0, 0.0, 0.02, 0.0, 0.0]).settled(0.05));
}

#[test]
fn a_precision_that_is_not_reached_names_what_is_open() {
    let mut all = replications(&[0.09, 0.10, 0.11, 0.10, 0.10]);
    all.precision = Some(Precision {
        asked: 0.05,
        reached: false,
    });
    let said = all.precise().unwrap();
    assert!(
        said.contains("After 5 runs") && said.contains("lost of video (10.00 ± 0.88 %)"),
        "{said}"
    );
    assert!(!said.contains("goodput"), "{said}");
    all.precision = Some(Precision {
        asked: 0.1,
        reached: true,
    });
    assert!(all.precise().unwrap().starts_with("Known to 10 %"));
}

#[test]
fn pairs_show_a_difference_that_means_hide() {
    // From run to run the loss differs by far more than between the two, but always the same way.
    let first = named("fifo", &[0.10, 0.30, 0.50, 0.70]);
    let other = named("sqf", &[0.08, 0.29, 0.48, 0.69]);
    let all = Comparison::new(
        "link.line.queue.discipline".into(),
        vec!["fifo".into(), "sqf".into()],
        vec![first, other],
    );
    let differences = &all.differences[0].figures;
    let loss = differences
        .iter()
        .find(|f| f.of == "video" && f.figure == Measure::Loss)
        .unwrap();
    assert!((loss.estimate.mean + 0.015).abs() < 1e-12);
    assert!(loss.estimate.certain() && loss.estimate.half_width.unwrap() < 0.01);
    assert!(
        figure(&all.variants[0], "video", Measure::Loss)
            .estimate
            .half_width
            .unwrap()
            > 0.3
    );
    let text = all.table();
    let row = |part: &str| text.lines().find(|line| line.contains(part)).unwrap();
    assert!(row("-1.50 ± 0.92 points").contains("lower"), "{text}");
    assert!(row("Jain").contains("not shown"), "{text}");
}

#[test]
fn the_table_has_mean_and_range() {
    let text = replications(&[0.1, 0.2, 0.3]).table();
    for part in [
        "3 replications of 2 s, seed 1",
        "20 ± 25 %",
        "10 %",
        "30 %",
        "Jain's index",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn runs_that_are_all_the_same_are_called_so() {
    let mut all = replications(&[0.1, 0.1]);
    assert!(!all.table().contains("same run"));
    all.runs[1].fingerprint = all.runs[0].fingerprint.clone();
    assert!(all.table().contains("same run"));
}

#[test]
fn json_has_every_run_and_no_series() {
    let all = replications(&[0.1, 0.2, 0.3]);
    let text = all.json();
    assert!(!text.contains("series"));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["runs"][2]["replication"], 3);
    assert_eq!(value["runs"][2]["fingerprint"], "0000000000000002");
    assert_eq!(value["figures"][0]["figure"], "goodput_bps");
    assert_eq!(value["figures"][0]["values"].as_array().unwrap().len(), 3);
}

#[test]
fn pages_have_whiskers_and_load_nothing_from_elsewhere() {
    let [a, b] = [
        replications(&[0.1, 0.2, 0.3]),
        named("fifo", &[0.2, 0.3, 0.4]),
    ];
    let page = a.html();
    let compared = Comparison::new("key".into(), vec!["sqf".into(), "fifo".into()], vec![a, b]);
    for text in [page, compared.html()] {
        let links = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!links.contains("http") && !links.contains("<script"));
        assert!(
            text.contains("20 ± 25 %") && text.contains("<svg"),
            "{text}"
        );
    }
}

#[test]
fn the_key_of_a_figure_is_its_name_in_json() {
    for measure in Measure::ALL {
        assert_eq!(serde_json::to_value(measure).unwrap(), measure.key());
    }
}
