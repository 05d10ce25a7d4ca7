// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab papers`: runs the papers' experiments again and judges their statements.

mod abrc;
mod claim;
mod criteria;
mod figures;
mod ncq;
mod page;
mod paper;
mod pps;
mod region;
mod rfc8867;
mod sbpn;
mod sqf;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::ensure;
use clap::Args;
use clap::builder::PossibleValuesParser;
use makeway::session::write;
use makeway::text;

pub use region::{Region, run as run_region};

use criteria::Criteria;
use page::Section;
use paper::Paper;

use crate::experiment::{Cell, Grid, Results, World};

/// Papers that are run again, in the order of the page.
const PAPERS: [Paper; 6] = [
    sqf::SQF,
    ncq::NCQ,
    pps::PPS,
    sbpn::SBPN,
    abrc::ABRC,
    rfc8867::RFC8867,
];

/// Runs papers' experiments again and judges each of their statements twice: as printed, and ours.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway-lab papers
  makeway-lab papers sqf --world netns
  makeway-lab papers sqf --world vm
  makeway-lab papers sqf --full --runs 20 --json claims.json

A run that is finished is kept and not made again, so that the same command goes on where it was stopped. In the
world netns it is kept for this version of the program, its scenario and settings; in the world sim for the very code
that simulates, its scenario, settings and replication. `sbpn` also boots a guest with Debian's kernel, in the world sim,
and asks its DCCP what it got in thirty runs beside two Reno flows and thirty alone, a minute each by the guest's clock,
kept as in the world netns.")]
pub struct Papers {
    /// Papers by ID [default: all].
    #[arg(value_name = "ID", value_parser = PossibleValuesParser::new(PAPERS.map(|paper| paper.id)))]
    ids: Vec<String>,
    /// Writes the verdicts as JSON: an array of id, world, criterion, paper, printed and ours (each of verdict and
    /// value), and why.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keeps the runs here, and writes index.html and for each paper ID.md.
    #[arg(long, value_name = "DIR", default_value = "out/papers")]
    out: PathBuf,
    /// Makes runs of the papers' own length, and all of their set-ups.
    #[arg(long)]
    full: bool,
    /// Runs at a time; each has a network of its own. By default as many as the machine bears.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Replications of each run in the world sim: figures are their means, with 95 % intervals
    /// [default: 3, 10 with --full, or what an experiment asks for].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Where the scenarios run [default: sim].
    #[arg(long, value_enum)]
    world: Option<World>,
}

/// A paper's runs, finished.
struct Finished {
    paper: &'static Paper,
    criteria: Criteria,
    world: World,
    cells: Vec<Cell>,
    results: Results,
}

/// Runs it. Exit status 1 if a run failed, 130 if it was stopped; a claim that differs is no failure.
pub fn run(args: &Papers) -> anyhow::Result<ExitCode> {
    let mut finished = Vec::new();
    for (paper, world) in chosen(args)? {
        // Before the runs that they judge.
        let criteria = Criteria::of(paper.id)?;
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
            criteria,
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
        *claims = f.criteria.judge(f.world, std::mem::take(claims))?;
    }
    let date = today();
    let sections: Vec<Section<'_>> = (finished.iter().zip(&claims))
        .map(|(f, claims)| Section {
            paper: f.paper,
            world: f.world,
            full: args.full,
            cells: &f.cells,
            results: &f.results,
            claims,
            criteria: &f.criteria,
            date: &date,
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

/// The date of the report in UTC, `2026-11-23`.
fn today() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let days = since.map_or(0, |since| since.as_secs() / 86_400);
    let [year, month, day] = date(days);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of a number of days after 1970-01-01, by the Gregorian calendar from 0000-03-01 on.
fn date(days: u64) -> [u64; 3] {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    [era * 400 + year + later, month, day]
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
    if args.runs.is_some() {
        // Those of one run differ by seeds of their own.
        let replicated = |cell: &&mut Cell| cell.runs != Some(1);
        cells
            .iter_mut()
            .filter(replicated)
            .for_each(|cell| cell.runs = None);
    }
    let default = if args.full { 10 } else { 3 };
    let grid = Grid {
        cells,
        folder: &args.out,
        jobs: args.jobs,
        runs: args.runs.unwrap_or(default) as usize,
    };
    grid.run(world)
}

#[cfg(test)]
mod tests;
