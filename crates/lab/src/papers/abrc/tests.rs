// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts from made-up figures: those of a perfect world, then one of them spoilt.

use makeway_report::model::{FlowReport, MediaReport, OccupancyReport, Quantiles, QueueReport};

use super::*;
use crate::papers::claim::Verdict;
use crate::papers::grid::Key;
use crate::papers::tests::made_up;

const STREAMS: [&str; 3] = ["stream", "other", "third"];

fn flow(name: &str, mbit: f64) -> FlowReport {
    let is_stream = STREAMS.contains(&name);
    let occupancy = OccupancyReport {
        estimates: 300,
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
        ["many", ks] => {
            let betas: Vec<f64> = ks
                .split('+')
                .map(|k| k.parse::<f64>().unwrap())
                .map(|k| k / (k + 1.0))
                .collect();
            let sum: f64 = betas.iter().sum();
            // Where they ask for all, they get it.
            let scale = 5.5 / sum.max(1.0);
            let rates: Vec<f64> = betas.iter().map(|beta| beta * scale).collect();
            report(&rates, 5.5 * (1.0 - sum).max(0.0))
        }
        ["loss", channel, _, sender] => {
            let (p, tries) = channel.split_once('x').unwrap();
            let arrives = 1.0 - p.parse::<f64>().unwrap().powi(tries.parse().unwrap());
            let held_back = if sender == "tfrc" && arrives < 1.0 {
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
        [_, table, k] if table.starts_with("table") => {
            let k: f64 = k.parse().unwrap();
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

fn differing(r: &Results) -> Vec<&'static str> {
    let claims = claims(r).into_iter();
    let differs = claims.filter(|claim| claim.verdict != Verdict::Reproduced);
    differs.map(|claim| claim.id).collect()
}

#[test]
fn a_perfect_world_agrees_with_the_paper() {
    assert_eq!(differing(&perfect()), [""; 0]);
}

#[test]
fn every_statement_follows_its_figures() {
    let spoilt = |cell: &str, report: Report| {
        let mut r = perfect();
        assert!(
            r.all().insert(Key::new(cell), vec![report]).is_some(),
            "{cell}"
        );
        differing(&r)
    };
    // 1.2 for 1, 2.5 for 2; and 1 : 1 of less than a radio carries.
    assert_eq!(
        spoilt("ours/table1/1", report(&[2.95], 2.45)),
        ["abrc.table1"]
    );
    assert_eq!(
        spoilt("ours/table2/2", report(&[3.86], 1.54)),
        ["abrc.table2"]
    );
    assert_eq!(
        spoilt("ours/table1/1", report(&[2.0], 2.0)),
        ["abrc.table1"]
    );
    // Full at once.
    assert_eq!(spoilt("fig2/tfrc", report(&[6.0], 0.0)), ["abrc.fig2"]);
    // Fair and steady.
    assert_eq!(spoilt("fig3/tfrc", report(&[2.7], 2.7)), ["abrc.fig3"]);
    assert_eq!(spoilt("fig3/abrc", report(&[3.4], 2.7)), ["abrc.fig3"]);
    // 5 % lost, and a tenth of the rate with them.
    assert_eq!(
        spoilt("loss/0.05x1/alone/abrc", report(&[2.3], 0.0)),
        ["abrc.loss"]
    );
    // One stream with half of its share; a download that lives where it may not.
    assert_eq!(
        spoilt("many/0.5+0.5", report(&[0.9, 1.8], 2.8)),
        ["abrc.many"]
    );
    assert_eq!(spoilt("many/1+1", report(&[2.0, 2.0], 1.5)), ["abrc.many"]);
    let mut wrong = perfect_cell("ours/table1/3");
    let media = wrong.flows[0].media.as_mut().unwrap();
    media.occupancy.as_mut().unwrap().error.p50 = 3.0;
    assert_eq!(spoilt("ours/table1/3", wrong), ["abrc.eq4.error"]);
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
        let mut claims = claims(&r).into_iter().map(Claim::judged);
        let error = claims.find(|claim| claim.id == "abrc.eq4.error");
        assert_eq!(error.unwrap().verdict, Verdict::NotMeasured);
    }
}
