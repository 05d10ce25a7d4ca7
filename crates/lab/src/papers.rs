// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab papers`: runs the papers' experiments again and judges their statements.

mod abrc;
mod claim;
mod figures;
pub mod grid;
mod in_guest;
mod ncq;
mod page;
mod paper;
mod pps;
mod rfc8867;
mod sbpn;
pub mod simulated;
mod sqf;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use clap::Args;
use clap::builder::PossibleValuesParser;
use makeway::parallel::cores;
use makeway::session::write;
use makeway::text;

use claim::Claim;
use grid::{Cell, Results};
use page::Section;
use paper::{Paper, World};

/// Those that are run again, in the order of the page.
const PAPERS: [Paper; 6] = [
    sqf::SQF,
    ncq::NCQ,
    pps::PPS,
    sbpn::SBPN,
    abrc::ABRC,
    rfc8867::RFC8867,
];

/// Runs papers' experiments again and reports each of their statements: theirs, ours, verdict.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway-lab papers
  makeway-lab papers sqf --world netns
  makeway-lab papers sqf --world vm
  makeway-lab papers sqf --world sim --full --runs 20 --json claims.json

A run that is finished is kept and not made again, so that the same command goes on where it was stopped. In the
world netns it is kept for this version of the program, its scenario and settings; in the world sim for the very code
that simulates, its scenario, settings and replication. `sbpn` also boots a guest with Debian's kernel, in the world sim,
and asks its DCCP what it got: about five minutes, kept as in the world netns.")]
pub struct Papers {
    /// Which papers; all of them if none is named.
    #[arg(value_name = "ID", value_parser = PossibleValuesParser::new(PAPERS.map(|paper| paper.id)))]
    ids: Vec<String>,
    /// Writes the verdicts as JSON: an array of id, world, verdict, paper, ours, ideal, why, setup, charts,
    /// tables, and the commands that run its set-ups again.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keeps the runs here, and writes index.html and for each paper ID.md.
    #[arg(long, value_name = "DIR", default_value = "out/papers")]
    out: PathBuf,
    /// As long as the papers' own runs, and all of their set-ups.
    #[arg(long)]
    full: bool,
    /// Runs at a time; each has a network of its own. By default as many as the machine bears.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Replications of each run in the world sim: figures are their means, with 95 % intervals
    /// [default: 3, 10 with --full, or what an experiment asks for].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Where the scenarios run [default: sim; netns for sqf].
    #[arg(long, value_enum)]
    world: Option<World>,
}

/// A paper's runs, finished.
struct Finished {
    paper: &'static Paper,
    world: World,
    cells: Vec<Cell>,
    results: Results,
}

/// Runs it. Exit status 1 if a run failed, 130 if it was stopped; a claim that differs is no failure.
pub fn run(args: &Papers) -> anyhow::Result<ExitCode> {
    let mut finished = Vec::new();
    for (paper, world) in chosen(args)? {
        let mut cells = (paper.cells)(args.full, world);
        let Some(results) = results(args, &mut cells, world)? else {
            eprintln!(
                "stopped; what was finished is kept in {}: the same command goes on from there",
                args.out.display()
            );
            return Ok(ExitCode::from(130));
        };
        finished.push(Finished {
            paper,
            world,
            cells,
            results,
        });
    }
    let mut claims: Vec<_> = (finished.iter())
        .map(|f| (f.paper.claims)(&f.results))
        .collect();
    for (f, claims) in finished.iter().zip(&mut claims) {
        if let Some(beside) = f.paper.beside {
            beside(claims, &args.out, args.runs)?;
        }
        *claims = claims.drain(..).map(Claim::judged).collect();
    }
    let sections: Vec<Section<'_>> = (finished.iter().zip(&claims))
        .map(|(f, claims)| Section {
            paper: f.paper,
            world: f.world,
            full: args.full,
            cells: &f.cells,
            results: &f.results,
            claims,
        })
        .collect();
    if let Some(path) = &args.json {
        write(path, &page::json(&sections)?)?;
    }
    for section in &sections {
        let file = format!("{}.md", section.paper.id);
        write(&args.out.join(file), &page::markdown(section))?;
        text::say!("{}", page::table(section.claims).trim_end());
    }
    let html = args.out.join("index.html");
    write(&html, &page::html(&sections))?;
    text::say!("charts and figures: {}", html.display());
    Ok(ExitCode::SUCCESS)
}

/// Papers, each with its world.
fn chosen(args: &Papers) -> anyhow::Result<Vec<(&'static Paper, World)>> {
    let is_chosen =
        |paper: &&Paper| args.ids.is_empty() || args.ids.iter().any(|id| id == paper.id);
    let mut chosen = Vec::new();
    for paper in PAPERS.iter().filter(is_chosen) {
        let world = args.world.unwrap_or(paper.worlds[0]);
        ensure!(
            paper.worlds.contains(&world),
            "`{}` does not run in the world {}: leave `--world` out",
            paper.id,
            world.name()
        );
        chosen.push((paper, world));
    }
    let is_simulated = chosen.iter().any(|(_, world)| *world == World::Sim);
    ensure!(
        is_simulated || args.runs.is_none(),
        "`--runs` repeats runs in simulated time: add `--world sim`"
    );
    Ok(chosen)
}

fn results(args: &Papers, cells: &mut [Cell], world: World) -> anyhow::Result<Option<Results>> {
    let folder: &Path = &args.out;
    match world {
        World::Netns => {
            let jobs = args.jobs.unwrap_or_else(grid::default_jobs).max(1);
            grid::run(cells, folder, jobs)
        }
        World::Vm => in_guest::run(cells, folder, args.jobs.unwrap_or_else(cores).max(1)),
        World::Sim => {
            let jobs = args.jobs.unwrap_or_else(cores).max(1);
            let default = if args.full { 10 } else { 3 };
            if args.runs.is_some() {
                cells.iter_mut().for_each(|cell| cell.runs = None);
            }
            simulated::run(cells, folder, jobs, args.runs.unwrap_or(default) as usize)
        }
    }
}

#[cfg(test)]
mod tests;
