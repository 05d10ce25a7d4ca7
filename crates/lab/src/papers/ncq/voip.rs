// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenario 3: calls beside downloads. Fig. 16 and 17; also with the kernel's TCP.

use makeway_report::chart::Chart;
use makeway_report::model::Report;
use makeway_report::summary::group;

use super::{QUEUES, kbit, label, queue_on, r_factor, satisfaction, some};
use crate::papers::claim::{Claim, Verdict};
use crate::papers::figures::{Figures, mean, paired, plain, share, with_intervals};
use crate::papers::grid::{Cell, Key, Results};

const FILE: &str = "papers/ncq/voip.toml";
const SETUP: &str = "dumbbell of Fig. 7, its rates and delays chosen by us (as for Fig. 8); one call: 80 B every 10 ms and 40 B of headers, on for 1 s and off for 1.35 s, both Pareto of shape 1.5; encoder 10 ms; downloads without end";
const SECONDS: u64 = 120;
/// A call is on for a second at a time, so that two minutes of it are few.
const RUNS: usize = 10;
/// Packets that each other number of calls has among all of them decide how many can be favoured.
const CALLS: [u32; 3] = [2, 5, 50];
/// Other choices, at 50 downloads.
const CHOICES: [(&str, &[&str]); 5] = [
    ("buffer 30", &["link.line.queue.limit=30 packets"]),
    ("buffer 100", &["link.line.queue.limit=100 packets"]),
    ("rate 5", &["link.line.rate=5mbit"]),
    ("rate 40", &["link.line.rate=40mbit", "link.line.delay=5ms"]),
    ("keep", &["link.line.queue.ncq.push_out=false"]),
];

/// Runs of one kind, by queue and by downloads: `PREFIX/QUEUE/DOWNLOADS`.
pub struct Sweep {
    pub prefix: &'static str,
    pub queues: &'static [&'static str],
    pub downloads: &'static [u32],
    pub setup: &'static str,
    pub from: &'static [&'static str],
}

const SIMULATED: Sweep = Sweep {
    prefix: "voip/1",
    queues: &QUEUES,
    downloads: &[10, 20, 30, 40, 50, 60, 70, 80, 90, 100],
    setup: SETUP,
    from: &["voip/"],
};

/// Short, and of today's TCP, as it can be run in namespaces.
const KERNEL: Sweep = Sweep {
    prefix: "kernel",
    queues: &["fifo", "0.01", "0.05"],
    downloads: &[10, 50],
    setup: "as in simulated time, but Linux's TCP with reno for a minute, one run of each",
    from: &["kernel/"],
};

fn cell(key: Key, queue: &str, downloads: u32, calls: u32) -> Cell {
    Cell {
        set: vec![
            queue_on("line", queue),
            format!("flow.download.count={downloads}"),
            format!("flow.call.count={calls}"),
        ],
        runs: Some(RUNS),
        ..Cell::new(key, FILE, SECONDS)
    }
}

pub fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for queue in SIMULATED.queues {
        for n in SIMULATED.downloads {
            cells.push(cell(SIMULATED.key(queue, *n), queue, *n, 1));
        }
        for n in CALLS {
            cells.push(cell(calls(n, queue), queue, 50, n));
        }
    }
    for (name, set) in CHOICES {
        for queue in ["fifo", "0.01"] {
            let mut cell = cell(choice(name, queue), queue, 50, 1);
            cell.set.extend(set.iter().map(|set| (*set).to_owned()));
            cells.push(cell);
        }
    }
    cells.extend(kernel_cells());
    cells
}

/// Another number of calls, at 50 downloads.
fn calls(n: u32, queue: &str) -> Key {
    Key::new(format!("voip/{n}/{queue}/50"))
}

fn choice(name: &str, queue: &str) -> Key {
    Key::new(format!("voip/{name}/{queue}"))
}

/// The same in both worlds.
pub fn kernel_cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for queue in KERNEL.queues {
        for n in KERNEL.downloads {
            let mut cell = cell(KERNEL.key(queue, *n), queue, *n, 1);
            cell.seconds = 65;
            cell.set
                .push("flow.download.congestion_control=reno".into());
            cell.set.push("flow.download.tcp.preset=linux".into());
            cells.push(cell);
        }
    }
    cells
}

impl Sweep {
    pub fn key(&self, queue: &str, downloads: u32) -> Key {
        Key::new(format!("{}/{queue}/{downloads}", self.prefix))
    }

    fn runs<'a>(&self, r: &'a Results, queue: &str, downloads: u32) -> &'a [Report] {
        &r[self.key(queue, downloads)]
    }

    pub fn by_downloads(
        &self,
        r: &Results,
        queue: &str,
        figure: impl Fn(&Report) -> f64,
    ) -> Figures {
        let each = |n: &u32| (*n, mean(self.runs(r, queue, *n), &figure));
        self.downloads.iter().map(each).collect()
    }

    /// A figure less DropTail's, or as a part of it.
    pub fn against(
        &self,
        r: &Results,
        queue: &str,
        figure: impl Fn(&Report) -> f64,
        of: impl Fn(f64, f64) -> f64 + Copy,
    ) -> Figures {
        let each = |n: &u32| {
            let [ncq, fifo] = [queue, "fifo"].map(|queue| self.runs(r, queue, *n));
            (*n, paired(ncq, fifo, &figure, of))
        };
        self.downloads.iter().map(each).collect()
    }

    pub fn chart(
        &self,
        r: &Results,
        title: &str,
        unit: &str,
        figure: impl Fn(&Report) -> f64,
    ) -> Chart {
        let series = self
            .queues
            .iter()
            .map(|queue| with_intervals(label(queue), &self.by_downloads(r, queue, &figure), 1.0));
        Chart {
            title: title.into(),
            x: "downloads".into(),
            y: unit.into(),
            series: series.collect(),
            ..Chart::default()
        }
    }

    fn fig16(&self, r: &Results) -> Claim {
        let part = |a: f64, b: f64| a / b;
        let calls = |queue: &str| self.against(r, queue, |x| kbit(x, "call"), part);
        let downloads = |queue: &str| self.against(r, queue, |x| kbit(x, "download"), part);
        let asi = |queue: &str| self.against(r, queue, satisfaction, |a, b| a - b);
        let favoured = &self.queues[1..];
        let all = |of: &dyn Fn(&str) -> Figures, holds: &dyn Fn(f64) -> bool| {
            let mut figures = favoured.iter().flat_map(|queue| of(queue));
            figures.all(|figure| holds(figure.1.mean))
        };
        let has_asi = self.runs(r, "fifo", self.downloads[0])[0].asi.is_some();
        let gains = all(&calls, &|gain| gain > 1.0);
        let costs = all(&downloads, &|part| part >= 0.98);
        let satisfied = !has_asi || all(&asi, &|more| more > 0.0);
        Claim {
            id: "ncq.fig16",
            verdict: Verdict::of(gains && costs && satisfied),
            paper: "Goodput and satisfaction index of the calls rise; goodput of the downloads is not significantly lower, least of all with a threshold of 1 %.".into(),
            ours: format!(
                "goodput of the call relative to DropTail, {}; of the downloads, {}{}",
                each(favoured, |queue| some(&calls(queue), plain)),
                each(favoured, |queue| some(&downloads(queue), plain)),
                match has_asi {
                    true => format!("; index of the two classes, difference from DropTail, {}", each(favoured, |queue| some(&asi(queue), plain))),
                    false => String::new(),
                }
            ),
            ideal: "calls without loss, downloads as before".into(),
            why: String::new(),
            setup: self.setup,
            from: self.from,
            charts: [
                ("Fig. 16a: goodput of the call", "kbit/s", (|x| kbit(x, "call")) as fn(&Report) -> f64),
                ("Fig. 16b: goodput of a download", "kbit/s", |x| kbit(x, "download")),
                ("Fig. 16c: satisfaction index of the two classes", "ASI", satisfaction),
            ]
            .into_iter()
            .take(if has_asi { 3 } else { 2 })
            .map(|(title, unit, figure)| self.chart(r, title, unit, figure))
            .collect(),
            ..Claim::default()
        }
    }

    fn fig17(&self, r: &Results) -> Claim {
        let r_of = |queue: &str| mean(self.runs(r, queue, 50), r_factor);
        let (fifo, ncq) = (r_of("fifo"), r_of("0.01"));
        Claim {
            id: "ncq.fig17",
            verdict: Verdict::of((50.0..60.0).contains(&fifo.mean) && (70.0..80.0).contains(&ncq.mean)),
            paper: "R-factor and MOS rise: with 50 flows all calls are poor (R of 50 to 60) under DropTail, medium (70 to 80) under NCQ with 1 %.".into(),
            ours: each(self.queues, |queue| {
                let at = |n: &u32| (*n, mean(self.runs(r, queue, *n), r_factor));
                some(&self.downloads.iter().map(at).collect(), plain)
            }),
            ideal: "R of 93 without loss and waiting".into(),
            why: why17(r),
            setup: self.setup,
            from: self.from,
            charts: vec![
                self.chart(r, "Fig. 17a: R-factor of the call", "R", r_factor),
                self.chart(r, "Fig. 17b: MOS of the call", "MOS", |x| {
                    group(x, "call").voice.map_or(f64::NAN, |voice| voice.mos)
                }),
            ],
            ..Claim::default()
        }
    }
}

/// Effects of the number of calls and of the choices.
fn why17(r: &Results) -> String {
    let of = |key: &dyn Fn(&str) -> Key| {
        let [fifo, ncq] = ["fifo", "0.01"].map(|queue| {
            let runs = r.get(&key(queue));
            runs.map(|runs| plain(&mean(runs, r_factor)))
        });
        Some(format!("{} and {}", fifo?, ncq?))
    };
    let lost = |queue: &str| {
        let runs = r.get(&SIMULATED.key(queue, 50))?;
        Some(share(&mean(runs, |x| {
            group(x, "call").datagrams.map_or(f64::NAN, |d| d.loss)
        })))
    };
    let by_calls = CALLS
        .iter()
        .filter_map(|n| Some(format!("{n} calls {}", of(&|queue| calls(*n, queue))?)));
    let choices = CHOICES
        .iter()
        .filter_map(|(name, _)| Some(format!("{name} {}", of(&|queue| choice(name, queue))?)));
    let (Some(fifo), Some(ncq)) = (lost("fifo"), lost("0.01")) else {
        return String::new();
    };
    format!(
        "The call loses {fifo} under DropTail, {ncq} with 1 %. The paper does not say how many calls there are: a threshold of 1 % does what it says only where calls are a few of a hundred packets, one call here. R with 50 downloads, DropTail and 1 %: {}. With other choices (rates in Mbit/s, buffers in packets; keep: a full buffer refuses favoured packets too): {}. So the step from poor to medium is one of rates and buffers that are lost; that R rises where favoured packets are spared is not.",
        by_calls.collect::<Vec<_>>().join(", "),
        choices.collect::<Vec<_>>().join(", ")
    )
}

pub fn each(queues: &[&str], shown: impl Fn(&str) -> String) -> String {
    let all = queues
        .iter()
        .map(|queue| format!("{}: {}", label(queue), shown(queue)));
    all.collect::<Vec<_>>().join("; ")
}

pub fn claims(r: &Results) -> Vec<Claim> {
    vec![SIMULATED.fig16(r), SIMULATED.fig17(r)]
}

pub fn kernel_claims(r: &Results) -> Vec<Claim> {
    vec![KERNEL.fig16(r), KERNEL.fig17(r)]
}
