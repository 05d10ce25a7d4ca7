// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway-lab gauntlet`: a call beside other traffic in many cases, under each discipline, and whether `makeway` wins.

mod adversary;
mod cases;
mod cell;
mod drawn;
mod ideal;
mod mobile;
mod sample;
mod verdict;
mod worlds;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::Args;
use makeway::session::write;
use makeway::{builtin, text, vm};
use makeway_core::sched::Discipline;
use makeway_scenario::Scenario;
use makeway_scenario::model::{Egress, Link};
use makeway_store::plan::{Detail, Source};
use makeway_vm::{Accelerator, VmError};

pub use adversary::{Adversary, run as attack};
use cases::{CASES, Half};
pub use cell::Figure;
use cell::{Cell, page, table};
use sample::is_call;
use verdict::lost;

use crate::experiment::World;
use crate::experiment::plans::{self, Replications};
use crate::tables::write_json;

/// Runs a call beside other traffic through each discipline, in many cases, and says where `makeway` wins.
///
/// Figures are means over replications with 95 % intervals; all disciplines see the same random numbers. `makeway` wins a
/// case if no rival's call is better beyond the interval and the other traffic loses no more than the call uses:
/// docs/gauntlet.md has the rule.
#[derive(Args, Clone)]
#[command(after_help = "Examples:
  makeway-lab gauntlet
  makeway-lab gauntlet --half judged --runs 10 --json gauntlet.json
  makeway-lab gauntlet --case n100 --case frame --disciplines fifo,fq-codel,cake,makeway
  makeway-lab gauntlet --case my-link.toml --runs 20
  makeway-lab gauntlet --drawn 40 --seed 7 --disciplines fq-codel,cake,makeway,prio
  makeway-lab gauntlet --disciplines fq-codel,cake,makeway,prio
  makeway-lab gauntlet --world vm --case frame --case users --disciplines fifo,fq-codel,cake,makeway --runs 3

`prio` is the ideal: the call's hosts leave first, as if marks were always right. With it, the bars that `makeway` does not
keep are listed.

A scenario of your own needs a group of flows with the name `call` or `video`. Each of its measured queues on a link with
a rate gets the discipline instead of its own.")]
pub struct Gauntlet {
    /// World of the runs. Without `--case`, cases that the world cannot run are left out, and named.
    #[arg(long, value_enum, default_value = "sim")]
    world: World,
    /// Replications of each cell. A single one has no interval, and no verdict.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Only this case, or the scenario in FILE.toml; may be repeated [default: all].
    #[arg(long, value_name = "NAME|FILE.toml")]
    case: Vec<String>,
    /// Disciplines, with commas between. In the world `vm` those of its kernel: fifo, fq, fq-codel, cake, sqf, ncq, hier, makeway, and
    /// dualpi2 where that and `tc` have it.
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        default_value = "fifo,fq,fq-codel,cake,confucius,dualpi2,sqf,ncq,hier,makeway",
        default_value_if("world", "vm", "fifo,fq,fq-codel,cake,dualpi2,sqf,ncq,hier,makeway")
    )]
    disciplines: Vec<Discipline>,
    /// Only the cases on which the rules of `makeway` were chosen at first, `tuned`, or only the others, `judged`.
    #[arg(long, value_enum, conflicts_with = "case")]
    half: Option<Half>,
    /// Instead of the table, this number of cases drawn at random, which nobody has seen: rate, RTT, buffer, downloads and the rest.
    #[arg(long, value_name = "N", conflicts_with_all = ["case", "half"], value_parser = clap::value_parser!(u32).range(1..=10_000))]
    drawn: Option<u32>,
    /// Seed of the cases that are drawn.
    #[arg(long, value_name = "S", default_value_t = 1, requires = "drawn")]
    seed: u64,
    /// Writes the cells as JSON: an array of case, world, discipline, runs, call, rest, wins.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes the table as a page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Number of the first replication.
    #[arg(long, value_name = "N", default_value_t = 101)]
    first: u64,
    /// Keeps the runs of the world sim in this folder, and does not make those again that it has: a store as that of
    /// `makeway run --sweep` and of `makeway-lab papers`, which may be the same.
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Instead of any run, writes a plan of each cell of the world sim to this folder, CASE-DISCIPLINE.json. On a cluster they
    /// fill the store: docs/python.md.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["store", "json", "html"])]
    plans: Option<PathBuf>,
    /// Runs at a time, in `sim` and `vm` [default: one for each core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
}

/// A case that is read.
struct Course {
    name: String,
    half: Option<Half>,
    scenario: Scenario,
    file: PathBuf,
}

/// Runs it. Exit status 130 if it was stopped; a case that `makeway` does not win is no failure.
pub fn run(args: &Gauntlet) -> anyhow::Result<ExitCode> {
    each_once(&args.disciplines)?;
    ensure!(
        args.world == World::Sim || (args.store.is_none() && args.plans.is_none()),
        "`--store` and `--plans` are of runs in simulated time: leave out `--world {}`",
        args.world.name()
    );
    if let Some(folder) = &args.plans {
        return write_plans(args, folder);
    }
    let args = &worlds::equipped(args, vm::lacks)?;
    let folder = tempfile::tempdir().context("a temporary folder cannot be made")?;
    let courses = courses(args, folder.path())?;
    let courses = possible(args, courses, worlds::accelerator)?;
    let Some(samples) = worlds::samples(args, &courses)? else {
        eprintln!("stopped: nothing is reported");
        return Ok(ExitCode::from(130));
    };
    let (mut cells, mut losses) = (Vec::new(), Vec::new());
    let (mut won, mut verdicts) = (0, 0);
    let (mut kept, mut barred, mut misses) = (0, 0, Vec::new());
    for (course, of_course) in courses.iter().zip(samples.chunks(args.disciplines.len())) {
        let of_each = || args.disciplines.iter().copied().zip(of_course);
        let (own, rivals): (Vec<_>, Vec<_>) = (of_each()
            .filter(|(discipline, _)| *discipline != Discipline::Prio))
        .partition(|(discipline, _)| *discipline == Discipline::Makeway);
        let reasons = own.first().and_then(|(_, own)| lost(own, &rivals));
        let wins = reasons.as_ref().map(Vec::is_empty);
        for (discipline, runs) in of_each() {
            let wins = wins.filter(|_| discipline == Discipline::Makeway);
            cells.push(Cell::of(course, args.world, discipline, runs, wins));
        }
        if let Some(bars) = ideal::missed(&of_each().collect::<Vec<_>>()) {
            barred += 1;
            kept += usize::from(bars.is_empty());
            misses.extend(
                (!bars.is_empty()).then(|| format!("{}: {}", course.name, bars.join("; "))),
            );
        }
        verdicts += usize::from(wins.is_some());
        won += usize::from(wins == Some(true));
        losses.extend((reasons.into_iter().flatten()).map(|why| format!("{}: {why}", course.name)));
    }
    text::say!("{}\n", table(&cells));
    let verdict = match verdicts {
        0 => "no verdict: that needs `makeway`, a rival, and two runs".into(),
        _ => format!("makeway wins {won} of {verdicts} cases"),
    };
    text::say!("{verdict}");
    for loss in &losses {
        text::say!("- {loss}");
    }
    if barred > 0 {
        text::say!(
            "makeway keeps all bars ({}) in {kept} of {barred} cases whose call does not adapt",
            ideal::SAID
        );
        for miss in &misses {
            text::say!("- {miss}");
        }
    }
    write_json(args.json.as_deref(), &cells)?;
    if let Some(file) = &args.html {
        write(file, &page(&cells, &verdict, &losses))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a plan of each cell. Their cases are files beside the plans.
fn write_plans(args: &Gauntlet, folder: &Path) -> anyhow::Result<ExitCode> {
    let courses = courses(args, &folder.join("scenarios"))?;
    let courses = possible(args, courses, worlds::accelerator)?;
    let runs = Replications {
        first: args.first,
        count: u64::from(args.runs),
    };
    for course in &courses {
        for &discipline in &args.disciplines {
            let source = Source::load(&course.file, &course.queues(discipline))?;
            let (scenario, _) = course.with(discipline);
            let name = format!("{}-{discipline}", course.name);
            plans::write(folder, &name, source, &scenario, runs, Detail::Report)?;
        }
    }
    let count = courses.len() * args.disciplines.len();
    text::say!("{count} plans: {}", folder.display());
    Ok(ExitCode::SUCCESS)
}

fn each_once(disciplines: &[Discipline]) -> anyhow::Result<()> {
    for (n, discipline) in disciplines.iter().enumerate() {
        ensure!(
            !disciplines[..n].contains(discipline),
            "`{discipline}` is twice in `--disciplines`: name each once"
        );
    }
    Ok(())
}

/// The cases that were asked for, as files in `folder`.
fn courses(args: &Gauntlet, folder: &Path) -> anyhow::Result<Vec<Course>> {
    builtin::unpack(folder)?;
    let as_course = |name: &str, half, case: &cases::Case| -> anyhow::Result<Course> {
        let text = case.scenario();
        let file = folder.join(format!("{name}.toml"));
        write(&file, &text)?;
        Ok(Course {
            name: name.into(),
            half,
            scenario: makeway_scenario::parse(&text, name, folder, &[])?,
            file,
        })
    };
    let read = |case: &cases::Case| as_course(case.name, Some(case.half), case);
    if let Some(count) = args.drawn {
        let cases = drawn::cases(args.seed).take(count as usize);
        return (1..)
            .zip(cases)
            .map(|(n, case)| as_course(&format!("drawn{}-{n}", args.seed), None, &case))
            .collect();
    }
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

/// Courses that run in the given world, in guests with this accelerator. One that was named, and a discipline, is refused.
fn possible(
    args: &Gauntlet,
    courses: Vec<Course>,
    accelerator: impl FnOnce() -> Result<Accelerator, VmError>,
) -> anyhow::Result<Vec<Course>> {
    let translated = worlds::translated(args.world, &courses, accelerator)?;
    let refused =
        |course: &Course, discipline| worlds::refusal(args.world, translated, course, discipline);
    for &discipline in &args.disciplines {
        let refusals = courses.iter().map(|course| refused(course, discipline));
        let refusals: Option<Vec<String>> = refusals.collect();
        if let Some(why) = refusals.and_then(|all| all.into_iter().next()) {
            bail!("{discipline} in the world {}: {why}", args.world.name());
        }
    }
    let mut kept = Vec::new();
    for course in courses {
        let mut refusals =
            (args.disciplines.iter()).filter_map(|&discipline| refused(&course, discipline));
        match refusals.next() {
            None => kept.push(course),
            Some(why) if args.case.is_empty() => eprintln!("left out: {}: {why}", course.name),
            Some(why) => bail!("case {}: {why}", course.name),
        }
    }
    Ok(kept)
}

fn from_file(file: &Path) -> anyhow::Result<Course> {
    let scenario = makeway_scenario::load(file, &[])?;
    let shown = file.display();
    ensure!(
        scenario.flows.iter().any(|flow| is_call(&flow.group)),
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
        file: file.into(),
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
        if discipline == Discipline::Prio {
            // A case whose call shares its hosts was refused before.
            let _ = ideal::put_first(&mut scenario);
        }
        (scenario, queues)
    }

    /// The same as settings of its file, with a seed for each replication.
    fn settings(&self, discipline: Discipline, replication: u64) -> Vec<String> {
        let seed = format!("seed={replication}");
        [self.queues(discipline), vec![seed]].concat()
    }

    /// Settings of its file that give the discipline to its queues.
    fn queues(&self, discipline: Discipline) -> Vec<String> {
        let measured = |link: &&Link| {
            let is_measured = |egress: &Egress| egress.measure && egress.rate.is_some();
            link.egress.iter().any(is_measured)
        };
        let links = self.scenario.links.iter().filter(measured);
        links
            .map(|link| format!("link.{}.queue.discipline={discipline}", link.name))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;
    use makeway_store::plan::Plan;
    use makeway_store::store::Store;
    use makeway_store::sweep;

    use super::*;

    fn gauntlet(args: &[&str]) -> anyhow::Result<ExitCode> {
        let args = ["makeway-lab", "gauntlet"].iter().chain(args);
        crate::run(crate::Lab::try_parse_from(args)?)
    }

    #[test]
    fn every_case_reads_has_a_call_and_a_name_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        builtin::unpack(folder.path()).unwrap();
        let drawn = drawn::cases(2).take(200);
        for case in CASES.iter().cloned().chain(drawn) {
            let text = case.scenario();
            let scenario = makeway_scenario::parse(&text, case.name, folder.path(), &[]);
            let scenario = scenario.unwrap_or_else(|error| panic!("{error}\n{text}"));
            let has_call = scenario.flows.iter().any(|flow| is_call(&flow.group));
            assert!(has_call, "{}", case.name);
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
        let call =
            sorted("on_time freezes frozen_s delay_p50_ms delay_p99_ms rate_mbps r_factor mos");
        for cell in [fifo, makeway] {
            assert_eq!(sorted(&keys(cell)), form);
            assert_eq!(sorted(&keys(&cell["call"])), call);
            let rest = sorted("goodput_mbps jain page_s page_last_s wait_p50_ms wait_p99_ms");
            assert_eq!(sorted(&keys(&cell["rest"])), rest);
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

    /// A call beside a download for five seconds.
    const SHORT: &str = r#"
duration = "5s"
warmup = "1s"
[node.server]
[node.client]
[link.line]
between = ["server", "client"]
rate = "2mbit"
delay = "10ms"
queue = { at = "server", discipline = "fifo", limit = "50 packets" }
[flow.call]
kind = "poisson"
from = "server"
to = "client"
rate = "80kbit"
[flow.download]
kind = "bulk"
from = "server"
to = "client"
"#;

    #[test]
    fn a_store_gives_the_same_cells_and_runs_come_from_plans_too() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(place("short.toml"), SHORT).unwrap();
        let (case, json) = (place("short.toml"), place("cells.json"));
        let of_case = "--runs 3 --disciplines fifo,makeway,sqf --case";
        let of_case: Vec<&str> = of_case.split(' ').chain([case.as_str()]).collect();
        let cells = |more: &[&str]| {
            let json = ["--json", json.as_str()];
            gauntlet(&[&of_case[..], more, &json[..]].concat()).unwrap();
            std::fs::read_to_string(json[1]).unwrap()
        };
        let parts = |store: &str| {
            let parts = std::fs::read_dir(Path::new(store).join("runs")).unwrap();
            parts
                .map(|part| part.unwrap().file_name())
                .collect::<BTreeSet<_>>()
        };
        let alone = cells(&[]);
        let store = place("store");
        let kept = ["--store", store.as_str()];
        assert_eq!(cells(&kept), alone);
        let made = parts(&store);
        assert_eq!(cells(&kept), alone);
        assert_eq!(parts(&store), made);
        // As on another machine: of the plans, by the means of a sweep.
        let (plans, away) = (place("plans"), place("away"));
        gauntlet(&[&of_case[..], &["--plans", plans.as_str()]].concat()).unwrap();
        let mut filled = Store::open(Path::new(&away)).unwrap();
        for discipline in ["fifo", "makeway", "sqf"] {
            let plan = format!("{plans}/short-{discipline}.json");
            let plan = Plan::from_json(&std::fs::read_to_string(plan).unwrap()).unwrap();
            let done = sweep::run(&mut filled, &plan, &sweep::How::default(), |_| true);
            assert_eq!(done.unwrap().made, 3, "{discipline}");
        }
        let made = parts(&away);
        assert_eq!(cells(&["--store", away.as_str()]), alone);
        assert_eq!(parts(&away), made);
    }

    #[test]
    fn each_discipline_can_be_written_as_a_plan_but_the_ideal() {
        let folder = tempfile::tempdir().unwrap();
        let plans = folder.path().to_str().unwrap();
        let cases = ["n10", "users", "acks5m", "game", "walk", "call2m"];
        let cases: Vec<&str> = cases
            .into_iter()
            .flat_map(|name| ["--case", name])
            .collect();
        gauntlet(&[&cases[..], &["--plans", plans]].concat()).unwrap();
        let files = std::fs::read_dir(folder.path()).unwrap();
        let is_plan = |path: &Path| path.extension().is_some_and(|end| end == "json");
        let files = files.filter(|file| is_plan(&file.as_ref().unwrap().path()));
        assert_eq!(files.count(), 6 * 10);
        let prio = ["--case", "n10", "--disciplines", "prio", "--plans", plans];
        let error = gauntlet(&prio).unwrap_err().to_string();
        assert!(error.contains("n10-prio cannot be written"), "{error}");
        let netns = ["--case", "n10", "--world", "netns", "--plans", plans];
        let error = gauntlet(&netns).unwrap_err().to_string();
        assert!(error.contains("leave out `--world netns`"), "{error}");
    }

    #[test]
    fn refusals_say_what_would_be_right() {
        let refused = |args: &[&str]| gauntlet(args).unwrap_err().to_string();
        let error = refused(&[
            "--world",
            "vm",
            "--disciplines",
            "fifo,confucius",
            "--case",
            "n1",
        ]);
        assert!(error.contains("confucius in the world vm: "), "{error}");
        let error = refused(&["--world", "netns", "--case", "n1", "--case", "dash"]);
        assert!(
            error.contains("case dash: ") && error.contains("`think`"),
            "{error}"
        );
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
