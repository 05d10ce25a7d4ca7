// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts from made-up figures: those of a perfect world, then one of them spoilt.

use makeway_report::model::{
    DatagramReport, FlowReport, Quantiles, QueueReport, Report, TasksReport,
};

use super::runs::{DELTAS, PRINTED};
use super::*;
use crate::experiment::Cell;
use crate::papers::claim::Verdict;
use crate::papers::criteria::Criteria;
use crate::papers::page::{self, Section};
use crate::papers::tests::{all_are, every_figure_is_refused_when_it_is_wrong, judged, made_up};

pub(super) fn stream(name: &str, loss: f64, jitter: f64) -> FlowReport {
    FlowReport {
        name: name.into(),
        group: name.into(),
        kind: "rtp".into(),
        goodput_bps: 2.5e6,
        datagrams: Some(DatagramReport {
            sent: 10_000,
            received: (10_000.0 * (1.0 - loss)) as u64,
            loss,
            ipdv_ms: Quantiles {
                mean: jitter,
                ..Quantiles::default()
            },
            ..DatagramReport::default()
        }),
        ..FlowReport::default()
    }
}

/// A stream that TCP carries.
fn over_tcp(name: &str, bps: f64) -> FlowReport {
    let completion_ms = Quantiles {
        p99: 10.0,
        ..Quantiles::default()
    };
    FlowReport {
        name: name.into(),
        group: name.into(),
        kind: "bulk".into(),
        goodput_bps: bps,
        tasks: Some(TasksReport {
            done: 1000,
            completion_ms,
        }),
        ..FlowReport::default()
    }
}

fn download(group: &str, n: u32, mbit: f64) -> Vec<FlowReport> {
    (0..n)
        .map(|i| FlowReport {
            name: format!("{group}-{}", i + 1),
            group: group.into(),
            kind: "bulk".into(),
            goodput_bps: mbit * 1e6 / f64::from(n),
            ..FlowReport::default()
        })
        .collect()
}

fn report(flows: Vec<FlowReport>) -> Report {
    let queue = QueueReport {
        rate_bps: 10_000_000,
        utilisation: 0.99,
        ..QueueReport::default()
    };
    Report {
        world: "netns".into(),
        ..made_up(LONG, flows, vec![queue])
    }
}

/// The paper's statements, as figures.
fn perfect() -> Results {
    perfect_in(World::Netns)
}

pub(super) fn perfect_in(world: World) -> Results {
    perfect_of(cells(true, world))
}

fn perfect_of(cells: Vec<Cell>) -> Results {
    let mut r = Results::default();
    for cell in cells {
        let path = cell.key.path();
        let path = path.strip_suffix(PRINTED).unwrap_or(path);
        let parts: Vec<&str> = path.split('/').collect();
        let n: u32 = parts.last().and_then(|p| p.parse().ok()).unwrap_or(10);
        let flows = match parts[..] {
            ["testbed", discipline, _] | ["changed", discipline, ..] => {
                let x = f64::from(n);
                let at = PAPER.iter().find(|p| p.0 == discipline);
                let share = at.map_or(8.0, |p| {
                    let i = TABLE.iter().position(|t| *t >= n).unwrap_or(4);
                    // Within both the paper's and the ideal.
                    if discipline == "sqf" { 4.36 } else { p.1[i] }
                });
                let (audio, video, jitter) = match discipline {
                    "fifo" => (0.013 * x, 0.012 * x, 1.0),
                    "fq" | "fq_codel" | "cake" => {
                        let share = 10.0 / (x + 1.0) / VIDEO;
                        (0.0, if n > 1 { 1.0 - share } else { 0.0 }, 0.4 + 0.1 * x)
                    }
                    "pfq" => (0.0, 0.7, 0.4),
                    _ => (0.0, 0.0, 0.4),
                };
                let video_jitter = if discipline == "pfq" {
                    0.4 + 0.1 * x
                } else {
                    jitter
                };
                let mut flows = download("download", n, share);
                flows.push(stream("video", video, video_jitter));
                flows.push(stream("audio", audio, jitter));
                flows
            }
            ["jitter", mbit, _, delta, _] => {
                let threshold = if mbit == "10" { 5 } else { 20 };
                let loses = delta.parse::<u32>().unwrap() >= threshold;
                vec![stream("video", if loses { 0.3 } else { 0.0 }, 0.4)]
            }
            ["jitter-of", kind, ..] => {
                let threshold = match kind {
                    "buffer-200" => 20,
                    "far" => 5,
                    _ => 2,
                };
                let loss = if n >= threshold { 0.3 } else { 0.0 };
                vec![stream("video", loss, 0.4)]
            }
            ["tcp", ..] => {
                let mut flows = download("download", n, 4.0);
                flows.push(over_tcp("video", 5e6));
                flows.push(over_tcp("audio", 64e3));
                flows
            }
            ["upload" | "swarm", _] => {
                let mut flows = download("swarm", 2, 2.0);
                flows.extend(download("upload", 1, 2.0));
                flows.push(stream("video", 0.0, 0.4));
                flows
            }
            ["buffer", ..] => {
                let mut flows = download("download", n, 4.0);
                flows.extend(["video", "audio"].map(|name| stream(name, 0.0, 0.4)));
                flows
            }
            ["users", _] => ["alice", "bob"]
                .iter()
                .flat_map(|user| {
                    let mut flows = download(&format!("{user}-download"), 2, 2.0);
                    flows.push(stream(&format!("{user}-video"), 0.0, 0.4));
                    flows.push(stream(&format!("{user}-audio"), 0.0, 0.4));
                    flows
                })
                .collect(),
            _ => vec![stream("video", 0.0, 0.4)],
        };
        r.push(&cell.key, report(flows));
    }
    r
}

/// The report of `r`, as a page of one paper and as its section.
fn written<A, B>(
    r: &Results,
    page: impl Fn(&[Section<'_>]) -> A,
    part: impl Fn(&Section<'_>) -> B,
) -> (A, B) {
    let criteria = Criteria::of("sqf").unwrap();
    let sections = [Section {
        criteria: &criteria,
        date: "2026-11-23",
        paper: &SQF,
        world: World::Netns,
        full: false,
        cells: &cells(false, World::Netns),
        results: r,
        claims: &judged(&SQF, World::Netns, r),
    }];
    (page(&sections), part(&sections[0]))
}

/// The prose about Fig. 3 and 4 is more than the equations give, for any measurement.
const PROSE: [(&str, [Verdict; 2]); 2] = [
    ("sqf.fig3.p", [Verdict::Differs; 2]),
    ("sqf.fig4.tbar", [Verdict::Differs; 2]),
];

#[test]
fn the_papers_own_figures_are_reproduced() {
    for world in [World::Sim, World::Netns] {
        let claims = judged(&SQF, world, &perfect_in(world));
        all_are(Verdict::Reproduced, &claims, &PROSE);
    }
}

#[test]
fn a_verdict_follows_its_figures() {
    for world in [World::Netns, World::Vm] {
        every_figure_is_refused_when_it_is_wrong(&SQF, world, &perfect_in(world));
    }
}

#[test]
fn a_verdict_follows_its_figures_in_simulated_time() {
    every_figure_is_refused_when_it_is_wrong(&SQF, World::Sim, &perfect_in(World::Sim));
}

#[test]
fn by_default_each_statement_is_measured_in_both_columns() {
    let world = SQF.worlds[0];
    let cells = cells(false, world);
    assert!(cells.iter().all(|cell| cell.seconds as f64 > LONG));
    let claims = judged(&SQF, world, &perfect_of(cells));
    assert_eq!(claims.len(), 15);
    all_are(Verdict::Reproduced, &claims, &PROSE);
}

#[test]
fn tables_of_one_thing_changed_are_of_simulated_time_alone() {
    let tables = |world| {
        let tables = claims(&perfect_in(world))
            .into_iter()
            .flat_map(|c| c.tables);
        let changed = tables.filter(|table| table.title.ends_with("with one thing changed"));
        changed.map(|table| table.rows.len()).collect::<Vec<_>>()
    };
    assert_eq!(tables(World::Sim), [14, 16, 16, 22]);
    assert!(tables(World::Netns).is_empty());
}

#[test]
fn as_printed_a_packet_counts_its_own_bytes_and_ours_does_not() {
    for world in [World::Sim, World::Netns] {
        let cells = cells(true, world);
        let is_printed = |cell: &&Cell| cell.key.path().ends_with(PRINTED);
        assert!(cells.iter().filter(is_printed).count() > 50);
        for cell in &cells {
            let own = "link.line.queue.least_cost=0B";
            let has = cell.set.iter().any(|set| set == own);
            assert_eq!(has, is_printed(&cell), "{}", cell.key);
        }
    }
}

#[test]
fn what_differs_in_both_columns_is_run_under_makeway_too() {
    let cells = cells(false, World::Sim);
    let is_makeway = "link.line.queue.discipline=makeway";
    for (from, count) in [("jitter-of/makeway/", 12), ("swarm/makeway", 1)] {
        let those = cells.iter().filter(|c| c.key.path().starts_with(from));
        let those = those.filter(|c| c.set.iter().any(|set| set == is_makeway));
        assert_eq!(those.count(), count, "{from}");
    }
}

#[test]
fn each_column_follows_the_runs_of_its_own_sqf() {
    let verdicts = |path: &str| {
        let mut r = perfect();
        let flows = r.runs_mut(path)[0].flows.iter_mut();
        let video = flows.filter(|flow| flow.group == "video");
        video.for_each(|flow| *flow = stream("video", 0.01, 0.4));
        let claims = judged(&SQF, World::Netns, &r);
        let claim = claims.iter().find(|claim| claim.id == "sqf.fig6.sqf");
        claim.map(|claim| [claim.printed.verdict, claim.ours.verdict])
    };
    let [good, bad] = [Verdict::Reproduced, Verdict::Differs];
    assert_eq!(verdicts("testbed/sqf/13"), Some([good, bad]));
    assert_eq!(verdicts("testbed/sqf/13/printed"), Some([bad, good]));
}

#[test]
fn a_run_shorter_than_the_papers_is_not_as_printed() {
    let mut r = perfect();
    r.runs_mut("testbed/sqf/13")[0].seconds = 20.0;
    for claim in judged(&SQF, World::Netns, &r)
        .iter()
        .filter(|claim| !claim.from.is_empty())
    {
        let verdicts = [claim.printed.verdict, claim.ours.verdict];
        assert_eq!(
            verdicts,
            [Verdict::NotMeasured, Verdict::Reproduced],
            "{}",
            claim.id
        );
        assert!(
            claim.why.contains("`makeway-lab papers sqf`"),
            "{}",
            claim.id
        );
    }
}

#[test]
fn the_page_and_the_summary_name_every_claim() {
    let r = perfect();
    let claims = claims(&r);
    let (page, text) = written(&r, page::html, page::markdown);
    for claim in &claims {
        assert!(
            page.contains(claim.id) && text.contains(claim.id),
            "{}",
            claim.id
        );
    }
    assert!(!page.contains("NaN") && !text.contains("NaN"));
    let json = written(&r, page::json, |_| ()).0.unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    for entry in json.as_array().unwrap() {
        let expected = [
            "criterion",
            "id",
            "ours",
            "paper",
            "printed",
            "why",
            "world",
        ];
        assert_eq!(keys(entry), expected);
        for column in ["printed", "ours"] {
            assert_eq!(keys(&entry[column]), ["value", "verdict"]);
        }
    }
    assert_eq!(json[4]["printed"]["verdict"], "reproduced");
    let world = |id: &str| {
        let claim = json.as_array().unwrap().iter().find(|c| c["id"] == id);
        claim.unwrap()["world"].clone()
    };
    assert_eq!(
        (world("sqf.fig3.p"), world("sqf.pfq")),
        ("theory".into(), "netns".into())
    );
    let command = "makeway run scenarios/papers/sqf/users.toml --set &#39;duration=25s&#39;";
    assert!(page.contains(command) || page.contains(&command.replace("&#39;", "'")));
    assert!(page.contains("users.toml"));
}

/// Three runs of each set-up, of which `spoilt` changes the last.
fn replicated(spoilt: impl Fn(&mut Results)) -> Results {
    let mut last = perfect();
    spoilt(&mut last);
    let mut r = perfect();
    for (key, runs) in r.all() {
        runs.push(runs[0].clone());
        runs.push(last[key.clone()][0].clone());
    }
    r
}

#[test]
fn a_verdict_goes_by_the_mean_of_replications_and_says_the_interval() {
    let lose = |loss| {
        replicated(move |r| {
            let flows = &mut r.runs_mut("testbed/sqf/13")[0].flows;
            let flow = flows.iter_mut().find(|f| f.group == "video").unwrap();
            *flow = stream("video", loss, 0.4);
        })
    };
    let of = |r: &Results| {
        let mut claims = judged(&SQF, World::Netns, r).into_iter();
        claims.find(|c| c.id == "sqf.fig6.sqf").unwrap()
    };
    // A run in three loses 0.2 %: the mean is below a packet in a thousand, its interval is not.
    let below = of(&lose(0.002));
    assert_eq!(below.ours.verdict, Verdict::Reproduced);
    assert!(below.ours.value.contains("0.07 ± 0.29"), "{below:#?}");
    let above = of(&lose(0.004));
    assert_eq!(above.ours.verdict, Verdict::Differs);
    assert!(above.why.contains("0.13 ± 0.57 % at n = 13"), "{above:#?}");
}

#[test]
fn the_page_draws_intervals_of_replications_only() {
    let spoil = |r: &mut Results| {
        for runs in r.all().values_mut() {
            runs[0].flows.iter_mut().for_each(|f| f.goodput_bps *= 1.02);
        }
    };
    let lines = |r: &Results| {
        let (page, ()) = written(r, page::html, |_| ());
        page.matches("<polyline").count()
    };
    assert!(lines(&replicated(spoil)) > lines(&perfect()) + 10);
    let text = |r: &Results| written(r, |_| (), page::markdown).1;
    assert!(text(&replicated(spoil)).contains("4.39 ± 0.13 / 1 ± 0"));
    assert!(!text(&perfect()).contains('±'));
}

#[test]
fn replications_take_the_place_of_seeds_and_of_nothing_else() {
    let names = |world| {
        let cells = cells(true, world);
        cells.into_iter().map(|c| c.key).collect::<Vec<_>>()
    };
    let gone: Vec<_> = names(World::Netns)
        .into_iter()
        .filter(|name| !names(World::Sim).contains(name))
        .collect();
    // Two more seeds of two set-ups, under both forms of SQF.
    assert_eq!(gone.len(), 2 * 2 * 2 * DELTAS.len());
    assert!(
        gone.iter()
            .all(|name| name.path().starts_with("jitter/10/"))
    );
}

#[test]
fn in_the_guest_ours_are_judged_and_linuxs_stand_beside_them() {
    let r = perfect_in(World::Vm);
    let of_guest = |r: &Results| judged(&SQF, World::Vm, r);
    let ours = [Verdict::NotMeasurable, Verdict::Reproduced];
    let but = ["sqf.fig6.sqf", "sqf.table1", "sqf.fig7.jitter"].map(|id| (id, ours));
    all_are(Verdict::Reproduced, &of_guest(&r), &but);
    let tables: Vec<_> = of_guest(&r).into_iter().flat_map(|c| c.tables).collect();
    assert_eq!(tables.len(), 1);
    assert_eq!(tables[0].rows.len(), cells(false, World::Vm).len());
    // The paper says nothing of them.
    let spoils: [fn(&mut DatagramReport); 2] = [|x| x.loss = 0.01, |x| x.ipdv_ms.mean = 0.1];
    for spoil in spoils {
        let mut r = perfect_in(World::Vm);
        let flows = &mut r.runs_mut("testbed/cake/20")[0].flows;
        flows
            .iter_mut()
            .filter_map(|flow| flow.datagrams.as_mut())
            .for_each(spoil);
        all_are(Verdict::Reproduced, &of_guest(&r), &but);
    }
}
