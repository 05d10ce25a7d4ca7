// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway demo`: a call and ten downloads under FIFO, fq-codel, SQF and makeway in turn.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use makeway_netns::clip::Clip;
use makeway_report::{html, json, summary, table};

mod viewed;

use super::session::{self, Session};
use crate::builtin;
use crate::text;

/// A video call and ten downloads share a 10 Mbit/s link, under FIFO, fq-codel, SQF and makeway in turn.
///
/// The call sends frames as an encoder gives them, and stands still once for 200 ms. Real kernel TCP and a real RTP stream pass a
/// real queue, in separate network namespaces: nothing of this machine is touched. Takes about 75 seconds; a run during which this
/// machine stalls for more than 80 ms is made again, for 40 seconds in all, and otherwise shown as not measured.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway demo                        75 seconds, a table and a page
  makeway demo --media ffmpeg         the same with a real MPEG-2 clip, and what the viewer saw
  makeway demo --set flow.download.count=20")]
pub struct Demo {
    /// Media of the call: a trace of a coder, or a clip made and decoded by ffmpeg.
    #[arg(long, value_enum, default_value_t = Media::Trace)]
    media: Media,
    /// Changes a value of the scenario: `duration=10s`, `flow.download.count=20`.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Folder for the page (demo.html) and the reports.
    #[arg(long, value_name = "DIR", default_value = "makeway-demo")]
    out: PathBuf,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Media {
    Trace,
    Ffmpeg,
}

const DISCIPLINES: [&str; 4] = ["fifo", "fq-codel", "sqf", "makeway"];

/// Stall of the machine that changes no verdict: docs/reliability.md.
const BEARS_MS: f64 = 80.0;
/// How long runs are made again while the machine stalls for longer, in all.
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
        Media::Trace => None,
        Media::Ffmpeg => Some(Clip::make(scenarios[0].duration)?),
    };

    let title = scenarios[0].title.clone();
    text::say!("{title}\n");
    let mut reports = Vec::new();
    let mut views = Vec::new();
    let mut patience = PATIENCE;
    for (mut scenario, discipline) in scenarios.into_iter().zip(DISCIPLINES) {
        let label = discipline.to_uppercase();
        let content = clip
            .as_ref()
            .map(|clip| clip.carry(&mut scenario, "video", "audio"));
        let content = content.unwrap_or_default();
        let begin = Instant::now();
        let outcome = session.run_calmly(&scenario, &content, &label, BEARS_MS, patience)?;
        let planned = Duration::from_nanos(scenario.duration.as_nanos()) + Duration::from_secs(1);
        patience = patience.saturating_sub(begin.elapsed().saturating_sub(planned));
        session::write(
            &args.out.join(format!("{discipline}.json")),
            &json::to_json(&outcome.report),
        )?;
        let is_measured = outcome.report.stalled_ms().is_none();
        if let Some(clip) = clip.as_ref().filter(|_| is_measured) {
            views.push((label, viewed::view(clip, &scenario, &outcome)?));
        }
        let complete = outcome.report.complete;
        reports.push(outcome.report);
        if !complete {
            break;
        }
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
