//! The testbed of the SQF paper in both worlds: TCP of the kernel, and its model.

use std::path::Path;

use makeway_core::measure::jain;
use makeway_report::model::Report;

use crate::commands::papers::grid::{self, Cell};
use crate::commands::papers::simulated;
use crate::commands::parallel::cores;
use crate::commands::validate::oracle::{Case, Ours, Question, Stopped};

const SOURCE: &str = "the kernel of this machine, in namespaces";
const HOW: &str = "takes two minutes of real time: makeway validate --worlds";
/// Where finished runs are kept.
const FOLDER: &str = "out/validate";
const SECONDS: u64 = 60;
/// Runs at a time.
const JOBS: usize = 4;
/// Of ours, whose mean counts.
const RUNS: usize = 10;
/// Ours may be so much off theirs, of it.
const SHARE: f64 = 0.1;

const DISCIPLINES: [&str; 2] = ["fifo", "sqf"];
const CONTROLS: [&str; 2] = ["reno", "cubic"];

/// What is held against: name, unit, how much is too little to be told apart, what it is of a report.
type Figure = (&'static str, &'static str, f64, fn(&Report) -> f64);
const FIGURES: [Figure; 5] = [
    ("video lost", "%", 0.1, |report| {
        100.0 * stream(report, "video").0
    }),
    ("audio lost", "%", 0.1, |report| {
        100.0 * stream(report, "audio").0
    }),
    ("audio IPDV, mean", "ms", 0.1, |report| {
        stream(report, "audio").1
    }),
    ("downloads' share", "%", 0.0, |report| {
        let all: f64 = report.flows.iter().map(|flow| flow.goodput_bps).sum();
        100.0 * downloads(report).sum::<f64>() / all
    }),
    ("Jain's index", "", 0.0, |report| {
        jain(downloads(report)).unwrap_or_default()
    }),
];

/// Both disciplines with both congestion controls, if `run`; else how to.
pub fn cases(run: bool) -> Vec<Case> {
    let mut questions = Vec::new();
    for (discipline, control) in setups() {
        for (what, unit, ..) in FIGURES {
            questions.push(Question {
                what: format!("10 {control} downloads, a video, {discipline}: {what}"),
                source: SOURCE,
                unit,
                expected: None,
                section: None,
            });
        }
    }
    if !run {
        let question = Question {
            what: "the testbed of the SQF paper in both worlds".into(),
            source: SOURCE,
            unit: "",
            expected: None,
            section: None,
        };
        return vec![Case::one(question, |_| Ok(Ours::NotHere(HOW)))];
    }
    vec![Case {
        alone: true,
        ..Case::of(questions, |_| answers())
    }]
}

fn setups() -> impl Iterator<Item = (&'static str, &'static str)> {
    let disciplines = DISCIPLINES.into_iter();
    disciplines.flat_map(|discipline| CONTROLS.map(|control| (discipline, control)))
}

fn answers() -> anyhow::Result<Vec<Ours>> {
    let cells: Vec<Cell> = setups().map(cell).collect();
    let folder = Path::new(FOLDER);
    let theirs = grid::run(&cells, folder, JOBS)?.ok_or(Stopped)?;
    let ours = simulated::run(&cells, folder, cores(), RUNS)?.ok_or(Stopped)?;
    let mut answers = Vec::new();
    for cell in &cells {
        let (theirs, ours) = (&theirs[&cell.name], &ours[&cell.name]);
        for (_, _, least, figure) in FIGURES {
            let mean =
                |reports: &[Report]| reports.iter().map(figure).sum::<f64>() / reports.len() as f64;
            let value = mean(theirs);
            let margin = (value * SHARE).max(least);
            answers.push(Ours::Beside([value - margin, value + margin], mean(ours)));
        }
    }
    Ok(answers)
}

fn cell((discipline, control): (&str, &str)) -> Cell {
    Cell {
        name: format!("{discipline}/{control}"),
        file: "testbed.toml",
        set: vec![
            format!("link.line.queue.discipline={discipline}"),
            format!("flow.download.congestion_control={control}"),
        ],
        seconds: SECONDS,
        weight: 1,
    }
}

fn downloads(report: &Report) -> impl Iterator<Item = f64> {
    let flows = report.flows.iter().filter(|flow| flow.kind == "bulk");
    flows.map(|flow| flow.goodput_bps)
}

/// Loss, and the mean of IPDV in ms.
fn stream(report: &Report, name: &str) -> (f64, f64) {
    let flow = report.flows.iter().find(|flow| flow.name == name);
    let stream = flow.and_then(|flow| flow.datagrams.as_ref());
    stream.map_or((f64::NAN, f64::NAN), |s| (s.loss, s.ipdv_ms.mean))
}
