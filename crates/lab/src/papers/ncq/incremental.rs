// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenario 4: none to all of four routers run NCQ. Fig. 19 and 20.

use makeway_core::measure::{Service, asi};
use makeway_core::random::Rng;
use makeway_report::estimate::Estimate;
use makeway_report::model::{FlowReport, Quantiles, Report};
use makeway_report::summary::group;

use super::index::{READINGS, Reading, of_classes};
use super::{kbit, r_factor};
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{highest, in_percent, largest, lowest, mean, only, percent, plain};

const FILE: &str = "papers/ncq/incremental.toml";
const SETUP: &str = "four bottlenecks of 10 Mbit/s and 100 packets in a row; 1 to 50 downloads and 1 to 10 calls over all of them, three downloads across each, three the opposite way; 60 s, threshold 3 %; topology and crossing traffic chosen by us";
/// Runs of the paper.
const RUNS: u64 = 50;
/// Routers that can run NCQ.
const ROUTERS: usize = 4;
/// Added to a run's number where only its random numbers are others.
const OTHER_SEEDS: u64 = 1000;
/// Downloads across each router in a crowd, in which a call loses nearly half of its packets.
const CROWD: u32 = 100;
/// Downloads across each router between [`CROWD`] and [`THRONG`].
const MIDDLE: u32 = 200;
/// Downloads across each router with which it loses more.
const THRONG: u32 = 300;

/// Runs of one kind, by the routers that run NCQ: its name, and their number.
#[derive(Clone, Copy, PartialEq)]
struct Set(&'static str, u64);

const PAPER: Set = Set("incremental", RUNS);
/// The same where favoured packets only go first, as the paper has it.
const PRINTED: Set = Set("incremental-plain", RUNS);
/// DropTail with other random numbers: what chance alone makes of a run's figures, and what a reference makes that saw other luck.
const OTHER: Set = Set("incremental-other", RUNS);
/// The set-up of the paper without a threshold.
const UNCONFINED: Set = Set("incremental-free", RUNS);
const CROWDED: Set = Set("crowded", RUNS);
/// The same without a threshold.
const FREE: Set = Set("crowded-free", RUNS);
/// As [`FREE`], with [`THRONG`] downloads, and its DropTail.
const THRONGED: Set = Set("thronged-free", 20);
/// As [`FREE`], with [`MIDDLE`] downloads, and its DropTail.
const PRESSED: Set = Set("pressed-free", RUNS);
/// One download across each router, ours; as printed.
const SPARSE: [Set; 2] = [Set("sparse", RUNS), Set("sparse-plain", RUNS)];

/// Routers with NCQ in Fig. 20.
const JUDGED: usize = 3;
/// Other choices for Fig. 20, as printed, at each of the four links; each with its DropTail.
const CHOICES: [(Set, &str, &str); 7] = [
    (
        Set("choice-threshold-1", RUNS),
        "a threshold of 1 %",
        "queue.ncq.threshold=0.01",
    ),
    (
        Set("choice-threshold-5", RUNS),
        "a threshold of 5 %",
        "queue.ncq.threshold=0.05",
    ),
    (
        Set("choice-buffer-30", RUNS),
        "buffers of 30 packets",
        "queue.limit=30 packets",
    ),
    (
        Set("choice-buffer-50", RUNS),
        "buffers of 50 packets",
        "queue.limit=50 packets",
    ),
    (
        Set("choice-buffer-200", RUNS),
        "buffers of 200 packets",
        "queue.limit=200 packets",
    ),
    (
        Set("choice-rate-20", RUNS),
        "links of 20 Mbit/s",
        "rate=20mbit",
    ),
    (
        Set("choice-delay-20", RUNS),
        "links of 20 ms, not 5",
        "delay=20ms",
    ),
];

pub fn cells() -> Vec<Cell> {
    let mut cells: Vec<Cell> = (0..=ROUTERS)
        .flat_map(|routers| (1..=RUNS).map(move |run| PAPER.cell(routers, run)))
        .collect();
    cells.extend((1..=RUNS).map(|run| {
        let mut cell = OTHER.cell(0, run);
        cell.set.push(format!("seed={}", run + OTHER_SEEDS));
        cell
    }));
    cells.extend((1..=ROUTERS).flat_map(|routers| {
        (1..=RUNS).map(move |run| {
            let mut cell = PRINTED.cell(routers, run);
            cell.set.extend(keep());
            cell
        })
    }));
    let crowds = [
        (CROWDED, 0, CROWD),
        (CROWDED, ROUTERS, CROWD),
        (FREE, ROUTERS, CROWD),
        (THRONGED, 0, THRONG),
        (THRONGED, ROUTERS, THRONG),
        (PRESSED, 0, MIDDLE),
        (PRESSED, ROUTERS, MIDDLE),
        (SPARSE[0], 0, 1),
        (SPARSE[0], 3, 1),
        (SPARSE[1], 3, 1),
        (UNCONFINED, ROUTERS, 3),
    ];
    for (set, routers, across) in crowds {
        cells.extend((1..=set.1).map(|run| {
            let mut cell = set.cell(routers, run);
            for k in 1..=ROUTERS {
                cell.set.push(format!("flow.cross{k}.count={across}"));
                if [FREE, THRONGED, PRESSED, UNCONFINED].contains(&set) {
                    cell.set.push(format!("link.line{k}.queue.ncq.threshold=1"));
                }
            }
            if set == SPARSE[1] {
                cell.set.extend(keep());
            }
            cell
        }));
    }
    for (set, _, choice) in CHOICES {
        for routers in [0, JUDGED] {
            cells.extend((1..=set.1).map(|run| {
                let mut cell = set.cell(routers, run);
                cell.set.extend(keep());
                let each = (1..=ROUTERS).map(|k| format!("link.line{k}.{choice}"));
                cell.set.extend(each);
                cell
            }));
        }
    }
    cells
}

/// As printed: a full buffer refuses favoured packets too.
fn keep() -> impl Iterator<Item = String> {
    let of = |k: usize| [0, 1].map(|end| format!("link.line{k}.queue.{end}.ncq.push_out=false"));
    (1..=ROUTERS).flat_map(of)
}

impl Set {
    /// Numbers of downloads and calls are uniform, the same for all disciplines of the routers.
    fn cell(self, routers: usize, run: u64) -> Cell {
        let mut rng = Rng::new(run);
        let mut up_to = |most: u64| 1 + rng.next_u64() % most;
        let mut set = vec![
            format!("seed={run}"),
            format!("flow.download.count={}", up_to(50)),
            format!("flow.call.count={}", up_to(10)),
        ];
        // A router sends to the right over its link, to the left over the link before.
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
            ..Cell::new(self.key(routers, run), FILE, 60)
        }
    }

    fn key(self, routers: usize, run: u64) -> Key {
        Key::new(format!("{}/{routers}/{run}", self.0))
    }

    fn runs(self, r: &Results, routers: usize) -> Vec<Report> {
        let reports = (1..=self.1).filter_map(|run| r.get(&self.key(routers, run)));
        reports.flatten().cloned().collect()
    }

    /// Gain of each run over `other`'s DropTail, as a part of it: 1 is twice as much. Not a number where one of the two was not measured.
    fn gains(
        self,
        other: Self,
        r: &Results,
        routers: usize,
        figure: impl Fn(&Report) -> f64,
    ) -> Vec<f64> {
        let of = |set: Self, routers: usize, run: u64| {
            let runs = r.get(&set.key(routers, run)).unwrap_or_default();
            runs.first().map_or(f64::NAN, &figure)
        };
        (1..=self.1.min(other.1))
            .map(|run| gain(of(self, routers, run), of(other, 0, run)))
            .collect()
    }
}

/// Nothing instead of nothing is no gain.
fn gain(ncq: f64, fifo: f64) -> f64 {
    match ncq == fifo {
        true => 0.0,
        false => (ncq - fifo) / fifo.abs(),
    }
}

/// Shares of the runs with no gain, up to 50 %, up to 100 %, and more. A run that was not measured belongs to none of them, and without
/// it they are shares of something else: then nothing is known.
fn frequencies(gains: &[f64]) -> [f64; 4] {
    if gains.iter().any(|gain| gain.is_nan()) {
        return [f64::NAN; 4];
    }
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
    let calls = |set: Set, other| set.gains(other, r, ROUTERS, |x| kbit(x, "call"));
    let ours = frequencies(&calls(PAPER, PAPER));
    let crowded = frequencies(&calls(CROWDED, CROWDED));
    let free = frequencies(&calls(FREE, CROWDED));
    let unconfined = frequencies(&calls(UNCONFINED, PAPER));
    let thronged = frequencies(&calls(THRONGED, THRONGED));
    let pressed = frequencies(&calls(PRESSED, PRESSED));
    let fifo = PAPER.runs(r, 0);
    let downloads = |set: Set| -> Vec<Estimate> {
        let part = |routers: usize| {
            let gains = set.gains(PAPER, r, routers, |x| kbit(x, "download"));
            Estimate::of(gains.into_iter().map(|gain| 1.0 + gain))
        };
        (1..=ROUTERS).map(part).collect()
    };
    let column = |set: Set| {
        let doubled = frequencies(&calls(set, PAPER))[3];
        Column::of([
            (
                "goodput of the downloads by DropTail's, least number of routers",
                lowest(downloads(set)),
            ),
            (
                "goodput of the downloads by DropTail's, largest number of routers",
                highest(downloads(set)),
            ),
            (
                "calls gain more than 100 % with four routers in, % of runs",
                only(doubled * 100.0),
            ),
            (
                "packets of calls lost with four routers, %",
                in_percent(mean(&set.runs(r, ROUTERS), loss)),
            ),
        ])
    };
    Claim {
        id: "ncq.fig19",
        printed: column(PRINTED),
        ours: column(PAPER),
        paper: "Goodput of the downloads hardly changes, however many routers run NCQ; with all four, goodput of the calls more than doubles in 38 % of the runs.".into(),
        said: format!(
            "downloads, relative to DropTail, with 1 to 4 routers: {}; calls gain more than 100 % in {} of the runs, {} at most",
            downloads(PAPER).iter().map(plain).collect::<Vec<_>>().join(", "),
            percent(ours[3]),
            percent(largest(calls(PAPER, PAPER)))
        ),
        ideal: "calls get all that they send".into(),
        why: format!(
            "A call can double its goodput only where it loses more than half of its packets: e / (1 - e) is the most that is to be gained. Under DropTail ours lose {} on average. With {CROWD} downloads across each router they lose {}; then {} of the runs gain more than 100 %, and {} where there is no threshold, {} at most. With {THRONG} across each, likewise without a threshold, they lose {} under DropTail, and {} of the runs gain more than 100 %. From the second call on they are more than 3 % of the packets, so the threshold confines most runs: without one, and nothing else changed, calls lose {} with four routers. The paper does not say what else crosses its routers.",
            percent(mean(&fifo, loss).mean),
            percent(mean(&CROWDED.runs(r, 0), loss).mean),
            percent(crowded[3]),
            percent(free[3]),
            percent(largest(calls(FREE, CROWDED))),
            percent(mean(&THRONGED.runs(r, 0), loss).mean),
            percent(thronged[3]),
            percent(mean(&UNCONFINED.runs(r, ROUTERS), loss).mean)
        ),
        setup: SETUP,
        from: &["incremental/", "incremental-plain/", "incremental-other/", "incremental-free/", "crowded/", "crowded-free/", "thronged-free/", "pressed-free/"],
        tables: vec![table(
            "Fig. 19b: goodput of the calls with four routers, with the paper's in brackets",
            &[
                ("three downloads across each", ours, ["", "", "", "38 %"]),
                ("the same, no threshold", unconfined, ["", "", "", "38 %"]),
                ("a hundred across each", crowded, ["", "", "", "38 %"]),
                ("a hundred across each, no threshold", free, ["", "", "", "38 %"]),
                ("two hundred across each, no threshold", pressed, ["", "", "", "38 %"]),
                ("three hundred across each, no threshold (20 runs)", thronged, ["", "", "", "38 %"]),
                ("as printed", frequencies(&calls(PRINTED, PAPER)), ["", "", "", "38 %"]),
                ("as printed, the reference of other luck", frequencies(&calls(PRINTED, OTHER)), ["", "", "", "38 %"]),
                ("pushing out, the reference of other luck", frequencies(&calls(PAPER, OTHER)), ["", "", "", "38 %"]),
                ("DropTail against DropTail of other luck", frequencies(&PAPER.gains(OTHER, r, 0, |x| kbit(x, "call"))), ["", "", "", "38 %"]),
            ],
        )],
        ..Claim::default()
    }
}

/// Time of a call's packet without waiting, ms: six paths of 5 ms, and 120 B four times.
const EMPTY: f64 = 30.0 + 4.0 * 0.096;

/// The satisfaction index of the two classes by how long packets wait at the four routers, counted from 0: reports know a
/// flow's delays above its least, and where queues never empty the least is no zero.
fn by_waits(report: &Report) -> f64 {
    let names = ["r1 -> r2", "r2 -> r3", "r3 -> r4", "r4 -> r5"];
    let queues = || {
        let lines = report.queues.iter();
        lines.filter(|queue| names.contains(&queue.name.as_str()))
    };
    let Some(call) = group(report, "call").datagrams else {
        return f64::NAN;
    };
    let service = |name: &str, delay| Service {
        delay,
        data: group(report, name).goodput_bps,
    };
    let most = queues()
        .map(|queue| queue.sojourn_ms.map_or(f64::NAN, |sojourn| sojourn.max))
        .sum();
    let services = [
        service(
            "download",
            queues().map(|queue| queue.mean_sojourn_ms()).sum(),
        ),
        service("call", call.delay_ms.mean - EMPTY),
    ];
    asi(&services, most).unwrap_or(f64::NAN)
}

/// The same of all flows.
fn flows_by_waits(report: &Report) -> f64 {
    let wait = |from: usize, to: usize, of: fn(Quantiles) -> f64| {
        let name = format!("r{from} -> r{to}");
        let queue = report.queues.iter().find(|queue| queue.name == name);
        let sojourn = queue.and_then(|queue| queue.sojourn_ms);
        sojourn.map_or(f64::NAN, of)
    };
    let there = |of: fn(Quantiles) -> f64| (1..=ROUTERS).map(|k| wait(k, k + 1, of)).sum::<f64>();
    let back = |of: fn(Quantiles) -> f64| (1..=ROUTERS).map(|k| wait(k + 1, k, of)).sum::<f64>();
    let delay = |flow: &FlowReport| match flow.group.as_str() {
        "call" => flow
            .datagrams
            .as_ref()
            .map_or(f64::NAN, |d| d.delay_ms.mean - EMPTY),
        "reverse" => back(|x| x.mean),
        group => match group.strip_prefix("cross").map(str::parse::<usize>) {
            Some(Ok(k)) => wait(k, k + 1, |x| x.mean),
            _ => there(|x| x.mean),
        },
    };
    let active = report.flows.iter().filter(|flow| flow.goodput_bps > 0.0);
    let services = active.map(|flow| Service {
        delay: delay(flow),
        data: flow.goodput_bps,
    });
    let services: Vec<Service> = services.collect();
    let most = largest([there(|x| x.max), back(|x| x.max)]);
    asi(&services, most).unwrap_or(f64::NAN)
}

/// Part of the runs in which the index improves with three routers, by other readings of it.
fn readings(r: &Results) -> Table {
    let improved = |set: Set, figure: fn(&Report) -> f64| {
        let [none, ..] = frequencies(&set.gains(PAPER, r, 3, figure));
        percent(1.0 - none)
    };
    let waits: [Reading; 2] = [
        ("of two classes, by waits at the routers", by_waits),
        ("of all flows, by waits at the routers", flows_by_waits),
    ];
    let all = READINGS.into_iter().chain(waits);
    let rows = all.map(|(says, figure)| {
        vec![
            says.to_owned(),
            improved(PRINTED, figure),
            improved(PAPER, figure),
        ]
    });
    Table {
        title: "Fig. 20b: runs in which the index improves with three routers, by other readings of it (the paper's 82 %)".into(),
        head: ["index", "as printed", "ours"].map(String::from).into(),
        rows: rows.collect(),
    }
}

/// Fig. 20a as printed, with another choice.
fn choices(r: &Results) -> Table {
    let row = |says: &'static str, set: Set, reference: Set| {
        let gains = set.gains(reference, r, JUDGED, r_factor);
        (says, frequencies(&gains), ["", "88 %", "4 %", ""])
    };
    let first = row("nothing changed", PRINTED, PAPER);
    let changed = CHOICES.map(|(set, says, _)| row(says, set, set));
    let rows: Vec<_> = [first].into_iter().chain(changed).collect();
    table(
        "Fig. 20a: R-factor as printed with three routers and one thing changed, with the paper's in brackets; the paper's 4 % are of all gains above 50 %",
        &rows,
    )
}

fn fig20(r: &Results) -> Claim {
    let of = |figure: fn(&Report) -> f64| frequencies(&PAPER.gains(PAPER, r, 3, figure));
    let quality = of(r_factor);
    let classes = of(of_classes);
    let flows = of(|x| x.asi.unwrap_or(f64::NAN));
    let waits = of(by_waits);
    let index: fn(&Report) -> f64 = |x| x.asi.unwrap_or(f64::NAN);
    let lucky = |set: Set, other: Set, routers: usize, figure: fn(&Report) -> f64| {
        frequencies(&set.gains(other, r, routers, figure))
    };
    let [some, more] = [quality[1], quality[2] + quality[3]];
    let [by_waits, by_delays, of_flows] = [waits, classes, flows].map(|f| 1.0 - f[0]);
    let column = |set: Set| {
        let of = |figure: fn(&Report) -> f64| frequencies(&set.gains(PAPER, r, 3, figure));
        let quality = of(r_factor);
        let index = of(|x| x.asi.unwrap_or(f64::NAN));
        Column::of(
            [
                ("R improves by up to 50 % in, % of runs", quality[1]),
                ("R improves by more in, % of runs", quality[2] + quality[3]),
                ("R improves in, % of runs", quality[1..].iter().sum()),
                (
                    "index of all flows improves in, % of runs",
                    index[1..].iter().sum(),
                ),
            ]
            .map(|(name, x): (_, f64)| (name, only(x * 100.0))),
        )
    };
    Claim {
        id: "ncq.fig20",
        printed: column(PRINTED),
        ours: column(PAPER),
        paper: "With three of four routers the R-factor improves by up to 50 % in 88 % of the runs and by more in 4 %; the satisfaction index improves in 82 %.".into(),
        said: format!(
            "R-factor: by up to 50 % in {}, by more in {}; index of the two classes: in {} by their waits, in {} by delays above the least; of all flows: in {}",
            percent(some), percent(more), percent(by_waits), percent(by_delays), percent(of_flows)
        ),
        ideal: "both improve in all runs".into(),
        why: "The paper takes the index of flows or of classes and does not say which it shows, nor what a queuing delay is counted from. Judged by that of all flows, as Fig. 15 and 16 are. By delays above the least that a flow had it often sinks: queues in a row are seldom empty together, so a favoured packet lowers its flow's least and raises all the flow's other delays, and the largest of them.".into(),
        setup: SETUP,
        from: &["incremental/", "incremental-plain/", "incremental-other/", "sparse/", "sparse-plain/", "choice-"],
        tables: vec![readings(r), choices(r), table(
            "Fig. 20: with three routers, with the paper's in brackets",
            &[
                ("R-factor", quality, ["", "88 %", "", ""]),
                ("index of two classes, by waits", waits, ["18 %", "", "", ""]),
                ("by delays above the least", classes, ["18 %", "", "", ""]),
                ("index of all flows", flows, ["18 %", "", "", ""]),
                ("R-factor as printed", lucky(PRINTED, PAPER, 3, r_factor), ["", "88 %", "", ""]),
                ("R-factor as printed, the reference of other luck", lucky(PRINTED, OTHER, 3, r_factor), ["", "88 %", "", ""]),
                ("R-factor pushing out, the reference of other luck", lucky(PAPER, OTHER, 3, r_factor), ["", "88 %", "", ""]),
                ("R-factor, DropTail against DropTail of other luck", lucky(PAPER, OTHER, 0, r_factor), ["", "88 %", "", ""]),
                ("R-factor, one download across each router", lucky(SPARSE[0], SPARSE[0], 3, r_factor), ["", "88 %", "", ""]),
                ("R-factor as printed, one download across each router", lucky(SPARSE[1], SPARSE[0], 3, r_factor), ["", "88 %", "", ""]),
                ("index of all flows as printed, the reference of other luck", lucky(PRINTED, OTHER, 3, index), ["18 %", "", "", ""]),
                ("index of all flows, DropTail against DropTail of other luck", lucky(PAPER, OTHER, 0, index), ["18 %", "", "", ""]),
            ],
        )],
        ..Claim::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::tests::made_up;

    #[test]
    fn shares_of_runs_that_were_not_all_measured_are_not_measured() {
        let all = [-0.1, 0.0, 0.2, 0.7, 2.0];
        assert_eq!(frequencies(&all), [0.4, 0.2, 0.2, 0.2]);
        let with = |gain: f64| frequencies(&[&all[..], &[gain]].concat());
        assert!(with(f64::NAN).iter().all(|share| share.is_nan()));
        assert!(frequencies(&[]).iter().all(|share| share.is_nan()));
        assert_eq!(with(f64::INFINITY)[3], 2.0 / 6.0);
    }

    #[test]
    fn a_run_is_compared_with_that_of_its_number_and_one_that_is_missing_is_not_measured() {
        let report = |run: u64| made_up(run as f64, vec![], vec![]);
        let cell = |routers: usize, run: u64| (PAPER.key(routers, run), vec![report(run)]);
        let fifo = (1..=RUNS).map(|run| cell(0, run));
        let ncq = (1..=RUNS).filter(|run| *run != 7);
        let r: Results = fifo.chain(ncq.map(|run| cell(ROUTERS, run))).collect();
        let gains = PAPER.gains(PAPER, &r, ROUTERS, |report| report.seconds);
        assert_eq!(gains.len(), RUNS as usize);
        for (run, gain) in (1..=RUNS).zip(&gains) {
            assert!(*gain == 0.0 || (run == 7 && gain.is_nan()), "{run}: {gain}");
        }
        assert!(frequencies(&gains).iter().all(|share| share.is_nan()));
        assert_eq!((gain(0.0, 0.0), gain(3.0, 2.0)), (0.0, 0.5));
    }
}
