// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenario 1: downloads of 1 MB (or 100 kB) beside others of 10 kB in packets of 120 B. Fig. 8 to 12.

use makeway_report::chart::{Chart, Series};
use makeway_report::estimate::Estimate;
use makeway_report::model::{FlowReport, Report};

use super::{PLAIN, PUSHING, QUEUES, causes, label, queue_on, search, some};
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::{Claim, Column};
use crate::papers::figures::{
    Figures, NOT_MEASURED, Pairs, average, by_chance, highest, in_pairs, largest, lowest, mean,
    only, paired, percent, plain, together, with_intervals,
};

const FILE: &str = "papers/ncq/ftp.toml";
const SETUP: &str = "dumbbell of Fig. 7, its rates and delays chosen by us: 10 Mbit/s, RTT 60 ms, 50 packets of buffer; NewReno, 1000 B; the short tasks are 10 kB in packets of 120 B";
/// Times that a task's timeouts decide differ much from run to run.
pub const RUNS: usize = 10;
/// Flows in all.
pub const FLOWS: [u32; 10] = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
/// When the paper counts its tasks in Fig. 11, s.
pub const COUNTED: f64 = 30.5;

/// A set-up: what share of the flows is short, in percent, and how much the others send.
#[derive(Clone, Copy)]
pub struct Tasks {
    short: u32,
    long: &'static str,
}

pub const FIG8: Tasks = Tasks {
    short: 10,
    long: "1MB",
};
const FIG10: Tasks = Tasks {
    short: 20,
    long: "1MB",
};
pub const FIG12: Tasks = Tasks {
    short: 10,
    long: "100kB",
};

impl Tasks {
    fn key(self, queue: &str, flows: u32) -> Key {
        Key::new(format!("ftp/{}/{}/{queue}/{flows}", self.short, self.long))
    }

    pub fn cell(self, queue: &str, flows: u32) -> Cell {
        let short = flows * self.short / 100;
        Cell {
            set: vec![
                queue_on("line", queue),
                format!("flow.long.count={}", flows - short),
                format!("flow.short.count={short}"),
                format!("flow.long.bytes={}", self.long),
            ],
            runs: Some(RUNS),
            ..Cell::new(self.key(queue, flows), FILE, 300)
        }
    }

    pub fn runs<'a>(self, r: &'a Results, queue: &str, flows: u32) -> &'a [Report] {
        &r[self.key(queue, flows)]
    }

    fn by_flows(self, r: &Results, queue: &str, figure: impl Fn(&Report) -> f64) -> Figures {
        let each = |n: &u32| (*n, mean(self.runs(r, queue, *n), &figure));
        FLOWS.iter().map(each).collect()
    }

    /// A figure under NCQ, as a part of DropTail's.
    fn gains(self, r: &Results, queue: &str, figure: impl Fn(&Report) -> f64) -> Figures {
        let each = |n: &u32| {
            let [ncq, fifo] = [queue, "fifo"].map(|queue| self.runs(r, queue, *n));
            (*n, paired(ncq, fifo, &figure, |ncq, fifo| ncq / fifo))
        };
        FLOWS.iter().map(each).collect()
    }

    fn pairs<'a>(self, r: &'a Results, queue: &str) -> Vec<Pairs<'a>> {
        pairs(|queue, n| self.runs(r, queue, n), queue)
    }

    /// A figure against DropTail's, the mean over all numbers of flows.
    pub fn overall(
        self,
        r: &Results,
        queue: &str,
        figure: impl Fn(&Report) -> f64,
        of: impl Fn(f64, f64) -> f64,
    ) -> Estimate {
        Estimate::of(together(&self.pairs(r, queue), figure, of, average))
    }

    fn chart(self, r: &Results, title: &str, unit: &str, figure: impl Fn(&Report) -> f64) -> Chart {
        let series = QUEUES
            .iter()
            .map(|queue| with_intervals(label(queue), &self.by_flows(r, queue, &figure), 1.0));
        Chart {
            title: title.into(),
            x: "flows".into(),
            y: unit.into(),
            series: series.collect(),
            ..Chart::default()
        }
    }
}

/// Pairs of runs for all numbers of flows, each with DropTail's.
fn pairs<'a>(runs: impl Fn(&str, u32) -> &'a [Report], queue: &str) -> Vec<Pairs<'a>> {
    let pairs = |n| in_pairs(runs(queue, n), runs("fifo", n));
    FLOWS.map(pairs).into()
}

/// The most that a figure is against DropTail's in the best single run of all thresholds and numbers of flows, as the paper has them,
/// replication by replication; then what chance gives: DropTail with other runs of itself, as many pairs as there are thresholds.
pub fn most<'a>(
    runs: impl Fn(&str, u32) -> &'a [Report],
    queues: &[&str],
    figure: impl Fn(&Report) -> f64,
    of: impl Fn(f64, f64) -> f64,
) -> [Vec<f64>; 2] {
    let all = queues.iter().flat_map(|queue| pairs(&runs, queue));
    let steps = (1..=queues.len()).flat_map(|step| FLOWS.map(|n| (step, n)));
    let chance = steps.map(|(step, n)| by_chance(runs("fifo", n), step));
    let setups: [Vec<Pairs<'_>>; 2] = [all.collect(), chance.collect()];
    setups.map(|setups| together(&setups, &figure, &of, largest))
}

pub fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for tasks in [FIG8, FIG10, FIG12] {
        for queue in QUEUES.into_iter().chain(PLAIN) {
            cells.extend(FLOWS.map(|flows| tasks.cell(queue, flows)));
        }
    }
    cells.extend(causes::cells());
    cells
}

fn tasks<'a>(report: &'a Report, group: &'a str) -> impl Iterator<Item = &'a FlowReport> {
    report
        .flows
        .iter()
        .filter(move |flow| group.is_empty() || flow.group == group)
}

/// How long each task took, in s; the whole run if it was not done.
fn times<'a>(report: &'a Report, group: &'a str) -> impl Iterator<Item = f64> {
    tasks(report, group).map(|flow| match flow.tasks {
        Some(tasks) if tasks.done > 0 => tasks.completion_ms.mean / 1e3,
        _ => report.seconds,
    })
}

fn mean_of(values: impl Iterator<Item = f64>) -> f64 {
    Estimate::of(values).mean
}

/// The paper's Average Goodput of a group, kbit/s: the mean of each task's data by its time.
pub fn goodput(report: &Report, group: &str) -> f64 {
    let bits = tasks(report, group).map(|flow| flow.goodput_bps * report.seconds);
    mean_of(
        bits.zip(times(report, group))
            .map(|(bits, time)| bits / time / 1e3),
    )
}

fn mean_time(report: &Report, group: &str) -> f64 {
    mean_of(times(report, group))
}

pub fn worst_time(report: &Report) -> f64 {
    largest(times(report, ""))
}

/// Tasks done within this number of seconds; not a number where there are none.
pub fn done_by(report: &Report, seconds: f64) -> f64 {
    let done = times(report, "").filter(|time| *time <= seconds).count();
    match report.flows.is_empty() {
        true => f64::NAN,
        false => done as f64,
    }
}

/// `2, 5 and 10`.
pub fn list(values: &[u32]) -> String {
    let values: Vec<String> = values.iter().map(u32::to_string).collect();
    match values.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => values.concat(),
    }
}

fn mean_over(figures: &Figures) -> f64 {
    mean_of(figures.iter().map(|figure| figure.1.mean))
}

/// For each threshold the mean over all numbers of flows.
fn overall(of: impl Fn(&str) -> Figures) -> String {
    let one = |queue: &&str| format!("{} {:.3}", label(queue), mean_over(&of(queue)));
    QUEUES[1..].iter().map(one).collect::<Vec<_>>().join(", ")
}

pub fn claims(r: &Results) -> Vec<Claim> {
    vec![fig8(r), fig9(r), fig10(r), fig11(r), fig12(r)]
}

pub fn part(a: f64, b: f64) -> f64 {
    a / b
}

pub fn sooner(ncq: f64, fifo: f64) -> f64 {
    fifo - ncq
}

/// The best runs by those of chance, or less those.
pub fn beyond(most: &[Vec<f64>; 2], of: fn(f64, f64) -> f64) -> Estimate {
    let pairs = most[0].iter().zip(&most[1]);
    Estimate::of(pairs.map(|(most, chance)| of(*most, *chance)))
}

/// The least over thresholds and numbers of flows.
fn least_of(r: &Results, queues: &[&str], figure: impl Fn(&Report) -> f64 + Copy) -> Estimate {
    let all = queues.iter().flat_map(|queue| FIG8.gains(r, queue, figure));
    lowest(all.map(|x| x.1))
}

fn column8(r: &Results, queues: &[&str]) -> Column {
    let runs = |queue: &str, n: u32| FIG8.runs(r, queue, n);
    let [short, long] = ["short", "long"].map(|group| {
        let most = most(runs, queues, |x| goodput(x, group), part);
        [Estimate::of(most[0].iter().copied()), beyond(&most, part)]
    });
    let all: Vec<Pairs<'_>> = queues.iter().flat_map(|q| FIG8.pairs(r, q)).collect();
    let cost = together(&all, |x| goodput(x, "long"), part, average);
    Column::of([
        ("goodput of the short by DropTail's, best run", short[0]),
        ("that best run by chance's best", short[1]),
        (
            "goodput of the long by DropTail's, mean over all n",
            Estimate::of(cost),
        ),
        ("goodput of the long by DropTail's, best run", long[0]),
        ("that best run of the long by chance's best", long[1]),
        (
            "goodput of the short by DropTail's, least n and threshold",
            least_of(r, queues, |x| goodput(x, "short")),
        ),
    ])
}

/// The part of a gain that is of `push_out`, from the goodput by DropTail's with it and without.
fn of_push_out(with: f64, without: f64) -> String {
    let part = (with - without) / (with - 1.0);
    let said = match with > 1.0 {
        _ if part.is_nan() => NOT_MEASURED.into(),
        true => format!("carries {}", percent(part)),
        false => "has none to carry".into(),
    };
    format!(
        "`push_out`, which the paper does not have, {said}: {} times DropTail's goodput with it, {} without (keep: a full buffer refuses the arriving packet, favoured or not)",
        plain(&only(with)),
        plain(&only(without))
    )
}

fn fig8(r: &Results) -> Claim {
    let gain = |queue: &str| FIG8.gains(r, queue, |x| goodput(x, "short"));
    let cost = |queue: &str| FIG8.gains(r, queue, |x| goodput(x, "long"));
    let changed = causes::chosen(r, "0.05");
    let [with, _] = causes::as_chosen(r, "0.05");
    let without = changed.iter().find(|(name, _)| *name == causes::KEEP);
    let without = without.map_or(f64::NAN, |(_, [short, _])| short.mean);
    let dearest = changed
        .iter()
        .min_by(|a, b| a.1[1].mean.total_cmp(&b.1[1].mean));
    let dearest = dearest.map_or_else(String::new, |(name, [_, long])| {
        format!("the congestive keep least with {name}, {}", plain(long))
    });
    Claim {
        id: "ncq.fig8",
        printed: column8(r, &PLAIN),
        ours: column8(r, &PUSHING),
        paper: "With one flow in ten non-congestive, their goodput is up to 10.43 times DropTail's (80 flows, threshold 5 %); that of the congestive is not lower and now and then higher (7.6 % with 100 flows).".into(),
        said: format!(
            "goodput of the non-congestive relative to DropTail, with 1 %: {}; with 5 %: {}; without pushing out, with 5 %: {}. Congestive, mean over all n: {}; with 5 %: {}",
            some(&gain("0.01"), plain), some(&gain("0.05"), plain), some(&gain("plain-0.05"), plain), overall(cost), some(&cost("0.05"), plain)
        ),
        ideal: "non-congestive tasks as fast as on an idle link, the others as before".into(),
        why: format!(
            "The paper shows single runs. A task's goodput is its data divided by its time. With 80 flows and 5 % the second table makes other choices, one at a time. Of the gain of the non-congestive, {}; {dearest}.",
            of_push_out(with.mean, without)
        ),
        setup: SETUP,
        from: &["ftp/10/1MB/", "choice/", "more/"],
        tables: vec![
            causes::repeated(r),
            causes::choices(r),
            causes::best_runs(r, causes::BEST_OF_FIG8),
        ],
        charts: vec![
            FIG8.chart(r, "Fig. 8a: average goodput of the non-congestive", "kbit/s", |x| goodput(x, "short")),
            FIG8.chart(r, "Fig. 8b: average goodput of the congestive", "kbit/s", |x| goodput(x, "long")),
            FIG8.chart(r, "Fig. 8c: average goodput of all", "kbit/s", |x| goodput(x, "")),
        ],
        ..Claim::default()
    }
}

fn column9(r: &Results, queues: &[&str]) -> Column {
    let runs = |queue: &str, n: u32| FIG8.runs(r, queue, n);
    let most = most(runs, queues, worst_time, sooner);
    let times = queues
        .iter()
        .map(|queue| FIG8.overall(r, queue, |x| mean_time(x, ""), part));
    let saved = queues
        .iter()
        .map(|queue| FIG8.overall(r, queue, worst_time, sooner));
    Column::of([
        (
            "mean time by DropTail's, largest of the thresholds",
            highest(times),
        ),
        (
            "sooner done with all, least of the thresholds, s",
            lowest(saved),
        ),
        (
            "sooner done with all, best run, s",
            Estimate::of(most[0].iter().copied()),
        ),
        (
            "that best run less chance's best, s",
            beyond(&most, |most, chance| most - chance),
        ),
    ])
}

fn fig9(r: &Results) -> Claim {
    let saved = |queue: &str| -> Figures {
        let each = |n: &u32| {
            let [ncq, fifo] = [queue, "fifo"].map(|queue| FIG8.runs(r, queue, *n));
            (*n, paired(ncq, fifo, worst_time, sooner))
        };
        FLOWS.iter().map(each).collect()
    };
    let average = |queue: &str| FIG8.gains(r, queue, |x| mean_time(x, ""));
    Claim {
        id: "ncq.fig9",
        printed: column9(r, &PLAIN),
        ours: column9(r, &PUSHING),
        paper: "Average and worst completion times of all tasks improve; all are done up to 24.8 s sooner (90 flows, 3 %).".into(),
        said: format!(
            "average time relative to DropTail, mean over all n: {}; with 3 %: {}. Time saved until all are done, in s, mean over all n: {}; with 3 %: {}",
            overall(average), some(&average("0.03"), plain), overall(saved), some(&saved("0.03"), plain)
        ),
        ideal: "all tasks done when the line has carried their data".into(),
        why: "The end of the last task depends on one flow's last timeouts, so it varies by tens of seconds from run to run; the paper shows single runs.".into(),
        setup: SETUP,
        from: &["ftp/10/1MB/", "more/"],
        tables: vec![causes::best_runs(r, causes::BEST_OF_FIG9)],
        charts: vec![
            FIG8.chart(r, "Fig. 9a: average completion time", "s", |x| mean_time(x, "")),
            FIG8.chart(r, "Fig. 9b: worst completion time", "s", worst_time),
        ],
        ..Claim::default()
    }
}

fn fig10(r: &Results) -> Claim {
    let gain = |tasks: Tasks, queue: &str| tasks.gains(r, queue, |x| goodput(x, "short"));
    let time = |queue: &str| FIG10.gains(r, queue, |x| mean_time(x, "short"));
    let column = |queues: &[&str]| {
        let confined = queues.iter().map(|queue| {
            let [twenty, ten] = [FIG10, FIG8].map(|tasks| {
                together(
                    &tasks.pairs(r, queue),
                    |x| goodput(x, "short"),
                    part,
                    average,
                )
            });
            Estimate::of(twenty.iter().zip(ten).map(|(twenty, ten)| twenty / ten))
        });
        let times = queues
            .iter()
            .map(|queue| FIG10.overall(r, queue, |x| mean_time(x, "short"), part));
        Column::of([
            (
                "gain with 20 % by that with 10 %, largest of the thresholds",
                highest(confined),
            ),
            (
                "time of the short by DropTail's, largest of the thresholds",
                highest(times),
            ),
        ])
    };
    Claim {
        id: "ncq.fig10",
        printed: column(&PLAIN),
        ours: column(&PUSHING),
        paper: "With 20 % non-congestive the gain is smaller, since the threshold confines it; their completion times still improve.".into(),
        said: format!(
            "goodput of the non-congestive relative to DropTail, mean over all n: {} (with 10 %: {}); their time: {}; time with 5 %: {}",
            overall(|queue| gain(FIG10, queue)), overall(|queue| gain(FIG8, queue)), overall(time), some(&time("0.05"), plain)
        ),
        ideal: "as with 10 %".into(),
        why: "Judged with 20 % of the flows; the paper says so of the packets in one place and of the flows in another.".into(),
        setup: SETUP,
        from: &["ftp/20/", "ftp/10/1MB/"],
        charts: vec![
            FIG10.chart(r, "Fig. 10a: average goodput of the non-congestive, 20 %", "kbit/s", |x| goodput(x, "short")),
            FIG10.chart(r, "Fig. 10b: average time of the non-congestive, 20 %", "s", |x| mean_time(x, "short")),
        ],
        ..Claim::default()
    }
}

fn fig11(r: &Results) -> Claim {
    let done = |x: &Report| done_by(x, COUNTED);
    let more = ["0.01", "0.03", "0.05"].map(|queue| {
        let [ncq, fifo] = [queue, "fifo"].map(|queue| FIG8.runs(r, queue, 50));
        paired(ncq, fifo, done, |ncq, fifo| ncq - fifo)
    });
    let column = |queue: &str| {
        let [ncq, fifo] = [queue, "fifo"].map(|queue| FIG8.runs(r, queue, 50));
        Column::of([
            ("tasks done at 30.5 s, DropTail", mean(fifo, done)),
            ("tasks done at 30.5 s, 1 %", mean(ncq, done)),
            (
                "more tasks done at 30.5 s with 1 %",
                paired(ncq, fifo, done, |ncq, fifo| ncq - fifo),
            ),
        ])
    };
    let series = QUEUES.map(|queue| {
        let runs = FIG8.runs(r, queue, 50);
        let at = |half: u32| f64::from(half) / 2.0;
        let points = (0..=120).map(|half| (at(half), mean(runs, |x| done_by(x, at(half))).mean));
        Series::line(label(queue), points.collect())
    });
    Claim {
        id: "ncq.fig11",
        printed: column(PLAIN[0]),
        ours: column(PUSHING[0]),
        paper:
            "With 50 flows more tasks are done earlier: at 30.5 s 7 with DropTail, 10 with NCQ 1 %."
                .into(),
        said: format!(
            "{} with DropTail; more with 1, 3, 5 %: {}",
            plain(&mean(FIG8.runs(r, "fifo", 50), done)),
            more.map(|more| plain(&more)).join(", ")
        ),
        ideal: "the shortest first: all five non-congestive within a second".into(),
        why: format!(
            "The number of tasks done by then depends on the link rate, which is our choice. {}",
            search::says(r)
        ),
        setup: SETUP,
        from: &["ftp/10/1MB/", "search/", "more/", "rate/"],
        tables: [vec![causes::rates(r)], search::tables(r)].concat(),
        charts: vec![Chart {
            title: "Fig. 11: tasks done, 50 flows".into(),
            x: "s".into(),
            y: "tasks".into(),
            series: series.into(),
            ..Chart::default()
        }],
        ..Claim::default()
    }
}

fn fig12(r: &Results) -> Claim {
    let gain = |queue: &str| FIG12.gains(r, queue, |x| goodput(x, "short"));
    let cost = |queue: &str| FIG12.gains(r, queue, |x| goodput(x, "long"));
    let column = |queues: &[&str; 3]| {
        let costs = queues
            .iter()
            .map(|queue| FIG12.overall(r, queue, |x| goodput(x, "long"), part));
        Column::of([
            (
                "goodput of the short by DropTail's, mean over all n, 5 %",
                FIG12.overall(r, queues[2], |x| goodput(x, "short"), part),
            ),
            (
                "goodput of the others by DropTail's, mean over all n, least threshold",
                lowest(costs),
            ),
        ])
    };
    Claim {
        id: "ncq.fig12",
        printed: column(&PLAIN),
        ours: column(&PUSHING),
        paper: "With congestive tasks of 100 KB the non-congestive gain much, and the short downloads lose nothing that could be noticed.".into(),
        said: format!(
            "goodput relative to DropTail, mean over all n: non-congestive {}; short downloads {}; with 5 %: {}; {}",
            overall(gain), overall(cost), some(&gain("0.05"), plain), some(&cost("0.05"), plain)
        ),
        ideal: "non-congestive tasks as fast as on an idle link, the others as before".into(),
        why: "All transfers end within seconds, mostly in slow start, and one packet in nine is a short one, so the threshold confines the gain more than in Fig. 8: the table has none in its last row.".into(),
        setup: SETUP,
        from: &["ftp/10/100kB/"],
        tables: vec![causes::thresholds(r)],
        charts: vec![
            FIG12.chart(r, "Fig. 12a: average goodput of the non-congestive", "kbit/s", |x| goodput(x, "short")),
            FIG12.chart(r, "Fig. 12b: average goodput of the short downloads", "kbit/s", |x| goodput(x, "long")),
        ],
        ..Claim::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_push_out_follows_the_runs() {
        for (with, without, said) in [
            (11.0, 1.0, "carries 100 %: 11.00 times"),
            (11.0, 6.0, "carries 50 %:"),
            (11.0, 11.0, "carries 0 %:"),
            (0.9, 1.0, "has none to carry"),
            (f64::NAN, 1.0, "not measured: "),
            (11.0, f64::NAN, "not measured: 11.00 times"),
        ] {
            let found = of_push_out(with, without);
            assert!(found.contains(said), "{found}");
        }
    }
}
