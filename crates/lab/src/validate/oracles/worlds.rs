// SPDX-License-Identifier: MIT OR Apache-2.0
//! The testbed of the SQF paper in both worlds: TCP of the kernel, and its model.

use std::path::Path;

use makeway_core::measure::{Moments, jain};
use makeway_report::model::Report;

use crate::experiment::{Cell, Grid, Key, Results, World};
use crate::validate::oracle::{Case, Known, Ours, Question, Stopped};

const SOURCE: &str = "the kernel of this machine, in namespaces";
const HOW: &str = "takes ten minutes of real time: makeway-lab validate --worlds";
/// Where finished runs are kept.
const FOLDER: &str = "out/validate";
const SECONDS: u64 = 60;
/// Runs at a time.
const JOBS: usize = 4;
/// Runs of ours, whose mean counts.
const OURS: usize = 20;
/// Largest relative distance of ours from theirs.
const SHARE: f64 = 0.1;

/// With how many runs of theirs: losses of the audio differ by a tenth and more from run to run, where
/// there are any.
const DISCIPLINES: [(&str, u64); 2] = [("fifo", 10), ("sqf", 2)];
const CONTROLS: [&str; 2] = ["reno", "cubic"];

/// Figures that a tenth of a millisecond of disorder changes by more than a tenth.
const PHASES: (&str, &str) = ("audio lost", "Simulated TCP against the kernel's");

/// Figures compared: name, unit, smallest distance that counts, value in a report.
type Figure = (&'static str, &'static str, f64, fn(&Report) -> f64);
const FIGURES: [Figure; 5] = [
    ("video lost", "%", 0.1, |report| {
        100.0 * stream(report, "video").0
    }),
    (PHASES.0, "%", 0.1, |report| {
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
        jain(downloads(report)).unwrap_or(f64::NAN)
    }),
];

/// Both disciplines with both congestion controls, if `run`; else how to.
pub fn cases(run: bool) -> Vec<Case> {
    let mut questions = Vec::new();
    for ((discipline, _), control) in setups() {
        for (what, unit, ..) in FIGURES {
            questions.push(Question {
                what: format!("10 {control} downloads, a video, {discipline}: {what}"),
                source: SOURCE,
                unit,
                expected: None,
                known: (what == PHASES.0 && discipline == "fifo").then_some(Known {
                    section: PHASES.1,
                    beyond: 0.4,
                }),
            });
        }
    }
    if !run {
        let question = Question {
            what: "the testbed of the SQF paper in both worlds".into(),
            source: SOURCE,
            unit: "",
            expected: None,
            known: None,
        };
        return vec![Case::one(question, |_| Ok(Ours::NotHere(HOW)))];
    }
    vec![Case {
        alone: true,
        ..Case::of(questions, |_| answers())
    }]
}

fn setups() -> impl Iterator<Item = ((&'static str, u64), &'static str)> {
    let disciplines = DISCIPLINES.into_iter();
    disciplines.flat_map(|discipline| CONTROLS.map(|control| (discipline, control)))
}

fn answers() -> anyhow::Result<Vec<Ours>> {
    let cells: Vec<Vec<Cell>> = setups()
        .map(|((discipline, runs), control)| {
            let seeds = 1..=runs;
            seeds.map(|seed| cell(discipline, control, seed)).collect()
        })
        .collect();
    let run = |cells: &[Cell], jobs, world| -> anyhow::Result<Results> {
        let grid = Grid {
            cells,
            folder: Path::new(FOLDER),
            jobs,
            runs: OURS,
        };
        Ok(grid.run(world)?.ok_or(Stopped)?)
    };
    let theirs = run(&cells.concat(), Some(JOBS), World::Netns)?;
    let first: Vec<Cell> = cells.iter().map(|runs| runs[0].clone()).collect();
    let ours = run(&first, None, World::Sim)?;
    let mut answers = Vec::new();
    for runs in &cells {
        let ours = &ours[runs[0].key.clone()];
        let theirs: Vec<&Report> = runs
            .iter()
            .flat_map(|run| &theirs[run.key.clone()])
            .collect();
        for (_, _, least, figure) in FIGURES {
            let value = mean(theirs.iter().copied().map(figure));
            let margin = (value * SHARE).max(least);
            let range = [value - margin, value + margin];
            answers.push(Ours::Beside(range, mean(ours.iter().map(figure))));
        }
    }
    Ok(answers)
}

fn mean(figures: impl Iterator<Item = f64>) -> f64 {
    let mut moments = Moments::default();
    figures.for_each(|figure| moments.record(figure));
    moments.mean()
}

/// To the kernel a seed is no more than a name.
fn cell(discipline: &str, control: &str, seed: u64) -> Cell {
    Cell {
        set: vec![
            format!("link.line.queue.discipline={discipline}"),
            format!("flow.download.congestion_control={control}"),
            format!("seed={seed}"),
        ],
        ..Cell::new(
            Key::new(format!("{discipline}/{control}/{seed}")),
            "papers/sqf/testbed.toml",
            SECONDS,
        )
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
