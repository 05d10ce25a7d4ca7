// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab gauntlet`: a call beside other traffic in many cases, under each discipline, and whether `makeway` wins.

mod cases;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use makeway::parallel::{cores, in_order};
use makeway::session::{stop_on_signals, write};
use makeway::{builtin, text};
use makeway_core::measure::jain;
use makeway_core::sched::Discipline;
use makeway_report::estimate::{Estimate, Unit};
use makeway_report::model::{FlowReport, Report};
use makeway_scenario::Scenario;
use makeway_sim::Options;
use serde::{Serialize, Serializer};

use cases::{CASES, Half};

/// Runs a call beside other traffic through each discipline, in many cases, and says where `makeway` wins.
///
/// Figures are means over replications with 95 % intervals; all disciplines see the same random numbers. `makeway` wins a
/// case if no rival's call is better beyond the interval and the other traffic loses no more than the call uses:
/// docs/gauntlet.md has the rule.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway-lab gauntlet
  makeway-lab gauntlet --half judged --runs 10 --json gauntlet.json
  makeway-lab gauntlet --case n100 --case frame --disciplines fifo,fq-codel,cake,makeway
  makeway-lab gauntlet --case my-link.toml --runs 20

A scenario of your own needs a group of flows with the name `call` or `video`. Each of its measured queues on a link with
a rate gets the discipline instead of its own.")]
pub struct Gauntlet {
    /// Where the cases run. Only `sim` is built so far.
    #[arg(long, value_name = "WORLD", default_value = "sim", value_parser = PossibleValuesParser::new(["sim", "netns", "vm"]))]
    world: String,
    /// Replications of each cell. A single one has no interval, and no verdict.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Only this case, or the scenario in FILE.toml; may be repeated [default: all].
    #[arg(long, value_name = "NAME|FILE.toml")]
    case: Vec<String>,
    /// Disciplines, with commas between.
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        default_value = "fifo,fq,fq-codel,cake,confucius,sqf,ncq,hier,makeway"
    )]
    disciplines: Vec<Discipline>,
    /// Only the cases that the constants of `makeway` were chosen on, or only the others.
    #[arg(long, value_enum, conflicts_with = "case")]
    half: Option<Half>,
    /// Writes the cells as JSON: an array of case, world, discipline, runs, call, rest, wins.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Runs at a time [default: one for each core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
}

/// The replication of the first run: nothing was chosen on this one or later ones.
const FIRST: u64 = 21;
/// Groups of flows that are the call.
const CALL: [&str; 2] = ["call", "video"];
/// A call does not gain by a shorter 99th percentile of its delay than this, in ms.
const SOON: f64 = 60.0;
/// Part of the remaining capacity that the other traffic must use.
const REST: f64 = 0.95;

/// A case that is read.
struct Course {
    name: String,
    half: Option<Half>,
    scenario: Scenario,
}

/// Figures of one run.
#[derive(Clone, Default)]
struct Sample {
    on_time: Option<f64>,
    freezes: Option<f64>,
    frozen_s: Option<f64>,
    delay_p50_ms: Option<f64>,
    delay_p99_ms: Option<f64>,
    rate_mbps: Option<f64>,
    goodput_mbps: Option<f64>,
    jain: Option<f64>,
    page_s: Option<f64>,
}

type Get = fn(&Sample) -> Option<f64>;

#[derive(Serialize)]
struct Cell {
    case: String,
    world: &'static str,
    discipline: String,
    runs: usize,
    call: Call,
    rest: Rest,
    wins: Option<bool>,
    #[serde(skip)]
    half: Option<Half>,
}

#[derive(Serialize)]
struct Call {
    on_time: Figure,
    freezes: Figure,
    frozen_s: Figure,
    delay_p50_ms: Figure,
    delay_p99_ms: Figure,
    rate_mbps: Figure,
}

#[derive(Serialize)]
struct Rest {
    goodput_mbps: Figure,
    jain: Figure,
    page_s: Figure,
}

/// Of the runs that have it; `null` in JSON if none does.
struct Figure(Estimate);

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Form {
            mean: f64,
            half: Option<f64>,
        }
        let form = (self.0.runs > 0).then_some(Form {
            mean: self.0.mean,
            half: self.0.half_width,
        });
        form.serialize(to)
    }
}

impl Figure {
    fn of(runs: &[Sample], get: Get) -> Self {
        Self(Estimate::of(runs.iter().filter_map(get)))
    }

    fn show(&self, unit: Unit) -> String {
        match self.0.runs {
            0 => "-".into(),
            _ => unit.show(&self.0),
        }
    }
}

/// Runs it. Exit status 130 if it was stopped; a case that `makeway` does not win is no failure.
pub fn run(args: &Gauntlet) -> anyhow::Result<ExitCode> {
    ensure!(
        args.world == "sim",
        "the gauntlet runs in the world `sim` only so far: leave `--world {}` out",
        args.world
    );
    for (n, discipline) in args.disciplines.iter().enumerate() {
        ensure!(
            !args.disciplines[..n].contains(discipline),
            "`{discipline}` is twice in `--disciplines`: name each once"
        );
    }
    let courses = courses(args)?;
    let Some(samples) = samples(args, &courses)? else {
        eprintln!("stopped: nothing is reported");
        return Ok(ExitCode::from(130));
    };
    let (mut cells, mut losses) = (Vec::new(), Vec::new());
    let (mut won, mut verdicts) = (0, 0);
    for (course, of_course) in courses.iter().zip(samples.chunks(args.disciplines.len())) {
        let of_each = || args.disciplines.iter().copied().zip(of_course);
        let (own, rivals): (Vec<_>, Vec<_>) =
            of_each().partition(|(discipline, _)| *discipline == Discipline::Makeway);
        let reasons = own.first().and_then(|(_, own)| lost(own, &rivals));
        let wins = reasons.as_ref().map(Vec::is_empty);
        for (discipline, runs) in of_each() {
            let wins = wins.filter(|_| discipline == Discipline::Makeway);
            cells.push(Cell::of(course, discipline, runs, wins));
        }
        verdicts += usize::from(wins.is_some());
        won += usize::from(wins == Some(true));
        losses.extend((reasons.into_iter().flatten()).map(|why| format!("{}: {why}", course.name)));
    }
    text::say!("{}\n", table(&cells));
    match verdicts {
        0 => text::say!("no verdict: that needs `makeway`, a rival, and two runs"),
        _ => text::say!("makeway wins {won} of {verdicts} cases"),
    }
    for loss in losses {
        text::say!("- {loss}");
    }
    if let Some(file) = &args.json {
        write(file, &(serde_json::to_string_pretty(&cells)? + "\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The cases that were asked for.
fn courses(args: &Gauntlet) -> anyhow::Result<Vec<Course>> {
    let folder = tempfile::tempdir().context("a temporary folder cannot be made")?;
    builtin::unpack(folder.path())?;
    let read = |case: &cases::Case| -> anyhow::Result<Course> {
        let text = case.scenario();
        let scenario = makeway_scenario::parse(&text, case.name, folder.path(), &[])?;
        Ok(Course {
            name: case.name.into(),
            half: Some(case.half),
            scenario,
        })
    };
    if args.case.is_empty() {
        let wanted = |case: &&cases::Case| args.half.is_none_or(|half| half == case.half);
        return CASES.iter().filter(wanted).map(read).collect();
    }
    let named = |name: &String| match CASES.iter().find(|case| case.name == name) {
        Some(case) => read(case),
        None if name.ends_with(".toml") => from_file(Path::new(name)),
        None => {
            let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
            bail!(
                "there is no case `{name}`: name a scenario FILE.toml, or one of {}",
                names.join(", ")
            )
        }
    };
    args.case.iter().map(named).collect()
}

fn from_file(file: &Path) -> anyhow::Result<Course> {
    let scenario = makeway_scenario::load(file, &[])?;
    let shown = file.display();
    ensure!(
        scenario
            .flows
            .iter()
            .any(|flow| CALL.contains(&flow.group.as_str())),
        "{shown}: no group of flows has the name `call` or `video`: call the flows that are judged so"
    );
    let course = Course {
        name: file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into(),
        half: None,
        scenario,
    };
    ensure!(
        course.with(Discipline::Fifo).1 > 0,
        "{shown}: no link has a rate and a measured queue: give one a `queue`"
    );
    Ok(course)
}

impl Course {
    /// The scenario under `discipline`, and the number of queues that have it.
    fn with(&self, discipline: Discipline) -> (Scenario, usize) {
        let mut scenario = self.scenario.clone();
        let egress = scenario.links.iter_mut().flat_map(|link| &mut link.egress);
        let mut queues = 0;
        for egress in egress.filter(|egress| egress.measure && egress.rate.is_some()) {
            egress.queue.spec = discipline.spec();
            egress.queue.qdisc = None;
            queues += 1;
        }
        (scenario, queues)
    }
}

/// Runs of each cell, case by case, in each the disciplines in their order. `None`: a signal stopped it.
fn samples(args: &Gauntlet, courses: &[Course]) -> anyhow::Result<Option<Vec<Vec<Sample>>>> {
    let stop = stop_on_signals()?;
    let (disciplines, runs) = (&args.disciplines, args.runs as usize);
    let cells = courses.len() * disciplines.len();
    let bar = ProgressBar::new((cells * runs) as u64);
    bar.set_style(ProgressStyle::with_template(
        "{wide_bar} {pos} of {len} runs, {eta} left",
    )?);
    let work = |number: usize| -> anyhow::Result<Option<Sample>> {
        let (cell, run) = (number / runs, number % runs);
        let course = &courses[cell / disciplines.len()];
        let discipline = disciplines[cell % disciplines.len()];
        let (scenario, _) = course.with(discipline);
        let options = Options {
            stop: Arc::clone(&stop),
            replication: FIRST + run as u64,
            ..Options::default()
        };
        let report = makeway_sim::run(&scenario, &options, |_| {})
            .with_context(|| format!("case {}, {discipline}", course.name))?;
        Ok(report.complete.then(|| Sample::of(&report)))
    };
    let mut samples = vec![Vec::with_capacity(runs); cells];
    let (mut taken, mut failed) = (0, None);
    let jobs = args.jobs.map_or_else(cores, |jobs| jobs as usize);
    in_order(cells * runs, jobs, &stop, work, |result| {
        bar.inc(1);
        match result {
            Ok(Some(sample)) => samples[taken / runs].push(sample),
            Ok(None) => return ControlFlow::Break(()),
            Err(error) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        taken += 1;
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    match failed {
        Some(error) => Err(error),
        None => Ok((taken == cells * runs).then_some(samples)),
    }
}

impl Sample {
    fn of(report: &Report) -> Self {
        let is_call = |flow: &&FlowReport| CALL.contains(&flow.group.as_str());
        let call: Vec<&FlowReport> = report.flows.iter().filter(is_call).collect();
        let rest: Vec<&FlowReport> = (report.flows.iter())
            .filter(|flow| flow.kind == "bulk" && !is_call(flow))
            .collect();
        let mut sample = Self {
            rate_mbps: mbps(&call),
            goodput_mbps: mbps(&rest),
            ..Self::default()
        };
        sample.record_call(&call);
        sample.record_rest(&rest);
        sample
    }

    /// Of several flows: all their packets, and the longest delay.
    fn record_call(&mut self, call: &[&FlowReport]) {
        let (mut offered, mut on_time) = (0.0, 0.0);
        let longest =
            |to: &mut Option<f64>, ms: f64| *to = Some(to.map_or(ms, |most| most.max(ms)));
        for flow in call {
            if let Some(media) = &flow.media {
                for class in &media.classes {
                    offered += class.offered as f64;
                    on_time += class.on_time as f64;
                    longest(&mut self.delay_p50_ms, class.delay_ms.p50);
                    longest(&mut self.delay_p99_ms, class.delay_ms.p99);
                    if let Some(freezes) = class.freezes {
                        *self.freezes.get_or_insert(0.0) += freezes.count as f64;
                        *self.frozen_s.get_or_insert(0.0) += freezes.seconds;
                    }
                }
            } else if let Some(datagrams) = &flow.datagrams {
                offered += datagrams.sent as f64;
                on_time += datagrams.on_time * datagrams.sent as f64;
                longest(&mut self.delay_p50_ms, datagrams.delay_ms.p50);
                longest(&mut self.delay_p99_ms, datagrams.delay_ms.p99);
            }
        }
        self.on_time = (offered > 0.0).then(|| on_time / offered);
    }

    /// Jain's index is the least of the groups: what begins elsewhere, or ends, has another share.
    fn record_rest(&mut self, rest: &[&FlowReport]) {
        let endless = |flow: &&&FlowReport| flow.tasks.is_none();
        for flow in rest.iter().filter(endless) {
            let group = rest.iter().filter(|other| other.group == flow.group);
            if let Some(fair) = jain(group.map(|flow| flow.goodput_bps)) {
                self.jain = Some(self.jain.map_or(fair, |least| least.min(fair)));
            }
        }
        let tasks = || rest.iter().filter_map(|flow| flow.tasks);
        let done: f64 = tasks().map(|tasks| tasks.done as f64).sum();
        let ms: f64 = tasks()
            .map(|tasks| tasks.completion_ms.mean * tasks.done as f64)
            .sum();
        self.page_s = (done > 0.0).then(|| ms / done / 1e3);
    }
}

fn mbps(flows: &[&FlowReport]) -> Option<f64> {
    let sum: f64 = flows.iter().map(|flow| flow.goodput_bps).sum();
    (!flows.is_empty()).then_some(sum / 1e6)
}

/// Why `own` does not win; `None` without rivals or an interval.
fn lost(own: &[Sample], rivals: &[(Discipline, &Vec<Sample>)]) -> Option<Vec<String>> {
    if own.len() < 2 || rivals.is_empty() {
        return None;
    }
    let mut reasons = Vec::new();
    for (name, rival) in rivals {
        if let Some(figure) = better_call(rival, own) {
            reasons.push(format!("the call under {name} has {figure}"));
        }
        if starves_rest(own, rival) {
            reasons.push(format!("the other traffic has more under {name}"));
        }
    }
    Some(reasons)
}

/// The difference `a - b` over replications with the same random numbers.
fn difference(a: &[Sample], b: &[Sample], get: Get) -> Estimate {
    let pairs = a.iter().zip(b);
    Estimate::of(pairs.filter_map(|(a, b)| Some(get(a)? - get(b)?)))
}

/// The first figure that differs beyond the interval, if the difference is for `rival`.
fn better_call(rival: &[Sample], own: &[Sample]) -> Option<&'static str> {
    let figures: [(Get, f64, &str); 4] = [
        (|s| s.on_time, 1.0, "a larger share on time"),
        (|s| s.frozen_s, -1.0, "less frozen time"),
        // The rate of a sender that does not adapt says nothing that `on_time` does not.
        (|s| s.frozen_s.and(s.rate_mbps), 1.0, "a higher rate"),
        (
            |s| s.delay_p99_ms.map(|ms| ms.max(SOON)),
            -1.0,
            "a shorter delay",
        ),
    ];
    figures
        .into_iter()
        .map(|(get, sign, figure)| (difference(rival, own, get), sign, figure))
        .find(|(difference, ..)| difference.certain())
        .filter(|(difference, sign, _)| difference.mean * sign > 0.0)
        .map(|(.., figure)| figure)
}

/// Whether the other traffic lacks, beyond the interval, more than the call uses more than under `rival`, and 5 % of the remainder.
fn starves_rest(own: &[Sample], rival: &[Sample]) -> bool {
    let lacking = own.iter().zip(rival).filter_map(|(own, rival)| {
        let call = own.rate_mbps.unwrap_or(0.0) - rival.rate_mbps.unwrap_or(0.0);
        Some(REST * (rival.goodput_mbps? - call) - own.goodput_mbps?)
    });
    let lacking = Estimate::of(lacking);
    lacking.certain() && lacking.mean > 0.0
}

impl Cell {
    fn of(course: &Course, discipline: Discipline, runs: &[Sample], wins: Option<bool>) -> Self {
        let figure = |get: Get| Figure::of(runs, get);
        Self {
            case: course.name.clone(),
            world: "sim",
            discipline: discipline.to_string(),
            runs: runs.len(),
            call: Call {
                on_time: figure(|s| s.on_time),
                freezes: figure(|s| s.freezes),
                frozen_s: figure(|s| s.frozen_s),
                delay_p50_ms: figure(|s| s.delay_p50_ms),
                delay_p99_ms: figure(|s| s.delay_p99_ms),
                rate_mbps: figure(|s| s.rate_mbps),
            },
            rest: Rest {
                goodput_mbps: figure(|s| s.goodput_mbps),
                jain: figure(|s| s.jain),
                page_s: figure(|s| s.page_s),
            },
            wins,
            half: course.half,
        }
    }
}

fn table(cells: &[Cell]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "case",
        "half",
        "discipline",
        "wins",
        "on time",
        "freezes",
        "frozen, s",
        "p50",
        "p99",
        "call, Mbit/s",
        "rest, Mbit/s",
        "Jain",
        "page, s",
    ]);
    for cell in cells {
        let Cell { call, rest, .. } = cell;
        let wins = cell.wins.map_or("", |wins| if wins { "yes" } else { "no" });
        table.add_row([
            cell.case.clone(),
            cell.half.map_or("-", Half::name).into(),
            cell.discipline.clone(),
            wins.into(),
            call.on_time.show(Unit::Share),
            call.freezes.show(Unit::Index),
            call.frozen_s.show(Unit::Index),
            call.delay_p50_ms.show(Unit::Millis),
            call.delay_p99_ms.show(Unit::Millis),
            call.rate_mbps.show(Unit::Index),
            rest.goodput_mbps.show(Unit::Index),
            rest.jain.show(Unit::Index),
            rest.page_s.show(Unit::Index),
        ]);
    }
    for column in table.column_iter_mut().skip(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::*;

    fn gauntlet(args: &[&str]) -> anyhow::Result<ExitCode> {
        let args = ["makeway-lab", "gauntlet"].iter().chain(args);
        crate::run(crate::Lab::try_parse_from(args)?)
    }

    /// Share on time and frozen time, 5 Mbit/s, and the goodput of the rest, a little different in each of three runs.
    fn made_up(on_time: f64, frozen_s: f64, p99: f64, rest: f64) -> Vec<Sample> {
        let run = |n: u32| Sample {
            on_time: Some(on_time - 0.001 * f64::from(n % 2)),
            frozen_s: Some(frozen_s),
            delay_p99_ms: Some(p99),
            rate_mbps: Some(5.0),
            goodput_mbps: Some(rest + 0.01 * f64::from(n)),
            ..Sample::default()
        };
        (0..3).map(run).collect()
    }

    #[test]
    fn a_call_wins_unless_a_rivals_is_better_or_the_rest_starves() {
        let own = made_up(0.99, 1.0, 40.0, 4.0);
        let wins = |rival: Vec<Sample>| {
            lost(&own, &[(Discipline::Fifo, &rival)]).map(|reasons| reasons.is_empty())
        };
        assert_eq!(wins(own.clone()), Some(true));
        // The share on time decides before frozen time does.
        assert_eq!(wins(made_up(0.98, 0.0, 10.0, 4.0)), Some(true));
        assert_eq!(wins(made_up(0.995, 2.0, 80.0, 4.0)), Some(false));
        assert_eq!(wins(made_up(0.99, 0.5, 40.0, 4.0)), Some(false));
        // Sooner than soon is no better.
        assert_eq!(wins(made_up(0.99, 1.0, 10.0, 4.0)), Some(true));
        // Of 4.4 Mbit/s beside a call that has no less, 4 are not 95 %; of 4.1 they are.
        assert_eq!(wins(made_up(0.99, 1.0, 40.0, 4.4)), Some(false));
        assert_eq!(wins(made_up(0.99, 1.0, 40.0, 4.1)), Some(true));
        // A rate that the call lacks under the rival is the call's.
        let mut thirsty = made_up(0.5, 1.0, 40.0, 8.0);
        thirsty.iter_mut().for_each(|s| s.rate_mbps = Some(1.0));
        assert_eq!(wins(thirsty.clone()), Some(true));
        thirsty.iter_mut().for_each(|s| s.rate_mbps = Some(2.0));
        assert_eq!(wins(thirsty), Some(false));
    }

    #[test]
    fn a_difference_within_the_interval_is_none() {
        let own = made_up(0.99, 1.0, 40.0, 4.0);
        let mut rival = own.clone();
        rival[0].on_time = Some(0.991);
        rival[1].on_time = Some(0.9885);
        assert_eq!(lost(&own, &[(Discipline::Fifo, &rival)]), Some(vec![]));
        // One run has no interval, and without a rival there is nothing to win.
        assert_eq!(lost(&own[..1], &[(Discipline::Fifo, &rival)]), None);
        assert_eq!(lost(&own, &[]), None);
    }

    #[test]
    fn every_case_reads_has_a_call_and_a_name_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        builtin::unpack(folder.path()).unwrap();
        for case in CASES {
            let text = case.scenario();
            let scenario = makeway_scenario::parse(&text, case.name, folder.path(), &[]);
            let scenario = scenario.unwrap_or_else(|error| panic!("{error}\n{text}"));
            let is_call =
                |flow: &makeway_scenario::model::Flow| CALL.contains(&flow.group.as_str());
            assert!(scenario.flows.iter().any(is_call), "{}", case.name);
        }
        let names: BTreeSet<&str> = CASES.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), CASES.len());
    }

    #[test]
    fn a_short_case_gives_a_cell_for_each_discipline() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cells.json");
        let json = file.to_str().unwrap();
        let args = ["--case", "w1m", "--runs", "2", "--json", json];
        gauntlet(&[&args[..], &["--disciplines", "fifo,makeway"]].concat()).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let cells: serde_json::Value = serde_json::from_str(&text).unwrap();
        let [fifo, makeway] = &cells.as_array().unwrap()[..] else {
            panic!("{text}");
        };
        let keys = |value: &serde_json::Value| {
            let keys = value.as_object().unwrap().keys().cloned();
            keys.collect::<Vec<_>>().join(" ")
        };
        let sorted = |names: &str| {
            let names: BTreeSet<&str> = names.split(' ').collect();
            names.into_iter().collect::<Vec<_>>().join(" ")
        };
        let form = sorted("case world discipline runs call rest wins");
        let call = sorted("on_time freezes frozen_s delay_p50_ms delay_p99_ms rate_mbps");
        for cell in [fifo, makeway] {
            assert_eq!(sorted(&keys(cell)), form);
            assert_eq!(sorted(&keys(&cell["call"])), call);
            assert_eq!(sorted(&keys(&cell["rest"])), "goodput_mbps jain page_s");
            assert_eq!(
                (&cell["case"], &cell["world"]),
                (&"w1m".into(), &"sim".into())
            );
            assert_eq!(cell["runs"], 2);
            // A stream has no frames that could freeze, and there is no page.
            assert!(cell["call"]["freezes"].is_null() && cell["rest"]["page_s"].is_null());
        }
        let mean = |figure: &serde_json::Value| figure["mean"].as_f64().unwrap();
        assert!(fifo["wins"].is_null(), "{text}");
        assert_eq!(makeway["wins"], true, "{text}");
        // 0.4 Mbit/s of 1 Mbit/s; a full buffer of 50 packets is 0.6 s.
        assert!(mean(&fifo["call"]["delay_p50_ms"]) > 150.0, "{text}");
        assert!(mean(&makeway["call"]["on_time"]) > 0.99, "{text}");
        assert!(
            (0.3..0.5).contains(&mean(&makeway["call"]["rate_mbps"])),
            "{text}"
        );
        assert!(
            (0.3..0.7).contains(&mean(&makeway["rest"]["goodput_mbps"])),
            "{text}"
        );
        assert!(makeway["call"]["delay_p99_ms"]["half"].is_f64(), "{text}");
    }

    #[test]
    fn refusals_say_what_would_be_right() {
        let refused = |args: &[&str]| gauntlet(args).unwrap_err().to_string();
        assert!(refused(&["--world", "netns"]).contains("leave `--world netns` out"));
        assert!(refused(&["--case", "n11"]).contains("n1, n10"));
        assert!(refused(&["--disciplines", "fifo,nope"]).contains("nope"));
        assert!(refused(&["--disciplines", "fifo,fifo"]).contains("name each once"));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("no-call.toml");
        let text = makeway::builtin::text("call-and-downloads.toml");
        std::fs::write(&file, text.replace("flow.video", "flow.film")).unwrap();
        builtin::unpack(folder.path()).unwrap();
        let error = refused(&["--case", file.to_str().unwrap()]);
        assert!(error.contains("`call` or `video`"), "{error}");
    }
}
