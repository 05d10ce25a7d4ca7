// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's figures in its own axes, and its table.

use makeway_report::chart::{Chart, Series};
use makeway_report::model::Report;

use super::PAPER;
use super::figures::{at, data, fairness, jitter, jittered, line, loss, testbed};
use super::runs::{JITTERED, TABLE};
use crate::experiment::Results;
use crate::papers::claim::Table;
use crate::papers::figures::{mean, plain, share, with_intervals};

const DISCIPLINES: [&str; 4] = ["fifo", "fq", "pfq", "sqf"];

pub fn fig3() -> Chart {
    Chart {
        title: "Fig. 3: losing priority within 10 min, 10 Mbit/s, 200 packets".into(),
        x: "video peak rate, Mbit/s".into(),
        y: "probability".into(),
        y_at_least: 1.0,
        series: [5, 10, 20]
            .map(|n| {
                let p = |i: u32| f64::from(i) / 10.0;
                let points = (0..=100).map(|i| (p(i), line(n).deprioritised(p(i) * 100.0, 600.0)));
                Series::line(format!("n = {n}"), points.collect())
            })
            .into(),
    }
}

pub fn fig4() -> Chart {
    Chart {
        title: "Fig. 4: mean time of prioritisation, up to 300 min".into(),
        x: "video peak rate, Mbit/s".into(),
        y: "minutes".into(),
        y_at_least: 300.0,
        series: [5, 10, 20]
            .map(|n| {
                let rate = |i: u32| f64::from(i) / 20.0;
                let minutes = |x: f64| line(n).prioritised_time(x * 100.0) / 60.0;
                let points = (60..=200).map(|i| (rate(i), minutes(rate(i)).min(300.0)));
                Series::line(format!("n = {n}"), points.collect())
            })
            .into(),
    }
}

/// Fig. 6a and b.
pub fn fig6(r: &Results) -> Vec<Chart> {
    let chart = |title, stream| by_downloads(r, title, "% of packets", |x| loss(x, stream) * 100.0);
    vec![
        chart("Fig. 6a: audio loss", "audio"),
        chart("Fig. 6b: video loss", "video"),
    ]
}

/// Fig. 7a and b.
pub fn fig7(r: &Results) -> Vec<Chart> {
    let chart = |title, stream| by_downloads(r, title, "mean IPDV, ms", |x| jitter(x, stream));
    vec![
        chart("Fig. 7a: audio jitter", "audio"),
        chart("Fig. 7b: video jitter", "video"),
    ]
}

fn by_downloads(r: &Results, title: &str, unit: &str, figure: impl Fn(&Report) -> f64) -> Chart {
    let series = DISCIPLINES
        .iter()
        .map(|d| with_intervals(d.to_uppercase(), &testbed(r, d, &figure), 1.0))
        .collect();
    Chart {
        title: title.into(),
        x: "downloads".into(),
        y: unit.into(),
        series,
        ..Chart::default()
    }
}

pub fn fig8(r: &Results) -> Chart {
    let series = JITTERED.map(|(mbit, n)| {
        let figures = jittered(r, mbit, n);
        with_intervals(format!("{mbit} Mbit/s, n = {n}"), &figures, 100.0)
    });
    Chart {
        title: "Fig. 8: video loss under SQF".into(),
        x: "source jitter, standard deviation in ms".into(),
        y: "% of packets".into(),
        series: series.into(),
        ..Chart::default()
    }
}

/// Its data bandwidths.
pub fn table_chart(r: &Results) -> Chart {
    let mut chart = by_downloads(r, "Table I: data bandwidth", "Mbit/s", data);
    for (d, shares, _) in PAPER {
        let points = TABLE.iter().map(|n| f64::from(*n)).zip(shares).collect();
        let name = format!("{} in the paper", d.to_uppercase());
        chart.series.push(Series::dashed(name, points));
    }
    chart
}

/// Table I, and what the video loses meanwhile.
pub fn table_one(r: &Results) -> Table {
    let row = |name: String, cell: &dyn Fn(usize, u32) -> String| {
        let cells = TABLE.iter().enumerate().map(|(i, n)| cell(i, *n));
        [name].into_iter().chain(cells).collect()
    };
    let mut rows: Vec<Vec<String>> = PAPER
        .iter()
        .map(|(d, shares, jains)| {
            row(d.to_uppercase(), &|i, n| {
                let runs = at(r, d, n);
                let [ours, fair] = [data, fairness].map(|figure| plain(&mean(runs, figure)));
                format!("{ours} / {fair} ({} / {})", shares[i], jains[i])
            })
        })
        .collect();
    rows.push(row("SQF, video lost".into(), &|_, n| {
        share(&mean(at(r, "sqf", n), |x| loss(x, "video")))
    }));
    Table {
        title: "Table I: data bandwidth in Mbit/s / Jain's index, with the paper's in brackets"
            .into(),
        head: row("n".into(), &|_, n| n.to_string()),
        rows,
    }
}
