// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cell of the table: a case under a discipline, over its replications; as a row, as JSON and on a page.

use comfy_table::Table;
use makeway_core::sched::Discipline;
use makeway_report::estimate::{Estimate, Unit};
use maud::{DOCTYPE, html};
use serde::{Serialize, Serializer};

use super::Course;
use super::cases::Half;
use super::sample::{Get, Sample};
use crate::experiment::World;
use crate::tables::{align, markdown};

#[derive(Serialize)]
pub struct Cell {
    case: String,
    world: &'static str,
    discipline: String,
    runs: usize,
    call: Call,
    rest: Rest,
    wins: Option<bool>,
    #[serde(skip)]
    half: Option<Half>,
}

#[derive(Serialize)]
struct Call {
    on_time: Figure,
    freezes: Figure,
    frozen_s: Figure,
    delay_p50_ms: Figure,
    delay_p99_ms: Figure,
    rate_mbps: Figure,
    r_factor: Figure,
    mos: Figure,
}

#[derive(Serialize)]
struct Rest {
    goodput_mbps: Figure,
    jain: Figure,
    page_s: Figure,
    page_last_s: Figure,
    wait_p50_ms: Figure,
    wait_p99_ms: Figure,
}

/// Estimate over the runs that have the figure; `null` in JSON if none does.
pub struct Figure(pub Estimate);

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Form {
            mean: f64,
            half: Option<f64>,
        }
        let form = (self.0.runs > 0).then_some(Form {
            mean: self.0.mean,
            half: self.0.half_width,
        });
        form.serialize(to)
    }
}

impl Figure {
    pub fn of(runs: &[Sample], get: Get) -> Self {
        Self(Estimate::of(runs.iter().filter_map(get)))
    }

    pub fn show(&self, unit: Unit) -> String {
        match self.0.runs {
            0 => "-".into(),
            _ => unit.show(&self.0),
        }
    }
}

/// Columns of the table and of the page; the first four are words.
const COLUMNS: [&str; 18] = [
    "case",
    "half",
    "discipline",
    "wins",
    "on time",
    "freezes",
    "frozen, s",
    "p50",
    "p99",
    "call, Mbit/s",
    "R",
    "MOS",
    "rest, Mbit/s",
    "Jain",
    "page, s",
    "last, s",
    "wait p50",
    "wait p99",
];

impl Cell {
    pub fn of(
        course: &Course,
        world: World,
        discipline: Discipline,
        runs: &[Sample],
        wins: Option<bool>,
    ) -> Self {
        let figure = |get: Get| Figure::of(runs, get);
        Self {
            case: course.name.clone(),
            world: world.name(),
            discipline: discipline.to_string(),
            runs: runs.len(),
            call: Call {
                on_time: figure(|s| s.on_time),
                freezes: figure(|s| s.freezes),
                frozen_s: figure(|s| s.frozen_s),
                delay_p50_ms: figure(|s| s.delay_p50_ms),
                delay_p99_ms: figure(|s| s.delay_p99_ms),
                rate_mbps: figure(|s| s.rate_mbps),
                r_factor: figure(|s| s.r_factor),
                mos: figure(|s| s.mos),
            },
            rest: Rest {
                goodput_mbps: figure(|s| s.goodput_mbps),
                jain: figure(|s| s.jain),
                page_s: figure(|s| s.page_s),
                page_last_s: figure(|s| s.page_last_s),
                wait_p50_ms: figure(|s| s.wait_p50_ms),
                wait_p99_ms: figure(|s| s.wait_p99_ms),
            },
            wins,
            half: course.half,
        }
    }

    fn row(&self) -> [String; COLUMNS.len()] {
        let Self { call, rest, .. } = self;
        let wins = self.wins.map_or("", |wins| if wins { "yes" } else { "no" });
        [
            self.case.clone(),
            self.half.map_or("-", Half::name).into(),
            self.discipline.clone(),
            wins.into(),
            call.on_time.show(Unit::Share),
            call.freezes.show(Unit::Index),
            call.frozen_s.show(Unit::Index),
            call.delay_p50_ms.show(Unit::Millis),
            call.delay_p99_ms.show(Unit::Millis),
            call.rate_mbps.show(Unit::Index),
            call.r_factor.show(Unit::Index),
            call.mos.show(Unit::Index),
            rest.goodput_mbps.show(Unit::Index),
            rest.jain.show(Unit::Index),
            rest.page_s.show(Unit::Index),
            rest.page_last_s.show(Unit::Index),
            rest.wait_p50_ms.show(Unit::Millis),
            rest.wait_p99_ms.show(Unit::Millis),
        ]
    }
}

pub fn table(cells: &[Cell]) -> Table {
    let mut table = markdown(COLUMNS);
    for cell in cells {
        table.add_row(cell.row());
    }
    align(table, 4)
}

/// The same as a page of one file, with the verdict and what `makeway` does not win.
pub fn page(cells: &[Cell], verdict: &str, losses: &[String]) -> String {
    const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2em}table{border-collapse:collapse;font-size:13px}\
        th{position:sticky;top:0;background:#eee}th,td{padding:2px 8px;text-align:right;white-space:nowrap}\
        th:nth-child(-n+4),td:nth-child(-n+4){text-align:left}tr.first td{border-top:1px solid #999}\
        tr.yes{background:#e4f5e4}tr.no{background:#fbe3dc}";
    let same_case = |n: usize| n > 0 && cells[n - 1].case == cells[n].case;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { "makeway: the gauntlet" }
                style { (STYLE) }
            }
            body {
                h1 { "The gauntlet" }
                p { (verdict) }
                @if !losses.is_empty() {
                    ul { @for loss in losses { li { (loss) } } }
                }
                table {
                    thead { tr { @for column in COLUMNS { th { (column) } } } }
                    tbody {
                        @for (n, cell) in cells.iter().enumerate() {
                            tr .first[!same_case(n)] .yes[cell.wins == Some(true)] .no[cell.wins == Some(false)] {
                                @for figure in cell.row() { td { (figure) } }
                            }
                        }
                    }
                }
            }
        }
    };
    page.into_string()
}
