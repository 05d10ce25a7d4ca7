// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenario 3: calls beside downloads. Fig. 16 and 17; also with the kernel's TCP.

use makeway_report::chart::Chart;
use makeway_report::model::Report;
use makeway_report::summary::group;

use makeway_report::estimate::Estimate;

use super::index::{READINGS, Reading, by_waits, of_classes};
use super::{PLAIN, PUSHING, QUEUES, kbit, label, queue_on, r_factor, some};
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{
    Figures, Pairs, average, by_chance, in_pairs, largest, lowest, mean, paired, plain, share,
    together, with_intervals,
};

const FILE: &str = "papers/ncq/voip.toml";
const SETUP: &str = "dumbbell of Fig. 7, its rates and delays chosen by us (as for Fig. 8); one call: 80 B every 10 ms and 40 B of headers, on for 1 s and off for 1.35 s, both Pareto of shape 1.5; encoder 10 ms; downloads without end";
const SECONDS: u64 = 120;
/// A call is on for a second at a time, so that two minutes of it are few.
const RUNS: usize = 10;
/// Replications of figures whose interval over ten reaches beyond the bar.
const MORE: usize = 40;
/// Packets that each other number of calls has among all of them decide how many can be favoured.
/// The paper's 50 calls, and its more than 80, may be calls too, not only downloads beside them.
const CALLS: [u32; 5] = [2, 5, 50, 90, 100];
/// Other choices, at 50 downloads.
const CHOICES: [(&str, &[&str]); 8] = [
    ("buffer 20", &["link.line.queue.limit=20 packets"]),
    ("buffer 30", &["link.line.queue.limit=30 packets"]),
    ("buffer 100", &["link.line.queue.limit=100 packets"]),
    ("rate 5", &["link.line.rate=5mbit"]),
    ("rate 20", &["link.line.rate=20mbit"]),
    ("rate 40", &["link.line.rate=40mbit"]),
    ("delay 5", &["link.line.delay=5ms"]),
    (
        "rate 40, delay 5",
        &["link.line.rate=40mbit", "link.line.delay=5ms"],
    ),
];
/// Queues with them.
const CHOSEN: [&str; 3] = ["fifo", PLAIN[0], "0.01"];
/// Time of a call's packet without waiting, ms: three links of 5, 20 and 5 ms, and 120 B at 10 Mbit/s.
const EMPTY: f64 = 30.0 + 0.096;
/// Index of all flows by waits, counted from 0.
const BY_WAITS: Reading = ("of all flows, by waits at the router", |report| {
    by_waits(report, EMPTY)
});

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

pub fn cell(key: Key, queue: &str, downloads: u32, calls: u32) -> Cell {
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
    for queue in PLAIN {
        for n in SIMULATED.downloads {
            cells.push(cell(SIMULATED.key(queue, *n), queue, *n, 1));
        }
    }
    for queue in SIMULATED.queues {
        for n in SIMULATED.downloads {
            cells.push(cell(SIMULATED.key(queue, *n), queue, *n, 1));
        }
        for n in CALLS {
            cells.push(cell(calls(n, queue), queue, 50, n));
        }
    }
    for queue in [PLAIN[0], PLAIN[2]] {
        for n in CALLS {
            cells.push(cell(calls(n, queue), queue, 50, n));
        }
    }
    for (name, set) in CHOICES {
        for queue in CHOSEN {
            let mut cell = cell(choice(name, queue), queue, 50, 1);
            cell.set.extend(set.iter().map(|set| (*set).into()));
            cells.push(cell);
        }
    }
    let printed = ["fifo", PLAIN[0], PLAIN[2]].into_iter();
    let printed = printed.flat_map(|queue| SIMULATED.downloads.iter().map(move |n| (queue, *n)));
    let repeated = printed.chain([("0.01", 50)]);
    cells.extend(repeated.map(|(queue, n)| Cell {
        runs: Some(MORE),
        ..cell(more(queue, n), queue, n, 1)
    }));
    cells.extend(kernel_cells());
    cells
}

/// One call, with [`MORE`] replications.
fn more(queue: &str, downloads: u32) -> Key {
    Key::new(format!("voip/more/{queue}/{downloads}"))
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

    pub fn runs<'a>(&self, r: &'a Results, queue: &str, downloads: u32) -> &'a [Report] {
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

    /// Pairs of runs for all numbers of downloads, each with DropTail's.
    fn pairs<'a>(&self, runs: impl Fn(&str, u32) -> &'a [Report], queue: &str) -> Vec<Pairs<'a>> {
        let pairs = |n: &u32| in_pairs(runs(queue, *n), runs("fifo", *n));
        self.downloads.iter().map(pairs).collect()
    }

    /// Goodput of the downloads with one queue less that with another, by DropTail's, the mean over all numbers of downloads.
    fn less<'a>(&self, runs: impl Fn(&str, u32) -> &'a [Report], queues: [&str; 2]) -> Estimate {
        let [few, many] = queues.map(|queue| {
            let pairs = self.pairs(&runs, queue);
            together(&pairs, |x| kbit(x, "download"), |a, b| a / b, average)
        });
        Estimate::of(few.iter().zip(many).map(|(few, many)| few - many))
    }

    /// A figure against DropTail's, the mean over all numbers of downloads.
    pub fn overall(
        &self,
        r: &Results,
        queue: &str,
        figure: impl Fn(&Report) -> f64,
        of: impl Fn(f64, f64) -> f64,
    ) -> Estimate {
        let pairs = self.pairs(|queue, n| self.runs(r, queue, n), queue);
        Estimate::of(together(&pairs, figure, of, average))
    }

    /// The best single run of all thresholds and numbers of downloads, and that by the best of chance: DropTail with
    /// other runs of itself.
    pub fn most(
        &self,
        r: &Results,
        queues: &[&str],
        figure: impl Fn(&Report) -> f64,
        of: impl Fn(f64, f64) -> f64,
    ) -> [Estimate; 2] {
        let runs = |queue: &str, n: u32| self.runs(r, queue, n);
        let all = queues.iter().flat_map(|queue| self.pairs(runs, queue));
        let all: Vec<Pairs<'_>> = all.collect();
        let steps =
            (1..=queues.len()).flat_map(|step| self.downloads.iter().map(move |n| (step, n)));
        let chance = steps.map(|(step, n)| by_chance(runs("fifo", *n), step));
        let chance: Vec<Pairs<'_>> = chance.collect();
        let most = |setups: &[Pairs<'_>]| together(setups, &figure, &of, largest);
        let [most, chance] = [&all, &chance].map(|setups| most(setups));
        let beyond = most.iter().zip(chance).map(|(most, chance)| most / chance);
        [Estimate::of(most.iter().copied()), Estimate::of(beyond)]
    }

    /// The index of all flows by other readings of it.
    pub fn readings(&self, r: &Results, waits: Reading) -> Table {
        let rows = READINGS.into_iter().chain([waits]).map(|(says, figure)| {
            let of = |queues: &[&str]| {
                let all = queues.iter();
                let all = all.map(|queue| self.overall(r, queue, figure, |a, b| a - b));
                plain(&lowest(all))
            };
            vec![says.to_owned(), of(&PLAIN), of(&PUSHING)]
        });
        Table {
            title:
                "Index less DropTail's, mean over all n, least threshold, by other readings of it"
                    .into(),
            head: ["index", "as printed", "ours"].map(String::from).into(),
            rows: rows.collect(),
        }
    }

    /// Fig. 16 with the thresholds of one column.
    fn column16(&self, r: &Results, queues: &[&str]) -> Column {
        let Some(last) = queues
            .last()
            .filter(|q| r.has(&self.key(q, self.downloads[0])))
        else {
            return Column::default();
        };
        let part = |a: f64, b: f64| a / b;
        let least = |group: &'static str| {
            let all = queues
                .iter()
                .flat_map(|q| self.against(r, q, |x| kbit(x, group), part));
            lowest(all.map(|x| x.1).collect::<Vec<_>>())
        };
        let index = |x: &Report| x.asi.unwrap_or(f64::NAN);
        let index = queues
            .iter()
            .map(|q| self.overall(r, q, index, |a, b| a - b));
        Column::of([
            (
                "goodput of the call by DropTail's, least n and threshold",
                least("call"),
            ),
            (
                "goodput of the downloads by DropTail's, least n and threshold",
                least("download"),
            ),
            (
                "goodput of the downloads with 1 % less that with 5 %, by DropTail's, mean over all n",
                self.less(|queue, n| self.runs(r, queue, n), [queues[0], last]),
            ),
            (
                "index of all flows less DropTail's, mean over all n, least threshold",
                lowest(index),
            ),
        ])
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
        let asi = |queue: &str| self.against(r, queue, of_classes, |a, b| a - b);
        let favoured = &self.queues[1..];
        let has_asi = self.runs(r, "fifo", self.downloads[0])[0].asi.is_some();
        Claim {
            id: "ncq.fig16",
            printed: self.column16(r, &PLAIN),
            ours: self.column16(r, favoured),
            paper: "Goodput and satisfaction index of the calls rise; goodput of the downloads is not significantly lower, least of all with a threshold of 1 %.".into(),
            said: format!(
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
            tables: [confined(r), self.other_readings(r), repeated(r)].concat(),
            charts: [
                ("Fig. 16a: goodput of the call", "kbit/s", (|x| kbit(x, "call")) as fn(&Report) -> f64),
                ("Fig. 16b: goodput of a download", "kbit/s", |x| kbit(x, "download")),
                ("Fig. 16c: satisfaction index of the two classes", "ASI", of_classes),
            ]
            .into_iter()
            .take(if has_asi { 3 } else { 2 })
            .map(|(title, unit, figure)| self.chart(r, title, unit, figure))
            .collect(),
            ..Claim::default()
        }
    }

    /// [`Self::readings`] where there are runs as printed.
    fn other_readings(&self, r: &Results) -> Vec<Table> {
        match r.has(&self.key(PLAIN[0], self.downloads[0])) {
            true => vec![self.readings(r, BY_WAITS)],
            false => Vec::new(),
        }
    }

    fn fig17(&self, r: &Results) -> Claim {
        let r_of = |queue: &str| mean(self.runs(r, queue, 50), r_factor);
        const FIFO: &str = "R with 50 downloads, DropTail";
        const NCQ: &str = "R with 50 downloads, 1 %";
        let printed = match r.has(&self.key(PLAIN[0], 50)) {
            true => Column::of([(FIFO, r_of("fifo")), (NCQ, r_of(PLAIN[0]))]),
            false => Column::default(),
        };
        Claim {
            id: "ncq.fig17",
            printed,
            ours: Column::of([(NCQ, r_of("0.01"))]),
            paper: "R-factor and MOS rise: with 50 flows all calls are poor (R of 50 to 60) under DropTail, medium (70 to 80) under NCQ with 1 %.".into(),
            said: each(self.queues, |queue| {
                let at = |n: &u32| (*n, mean(self.runs(r, queue, *n), r_factor));
                some(&self.downloads.iter().map(at).collect(), plain)
            }),
            ideal: "R of 93 without loss and waiting".into(),
            why: why17(r),
            setup: self.setup,
            from: self.from,
            tables: [many_calls(r), other_choices(r)].concat(),
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

/// Downloads with 1 % against 5 %, by the number of calls beside them; one is that of the verdict.
fn confined(r: &Results) -> Vec<Table> {
    let row = |n: &u32| {
        let fifo = r.get(&calls(*n, "fifo"))?;
        let of = |queue: &str| {
            let runs = r.get(&calls(*n, queue))?;
            let part =
                |(ncq, fifo): (&Report, &Report)| kbit(ncq, "download") / kbit(fifo, "download");
            Some(runs.iter().zip(fifo).map(part).collect::<Vec<_>>())
        };
        let less = |queues: &[&str; 3]| {
            let [few, many] = [of(queues[0])?, of(queues[2])?];
            let pairs = few.iter().zip(&many).map(|(few, many)| few - many);
            Some(plain(&Estimate::of(pairs)))
        };
        Some(vec![n.to_string(), less(&PLAIN)?, less(&PUSHING)?])
    };
    let rows = [1].iter().chain(&CALLS).filter_map(row);
    let rows: Vec<Vec<String>> = rows.collect();
    let head = ["calls", "as printed", "ours"].map(String::from);
    let title = "Goodput of 50 downloads with 1 % less that with 5 %, by DropTail's";
    match rows.is_empty() {
        true => Vec::new(),
        false => vec![Table {
            title: title.into(),
            head: head.into(),
            rows,
        }],
    }
}

/// Figures of Fig. 16 and 17 over ten replications, and over more of the same set-up.
fn repeated(r: &Results) -> Vec<Table> {
    if !r.has(&more("fifo", 50)) {
        return Vec::new();
    }
    let ten = |queue: &str, n: u32| SIMULATED.runs(r, queue, n);
    let forty = |queue: &str, n: u32| &r[more(queue, n)];
    let row = |says: &str, figures: [Estimate; 2]| {
        let [ten, forty] = figures.map(|x| format!("{} of {}", plain(&x), x.runs));
        vec![says.to_owned(), ten, forty]
    };
    let quality = |says: &str, queue: &str| {
        row(
            says,
            [ten(queue, 50), forty(queue, 50)].map(|runs| mean(runs, r_factor)),
        )
    };
    let ends = [PLAIN[0], PLAIN[2]];
    let rows = vec![
        row(
            "Fig. 16: goodput of the downloads with 1 % less that with 5 %, by DropTail's, mean over all n, as printed",
            [SIMULATED.less(ten, ends), SIMULATED.less(forty, ends)],
        ),
        quality("Fig. 17: R with DropTail", "fifo"),
        quality("Fig. 17: R with 1 %, as printed", PLAIN[0]),
        quality("Fig. 17: R with 1 %, ours", "0.01"),
    ];
    vec![Table {
        title: "Figures of one call with more replications of the same".into(),
        head: vec![
            "figure".into(),
            format!("{RUNS} runs"),
            format!("{MORE} runs"),
        ],
        rows,
    }]
}

/// Share of the calls that are rated poor, R below 60.
fn poor(report: &Report) -> f64 {
    let calls = report.flows.iter().filter_map(|flow| flow.voice);
    let (all, poor) = calls.fold((0, 0), |(all, poor), call| {
        (all + 1, poor + usize::from(call.r_factor + 1.0 < 60.0))
    });
    poor as f64 / all as f64
}

/// R of many calls, and how many are poor.
fn many_calls(r: &Results) -> Vec<Table> {
    let queues = ["fifo", PLAIN[0], "0.01", "0.05"];
    let row = |n: &u32| {
        let each = queues.map(|queue| {
            let runs = r.get(&calls(*n, queue))?;
            let poor = share(&mean(runs, poor));
            Some(format!("{}, {poor}", plain(&mean(runs, r_factor))))
        });
        let each: Option<Vec<String>> = each.into_iter().collect();
        Some([n.to_string()].into_iter().chain(each?).collect())
    };
    let rows: Vec<Vec<String>> = CALLS.iter().filter_map(row).collect();
    let head = queues.map(label);
    let table = Table {
        title: "R of the calls beside 50 downloads, and the part of them that is poor (below 60)"
            .into(),
        head: [String::from("calls")].into_iter().chain(head).collect(),
        rows,
    };
    match table.rows.is_empty() {
        true => Vec::new(),
        false => vec![table],
    }
}

/// R of one call with the choices.
fn other_choices(r: &Results) -> Vec<Table> {
    let row = |says: &str, key: &dyn Fn(&str) -> Key| {
        let each = CHOSEN.map(|queue| Some(plain(&mean(r.get(&key(queue))?, r_factor))));
        let each: Option<Vec<String>> = each.into_iter().collect();
        let cells = [says.to_owned()].into_iter().chain(each?);
        Some(cells.collect::<Vec<String>>())
    };
    let first = row("nothing changed", &|queue| SIMULATED.key(queue, 50));
    let changed = CHOICES
        .iter()
        .filter_map(|(name, _)| row(name, &|queue| choice(name, queue)));
    let rows: Vec<Vec<String>> = first.into_iter().chain(changed).collect();
    let title = "R of one call beside 50 downloads with one thing changed, or two in the last row: rates in Mbit/s, delays in ms, buffers in packets";
    let head = CHOSEN.map(label);
    match rows.is_empty() {
        true => Vec::new(),
        false => vec![Table {
            title: title.into(),
            head: [String::from("with")].into_iter().chain(head).collect(),
            rows,
        }],
    }
}

/// Effects of the number of calls.
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
    let (Some(fifo), Some(ncq)) = (lost("fifo"), lost("0.01")) else {
        return String::new();
    };
    format!(
        "The call loses {fifo} under DropTail, {ncq} with 1 %. The paper does not say how many calls there are: a threshold of 1 % does what it says only where calls are a few of a hundred packets, one call here. R with 50 downloads, DropTail and 1 %: {}. By the table of other choices the step from poor to medium is one of rates and buffers, which the paper does not give; R rises with 1 % where favoured packets push others out of a full buffer, in the column ours.",
        by_calls.collect::<Vec<_>>().join(", ")
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
