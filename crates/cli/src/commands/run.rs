//! `makeway run`: runs a scenario and reports.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use makeway_netns::Options;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Runs a scenario, prints a table, and writes report.json and report.html.
#[derive(Args)]
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
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let World::Netns = args.world;
    // Before any thread: only a lone thread may enter a user namespace.
    makeway_netns::enter_user_namespace()?;
    let options = Options::default();
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&options.stop))
            .context("signals cannot be caught")?;
    }
    let bar = ProgressBar::new(scenario.duration.as_nanos() / 1_000_000);
    bar.set_style(ProgressStyle::with_template("{wide_bar} {msg}")?);
    let report = makeway_netns::run(&scenario, options, |progress| {
        bar.set_position(progress.elapsed.as_nanos() / 1_000_000);
        let [elapsed, duration] = [progress.elapsed, progress.duration].map(|d| d.as_secs_f64());
        bar.set_message(format!("{elapsed:.0} of {duration:.0} s"));
    })?;
    bar.finish_and_clear();
    let json = serde_json::to_string_pretty(&report)?;
    if let Some(folder) = &args.out {
        let path = folder.join("report.json");
        fs::write(&path, &json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    println!("{json}");
    Ok(if report.complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(130)
    })
}
