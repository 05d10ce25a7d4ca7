// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab adversary`: a search for the traffic that harms a call, a voice, a page or a download most for each byte that it sends.
//!
//! Hill climbing: from some attacks drawn at random, one property is changed at a time, and a change that does more harm stays. One
//! run chooses nothing: an attack of a few bytes harms a page by chance, and by much for each byte. A change stays by the lower end of
//! the interval of some replications. All disciplines begin with the same attacks and have as many steps. The worst is run again with
//! other random numbers, on which it was not chosen; those are the figures.

mod attack;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use clap::Args;
use comfy_table::Table;
use makeway::builtin;
use makeway::parallel::cores;
use makeway::session::{stop_on_signals, write};
use makeway::text;
use makeway_core::random::Rng;
use makeway_core::sched::Discipline;
use makeway_report::estimate::{Estimate, Unit};
use makeway_report::model::Report;
use makeway_sim::Options;
use serde::Serialize;

use crate::experiment::each;
use crate::tables::{markdown, write_json};
use attack::{Attack, scenario, traces};

/// Replications that a search sees: the first of each attack, the others of those that the first says are worse.
const SEEN: u64 = 4;

/// Searches for the traffic that harms a call, a voice, a page or a download most for each byte that it sends.
///
/// A link of 10 Mbit/s carries a call of 2 Mbit/s, a voice, a download and a page, and from 6 s on the attack: UDP in a number of flows to a
/// number of hosts, its rate, size of packets and times on and off, or bursts at once, found by hill climbing. docs/adversary.md has the
/// table.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway-lab adversary
  makeway-lab adversary --disciplines fifo,makeway --target call --steps 40
  makeway-lab adversary --seed 7 --json adversary.json")]
pub struct Adversary {
    /// Disciplines, with commas between.
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        default_value = "cake,fq-codel,sqf,makeway"
    )]
    disciplines: Vec<Discipline>,
    /// Only this victim [default: all four].
    #[arg(long, value_enum)]
    target: Option<Target>,
    /// Attacks that a search begins with.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    starts: u32,
    /// Changes that are tried from each.
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    steps: u32,
    /// Replications of the worst attack.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Seed of the search.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Writes the worst attacks as JSON: an array of target, discipline, attack, harm, `sent_mbps`, `harm_per_byte`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes the scenario of each worst attack here, as TARGET-DISCIPLINE.toml with its traces, for `gauntlet --case`.
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
    /// Searches at a time [default: one for each core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
}

/// The victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    Call,
    Voice,
    Page,
    Download,
}

impl Target {
    const ALL: [Self; 4] = [Self::Call, Self::Voice, Self::Page, Self::Download];

    const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Voice => "voice",
            Self::Page => "page",
            Self::Download => "download",
        }
    }
}

/// Results of the victims in a run, and bytes of the attack.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Share of the call on time, p99 of the voice's one-way delay (s), mean time of an object (s), goodput of the download (bit/s).
    on_time: f64,
    voice_s: f64,
    object_s: f64,
    download_bps: f64,
    /// Bytes on the wire.
    sent: f64,
    seconds: f64,
}

impl Outcome {
    fn of(report: &Report, attack: Option<&Attack>) -> Self {
        let group = |name: &'static str| report.flows.iter().filter(move |f| f.group == name);
        let on_time = group("call").filter_map(|flow| flow.datagrams.as_ref());
        let voice = group("voice").filter_map(|flow| flow.datagrams.as_ref());
        let tasks = || group("page").filter_map(|flow| flow.tasks);
        let done: f64 = tasks().map(|tasks| tasks.done as f64).sum();
        let ms: f64 = tasks()
            .map(|tasks| tasks.completion_ms.mean * tasks.done as f64)
            .sum();
        // Headers of IPv4, UDP and RTP.
        let len = attack.map_or(0.0, |attack| f64::from(attack.payload() + 40));
        let attacks = (report.flows.iter()).filter(|flow| flow.group.starts_with("attack-"));
        let packets = attacks.filter_map(|flow| flow.datagrams.as_ref().map(|d| d.sent as f64));
        Self {
            on_time: on_time.map(|datagrams| datagrams.on_time).sum(),
            voice_s: voice.map(|datagrams| datagrams.delay_ms.p99 / 1e3).sum(),
            // No object was done in the time of all.
            object_s: if done > 0.0 {
                ms / done / 1e3
            } else {
                report.seconds
            },
            download_bps: group("download").map(|flow| flow.goodput_bps).sum(),
            sent: packets.sum::<f64>() * len,
            seconds: report.seconds,
        }
    }

    /// Harm to `target` beside `before`, without an attack: as a share, and for each byte sent. Of the call, bytes that
    /// are not on time; of the voice, seconds that its p99 is longer, for each megabyte, and as a share of 150 ms; of the page, seconds that an
    /// object takes longer, for each megabyte; of the download, bytes.
    /// Less than a hundredth of what the victim had is none.
    fn harm(&self, target: Target, before: &Self) -> (f64, f64) {
        const CALL_BPS: f64 = 2e6;
        let bytes = self.seconds / 8.0;
        let (share, amount) = match target {
            Target::Call => {
                let share = before.on_time - self.on_time;
                (share, share * CALL_BPS * bytes)
            }
            Target::Voice => {
                let longer = self.voice_s - before.voice_s;
                (longer / 0.15, longer * 1e6)
            }
            Target::Page => {
                let longer = self.object_s - before.object_s;
                (longer / before.object_s, longer * 1e6)
            }
            Target::Download => {
                let less = before.download_bps - self.download_bps;
                (less / before.download_bps, less * bytes)
            }
        };
        match share > 0.01 && self.sent > 0.0 {
            true => (share, amount / self.sent),
            false => (share, 0.0),
        }
    }
}

/// Common part of all searches.
struct Field<'a> {
    folder: &'a Path,
    stop: Arc<AtomicBool>,
}

impl Field<'_> {
    /// `None`: a signal stopped it.
    fn run(
        &self,
        attack: Option<&Attack>,
        discipline: Discipline,
        replication: u64,
    ) -> anyhow::Result<Option<Outcome>> {
        let text = scenario(attack, discipline);
        let scenario = makeway_scenario::parse(&text, "attack", self.folder, &[])?;
        let options = Options {
            stop: Arc::clone(&self.stop),
            replication,
            ..Options::default()
        };
        let report = makeway_sim::run(&scenario, &options, |_| {})
            .with_context(|| format!("{discipline}: {attack:?}"))?;
        Ok(report.complete.then(|| Outcome::of(&report, attack)))
    }

    /// The victims in each replication that a search sees, without an attack.
    fn before(&self, discipline: Discipline) -> anyhow::Result<Option<Vec<Outcome>>> {
        let runs = (1..=SEEN).map(|replication| self.run(None, discipline, replication));
        runs.collect()
    }

    /// Harm of `attack` for each byte in these replications, or in the first alone if that is none, or less than `worst`.
    fn harms(
        &self,
        search: &Search,
        before: &[Outcome],
        attack: &Attack,
        worst: f64,
    ) -> anyhow::Result<Option<Vec<f64>>> {
        let mut harms = Vec::new();
        for (replication, before) in (1..).zip(before) {
            let Some(outcome) = self.run(Some(attack), search.discipline, replication)? else {
                return Ok(None);
            };
            harms.push(outcome.harm(search.target, before).1);
            if harms[0] < worst || harms[0] == 0.0 {
                break;
            }
        }
        Ok(Some(harms))
    }

    /// Hill climbing from one attack: the worst, and the least that its harm for each byte is.
    fn climb(&self, search: &Search, steps: u32) -> anyhow::Result<Option<(Attack, f64)>> {
        let mut rng = Rng::new(search.seed);
        let Some(before) = self.before(search.discipline)? else {
            return Ok(None);
        };
        let mut worst = (Attack::draw(&mut rng), 0.0);
        let mut next = worst.0;
        for _ in 0..=steps {
            let Some(harms) = self.harms(search, &before, &next, worst.1)? else {
                return Ok(None);
            };
            let least = least(&harms);
            // Without harm yet, anywhere is as good.
            if least >= worst.1 {
                worst = (next, least);
            }
            next = worst.0.changed(&mut rng);
        }
        Ok(Some(worst))
    }
}

/// The lower end of the interval of harms, none if they are not of all replications that a search sees.
fn least(harms: &[f64]) -> f64 {
    if harms.len() < SEEN as usize {
        return 0.0;
    }
    let harm = Estimate::of(harms.iter().copied());
    (harm.mean - harm.half_width.unwrap_or(f64::INFINITY)).max(0.0)
}

/// One search.
#[derive(Clone, Copy)]
struct Search {
    target: Target,
    discipline: Discipline,
    seed: u64,
}

/// The worst attack on a target under a discipline.
#[derive(Serialize)]
struct Worst {
    target: Target,
    discipline: String,
    runs: u32,
    attack: Attack,
    /// Share that the victim loses, of time on time, of goodput; how much longer an object takes.
    harm: f64,
    sent_mbps: f64,
    /// Bytes of the victim for each of the attack; of a voice and a page, s for each MB.
    harm_per_byte: f64,
    half: Option<f64>,
}

/// Files that the scenarios name, and no others: the folder may be the user's.
fn unpack(folder: &Path) -> anyhow::Result<()> {
    let place = folder.join("traces");
    std::fs::create_dir_all(&place)
        .with_context(|| format!("{} cannot be made", place.display()))?;
    let carried = ["traces/mpeg2-5m.csv", "traces/audio-64k.csv"];
    let carried = carried.map(|name| (name.to_owned(), builtin::text(name).to_owned()));
    for (name, text) in carried.into_iter().chain(traces()) {
        write(&folder.join(name), &text)?;
    }
    Ok(())
}

/// Runs it. Exit status 130 if it was stopped.
pub fn run(args: &Adversary) -> anyhow::Result<ExitCode> {
    super::each_once(&args.disciplines)?;
    let folder = tempfile::tempdir().context("a temporary folder cannot be made")?;
    unpack(folder.path())?;
    let field = Field {
        folder: folder.path(),
        stop: stop_on_signals()?,
    };
    let Some(found) = searched(args, &field)? else {
        eprintln!("stopped: nothing is reported");
        return Ok(ExitCode::from(130));
    };
    text::say!("{}", table(&found));
    if let Some(folder) = &args.save {
        unpack(folder)?;
        for worst in &found {
            let discipline: Discipline = worst.discipline.parse()?;
            let name = format!("{}-{discipline}.toml", worst.target.name());
            write(
                &folder.join(name),
                &scenario(Some(&worst.attack), discipline),
            )?;
        }
    }
    write_json(args.json.as_deref(), &found)?;
    Ok(ExitCode::SUCCESS)
}

fn searched(args: &Adversary, field: &Field<'_>) -> anyhow::Result<Option<Vec<Worst>>> {
    let targets = Target::ALL
        .iter()
        .filter(|t| args.target.is_none_or(|only| only == **t));
    let cells: Vec<(Target, Discipline)> = targets
        .flat_map(|target| args.disciplines.iter().map(|d| (*target, *d)))
        .collect();
    let starts = args.starts as usize;
    let jobs = args.jobs.map_or_else(cores, |jobs| jobs as usize);
    let work = |number: usize| {
        let (target, discipline) = cells[number / starts];
        // The same attacks to begin with for every discipline.
        let seed = args.seed.wrapping_mul(1000) + (number % starts) as u64;
        let search = Search {
            target,
            discipline,
            seed,
        };
        field.climb(&search, args.steps)
    };
    let mut climbs = Vec::new();
    if !each(cells.len() * starts, jobs, &field.stop, work, |_, climb| {
        climbs.push(climb)
    })? {
        return Ok(None);
    }
    let worst = |climbs: &[(Attack, f64)]| {
        let most = climbs.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        most.map(|(attack, _)| *attack)
    };
    let attacks: Vec<Attack> = climbs.chunks(starts).filter_map(worst).collect();
    let runs = args.runs as usize;
    let again = |number: usize| -> anyhow::Result<Option<(f64, f64, f64)>> {
        let (target, discipline) = cells[number / runs];
        let replication = SEEN + 1 + (number % runs) as u64;
        let attack = &attacks[number / runs];
        let Some(before) = field.run(None, discipline, replication)? else {
            return Ok(None);
        };
        let outcome = field.run(Some(attack), discipline, replication)?;
        Ok(outcome.map(|outcome| {
            let (share, each) = outcome.harm(target, &before);
            (share, each, outcome.sent * 8.0 / outcome.seconds / 1e6)
        }))
    };
    let mut figures = Vec::new();
    if !each(cells.len() * runs, jobs, &field.stop, again, |_, found| {
        figures.push(found)
    })? {
        return Ok(None);
    }
    let found = cells.iter().zip(&attacks).zip(figures.chunks(runs));
    let found = found.map(|((&(target, discipline), &attack), figures)| {
        let each = Estimate::of(figures.iter().map(|figure| figure.1));
        Worst {
            target,
            discipline: discipline.to_string(),
            runs: args.runs,
            attack,
            harm: Estimate::of(figures.iter().map(|figure| figure.0)).mean,
            sent_mbps: Estimate::of(figures.iter().map(|figure| figure.2)).mean,
            harm_per_byte: each.mean,
            half: each.half_width,
        }
    });
    Ok(Some(found.collect()))
}

fn table(found: &[Worst]) -> Table {
    let mut table = markdown([
        "target",
        "discipline",
        "harm for each byte",
        "harm",
        "sent, Mbit/s",
        "attack",
    ]);
    for worst in found {
        let each = Estimate {
            mean: worst.harm_per_byte,
            half_width: worst.half,
            runs: worst.runs.into(),
        };
        let unit = match worst.target {
            Target::Voice | Target::Page => " s/MB",
            Target::Call | Target::Download => "",
        };
        table.add_row([
            worst.target.name().into(),
            worst.discipline.clone(),
            format!("{}{unit}", Unit::Index.show(&each)),
            Unit::Share.show_value(worst.harm),
            format!("{:.2}", worst.sent_mbps),
            worst.attack.describe(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::attack::tests::attack;
    use super::*;

    #[test]
    fn harm_is_what_the_victim_lost_and_a_hundredth_is_none() {
        let before = Outcome {
            on_time: 1.0,
            voice_s: 0.012,
            object_s: 0.2,
            download_bps: 6e6,
            sent: 0.0,
            seconds: 8.0,
        };
        let after = Outcome {
            on_time: 0.9,
            voice_s: 0.042,
            object_s: 0.3,
            download_bps: 3e6,
            sent: 1e6,
            ..before
        };
        // A tenth of 2 MB of a call, 0.03 and 0.1 s for 1 MB, 3 of 6 MB.
        let close = |(share, each): (f64, f64), wanted: (f64, f64)| {
            assert!((share - wanted.0).abs() < 1e-9, "{share}");
            assert!((each - wanted.1).abs() < 1e-9, "{each}");
        };
        close(after.harm(Target::Call, &before), (0.1, 0.2));
        close(after.harm(Target::Voice, &before), (0.2, 0.03));
        close(after.harm(Target::Page, &before), (0.5, 0.1));
        close(after.harm(Target::Download, &before), (0.5, 3.0));
        let little = Outcome {
            on_time: 0.995,
            ..after
        };
        close(little.harm(Target::Call, &before), (0.005, 0.0));
    }

    #[test]
    fn harm_by_chance_is_none() {
        // Of one replication, however much; of four that do not agree; and of four that do.
        assert_eq!(least(&[9.0]), 0.0);
        assert_eq!(least(&[9.0, 0.0, 0.0, 0.0]), 0.0);
        let sure = least(&[0.9, 1.0, 1.1, 1.0]);
        assert!((0.8..1.0).contains(&sure), "{sure}");
    }

    #[test]
    fn a_worst_attack_that_is_saved_runs_as_a_case() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("worst");
        let place = place.to_str().unwrap();
        let run = |line: &str| {
            let args = std::iter::once("makeway-lab").chain(line.split(' '));
            crate::run(crate::Lab::try_parse_from(args).unwrap()).unwrap();
        };
        let search = "--disciplines fifo --target voice --starts 1 --steps 0 --runs 1";
        run(&format!("adversary {search} --save {place}"));
        // The scenario, and the folder of traces.
        assert_eq!(std::fs::read_dir(place).unwrap().count(), 2);
        let case = format!("{place}/voice-fifo.toml");
        run(&format!(
            "gauntlet --case {case} --disciplines fifo --runs 1"
        ));
    }

    #[test]
    fn a_flood_that_fills_fifo_is_found_to_harm_the_call() {
        let folder = tempfile::tempdir().unwrap();
        builtin::unpack(folder.path()).unwrap();
        let field = Field {
            folder: folder.path(),
            stop: Arc::default(),
        };
        let flood = Attack {
            rate_kbit: 20_000.0,
            payload_bytes: 1000.0,
            off_ms: 1.0,
            ..attack()
        };
        let run = |attack| field.run(attack, Discipline::Fifo, 1).unwrap().unwrap();
        let (share, each) = run(Some(&flood)).harm(Target::Call, &run(None));
        assert!(share > 0.3 && each > 0.01, "{share}, {each}");
    }
}
