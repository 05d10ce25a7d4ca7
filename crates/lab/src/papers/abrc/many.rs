// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several streams beside a download (section 4).

use makeway_report::estimate::Estimate;
use makeway_report::model::Report;
use makeway_report::summary::group;

use super::downloads;
use super::runs::{MANY, many};
use crate::papers::claim::{Claim, Table, Verdict};
use crate::papers::figures::{mean, plain};
use crate::papers::grid::Results;

/// How near to beta a stream's share must be; chosen by us, as for one stream.
const CLOSE: f64 = 0.1;
/// A download with less of the rate than this is starved; chosen by us.
const STARVED: f64 = 0.1;

/// Of all streams.
fn betas(ks: &[f64]) -> Vec<f64> {
    ks.iter().map(|k| k / (k + 1.0)).collect()
}

/// Share of stream `n` of all bytes carried.
fn part(report: &Report, n: usize) -> f64 {
    let names = ["stream", "other", "third"];
    let rate = |name: &str| group(report, name).goodput_bps / 1e6;
    let all: f64 = names.iter().map(|name| rate(name)).sum();
    rate(names[n]) / (all + downloads(report))
}

fn lost(report: &Report) -> f64 {
    let queue = report
        .queues
        .iter()
        .find(|queue| queue.name == "ap on cell");
    queue.map_or(f64::NAN, |queue| queue.dropped() as f64)
}

pub fn claims(r: &Results) -> Vec<Claim> {
    let runs = |ks: &[f64]| &r[many(ks)];
    let parts = |ks: &[f64]| -> Vec<Estimate> {
        (0..ks.len())
            .map(|n| mean(runs(ks), |run| part(run, n)))
            .collect()
    };
    let sum = |ks: &[f64]| betas(ks).iter().sum::<f64>();
    let tcp = |ks: &[f64]| {
        mean(runs(ks), |run| {
            1.0 - (0..ks.len()).map(|n| part(run, n)).sum::<f64>()
        })
    };
    let stable = |ks: &&[f64]| sum(ks) < 1.0 - 1e-9;
    let holds = MANY.iter().copied().filter(stable).all(|ks| {
        let parts = parts(ks);
        let mut pairs = parts.iter().zip(betas(ks));
        pairs.all(|(part, beta)| (part.mean / beta - 1.0).abs() <= CLOSE)
    });
    let starved = MANY
        .iter()
        .copied()
        .filter(|ks| !stable(ks))
        .all(|ks| tcp(ks).mean < STARVED);
    let list = |values: Vec<String>| values.join(", ");
    let rows = MANY.iter().map(|ks| {
        vec![
            list(ks.iter().map(f64::to_string).collect()),
            format!("{:.2}", sum(ks)),
            list(betas(ks).iter().map(|beta| format!("{beta:.2}")).collect()),
            list(parts(ks).iter().map(plain).collect()),
            plain(&tcp(ks)),
            plain(&mean(runs(ks), lost)),
        ]
    });
    let head = [
        "k_T",
        "sum of beta",
        "beta",
        "shares",
        "the download's",
        "packets that overflow",
    ];
    vec![Claim {
        id: "abrc.many",
        verdict: Verdict::of(holds && starved),
        paper: "Several ABRC streams are stable while the sum of beta_i = k_i / (k_i + 1) is below 1; TCP shares what is left.".into(),
        ours: format!(
            "{}; at a sum of 1 and above the download keeps {}",
            list(
                MANY.iter()
                    .copied()
                    .filter(stable)
                    .map(|ks| format!(
                        "beta of {}: {}",
                        list(betas(ks).iter().map(|beta| format!("{beta:.2}")).collect()),
                        list(parts(ks).iter().map(plain).collect())
                    ))
                    .collect()
            ),
            list(MANY.iter().copied().filter(|ks| !stable(ks)).map(|ks| plain(&tcp(ks))).collect())
        ),
        ideal: "each stream has beta of the rate".into(),
        why: "Each within 10 % of its beta. Where the sum reaches 1 there is no equilibrium: each stream's target grows with the others' queue, until the buffer or the bound of B_T stops it, and the download starves (it keeps less than a tenth). Some packets overflow in any case: all streams begin with 7 Mbit/s at once.".into(),
        setup: "802.11b at 11 Mbit/s, streams beside one download (Reno, window 64 KB), a buffer of 400 packets",
        from: &["many/"],
        tables: vec![Table {
            title: "Shares of the payload carried".into(),
            head: head.map(String::from).into(),
            rows: rows.collect(),
        }],
        ..Claim::default()
    }]
}
