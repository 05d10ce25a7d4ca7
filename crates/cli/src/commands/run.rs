//! `makeway run`: runs a scenario and reports.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use makeway_report::{html, json, table};

use super::session::{self, Session};
use crate::text;

/// Runs a scenario, prints a table, and writes report.json and report.html.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway run scenarios/call-and-downloads.toml
  makeway run scenarios/call-and-downloads.toml --set link.line.queue.discipline=fifo --out out
  makeway run FILE --set duration=10s --json | jq .flows")]
pub struct Run {
    /// The scenario file.
    file: PathBuf,
    /// Where it runs.
    #[arg(long, value_enum, default_value_t = World::Netns)]
    world: World,
    /// Changes a value of the file: `link.line.rate=5mbit`, `flow.download.count=20`.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Writes report.json and report.html into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Prints JSON instead of the table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum World {
    /// Network namespaces of this machine, with its kernel's TCP.
    Netns,
}

/// Runs it. Exit status 1 if the scenario is refused, 130 if the run was cut short.
pub fn run(args: &Run) -> anyhow::Result<ExitCode> {
    let scenario = makeway_scenario::load(&args.file, &args.set)?;
    if let Some(folder) = &args.out {
        session::make_folder(folder)?;
    }
    let World::Netns = args.world;
    let report = Session::start()?
        .run(&scenario, Vec::new(), "netns")?
        .report;
    let text = json::to_json(&report);
    if let Some(folder) = &args.out {
        session::write(&folder.join("report.json"), &text)?;
        session::write(&folder.join("report.html"), &html::run(&report))?;
    }
    if args.json {
        text::say!("{}", text.trim_end());
    } else {
        text::say!("{}", table::run(&report));
    }
    Ok(session::exit_code(report.complete))
}
