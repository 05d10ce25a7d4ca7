// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts from made-up figures: those of a perfect world, then one of them spoilt.

use makeway_report::model::{FlowReport, QueueReport, Report};

use super::*;
use crate::papers::grid::Key;
use crate::papers::tests::made_up;
use runs::VARIANTS;

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

/// Rates by the definition of fairness, and DiffServ as the paper has it.
fn perfect() -> Results {
    let mut r = Results::default();
    for variant in &VARIANTS {
        for setup in [&FIG5].into_iter().chain(&TABLES) {
            r.push(&setup.key(variant.name), report(setup.ideal, setup.full));
        }
    }
    for (table, rates) in [
        ("table7", [0.59, 0.40, 0.21]),
        ("table8", [0.43, 0.42, 0.35]),
        ("table9", [0.41, 0.42, 0.37]),
    ] {
        r.push(&runs::diffserv(table), report(&rates, &[]));
    }
    let (both, all) = ([0.0, 0.75, 0.25], [0.5, 0.25, 0.25]);
    for cell in [Fig7::Ours, Fig7::Window, Fig7::Paper] {
        r.push(&cell.key(), over_time(both, all));
    }
    r.push(&runs::fig8(), over_time(all, [0.3, 0.45, 0.25]));
    for (far, rate) in [(None, 0.0), (Some(1), 0.033), (Some(9), 0.25)] {
        let mut rates = FIG5.ideal.to_vec();
        if let Some(flow) = far {
            rates[flow as usize - 1] = rate;
        }
        r.push(&rtt(far), report(&rates, &[]));
    }
    for (key, rates) in rest::tests::perfect() {
        r.push(&key, report(rates, &[]));
    }
    r
}

/// The ids of what differs.
fn differs(r: &Results) -> Vec<&'static str> {
    let claims = claims(r).into_iter();
    claims
        .filter(|claim| claim.verdict == Verdict::Differs)
        .map(|claim| claim.id)
        .collect()
}

#[test]
fn in_a_perfect_world_nothing_differs_and_every_cell_that_is_run_is_judged() {
    let mut r = perfect();
    assert_eq!(differs(&r), Vec::<&str>::new());
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
    let spoilt = |cell: &str, spoil: &dyn Fn(&mut Report)| {
        let mut r = perfect();
        r.runs_mut(cell).iter_mut().for_each(spoil);
        differs(&r)
    };
    let rate = |flow: usize, factor: f64| {
        move |report: &mut Report| {
            let ip_bps = &mut report.flows[flow].ip_bps;
            *ip_bps = ip_bps.map(|bps| bps * factor);
        }
    };
    assert_eq!(spoilt("ours/fig5", &rate(0, 1.11)), ["pps.fig5"]);
    assert_eq!(
        spoilt("ours/fig5", &|x| x.queues[0].expected = 979),
        ["pps.k"]
    );
    for (cell, factor, id) in [
        ("ours/table1", 0.92, "pps.table1"),
        ("ours/table2", 0.92, "pps.table2"),
        ("ours/table3", 0.92, "pps.table3"),
        ("ours/table4", 0.94, "pps.table4"),
        ("ours/table5", 0.94, "pps.table5"),
        ("ours/table6a", 0.98, "pps.table6"),
        ("ours/table6b", 0.92, "pps.table6"),
    ] {
        assert_eq!(spoilt(cell, &rate(0, factor)), [id, "pps.fairness"]);
    }
    assert_eq!(
        spoilt("ours/table7", &rate(2, 1.06)),
        ["pps.table7", "pps.table8", "pps.table9", "pps.fairness"]
    );
    let idle = |x: &mut Report| x.queues[0].utilisation = 0.97;
    assert_eq!(spoilt("ours/table3", &idle), ["pps.table3", "pps.fairness"]);
    assert_eq!(spoilt("diffserv/table7", &rate(1, 0.85)), ["pps.table7"]);
    assert_eq!(spoilt("diffserv/table8", &rate(0, 1.5)), ["pps.table8"]);
    assert_eq!(spoilt("diffserv/table9", &rate(2, 0.5)), ["pps.table9"]);
    let late = |x: &mut Report| x.flows[0].goodput_series_bps[300..350].fill(0.0);
    assert_eq!(spoilt("fig7/ours", &late), ["pps.fig7"]);
    let moves = |x: &mut Report| x.flows[2].goodput_series_bps[300..].fill(0.27 * 0.96e6);
    assert_eq!(spoilt("fig8", &moves), ["pps.fig8"]);
    assert_eq!(spoilt("rtt/9", &rate(8, 1.2)), ["pps.fig11_12"]);
}

#[test]
fn what_was_not_measured_is_not_judged() {
    let without = |cell: &str, spoil: fn(&mut Report)| -> Vec<_> {
        let mut r = perfect();
        r.runs_mut(cell).iter_mut().for_each(spoil);
        let claims = claims(&r).into_iter().map(Claim::judged);
        let not_measured = claims.filter(|claim| claim.verdict == Verdict::NotMeasured);
        not_measured.map(|claim| claim.id).collect()
    };
    let rate: fn(&mut Report) = |report| report.flows[0].ip_bps = None;
    let link: fn(&mut Report) = |report| report.queues.clear();
    for spoil in [rate, link] {
        assert_eq!(
            without("ours/table3", spoil),
            ["pps.table3", "pps.fairness"]
        );
    }
    assert_eq!(without("udp/again", rate), ["pps.udp"]);
    assert_eq!(without("receiver/table4", rate), ["pps.receiver"]);
}

#[test]
fn verdicts_on_receivers_datagrams_policing_and_bits_follow_from_their_figures() {
    for (cell, factor, id) in [
        ("receiver/table4", 1.11, "pps.receiver"),
        ("udp/again", 0.94, "pps.udp"),
        ("policing/free", 0.4, "pps.policing"),
        ("policing/policed", 1.06, "pps.policing"),
        ("bits/one-hop/logarithmic/16", 1.5, "pps.bits"),
        ("bits/multi-hop/logarithmic/8", 1.5, "pps.bits"),
    ] {
        let mut r = perfect();
        for report in r.runs_mut(cell) {
            let ip_bps = &mut report.flows[0].ip_bps;
            *ip_bps = ip_bps.map(|bps| bps * factor);
        }
        assert_eq!(differs(&r), [id]);
    }
}
