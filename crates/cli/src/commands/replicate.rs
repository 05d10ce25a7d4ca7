// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway run --runs`: replications of a scenario in simulated time, with confidence intervals.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{bail, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use makeway_report::model::Report;
use makeway_report::replications::{Comparison, Precision, Replications};
use makeway_scenario::Scenario;
use makeway_sim::Options;

use super::parallel::{cores, in_order};
use super::session;

/// Runs at most, if a precision is asked for without a number of runs.
const MOST: usize = 100;
/// Runs of a comparison without a number of runs.
const COMPARED: usize = 10;

/// Number of replications, and the compared settings.
#[derive(Args)]
#[command(next_help_heading = "Replications (world sim)")]
pub struct Replicate {
    /// Number of runs, each with other random numbers; prints means with 95 % intervals.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,
    /// Repeats runs until goodput of each group, and loss and mean delay of each stream, are known to this
    /// share of their mean (a loss: or to 0.05 % of the packets); `--runs` is the most [default: 100].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub precision: Option<f64>,
    /// Runs the scenario with each value of a key, with the same random numbers, and prints the differences:
    /// `link.line.queue.discipline=fifo,sqf`.
    #[arg(long, value_name = "KEY=A,B,...")]
    pub compare: Option<String>,
    /// Runs at a time; the figures do not depend on it [default: one for each core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: Option<u32>,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err("a precision is a share above 0 and below 1, like 0.05".into()),
    }
}

/// The results, in all formats.
pub struct Found {
    /// For a terminal.
    pub table: String,
    /// For scripts.
    pub json: String,
    /// For a browser.
    pub html: String,
    /// False if a signal cut it short.
    pub complete: bool,
}

impl Replicate {
    /// Whether more than one run is asked for.
    pub fn wanted(&self) -> bool {
        self.runs.is_some() || self.precision.is_some() || self.compare.is_some()
    }

    /// Runs the scenario of `file` as often as is asked for.
    ///
    /// # Errors
    /// The scenario, or what is compared, is refused; or a signal came before the first run was finished.
    pub fn run(&self, file: &Path, set: &[String]) -> anyhow::Result<Result<Found, ExitCode>> {
        let stop = session::stop_on_signals()?;
        let Some(compare) = &self.compare else {
            let scenario = makeway_scenario::load(file, set)?;
            let found = self.replications(&[scenario], &stop)?;
            return Ok(match found.into_iter().next() {
                Some(all) => Ok(Found {
                    table: all.table(),
                    json: all.json(),
                    html: all.html(),
                    complete: all.complete,
                }),
                None => Err(nothing_finished()),
            });
        };
        let (key, values) = variants(compare)?;
        let scenarios = values
            .iter()
            .map(|value| {
                let mut set = set.to_vec();
                set.push(format!("{key}={value}"));
                makeway_scenario::load(file, &set)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let found = self.replications(&scenarios, &stop)?;
        if found.is_empty() {
            return Ok(Err(nothing_finished()));
        }
        let all = Comparison::new(key, values, found);
        Ok(Ok(Found {
            table: all.table(),
            json: all.json(),
            html: all.html(),
            complete: all.complete(),
        }))
    }

    /// Replication after replication of all `scenarios`, equally many of each; none if not even the
    /// first was finished.
    fn replications(
        &self,
        scenarios: &[Scenario],
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Vec<Replications>> {
        let jobs = self.jobs.map_or_else(cores, |jobs| jobs as usize);
        let asked = self.runs.map(|runs| runs as usize);
        let runs = asked.unwrap_or(match self.precision {
            Some(_) => MOST,
            None => COMPARED,
        });
        let count = runs * scenarios.len();
        let bar = bar(count)?;
        let mut found: Vec<Replications> = Vec::new();
        let mut round: Vec<Report> = Vec::new();
        let mut failed = None;
        let mut settled = false;
        let work = |number: usize| {
            let options = Options {
                stop: Arc::clone(stop),
                replication: (number / scenarios.len()) as u64 + 1,
                ..Options::default()
            };
            makeway_sim::run(&scenarios[number % scenarios.len()], &options, |_| {})
        };
        in_order(count, jobs, stop, work, |result| {
            match result {
                Ok(report) if report.complete => round.push(report),
                Ok(_) => return ControlFlow::Break(()),
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            bar.inc(1);
            if round.len() < scenarios.len() {
                return ControlFlow::Continue(());
            }
            if found.is_empty() {
                found = round.drain(..).map(|r| Replications::new(&r)).collect();
            } else {
                let pairs = found.iter_mut().zip(round.drain(..));
                pairs.for_each(|(all, report)| all.add(&report));
            }
            settled = self
                .precision
                .is_some_and(|p| found.iter().all(|all| all.settled(p)));
            match settled {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        bar.finish_and_clear();
        if let Some(error) = failed {
            bail!(error);
        }
        for all in &mut found {
            all.complete = settled || all.runs.len() == runs;
            all.precision = self.precision.map(|asked| Precision {
                asked,
                reached: all.settled(asked),
            });
        }
        Ok(found)
    }
}

fn nothing_finished() -> ExitCode {
    eprintln!("stopped before the first run was finished: there is nothing to report");
    session::exit_code(false)
}

fn bar(count: usize) -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::new(count as u64);
    let style = "runs   {bar:40.green} {pos} of {len}, {eta} left at most";
    bar.set_style(ProgressStyle::with_template(style)?);
    Ok(bar)
}

/// Key and values of `link.line.rate=5mbit,10mbit`; commas inside of brackets and quotes do not count.
fn variants(text: &str) -> anyhow::Result<(String, Vec<String>)> {
    let Some((key, list)) = text.split_once('=') else {
        bail!(
            "`--compare {text}` has no value: write KEY=A,B, like link.line.queue.discipline=fifo,sqf"
        );
    };
    let (mut values, mut depth, mut quoted) = (vec![String::new()], 0_i32, false);
    for c in list.chars() {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                values.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(value) = values.last_mut() {
            value.push(c);
        }
    }
    let values: Vec<String> = values.iter().map(|v| v.trim().to_owned()).collect();
    ensure!(
        values.len() > 1 && values.iter().all(|v| !v.is_empty()),
        "`--compare {text}` needs two values or more, like link.line.queue.discipline=fifo,sqf"
    );
    Ok((key.trim().to_owned(), values))
}

#[cfg(test)]
mod tests;
