// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway run`: runs a scenario and reports.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use makeway_report::{csv, flent, html, json, summary, table};
use maud::Markup;

use super::replicate::Replicate;
use super::session::{self, Session};
use super::sweep::Sweep;
use super::traces::Traces;
use super::vm;
use crate::text;

/// Runs a scenario, prints a table, and writes report.json, report.html, series.csv and run.flent.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway run scenarios/call-and-downloads.toml
  makeway run scenarios/call-and-downloads.toml --set link.line.queue.discipline=fifo --out out
  makeway run scenarios/call-and-downloads.toml --world sim
  makeway run FILE --set duration=10s --json | jq .flows
  makeway run FILE --world vm --set 'link.line.queue.qdisc=cake'
  makeway run FILE --world sim --runs 20
  makeway run FILE --world sim --precision 0.05
  makeway run FILE --world sim --runs 10 --compare link.line.queue.discipline=fifo,sqf
  makeway run FILE --world sim --sweep sweep.toml --store out/sweep
  makeway run FILE --world sim --sweep sweep.toml --store out/sweep --shard 1/4
  makeway run FILE --world sim --pcap line=line.pcapng
  makeway run FILE --world sim --pcap line:router=down.pcapng --pcap backbone=backbone.pcapng
  makeway run FILE --world sim --trace all.tr")]
pub struct Run {
    /// The scenario file.
    file: PathBuf,
    /// World of the run; `netns,sim` runs it in both and puts them side by side.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "netns")]
    world: Vec<World>,
    /// Changes a value of the file: `link.line.rate=5mbit`, `flow.download.count=20`.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Writes report.json, report.html and, of a single run, series.csv and run.flent (for flent) into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Prints JSON instead of the table.
    #[arg(long)]
    json: bool,
    /// Accepts any rates in the world vm, also those at which a guest without idle time measures itself.
    #[arg(long)]
    any_rate: bool,
    #[command(flatten)]
    replicate: Replicate,
    #[command(flatten)]
    sweep: Sweep,
    #[command(flatten)]
    traces: Traces,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum World {
    /// Network namespaces of this machine, with its kernel's TCP.
    Netns,
    /// Simulated time, with a model of TCP: needs no privilege, and next to no time.
    Sim,
    /// A guest of QEMU with Debian's newest kernel and its qdiscs: needs no privilege.
    Vm,
}

/// Runs it. Exit status 1 if the scenario is refused or a run of a sweep failed, 130 if it was cut short.
pub fn run(args: &Run) -> anyhow::Result<ExitCode> {
    if args.sweep.wanted() {
        return sweep(args);
    }
    if args.replicate.wanted() {
        return replicate(args);
    }
    let scenario = makeway_scenario::load(&args.file, &args.set)?;
    ensure!(
        args.traces.is_empty() || args.world == [World::Sim],
        "`--pcap` and `--trace` need the world sim: add `--world sim` (in the world netns, run tcpdump on its interfaces)"
    );
    let traces = args.traces.find(&scenario)?;
    if let Some(folder) = &args.out {
        session::make_folder(folder)?;
    }
    let mut recorder = traces.open(&scenario)?;
    // The world that enters a user namespace comes first: it may only do so before any thread.
    let mut worlds = args.world.clone();
    worlds.sort();
    worlds.dedup();
    let mut reports = Vec::new();
    for world in worlds {
        reports.push(match world {
            World::Netns => {
                let session = Session::start()?;
                session.run(&scenario, Vec::new(), "netns")?.report
            }
            World::Sim => session::simulate(&scenario, recorder.take())?,
            World::Vm => match vm::one(&args.file, &args.set, args.any_rate)? {
                Some(report) => report,
                None => return Ok(session::exit_code(false)),
            },
        });
    }
    let warnings = makeway_scenario::warnings(&scenario);
    for report in &mut reports {
        // A guest's report has them already.
        report.warnings.retain(|told| !warnings.contains(told));
        report.warnings.extend_from_slice(&warnings);
    }
    let (text, page, table) = match &reports[..] {
        [report] => (json::to_json(report), html::run(report), table::run(report)),
        several => (
            serde_json::to_string_pretty(several)? + "\n",
            html::compare(
                &scenario.title,
                &summary::sentences(several),
                several,
                Markup::default(),
            ),
            table::compare(several),
        ),
    };
    if let Some(folder) = &args.out {
        session::write(&folder.join("report.json"), &text)?;
        session::write(&folder.join("report.html"), &page)?;
        session::write(&folder.join("series.csv"), &csv::series(&reports))?;
        if let [report] = &reports[..] {
            let text = flent::to_json(report, &scenario.ends(), None, "run.flent")?;
            session::write(&folder.join("run.flent"), &text)?;
        }
    }
    if args.json {
        text::say!("{}", text.trim_end());
    } else {
        text::say!("{table}");
    }
    Ok(session::exit_code(
        reports.iter().all(|report| report.complete),
    ))
}

/// A sweep instead of one run.
fn sweep(args: &Run) -> anyhow::Result<ExitCode> {
    ensure!(
        args.world == [World::Sim],
        "`--sweep` runs scenarios in simulated time: add `--world sim`"
    );
    ensure!(
        args.traces.is_empty() && args.out.is_none(),
        "the results of a sweep are in its store: leave out `--out`, `--pcap` and `--trace`"
    );
    let found = args.sweep.run(&args.file, &args.set, &args.replicate)?;
    if args.json {
        text::say!("{}", found.json.trim_end());
    } else {
        text::say!("{}", found.table);
    }
    Ok(match found.failed {
        true => ExitCode::FAILURE,
        false => session::exit_code(found.complete),
    })
}

/// Several runs instead of one.
fn replicate(args: &Run) -> anyhow::Result<ExitCode> {
    ensure!(
        args.world == [World::Sim],
        "`--runs`, `--precision` and `--compare` repeat a scenario in simulated time: add `--world sim`"
    );
    ensure!(
        args.traces.is_empty(),
        "a trace covers one run: leave out `--runs`, `--precision` and `--compare`, or `--pcap` and `--trace`"
    );
    if let Some(folder) = &args.out {
        session::make_folder(folder)?;
    }
    let found = match args.replicate.run(&args.file, &args.set)? {
        Ok(found) => found,
        Err(code) => return Ok(code),
    };
    if let Some(folder) = &args.out {
        session::write(&folder.join("report.json"), &found.json)?;
        session::write(&folder.join("report.html"), &found.html)?;
    }
    if args.json {
        text::say!("{}", found.json.trim_end());
    } else {
        text::say!("{}", found.table);
    }
    Ok(session::exit_code(found.complete))
}
