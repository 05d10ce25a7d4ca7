// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statements of Zhang, Wang, Peterson, Krishnamurthy, "Probabilistic Packet Scheduling", Princeton TR-632-01, 2001.
//! Every verdict follows from the figures of this run alone.
//!
//! - [`runs`]: the experiments;
//! - [`figures`]: what they are judged by;
//! - [`charts`]: the paper's figures and tables;
//! - [`rest`]: receivers, datagrams, policing, bits;
//! - here: each statement, theirs and ours.

mod charts;
mod figures;
mod rest;
mod runs;

use makeway_report::model::Report;

use super::claim::{Claim, Verdict};
use super::figures::{mean, percent, share};
use super::grid::Results;
use super::paper::{Paper, World};
use figures::{fit, least_utilisation, mean_distance, over_time, rates, worst};
use runs::{CHANGE, FIG5, Fig7, OURS, PAPERS, PROFILES, Setup, TABLES, cells, rtt};

/// How it is run again.
pub const PPS: Paper = Paper {
    id: "pps",
    title: "Probabilistic packet scheduling, run again",
    source: "M. Zhang, R. Wang, L. Peterson, A. Krishnamurthy, Princeton TR-632-01, 2001",
    worlds: &[World::Sim],
    shortened: "Each run has the paper's 600 s; ten replications of each.",
    full: "Each run has the paper's 600 s; ten replications of each.",
    cells,
    claims,
    beside: None,
};

/// Full links carry as much as the paper's.
const UTILISATION: f64 = 0.98;

/// Every statement, in the order of the paper.
fn claims(r: &Results) -> Vec<Claim> {
    let mut claims = vec![fig5(r), k(r)];
    let [tables @ .., both] = &TABLES;
    claims.push(table("pps.table1", "Table 1: A, B, C", &tables[..1], r));
    claims.push(fig7(r));
    claims.push(fig8(r));
    claims.push(table("pps.table2", "Table 2: A, B, C", &tables[1..2], r));
    claims.push(table("pps.table3", "Table 3: A, B, C", &tables[2..3], r));
    claims.push(table("pps.table4", "Table 4: A, B, C", &tables[3..4], r));
    claims.push(table("pps.table5", "Table 5: A, B, C", &tables[4..5], r));
    claims.push(table(
        "pps.table6",
        "Table 6, (a) ten flows of 30 ms, (b) of 30, 60, ... 300 ms",
        &tables[5..],
        r,
    ));
    claims.push(fig11_12(r));
    claims.extend(
        PROFILES
            .iter()
            .map(|(name, kbit)| diffserv(name, *kbit, both, r)),
    );
    claims.extend(rest::claims(r));
    claims.push(goal(r));
    claims
}

const ONE_HOP: &str =
    "nine TCP flows of 100, 200, ... 900 tickets/s share 1.5 Mbit/s, round trip 26 ms, 600 s";

fn fig5(r: &Results) -> Claim {
    let judge = |variant: &str| {
        let rates = rates(&r[FIG5.key(variant)]);
        let points: Vec<(f64, f64)> = (rates.iter().enumerate())
            .map(|(i, x)| ((i + 1) as f64 * 100.0, x.mean))
            .collect();
        let distance = worst(rates.iter().map(|x| x.mean), FIG5.ideal);
        (fit(&points).1, distance)
    };
    let (r2, distance) = judge(OURS.name);
    let (of_paper, paper_distance) = judge(PAPERS.name);
    let single = FIG5.of_single_runs(r, OURS.name);
    Claim {
        id: "pps.fig5",
        verdict: Verdict::of(r2 >= 0.99 && distance <= 0.1),
        paper: "Throughput is proportional to tickets: flow i gets 1.5 i / 45 Mbit/s.".into(),
        ours: format!(
            "R² = {r2:.4} about a line through the origin; the worst flow is {} from its share, {} in a single run. With the paper's parameters R² = {of_paper:.4}, {}",
            percent(distance),
            share(&single),
            percent(paper_distance)
        ),
        ideal: "R² = 1".into(),
        why: "The first flow is due four packets a second: it lives from timeout to timeout."
            .into(),
        setup: ONE_HOP,
        from: &["ours/fig5", "paper/fig5"],
        charts: vec![charts::by_tickets(
            r,
            "Fig. 5: tickets and throughput",
            &[
                (FIG5.key(OURS.name), "ours"),
                (FIG5.key(PAPERS.name), "the paper's parameters"),
            ],
        )],
        ..Claim::default()
    }
}

fn k(r: &Results) -> Claim {
    let within = |variant: &str| {
        mean(&r[FIG5.key(variant)], |run| {
            let queue = run.queues.iter().find(|q| q.name == FIG5.full[0]);
            queue.map_or(f64::NAN, |q| q.expected as f64 / q.packets_in as f64)
        })
    };
    let [ours, papers] = [OURS.name, PAPERS.name].map(within);
    Claim {
        id: "pps.k",
        verdict: Verdict::of(ours.mean >= 0.98),
        paper: "More than 98 % of poor flows' packets carry tickets from MinTkt to 1.4 MinTkt.".into(),
        ours: format!("{}; with the paper's parameters {}", share(&ours), share(&papers)),
        why: "All nine flows are poor, so that all packets count, those of the beginning too, before sources know their rate.".into(),
        setup: ONE_HOP,
        from: &["ours/fig5", "paper/fig5"],
        ..Claim::default()
    }
}

/// One table, or the two halves of one.
fn table(id: &'static str, what: &str, setups: &[Setup], r: &Results) -> Claim {
    let judged = setups.iter().map(|setup| {
        let (ours, theirs) = (setup.distance(r, OURS.name), setup.paper_distance());
        let used = setup.utilisation(r, OURS.name);
        (ours <= theirs && used >= UTILISATION, setup.equals_paper(r))
    });
    let (closer, equal) = judged.fold((true, true), |a, b| (a.0 && b.0, a.1 && b.1));
    let text = |text: &dyn Fn(&Setup) -> String| {
        let texts: Vec<String> = setups.iter().map(text).collect();
        texts.join("; ")
    };
    Claim {
        id,
        verdict: match (closer, equal) {
            (_, true) => Verdict::Reproduced,
            (true, false) => Verdict::CloserToIdeal,
            (false, false) => Verdict::Differs,
        },
        paper: format!(
            "{what}: {} Mbit/s, at most {} from the ideal.",
            text(&|s| charts::list(s.paper)),
            text(&|s| percent(s.paper_distance()))
        ),
        ours: text(&|s| {
            let means: Vec<f64> = rates(&r[s.key(OURS.name)]).iter().map(|x| x.mean).collect();
            format!(
                "{} Mbit/s, at most {} from the ideal ({} in a single run; {} with the paper's parameters), the link {} used",
                charts::list(&means),
                percent(s.distance(r, OURS.name)),
                share(&s.of_single_runs(r, OURS.name)),
                percent(s.distance(r, PAPERS.name)),
                percent(s.utilisation(r, OURS.name))
            )
        }),
        ideal: format!("{} Mbit/s", text(&|s| charts::list(s.ideal))),
        why: "Rates are of IP packets over the whole run, slow start included.".into(),
        setup: "ns-2's TCP with packets of 1000 B, RED's thresholds and buffers ns-2's of the time: the paper does not state them",
        from: &["ours/table", "paper/table"],
        tables: setups.iter().map(|setup| charts::table(r, setup)).collect(),
        ..Claim::default()
    }
}

/// Rates of A, B, C from `from` to `to`, and the worst distance to `ideal`.
fn between(runs: &[Report], from: f64, to: f64, ideal: &[f64; 3]) -> (Vec<f64>, f64) {
    let rates: Vec<f64> = (0..3)
        .map(|flow| {
            let series = over_time(runs, flow, 10.0);
            let inside = series.iter().filter(|(t, _)| *t > from && *t <= to);
            let (n, sum) = inside.fold((0, 0.0), |(n, sum), (_, x)| (n + 1, sum + x));
            sum / f64::from(n)
        })
        .collect();
    let due = |ideal: &f64| *ideal > 0.0;
    let distance = worst(
        rates.iter().zip(ideal).filter(|x| due(x.1)).map(|x| *x.0),
        &ideal.iter().copied().filter(due).collect::<Vec<_>>(),
    );
    (rates, distance)
}

/// Within a tenth of what is due.
const CLOSE: f64 = 0.1;

fn fig7(r: &Results) -> Claim {
    let runs = &r[Fig7::Ours.key()];
    let (before, early) = between(runs, 100.0, CHANGE, &[0.0, 0.75, 0.25]);
    let due = [0.50, 0.25, 0.25];
    let soon = |cell: Fig7| between(&r[cell.key()], CHANGE + 30.0, CHANGE + 60.0, &due);
    let (minute, fast) = soon(Fig7::Ours);
    let (after, late) = between(runs, 500.0, 600.0, &due);
    Claim {
        id: "pps.fig7",
        verdict: Verdict::of(early <= CLOSE && fast <= CLOSE && late <= CLOSE),
        paper: "B and C have 0.75 and 0.25 before A begins at 300 s; then A, B, C go to 0.5, 0.25, 0.25 quickly.".into(),
        ours: format!(
            "{} before, {} from 330 to 360 s, {} from 500 s on",
            charts::list(&before[1..]),
            charts::list(&minute),
            charts::list(&after)
        ),
        ideal: "0.75 and 0.25; 0.50, 0.25, 0.25 Mbit/s".into(),
        why: format!(
            "Within 10 % at each time; quickly is within 30 s. Sources and links know their rates over the paper's window of 60 s, and forget what was before as slowly. With a window of 10 s it is {} from 330 to 360 s; with the paper's parameters {}.",
            charts::list(&soon(Fig7::Window).0),
            charts::list(&soon(Fig7::Paper).0)
        ),
        setup: "as Table 1, A begins at 300 s",
        from: &["fig7/"],
        charts: vec![
            charts::over_time(runs, "Fig. 7: A begins at 300 s"),
            charts::over_time(&r[Fig7::Window.key()], "Fig. 7 with a window of 10 s"),
            charts::over_time(&r[Fig7::Paper.key()], "Fig. 7 with the paper's parameters"),
        ],
        ..Claim::default()
    }
}

fn fig8(r: &Results) -> Claim {
    let runs = &r[runs::fig8()];
    let (before, early) = between(runs, 100.0, CHANGE, &[0.50, 0.25, 0.25]);
    let (after, late) = between(runs, CHANGE + 60.0, 600.0, &[0.30, 0.45, 0.25]);
    let moved = (after[2] / before[2] - 1.0).abs();
    Claim {
        id: "pps.fig8",
        verdict: Verdict::of(early <= CLOSE && late <= CLOSE && moved <= CLOSE / 2.0),
        paper: "When at 300 s the link of A is issued 600 instead of 1000 tickets/s and that of B 900 instead of 500, A goes from 0.50 to 0.30, B from 0.25 to 0.45, and C does not change.".into(),
        ours: format!(
            "{} before, {} from 360 s on; C changes by {}",
            charts::list(&before),
            charts::list(&after),
            percent(moved)
        ),
        ideal: "0.50, 0.25, 0.25; 0.30, 0.45, 0.25 Mbit/s".into(),
        why: "Within 10 % at each time, C within 5 % of what it had.".into(),
        setup: "as Table 1 with changes of what links are issued",
        from: &["fig8"],
        charts: vec![charts::over_time(runs, "Fig. 8: other tickets from 300 s on")],
        ..Claim::default()
    }
}

fn fig11_12(r: &Results) -> Claim {
    let rate = |far: Option<u32>, flow: usize| rates(&r[rtt(far)])[flow].mean;
    let lost = |far: u32, flow: usize| {
        let (near, far) = (rate(None, flow), rate(Some(far), flow));
        (near - far, 1.0 - far / near)
    };
    let (first, part_of_first) = lost(1, 0);
    let (ninth, part_of_ninth) = lost(9, 8);
    Claim {
        id: "pps.fig11_12",
        verdict: Verdict::of(ninth > first && part_of_ninth > part_of_first && ninth > 0.0),
        paper:
            "A round trip of 300 ms costs flow 9 (900 tickets/s) more than flow 1 (100 tickets/s)."
                .into(),
        ours: format!(
            "flow 9 loses {:.4} Mbit/s, {} of what it has with 30 ms; flow 1 {:.4} Mbit/s, {}",
            ninth,
            percent(part_of_ninth),
            first,
            percent(part_of_first)
        ),
        ideal: "nothing is lost".into(),
        why: "Against the same flow where all round trips are 30 ms.".into(),
        setup: "as Fig. 5 with round trips of 30 ms, one of 300 ms",
        from: &["rtt/"],
        charts: vec![charts::by_tickets(
            r,
            "Fig. 11 and 12: one round trip of 300 ms",
            &[
                (rtt(Some(1)), "flow 1 at 300 ms"),
                (rtt(Some(9)), "flow 9 at 300 ms"),
            ],
        )],
        ..Claim::default()
    }
}

/// Tables 7 to 9.
fn diffserv(name: &str, kbit: [u32; 3], pps: &Setup, r: &Results) -> Claim {
    let in_out: Vec<f64> = rates(&r[runs::diffserv(name)])
        .iter()
        .map(|x| x.mean)
        .collect();
    let ours: Vec<f64> = rates(&r[pps.key(OURS.name)])
        .iter()
        .map(|x| x.mean)
        .collect();
    let closer = pps.distance(r, OURS.name) <= pps.paper_distance();
    let profile = kbit.map(|kbit| f64::from(kbit) / 1000.0);
    let distance = worst(in_out.iter().copied(), pps.ideal);
    let ratio = in_out[0] / in_out[2];
    let (id, paper, holds) = match name {
        "table7" => (
            "pps.table7",
            "Profiles match the link: DiffServ and PPS both keep them, 0.59, 0.40, 0.21 and 0.58, 0.40, 0.21 Mbit/s.",
            worst(in_out.iter().copied(), &profile) <= CLOSE,
        ),
        "table8" => (
            "pps.table8",
            "Profiles are a quarter of the link: DiffServ shares the excess arbitrarily, 0.43, 0.42, 0.35 Mbit/s; PPS 3 : 2 : 1.",
            ratio < 1.5 && distance > 0.5,
        ),
        _ => (
            "pps.table9",
            "Profiles are twice the link: DiffServ is best effort, 0.41, 0.42, 0.37 Mbit/s; PPS 3 : 2 : 1.",
            ratio < 1.5 && distance > 0.5,
        ),
    };
    Claim {
        id,
        verdict: Verdict::of(holds && closer),
        paper: paper.into(),
        ours: format!(
            "DiffServ {} Mbit/s, PPS {}, at most {} from 3 : 2 : 1 (the paper's {})",
            charts::list(&in_out),
            charts::list(&ours),
            percent(pps.distance(r, OURS.name)),
            percent(pps.paper_distance())
        ),
        ideal: "0.60, 0.40, 0.20 Mbit/s".into(),
        why: "DiffServ is ns-2's: RIO with 20, 40, 0.02 in and 10, 20, 0.10 out, profiles metered over 1 s. It keeps a profile if each flow is within 10 % of it; it is arbitrary or best effort if A has less than 1.5 times what C has, instead of 3.".into(),
        setup: "three TCP flows share 1.2 Mbit/s, round trip 26 ms",
        from: &["diffserv/", "ours/table7"],
        ..Claim::default()
    }
}

/// The aim of this project.
fn goal(r: &Results) -> Claim {
    let papers = TABLES.iter().map(Setup::paper_distance).sum::<f64>() / TABLES.len() as f64;
    let ours = mean_distance(r, OURS.name);
    let used = least_utilisation(r, OURS.name);
    let each = TABLES
        .iter()
        .all(|setup| setup.distance(r, OURS.name) <= setup.paper_distance());
    Claim {
        id: "pps.fairness",
        verdict: match each && ours <= papers / 2.0 && used >= UTILISATION {
            true => Verdict::CloserToIdeal,
            false => Verdict::Differs,
        },
        paper: format!(
            "Over its tables the worst flow is {} from its ideal, in the mean; links are 98 % used.",
            percent(papers)
        ),
        ours: format!(
            "{}, in each table no more than the paper's; the least used link is {} used. With the paper's parameters {}",
            percent(ours),
            percent(used),
            percent(mean_distance(r, PAPERS.name))
        ),
        ideal: "0".into(),
        why: "One set of parameters, the defaults. The table undoes one choice at a time.".into(),
        setup: "all tables, each with the same parameters",
        from: &["ours/", "paper/"],
        tables: vec![charts::variants(r)],
        ..Claim::default()
    }
}

#[cfg(test)]
mod tests;
