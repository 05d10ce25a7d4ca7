// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared by commands that run scenarios: the right to make namespaces, Ctrl-C, progress.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use makeway_core::units::Duration;
use makeway_netns::{Content, Options, Outcome};
use makeway_report::model::Report;
use makeway_report::summary;
use makeway_scenario::Scenario;
use makeway_sim::trace::Recorder;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::text;

/// A process that may make namespaces and stops its runs on Ctrl-C.
pub struct Session {
    options: Options,
    bars: MultiProgress,
}

impl Session {
    /// Enters a user namespace if need be; so it comes before any thread.
    ///
    /// # Errors
    /// User namespaces are not allowed, or signals cannot be caught.
    pub fn start() -> anyhow::Result<Self> {
        makeway_netns::enter_user_namespace()?;
        let options = Options {
            stop: stop_on_signals()?,
            ..Options::default()
        };
        Ok(Self {
            options,
            bars: MultiProgress::new(),
        })
    }

    /// Runs one scenario, its streams carrying `content`, showing how far it is under the name `label`.
    ///
    /// # Errors
    /// The scenario cannot be built or started.
    pub fn run(
        &self,
        scenario: &Scenario,
        content: Vec<Content>,
        label: &str,
    ) -> anyhow::Result<Outcome> {
        let options = Options {
            content,
            ..self.options.clone()
        };
        self.watched(scenario, options, label)
    }

    /// As [`Session::run`]; while the machine stalls for longer than `bears_ms`, the run is ended at once and made again, for
    /// `patience` in all, and says so. The last is made to its end, and its report says whether anything was measured.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_calmly(
        &self,
        scenario: &Scenario,
        content: &[Content],
        label: &str,
        bears_ms: f64,
        patience: std::time::Duration,
    ) -> anyhow::Result<Outcome> {
        let end = Instant::now() + patience;
        loop {
            let options = Options {
                content: content.to_vec(),
                only_calm: Instant::now() < end,
                bears_ms: Some(bears_ms),
                ..self.options.clone()
            };
            let may_repeat = options.only_calm;
            let outcome = self.watched(scenario, options, label)?;
            let stall = summary::stall(&outcome.report);
            match stall.filter(|_| may_repeat && !self.options.stop.load(Ordering::Relaxed)) {
                Some(stall) => self
                    .bars
                    .suspend(|| text::say!("{label} was {stall}: again")),
                None => return Ok(outcome),
            }
        }
    }

    fn watched(
        &self,
        scenario: &Scenario,
        options: Options,
        label: &str,
    ) -> anyhow::Result<Outcome> {
        let bar = self.bars.add(bar(scenario, label)?);
        let outcome = makeway_netns::run_in_full(scenario, options, |progress| {
            show(&bar, progress.elapsed, progress.duration);
        })?;
        bar.finish_and_clear();
        Ok(outcome)
    }
}

/// Runs one scenario in simulated time, as [`Session::run`], with the traces of `recorder`.
///
/// # Errors
/// The scenario needs what this world does not have, or a trace cannot be written.
pub fn simulate(scenario: &Scenario, recorder: Option<Recorder>) -> anyhow::Result<Report> {
    let options = makeway_sim::Options {
        stop: stop_on_signals()?,
        ..makeway_sim::Options::default()
    };
    let bar = bar(scenario, "sim")?;
    let progress = |progress: makeway_sim::Progress| {
        show(&bar, progress.elapsed, progress.duration);
    };
    let report = match recorder {
        None => makeway_sim::run(scenario, &options, progress)?,
        Some(recorder) => makeway_sim::run_traced(scenario, &options, recorder, progress)?.report,
    };
    bar.finish_and_clear();
    Ok(report)
}

/// A flag that Ctrl-C and its like set.
///
/// # Errors
/// Signals cannot be caught.
pub fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .context("signals cannot be caught")?;
    }
    Ok(stop)
}

/// How far a run of `scenario` is.
///
/// # Errors
/// None but of its form.
pub fn bar(scenario: &Scenario, label: &str) -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::new(scenario.duration.as_nanos() / 1_000_000);
    bar.set_style(ProgressStyle::with_template(
        "{prefix:8} {bar:40.green} {msg}",
    )?);
    bar.set_prefix(label.to_owned());
    Ok(bar)
}

fn show(bar: &ProgressBar, elapsed: Duration, duration: Duration) {
    let [elapsed, duration] = [elapsed, duration].map(|d| d.as_secs_f64());
    show_seconds(bar, elapsed, duration);
}

/// How far a run is.
pub fn show_seconds(bar: &ProgressBar, elapsed: f64, duration: f64) {
    bar.set_position((elapsed * 1000.0) as u64);
    bar.set_message(format!("{elapsed:.0} of {duration:.0} s"));
}

/// Makes `folder` with its parents, unless it is there.
///
/// # Errors
/// The system's, with the folder's name.
pub fn make_folder(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))
}

/// Writes `text` to `path`.
///
/// # Errors
/// The system's, with the file's name.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// 0, or 130 as a shell has it for a run that Ctrl-C cut short.
pub fn exit_code(complete: bool) -> ExitCode {
    if complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(130)
    }
}
