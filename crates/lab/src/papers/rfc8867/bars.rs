// SPDX-License-Identifier: MIT OR Apache-2.0
//! Five rate controllers on the cases of RFC 8867, by absolute bars: delay in the network, goodput, fairness, and the downloads beside.

use makeway_core::measure::jain;
use makeway_report::estimate::Estimate;
use makeway_report::model::Report;

use super::{CASES, Case, POLICIES, RUNS};
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{mean, plain};

/// With their names in the text.
const CONTROLLERS: [(&str, &str); 5] = [
    ("tfrc", "TFRC"),
    ("ccid2", "CCID 2"),
    ("abrc", "ABRC"),
    ("scream", "SCReAMv2"),
    ("gcc", "GCC"),
];
/// Of [`super::CONTROLLERS`] the case has these cells already.
const THERE: [&str; 2] = super::CONTROLLERS;

/// A thing of a case that is changed alone, for all controllers.
struct Change {
    name: &'static str,
    says: &'static str,
    set: &'static [&'static str],
}

/// The claim of a case, and its changes.
struct Bars {
    case: &'static str,
    id: &'static str,
    why: &'static str,
    changes: &'static [Change],
}

const fn quarter(set: &'static [&'static str]) -> Change {
    Change {
        name: "quarter",
        says: "the network's buffer a quarter",
        set,
    }
}

const fn steady(says: &'static str, set: &'static [&'static str]) -> Change {
    Change {
        name: "steady",
        says,
        set,
    }
}

const APART: Change = Change {
    name: "apart",
    says: "a queue for each flow (fq, by DRR)",
    set: &["link.line.queue.discipline=fq"],
};

const BARS: [Bars; 8] = [
    Bars {
        case: "rfc8867.5_1",
        id: "rfc8867.bars_5_1",
        why: "",
        changes: &[
            quarter(&["link.line.queue.limit=9375B"]),
            steady(
                "the link stays at 1 Mbit/s",
                &["link.line.changes={ at = \"left\", steps = [[\"40s\", \"1mbit\"]] }"],
            ),
        ],
    },
    Bars {
        case: "rfc8867.5_2",
        id: "rfc8867.bars_5_2",
        why: "",
        changes: &[
            quarter(&["link.line.queue.limit=18750B"]),
            steady(
                "the link has 2 Mbit/s and stays there",
                &[
                    "link.line.rate=2mbit",
                    "link.line.changes={ at = \"left\", steps = [[\"40s\", \"2mbit\"]] }",
                ],
            ),
        ],
    },
    Bars {
        case: "rfc8867.5_3",
        id: "rfc8867.bars_5_3",
        why: "",
        changes: &[
            quarter(&[
                "link.line.queue.0.limit=18750B",
                "link.line.queue.1.limit=18750B",
            ]),
            steady(
                "the link stays at 2 Mbit/s",
                &["link.line.changes={ at = \"left\", steps = [[\"40s\", \"2mbit\"]] }"],
            ),
        ],
    },
    Bars {
        case: "rfc8867.5_4",
        id: "rfc8867.bars_5_4",
        why: "",
        changes: &[quarter(&["link.line.queue.limit=32812B"])],
    },
    Bars {
        case: "rfc8867.5_5",
        id: "rfc8867.bars_5_5",
        why: "",
        changes: &[
            quarter(&["link.line.queue.limit=37500B"]),
            Change {
                name: "alike",
                says: "all paths of 50 ms",
                set: &[
                    "link.near-10.delay=50ms",
                    "link.near-25.delay=50ms",
                    "link.near-100.delay=50ms",
                    "link.near-150.delay=50ms",
                ],
            },
        ],
    },
    Bars {
        case: "rfc8867.5_6",
        id: "rfc8867.bars_5_6",
        why: "",
        changes: &[quarter(&["link.line.queue.limit=18750B"]), APART],
    },
    Bars {
        case: "rfc8867.5_7",
        id: "rfc8867.bars_5_7",
        why: "",
        changes: &[quarter(&["link.line.queue.limit=18750B"]), APART],
    },
    Bars {
        case: "rfc8867.5_8",
        id: "rfc8867.bars_5_8",
        why: "",
        changes: &[quarter(&["link.line.queue.limit=32812B"])],
    },
];

/// Figures of a controller, of some runs.
struct Figures {
    p99: Estimate,
    mbit: Estimate,
    /// Jain's index of several calls.
    jain: Option<Estimate>,
    /// Goodput of all downloads, where there are some.
    downloads: Option<Estimate>,
}

fn downloads(report: &Report) -> f64 {
    let bulk = report.flows.iter().filter(|flow| flow.kind == "bulk");
    bulk.map(|flow| flow.goodput_bps).sum::<f64>() / 1e6
}

impl Figures {
    fn of(case: &Case, runs: &[Report]) -> Self {
        let index = |run: &Report| jain(case.flows(run).map(|flow| flow.goodput_bps));
        let any = |is: &dyn Fn(&Report) -> bool| runs.iter().any(is);
        let several = any(&|run| case.flows(run).count() > 1);
        let beside = any(&|run| run.flows.iter().any(|flow| flow.kind == "bulk"));
        Self {
            p99: mean(runs, |run| case.p99(run)),
            mbit: mean(runs, |run| case.mbit(run)),
            jain: several.then(|| mean(runs, |run| index(run).unwrap_or(f64::NAN))),
            downloads: beside.then(|| mean(runs, downloads)),
        }
    }

    fn shown(&self) -> [String; 4] {
        let shown = |x: &Option<Estimate>| x.as_ref().map_or_else(String::new, plain);
        let p99 = match self.p99.half_width {
            Some(half) => format!("{:.0} ± {half:.0}", self.p99.mean),
            None => format!("{:.0}", self.p99.mean),
        };
        [
            p99,
            plain(&self.mbit),
            shown(&self.jain),
            shown(&self.downloads),
        ]
    }

    fn column(&self, column: Column, name: &str) -> Column {
        let mut column = column
            .with(format!("p99 in the network over {name}, ms"), self.p99)
            .with(format!("calls over {name}, Mbit/s"), self.mbit);
        if let Some(jain) = self.jain {
            column = column.with(format!("Jain's index of the calls over {name}"), jain);
        }
        if let Some(downloads) = self.downloads {
            column = column.with(format!("downloads beside {name}, Mbit/s"), downloads);
        }
        column
    }
}

impl Bars {
    fn case(&self) -> &'static Case {
        let found = CASES.iter().find(|case| case.id == self.case);
        found.expect("bars are of a case")
    }

    fn key(&self, change: &Change, controller: &str) -> Key {
        Key::new(format!("{}/{}/{controller}", self.id, change.name))
    }

    fn cells(&self) -> Vec<Cell> {
        let case = self.case();
        let mut cells = Vec::new();
        for (controller, _) in CONTROLLERS {
            let of = |key, more: &[&str]| {
                let calls = case.calls.iter().flat_map(|call| {
                    [
                        format!("flow.{call}.rate={controller}"),
                        format!("flow.{call}.policy={}", POLICIES[0]),
                    ]
                });
                Cell {
                    set: calls.chain(more.iter().map(|set| (*set).into())).collect(),
                    runs: Some(RUNS),
                    ..Cell::new(key, case.file, case.seconds)
                }
            };
            if !THERE.contains(&controller) {
                cells.push(of(case.key(controller, POLICIES[0]), &[]));
            }
            for change in self.changes {
                cells.push(of(self.key(change, controller), change.set));
            }
        }
        cells
    }

    fn claim(&self, r: &Results) -> Claim {
        let case = self.case();
        let figures = CONTROLLERS.map(|(controller, name)| {
            let runs = &r[case.key(controller, POLICIES[0])];
            (name, Figures::of(case, runs))
        });
        let ours = figures.iter().fold(Column::default(), |column, (name, x)| {
            x.column(column, name)
        });
        let row = |first: Vec<String>, x: &Figures| first.into_iter().chain(x.shown()).collect();
        let head = |first: &[&str]| {
            let figures = [
                "p99 in the network, ms",
                "calls, Mbit/s",
                "Jain's index",
                "downloads, Mbit/s",
            ];
            first
                .iter()
                .chain(&figures)
                .map(|of| (*of).into())
                .collect()
        };
        let changed = self.changes.iter().flat_map(|change| {
            CONTROLLERS.map(|(controller, name)| {
                let x = Figures::of(case, &r[self.key(change, controller)]);
                row(vec![change.says.into(), name.into()], &x)
            })
        });
        Claim {
            id: self.id,
            paper: format!("{}: no figure; the bars are ours.", case.says),
            said: figures
                .iter()
                .map(|(name, x)| {
                    let [p99, mbit, _, _] = x.shown();
                    format!("{name}: {p99} ms, {mbit} Mbit/s")
                })
                .collect::<Vec<_>>()
                .join("; "),
            ours,
            why: self.why.into(),
            setup: "as the case with SBPN2; p99 is that of the worst call, goodput that of all calls over the whole run",
            from: &["rfc8867."],
            tables: vec![
                Table {
                    title: case.says.into(),
                    head: head(&["controller"]),
                    rows: figures
                        .iter()
                        .map(|(name, x)| row(vec![(*name).into()], x))
                        .collect(),
                },
                Table {
                    title: "With one thing changed".into(),
                    head: head(&["with", "controller"]),
                    rows: changed.collect(),
                },
            ],
            ..Claim::default()
        }
    }
}

/// All that the bars need beside the cells of the cases.
pub fn cells() -> impl Iterator<Item = Cell> {
    BARS.iter().flat_map(Bars::cells)
}

/// One for each case.
pub fn claims(r: &Results) -> impl Iterator<Item = Claim> + '_ {
    BARS.iter().map(|bars| bars.claim(r))
}

/// Keys of all cells of a case, for results that are made up.
#[cfg(test)]
pub fn keys(case: &Case) -> Vec<Key> {
    let bars = BARS.iter().find(|bars| bars.case == case.id);
    let cells = bars.into_iter().flat_map(Bars::cells);
    cells.map(|cell| cell.key).collect()
}
