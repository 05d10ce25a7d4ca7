// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of every paper.

use std::collections::BTreeSet;

use super::claim::Claim;
use super::criteria::Side;

use makeway_report::model::{FORMAT, FlowReport, QueueReport, Report};

use super::*;
use crate::experiment::Key;
use makeway::builtin;

/// A report of that many seconds in simulated time, from made-up figures.
pub fn made_up(seconds: f64, flows: Vec<FlowReport>, queues: Vec<QueueReport>) -> Report {
    Report {
        format: FORMAT,
        title: "made up".into(),
        world: "sim".into(),
        environment: Default::default(),
        set: Default::default(),
        lateness: None,
        warnings: Vec::new(),
        seed: 1,
        seconds,
        complete: true,
        asi: None,
        flows,
        radios: Vec::new(),
        queues,
    }
}

/// Verdicts of a paper from these results.
pub fn judged(paper: &Paper, world: World, r: &Results) -> Vec<Claim> {
    let criteria = Criteria::of(paper.id).unwrap();
    criteria.judge(world, (paper.claims)(r)).unwrap()
}

type Spoil = Box<dyn Fn(&mut Report)>;

/// Changes of a report, each of which makes some figures wrong.
fn spoils() -> Vec<Spoil> {
    let mut spoils: Vec<Spoil> = Vec::new();
    // Of one class only, or of both: on time and received.
    for which in [Some(0), Some(1), None] {
        for [on_time, received] in [
            [0.0, 0.0],
            [0.3, 0.3],
            [0.5, 1.0],
            [0.98, 0.98],
            [0.75, 0.95],
        ] {
            spoils.push(Box::new(move |report| {
                for media in report
                    .flows
                    .iter_mut()
                    .filter_map(|flow| flow.media.as_mut())
                {
                    let classes = media.classes.iter_mut().enumerate();
                    let chosen = classes.filter(|(n, _)| which.is_none_or(|which| which == *n));
                    for (_, class) in chosen {
                        class.on_time = (on_time * class.offered as f64) as u64;
                        class.received = (received * class.offered as f64) as u64;
                    }
                }
            }));
        }
    }
    for flow in [None, Some(0), Some(1), Some(2), Some(8)] {
        for factor in [0.1, 0.3, 0.7, 1.4, 4.0] {
            spoils.push(Box::new(move |report| {
                let flows = report.flows.iter_mut().enumerate();
                flows
                    .filter(|(n, _)| flow.is_none_or(|flow| flow == *n))
                    .for_each(|(_, flow)| scale(flow, factor));
            }));
        }
    }
    for loss in [0.0, 0.005, 0.5, 0.99] {
        spoils.push(Box::new(move |report| {
            for datagrams in report
                .flows
                .iter_mut()
                .filter_map(|flow| flow.datagrams.as_mut())
            {
                datagrams.loss = loss;
                datagrams.received = (datagrams.sent as f64 * (1.0 - loss)) as u64;
            }
        }));
    }
    for factor in [0.1, 5.0] {
        spoils.push(Box::new(move |report| {
            for datagrams in report
                .flows
                .iter_mut()
                .filter_map(|flow| flow.datagrams.as_mut())
            {
                datagrams.ipdv_ms.mean *= factor;
                datagrams.delay_ms.mean *= factor;
                datagrams.delay_ms.p99 *= factor;
            }
        }));
        spoils.push(Box::new(move |report| {
            report.asi = report.asi.map(|asi| asi * factor);
            for tasks in report
                .flows
                .iter_mut()
                .filter_map(|flow| flow.tasks.as_mut())
            {
                tasks.completion_ms.mean *= factor;
                tasks.completion_ms.p99 *= factor;
            }
        }));
    }
    for factor in [0.1, 5.0] {
        spoils.push(Box::new(move |report| {
            for waits in report
                .flows
                .iter_mut()
                .filter_map(|flow| flow.queueing.as_mut())
            {
                waits.mean_ms *= factor;
            }
        }));
    }
    // Of one of two streams only.
    for stream in [0, 1] {
        spoils.push(Box::new(move |report| {
            let streams = report
                .flows
                .iter_mut()
                .filter_map(|flow| flow.datagrams.as_mut());
            for datagrams in streams.skip(stream).take(1) {
                datagrams.loss = 0.9;
                datagrams.ipdv_ms.mean *= 10.0;
            }
        }));
    }
    // Of the first flow of a group only: unfair.
    spoils.push(Box::new(|report| {
        let downloads = report.flows.iter_mut().filter(|flow| flow.kind == "bulk");
        downloads
            .enumerate()
            .for_each(|(n, flow)| flow.goodput_bps *= if n == 0 { 20.0 } else { 0.2 });
    }));
    for (share, drops) in [(0.5, 0), (0.99, 500_000)] {
        spoils.push(Box::new(move |report| {
            for queue in &mut report.queues {
                queue.utilisation = share;
                queue.expected = (queue.packets_in as f64 * share) as u64;
                queue.drops = [("tail".to_owned(), drops)].into();
            }
        }));
    }
    for seconds in [0..25, 30..60, 100..300, 330..360, 300..600] {
        spoils.push(Box::new(move |report| {
            for flow in &mut report.flows {
                let series = flow.goodput_series_bps.iter_mut().enumerate();
                series
                    .filter(|(n, _)| seconds.contains(n))
                    .for_each(|(n, bps)| *bps *= if n / 10 % 2 == 0 { 0.2 } else { 0.6 });
            }
        }));
    }
    spoils.push(Box::new(|report| {
        for flow in &mut report.flows {
            let least = flow
                .goodput_series_bps
                .iter()
                .copied()
                .fold(f64::INFINITY, f64::min);
            flow.goodput_series_bps.fill(least);
        }
    }));
    for late in [false, true] {
        spoils.push(Box::new(move |report| {
            for media in report
                .flows
                .iter_mut()
                .filter_map(|flow| flow.media.as_mut())
            {
                if let Some(occupancy) = &mut media.occupancy {
                    occupancy.error.p50 = 9.0;
                    occupancy.within_two = 0.3;
                }
                for class in &mut media.classes {
                    class.on_time = if late { 0 } else { class.received };
                }
            }
        }));
    }
    for r_factor in [20.0, 92.0] {
        spoils.push(Box::new(move |report| {
            let calls = report
                .flows
                .iter_mut()
                .filter_map(|flow| flow.voice.as_mut());
            calls
                .enumerate()
                .for_each(|(n, voice)| voice.r_factor = r_factor - n as f64);
        }));
    }
    spoils
}

/// All rates of a flow.
fn scale(flow: &mut FlowReport, factor: f64) {
    flow.goodput_bps *= factor;
    flow.ip_bps = flow.ip_bps.map(|bps| bps * factor);
    flow.goodput_series_bps
        .iter_mut()
        .for_each(|bps| *bps *= factor);
}

/// Feeds each figure that the criteria bound with a wrong result until it is refused: cells of its claim are spoilt, one after the other.
pub fn every_figure_is_refused_when_it_is_wrong(paper: &Paper, world: World, perfect: &Results) {
    every_figure_but_closed_forms_is_refused(paper, world, perfect, &[]);
}

/// The same, but for columns of closed forms, which no run can make wrong.
pub fn every_figure_but_closed_forms_is_refused(
    paper: &Paper,
    world: World,
    perfect: &Results,
    closed: &[(&str, Side)],
) {
    let criteria = Criteria::of(paper.id).unwrap();
    let claims = judged(paper, world, perfect);
    let mut open = BTreeSet::new();
    for claim in claims.iter().filter(|claim| !claim.from.is_empty()) {
        let criterion = criteria.get(claim.id, world).unwrap();
        for side in Side::BOTH {
            if closed.contains(&(claim.id, side)) {
                continue;
            }
            let column = if side == Side::Printed {
                &claim.printed
            } else {
                &claim.ours
            };
            for check in &criterion.check {
                // A figure that no cell measures yet is not judged.
                if check.bar(side).is_some() && column.figure(&check.figure).is_some() {
                    open.insert((claim.id, side, check.figure.clone()));
                }
            }
        }
    }
    assert!(!open.is_empty());
    let spoils = spoils();
    let mut r = perfect.clone();
    while let Some(target) = open.first().cloned() {
        let from = claims
            .iter()
            .find(|claim| claim.id == target.0)
            .unwrap()
            .from;
        let mut refused = false;
        let tries = groups(perfect, from);
        let tries = tries
            .iter()
            .flat_map(|group| spoils.iter().map(move |spoil| (group, spoil)));
        for (group, spoil) in tries {
            for key in group {
                r.runs_mut(key.path()).iter_mut().for_each(spoil);
            }
            // A change of something that these reports do not have tells nothing.
            if group.iter().all(|key| r.get(key) == perfect.get(key)) {
                continue;
            }
            for claim in (paper.claims)(&r) {
                let criterion = criteria.get(claim.id, world).unwrap();
                for (side, column) in [(Side::Printed, &claim.printed), (Side::Ours, &claim.ours)] {
                    for figure in criterion.refuses(side, column) {
                        open.remove(&(claim.id, side, figure.to_owned()));
                    }
                }
            }
            for key in group {
                r.runs_mut(key.path())
                    .clone_from_slice(&perfect[key.clone()]);
            }
            refused = !open.contains(&target);
            if refused {
                break;
            }
        }
        assert!(refused, "no wrong result makes it fail: {target:?}");
    }
}

/// Cells of a claim that are spoilt together: those whose names have a part in common, then each alone.
fn groups(r: &Results, from: &[&str]) -> Vec<Vec<Key>> {
    let of_claim = |key: &&Key| from.iter().any(|from| key.path().starts_with(from));
    let keys: Vec<_> = r.keys().filter(of_claim).cloned().collect();
    let parts: BTreeSet<&str> = keys.iter().flat_map(|key| key.path().split('/')).collect();
    let with = |part: &str| {
        let has = |key: &&Key| key.path().split('/').any(|other| other == part);
        keys.iter().filter(has).cloned().collect()
    };
    let alone = keys.iter().map(|key| vec![key.clone()]);
    parts.into_iter().map(with).chain(alone).collect()
}

/// Asserts both verdicts of every claim, but for those named.
pub fn all_are(verdict: claim::Verdict, claims: &[Claim], but: &[(&str, [claim::Verdict; 2])]) {
    for claim in claims {
        let named = but.iter().find(|(id, _)| *id == claim.id);
        let expected = named.map_or([verdict; 2], |(_, verdicts)| *verdicts);
        let found = [claim.printed.verdict, claim.ours.verdict];
        assert_eq!(
            found, expected,
            "{}\n{}\n{}",
            claim.id, claim.printed.value, claim.ours.value
        );
    }
}

fn all_cells() -> impl Iterator<Item = (&'static Paper, Vec<Cell>)> {
    PAPERS.iter().flat_map(|paper| {
        let worlds = paper.worlds.iter();
        worlds.flat_map(move |world| [false, true].map(|full| (paper, (paper.cells)(full, *world))))
    })
}

#[test]
fn every_cell_is_a_scenario_of_its_paper_that_reads_and_has_a_name_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    builtin::unpack(folder.path()).unwrap();
    let mut read = BTreeSet::new();
    for (paper, cells) in all_cells() {
        let mut names = BTreeSet::new();
        for cell in cells {
            assert!(names.insert(cell.key.clone()), "{} twice", cell.key);
            // An RFC is no paper.
            let home = format!("{}/", paper.id);
            let file = cell.file.strip_prefix("papers/").unwrap_or(cell.file);
            assert!(file.starts_with(&home), "{}", cell.file);
            if read.insert((cell.file, cell.settings())) {
                let file = folder.path().join(cell.file);
                makeway_scenario::load(&file, &cell.settings()).unwrap();
            }
        }
    }
}

#[test]
fn days_are_dates() {
    for (days, expected) in [
        (0, [1970, 1, 1]),
        (59, [1970, 3, 1]),
        (11_016, [2000, 2, 29]),
        (20_780, [2026, 11, 23]),
    ] {
        assert_eq!(date(days), expected);
    }
}

#[test]
fn ids_tell_papers_apart_and_each_has_a_world() {
    let ids: BTreeSet<_> = PAPERS.iter().map(|paper| paper.id).collect();
    assert_eq!(ids.len(), PAPERS.len());
    assert!(PAPERS.iter().all(|paper| !paper.worlds.is_empty()));
}

/// The arguments of `makeway-lab papers`.
fn parsed(args: &str) -> Papers {
    use clap::{Args, FromArgMatches};
    let command = Papers::augment_args(clap::Command::new("papers"));
    let args = ["papers"].into_iter().chain(args.split_whitespace());
    let matches = command.try_get_matches_from(args).unwrap();
    Papers::from_arg_matches(&matches).unwrap()
}

#[test]
fn verdicts_are_printed_or_written_as_json() {
    let json = |args: &str| parsed(args).json;
    assert_eq!(json("rfc8867"), None);
    assert_eq!(json("rfc8867 --json"), Some(None));
    let file = Some(Some("verdicts.json".into()));
    assert_eq!(json("rfc8867 --json verdicts.json"), file);
}

#[test]
fn replications_are_replaced_or_bounded_and_single_runs_stay_single() {
    let runs = |args: &str| {
        let args = parsed(args);
        let cell = |runs| Cell {
            runs,
            ..Cell::new(Key::new("a"), "b", 1)
        };
        let mut cells = [None, Some(1), Some(3), Some(40)].map(cell);
        let grid = grid(&args, &mut cells);
        let runs = grid.cells.iter().map(|cell| grid.replications(cell));
        runs.collect::<Vec<_>>()
    };
    assert_eq!(runs(""), [3, 1, 3, 40]);
    assert_eq!(runs("--full"), [10, 1, 3, 40]);
    assert_eq!(runs("--runs 5"), [5, 1, 5, 5]);
    assert_eq!(runs("--at-most 5"), [3, 1, 3, 5]);
    assert_eq!(runs("--full --at-most 5"), [5, 1, 3, 5]);
}

#[test]
fn all_worlds_are_those_of_each_paper_and_simulated_time_is_first() {
    let args = parsed("--all-worlds");
    let all = chosen(&args).unwrap();
    let first = all.iter().filter(|(_, world)| *world == World::Sim).count();
    assert_eq!(first, PAPERS.len());
    assert!(all[..first].iter().all(|(_, world)| *world == World::Sim));
    assert_eq!(
        all.len(),
        PAPERS.iter().map(|p| p.worlds.len()).sum::<usize>()
    );
    let names: BTreeSet<_> = all
        .iter()
        .map(|(paper, world)| report_of(paper, *world))
        .collect();
    assert_eq!(names.len(), all.len());
    assert!(names.contains("sqf.md") && names.contains("sqf-vm.md"));
    let one = parsed("ncq --world netns");
    let (paper, world) = chosen(&one).unwrap()[0];
    assert_eq!(report_of(paper, world), "ncq-netns.md");
}

/// Runs of a scenario that is not there.
fn a_lost_cell(_: bool, _: World) -> Vec<Cell> {
    vec![Cell::new(Key::new("a"), "papers/lost.toml", 1)]
}

fn no_cells(_: bool, _: World) -> Vec<Cell> {
    Vec::new()
}

fn one_claim(_: &Results) -> Vec<Claim> {
    vec![Claim {
        id: "sbpn.receiver_unchanged",
        from: &["guest/"],
        ..Claim::default()
    }]
}

fn no_claims(_: &Results) -> Vec<Claim> {
    Vec::new()
}

fn a_broken_guest(claims: &mut [Claim], _: &Path, _: Option<u32>) -> anyhow::Result<()> {
    claims[0].why = "The guest broke.".into();
    anyhow::bail!("the guest broke")
}

static LOST: Paper = Paper {
    cells: a_lost_cell,
    ..sqf::SQF
};
static BROKEN: Paper = Paper {
    cells: no_cells,
    claims: one_claim,
    beside: Some(a_broken_guest),
    ..sbpn::SBPN
};
static WHOLE: Paper = Paper {
    cells: no_cells,
    claims: no_claims,
    beside: None,
    ..ncq::NCQ
};

#[test]
fn a_paper_whose_runs_fail_is_not_measured_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    let args = parsed(&format!(
        "--all-worlds --out {place} --json {place}/all.json"
    ));
    let chosen = [&LOST, &BROKEN, &WHOLE].map(|paper| (paper, World::Sim));
    let go_on = AtomicBool::new(false);
    assert_eq!(report(&args, &chosen, &go_on).unwrap(), Some(2));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let told: serde_json::Value = serde_json::from_str(&read("all.json")).unwrap();
    let told = told.as_array().unwrap();
    for (one, id, why) in [
        (&told[0], "sqf", "Its runs failed: "),
        (&told[1], "sbpn.receiver_unchanged", "The guest broke."),
    ] {
        assert_eq!((&one["id"], &one["world"]), (&id.into(), &"sim".into()));
        for column in ["printed", "ours"] {
            assert_eq!(one[column]["verdict"], "not measured", "{one}");
        }
        assert!(one["why"].as_str().unwrap().starts_with(why), "{one}");
    }
    assert_eq!(told.len(), 2);
    for name in ["index.html", "sqf.md"] {
        assert!(read(name).contains("lost.toml"), "{name}");
    }
    assert!(read("sbpn.md").contains("The guest broke."));
    assert!(read("ncq.md").contains("No run is finished."));
    // A signal is no failure, and without `--all-worlds` the first one ends it.
    let stopped = AtomicBool::new(true);
    for first in [&LOST, &BROKEN] {
        let chosen = [(first, World::Sim)];
        assert_eq!(report(&args, &chosen, &stopped).unwrap(), None);
        let args = parsed(&format!("--out {place}"));
        assert!(report(&args, &chosen, &go_on).is_err(), "{}", first.id);
    }
}

#[test]
fn a_time_is_minutes_and_seconds() {
    let of = |seconds| lasted(Duration::from_secs(seconds));
    assert_eq!(
        [0, 59, 60, 192].map(of),
        ["0 s", "59 s", "1 min 0 s", "3 min 12 s"]
    );
}

#[test]
fn a_papers_cells_are_written_as_plans() {
    use clap::Parser;
    let papers = |args: &str| {
        let args = ["makeway-lab", "papers"].into_iter().chain(args.split(' '));
        crate::run(crate::Lab::try_parse_from(args).unwrap())
    };
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    papers(&format!("abrc --runs 2 --plans {place}")).unwrap();
    let names = std::fs::read_dir(folder.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let plans = names.filter(|name| name.starts_with("abrc-") && name.ends_with(".json"));
    let abrc = PAPERS.iter().find(|paper| paper.id == "abrc").unwrap();
    assert_eq!(plans.count(), (abrc.cells)(false, World::Sim).len());
    let error = papers(&format!("sqf --world netns --plans {place}"));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("add `--world sim`"), "{error}");
}
