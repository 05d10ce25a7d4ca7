// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts from made-up figures: those of a perfect world, then one of them spoilt.

use makeway_report::model::{FlowReport, QueueReport, Report};

use super::*;
use crate::experiment::Key;
use crate::papers::claim::Verdict;
use crate::papers::tests::{all_are, every_figure_is_refused_when_it_is_wrong, judged, made_up};
use runs::{FIG7_OURS, FIG7_PRINTED, OTHER_RED, PRINTED_RED, PROFILE_CHANGES, VARIANTS};

fn flow(name: String, mbit: f64) -> FlowReport {
    FlowReport {
        group: name.clone(),
        name,
        kind: "bulk".into(),
        ip_bps: Some(mbit * 1e6),
        ..FlowReport::default()
    }
}

fn report(rates: &[f64], full: &[&str]) -> Report {
    let names = ["A", "B", "C", "f4", "f5", "f6", "f7", "f8", "f9", "f10"];
    let flows = names.iter().zip(rates);
    let queue = |name: &&str| QueueReport {
        name: name.to_string(),
        utilisation: 0.99,
        packets_in: 1000,
        expected: 990,
        ..QueueReport::default()
    };
    made_up(
        600.0,
        flows.map(|(name, x)| flow(name.to_string(), *x)).collect(),
        full.iter().map(queue).collect(),
    )
}

/// Rates in steps of a second: `before` up to 300 s, then `after`.
fn over_time(before: [f64; 3], after: [f64; 3]) -> Report {
    let mut report = report(&after, &[]);
    for (i, flow) in report.flows.iter_mut().enumerate() {
        let rate = |t: usize| if t < 300 { before[i] } else { after[i] };
        flow.series_step_s = 1.0;
        flow.goodput_series_bps = (0..600).map(|t| rate(t) * 0.96e6).collect();
    }
    report
}

/// Rates by the definition of fairness, as printed those of the paper, and DiffServ as the paper has it. Three runs of each.
fn perfect() -> Results {
    let mut r = Results::default();
    for variant in &VARIANTS {
        for setup in [&FIG5].into_iter().chain(&TABLES) {
            let printed = variant.name == PAPERS.name && !setup.paper.is_empty();
            let rates = if printed { setup.paper } else { setup.ideal };
            r.push(&setup.key(variant.name), report(rates, setup.full));
        }
    }
    for variant in &PRINTED_RED {
        for setup in OTHER_RED {
            r.push(&setup.key(variant.name), report(setup.paper, setup.full));
        }
    }
    for (name, ..) in PROFILE_CHANGES {
        r.push(&runs::diffserv(name), report(&[0.4; 3], &[]));
    }
    for (table, rates) in [
        ("table7", [0.59, 0.40, 0.21]),
        ("table8", [0.43, 0.42, 0.35]),
        ("table9", [0.41, 0.42, 0.37]),
    ] {
        r.push(&runs::diffserv(table), report(&rates, &[]));
    }
    let (both, all) = ([0.0, 0.75, 0.25], [0.5, 0.25, 0.25]);
    for variant in FIG7 {
        let key = runs::over_time("fig7", variant.name);
        r.push(&key, over_time(both, all));
    }
    for variant in FIG7_PRINTED.into_iter().chain(FIG7_OURS) {
        let key = rest::receiver::over_time("fig7", &variant);
        r.push(&key, over_time(both, all));
    }
    for variant in COLUMNS {
        let key = runs::over_time("fig8", variant.name);
        r.push(&key, over_time(all, MOVED));
        for figure in ["fig7", "fig8"] {
            let [before, after] = if figure == "fig7" {
                [both, all]
            } else {
                [all, MOVED]
            };
            let key = rest::receiver::over_time(figure, &variant);
            r.push(&key, over_time(before, after));
        }
        for (far, rate) in [(None, 0.0), (Some(1), 0.033), (Some(9), 0.28)] {
            let mut rates = FIG5.ideal.to_vec();
            if let Some(flow) = far {
                rates[flow as usize - 1] = rate;
            }
            r.push(&rtt(variant.name, far), report(&rates, &[]));
            r.push(&rest::receiver::rtt(&variant, far), report(&rates, &[]));
        }
    }
    for (key, rates) in rest::tests::perfect() {
        r.push(&key, report(rates, &[]));
    }
    for runs in r.all().values_mut() {
        runs.extend([runs[0].clone(), runs[0].clone()]);
    }
    r
}

#[test]
fn in_a_perfect_world_nothing_differs_and_every_cell_that_is_run_is_judged() {
    let mut r = perfect();
    all_are(Verdict::Reproduced, &judged(&PPS, World::Sim, &r), &[]);
    let names: Vec<Key> = r.all().keys().cloned().collect();
    let mut run: Vec<Key> = (cells(false, World::Sim).into_iter())
        .map(|cell| cell.key)
        .collect();
    run.sort();
    assert_eq!(run, names);
    for claim in claims(&r) {
        let starts = |from: &&str| names.iter().any(|name| name.path().starts_with(*from));
        assert!(
            !claim.from.is_empty() && claim.from.iter().all(starts),
            "{}",
            claim.id
        );
    }
}

#[test]
fn each_verdict_follows_from_its_figures() {
    every_figure_is_refused_when_it_is_wrong(&PPS, World::Sim, &perfect());
}

#[test]
fn what_was_not_measured_is_not_judged() {
    let rate: fn(&mut Report) = |report| report.flows[0].ip_bps = None;
    let link: fn(&mut Report) = |report| report.queues.clear();
    let cases = [
        ("ours/table3", rate, &["pps.table3", "pps.fairness"][..]),
        ("ours/table3", link, &["pps.table3", "pps.fairness"]),
        ("udp/ours/again", rate, &["pps.udp"]),
        ("receiver/ours/table4", rate, &["pps.receiver"]),
    ];
    for (cell, spoil, ids) in cases {
        let mut r = perfect();
        r.runs_mut(cell).iter_mut().for_each(spoil);
        let ours = [Verdict::Reproduced, Verdict::NotMeasured];
        let but: Vec<_> = ids.iter().map(|id| (*id, ours)).collect();
        all_are(Verdict::Reproduced, &judged(&PPS, World::Sim, &r), &but);
    }
}

#[test]
fn a_cell_with_one_thing_changed_is_another_scenario_than_the_unchanged_one() {
    let folder = tempfile::tempdir().unwrap();
    makeway::builtin::unpack(folder.path()).unwrap();
    let cells = cells(true, World::Sim);
    let scenario = |cell: &Cell| {
        let file = folder.path().join(cell.file);
        format!(
            "{:?}",
            makeway_scenario::load(&file, &cell.settings()).unwrap()
        )
    };
    let mut compared = 0;
    for changed in &cells {
        let parts = changed.key.path().split('/');
        let parts = parts.map(|part| match part.split_once('-') {
            Some((of @ ("printed" | "ours"), _)) => of,
            _ => part,
        });
        let unchanged = Key::new(parts.collect::<Vec<_>>().join("/"));
        if unchanged == changed.key {
            continue;
        }
        let unchanged = cells.iter().find(|cell| cell.key == unchanged);
        let unchanged =
            unchanged.unwrap_or_else(|| panic!("{} has no unchanged cell", changed.key));
        assert_ne!(scenario(changed), scenario(unchanged), "{}", changed.key);
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
}
