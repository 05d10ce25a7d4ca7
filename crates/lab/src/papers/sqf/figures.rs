// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures that the statements are judged by: of one run, and of the set-ups.

use makeway_core::theory::sqf::Bottleneck;
use makeway_report::estimate::Estimate;
use makeway_report::model::Report;
use makeway_report::summary::group;

use super::runs::{self, DELTAS, TABLE, seeds};
use crate::experiment::Results;
use crate::papers::figures::{self, Figures, mean};

/// Fig. 3 and 4: 10 Mbit/s of 1250 B packets, 200 packets of buffer.
pub fn line(downloads: u32) -> Bottleneck {
    Bottleneck {
        capacity: 1000.0,
        buffer: 200.0,
        downloads,
    }
}

/// Loss of a stream, 0 to 1.
pub fn loss(report: &Report, stream: &str) -> f64 {
    group(report, stream).datagrams.map_or(f64::NAN, |d| d.loss)
}

/// Mean absolute IPDV of a stream in ms.
pub fn jitter(report: &Report, stream: &str) -> f64 {
    group(report, stream)
        .datagrams
        .map_or(f64::NAN, |d| d.ipdv_ms.mean)
}

/// Goodput of all downloads in Mbit/s.
pub fn data(report: &Report) -> f64 {
    group(report, "download").goodput_bps / 1e6
}

/// Jain's index over the downloads; 1 for a single one.
pub fn fairness(report: &Report) -> f64 {
    group(report, "download").jain.unwrap_or(1.0)
}

/// A figure of `discipline` on the testbed by the number of downloads.
pub fn testbed(r: &Results, discipline: &str, figure: impl Fn(&Report) -> f64) -> Figures {
    (1..=20)
        .filter_map(|n| {
            let runs = r.get(&runs::testbed(discipline, n))?;
            Some((n, mean(runs, &figure)))
        })
        .collect()
}

pub fn at<'a>(r: &'a Results, discipline: &str, n: u32) -> &'a [Report] {
    &r[runs::testbed(discipline, n)]
}

/// At the numbers of Table I.
pub fn of_table(figures: &[(u32, Estimate)]) -> Figures {
    let of_table = figures.iter().filter(|(n, _)| TABLE.contains(n));
    of_table.copied().collect()
}

/// `0.41 at n = 1, ...` at the numbers of Table I.
pub fn row(figures: &[(u32, Estimate)], shown: impl Fn(&Estimate) -> String) -> String {
    figures::row(&of_table(figures), shown)
}

/// Loss of the video in Fig. 8's set-up by delta in ms: the median of its seeds, each the mean of its
/// replications.
pub fn jittered(r: &Results, mbit: u32, n: u32) -> Figures {
    DELTAS
        .iter()
        .filter_map(|d| {
            let key = |seed| runs::jitter(mbit, n, *d, seed);
            let seeds = seeds(mbit, n).filter_map(|seed| r.get(&key(seed)));
            let each = seeds.map(|runs| mean(runs, |x| loss(x, "video")));
            let mut losses: Vec<Estimate> = each.collect();
            // A seed without figures is no smallest and no largest one.
            if let Some(missing) = losses.iter().find(|loss| loss.mean.is_nan()) {
                return Some((*d, *missing));
            }
            losses.sort_by(|a, b| a.mean.total_cmp(&b.mean));
            Some((*d, *losses.get(losses.len() / 2)?))
        })
        .collect()
}
