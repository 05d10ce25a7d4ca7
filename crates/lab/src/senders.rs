// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab senders`: which sender for what. The same call over the same bottlenecks, with each policy and controller.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use comfy_table::Table;
use makeway::text;
use makeway_core::send::AnyPolicy;
use makeway_report::estimate::{Estimate, Unit};
use makeway_report::model::{ClassReport, FlowReport, Report};
use serde::Serialize;

use crate::experiment::{Cell, Grid, Key, Results, World, stopped};
use crate::tables::{Column, align, markdown, of_senders, write_json};

/// Compares senders of a video call over the same bottlenecks: policies, controllers, encoders.
///
/// The video has the sizes and kinds of frames of x264; a frame is shown with those that it depends on. Prints the tables of
/// docs/which-sender.md in Markdown. Figures are means over runs in simulated time, with 95 % intervals.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway-lab senders
  makeway-lab senders --runs 20 --json senders.json

A run that is finished is kept for the very code that simulates, so that the same command goes on where it was stopped.")]
pub struct Senders {
    /// Replications of each run; all senders see the same luck.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
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
const ENCODERS: [(&str, &[&str]); 3] = [
    ("follows", &[]),
    (
        "stays",
        &[
            "flow.call.video={ period = \"40ms\", largest = \"1200B\", trace = \"../traces/x264-500k.csv\" }",
        ],
    ),
    (
        "follows, keyframes on refusal",
        &["flow.call.video.keyframes=on-refusal"],
    ),
];

/// Senders compared in one table share it.
#[derive(Clone, Copy)]
struct Setup {
    bottleneck: &'static Bottleneck,
    /// Index in [`ENCODERS`].
    encoder: usize,
    controller: &'static str,
}

/// TFRC everywhere; CCID 2, GCC and SCReAMv2 with an encoder that follows; TFRC and GCC with one that also makes keyframes on refusal; ABRC
/// where it belongs, at an access point.
fn setups() -> Vec<Setup> {
    let mut setups = Vec::new();
    for bottleneck in &BOTTLENECKS {
        let setup = |(encoder, controller)| Setup {
            bottleneck,
            encoder,
            controller,
        };
        let everywhere = [
            (0, "tfrc"),
            (1, "tfrc"),
            (0, "ccid2"),
            (0, "gcc"),
            (0, "scream"),
            (2, "tfrc"),
            (2, "gcc"),
        ];
        setups.extend(everywhere.map(setup));
        if bottleneck.name == "access-point" {
            setups.push(setup((0, "abrc")));
        }
    }
    setups
}

/// The sender with the defaults, as `AnyPolicy` and `send::Config` have them.
const DEFAULT: &str = "sbpn2, late keyframes";

/// A policy, whether it knows which datagrams are one frame, and whether late keyframes leave.
struct Sender {
    name: &'static str,
    policy: AnyPolicy,
    has_frames: bool,
    late_keyframes: bool,
}

/// Each policy. A socket and the kernel's queue know no frames.
fn senders() -> Vec<Sender> {
    let mut senders = Vec::new();
    for policy in AnyPolicy::all() {
        let sender = |name, has_frames, late_keyframes| Sender {
            name,
            policy,
            has_frames,
            late_keyframes,
        };
        let has_frames = !matches!(policy, AnyPolicy::Fifo(_) | AnyPolicy::Prio(_));
        senders.push(sender(policy.name(), has_frames, false));
        match policy {
            AnyPolicy::Sbpn2(_) => senders.extend([
                sender("sbpn2, no frames", false, false),
                sender(DEFAULT, true, true),
            ]),
            AnyPolicy::Weighted(_) => senders.push(sender("weighted, late keyframes", true, true)),
            _ => {}
        }
    }
    senders
}

/// A line of a table.
#[derive(Serialize)]
struct Row {
    bottleneck: &'static str,
    encoder: &'static str,
    controller: &'static str,
    sender: &'static str,
    figures: Figures,
}

/// Means over runs.
#[derive(Serialize)]
struct Figures {
    /// Datagrams that came before their deadline, of those made.
    audio_on_time: Estimate,
    video_on_time: Estimate,
    /// Frames that came as a whole before their deadline, with those that they depend on, of those made.
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
    for setup in setups() {
        let of_setup: Vec<Row> = senders()
            .into_iter()
            .map(|sender| setup.row(sender.name, &results, args.seconds))
            .collect();
        let (title, controller) = (setup.bottleneck.title, setup.controller);
        let (encoder, _) = ENCODERS[setup.encoder];
        let table = table(&of_setup);
        text::say!("### {title}; the encoder {encoder}, {controller}\n\n{table}\n");
        rows.extend(of_setup);
    }
    let table = beside_the_default(&rows);
    text::say!("### the default ({DEFAULT}) beside each other sender\n\n{table}\n");
    write_json(args.json.as_deref(), &rows)?;
    Ok(ExitCode::SUCCESS)
}

fn cells(seconds: u64) -> Vec<Cell> {
    let of_setup = |setup: Setup| {
        senders()
            .into_iter()
            .map(move |sender| setup.cell(&sender, seconds))
    };
    setups().into_iter().flat_map(of_setup).collect()
}

impl Setup {
    /// Key of a cell.
    fn key(self, sender: &str) -> Key {
        let (encoder, _) = ENCODERS[self.encoder];
        let [encoder, sender] =
            [encoder, sender].map(|name| name.replace(", ", "-").replace(' ', "-"));
        Key::new(format!(
            "{}/{encoder}/{}/{sender}",
            self.bottleneck.name, self.controller
        ))
    }

    fn cell(self, sender: &Sender, seconds: u64) -> Cell {
        let (_, encodes) = ENCODERS[self.encoder];
        let of_setup = self.bottleneck.set.iter().chain(encodes);
        let of_sender = [
            format!("flow.call.policy={}", sender.policy),
            format!("flow.call.rate={}", self.controller),
            format!("flow.call.whole_frames={}", sender.has_frames),
            format!("flow.call.late_keyframes={}", sender.late_keyframes),
        ];
        Cell {
            set: of_setup.map(|set| (*set).into()).chain(of_sender).collect(),
            ..Cell::new(self.key(sender.name), self.bottleneck.file, seconds)
        }
    }

    fn row(self, sender: &'static str, results: &Results, seconds: u64) -> Row {
        Row {
            bottleneck: self.bottleneck.name,
            encoder: ENCODERS[self.encoder].0,
            controller: self.controller,
            sender,
            figures: Figures::of(&results[self.key(sender)], seconds),
        }
    }
}

impl Figures {
    fn of(runs: &[Report], seconds: u64) -> Self {
        // Time that the scenarios pass over, and the period of their frames.
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

/// Whether `a` is larger than `b` by more than both intervals together.
fn is_larger(a: &Estimate, b: &Estimate) -> bool {
    let half = |of: &Estimate| of.half_width.unwrap_or(0.0);
    a.mean - b.mean > half(a) + half(b)
}

/// The number of tables in which the default sender is better than another sender, and worse.
fn beside_the_default(rows: &[Row]) -> Table {
    let setup = |row: &Row| (row.bottleneck, row.encoder, row.controller);
    let of_default = |other: &Row| {
        let mut of_setup = rows.iter().filter(|row| setup(row) == setup(other));
        of_setup.find(|row| row.sender == DEFAULT)
    };
    let mut table = markdown([
        "sender",
        "tables",
        "the default shows more",
        "fewer",
        "stands still for less",
        "longer",
    ]);
    let others = senders().into_iter().map(|sender| sender.name);
    for name in others.filter(|name| *name != DEFAULT) {
        let of_name = rows.iter().filter(|row| row.sender == name);
        let pairs: Vec<(&Figures, &Figures)> = of_name
            .filter_map(|row| Some((&of_default(row)?.figures, &row.figures)))
            .collect();
        let count = |is: fn(&Figures, &Figures) -> bool| {
            pairs.iter().filter(|(a, b)| is(a, b)).count().to_string()
        };
        table.add_row([
            name.to_owned(),
            pairs.len().to_string(),
            count(|a, b| is_larger(&a.video_shown, &b.video_shown)),
            count(|a, b| is_larger(&b.video_shown, &a.video_shown)),
            count(|a, b| is_larger(&b.frozen, &a.frozen)),
            count(|a, b| is_larger(&a.frozen, &b.frozen)),
        ]);
    }
    align(table, 1)
}

/// As `scripts/renew` has them.
const COLUMNS: [Column<Figures>; 8] = [
    Column("audio on time", Unit::Share, |f| &f.audio_on_time),
    Column("video on time", Unit::Share, |f| &f.video_on_time),
    Column("frames shown", Unit::Share, |f| &f.video_shown),
    Column("audio p99", Unit::Millis, |f| &f.audio_p99_ms),
    Column("video p99", Unit::Millis, |f| &f.video_p99_ms),
    Column("received", Unit::Rate, |f| &f.goodput_bps),
    Column("still", Unit::Share, |f| &f.frozen),
    Column("freezes a minute", Unit::Index, |f| &f.freezes),
];

fn table(rows: &[Row]) -> Table {
    of_senders(&COLUMNS, rows.iter().map(|row| (row.sender, &row.figures)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use makeway_scenario::model::{Source, Traffic};
    use std::collections::BTreeSet;

    #[test]
    fn every_sender_has_a_cell_of_its_own_that_can_be_run() {
        let cells = cells(60);
        let names: BTreeSet<&Key> = cells.iter().map(|cell| &cell.key).collect();
        assert_eq!(names.len(), cells.len());
        let settings: BTreeSet<_> = cells
            .iter()
            .map(|cell| (cell.file, cell.settings()))
            .collect();
        assert_eq!(settings.len(), cells.len());
        for cell in &cells {
            let scenario = makeway::builtin::load(cell.file, &cell.settings())
                .unwrap_or_else(|error| panic!("{}: {error}", cell.key.path()));
            let media = scenario.flows.iter().find_map(|flow| match &flow.source {
                Source::Media(media) => Some(media),
                _ => None,
            });
            let media = media.expect("a call");
            let Traffic::Coded { frames, .. } = &media.classes[1].traffic else {
                panic!("{}: no real encoder", cell.key.path());
            };
            // A keyframe of an encoder at its largest rate finds room.
            let largest = frames.iter().map(|frame| frame.bytes.get()).max();
            let parts = largest.unwrap_or(0) * 3 / 1200;
            assert!(parts < u64::from(media.queue.packets), "{parts}");
        }
    }

    #[test]
    fn the_default_is_that_of_the_library() {
        let config = makeway_core::send::Config::default();
        let is_default = |sender: &Sender| {
            sender.policy == AnyPolicy::default()
                && sender.has_frames
                && sender.late_keyframes == config.late_keyframes
        };
        let names: Vec<&str> = senders()
            .iter()
            .filter(|sender| is_default(sender))
            .map(|sender| sender.name)
            .collect();
        assert_eq!(names, [DEFAULT]);
    }

    #[test]
    fn the_default_is_counted_where_both_intervals_leave_no_doubt() {
        let exactly = |mean| Estimate {
            mean,
            half_width: Some(0.05),
            runs: 10,
        };
        let row = |controller, sender, shown, frozen| Row {
            bottleneck: "loss",
            encoder: "follows",
            controller,
            sender,
            figures: Figures {
                audio_on_time: exactly(1.0),
                video_on_time: exactly(1.0),
                video_shown: exactly(shown),
                audio_p99_ms: exactly(50.0),
                video_p99_ms: exactly(50.0),
                goodput_bps: exactly(1e6),
                frozen: exactly(frozen),
                freezes: exactly(1.0),
            },
        };
        let rows = [
            row("tfrc", DEFAULT, 0.8, 0.1),
            row("tfrc", "fifo", 0.6, 0.4),
            row("gcc", DEFAULT, 0.8, 0.3),
            row("gcc", "fifo", 0.85, 0.1),
            row("ccid2", DEFAULT, 0.5, 0.5),
            row("ccid2", "fifo", 0.7, 0.5),
        ];
        let table = beside_the_default(&rows).to_string();
        let fifo = table.lines().find(|line| line.contains("fifo"));
        let cells: Vec<&str> = fifo.unwrap_or_default().split('|').map(str::trim).collect();
        assert_eq!(cells[1..7], ["fifo", "3", "1", "1", "1", "1"]);
    }
}
