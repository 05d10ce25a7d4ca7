// SPDX-License-Identifier: MIT OR Apache-2.0
//! The testbed under FIFO and FQ with one thing changed: the downloads' TCP, the video's pace, jitter, packets, rate and distance, segments of the
//! downloads, the buffer, FQ's quantum and the packet that it drops. In the world sim; for the printed figures that differ.

use makeway_report::model::{Quantiles, Report};
use makeway_report::summary::group;

use super::figures::{at, data, loss};
use super::runs::TABLE;
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::Table;
use crate::papers::figures::{
    Figures, NOT_MEASURED, largest, least_step, mean, ms, only, plain, share, smallest,
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
    /// Numbers of downloads that it is run with under FQ.
    fq: &'static [u32],
}

const fn change(name: &'static str, says: &'static str, set: &'static str) -> Change {
    Change {
        name,
        says,
        set,
        fifo: true,
        fq: &TABLE,
    }
}

/// Under FQ with one download, for Table I.
const fn one(name: &'static str, says: &'static str, set: &'static str) -> Change {
    Change {
        fifo: false,
        fq: &[1],
        ..change(name, says, set)
    }
}

/// Under FIFO, for Fig. 6.
const fn under_fifo(name: &'static str, says: &'static str, set: &'static str) -> Change {
    Change {
        fq: &[],
        ..change(name, says, set)
    }
}

const CHANGES: [Change; 23] = [
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
    change(
        "far",
        "downloads with a one-way delay of 25 ms, not 0",
        "link.web.delay=25ms",
    ),
    Change {
        fifo: false,
        ..change(
            "tail",
            "of the longest queue the last packet is dropped, not the first",
            "link.line.queue.drop_from=tail",
        )
    },
    change(
        "pace-frame",
        "each frame of the video paced until the next, 40 ms",
        "flow.video.pace=frame",
    ),
    change(
        "pace-20",
        "each frame of the video paced over 20 ms",
        "flow.video.pace=20ms",
    ),
    change(
        "pace-10",
        "each frame of the video paced over 10 ms",
        "flow.video.pace=10ms",
    ),
    change(
        "pace-5",
        "each frame of the video paced over 5 ms",
        "flow.video.pace=5ms",
    ),
    under_fifo(
        "audio-jitter",
        "the audio delayed at its source by a Gaussian time, deviation 1 ms",
        "flow.audio.jitter=1ms",
    ),
    under_fifo(
        "bytes",
        "a buffer of 75 kB, not of 50 packets",
        "link.line.queue.limit=75kB",
    ),
    one(
        "video-4m",
        "a video of 4 Mbit/s, not 5",
        "flow.video.rate=4mbit",
    ),
    one(
        "video-6m",
        "a video of 6 Mbit/s, not 5",
        "flow.video.rate=6mbit",
    ),
    one(
        "video-1316",
        "packets of the video with 1316 B, seven of an MPEG transport stream, not 1400",
        "flow.video.payload=1316B",
    ),
    one(
        "video-500",
        "packets of the video with 500 B, not 1400",
        "flow.video.payload=500B",
    ),
    one(
        "mss-1000",
        "segments of the download with 1000 B, not 1448",
        "flow.download.tcp.mss=1000B",
    ),
    one(
        "mss-536",
        "segments of the download with 536 B, not 1448",
        "flow.download.tcp.mss=536B",
    ),
    one(
        "quantum-300",
        "a quantum of 300 B, not 1538",
        "link.line.queue.quantum=300B",
    ),
    one(
        "quantum-15380",
        "a quantum of ten packets",
        "link.line.queue.quantum=15380B",
    ),
    one(
        "far-100",
        "the download with a one-way delay of 100 ms, not 0",
        "link.web.delay=100ms",
    ),
];

impl Change {
    fn key(&self, discipline: &str, n: u32) -> Key {
        Key::new(format!("changed/{discipline}/{}/{n}", self.name))
    }

    fn cells(&self, seconds: u64) -> impl Iterator<Item = Cell> {
        let ends = ENDS.map(|n| ("fifo", n));
        let ends = ends.into_iter().filter(move |_| self.fifo);
        let all = ends.chain(self.fq.iter().map(|n| ("fq", *n)));
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

fn jitter(report: &Report, stream: &str, statistic: Statistic) -> f64 {
    let datagrams = group(report, stream).datagrams;
    datagrams.map_or(f64::NAN, |stream| statistic(&stream.ipdv_ms))
}

/// Least factor from a figure to the next, with three decimals: audio's is close to 1.
fn step(figures: &Figures) -> String {
    let step = least_step(figures);
    match step.is_nan() {
        true => NOT_MEASURED.into(),
        false => format!("{step:.3}"),
    }
}

/// Fig. 7: the video, then the audio, under FQ by the number of downloads.
pub fn jitters(r: &Results) -> Vec<Table> {
    let video = jitters_of(r, "video", "Fig. 7 with one thing changed");
    let audio = jitters_of(r, "audio", "Fig. 7, audio, with one thing changed");
    [video, audio].concat()
}

fn jitters_of(r: &Results, stream: &str, title: &str) -> Vec<Table> {
    let row = |says: &str, fq: &Figures, sqf: String| {
        let each = fq.iter().map(|(_, x)| ms(x));
        let each = [says.to_owned()].into_iter().chain(each);
        each.chain([step(fq), sqf]).collect::<Vec<_>>()
    };
    let first = STATISTICS.iter().map(|(says, statistic)| {
        let of = |discipline: &str| {
            TABLE.map(|n| mean(at(r, discipline, n), |x| jitter(x, stream, *statistic)).mean)
        };
        let [fifo, fq, sqf] = ["fifo", "fq", "sqf"].map(of);
        let above = (0..TABLE.len()).map(|n| sqf[n] / smallest([fifo[n], fq[n]]));
        let fq: Figures = TABLE.into_iter().zip(fq.map(only)).collect();
        row(says, &fq, plain(&only(largest(above))))
    });
    let changed = CHANGES.iter().filter_map(|change| {
        let figures = TABLE.map(|n| {
            let runs = r.get(&change.key("fq", n))?;
            Some((n, mean(runs, |x| jitter(x, stream, MEAN))))
        });
        let figures: Option<Figures> = figures.into_iter().collect();
        Some(row(change.says, &figures?, String::new()))
    });
    let each = TABLE.map(|n| format!("{stream}'s jitter, n = {n}"));
    let head = of(&["under FQ, with"]).into_iter().chain(each);
    let ends = [
        "least step, factor",
        "SQF by the lesser of FIFO and FQ, worst n",
    ];
    let head = head.chain(of(&ends)).collect();
    table(title, head, first.collect(), changed.collect())
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
