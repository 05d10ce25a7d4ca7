//! Scenario 4: none to all of four routers run NCQ. Fig. 19 and 20.

use makeway_core::random::Rng;
use makeway_report::estimate::Estimate;
use makeway_report::model::Report;
use makeway_report::summary::{group, percent};

use super::{kbit, r_factor};
use crate::commands::papers::claim::{Claim, Table, Verdict};
use crate::commands::papers::figures::{mean, paired, plain};
use crate::commands::papers::grid::{Cell, Results};

const FILE: &str = "papers/ncq/incremental.toml";
const SETUP: &str = "four bottlenecks of 10 Mbit/s and 100 packets in a row; 1 to 50 downloads and 1 to 10 calls over all of them, three downloads across each, three the opposite way; 60 s, threshold 3 %; topology and crossing traffic chosen by us";
/// Of the paper.
const RUNS: u64 = 50;
/// That can run NCQ.
const ROUTERS: usize = 4;
/// Downloads across each router in a crowd, to lose half of the packets as the paper must have.
const CROWD: u32 = 40;

/// Runs of one kind, by the routers that run NCQ.
#[derive(Clone, Copy)]
struct Set(&'static str);

const PAPER: Set = Set("incremental");
const CROWDED: Set = Set("crowded");

pub fn cells() -> Vec<Cell> {
    let mut cells: Vec<Cell> = (0..=ROUTERS)
        .flat_map(|routers| (1..=RUNS).map(move |run| PAPER.cell(routers, run)))
        .collect();
    for routers in [0, ROUTERS] {
        cells.extend((1..=RUNS).map(|run| {
            let mut cell = CROWDED.cell(routers, run);
            let crowd = |k| format!("flow.cross{k}.count={CROWD}");
            cell.set.extend((1..=ROUTERS).map(crowd));
            cell
        }));
    }
    cells
}

impl Set {
    /// Numbers of downloads and calls are uniform, the same whatever the routers run.
    fn cell(self, routers: usize, run: u64) -> Cell {
        let mut rng = Rng::new(run);
        let mut up_to = |most: u64| 1 + rng.next_u64() % most;
        let mut set = vec![
            format!("seed={run}"),
            format!("flow.download.count={}", up_to(50)),
            format!("flow.call.count={}", up_to(10)),
        ];
        // A router sends to the right by its own line, to the left by the one before.
        for router in routers + 1..=ROUTERS {
            set.push(format!("link.line{router}.queue.0.discipline=fifo"));
            if router > 1 {
                set.push(format!("link.line{}.queue.1.discipline=fifo", router - 1));
            }
        }
        set.push(format!("link.line{ROUTERS}.queue.1.discipline=fifo"));
        Cell {
            set,
            runs: Some(1),
            ..Cell::new(format!("{}/{routers}/{run}", self.0), FILE, 60)
        }
    }

    fn runs(self, r: &Results, routers: usize) -> Vec<Report> {
        let reports = (1..=RUNS).filter_map(|run| r.get(&format!("{}/{routers}/{run}", self.0)));
        reports.flatten().cloned().collect()
    }

    /// What each run gained over DropTail, as a part of it: 1 is twice as much.
    fn gains(self, r: &Results, routers: usize, figure: impl Fn(&Report) -> f64) -> Vec<f64> {
        let [ncq, fifo] = [routers, 0].map(|routers| self.runs(r, routers));
        let pairs = ncq.iter().zip(&fifo).map(|(a, b)| [figure(a), figure(b)]);
        pairs.map(|[ncq, fifo]| (ncq - fifo) / fifo.abs()).collect()
    }
}

/// Shares of the runs with no gain, up to 50 %, up to 100 %, and more.
fn frequencies(gains: &[f64]) -> [f64; 4] {
    let within = |low: f64, high: f64| {
        let n = gains
            .iter()
            .filter(|gain| **gain > low && **gain <= high)
            .count();
        n as f64 / gains.len() as f64
    };
    [
        within(f64::NEG_INFINITY, 0.0),
        within(0.0, 0.5),
        within(0.5, 1.0),
        within(1.0, f64::INFINITY),
    ]
}

const CLASSES: [&str; 4] = ["none", "up to 50 %", "50 to 100 %", "over 100 %"];

fn table(title: &str, rows: &[(&str, [f64; 4], [&str; 4])]) -> Table {
    let head = ["runs with a gain of"].into_iter().chain(CLASSES);
    let row = |(name, ours, paper): &(&str, [f64; 4], [&str; 4])| {
        let cells = ours.iter().zip(paper).map(|(ours, paper)| match *paper {
            "" => percent(*ours),
            paper => format!("{} ({paper})", percent(*ours)),
        });
        [(*name).to_owned()].into_iter().chain(cells).collect()
    };
    Table {
        title: title.into(),
        head: head.map(str::to_owned).collect(),
        rows: rows.iter().map(row).collect(),
    }
}

fn loss(report: &Report) -> f64 {
    group(report, "call").datagrams.map_or(f64::NAN, |d| d.loss)
}

pub fn claims(r: &Results) -> Vec<Claim> {
    vec![fig19(r), fig20(r)]
}

fn fig19(r: &Results) -> Claim {
    let calls = |set: Set| set.gains(r, ROUTERS, |x| kbit(x, "call"));
    let ours = frequencies(&calls(PAPER));
    let crowded = frequencies(&calls(CROWDED));
    let fifo = PAPER.runs(r, 0);
    let downloads = (1..=ROUTERS).map(|routers| {
        let ncq = PAPER.runs(r, routers);
        paired(&ncq, &fifo, |x| kbit(x, "download"), |ncq, fifo| ncq / fifo)
    });
    let downloads: Vec<Estimate> = downloads.collect();
    let hardly = downloads.iter().all(|part| (part.mean - 1.0).abs() <= 0.05);
    Claim {
        id: "ncq.fig19",
        verdict: Verdict::of(hardly && (ours[3] - 0.38).abs() <= 0.15),
        paper: "Goodput of the downloads hardly changes, however many routers run NCQ; with all four, goodput of the calls more than doubles in 38 % of the runs.".into(),
        ours: format!(
            "downloads, in DropTail's, with 1 to 4 routers: {}; calls gain more than 100 % in {} of the runs, {} at most",
            downloads.iter().map(plain).collect::<Vec<_>>().join(", "),
            percent(ours[3]),
            percent(calls(PAPER).into_iter().fold(0.0, f64::max))
        ),
        ideal: "calls get all that they send".into(),
        why: format!(
            "A call can double its goodput only where it loses more than half of its packets. Under DropTail ours lose {} on average; the paper says neither how much crosses at its routers nor what is lost. With {CROWD} downloads across each router they lose {}, and {} of the runs gain more than 100 %.",
            percent(mean(&fifo, loss).mean), percent(mean(&CROWDED.runs(r, 0), loss).mean), percent(crowded[3])
        ),
        setup: SETUP,
        from: &["incremental/", "crowded/"],
        tables: vec![table(
            "Fig. 19b: goodput of the calls with four routers, with the paper's in brackets",
            &[
                ("three downloads across each", ours, ["", "", "", "38 %"]),
                ("forty across each", crowded, ["", "", "", "38 %"]),
            ],
        )],
        ..Claim::default()
    }
}

fn fig20(r: &Results) -> Claim {
    let quality = frequencies(&PAPER.gains(r, 3, r_factor));
    let satisfied = frequencies(&PAPER.gains(r, 3, |x| x.asi.unwrap_or(f64::NAN)));
    let [some, more] = [quality[1], quality[2] + quality[3]];
    let content = 1.0 - satisfied[0];
    Claim {
        id: "ncq.fig20",
        verdict: Verdict::of((some - 0.88).abs() <= 0.15 && more <= 0.15 && (content - 0.82).abs() <= 0.15),
        paper: "With three of four routers the R-factor improves by up to 50 % in 88 % of the runs and by more in 4 %; the satisfaction index improves in 82 %.".into(),
        ours: format!(
            "R-factor: by up to 50 % in {}, by more in {}; index: in {}",
            percent(some), percent(more), percent(content)
        ),
        ideal: "all of them".into(),
        why: String::new(),
        setup: SETUP,
        from: &["incremental/"],
        tables: vec![table(
            "Fig. 20: with three routers, with the paper's in brackets",
            &[
                ("R-factor", quality, ["", "88 %", "", ""]),
                ("satisfaction index", satisfied, ["18 %", "", "", ""]),
            ],
        )],
        ..Claim::default()
    }
}
