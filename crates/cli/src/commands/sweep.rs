// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway run --sweep`: combinations of values, with a store that keeps finished runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use makeway_report::estimate::Estimate;
use makeway_report::replications::Measure;
use makeway_store::listing;
use makeway_store::plan::{Plan, Shard, Source};
use makeway_store::query::Found;
use makeway_store::store::Store;
use makeway_store::sweep::{How, Summary, run};
use makeway_store::table::{self, Column};
use serde_json::{Map, Value, json};

use super::parallel::cores;
use super::replicate::Replicate;
use super::session;

/// A file with values of keys, and a folder with finished runs.
#[derive(Args)]
#[command(next_help_heading = "Sweeps (world sim)")]
pub struct Sweep {
    /// Runs all combinations of the values in this file, each `replications` times with common random numbers, and keeps their figures in
    /// `--store`: TOML, `replications = 20` and `[[axis]]` with `key = "link.line.rate"` and `values = ["1mbit", "10mbit"]`.
    /// `--runs` stands for the file's replications.
    #[arg(long, value_name = "FILE", requires = "store")]
    sweep: Option<PathBuf>,
    /// Folder of finished runs, which are not made again; Parquet.
    #[arg(long, value_name = "DIR", requires = "sweep")]
    store: Option<PathBuf>,
    /// Part of the runs, for batch systems: 1/4, 2/4 and so on, all with the same store or each with its own.
    #[arg(long, value_name = "NUMBER/COUNT", requires = "sweep")]
    shard: Option<Shard>,
    /// Repeats failed runs.
    #[arg(long, requires = "sweep")]
    again: bool,
}

/// Results of a sweep.
pub struct Results {
    /// For a terminal.
    pub table: String,
    /// For scripts.
    pub json: String,
    /// False if a signal cut it short.
    pub complete: bool,
    /// Whether a run of the sweep has no figures.
    pub failed: bool,
}

impl Sweep {
    /// Whether a sweep is asked for.
    pub fn wanted(&self) -> bool {
        self.sweep.is_some()
    }

    /// Makes the runs of the scenario in `file` that the store lacks.
    ///
    /// # Errors
    /// The scenario, the file or the store is refused.
    pub fn run(
        &self,
        file: &Path,
        set: &[String],
        replicate: &Replicate,
    ) -> anyhow::Result<Results> {
        ensure!(
            replicate.precision.is_none() && replicate.compare.is_none(),
            "a sweep has values in its file and a fixed number of replications: leave out `--compare` and `--precision`"
        );
        let (Some(listed), Some(folder)) = (&self.sweep, &self.store) else {
            anyhow::bail!("a sweep needs `--sweep FILE` and `--store DIR`");
        };
        let (axes, replications) = listing::load(listed)?;
        let replications = replicate.runs.map_or(replications, u64::from);
        let plan = Plan::new(Source::load(file, set)?, axes, replications)?;
        let mut store = Store::open(folder)?;
        if !store.damaged().is_empty() {
            eprintln!(
                "{} damaged parts were moved to {}: their runs are made again",
                store.damaged().len(),
                folder.join("damaged").display()
            );
        }
        let stop = session::stop_on_signals()?;
        let how = How {
            workers: replicate.jobs.map_or_else(cores, |jobs| jobs as usize),
            shard: self.shard.unwrap_or(Shard::ALL),
            again: self.again,
            stop: Arc::clone(&stop),
        };
        let bar = ProgressBar::new(plan.jobs(how.shard).count() as u64);
        bar.set_style(ProgressStyle::with_template(
            "runs   {bar:40.green} {pos} of {len}, {eta} left {msg}",
        )?);
        let summary = run(&mut store, &plan, &how, |summary| {
            bar.set_position(summary.kept + summary.made);
            if summary.failed > 0 {
                bar.set_message(format!("({} failed)", summary.failed));
            }
            !stop.load(Ordering::Relaxed)
        });
        bar.finish_and_clear();
        let summary = summary?;
        let found = Found::new(&store, &plan)?;
        let keys: Vec<String> = plan.axes.iter().map(|axis| axis.key.clone()).collect();
        let estimates = found.estimates(&keys)?;
        let runs = makeway_store::query::runs(&store, &plan)?;
        let errors = errors(&runs)?;
        Ok(Results {
            table: shown(&plan, &estimates, &summary, &errors),
            json: serde_json::to_string_pretty(&rows(&estimates))
                .context("a table of numbers is JSON")?,
            complete: summary.complete(),
            failed: !errors.is_empty(),
        })
    }
}

/// Why runs have no figures, each reason once.
fn errors(runs: &table::Table) -> anyhow::Result<Vec<String>> {
    let Some(Column::Text(errors)) = runs.column("error") else {
        anyhow::bail!("the store has no column `error`");
    };
    let mut known: Vec<String> = Vec::new();
    for error in errors.iter().flatten() {
        if !known.iter().any(|one| one == error) {
            known.push(error.to_owned());
        }
    }
    Ok(known)
}

fn cell(column: &Column, row: usize) -> Value {
    match column {
        Column::Text(text) => json!(text.get(row)),
        Column::Real(values) => json!(values[row]),
        Column::Whole(values) => json!(values[row]),
        Column::Flag(values) => json!(values[row]),
    }
}

fn rows(table: &table::Table) -> Vec<Map<String, Value>> {
    let row = |row| {
        table
            .columns
            .iter()
            .map(move |(name, column)| (name.clone(), cell(column, row)))
            .collect()
    };
    (0..table.len()).map(row).collect()
}

/// Headline figures of each point, and how the sweep ended.
fn shown(plan: &Plan, estimates: &table::Table, summary: &Summary, errors: &[String]) -> String {
    let mut shown = Table::new();
    shown.load_style(presets::NOTHING);
    let keys = plan.axes.iter().map(|axis| axis.key.as_str());
    shown.set_header(keys.chain([
        "of",
        "figure",
        "mean ± half-width of the 95 % interval",
        "runs",
    ]));
    for row in rows(estimates) {
        let name = row["figure"].as_str().unwrap_or_default();
        let Some(measure) = Measure::ALL
            .into_iter()
            .find(|measure| measure.key() == name && measure.headline())
        else {
            continue;
        };
        let estimate = Estimate {
            mean: row["mean"].as_f64().unwrap_or(f64::NAN),
            half_width: row["half_width"].as_f64(),
            runs: row["runs"].as_u64().unwrap_or_default(),
        };
        let text = |key: &str| {
            row[key]
                .as_str()
                .map_or_else(|| row[key].to_string(), str::to_owned)
        };
        let mut cells: Vec<String> = plan.axes.iter().map(|axis| text(&axis.key)).collect();
        cells.extend([
            text("of"),
            measure.name().to_owned(),
            measure.unit().show(&estimate),
            text("runs"),
        ]);
        shown.add_row(cells);
    }
    let Summary {
        runs,
        kept,
        made,
        failed,
        ..
    } = summary;
    let lost = if *failed > 0 {
        format!(", {failed} of them failed")
    } else {
        String::new()
    };
    let errors: String = errors
        .iter()
        .map(|error| format!("failed: {error}\n"))
        .collect();
    format!(
        "{}\n\n{shown}\n\n{errors}{runs} runs: {kept} were in the store, {made} made{lost}; {:.1} s",
        plan.title,
        summary.elapsed.as_secs_f64()
    )
}
