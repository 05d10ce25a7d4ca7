// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab validate`: the simulator against closed forms, standards and other people's simulators.
//!
//! - `oracle`: a question, an answer, a verdict;
//! - `oracles`: all of them, one file for each family;
//! - `experiments`: what shows why one differs;
//! - `table`: how it is printed.

mod experiments;
mod oracle;
mod oracles;
mod table;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, ensure};
use clap::Args;
use indicatif::ProgressBar;
use makeway::parallel::{cores, in_order};
use makeway::session;
use makeway::text;

use oracle::{Bench, Case, Ours, Row, Stopped, Verdict};

/// Compares the simulator with values that were computed or measured independently of it.
///
/// Takes some tens of seconds. Exit status 1 if a value is missed; docs/validation.md explains the values
/// that differ.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway-lab validate
  makeway-lab validate --json validation.json
  makeway-lab validate --only ns-3
  makeway-lab validate --experiments     why some of them differ
  makeway-lab validate --worlds          and simulated TCP against the kernel's: ten minutes of real time")]
pub struct Validate {
    /// Writes the table as JSON: an array of what, source, unit, expected, ours, interval, verdict, why.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only values with this text in their row or their source.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Runs the testbed of the SQF paper in namespaces of this machine too, beside simulated time.
    #[arg(long)]
    worlds: bool,
    /// Prints the experiments behind values that differ, and nothing else.
    #[arg(long, conflicts_with_all = ["json", "only", "worlds"])]
    experiments: bool,
}

/// Runs it.
pub fn run(args: &Validate) -> anyhow::Result<ExitCode> {
    let bench = Bench {
        stop: session::stop_on_signals()?,
    };
    let done = match args.experiments {
        true => experiments::run(&bench).map(|()| Vec::new()),
        false => rows(args, &bench),
    };
    let rows = match done {
        Err(error) if error.is::<Stopped>() => return Ok(session::exit_code(false)),
        rows => rows?,
    };
    if args.experiments {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&rows)? + "\n";
        std::fs::write(path, json)
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    text::say!("{}", table::of(&rows).trim_end());
    let missed = rows.iter().any(|row| row.verdict == Verdict::Missed);
    Ok(match missed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

fn rows(args: &Validate, bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut cases = oracles::all(args.worlds);
    if let Some(only) = &args.only {
        let has = |case: &Case| {
            let mut questions = case.questions.iter();
            questions.any(|q| q.what.contains(only) || q.source.contains(only))
        };
        cases.retain(has);
        ensure!(
            !cases.is_empty(),
            "--only {only:?} leaves nothing: makeway-lab validate prints the lines to choose from"
        );
    }
    let answers = answer(&cases, bench)?;
    let judged = cases.iter().zip(&answers).flat_map(|(case, ours)| {
        let pairs = case.questions.iter().zip(ours);
        pairs.map(|(question, ours)| Row::new(question, ours))
    });
    Ok(judged.collect())
}

/// The answers of each case, found by as many threads as there are cores.
fn answer(cases: &[Case], bench: &Bench) -> anyhow::Result<Vec<Vec<Ours>>> {
    let bar = ProgressBar::new(cases.len() as u64);
    let mut answers = Vec::with_capacity(cases.len());
    let work = |at: usize| {
        let case: &Case = &cases[at];
        (!case.alone).then(|| (case.answer)(bench))
    };
    in_order(
        cases.len(),
        cores(),
        &AtomicBool::new(false),
        work,
        |answer| {
            bar.inc(1);
            answers.push(answer);
            ControlFlow::Continue(())
        },
    );
    bar.finish_and_clear();
    let answers = cases.iter().zip(answers);
    answers
        .map(|(case, answer)| answer.unwrap_or_else(|| (case.answer)(bench)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_with(only: &str) -> Vec<Row> {
        let args = Validate {
            json: None,
            only: Some(only.into()),
            worlds: false,
            experiments: false,
        };
        let bench = Bench {
            stop: std::sync::Arc::default(),
        };
        rows(&args, &bench).unwrap()
    }

    #[test]
    fn nothing_that_is_quick_is_missed() {
        // The others are a matter of optimised code.
        for (only, rows, holding) in [
            ("RFC 6298", 6, 6),
            ("segments", 16, 12),
            ("NewReno at 0.05", 2, 2),
        ] {
            let seen = rows_with(only);
            let holds = |row: &&Row| row.verdict == Verdict::Holds;
            assert_eq!(
                (seen.len(), seen.iter().filter(holds).count()),
                (rows, holding),
                "{seen:?}"
            );
            assert!(seen.iter().all(|row| row.verdict != Verdict::Missed));
        }
    }

    #[test]
    fn whatever_may_differ_has_its_section_in_the_docs() {
        let docs = include_str!("../../../docs/validation.md");
        for case in oracles::all(true) {
            for known in case.questions.iter().filter_map(|q| q.known) {
                let section = known.section;
                assert!(docs.contains(&format!("\n## {section}\n")), "{section}");
            }
        }
    }
}
