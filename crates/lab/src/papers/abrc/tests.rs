// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts from made-up figures: those of a perfect world, then one of them spoilt.

use std::collections::BTreeSet;

use makeway_report::model::{FlowReport, MediaReport, OccupancyReport, Quantiles, QueueReport};

use super::variants::{IN_BYTES_ALONE, OURS_BUT, PRINTED_BUT, VARIANTS, Variant};
use super::*;
use crate::papers::claim::Verdict;
use crate::papers::tests::{all_are, every_figure_is_refused_when_it_is_wrong, judged, made_up};

const STREAMS: [&str; 3] = ["stream", "other", "third"];

fn flow(name: &str, mbit: f64) -> FlowReport {
    let is_stream = STREAMS.contains(&name);
    let occupancy = OccupancyReport {
        estimates: 300,
        within_two: 0.97,
        error: Quantiles {
            p50: 1.0,
            ..Quantiles::default()
        },
        ..OccupancyReport::default()
    };
    FlowReport {
        name: name.into(),
        group: name.into(),
        kind: if is_stream { "media" } else { "bulk" }.into(),
        goodput_bps: mbit * 1e6,
        goodput_series_bps: vec![mbit * 1e6; 330],
        media: is_stream.then(|| MediaReport {
            occupancy: Some(occupancy),
            ..MediaReport::default()
        }),
        series_step_s: 1.0,
        ..FlowReport::default()
    }
}

/// Rates of streams, then that of a download.
fn report(streams: &[f64], download: f64) -> Report {
    let streams = STREAMS
        .iter()
        .zip(streams)
        .map(|(name, mbit)| flow(name, *mbit));
    let queue = QueueReport {
        name: "ap on cell".into(),
        packets_in: 1000,
        drops: [("tail".to_owned(), 10)].into(),
        ..QueueReport::default()
    };
    let flows = streams.chain([flow("download", download)]).collect();
    made_up(300.0, flows, vec![queue])
}

/// Report of a cell if all is as the paper says.
fn perfect_cell(name: &str) -> Report {
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        ["many", _, ks] => {
            let betas: Vec<f64> = ks
                .split('+')
                .map(|k| k.parse::<f64>().unwrap())
                .map(|k| k / (k + 1.0))
                .collect();
            let sum: f64 = betas.iter().sum();
            // Where they ask for all, they get nearly all.
            let all = sum.min(0.95);
            let rates: Vec<f64> = betas.iter().map(|beta| 5.5 * all * beta / sum).collect();
            report(&rates, 5.5 * (1.0 - all))
        }
        ["choice", _, _, k] => {
            let k: f64 = k.parse().unwrap();
            report(&[5.4 * k / (k + 1.0)], 5.4 / (k + 1.0))
        }
        ["loss", channel, _, sender] => {
            let (p, tries) = channel.split_once('x').unwrap();
            let arrives = 1.0 - p.parse::<f64>().unwrap().powi(tries.parse().unwrap());
            let held_back = if sender.starts_with("tfrc") && arrives < 1.0 {
                0.5
            } else {
                1.0
            };
            report(&[2.7 * arrives * held_back], 2.7)
        }
        ["fig2", "tfrc"] => {
            let mut report = report(&[6.0], 0.0);
            report.flows[0].goodput_series_bps[..25].fill(3e6);
            report
        }
        ["fig2", _] => report(&[6.0], 0.0),
        ["fig3", "tfrc"] => {
            let mut report = report(&[4.0], 1.0);
            let series = report.flows[0].goodput_series_bps.iter_mut().enumerate();
            series.for_each(|(second, bps)| *bps = if second / 50 % 2 == 0 { 5e6 } else { 3e6 });
            report
        }
        [variant, table, k] if table.starts_with("table") => {
            let asked: f64 = k.parse().unwrap();
            let row = runs::ROWS
                .iter()
                .find(|row| format!("table{}", row.table) == table && row.k == asked);
            // As the paper has it, or as it was asked for.
            let k = match (variant, row) {
                ("printed", Some(row)) => row.abrc / row.tcp,
                _ => asked,
            };
            report(&[5.4 * k / (k + 1.0)], 5.4 / (k + 1.0))
        }
        _ => report(&[2.7], 2.7),
    }
}

fn perfect() -> Results {
    let cells = runs::cells(false, World::Sim).into_iter();
    cells
        .map(|cell| (cell.key.clone(), vec![perfect_cell(cell.key.path())]))
        .collect()
}

#[test]
fn a_perfect_world_agrees_with_the_paper() {
    let claims = judged(&ABRC, World::Sim, &perfect());
    all_are(Verdict::Reproduced, &claims, &[]);
}

#[test]
fn every_statement_follows_its_figures() {
    every_figure_is_refused_when_it_is_wrong(&ABRC, World::Sim, &perfect());
}

#[test]
fn an_error_that_was_not_measured_is_not_judged() {
    let spoils: [fn(&mut MediaReport); 2] = [
        |media| media.occupancy = None,
        |media| media.occupancy.as_mut().unwrap().error.p50 = f64::NAN,
    ];
    for spoil in spoils {
        let mut r = perfect();
        for cell in r.all().values_mut().flatten() {
            let media = cell.flows.iter_mut().filter_map(|flow| flow.media.as_mut());
            media.for_each(spoil);
        }
        let claims = judged(&ABRC, World::Sim, &r);
        let error = [("abrc.eq4.error", [Verdict::NotMeasured; 2])];
        all_are(Verdict::Reproduced, &claims, &error);
    }
}

fn keys(variant: &Variant) -> BTreeSet<&'static str> {
    let keys = variant.keys.split(", ");
    keys.filter(|key| !key.is_empty()).collect()
}

#[test]
fn a_change_alone_is_of_one_key_and_all_of_them_are_tried() {
    let printed = keys(&VARIANTS[0]);
    let mut changed: BTreeSet<&str> = ["granularity = \"10ms\""].into();
    for variant in &PRINTED_BUT {
        let rest = keys(variant);
        assert!(variant.ticks && rest.is_subset(&printed));
        let left_out: Vec<_> = printed.difference(&rest).copied().collect();
        assert_eq!(left_out.len(), 1, "{}", variant.name);
        changed.extend(left_out);
    }
    assert_eq!(changed, printed);
    // The last step to ours is of these.
    let last = keys(&VARIANTS[4]);
    let ours: BTreeSet<&str> = OURS_BUT.iter().flat_map(keys).collect();
    assert_eq!(last, ours);
}

#[test]
fn each_change_alone_is_run_with_every_statement_that_it_can_change() {
    let cells = runs::cells(true, World::Sim);
    let count = |beginning: &str| {
        let keys = cells.iter().map(|cell| cell.key.path());
        keys.filter(|key| key.starts_with(beginning)).count()
    };
    for variant in PRINTED_BUT {
        let name = variant.name;
        let of_bytes = if name == IN_BYTES_ALONE { 0 } else { 2 };
        for (beginning, expected) in [
            (format!("{name}/table"), 6),
            (format!("choice/{name}/udp/"), 2),
            (format!("choice/{name}/remote/"), 2),
            (format!("choice/{name}/bytes/"), of_bytes),
            (format!("many/{name}/"), 4),
        ] {
            assert_eq!(count(&beginning), expected, "{beginning}");
        }
    }
    for variant in OURS_BUT {
        assert_eq!(count(&format!("{}/table", variant.name)), 6);
    }
}
