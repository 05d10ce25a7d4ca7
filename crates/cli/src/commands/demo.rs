// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway demo`: a call and ten downloads under FIFO, fq-codel, SQF and makeway at the same time.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use clap::{Args, ValueEnum};
use makeway_netns::Outcome;
use makeway_netns::clip::Clip;
use makeway_report::{html, json, summary, table};
use makeway_scenario::Scenario;

mod viewed;

use super::session::{self, Session};
use crate::builtin;
use crate::text;

/// A video call and ten downloads share a 10 Mbit/s link, under FIFO, fq-codel, SQF and makeway at the same time.
///
/// The call sends frames as an encoder gives them, and stands still once for 200 ms. Real kernel TCP and a real RTP stream pass a
/// real queue, in separate network namespaces: nothing of this machine is touched. Takes about 25 seconds; a run during which this
/// machine stalls for more than 80 ms is made again, for 40 seconds, and otherwise shown as not measured.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway demo                        25 seconds, a table and a page
  makeway demo --media ffmpeg         the same with a real MPEG-2 clip, and what the viewer saw
  makeway demo --set flow.download.count=20")]
pub struct Demo {
    /// Media of the call: a trace of a coder, or a clip made and decoded by ffmpeg.
    #[arg(long, value_enum, default_value_t = Content::Trace)]
    media: Content,
    /// Changes a value of the scenario: `duration=10s`, `flow.download.count=20`.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Folder for the page (demo.html) and the reports.
    #[arg(long, value_name = "DIR", default_value = "makeway-demo")]
    out: PathBuf,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Content {
    Trace,
    Ffmpeg,
}

const DISCIPLINES: [&str; 4] = ["fifo", "fq-codel", "sqf", "makeway"];

/// Stall of the machine that changes no verdict: docs/reliability.md.
const BEARS_MS: f64 = 80.0;
/// How long a run is made again while the machine stalls for longer.
const PATIENCE: Duration = Duration::from_secs(40);

/// Runs it. Exit status 130 if it was cut short.
pub fn run(args: &Demo) -> anyhow::Result<ExitCode> {
    let scenarios = DISCIPLINES
        .iter()
        .map(|discipline| {
            let mut set = args.set.clone();
            set.push(format!("link.line.queue.discipline={discipline}"));
            builtin::load("daily-life.toml", &set)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    session::make_folder(&args.out)?;
    let session = Session::start()?;
    let clip = match args.media {
        Content::Trace => None,
        Content::Ffmpeg => Some(Clip::make(scenarios[0].duration)?),
    };

    let title = scenarios[0].title.clone();
    text::say!("{title}\n");
    let mut reports = Vec::new();
    let mut views = Vec::new();
    let outcomes = at_once(&session, scenarios, clip.as_ref())?;
    for ((scenario, outcome), discipline) in outcomes.into_iter().zip(DISCIPLINES) {
        session::write(
            &args.out.join(format!("{discipline}.json")),
            &json::to_json(&outcome.report),
        )?;
        let is_measured = outcome.report.stalled_ms().is_none();
        if let Some(clip) = clip.as_ref().filter(|_| is_measured) {
            views.push((label(discipline), viewed::view(clip, &scenario, &outcome)?));
        }
        reports.push(outcome.report);
    }

    let mut means = summary::sentences(&reports);
    means.extend(
        views
            .iter()
            .map(|(label, viewed)| viewed::sentence(label, viewed)),
    );
    let page = args.out.join("demo.html");
    session::write(
        &page,
        &html::compare(&title, &means, &reports, viewed::section(&views)),
    )?;
    text::say!(
        "{}\n\n{}\n\nThe page: {}",
        table::compare(&reports),
        means.join("\n"),
        page.display()
    );
    Ok(session::exit_code(reports.iter().all(|r| r.complete)))
}

/// Runs all scenarios at the same time, each in its own namespaces: together they need a part of one processor, and a stall of this
/// machine meets all of them.
fn at_once(
    session: &Session,
    scenarios: Vec<Scenario>,
    clip: Option<&Clip>,
) -> anyhow::Result<Vec<(Scenario, Outcome)>> {
    let run = |mut scenario: Scenario, label: &str| {
        let content = clip.map(|clip| clip.carry(&mut scenario, "video", "audio"));
        let content = content.unwrap_or_default();
        let outcome = session.run_calmly(&scenario, &content, label, BEARS_MS, PATIENCE)?;
        Ok((scenario, outcome))
    };
    thread::scope(|scope| {
        let run = &run;
        let mut threads = Vec::new();
        for (scenario, discipline) in scenarios.into_iter().zip(DISCIPLINES) {
            // The threads of its traffic inherit the name, which tools show.
            let thread = thread::Builder::new().name(discipline.into());
            let runs = move || run(scenario, &label(discipline));
            threads.push(thread.spawn_scoped(scope, runs)?);
        }
        let join = |thread: ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

fn label(discipline: &str) -> String {
    discipline.to_uppercase()
}
