// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab region`: the region of an unknown set-up in which a paper's figures are met.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use makeway::session::write;
use makeway::text;

use super::{ncq, page};
use crate::experiment::{Grid, World, stopped};

/// Searches rate, delay and buffer of the NCQ paper's bottleneck jointly, and publishes those that give the figures of its text.
///
/// The paper's Fig. 7, which has them, is lost. All runs are in simulated time.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway-lab region
  makeway-lab region --out out/papers --jobs 2

A run that is finished is kept and not made again; `makeway-lab papers ncq --full` has the same runs.")]
pub struct Region {
    /// Keeps the runs here, as `papers` does, and writes ncq-region.md.
    #[arg(long, value_name = "DIR", default_value = "out/papers")]
    out: PathBuf,
    /// Runs at a time. By default as many as the machine bears.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// Runs it. Exit status 1 if a run failed, 130 if it was stopped.
pub fn run(args: &Region) -> anyhow::Result<ExitCode> {
    let cells = ncq::region_cells();
    let grid = Grid {
        cells: &cells,
        folder: &args.out,
        jobs: args.jobs,
        // Each cell says its own.
        runs: 1,
    };
    let Some(results) = grid.run(World::Sim)? else {
        return Ok(stopped(&args.out));
    };
    let (sentence, tables) = ncq::region(&results);
    let title = "NCQ: the set-ups in which the figures of its text are met";
    let report = page::tables(title, &sentence, &tables);
    write(&args.out.join("ncq-region.md"), &report)?;
    text::say!("{}", report.trim_end());
    Ok(ExitCode::SUCCESS)
}
