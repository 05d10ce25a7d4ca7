//! `makeway senders`: which sender for what. The same call over the same bottlenecks, with each policy and controller.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use makeway_core::send::AnyPolicy;
use makeway_report::estimate::{Estimate, Unit};
use makeway_report::model::{ClassReport, FlowReport, Report};
use serde::Serialize;

use super::papers::grid::{Cell, Results};
use super::papers::simulated;
use super::parallel::cores;
use super::session::write;
use crate::text;

/// Compares senders of a video call over the same bottlenecks: policies, controllers, encoders.
///
/// Prints tables in Markdown. Figures are means over runs in simulated time, with 95 % intervals.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway senders
  makeway senders --runs 20 --json senders.json

A run that is finished is kept for the very code that simulates, so that the same command goes on where it was stopped.")]
pub struct Senders {
    /// Replications of each run; all senders see the same luck.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seconds of each run.
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..=3600))]
    seconds: u64,
    /// Writes the figures as JSON: an array of bottleneck, encoder, controller, sender, figures.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keeps the runs here.
    #[arg(long, value_name = "DIR", default_value = "out/senders")]
    out: PathBuf,
    /// Runs at a time [default: one for each core].
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// Where the call goes through.
struct Bottleneck {
    name: &'static str,
    title: &'static str,
    file: &'static str,
    set: &'static [&'static str],
}

const LINE: &str = "senders/line.toml";

const BOTTLENECKS: [Bottleneck; 4] = [
    Bottleneck {
        name: "loss",
        title: "2 % random loss on 100 Mbit/s",
        file: LINE,
        set: &["link.line.rate=100mbit", "link.line.loss=[0.02, 0.0]"],
    },
    Bottleneck {
        name: "two-tcps",
        title: "two uploads beside it on 2 Mbit/s",
        file: LINE,
        set: &["flow.upload.count=2"],
    },
    Bottleneck {
        name: "rate-drop",
        title: "2 Mbit/s that fall to 400 kbit/s for 10 s, each 20 s",
        file: LINE,
        set: &[
            "link.line.changes={ at = \"router\", steps = [[\"5s\", \"400kbit\"], [\"15s\", \"2mbit\"]], every = \"20s\" }",
        ],
    },
    Bottleneck {
        name: "access-point",
        title: "a download beside it through an 802.11b access point",
        file: "senders/access-point.toml",
        set: &[],
    },
];

/// Names and settings.
const ENCODERS: [(&str, &[&str]); 2] = [
    ("follows", &[]),
    (
        "stays",
        &[
            "flow.call.video={ period = \"40ms\", largest = \"1200B\", scenes = [{ mean = \"2500B\", deviation = \"500B\", for = \"10s\" }] }",
        ],
    ),
];

const CONTROLLERS: [&str; 1] = ["tfrc"];

/// A policy, and whether the sender knows which datagrams are one frame: a socket and the kernel's queue do not.
fn senders() -> Vec<(String, AnyPolicy, bool)> {
    let mut senders = Vec::new();
    for policy in AnyPolicy::all() {
        let has_frames = !matches!(policy, AnyPolicy::Fifo(_) | AnyPolicy::Prio(_));
        senders.push((policy.name().into(), policy, has_frames));
        if let AnyPolicy::Sbpn2(_) = policy {
            senders.push(("sbpn2, no frames".into(), policy, false));
        }
    }
    senders
}

/// What a table has a line for.
#[derive(Serialize)]
struct Row {
    bottleneck: &'static str,
    encoder: &'static str,
    controller: &'static str,
    sender: String,
    figures: Figures,
}

/// Means over runs.
#[derive(Serialize)]
struct Figures {
    /// Datagrams that came before their deadline, of those made.
    audio_on_time: Estimate,
    video_on_time: Estimate,
    /// Frames that came as a whole before their deadline, of those made.
    video_shown: Estimate,
    /// 99 % of the datagrams that came took no longer, ms.
    audio_p99_ms: Estimate,
    video_p99_ms: Estimate,
    /// Payload that came, bit/s.
    goodput_bps: Estimate,
    /// Part of the time in which the picture stood still.
    frozen: Estimate,
    /// Freezes a minute.
    freezes: Estimate,
}

pub fn run(args: &Senders) -> anyhow::Result<ExitCode> {
    let cells = cells(args.seconds);
    let jobs = args.jobs.unwrap_or_else(cores);
    let Some(results) = simulated::run(&cells, &args.out, jobs, args.runs as usize)? else {
        eprintln!(
            "stopped; what was finished is kept in {}: the same command goes on from there",
            args.out.display()
        );
        return Ok(ExitCode::from(130));
    };
    let rows = rows(&results, args.seconds);
    for bottleneck in &BOTTLENECKS {
        for (encoder, _) in ENCODERS {
            for controller in CONTROLLERS {
                let of = |row: &&Row| {
                    (row.bottleneck, row.encoder, row.controller)
                        == (bottleneck.name, encoder, controller)
                };
                let rows: Vec<&Row> = rows.iter().filter(of).collect();
                let title = bottleneck.title;
                text::say!(
                    "{title}; the encoder {encoder}, {controller}:\n\n{}\n",
                    table(&rows)
                );
            }
        }
    }
    if let Some(file) = &args.json {
        write(file, &(serde_json::to_string_pretty(&rows)? + "\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Each combination, by its place in the tables.
fn combinations() -> impl Iterator<
    Item = (
        &'static Bottleneck,
        usize,
        &'static str,
        String,
        [String; 3],
    ),
> {
    BOTTLENECKS.iter().flat_map(|bottleneck| {
        (0..ENCODERS.len()).flat_map(move |encoder| {
            CONTROLLERS.into_iter().flat_map(move |controller| {
                senders()
                    .into_iter()
                    .map(move |(sender, policy, has_frames)| {
                        let set = [
                            format!("flow.call.policy={policy}"),
                            format!("flow.call.rate={controller}"),
                            format!("flow.call.whole_frames={has_frames}"),
                        ];
                        (bottleneck, encoder, controller, sender, set)
                    })
            })
        })
    })
}

fn name(bottleneck: &str, encoder: &str, controller: &str, sender: &str) -> String {
    format!(
        "{bottleneck}/{encoder}/{controller}/{}",
        sender.replace(", ", "-")
    )
}

fn cells(seconds: u64) -> Vec<Cell> {
    let cell = |(bottleneck, encoder, controller, sender, set): (
        &Bottleneck,
        usize,
        &str,
        String,
        [String; 3],
    )| {
        let (encoder, encodes) = ENCODERS[encoder];
        let of_place = bottleneck
            .set
            .iter()
            .chain(encodes)
            .map(|set| (*set).into());
        Cell {
            set: of_place.chain(set).collect(),
            ..Cell::new(
                name(bottleneck.name, encoder, controller, &sender),
                bottleneck.file,
                seconds,
            )
        }
    };
    combinations().map(cell).collect()
}

fn rows(results: &Results, seconds: u64) -> Vec<Row> {
    let row = |(bottleneck, encoder, controller, sender, _): (
        &'static Bottleneck,
        usize,
        &'static str,
        String,
        _,
    )| {
        let (encoder, _) = ENCODERS[encoder];
        let runs = &results[&name(bottleneck.name, encoder, controller, &sender)];
        Row {
            bottleneck: bottleneck.name,
            encoder,
            controller,
            sender,
            figures: Figures::of(runs, seconds),
        }
    };
    combinations().map(row).collect()
}

impl Figures {
    fn of(runs: &[Report], seconds: u64) -> Self {
        // What the scenarios pass over, and the period of their frames.
        let measured = seconds as f64 - 5.0;
        let frames = measured / 0.04;
        let class = |which: usize, figure: &dyn Fn(&ClassReport) -> f64| {
            let of = |run: &Report| call(run).media.as_ref()?.classes.get(which).map(figure);
            Estimate::of(runs.iter().filter_map(of))
        };
        let on_time = |class: &ClassReport| class.on_time_share().unwrap_or(0.0);
        let freezes = |class: &ClassReport| class.freezes.unwrap_or_default();
        Self {
            audio_on_time: class(0, &on_time),
            video_on_time: class(1, &on_time),
            video_shown: class(1, &|c| freezes(c).frames as f64 / frames),
            audio_p99_ms: class(0, &|c| c.delay_ms.p99),
            video_p99_ms: class(1, &|c| c.delay_ms.p99),
            goodput_bps: Estimate::of(runs.iter().map(|run| call(run).goodput_bps)),
            frozen: class(1, &|c| freezes(c).seconds / measured),
            freezes: class(1, &|c| freezes(c).count as f64 / measured * 60.0),
        }
    }
}

fn call(run: &Report) -> &FlowReport {
    let call = run.flows.iter().find(|flow| flow.media.is_some());
    call.expect("each scenario has a call")
}

fn table(rows: &[&Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "sender",
        "audio on time",
        "video on time",
        "frames shown",
        "audio p99",
        "video p99",
        "received",
        "still",
        "freezes a minute",
    ]);
    for Row {
        sender, figures: f, ..
    } in rows
    {
        let shown = [
            Unit::Share.show(&f.audio_on_time),
            Unit::Share.show(&f.video_on_time),
            Unit::Share.show(&f.video_shown),
            Unit::Millis.show(&f.audio_p99_ms),
            Unit::Millis.show(&f.video_p99_ms),
            Unit::Rate.show(&f.goodput_bps),
            Unit::Share.show(&f.frozen),
            Unit::Index.show(&f.freezes),
        ];
        table.add_row([sender.clone()].into_iter().chain(shown));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_sender_has_a_cell_of_its_own_that_can_be_run() {
        let cells = cells(60);
        let names: BTreeSet<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(names.len(), cells.len());
        let settings: BTreeSet<_> = cells
            .iter()
            .map(|cell| (cell.file, cell.settings()))
            .collect();
        assert_eq!(settings.len(), cells.len());
        for cell in &cells {
            crate::builtin::load(cell.file, &cell.settings()).expect(&cell.name);
        }
    }
}
