// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which rates, delays and buffers of the lost Fig. 7 give the figures of the paper's text: a joint search.

use makeway_report::estimate::Estimate;
use makeway_report::model::Report;

use super::ftp::{self, COUNTED, FIG8, done_by, goodput, worst_time};
use super::{r_factor, voip};
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::Table;
use crate::papers::figures::{mean, paired, plain};

/// Rates of the bottleneck, Mbit/s.
const RATES: [u32; 4] = [2, 5, 10, 20];
/// One-way delays of the bottleneck, ms; 10 ms more are outside of it.
const DELAYS: [u32; 4] = [5, 20, 50, 100];
/// Buffers of the bottleneck, packets.
const BUFFERS: [u32; 4] = [20, 50, 100, 200];
const RUNS: usize = 3;

/// NCQ as printed, and with favoured packets that push others out: what their cells' thresholds begin with.
const FORMS: [(&str, &str); 2] = [("as printed", "plain-"), ("pushing out", "")];

/// A choice of the three.
#[derive(Clone, Copy)]
struct Point {
    rate: u32,
    delay: u32,
    buffer: u32,
}

fn points() -> impl Iterator<Item = Point> {
    let two = |rate| DELAYS.map(|delay| (rate, delay));
    RATES.into_iter().flat_map(two).flat_map(|(rate, delay)| {
        BUFFERS.map(|buffer| Point {
            rate,
            delay,
            buffer,
        })
    })
}

/// Runs of a point: kind of traffic, flows, and the threshold of the paper's figure.
const LOADS: [(&str, u32, &str); 4] = [
    ("ftp", 50, "0.01"),
    ("ftp", 80, "0.05"),
    ("ftp", 90, "0.03"),
    ("voip", 50, "0.01"),
];

impl Point {
    fn key(self, (kind, flows, _): (&str, u32, &str), queue: &str) -> Key {
        let Self {
            rate,
            delay,
            buffer,
        } = self;
        Key::new(format!(
            "search/{rate}/{delay}/{buffer}/{kind}/{queue}/{flows}"
        ))
    }

    fn cells(self) -> impl Iterator<Item = Cell> {
        LOADS.into_iter().flat_map(move |load| {
            let (kind, flows, threshold) = load;
            [
                "fifo".into(),
                threshold.to_owned(),
                format!("plain-{threshold}"),
            ]
            .map(|queue| {
                let key = self.key(load, &queue);
                let mut cell = match kind {
                    "ftp" => FIG8.cell(&queue, flows),
                    _ => voip::cell(key.clone(), &queue, flows, 1),
                };
                cell.key = key;
                cell.runs = Some(RUNS);
                cell.set.push(format!("link.line.rate={}mbit", self.rate));
                cell.set.push(format!("link.line.delay={}ms", self.delay));
                cell.set
                    .push(format!("link.line.queue.limit={} packets", self.buffer));
                cell
            })
        })
    }

    fn runs<'a>(self, r: &'a Results, load: (&str, u32, &str), queue: &str) -> &'a [Report] {
        &r[self.key(load, queue)]
    }
}

pub fn cells() -> Vec<Cell> {
    points().flat_map(Point::cells).collect()
}

/// Figures of the text, and the range that each is met in: within 10 %.
const TEXT: [(&str, f64, f64); 6] = [
    ("7 tasks at 30.5 s, DropTail", 6.3, 7.7),
    ("10 tasks, 1 %", 9.0, 11.0),
    ("10.43 times, 5 %", 9.39, 11.47),
    ("24.8 s sooner, 3 %", 22.3, 27.3),
    ("R of 50 to 60, DropTail", 50.0, 60.0),
    ("R of 70 to 80, 1 %", 70.0, 80.0),
];

fn found(r: &Results, point: Point, form: &str) -> [Estimate; 6] {
    let [tasks, gain, worst, call] = LOADS;
    let of = |load: (&'static str, u32, &'static str)| {
        let ncq = point.runs(r, load, &format!("{form}{}", load.2));
        [point.runs(r, load, "fifo"), ncq]
    };
    let done = |x: &Report| done_by(x, COUNTED);
    let [fifo, ncq] = of(gain);
    let times = paired(ncq, fifo, |x| goodput(x, "short"), |a, b| a / b);
    let [fifo, ncq] = of(worst);
    let sooner = paired(ncq, fifo, worst_time, |ncq, fifo| fifo - ncq);
    let [before, after] = of(tasks).map(|runs| mean(runs, done));
    let [poor, better] = of(call).map(|runs| mean(runs, r_factor));
    [before, after, times, sooner, poor, better]
}

/// How many figures of the text are met.
fn met(figures: &[Estimate; 6]) -> usize {
    let pairs = figures.iter().zip(TEXT);
    pairs
        .filter(|(x, (_, low, high))| (*low..=*high).contains(&x.mean))
        .count()
}

fn is_run(r: &Results) -> bool {
    points().all(|point| r.has(&point.key(LOADS[0], "fifo")))
}

/// For each form of NCQ the points that meet most, and how many points meet each figure.
pub fn tables(r: &Results) -> Vec<Table> {
    if !is_run(r) {
        return Vec::new();
    }
    FORMS.map(|(name, form)| table(r, name, form)).into()
}

fn table(r: &Results, name: &str, form: &str) -> Table {
    let all: Vec<(Point, [Estimate; 6])> = points()
        .map(|point| (point, found(r, point, form)))
        .collect();
    let most = all
        .iter()
        .map(|(_, figures)| met(figures))
        .max()
        .unwrap_or(0);
    let best = all.iter().filter(|(_, figures)| met(figures) == most);
    let mut rows: Vec<Vec<String>> = best
        .map(|(point, figures)| {
            let head = [point.rate, point.delay, point.buffer].map(|x| x.to_string());
            let figures = figures.iter().map(plain);
            head.into_iter().chain(figures).collect()
        })
        .collect();
    let each = (0..TEXT.len()).map(|n| {
        let (_, low, high) = TEXT[n];
        let met = all
            .iter()
            .filter(|(_, x)| (low..=high).contains(&x[n].mean));
        format!("{} of {}", met.count(), all.len())
    });
    let head = ["points", "that", "meet it"].map(String::from);
    rows.push(head.into_iter().chain(each).collect());
    let head = ["Mbit/s", "ms", "packets"].into_iter().map(String::from);
    Table {
        title: format!(
            "NCQ {name}: rates, delays and buffers that meet most of the text's figures within 10 %, {most} of {}",
            TEXT.len()
        ),
        head: head.chain(TEXT.map(|(name, ..)| name.to_owned())).collect(),
        rows,
    }
}

/// The search in a sentence, where it was run.
pub fn says(r: &Results) -> String {
    if !is_run(r) {
        return String::new();
    }
    format!(
        "Rate, delay and buffer of the bottleneck were searched jointly, {} Mbit/s, {} ms and {} packets, {RUNS} replications each, {} points: the tables have those that meet most of the text's figures.",
        ftp::list(&RATES),
        ftp::list(&DELAYS),
        ftp::list(&BUFFERS),
        points().count()
    )
}
