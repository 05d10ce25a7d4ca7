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

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::ensure;
use clap::Args;
use clap::builder::PossibleValuesParser;
use makeway::session::{stop_on_signals, write};
use makeway::text;

pub use region::{Region, run as run_region};

use claim::Claim;
use criteria::Criteria;
use figures::NOT_MEASURED;
use page::Section;
use paper::Paper;

use crate::experiment::{Cell, Grid, Results, World, stopped};

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
  makeway-lab papers --all-worlds --at-most 5
  makeway-lab papers sqf --world netns
  makeway-lab papers sqf --world vm
  makeway-lab papers sqf --full --runs 20 --json claims.json
  makeway-lab papers sqf --plans out/plans

A run that is finished is kept and not made again, so that the same command goes on where it was stopped. In the
world netns it is kept for this version of the program, its scenario and settings; in the world sim for the very code
that simulates, its scenario, settings and replication, in OUT/store, a store as that of `makeway run --sweep`. With
`--plans` the runs of that world can be made elsewhere, as on a cluster: docs/python.md. `sbpn` also boots a guest with Debian's kernel, in the world sim,
and asks its DCCP what it got in thirty runs beside two Reno flows and thirty alone, a minute each by the guest's clock,
kept as in the world netns. With `--all-worlds` each paper runs in all of its worlds, those in simulated time first; in the others,
which want a quiet machine, runs are short, also with `--full`. A paper whose runs fail in a world does not stop the rest:
it is reported as not measured, with the reason, and the exit status is 1.")]
pub struct Papers {
    /// Papers by ID [default: all].
    #[arg(value_name = "ID", value_parser = PossibleValuesParser::new(PAPERS.map(|paper| paper.id)))]
    ids: Vec<String>,
    /// Writes the verdicts as JSON: an array of id, world, criterion, paper, printed and ours (each of verdict and
    /// value), and why. Without FILE prints them, and no tables.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    json: Option<Option<PathBuf>>,
    /// Keeps the runs here, and writes index.html and for each paper ID.md, ID-netns.md or ID-vm.md.
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
    /// Bound on the replications of each run in the world sim, for a shorter time; a run that asks for fewer keeps its number.
    #[arg(long, value_name = "N", conflicts_with = "runs", value_parser = clap::value_parser!(u32).range(1..))]
    at_most: Option<u32>,
    /// Where the scenarios run [default: sim].
    #[arg(long, value_enum)]
    world: Option<World>,
    /// Every world of each paper: sim, and netns and vm where it has them.
    #[arg(long, conflicts_with_all = ["world", "plans"])]
    all_worlds: bool,
    /// Instead of any run, writes a plan of each cell of the world sim to this folder, ID-KEY.json.
    #[arg(long, value_name = "DIR", conflicts_with = "json")]
    plans: Option<PathBuf>,
}

/// A paper's runs, finished and judged.
struct Finished {
    paper: &'static Paper,
    criteria: Criteria,
    world: World,
    full: bool,
    cells: Vec<Cell>,
    results: Results,
    claims: Vec<Claim>,
    /// Why a part of its runs failed.
    failed: Option<String>,
}

impl Finished {
    /// A paper without runs in a world, since they failed: one statement says why.
    fn failed(
        args: &Papers,
        paper: &'static Paper,
        world: World,
        error: &anyhow::Error,
    ) -> anyhow::Result<Self> {
        let (id, failed) = (paper.id, format!("{error:#}"));
        let first = failed.lines().next().unwrap_or_default();
        let mut claim = Claim {
            id,
            criterion: format!("criteria/{id}.toml. As printed: all bars. Ours: all bars."),
            paper: format!("All of its statements in the world {}.", world.name()),
            ideal: NOT_MEASURED.into(),
            why: format!("Its runs failed: {first}"),
            setup: "none, since runs failed",
            // Every cell.
            from: &[""],
            ..Claim::default()
        };
        claim.printed.value = NOT_MEASURED.into();
        claim.ours.value = NOT_MEASURED.into();
        Ok(Self {
            paper,
            criteria: Criteria::of(id)?,
            world,
            full: is_full(args, world),
            cells: Vec::new(),
            results: Results::default(),
            claims: vec![claim],
            failed: Some(failed),
        })
    }

    fn section<'a>(&'a self, date: &'a str) -> Section<'a> {
        Section {
            paper: self.paper,
            world: self.world,
            full: self.full,
            cells: &self.cells,
            results: &self.results,
            claims: &self.claims,
            criteria: &self.criteria,
            date,
        }
    }
}

/// Runs it. Exit status 1 if a run failed, 130 if it was stopped; a claim that differs is no failure.
pub fn run(args: &Papers) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.plans {
        return write_plans(args, folder);
    }
    let chosen = chosen(args)?;
    let stop = stop_on_signals()?;
    Ok(match report(args, &chosen, &stop)? {
        Some(0) => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
        None => stopped(&args.out),
    })
}

/// Runs, judges and reports each of `chosen`. How many of them failed; `None`: `stop` was set.
fn report(
    args: &Papers,
    chosen: &[(&'static Paper, World)],
    stop: &AtomicBool,
) -> anyhow::Result<Option<usize>> {
    let date = today();
    let began = Instant::now();
    let has_tables = !matches!(args.json, Some(None));
    let mut finished = Vec::new();
    for (number, &(paper, world)) in chosen.iter().enumerate() {
        let name = format!(
            "{} in the world {} ({} of {})",
            paper.id,
            world.name(),
            number + 1,
            chosen.len()
        );
        let since = Instant::now();
        let one = match finish(args, paper, world, &name, stop) {
            Ok(Some(one)) => one,
            Ok(None) => return Ok(None),
            Err(_) if stop.load(Ordering::Relaxed) => return Ok(None),
            Err(error) if args.all_worlds => Finished::failed(args, paper, world, &error)?,
            Err(error) => return Err(error),
        };
        if let Some(error) = &one.failed {
            eprintln!("{name} failed: {error}");
        }
        let section = one.section(&date);
        let file = report_of(paper, world);
        write(&args.out.join(file), &page::markdown(&section))?;
        if has_tables {
            text::say!("{}", page::table(section.claims).trim_end());
        }
        eprintln!("{name}: {}", lasted(since.elapsed()));
        finished.push(one);
    }
    let sections = finished.iter().map(|one| one.section(&date));
    let sections: Vec<Section<'_>> = sections.collect();
    match &args.json {
        None => {}
        Some(None) => text::say!("{}", page::json(&sections)?.trim_end()),
        Some(Some(path)) => write(path, &page::json(&sections)?)?,
    }
    let html = args.out.join("index.html");
    write(&html, &page::html(&sections))?;
    if has_tables {
        text::say!("charts and figures: {}", html.display());
    }
    eprintln!("all: {}", lasted(began.elapsed()));
    let failed = finished.iter().filter(|one| one.failed.is_some());
    Ok(Some(failed.count()))
}

/// Whether runs have the paper's own length.
fn is_full(args: &Papers, world: World) -> bool {
    args.full && (world == World::Sim || !args.all_worlds)
}

/// Runs and judges one paper in one world; `name` is for the progress. `None`: a signal stopped it.
fn finish(
    args: &Papers,
    paper: &'static Paper,
    world: World,
    name: &str,
    stop: &AtomicBool,
) -> anyhow::Result<Option<Finished>> {
    // Before the runs that they judge.
    let criteria = Criteria::of(paper.id)?;
    let full = is_full(args, world);
    let mut cells = (paper.cells)(full, world);
    let grid = grid(args, &mut cells);
    let replications = |cell: &Cell| match world {
        World::Sim => grid.replications(cell),
        World::Netns | World::Vm => 1,
    };
    let runs: u64 = grid.cells.iter().map(replications).sum();
    eprintln!("{name}: {} set-ups, {runs} runs", grid.cells.len());
    let Some(results) = grid.run(world)? else {
        return Ok(None);
    };
    let mut claims = (paper.claims)(&results);
    let mut failed = None;
    if let Some(beside) = paper.beside
        && let Err(error) = beside(&mut claims, &args.out, args.runs)
    {
        if !args.all_worlds || stop.load(Ordering::Relaxed) {
            return Err(error);
        }
        // The claims of the finished runs are reported.
        failed = Some(format!("{error:#}"));
    }
    let claims = criteria.judge(world, claims)?;
    Ok(Some(Finished {
        paper,
        criteria,
        world,
        full,
        cells,
        results,
        claims,
        failed,
    }))
}

/// Name of a paper's report, and of its page in docs/reproduction.
fn report_of(paper: &Paper, world: World) -> String {
    match paper.is_first(world) {
        true => format!("{}.md", paper.id),
        false => format!("{}-{}.md", paper.id, world.name()),
    }
}

/// `3 min 12 s`.
fn lasted(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
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
        let worlds = paper.worlds.iter().copied();
        let worlds = worlds.filter(|one| args.all_worlds || *one == world);
        chosen.extend(worlds.map(|world| (paper, world)));
    }
    // A machine that computes is not quiet: worlds in real time come last.
    chosen.sort_by_key(|(_, world)| *world as usize);
    let is_simulated = chosen.iter().any(|(_, world)| *world == World::Sim);
    ensure!(
        is_simulated || args.runs.is_none(),
        "`--runs` repeats runs in simulated time: add `--world sim`"
    );
    Ok(chosen)
}

/// Writes a plan of each cell.
fn write_plans(args: &Papers, folder: &Path) -> anyhow::Result<ExitCode> {
    let mut count = 0;
    for (paper, world) in chosen(args)? {
        ensure!(
            world == World::Sim,
            "`--plans` is of runs in simulated time: add `--world sim`"
        );
        let mut cells = (paper.cells)(args.full, world);
        count += grid(args, &mut cells).plans(folder, paper.id)?;
    }
    text::say!("{count} plans: {}", folder.display());
    Ok(ExitCode::SUCCESS)
}

/// The cells with their replications.
fn grid<'a>(args: &'a Papers, cells: &'a mut [Cell]) -> Grid<'a> {
    if args.runs.is_some() {
        // Those of one run differ by seeds of their own.
        let replicated = |cell: &&mut Cell| cell.runs != Some(1);
        cells
            .iter_mut()
            .filter(replicated)
            .for_each(|cell| cell.runs = None);
    }
    let default = args.runs.unwrap_or(if args.full { 10 } else { 3 }) as usize;
    if let Some(most) = args.at_most {
        for cell in cells.iter_mut() {
            cell.runs = Some(cell.runs.unwrap_or(default).min(most as usize));
        }
    }
    Grid {
        cells,
        folder: &args.out,
        jobs: args.jobs,
        runs: default,
    }
}

#[cfg(test)]
mod tests;
