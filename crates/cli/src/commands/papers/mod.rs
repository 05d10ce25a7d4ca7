//! `makeway papers`: runs a paper's experiments again and judges its statements.

mod claim;
pub mod grid;
mod page;
pub mod simulated;
mod sqf;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};

use super::parallel::cores;
use crate::text;

/// Runs a paper's experiments again and reports each of its statements: theirs, ours, verdict.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway papers sqf
  makeway papers sqf --world sim
  makeway papers sqf --world sim --full --runs 20 --json claims.json")]
pub struct Papers {
    /// Which paper.
    paper: Paper,
    /// Writes the verdicts as JSON: an array of id, world, verdict, paper, ours, ideal, why.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keeps the runs here, and writes index.html and claims.md; runs of the world netns that are here
    /// are not run again [default: out/papers/sqf, out/papers/sqf-sim].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The paper's own 10 minutes for each run, and each number of downloads from 1 to 20.
    #[arg(long)]
    full: bool,
    /// Runs at a time; each has a network of its own. By default as many as the machine bears.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Replications of each run in the world sim: figures are their means, with 95 % intervals
    /// [default: 3; 10 with --full].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Where the scenarios run.
    #[arg(long, value_enum, default_value_t = World::Netns)]
    world: World,
}

#[derive(Clone, Copy, ValueEnum)]
enum Paper {
    /// Bonald, Muscariello, Ostallo: Self-Prioritization of Audio and Video Traffic, ICC 2011.
    Sqf,
}

#[derive(Clone, Copy, ValueEnum)]
enum World {
    /// Network namespaces of this machine, with its kernel's TCP.
    Netns,
    /// Simulated time, with a model of TCP.
    Sim,
}

/// Runs it. Exit status 1 if a run failed, 130 if it was stopped; a claim that differs is no failure.
pub fn run(args: &Papers) -> anyhow::Result<ExitCode> {
    let Paper::Sqf = args.paper;
    let simulated = matches!(args.world, World::Sim);
    ensure!(
        simulated || args.runs.is_none(),
        "`--runs` repeats runs in simulated time: add `--world sim`"
    );
    let cells = sqf::cells(args.full, simulated);
    let out = args.out.clone().unwrap_or_else(|| match args.world {
        World::Netns => "out/papers/sqf".into(),
        World::Sim => "out/papers/sqf-sim".into(),
    });
    let results = match args.world {
        World::Netns => {
            let jobs = args.jobs.unwrap_or_else(grid::default_jobs).max(1);
            grid::run(&cells, &out, jobs)?
        }
        World::Sim => {
            let jobs = args.jobs.unwrap_or_else(cores).max(1);
            let runs = args.runs.unwrap_or(if args.full { 10 } else { 3 });
            simulated::run(&cells, &out, jobs, runs as usize)?
        }
    };
    let Some(results) = results else {
        match args.world {
            World::Netns => eprintln!(
                "stopped; what was finished is kept in {}: the same command goes on from there",
                out.display()
            ),
            World::Sim => eprintln!("stopped: nothing is kept of the world sim"),
        }
        return Ok(ExitCode::from(130));
    };
    let mut claims = sqf::claims(&results);
    if simulated {
        let measured = claims.iter_mut().filter(|claim| claim.world == "netns");
        measured.for_each(|claim| claim.world = "sim");
    }
    let write = |path: PathBuf, text: String| {
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))
    };
    if let Some(path) = &args.json {
        write(path.clone(), serde_json::to_string_pretty(&claims)? + "\n")?;
    }
    let html = out.join("index.html");
    write(html.clone(), page::html(&claims, &results, args.full))?;
    write(
        out.join("claims.md"),
        page::markdown(&claims, &results, args.full),
    )?;
    text::say!("{}", page::table(&claims).trim_end());
    text::say!("charts and figures: {}", html.display());
    Ok(ExitCode::SUCCESS)
}
