// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab marks`: ECN and L4S in simulated time. A game's video through queues that mark, by senders that follow marks and such
//! as do not.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use comfy_table::Table;
use makeway::text;
use makeway_report::estimate::{Estimate, Unit};
use makeway_report::model::{FlowReport, Report};
use makeway_report::summary::group;
use serde::Serialize;

use crate::experiment::{Cell, Grid, Key, Results, World, stopped};
use crate::tables::{Column, of_senders, write_json};

/// Compares senders of a game's video over a FIFO and over queues that mark by ECN, a dual queue (RFC 9332) among them.
///
/// Prints tables in Markdown. Figures are means over runs in simulated time, with 95 % intervals.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway-lab marks
  makeway-lab marks --runs 20 --json marks.json

A run that is finished is kept for the very code that simulates, so that the same command goes on where it was stopped.")]
pub struct Marks {
    /// Replications of each run; all senders see the same luck.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seconds of each run.
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(20..=3600))]
    seconds: u64,
    /// Writes the figures as JSON: an array of queue, beside, sender, figures.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keeps the runs here.
    #[arg(long, value_name = "DIR", default_value = "out/marks")]
    out: PathBuf,
    /// Runs at a time [default: one for each core].
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

const FILE: &str = "senders/marks.toml";

/// Disciplines of the bottleneck: a name, words, settings. All but the FIFO mark; CoDel does not by default.
const QUEUES: [(&str, &str, &[&str]); 4] = [
    ("fifo", "a FIFO", &[]),
    ("codel", "CoDel", &["link.line.queue.ecn=true"]),
    ("fq-codel", "FQ-CoDel", &[]),
    ("dualpi2", "DualPI2", &[]),
];

/// Flows beside the video: a name, words, settings.
const BESIDE: [(&str, &str, &[&str]); 3] = [
    ("alone", "alone", &["flow.download.count=0"]),
    ("reno", "beside a Reno download without ECN", &[]),
    (
        "reno-ecn",
        "beside a Reno download with ECN",
        &["flow.download.tcp={ ecn = true }"],
    ),
];

/// A rate controller, and the ECN field of its packets.
struct Sender {
    name: &'static str,
    rate: &'static str,
    ecn: &'static str,
}

const fn sender(name: &'static str, rate: &'static str, ecn: &'static str) -> Sender {
    Sender { name, rate, ecn }
}

/// Senders that follow marks, each without them too, and GCC, which does not look at them.
const SENDERS: [Sender; 6] = [
    sender("SCReAMv2, L4S", "{ kind = \"scream\", l4s = true }", "ect1"),
    sender("SCReAMv2, ECN of RFC 3168", "scream", "ect0"),
    sender("SCReAMv2", "scream", "none"),
    sender("TFRC, ECN of RFC 3168", "tfrc", "ect0"),
    sender("TFRC", "tfrc", "none"),
    sender("GCC", "gcc", "none"),
];

/// A line of a table.
#[derive(Serialize)]
struct Row {
    queue: &'static str,
    beside: &'static str,
    sender: &'static str,
    figures: Figures,
}

/// Means over runs.
#[derive(Serialize)]
struct Figures {
    /// Payload of the video and its audio that arrived, bit/s.
    goodput_bps: Estimate,
    /// Payload of the download, bit/s; of no run where there is none.
    download_bps: Estimate,
    /// Delay of the video's packets in the network above the least, ms.
    queueing_p50_ms: Estimate,
    queueing_p99_ms: Estimate,
    /// Datagrams of the video that arrived before their deadline, of those made.
    on_time: Estimate,
    /// Packets of all flows that queues marked, and dropped, a second.
    marks: Estimate,
    drops: Estimate,
}

/// Runs it. Exit status 130 if it was cut short.
pub fn run(args: &Marks) -> anyhow::Result<ExitCode> {
    let cells = cells(args.seconds);
    let grid = Grid {
        cells: &cells,
        folder: &args.out,
        jobs: args.jobs,
        runs: args.runs as usize,
    };
    let Some(results) = grid.run(World::Sim)? else {
        return Ok(stopped(&args.out));
    };
    let mut rows = Vec::new();
    for (queue, queue_says, _) in QUEUES {
        for (beside, says, _) in BESIDE {
            let of_queue: Vec<Row> = SENDERS
                .iter()
                .map(|sender| row(queue, beside, sender, &results, args.seconds))
                .collect();
            text::say!("### {queue_says}; {says}\n\n{}\n", table(&of_queue));
            rows.extend(of_queue);
        }
    }
    write_json(args.json.as_deref(), &rows)?;
    Ok(ExitCode::SUCCESS)
}

fn key(queue: &str, beside: &str, sender: &Sender) -> Key {
    let sender = sender.name.replace(", ", "-").replace(' ', "-");
    Key::new(format!("{queue}/{beside}/{sender}"))
}

fn cells(seconds: u64) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (queue, _, of_queue) in QUEUES {
        for (beside, _, of_beside) in BESIDE {
            for sender in &SENDERS {
                let set = [
                    format!("link.line.queue.discipline={queue}"),
                    format!("flow.game.rate={}", sender.rate),
                    format!("flow.game.ecn={}", sender.ecn),
                ];
                let settings = of_queue.iter().chain(of_beside);
                let settings = settings.map(|set| (*set).to_owned());
                cells.push(Cell {
                    set: set.into_iter().chain(settings).collect(),
                    ..Cell::new(key(queue, beside, sender), FILE, seconds)
                });
            }
        }
    }
    cells
}

fn row(
    queue: &'static str,
    beside: &'static str,
    sender: &Sender,
    results: &Results,
    seconds: u64,
) -> Row {
    Row {
        queue,
        beside,
        sender: sender.name,
        figures: Figures::of(&results[key(queue, beside, sender)], seconds),
    }
}

impl Figures {
    fn of(runs: &[Report], seconds: u64) -> Self {
        // Queues count over the whole run.
        let seconds = seconds as f64;
        let mean = |of: &dyn Fn(&Report) -> Option<f64>| Estimate::of(runs.iter().filter_map(of));
        let queueing = |run: &Report| game(run)?.queueing;
        let on_time = |run: &Report| game(run)?.media.as_ref()?.classes.get(1)?.on_time_share();
        let downloads = |run: &Report| run.flows.iter().any(|flow| flow.group == "download");
        let marks = |run: &Report| run.queues.iter().map(|queue| queue.marks).sum::<u64>();
        let drops = |run: &Report| run.queues.iter().map(|queue| queue.dropped()).sum::<u64>();
        Self {
            goodput_bps: mean(&|run| Some(game(run)?.goodput_bps)),
            download_bps: mean(&|run| downloads(run).then(|| group(run, "download").goodput_bps)),
            queueing_p50_ms: mean(&|run| Some(queueing(run)?.p50_ms)),
            queueing_p99_ms: mean(&|run| Some(queueing(run)?.p99_ms)),
            on_time: mean(&on_time),
            marks: mean(&|run| Some(marks(run) as f64 / seconds)),
            drops: mean(&|run| Some(drops(run) as f64 / seconds)),
        }
    }
}

fn game(run: &Report) -> Option<&FlowReport> {
    run.flows.iter().find(|flow| flow.media.is_some())
}

/// As `scripts/renew` has them.
const COLUMNS: [Column<Figures>; 7] = [
    Column("video", Unit::Rate, |f| &f.goodput_bps),
    Column("download", Unit::Rate, |f| &f.download_bps),
    Column("queue p50", Unit::Millis, |f| &f.queueing_p50_ms),
    Column("queue p99", Unit::Millis, |f| &f.queueing_p99_ms),
    Column("video on time", Unit::Share, |f| &f.on_time),
    Column("marks a second", Unit::Index, |f| &f.marks),
    Column("drops a second", Unit::Index, |f| &f.drops),
];

fn table(rows: &[Row]) -> Table {
    of_senders(&COLUMNS, rows.iter().map(|row| (row.sender, &row.figures)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use makeway_core::packet::Ecn;
    use makeway_scenario::model::Source;
    use std::collections::BTreeSet;

    #[test]
    fn every_cell_has_a_key_of_its_own_and_the_ecn_field_of_its_sender() {
        let cells = cells(60);
        let keys: BTreeSet<&Key> = cells.iter().map(|cell| &cell.key).collect();
        assert_eq!(keys.len(), QUEUES.len() * BESIDE.len() * SENDERS.len());
        for cell in &cells {
            let scenario = makeway::builtin::load(cell.file, &cell.settings())
                .unwrap_or_else(|error| panic!("{}: {error}", cell.key.path()));
            let media = scenario.flows.iter().find_map(|flow| match &flow.source {
                Source::Media(media) => Some(media),
                _ => None,
            });
            let expected = match cell.key.path() {
                path if path.ends_with("L4S") => Ecn::Scalable,
                path if path.contains("3168") => Ecn::Capable,
                _ => Ecn::NotCapable,
            };
            assert_eq!(media.map(|media| media.ecn), Some(expected));
        }
    }

    /// Figures of a run of 20 s beside a download without ECN.
    fn figures(queue: &str, sender: &str) -> Figures {
        let cells = cells(20);
        let path = format!("{queue}/reno/{sender}");
        let cell = cells.iter().find(|cell| cell.key.path() == path);
        let cell = cell.expect("such a cell");
        let scenario = makeway::builtin::load(cell.file, &cell.settings()).expect("it loads");
        let run = makeway_sim::run(&scenario, &makeway_sim::Options::default(), |_| {});
        Figures::of(&[run.expect("it runs")], 20)
    }

    #[test]
    fn every_queue_but_the_fifo_marks() {
        for (queue, ..) in QUEUES {
            let marks = figures(queue, "SCReAMv2-ECN-of-RFC-3168").marks.mean;
            assert_eq!(marks > 0.0, queue != "fifo", "{queue}: {marks}");
        }
    }

    /// In the dual queue a sender of L4S is marked, and without marks its video waits longer.
    #[test]
    fn marks_reach_a_sender_and_shorten_its_queue() {
        let [l4s, none] = ["SCReAMv2-L4S", "SCReAMv2"].map(|sender| figures("dualpi2", sender));
        assert!(l4s.marks.mean > 1.0, "{}", l4s.marks.mean);
        assert_eq!(none.marks.mean, 0.0);
        let p99 = |of: &Figures| of.queueing_p99_ms.mean;
        assert!(p99(&l4s) < p99(&none), "{} {}", p99(&l4s), p99(&none));
    }
}
