// SPDX-License-Identifier: MIT OR Apache-2.0
//! The testbed under FIFO and FQ with one thing changed: the downloads' TCP, the video's pace, jitter, distance, the packet that FQ drops. In
//! the world sim; for the printed figures that differ.

use makeway_report::model::{Quantiles, Report};
use makeway_report::summary::group;

use super::figures::{at, data, loss};
use super::runs::TABLE;
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::Table;
use crate::papers::figures::{
    Figures, largest, least_step, mean, ms, only, plain, share, smallest,
};

const FILE: &str = "papers/sqf/testbed.toml";
/// Replications: a cause moves a figure by much.
const RUNS: usize = 3;
/// Downloads at which Fig. 6 is judged under FIFO.
const ENDS: [u32; 2] = [1, 20];

/// A thing that is changed alone.
struct Change {
    name: &'static str,
    says: &'static str,
    set: &'static str,
    /// Whether it matters under FIFO.
    fifo: bool,
}

const fn change(name: &'static str, says: &'static str, set: &'static str) -> Change {
    Change {
        name,
        says,
        set,
        fifo: true,
    }
}

const CHANGES: [Change; 8] = [
    change(
        "reno",
        "downloads by Reno, instead of CUBIC",
        "flow.download.congestion_control=reno",
    ),
    change(
        "newreno",
        "downloads by NewReno, without selective acknowledgements",
        "flow.download.congestion_control=newreno",
    ),
    change(
        "tahoe",
        "downloads by Tahoe, which sends again all that follows a loss",
        "flow.download.congestion_control=tahoe",
    ),
    change(
        "pace-200",
        "the video paced over 200 ms, its peak 7.0 Mbit/s",
        "flow.video.pace=200ms",
    ),
    change(
        "unpaced",
        "the video's frames at once",
        "flow.video.pace=burst",
    ),
    change(
        "jitter",
        "a jitter of 0.2 ms between the web server and the router",
        "link.web.jitter=0.2ms",
    ),
    change("far", "downloads from 25 ms away", "link.web.delay=25ms"),
    Change {
        fifo: false,
        ..change(
            "tail",
            "of the longest queue the last packet is dropped, not the first",
            "link.line.queue.drop_from=tail",
        )
    },
];

impl Change {
    fn key(&self, discipline: &str, n: u32) -> Key {
        Key::new(format!("changed/{discipline}/{}/{n}", self.name))
    }

    fn cells(&self, seconds: u64) -> impl Iterator<Item = Cell> {
        let ends = ENDS.map(|n| ("fifo", n));
        let ends = ends.into_iter().filter(move |_| self.fifo);
        let all = ends.chain(TABLE.map(|n| ("fq", n)));
        all.map(move |(discipline, n)| Cell {
            set: vec![
                format!("link.line.queue.discipline={discipline}"),
                format!("flow.download.count={n}"),
                self.set.to_owned(),
            ],
            runs: Some(RUNS),
            ..Cell::new(self.key(discipline, n), FILE, seconds)
        })
    }
}

pub fn cells(seconds: u64) -> Vec<Cell> {
    let cells = CHANGES.iter().flat_map(|change| change.cells(seconds));
    cells.collect()
}

fn of(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A table: `first`, then what was changed; none where no change was run.
fn table(
    title: &str,
    head: Vec<String>,
    first: Vec<Vec<String>>,
    changed: Vec<Vec<String>>,
) -> Vec<Table> {
    match changed.is_empty() {
        true => Vec::new(),
        false => vec![Table {
            title: title.into(),
            head,
            rows: [first, changed].concat(),
        }],
    }
}

/// Fig. 6 under FIFO.
pub fn fifo(r: &Results) -> Vec<Table> {
    let row = |says: &str, [one, twenty]: [&[Report]; 2]| {
        let lost = |runs: &[Report], stream: &str| mean(runs, |x| loss(x, stream));
        let [audio, video] = ["audio", "video"].map(|stream| lost(twenty, stream));
        vec![
            says.to_owned(),
            share(&lost(one, "audio")),
            share(&audio),
            share(&video),
            plain(&only(video.mean / audio.mean)),
        ]
    };
    let changed = CHANGES.iter().filter_map(|change| {
        let [one, twenty] = ENDS.map(|n| r.get(&change.key("fifo", n)));
        Some(row(change.says, [one?, twenty?]))
    });
    let changed = changed.collect();
    let first = vec![row("nothing changed", ENDS.map(|n| at(r, "fifo", n)))];
    let head = of(&[
        "under FIFO, with",
        "audio lost, n = 1",
        "audio lost, n = 20",
        "video lost, n = 20",
        "video's loss by audio's",
    ]);
    table("Fig. 6 with one thing changed", head, first, changed)
}

/// Figures of IPDV that a paper may mean by jitter.
type Statistic = fn(&Quantiles) -> f64;
const MEAN: Statistic = |x| x.mean;
const STATISTICS: [(&str, Statistic); 4] = [
    ("nothing changed: the mean", MEAN),
    ("the median instead of the mean", |x| x.p50),
    ("the 99th percentile instead of the mean", |x| x.p99),
    ("the largest instead of the mean", |x| x.max),
];

fn jitter(report: &Report, statistic: Statistic) -> f64 {
    let video = group(report, "video").datagrams;
    video.map_or(f64::NAN, |video| statistic(&video.ipdv_ms))
}

/// Fig. 7: the video under FQ by the number of downloads.
pub fn jitters(r: &Results) -> Vec<Table> {
    let row = |says: &str, fq: &Figures, sqf: String| {
        let each = fq.iter().map(|(_, x)| ms(x));
        let step = plain(&only(least_step(fq)));
        let each = [says.to_owned()].into_iter().chain(each);
        each.chain([step, sqf]).collect::<Vec<_>>()
    };
    let first = STATISTICS.iter().map(|(says, statistic)| {
        let of = |discipline: &str| {
            TABLE.map(|n| mean(at(r, discipline, n), |x| jitter(x, *statistic)).mean)
        };
        let [fifo, fq, sqf] = ["fifo", "fq", "sqf"].map(of);
        let above = (0..TABLE.len()).map(|n| sqf[n] / smallest([fifo[n], fq[n]]));
        let fq: Figures = TABLE.into_iter().zip(fq.map(only)).collect();
        row(says, &fq, plain(&only(largest(above))))
    });
    let changed = CHANGES.iter().filter_map(|change| {
        let figures = TABLE.map(|n| {
            let runs = r.get(&change.key("fq", n))?;
            Some((n, mean(runs, |x| jitter(x, MEAN))))
        });
        let figures: Option<Figures> = figures.into_iter().collect();
        Some(row(change.says, &figures?, String::new()))
    });
    let each = TABLE.map(|n| format!("video's jitter, n = {n}"));
    let head = of(&["under FQ, with"]).into_iter().chain(each);
    let ends = [
        "least step, factor",
        "SQF by the lesser of FIFO and FQ, worst n",
    ];
    let head = head.chain(of(&ends)).collect();
    table(
        "Fig. 7 with one thing changed",
        head,
        first.collect(),
        changed.collect(),
    )
}

/// Table I: one download under FQ.
pub fn one_download(r: &Results) -> Vec<Table> {
    let row = |says: &str, runs: &[Report]| {
        let video = |x: &Report| group(x, "video").goodput_bps / 1e6;
        vec![
            says.to_owned(),
            plain(&mean(runs, data)),
            plain(&mean(runs, video)),
            share(&mean(runs, |x| loss(x, "video"))),
        ]
    };
    let changed = CHANGES.iter().filter_map(|change| {
        let runs = r.get(&change.key("fq", 1))?;
        Some(row(change.says, runs))
    });
    let changed = changed.collect();
    let first = vec![row("nothing changed", at(r, "fq", 1))];
    let head = of(&[
        "under FQ, n = 1, with",
        "download, Mbit/s",
        "video, Mbit/s",
        "video lost",
    ]);
    table("Table I with one thing changed", head, first, changed)
}
