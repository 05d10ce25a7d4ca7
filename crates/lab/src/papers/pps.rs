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

use makeway_report::estimate::Estimate;

use super::claim::{Claim, Column};
use super::figures::{in_percent, mean, only, percent, share, smallest};
use super::paper::Paper;
use crate::experiment::{Cell, Key, Results, World};
use figures::{fit, least_utilisation, mean_distance, rates, worst};
use runs::{CHANGE, COLUMNS, FIG5, FIG7, OURS, PAPERS, PROFILES, Setup, TABLES, over_time, rtt};

/// How it is run again.
pub const PPS: Paper = Paper {
    id: "pps",
    title: "Probabilistic packet scheduling, run again",
    source: "M. Zhang, R. Wang, L. Peterson, A. Krishnamurthy, Princeton TR-632-01, 2001",
    worlds: &[World::Sim],
    shortened: "Each run has the paper's 600 s.",
    full: "Each run has the paper's 600 s.",
    cells,
    claims,
    beside: None,
};

/// Name of the figure for full links.
const USED: &str = "the least used of the full links, %";

/// Every experiment.
fn cells(_full: bool, _world: World) -> Vec<Cell> {
    let mut cells = runs::cells();
    cells.extend(rest::cells());
    cells
}

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
    claims.extend(PROFILES.iter().map(|(name, _)| diffserv(name, both, r)));
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
    let column = |(r2, distance): (f64, f64)| {
        Column::of([
            ("R² about a line through the origin", only(r2)),
            (
                "the farthest flow from its share, %",
                only(distance * 100.0),
            ),
        ])
    };
    Claim {
        id: "pps.fig5",
        printed: column((of_paper, paper_distance)),
        ours: column((r2, distance)),
        paper: "Throughput is proportional to tickets: flow i gets 1.5 i / 45 Mbit/s.".into(),
        said: format!(
            "R² = {r2:.4} about a line through the origin; the worst flow is {} from its share, {} in a single run. With the paper's parameters R² = {of_paper:.4}, {}",
            percent(distance),
            share(&single),
            percent(paper_distance)
        ),
        ideal: "R² = 1".into(),
        why: "The first flow is due four packets a second: it lives from timeout to timeout."
            .into(),
        setup: ONE_HOP,
        from: &["ours/fig5", "printed/fig5"],
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
    let near = |run: &Report| {
        let queue = run.queues.iter().find(|q| q.name == FIG5.full[0]);
        queue.map_or(f64::NAN, |q| q.expected as f64 / q.packets_in as f64)
    };
    let within = |variant: &str| mean(&r[FIG5.key(variant)], near);
    let [ours, papers] = [OURS.name, PAPERS.name].map(within);
    let column = |within| {
        Column::of([(
            "packets with tickets from MinTkt to 1.4 MinTkt, %",
            in_percent(within),
        )])
    };
    Claim {
        id: "pps.k",
        printed: column(papers),
        ours: column(ours),
        paper: "More than 98 % of poor flows' packets carry tickets from MinTkt to 1.4 MinTkt.".into(),
        said: format!("{}; with the paper's parameters {}", share(&ours), share(&papers)),
        ideal: "all of them".into(),
        why: "All nine flows are poor, so all packets count, including the first ones, which leave before the sources know their rate. The table changes one thing of what is printed, or two where the row says so.".into(),
        setup: ONE_HOP,
        from: &[
            "ours/fig5",
            "printed/fig5",
            "unpoliced/fig5",
            "printed-spaced/fig5",
            "printed-window-1s/fig5",
            "printed-power-6/fig5",
            "printed-logarithmic/fig5",
            "printed-silence/fig5",
            "printed-longer/fig5",
            "printed-links-10s/fig5",
            "printed-links-30s/fig5",
            "printed-longer-no-wait/fig5",
            "printed-longer-unpoliced/fig5",
            "printed-window-1s-unpoliced/fig5",
        ],
        tables: vec![charts::near_the_least(r, near)],
        ..Claim::default()
    }
}

/// One table, or the two halves of one.
fn table(id: &'static str, what: &str, setups: &[Setup], r: &Results) -> Claim {
    let used = |variant: &str| {
        let used = setups.iter().map(|setup| setup.utilisation(r, variant));
        only(smallest(used) * 100.0)
    };
    // Table 6 has two parts.
    let parts = || {
        let parts = [("(a) ", "(a) flow "), ("(b) ", "(b) flow ")];
        let names = if setups.len() > 1 {
            parts.to_vec()
        } else {
            vec![("", "")]
        };
        setups.iter().zip(names)
    };
    let printed = parts().flat_map(|(setup, (_, flow))| {
        let names = (0..).map(move |n| match flow {
            "" => ["A", "B", "C"][n].to_owned(),
            flow => format!("{flow}{}", n + 1),
        });
        let rates = rates(&r[setup.key(PAPERS.name)]).into_iter();
        names
            .zip(rates)
            .map(|(name, x)| (format!("{name}, Mbit/s"), x))
            .collect::<Vec<_>>()
    });
    let ours = parts().map(|(setup, (part, _))| {
        let name = format!("{part}the farthest flow from its ideal, %");
        (name, only(setup.distance(r, OURS.name) * 100.0))
    });
    let text = |text: &dyn Fn(&Setup) -> String| {
        let texts: Vec<String> = setups.iter().map(text).collect();
        texts.join("; ")
    };
    Claim {
        id,
        printed: Column::of(printed).with(USED, used(PAPERS.name)),
        ours: Column::of(ours).with(USED, used(OURS.name)),
        paper: format!(
            "{what}: {} Mbit/s, at most {} from the ideal.",
            text(&|s| charts::list(s.paper)),
            text(&|s| percent(s.paper_distance()))
        ),
        said: text(&|s| {
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
        why: "Rates are of IP packets over the whole run, slow start included. The printed parameters are changed one at a time under pps.fairness.".into(),
        setup: "ns-2's TCP with packets of 1000 B, RED's thresholds and buffers ns-2's of the time: the paper does not state them",
        from: &["ours/table", "printed/table"],
        tables: setups.iter().map(|setup| charts::table(r, setup)).collect(),
        ..Claim::default()
    }
}

/// Rates of A, B, C from `from` to `to`, and the worst distance to `ideal`.
fn between(runs: &[Report], from: f64, to: f64, ideal: &[f64; 3]) -> (Vec<f64>, f64) {
    let rates: Vec<f64> = (0..3)
        .map(|flow| {
            let series = figures::over_time(runs, flow, 10.0);
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

/// Rates of Fig. 7 before and after, of Fig. 8 after.
pub const BEFORE: [f64; 3] = [0.0, 0.75, 0.25];
pub const ALL: [f64; 3] = [0.50, 0.25, 0.25];
pub const MOVED: [f64; 3] = [0.30, 0.45, 0.25];

fn fig7(r: &Results) -> Claim {
    let of = |variant: &str, from: f64, to: f64, due: &[f64; 3]| {
        between(&r[over_time("fig7", variant)], from, to, due)
    };
    let before = |variant: &str| of(variant, 100.0, CHANGE, &BEFORE);
    let soon = |variant: &str| of(variant, CHANGE + 30.0, CHANGE + 60.0, &ALL);
    let after = |variant: &str| of(variant, 500.0, 600.0, &ALL);
    let column = |variant: &str| {
        Column::of(
            [
                (
                    "farthest of B and C from 100 to 300 s, %",
                    before(variant).1,
                ),
                (
                    "farthest of A, B and C from 330 to 360 s, %",
                    soon(variant).1,
                ),
                (
                    "farthest of A, B and C from 500 to 600 s, %",
                    after(variant).1,
                ),
            ]
            .map(|(name, x)| (name, only(x * 100.0))),
        )
    };
    let ours = OURS.name;
    let others = FIG7.iter().filter(|variant| variant.name != ours);
    let others = others.map(|variant| {
        let [soon, after] = [soon(variant.name), after(variant.name)].map(|x| charts::list(&x.0));
        format!("{}: {soon} and {after}", variant.says)
    });
    Claim {
        id: "pps.fig7",
        printed: column(PAPERS.name),
        ours: column(ours),
        paper: "B and C have 0.75 and 0.25 before A begins at 300 s; then A, B, C go to 0.5, 0.25, 0.25 quickly.".into(),
        said: format!(
            "{} before, {} from 330 to 360 s, {} from 500 s on",
            charts::list(&before(ours).0[1..]),
            charts::list(&soon(ours).0),
            charts::list(&after(ours).0)
        ),
        ideal: "0.75 and 0.25; 0.50, 0.25, 0.25 Mbit/s".into(),
        why: format!(
            "Sources and links measure rates over the paper's window of 60 s, so after a change they need as long to forget the old rate. From 330 to 360 s and from 500 s on with other choices: {}.",
            others.collect::<Vec<_>>().join("; ")
        ),
        setup: "as Table 1, A begins at 300 s",
        from: &["fig7/"],
        charts: FIG7
            .iter()
            .map(|variant| {
                let title = format!("Fig. 7: A begins at 300 s; {}", variant.says);
                charts::over_time(&r[over_time("fig7", variant.name)], &title)
            })
            .collect(),
        ..Claim::default()
    }
}

fn fig8(r: &Results) -> Claim {
    let of = |variant: &str, from: f64, to: f64, due: &[f64; 3]| {
        between(&r[over_time("fig8", variant)], from, to, due)
    };
    let before = |variant: &str| of(variant, 100.0, CHANGE, &ALL);
    let after = |variant: &str| of(variant, CHANGE + 60.0, 600.0, &MOVED);
    let moved = |variant: &str| (after(variant).0[2] / before(variant).0[2] - 1.0).abs();
    let column = |variant: &str| {
        Column::of(
            [
                (
                    "farthest of A, B and C from 100 to 300 s, %",
                    before(variant).1,
                ),
                (
                    "farthest of A, B and C from 360 to 600 s, %",
                    after(variant).1,
                ),
                ("C changes by, %", moved(variant)),
            ]
            .map(|(name, x)| (name, only(x * 100.0))),
        )
    };
    let said = |variant: &str| {
        format!(
            "{} before, {} from 360 s on; C changes by {}",
            charts::list(&before(variant).0),
            charts::list(&after(variant).0),
            percent(moved(variant))
        )
    };
    Claim {
        id: "pps.fig8",
        printed: column(PAPERS.name),
        ours: column(OURS.name),
        paper: "When at 300 s the link of A is issued 600 instead of 1000 tickets/s and that of B 900 instead of 500, A goes from 0.50 to 0.30, B from 0.25 to 0.45, and C does not change.".into(),
        said: format!("{}. As printed {}", said(OURS.name), said(PAPERS.name)),
        ideal: "0.50, 0.25, 0.25; 0.30, 0.45, 0.25 Mbit/s".into(),
        setup: "as Table 1 with changes of what links are issued",
        from: &["fig8/"],
        charts: COLUMNS
            .iter()
            .map(|variant| {
                let title = format!("Fig. 8: other tickets from 300 s on; {}", variant.says);
                charts::over_time(&r[over_time("fig8", variant.name)], &title)
            })
            .collect(),
        ..Claim::default()
    }
}

/// Loss of a flow by its long round trip, in Mbit/s and as a part of what it has without, run by run.
pub fn losses(near: &[Report], far: &[Report], flow: usize) -> Vec<[f64; 2]> {
    let rate = |run: &Report| run.flows[flow].ip_bps.unwrap_or(f64::NAN) / 1e6;
    let pairs = near
        .iter()
        .zip(far)
        .map(|(near, far)| [rate(near), rate(far)]);
    pairs
        .map(|[near, far]| [near - far, 1.0 - far / near])
        .collect()
}

/// Losses of flow 9 less those of flow 1, then each alone.
pub fn by_distance<'a>(runs: impl Fn(Option<u32>) -> &'a [Report]) -> [[Estimate; 3]; 2] {
    let [first, ninth] =
        [(1, 0), (9, 8)].map(|(far, flow)| losses(runs(None), runs(Some(far)), flow));
    [0, 1].map(|unit| {
        let of = |losses: &[[f64; 2]]| Estimate::of(losses.iter().map(|x| x[unit]));
        let pairs = ninth.iter().zip(&first).map(|(a, b)| a[unit] - b[unit]);
        [Estimate::of(pairs), of(&first), of(&ninth)]
    })
}

fn fig11_12(r: &Results) -> Claim {
    let of = |variant: &'static str| by_distance(move |far| &r[rtt(variant, far)]);
    let [[by_printed, ..], [part_by_printed, ..]] = of(PAPERS.name);
    let [[_, first, ninth], [_, part_of_first, part_of_ninth]] = of(OURS.name);
    Claim {
        id: "pps.fig11_12",
        printed: Column::of([
            ("flow 9 loses more than flow 1 by, Mbit/s", by_printed),
            (
                "flow 9 loses more of what it has than flow 1 by, points",
                in_percent(part_by_printed),
            ),
        ]),
        ours: Column::of([
            ("flow 1 loses of what it has, %", in_percent(part_of_first)),
            ("flow 9 loses of what it has, %", in_percent(part_of_ninth)),
        ]),
        paper:
            "A round trip of 300 ms costs flow 9 (900 tickets/s) more than flow 1 (100 tickets/s)."
                .into(),
        said: format!(
            "flow 9 loses {:.4} Mbit/s, {} of what it has with 30 ms; flow 1 {:.4} Mbit/s, {}",
            ninth.mean,
            share(&part_of_ninth),
            first.mean,
            share(&part_of_first)
        ),
        ideal: "nothing is lost".into(),
        why: "Against the same flow where all round trips are 30 ms.".into(),
        setup: "as Fig. 5 with round trips of 30 ms, one of 300 ms",
        from: &["rtt/"],
        charts: COLUMNS
            .iter()
            .map(|variant| {
                charts::by_tickets(
                    r,
                    &format!("Fig. 11 and 12: one round trip of 300 ms; {}", variant.says),
                    &[
                        (rtt(variant.name, Some(1)), "flow 1 at 300 ms"),
                        (rtt(variant.name, Some(9)), "flow 9 at 300 ms"),
                    ],
                )
            })
            .collect(),
        ..Claim::default()
    }
}

/// Tables 7 to 9.
fn diffserv(name: &str, pps: &Setup, r: &Results) -> Claim {
    let means = |key: Key| -> Vec<f64> { rates(&r[key]).iter().map(|x| x.mean).collect() };
    let (in_out, ours) = (means(runs::diffserv(name)), means(pps.key(OURS.name)));
    let (id, paper) = match name {
        "table7" => (
            "pps.table7",
            "Profiles match the link: DiffServ and PPS both keep them, 0.59, 0.40, 0.21 and 0.58, 0.40, 0.21 Mbit/s.",
        ),
        "table8" => (
            "pps.table8",
            "Profiles are a quarter of the link: DiffServ shares the excess arbitrarily, 0.43, 0.42, 0.35 Mbit/s; PPS 3 : 2 : 1, 0.58, 0.40, 0.21.",
        ),
        _ => (
            "pps.table9",
            "Profiles are twice the link: DiffServ is best effort, 0.41, 0.42, 0.37 Mbit/s; PPS 3 : 2 : 1, 0.58, 0.40, 0.21.",
        ),
    };
    let named = |what: &'static str, key: Key| {
        let rates = rates(&r[key]).into_iter();
        let names = ["A", "B", "C"].map(|flow| format!("{what}, {flow}, Mbit/s"));
        names.into_iter().zip(rates).collect::<Vec<_>>()
    };
    let printed = [
        named("DiffServ", runs::diffserv(name)),
        named("PPS", pps.key(PAPERS.name)),
    ];
    Claim {
        id,
        printed: Column::of(printed.concat()),
        ours: Column::of([(
            "PPS, the farthest flow from 3 : 2 : 1, %",
            only(pps.distance(r, OURS.name) * 100.0),
        )]),
        paper: paper.into(),
        said: format!(
            "DiffServ {} Mbit/s, PPS {}, at most {} from 3 : 2 : 1 (the paper's {})",
            charts::list(&in_out),
            charts::list(&ours),
            percent(pps.distance(r, OURS.name)),
            percent(pps.paper_distance())
        ),
        ideal: "0.60, 0.40, 0.20 Mbit/s".into(),
        why: "DiffServ is ns-2's: RIO with 20, 40, 0.02 in and 10, 20, 0.10 out, profiles metered over 1 s.".into(),
        setup: "three TCP flows share 1.2 Mbit/s, round trip 26 ms",
        from: &["diffserv/", "ours/table7", "printed/table7"],
        tables: match name {
            "table9" => vec![charts::profiles(r)],
            _ => Vec::new(),
        },
        ..Claim::default()
    }
}

/// The aim of this project.
fn goal(r: &Results) -> Claim {
    let papers = TABLES.iter().map(Setup::paper_distance).sum::<f64>() / TABLES.len() as f64;
    let ours = mean_distance(r, OURS.name);
    let used = least_utilisation(r, OURS.name);
    let column = |variant: &str| {
        Column::of(
            [
                (
                    "the worst flow from its ideal, mean over tables, %",
                    mean_distance(r, variant),
                ),
                (USED, least_utilisation(r, variant)),
            ]
            .map(|(name, x)| (name, only(x * 100.0))),
        )
    };
    Claim {
        id: "pps.fairness",
        printed: column(PAPERS.name),
        ours: column(OURS.name),
        paper: format!(
            "Over its tables the worst flow is {} from its ideal, in the mean; links are 98 % used.",
            percent(papers)
        ),
        said: format!(
            "{}; the least used link is {} used. As printed {}",
            percent(ours),
            percent(used),
            percent(mean_distance(r, PAPERS.name))
        ),
        ideal: "0".into(),
        why: "One set of parameters, the defaults. The tables change one choice at a time; rows that begin with \"as printed, two changes\" change two.".into(),
        setup: "all tables, each with the same parameters",
        from: &["ours/", "printed/", "printed-", "unpoliced/"],
        tables: vec![charts::variants(r), charts::printed(r)],
        ..Claim::default()
    }
}

#[cfg(test)]
mod tests;
