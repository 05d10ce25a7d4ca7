// SPDX-License-Identifier: MIT OR Apache-2.0
//! Five rate controllers on the cases of RFC 8867, by absolute bars: delay in the network, goodput, fairness, and the downloads beside.

use makeway_core::measure::jain;
use makeway_report::estimate::Estimate;
use makeway_report::model::Report;

use super::{CASES, Case, POLICIES, RUNS};
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{downloads, mean, plain};

/// With their names in the text.
const CONTROLLERS: [(&str, &str); 5] = [
    ("tfrc", "TFRC"),
    ("ccid2", "CCID 2"),
    ("abrc", "ABRC"),
    ("scream", "SCReAMv2"),
    ("gcc", "GCC"),
];
/// Controllers whose cells the case has already.
const THERE: [&str; 2] = super::CONTROLLERS;

/// A thing of a case that is changed alone, for all controllers.
struct Change {
    name: &'static str,
    says: &'static str,
    set: &'static [&'static str],
}

/// A thing of GCC that is changed alone, in each case.
struct Own {
    name: &'static str,
    says: &'static str,
    keys: &'static str,
}

const OWN: [Own; 5] = [
    Own {
        name: "text",
        says: "m(i) as in the draft's text (gain 1)",
        keys: "gain = 1",
    },
    Own {
        name: "pacing",
        says: "packets leave 2.5 times as fast",
        keys: "pacing = 2.5",
    },
    Own {
        name: "no-probes",
        says: "no probes",
        keys: "probes = false",
    },
    Own {
        name: "no-losses",
        says: "no control by losses",
        keys: "losses = false",
    },
    Own {
        name: "first",
        says: "the first target is 1 Mbit/s",
        keys: "first = \"1mbit\"",
    },
];

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
        why: "TFRC, CCID 2 and ABRC fill the buffer, which is fixed in bytes and lasts 500 ms at 0.6 Mbit/s; a quarter of it lasts 125 ms, and p99 is 160 to 190 ms. SCReAMv2 and GCC miss the bar after the link has fallen from 2.5 to 0.6 Mbit/s: where it stays, they hold it (117 and 127 ms). With m(i) as the draft's text has it GCC fills the buffer too.",
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
        why: "TFRC, CCID 2 and ABRC fill the buffer, which lasts 600 ms at 1 Mbit/s; a quarter of it lasts 150 ms, and p99 is 190 to 210 ms. Two calls of ABRC with k_T = 1 ask for all of the link: with 0.2 the delay is less than half, and the goodput below its bar (rfc8867.5_2). SCReAMv2 and GCC miss the bar after the link has fallen: where it stays, they hold it (106 and 90 ms), and with a quarter of the buffer too.",
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
        why: "TFRC, CCID 2 and ABRC fill the buffer, which lasts 1.2 s at 0.5 Mbit/s. Where the link stays at 2 Mbit/s all five hold the delay, since the encoder takes less than the link, GCC with 73 ms: it misses the bar after the link has fallen.",
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
        why: "TFRC and CCID 2 respond to losses alone, and three calls of ABRC with k_T = 1 ask for more than the link: they fill the buffer of 300 ms; with a quarter of it all three hold the bar. With k_T = 0.2 ABRC's delay is above the bar still, and its goodput below (rfc8867.5_4).",
        changes: &[quarter(&["link.line.queue.limit=32812B"])],
    },
    Bars {
        case: "rfc8867.5_5",
        id: "rfc8867.bars_5_5",
        why: "The delay of TFRC, CCID 2 and ABRC is that of the full buffer: with a quarter of it they hold the bar. Jain's index, but for ABRC's, is below the bar because of the paths: where all have 50 ms it is 0.92 and more, but for GCC. GCC's 0.86 comes from its probes, which find more for a call that has five packets in a frame already: without them it is 0.94.",
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
        why: "SCReAMv2 is starved by the delay of the queue that the download fills: with a queue for each flow it has 0.83 Mbit/s, and with a quarter of the buffer 0.23, above the bar.",
        changes: &[quarter(&["link.line.queue.limit=18750B"]), APART],
    },
    Bars {
        case: "rfc8867.5_7",
        id: "rfc8867.bars_5_7",
        why: "SCReAMv2 falls with the delay of the queue that the pages fill: with a quarter of the buffer, or a queue for each flow, it holds the bar.",
        changes: &[quarter(&["link.line.queue.limit=18750B"]), APART],
    },
    Bars {
        case: "rfc8867.5_8",
        id: "rfc8867.bars_5_8",
        why: "As in 5.4.",
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

    fn key(&self, change: &str, controller: &str) -> Key {
        Key::new(format!("{}/{change}/{controller}", self.id))
    }

    fn cells(&self) -> Vec<Cell> {
        let case = self.case();
        let cell = |key, rate: &str, more: &[&str]| {
            let calls = case.calls.iter().flat_map(|call| {
                [
                    format!("flow.{call}.rate={rate}"),
                    format!("flow.{call}.policy={}", POLICIES[0]),
                ]
            });
            Cell {
                set: calls.chain(more.iter().map(|set| (*set).into())).collect(),
                runs: Some(RUNS),
                ..Cell::new(key, case.file, case.seconds)
            }
        };
        let mut cells = Vec::new();
        for (controller, _) in CONTROLLERS {
            if !THERE.contains(&controller) {
                cells.push(cell(case.key(controller, POLICIES[0]), controller, &[]));
            }
            for change in self.changes {
                let key = self.key(change.name, controller);
                cells.push(cell(key, controller, change.set));
            }
        }
        for own in OWN {
            let rate = format!("{{ kind = \"gcc\", {} }}", own.keys);
            cells.push(cell(self.key(own.name, "gcc"), &rate, &[]));
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
                let x = Figures::of(case, &r[self.key(change.name, controller)]);
                row(vec![change.says.into(), name.into()], &x)
            })
        });
        let own = OWN.iter().map(|own| {
            let x = Figures::of(case, &r[self.key(own.name, "gcc")]);
            row(vec![own.says.into(), "GCC".into()], &x)
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
            ideal: "all bars".into(),
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
                    rows: changed.chain(own).collect(),
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
