// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fig. 8, 9, 11 and 12 with one thing changed: choices that the paper leaves open, more replications, other rates of the link, no threshold.

use makeway_report::estimate::Estimate;
use makeway_report::model::Report;

use super::ftp::{
    COUNTED, FIG8, FIG12, FLOWS, RUNS, beyond, done_by, goodput, most, part, sooner, worst_time,
};
use super::{PLAIN, PUSHING};
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::Table;
use crate::papers::figures::{mean, paired, plain};

/// Replications of figures whose interval over ten reaches beyond the bar.
const MORE: usize = 40;
/// Queues and flows of them, beside all numbers of flows as printed.
const REPEATED: [(&str, u32); 2] = [(PUSHING[0], 10), (PUSHING[0], 50)];
/// Rates of the link for Fig. 11, in Mbit/s; the set-up has 10.
const RATES: [u32; 2] = [8, 9];
/// No threshold: as printed, and where favoured packets push others out.
pub const FREE: [&str; 2] = ["plain-1.0", "1.0"];

/// Choices that are changed to see how much they matter in Fig. 8.
const CHOICES: [(&str, &str); 18] = [
    ("rate 5", "link.line.rate=5mbit"),
    ("rate 20", "link.line.rate=20mbit"),
    ("rate 50", "link.line.rate=50mbit"),
    ("rate 100", "link.line.rate=100mbit"),
    ("delay 5", "link.line.delay=5ms"),
    ("delay 80", "link.line.delay=80ms"),
    ("buffer 25", "link.line.queue.limit=25 packets"),
    ("buffer 100", "link.line.queue.limit=100 packets"),
    ("buffer 200", "link.line.queue.limit=200 packets"),
    ("tcp reno", "flow.long.congestion_control=reno"),
    ("tcp sack", "flow.long.congestion_control=sack"),
    ("tcp linux", "flow.long.tcp.preset=linux"),
    (KEEP, "link.line.queue.ncq.push_out=false"),
    ("no threshold", "link.line.queue.ncq.threshold=1"),
    (
        "short tasks' first window of 1",
        "flow.short.tcp.initial_window=1",
    ),
    ("short tasks' window of 250", "flow.short.tcp.window=20kB"),
    ("long tasks' timeout of 1 s", "flow.long.tcp.min_rto=1s"),
    ("short tasks' timeout of 1 s", "flow.short.tcp.min_rto=1s"),
];
/// A full buffer refuses the packet that arrives.
pub const KEEP: &str = "keep";
/// Flows and thresholds of [`CHOICES`]: where the paper's gain is largest.
const CHOSEN_FLOWS: u32 = 80;
const CHOSEN: [&str; 2] = [PLAIN[2], PUSHING[2]];

fn choice(name: &str, queue: &str) -> Key {
    Key::new(format!("choice/{name}/{queue}"))
}

fn more(queue: &str, flows: u32) -> Key {
    Key::new(format!("more/{queue}/{flows}"))
}

fn at_rate(mbit: u32, queue: &str) -> Key {
    Key::new(format!("rate/{mbit}/{queue}"))
}

pub fn cells() -> Vec<Cell> {
    let printed = ["fifo"].into_iter().chain(PLAIN);
    let printed = printed.flat_map(|queue| FLOWS.map(|flows| (queue, flows)));
    let repeated = printed.chain(REPEATED).map(|(queue, flows)| Cell {
        key: more(queue, flows),
        runs: Some(MORE),
        ..FIG8.cell(queue, flows)
    });
    let mut cells: Vec<Cell> = repeated.collect();
    for mbit in RATES {
        cells.extend(["fifo", PLAIN[0], PUSHING[0]].map(|queue| {
            let mut cell = FIG8.cell(queue, 50);
            cell.key = at_rate(mbit, queue);
            cell.set.push(format!("link.line.rate={mbit}mbit"));
            cell
        }));
    }
    for (name, set) in CHOICES {
        for queue in ["fifo"].into_iter().chain(CHOSEN) {
            let mut cell = FIG8.cell(queue, CHOSEN_FLOWS);
            cell.key = choice(name, queue);
            cell.set.push(set.into());
            cells.push(cell);
        }
    }
    for queue in FREE {
        cells.extend(FLOWS.map(|flows| FIG12.cell(queue, flows)));
    }
    cells
}

fn table(title: &str, head: &[&str], rows: Vec<Vec<String>>) -> Table {
    Table {
        title: title.into(),
        head: head.iter().map(|name| (*name).to_owned()).collect(),
        rows,
    }
}

fn done(report: &Report) -> f64 {
    done_by(report, COUNTED)
}

fn short(report: &Report) -> f64 {
    goodput(report, "short")
}

fn less(a: f64, b: f64) -> f64 {
    a - b
}

/// Goodput of the short and of the long by DropTail's.
fn gains(fifo: &[Report], ncq: &[Report]) -> [Estimate; 2] {
    ["short", "long"].map(|group| paired(ncq, fifo, |x| goodput(x, group), part))
}

/// The same as the scenario has it, under a queue of [`CHOSEN`].
pub fn as_chosen(r: &Results, queue: &str) -> [Estimate; 2] {
    let [fifo, ncq] = ["fifo", queue].map(|queue| FIG8.runs(r, queue, CHOSEN_FLOWS));
    gains(fifo, ncq)
}

/// The same with each of the choices.
pub fn chosen(r: &Results, queue: &str) -> Vec<(&'static str, [Estimate; 2])> {
    let each = CHOICES.map(|(name, _)| {
        let [fifo, ncq] = ["fifo", queue].map(|queue| &r[choice(name, queue)]);
        (name, gains(fifo, ncq))
    });
    each.into()
}

/// Fig. 8 by the choices.
pub fn choices(r: &Results) -> Table {
    let columns = CHOSEN.map(|queue| {
        let first = [("nothing changed", as_chosen(r, queue))];
        first.into_iter().chain(chosen(r, queue))
    });
    let [printed, ours] = columns;
    let rows = printed.zip(ours).map(|((says, printed), (_, ours))| {
        let figures = [printed[0], ours[0], printed[1], ours[1]];
        let figures = figures.map(|x| plain(&x));
        [says.to_owned()].into_iter().chain(figures).collect()
    });
    table(
        "Fig. 8: goodput by DropTail's with 80 flows and 5 %, with another choice: rates in Mbit/s, delays in ms, buffers in packets",
        &BOTH,
        rows.collect(),
    )
}

/// Both groups in both columns.
const BOTH: [&str; 5] = [
    "with",
    "the short, as printed",
    "ours",
    "the others, as printed",
    "ours",
];

type Of = fn(&Report) -> f64;
type Against = fn(f64, f64) -> f64;

/// Figures of Fig. 8 and 11 over ten replications, and over more of the same set-up.
pub fn repeated(r: &Results) -> Table {
    let figures: [(&str, &str, u32, Of, Against); 3] = [
        (
            "Fig. 8: goodput of the short by DropTail's, n = 10, 1 %, ours",
            PUSHING[0],
            10,
            short,
            part,
        ),
        (
            "Fig. 11: more tasks done at 30.5 s with 1 %, as printed",
            PLAIN[0],
            50,
            done,
            less,
        ),
        (
            "Fig. 11: more tasks done at 30.5 s with 1 %, ours",
            PUSHING[0],
            50,
            done,
            less,
        ),
    ];
    let rows = figures.map(|(says, queue, flows, figure, of)| {
        let few = [queue, "fifo"].map(|queue| FIG8.runs(r, queue, flows));
        let many = [queue, "fifo"].map(|queue| &r[more(queue, flows)]);
        let cells = [few, many].map(|[ncq, fifo]| {
            let figure = paired(ncq, fifo, figure, of);
            format!("{} of {}", plain(&figure), figure.runs)
        });
        [says.to_owned()]
            .into_iter()
            .chain(cells)
            .collect::<Vec<_>>()
    });
    table(
        "Figures with more replications of the same",
        &["figure", &format!("{RUNS} runs"), &format!("{MORE} runs")],
        rows.into(),
    )
}

/// A best run: the names of the figure and of that by chance's, the figure, how it is compared with DropTail's, and how with chance's.
type Best = ([&'static str; 2], Of, Against, Against);
pub const BEST_OF_FIG8: Best = (
    [
        "Fig. 8: goodput of the short by DropTail's, best run",
        "Fig. 8: that best run by chance's best",
    ],
    short,
    part,
    part,
);
pub const BEST_OF_FIG9: Best = (
    [
        "Fig. 9: sooner done with all, best run, s",
        "Fig. 9: that best run less chance's best, s",
    ],
    worst_time,
    sooner,
    less,
);

/// Best runs over ten replications, and over more of the same set-ups.
pub fn best_runs(r: &Results, (says, figure, of, against): Best) -> Table {
    let few = most(|queue, n| FIG8.runs(r, queue, n), &PLAIN, figure, of);
    let many = most(|queue, n| &r[more(queue, n)], &PLAIN, figure, of);
    let [few, many] = [few, many].map(|most| {
        let own = Estimate::of(most[0].iter().copied());
        let figures = [own, beyond(&most, against)];
        figures.map(|x| format!("{} of {}", plain(&x), x.runs))
    });
    let rows = says.into_iter().zip(few.into_iter().zip(many));
    let rows = rows.map(|(says, (few, many))| vec![says.to_owned(), few, many]);
    table(
        "Best runs as printed, with more replications of the same",
        &["figure", &format!("{RUNS} runs"), &format!("{MORE} runs")],
        rows.collect(),
    )
}

/// Fig. 11 by the rate of the link.
pub fn rates(r: &Results) -> Table {
    let row = |mbit: u32, [fifo, plainly, pushing]: [&[Report]; 3]| {
        let more = |ncq: &[Report]| plain(&paired(ncq, fifo, done, less));
        vec![
            format!("{mbit} Mbit/s"),
            plain(&mean(fifo, done)),
            plain(&mean(plainly, done)),
            more(plainly),
            plain(&mean(pushing, done)),
            more(pushing),
        ]
    };
    let queues = ["fifo", PLAIN[0], PUSHING[0]];
    let changed = RATES.map(|mbit| row(mbit, queues.map(|queue| &r[at_rate(mbit, queue)])));
    let ten = row(10, queues.map(|queue| FIG8.runs(r, queue, 50)));
    table(
        "Fig. 11: tasks of 50 done at 30.5 s, by the rate of the link",
        &[
            "rate",
            "DropTail",
            "1 % as printed",
            "more",
            "1 % ours",
            "more",
        ],
        changed.into_iter().chain([ten]).collect(),
    )
}

/// Fig. 12 by the threshold.
pub fn thresholds(r: &Results) -> Table {
    let all = [
        ("1 %", PLAIN[0], PUSHING[0]),
        ("3 %", PLAIN[1], PUSHING[1]),
        ("5 %", PLAIN[2], PUSHING[2]),
        ("no threshold", FREE[0], FREE[1]),
    ];
    let rows = all.map(|(says, printed, ours)| {
        let of = |queue: &str, group: &'static str| {
            let figure = |x: &Report| goodput(x, group);
            plain(&FIG12.overall(r, queue, figure, part))
        };
        vec![
            says.to_owned(),
            of(printed, "short"),
            of(ours, "short"),
            of(printed, "long"),
            of(ours, "long"),
        ]
    });
    table(
        "Fig. 12: goodput by DropTail's, mean over all n, by the threshold",
        &BOTH,
        rows.into(),
    )
}
