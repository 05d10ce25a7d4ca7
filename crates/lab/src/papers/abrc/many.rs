// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several streams beside a download (section 4).

use makeway_report::estimate::Estimate;
use makeway_report::model::Report;
use makeway_report::summary::group;

use super::downloads;
use super::runs::{MANY, betas, is_stable, many};
use super::variants::{OURS, PRINTED, SENDERS_OF_MANY};
use crate::experiment::Results;
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{largest, mean, only, plain, smallest};

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

fn sum(ks: &[f64]) -> f64 {
    betas(ks).iter().sum()
}

/// Shares of the streams, then the download's.
fn shares(r: &Results, variant: &str, ks: &[f64]) -> (Vec<Estimate>, Estimate) {
    let runs = &r[many(variant, ks)];
    let parts = (0..ks.len()).map(|n| mean(runs, |run| part(run, n)));
    let rest = |run: &Report| 1.0 - (0..ks.len()).map(|n| part(run, n)).sum::<f64>();
    (parts.collect(), mean(runs, rest))
}

fn column(r: &Results, variant: &str) -> Column {
    let (stable, others): (Vec<&[f64]>, Vec<&[f64]>) = MANY.into_iter().partition(is_stable);
    let of_beta = || {
        stable.iter().flat_map(|ks| {
            let (parts, _) = shares(r, variant, ks);
            parts
                .into_iter()
                .zip(betas(ks))
                .map(|(part, beta)| part.mean / beta)
        })
    };
    let rest = others.iter().map(|ks| shares(r, variant, ks).1.mean);
    Column::of(
        [
            (
                "a stream's share by its beta, the least where the sum is below 1",
                smallest(of_beta()),
            ),
            (
                "a stream's share by its beta, the largest where the sum is below 1",
                largest(of_beta()),
            ),
            (
                "the download's share where the sum is 1 or more, largest",
                largest(rest),
            ),
        ]
        .map(|(name, x)| (name, only(x))),
    )
}

fn list(values: Vec<String>) -> String {
    values.join(", ")
}

fn table(r: &Results, variant: &str, title: &str) -> Table {
    let rows = MANY.iter().map(|ks| {
        let (parts, rest) = shares(r, variant, ks);
        vec![
            list(ks.iter().map(f64::to_string).collect()),
            format!("{:.2}", sum(ks)),
            list(betas(ks).iter().map(|beta| format!("{beta:.2}")).collect()),
            list(parts.iter().map(plain).collect()),
            plain(&rest),
            plain(&mean(&r[many(variant, ks)], lost)),
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
    Table {
        title: title.into(),
        head: head.map(String::from).into(),
        rows: rows.collect(),
    }
}

/// A stream's share by its beta, with one change after the other.
fn senders(r: &Results) -> Table {
    let rows = SENDERS_OF_MANY.map(|variant| {
        let of = |ks: &&[f64]| {
            let (parts, _) = shares(r, variant.name, ks);
            let of_beta = parts.iter().zip(betas(ks));
            list(
                of_beta
                    .map(|(part, beta)| format!("{:.2}", part.mean / beta))
                    .collect(),
            )
        };
        let all = MANY.iter().filter(|ks| is_stable(ks)).map(of);
        [variant.says.to_owned()].into_iter().chain(all).collect()
    });
    let head = MANY.iter().filter(|ks| is_stable(ks));
    let head = head.map(|ks| format!("k_T {}", list(ks.iter().map(f64::to_string).collect())));
    Table {
        title: "A stream's share by its beta, where the sum is below 1, with one change to both columns".into(),
        head: [String::from("with")].into_iter().chain(head).collect(),
        rows: rows.into(),
    }
}

pub fn claims(r: &Results) -> Vec<Claim> {
    let said = |variant: &str| {
        let stable = MANY.into_iter().filter(is_stable).map(|ks| {
            let (parts, _) = shares(r, variant, ks);
            format!(
                "beta of {}: {}",
                list(betas(ks).iter().map(|beta| format!("{beta:.2}")).collect()),
                list(parts.iter().map(plain).collect())
            )
        });
        let others = MANY.into_iter().filter(|ks| !is_stable(ks));
        let rest = others.map(|ks| plain(&shares(r, variant, ks).1));
        format!(
            "{}; at a sum of 1 and above the download keeps {}",
            list(stable.collect()),
            list(rest.collect())
        )
    };
    vec![Claim {
        id: "abrc.many",
        printed: column(r, PRINTED),
        ours: column(r, OURS),
        paper: "Several ABRC streams are stable while the sum of beta_i = k_i / (k_i + 1) is below 1; TCP shares what is left.".into(),
        said: format!("{}. As printed {}", said(OURS), said(PRINTED)),
        ideal: "each stream has beta of the rate".into(),
        why: "Evenly paced packets of a small stream never follow one another in the queue: without packets that leave at once (table) T_UDP is the time of two packets or more, so (7) sees fewer of others and the stream gets less than beta. A pair after each report is less than 2 % of the packets of a stream of more than 50 a second, which the mean of pairs takes for an accident. Where the sum reaches 1 there is no equilibrium: each stream's target grows with the others' queue, until the buffer or the bound of B_T stops it, and the download starves. Some packets overflow in any case: all streams begin with 7 Mbit/s at once.".into(),
        setup: "802.11b at 11 Mbit/s, streams beside one download (Reno, window 64 KB), a buffer of 400 packets",
        from: &["many/"],
        tables: vec![
            table(r, PRINTED, "Shares of the payload carried, as printed"),
            table(r, OURS, "Shares of the payload carried, ours"),
            senders(r),
        ],
        ..Claim::default()
    }]
}
