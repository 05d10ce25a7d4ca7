// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab autorate`: controllers of a shaper's rates before links whose own rates change, beside each other.

mod link;
mod probes;
mod rivals;
mod sample;
mod traced;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use comfy_table::Table;
use makeway::parallel::cores;
use makeway::session::stop_on_signals;
use makeway::text;
use makeway_report::estimate::{Estimate, Unit};
use serde::Serialize;

use crate::experiment::each;
use crate::gauntlet::Figure;
use crate::tables::{align, markdown, write_json};
use link::{LINKS, VaryingLink};
use rivals::{NAMES, ORACLE};
use sample::{Sample, World, sample};
use traced::traced;

/// Runs controllers of a shaper's rates before links whose own rates change.
///
/// Figures are means over replications in simulated time with 95 % intervals; all algorithms see the same link,
/// the same transfers and the same probes. docs/autorate.md explains cases, figures and algorithms.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway-lab autorate
  makeway-lab autorate --runs 20 --json autorate.json
  makeway-lab autorate --case step --case mobile --algorithm makeway
  makeway-lab autorate --trace ATT-LTE-driving.up ATT-LTE-driving.down --case trace
  makeway-lab autorate --world netns --case step --runs 3")]
pub struct Autorate {
    /// Replications of each cell.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Only this case; may be repeated [default: all].
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// One case more, `trace`: a mobile link as Mahimahi records one, a file for each direction.
    #[arg(long, num_args = 2, value_names = ["UP", "DOWN"])]
    trace: Vec<PathBuf>,
    /// Only this algorithm; may be repeated [default: all].
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(NAMES))]
    algorithm: Vec<String>,
    /// Number of the first replication. Constants of `makeway` were chosen on replications from 1 on.
    #[arg(long, value_name = "N", default_value_t = 101)]
    first: u64,
    /// Simulated time, or namespaces with the kernel's TCP (90 s each; their probes wait in its queues).
    #[arg(long, value_name = "WORLD", default_value = "sim")]
    world: World,
    /// Writes the cells as JSON: an array of case, algorithm, world, figures.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Runs at a time [default: one for each core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    /// Writes rates and delays of the first run of each cell, each 50 ms: CSV files in this folder.
    #[arg(long, value_name = "DIR")]
    series: Option<PathBuf>,
}

/// A case under an algorithm.
#[derive(Serialize)]
struct Cell {
    case: &'static str,
    algorithm: String,
    world: &'static str,
    added_p99_ms: Figure,
    used_share: Figure,
    recovery_s: Figure,
}

/// Runs it. Exit status 130 if it was stopped.
pub fn run(args: &Autorate) -> anyhow::Result<ExitCode> {
    let links = links(&args.case, &args.trace)?;
    if args.world == World::Netns {
        makeway_netns::enter_user_namespace()?;
    }
    let algorithms: Vec<&str> = match args.algorithm.is_empty() {
        true => NAMES.to_vec(),
        false => args.algorithm.iter().map(String::as_str).collect(),
    };
    if let Some(folder) = &args.series {
        std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    }
    let Some(samples) = samples(args, &links, &algorithms)? else {
        eprintln!("stopped: nothing is reported");
        return Ok(ExitCode::from(130));
    };
    let mut cells = Vec::new();
    for (number, runs) in samples.iter().enumerate() {
        let figure =
            |get: fn(&Sample) -> Option<f64>| Figure(Estimate::of(runs.iter().filter_map(get)));
        cells.push(Cell {
            case: links[number / algorithms.len()].name,
            algorithm: algorithms[number % algorithms.len()].into(),
            world: args.world.name(),
            added_p99_ms: figure(|s| Some(s.added_p99_ms)),
            used_share: figure(|s| Some(s.used_share)),
            recovery_s: figure(|s| s.recovery_s),
        });
    }
    text::say!("{}\n", table(&cells));
    for verdict in verdicts(&cells, algorithms.len()) {
        text::say!("{verdict}");
    }
    write_json(args.json.as_deref(), &cells)?;
    Ok(ExitCode::SUCCESS)
}

fn links(names: &[String], trace: &[PathBuf]) -> anyhow::Result<Vec<&'static VaryingLink>> {
    let mut all: Vec<&'static VaryingLink> = LINKS.iter().collect();
    match trace {
        [] => {}
        // It lives as long as the others.
        [up, down] => all.push(Box::leak(Box::new(traced(up, down)?))),
        _ => bail!("a link has one trace for each direction: write `--trace UP DOWN` once"),
    }
    if names.is_empty() {
        return Ok(all);
    }
    let named = |name: &String| match all.iter().copied().find(|link| link.name == name) {
        Some(link) => Ok(link),
        None => {
            let names: Vec<&str> = all.iter().map(|link| link.name).collect();
            bail!("there is no case `{name}`: choose {}", names.join(", "))
        }
    };
    names.iter().map(named).collect()
}

fn table(cells: &[Cell]) -> Table {
    let mut table = markdown(["case", "algorithm", "added p99", "used", "recovery, s"]);
    for cell in cells {
        table.add_row([
            cell.case.into(),
            cell.algorithm.clone(),
            cell.added_p99_ms.show(Unit::Millis),
            cell.used_share.show(Unit::Share),
            cell.recovery_s.show(Unit::Index),
        ]);
    }
    align(table, 2)
}

/// The target: this share of the true rate, and at most this much delay (ms).
const USED: f64 = 0.9;
const ADDED_MS: f64 = 30.0;

/// A line for each case in which `makeway` misses the target, or a rival that meets it uses more; then the sum.
fn verdicts(cells: &[Cell], algorithms: usize) -> Vec<String> {
    let (mut lines, mut met, mut ahead, mut count) = (Vec::new(), 0, 0, 0);
    for of_case in cells.chunks(algorithms) {
        let Some(own) = of_case.iter().find(|cell| cell.algorithm == NAMES[0]) else {
            continue;
        };
        let (used, added) = (own.used_share.0.mean, own.added_p99_ms.0.mean);
        count += 1;
        let meets =
            |cell: &Cell| cell.used_share.0.mean >= USED && cell.added_p99_ms.0.mean <= ADDED_MS;
        match meets(own) {
            true => met += 1,
            false => {
                let mut cells = of_case.iter();
                let oracle = cells.find(|cell| cell.algorithm == ORACLE);
                let floor = oracle.map_or(String::new(), |cell| {
                    format!("; the oracle has {:.1} ms", cell.added_p99_ms.0.mean)
                });
                lines.push(format!(
                    "- {}: the target is missed: {:.1} % of the rate, {added:.1} ms{floor}",
                    own.case,
                    used * 100.0
                ));
            }
        }
        // A rival is ahead if it is better in one figure and no worse in the other, or meets what we miss.
        let is_rival = |cell: &&Cell| ![NAMES[0], ORACLE].contains(&&*cell.algorithm);
        let rivals = || of_case.iter().filter(is_rival);
        let better = rivals().find(|rival| {
            let no_less = rival.used_share.0.mean >= used && rival.added_p99_ms.0.mean <= added;
            no_less || meets(rival) && !meets(own)
        });
        match better {
            None => ahead += 1,
            Some(rival) => lines.push(format!("- {}: {} is ahead", own.case, rival.algorithm)),
        }
    }
    lines.push(format!(
        "makeway meets {:.0} % of the rate at {ADDED_MS} ms in {met} of {count} cases; no rival is ahead in {ahead}",
        USED * 100.0
    ));
    lines
}

/// Runs of each cell, case by case, in each the algorithms in their order. `None`: a signal stopped it.
fn samples(
    args: &Autorate,
    links: &[&VaryingLink],
    algorithms: &[&str],
) -> anyhow::Result<Option<Vec<Vec<Sample>>>> {
    let stop = stop_on_signals()?;
    let runs = args.runs as usize;
    let cells = links.len() * algorithms.len();
    let work = |number: usize| -> anyhow::Result<Option<Sample>> {
        let (cell, run) = (number / runs, number % runs);
        let (link, name) = (
            links[cell / algorithms.len()],
            algorithms[cell % algorithms.len()],
        );
        let series = args.series.as_deref().filter(|_| run == 0);
        let file = series.map(|folder: &Path| folder.join(format!("{}-{name}.csv", link.name)));
        let replication = args.first + run as u64;
        sample(args.world, link, name, replication, &stop, file.as_deref())
            .with_context(|| format!("case {}, {name}", link.name))
    };
    let mut samples = vec![Vec::with_capacity(runs); cells];
    // In real time a run has a processor for its senders and one for its queues.
    let jobs = match args.world {
        World::Sim => args.jobs.map_or_else(cores, |jobs| jobs as usize),
        World::Netns => args.jobs.map_or(1, |jobs| jobs as usize),
    };
    let all = each(cells * runs, jobs, &stop, work, |number, sample| {
        samples[number / runs].push(sample);
    })?;
    Ok(all.then_some(samples))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::*;

    fn lab(args: &[&str]) -> anyhow::Result<ExitCode> {
        let args = ["makeway-lab", "autorate"].iter().chain(args);
        crate::run(crate::Lab::try_parse_from(args)?)
    }

    #[test]
    fn every_case_has_a_name_of_its_own_and_a_scenario_that_reads() {
        let names: BTreeSet<&str> = LINKS.iter().map(|link| link.name).collect();
        assert_eq!(names.len(), LINKS.len());
        assert!(names.len() >= 8);
        for link in LINKS {
            let text = link.scenario(7, link.nominal);
            let read = makeway_scenario::parse(&text, link.name, Path::new("."), &[]);
            assert!(read.is_ok(), "{:?}\n{text}", read.err());
            let steps = link.steps(7);
            assert_eq!(steps, link.steps(7));
            assert!(
                steps.windows(2).all(|pair| pair[0].0 < pair[1].0),
                "{}",
                link.name
            );
        }
    }

    #[test]
    fn a_line_that_slows_down_is_followed_better_than_by_a_fixed_threshold() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cells.json");
        let args = ["--case", "step", "--runs", "2", "--json"];
        let names = ["makeway", "cake-autorate", ORACLE];
        let algorithms = names.map(|name| ["--algorithm", name]).concat();
        let json = [file.to_str().unwrap()];
        lab(&[&args[..], &json, &algorithms[..]].concat()).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let cells: serde_json::Value = serde_json::from_str(&text).unwrap();
        let [own, cake, oracle] = &cells.as_array().unwrap()[..] else {
            panic!("{text}");
        };
        let mean = |cell: &serde_json::Value, key: &str| cell[key]["mean"].as_f64().unwrap();
        for cell in [own, cake, oracle] {
            let keys: BTreeSet<&str> = cell
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect();
            let form = [
                "added_p99_ms",
                "algorithm",
                "case",
                "recovery_s",
                "used_share",
                "world",
            ];
            assert_eq!(keys, BTreeSet::from(form));
            assert!(cell["added_p99_ms"]["half"].is_f64(), "{text}");
            assert!((0.3..=1.0).contains(&mean(cell, "used_share")), "{text}");
        }
        assert!(mean(own, "used_share") > 0.9, "{text}");
        assert!(
            mean(own, "added_p99_ms") < mean(cake, "added_p99_ms"),
            "{text}"
        );
        // One that knows the rate has nothing to find, and a queue only until its senders follow.
        assert!(mean(oracle, "used_share") > 0.9, "{text}");
        assert!(
            mean(oracle, "added_p99_ms") < mean(cake, "added_p99_ms"),
            "{text}"
        );
    }

    #[test]
    fn the_oracle_is_no_rival_and_its_delay_is_told_where_the_target_is_missed() {
        let cell = |algorithm: &str, used: f64, added_ms: f64| {
            let figure = |value| Figure(Estimate::of([value]));
            Cell {
                case: "step",
                algorithm: algorithm.into(),
                world: "sim",
                added_p99_ms: figure(added_ms),
                used_share: figure(used),
                recovery_s: figure(1.0),
            }
        };
        let cells = [
            cell("makeway", 0.94, 33.0),
            cell("sqm-autorate", 0.8, 111.0),
            cell(ORACLE, 0.97, 21.0),
        ];
        assert_eq!(
            verdicts(&cells, 3),
            [
                "- step: the target is missed: 94.0 % of the rate, 33.0 ms; the oracle has 21.0 ms",
                "makeway meets 90 % of the rate at 30 ms in 0 of 1 cases; no rival is ahead in 1",
            ]
        );
        let cells = [
            cell("makeway", 0.94, 33.0),
            cell("sqm-autorate", 0.95, 20.0),
        ];
        let lines = verdicts(&cells, 2);
        assert_eq!(lines[1], "- step: sqm-autorate is ahead");
    }

    #[test]
    fn a_recorded_link_is_one_case_more() {
        let folder = tempfile::tempdir().unwrap();
        let [up, down, json] = ["up", "down", "json"].map(|name| folder.path().join(name));
        // One opportunity each 2 ms, and each ms: 6 and 12 Mbit/s.
        std::fs::write(&up, "2\n").unwrap();
        std::fs::write(&down, "1\n").unwrap();
        let [up, down, json] = [&up, &down, &json].map(|file| file.to_str().unwrap());
        let args = ["--trace", up, down, "--runs", "1", "--json", json];
        let only = ["--case", "trace", "--algorithm", "makeway"];
        lab(&[&args[..], &only[..]].concat()).unwrap();
        let text = std::fs::read_to_string(json).unwrap();
        let cells: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(cells.as_array().unwrap().len(), 1, "{text}");
        assert_eq!(cells[0]["case"], "trace");
        // A link that stays is used.
        let used = cells[0]["used_share"]["mean"].as_f64().unwrap();
        assert!((0.9..=1.0).contains(&used), "{text}");
        let files = [PathBuf::from(up), PathBuf::from(down)];
        assert_eq!(links(&[], &files).unwrap().len(), LINKS.len() + 1);
        let twice = [&files[..], &files[..]].concat();
        assert!(links(&[], &twice).is_err());
    }

    #[test]
    fn an_unknown_case_is_refused_with_those_that_there_are() {
        let error = lab(&["--case", "stop"]).unwrap_err().to_string();
        assert!(error.contains("choose step, ramp"), "{error}");
        assert!(lab(&["--algorithm", "pie"]).is_err());
    }
}
