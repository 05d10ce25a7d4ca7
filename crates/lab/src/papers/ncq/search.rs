// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which rates, delays and buffers of the lost Fig. 7 give the figures of the paper's text: a joint search.

use std::collections::BTreeSet;

use makeway_report::estimate::Estimate;
use makeway_report::model::Report;

use super::ftp::{self, COUNTED, FIG8, done_by, goodput, worst_time};
use super::{r_factor, voip};
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::Table;
use crate::papers::figures::{NOT_MEASURED, mean, paired, plain};

/// Rates of the bottleneck, Mbit/s.
const RATES: [u32; 4] = [2, 5, 10, 20];
/// One-way delays of the bottleneck, ms; 10 ms more are outside of it.
const DELAYS: [u32; 4] = [5, 20, 50, 100];
/// Buffers of the bottleneck, packets.
const BUFFERS: [u32; 4] = [20, 50, 100, 200];
const RUNS: usize = 3;

/// NCQ as printed, and with favoured packets that push others out: what their cells' thresholds begin with.
const FORMS: [(&str, &str); 2] = [("as printed", "plain-"), ("pushing out", "")];

/// A choice of the three.
#[derive(Clone, Copy)]
struct Point {
    rate: u32,
    delay: u32,
    buffer: u32,
}

fn points() -> impl Iterator<Item = Point> {
    let two = |rate| DELAYS.map(|delay| (rate, delay));
    RATES.into_iter().flat_map(two).flat_map(|(rate, delay)| {
        BUFFERS.map(|buffer| Point {
            rate,
            delay,
            buffer,
        })
    })
}

/// Runs of a point: kind of traffic, flows, and the threshold of the paper's figure.
const LOADS: [(&str, u32, &str); 4] = [
    ("ftp", 50, "0.01"),
    ("ftp", 80, "0.05"),
    ("ftp", 90, "0.03"),
    ("voip", 50, "0.01"),
];

impl Point {
    fn key(self, (kind, flows, _): (&str, u32, &str), queue: &str) -> Key {
        let Self {
            rate,
            delay,
            buffer,
        } = self;
        Key::new(format!(
            "search/{rate}/{delay}/{buffer}/{kind}/{queue}/{flows}"
        ))
    }

    fn says(self) -> String {
        let Self {
            rate,
            delay,
            buffer,
        } = self;
        format!("{rate} Mbit/s, {delay} ms, {buffer} packets")
    }

    fn cells(self) -> impl Iterator<Item = Cell> {
        LOADS.into_iter().flat_map(move |load| {
            let (kind, flows, threshold) = load;
            [
                "fifo".into(),
                threshold.to_owned(),
                format!("plain-{threshold}"),
            ]
            .map(|queue| {
                let key = self.key(load, &queue);
                let mut cell = match kind {
                    "ftp" => FIG8.cell(&queue, flows),
                    _ => voip::cell(key.clone(), &queue, flows, 1),
                };
                cell.key = key;
                cell.runs = Some(RUNS);
                cell.set.push(format!("link.line.rate={}mbit", self.rate));
                cell.set.push(format!("link.line.delay={}ms", self.delay));
                cell.set
                    .push(format!("link.line.queue.limit={} packets", self.buffer));
                cell
            })
        })
    }

    fn runs<'a>(self, r: &'a Results, load: (&str, u32, &str), queue: &str) -> &'a [Report] {
        &r[self.key(load, queue)]
    }
}

pub fn cells() -> Vec<Cell> {
    points().flat_map(Point::cells).collect()
}

/// Figures of the text, and the range that each is met in: within 10 %.
const TEXT: [(&str, f64, f64); 6] = [
    ("7 tasks at 30.5 s, DropTail", 6.3, 7.7),
    ("10 tasks, 1 %", 9.0, 11.0),
    ("10.43 times, 5 %", 9.39, 11.47),
    ("24.8 s sooner, 3 %", 22.3, 27.3),
    ("R of 50 to 60, DropTail", 50.0, 60.0),
    ("R of 70 to 80, 1 %", 70.0, 80.0),
];

fn found(r: &Results, point: Point, form: &str) -> [Estimate; 6] {
    let [tasks, gain, worst, call] = LOADS;
    let of = |load: (&'static str, u32, &'static str)| {
        let ncq = point.runs(r, load, &format!("{form}{}", load.2));
        [point.runs(r, load, "fifo"), ncq]
    };
    let done = |x: &Report| done_by(x, COUNTED);
    let [fifo, ncq] = of(gain);
    let times = paired(ncq, fifo, |x| goodput(x, "short"), |a, b| a / b);
    let [fifo, ncq] = of(worst);
    let sooner = paired(ncq, fifo, worst_time, |ncq, fifo| fifo - ncq);
    let [before, after] = of(tasks).map(|runs| mean(runs, done));
    let [poor, better] = of(call).map(|runs| mean(runs, r_factor));
    [before, after, times, sooner, poor, better]
}

/// A point with its figures.
type Found = (Point, [Estimate; 6]);

/// Whether a figure of the text is met.
fn is_met(figures: &[Estimate; 6], n: usize) -> bool {
    let (_, low, high) = TEXT[n];
    (low..=high).contains(&figures[n].mean)
}

/// How many figures of the text are met.
fn met(figures: &[Estimate; 6]) -> usize {
    (0..TEXT.len()).filter(|n| is_met(figures, *n)).count()
}

fn is_run(r: &Results) -> bool {
    points().all(|point| r.has(&point.key(LOADS[0], "fifo")))
}

/// For each form of NCQ: the region that fits, the points that meet most and where each figure is met.
pub fn tables(r: &Results) -> Vec<Table> {
    if !is_run(r) {
        return Vec::new();
    }
    let tables = FORMS.map(|(name, form)| {
        let all: Vec<Found> = points()
            .map(|point| (point, found(r, point, form)))
            .collect();
        [map(name, &all), best(name, &all)]
    });
    tables.into_iter().flatten().collect()
}

/// The points that meet all figures, in words.
fn region(all: &[Found]) -> String {
    let most = all
        .iter()
        .map(|(_, figures)| met(figures))
        .max()
        .unwrap_or(0);
    let fits = all.iter().filter(|(_, figures)| met(figures) == TEXT.len());
    let fits: Vec<String> = fits.map(|(point, _)| point.says()).collect();
    match fits.is_empty() {
        true => format!(
            "no point meets all {}, the most that one meets is {most}",
            TEXT.len()
        ),
        false => format!("all {} are met at {}", TEXT.len(), fits.join("; ")),
    }
}

/// How many figures each point meets: a row for each rate and delay, a column for each buffer.
fn map(name: &str, all: &[Found]) -> Table {
    let cell = |rate: u32, delay: u32, buffer: u32| {
        let is_there = |(p, _): &&Found| (p.rate, p.delay, p.buffer) == (rate, delay, buffer);
        let Some((_, figures)) = all.iter().find(is_there) else {
            return NOT_MEASURED.to_owned();
        };
        match figures.iter().filter(|x| x.mean.is_nan()).count() {
            0 => met(figures).to_string(),
            missing => format!("{}, {missing} {NOT_MEASURED}", met(figures)),
        }
    };
    let row = |(rate, delay): (u32, u32)| {
        let head = [format!("{rate} Mbit/s, {delay} ms")];
        let each = BUFFERS.map(|buffer| cell(rate, delay, buffer));
        head.into_iter().chain(each).collect()
    };
    let lines = RATES
        .into_iter()
        .flat_map(|rate| DELAYS.map(|delay| (rate, delay)));
    let head = BUFFERS.map(|buffer| format!("{buffer} packets"));
    Table {
        title: format!(
            "NCQ {name}: figures of the text, of {}, that a rate, delay and buffer meet within 10 %; {}",
            TEXT.len(),
            region(all)
        ),
        head: [String::new()].into_iter().chain(head).collect(),
        rows: lines.map(row).collect(),
    }
}

/// Points that meet most, and for each figure the values at which it is met.
fn best(name: &str, all: &[Found]) -> Table {
    let most = all
        .iter()
        .map(|(_, figures)| met(figures))
        .max()
        .unwrap_or(0);
    let best = all.iter().filter(|(_, figures)| met(figures) == most);
    let mut rows: Vec<Vec<String>> = best
        .map(|(point, figures)| {
            let head = [point.rate, point.delay, point.buffer].map(|x| x.to_string());
            let figures = figures.iter().map(plain);
            head.into_iter().chain(figures).collect()
        })
        .collect();
    let of_figures = |title: [&str; 3], cell: &dyn Fn(&[Point]) -> String| {
        let each = (0..TEXT.len()).map(|n| {
            let those = all.iter().filter(|(_, figures)| is_met(figures, n));
            cell(&those.map(|(point, _)| *point).collect::<Vec<_>>())
        });
        let title = title.map(String::from);
        title.into_iter().chain(each).collect::<Vec<_>>()
    };
    rows.push(of_figures(["points", "that", "meet it"], &|those| {
        format!("{} of {}", those.len(), all.len())
    }));
    let values = |point: &Point| [point.rate, point.delay, point.buffer];
    for (n, of) in ["rates, Mbit/s", "delays, ms", "buffers, packets"]
        .into_iter()
        .enumerate()
    {
        rows.push(of_figures(["at", "these", of], &|those| {
            let values: BTreeSet<u32> = those.iter().map(|point| values(point)[n]).collect();
            ftp::list(&values.into_iter().collect::<Vec<_>>())
        }));
    }
    let head = ["Mbit/s", "ms", "packets"].into_iter().map(String::from);
    Table {
        title: format!(
            "NCQ {name}: points that meet most of the text's figures, {most} of {}, and where each figure is met",
            TEXT.len()
        ),
        head: head.chain(TEXT.map(|(name, ..)| name.to_owned())).collect(),
        rows,
    }
}

/// The search in a sentence, where it was run.
pub fn says(r: &Results) -> String {
    match is_run(r) {
        true => searched(),
        false => "Rate, delay and buffer are searched jointly by `makeway-lab region`.".into(),
    }
}

/// Extent of the search.
pub fn searched() -> String {
    format!(
        "Rate, delay and buffer of the bottleneck were searched jointly, {} Mbit/s, {} ms and {} packets, {RUNS} replications each, {} points: the tables have the region that fits.",
        ftp::list(&RATES),
        ftp::list(&DELAYS),
        ftp::list(&BUFFERS),
        points().count()
    )
}

#[cfg(test)]
mod tests {
    use makeway_report::model::{FlowReport, Quantiles, TasksReport, VoiceReport};

    use super::*;
    use crate::papers::tests::made_up;

    const FITS: Point = Point {
        rate: 10,
        delay: 20,
        buffer: 100,
    };

    fn task(group: &str, seconds: f64, bps: f64) -> FlowReport {
        let completion_ms = Quantiles {
            mean: seconds * 1e3,
            ..Quantiles::default()
        };
        FlowReport {
            group: group.into(),
            kind: "bulk".into(),
            goodput_bps: bps,
            tasks: Some(TasksReport {
                done: 1,
                completion_ms,
            }),
            ..FlowReport::default()
        }
    }

    /// Reports of the text's figures, or else the same with and without NCQ.
    fn report(key: &str, is_text: bool) -> Report {
        let is_ncq = is_text && !key.contains("/fifo/");
        let flows = match key.rsplit_once('/').unwrap().1 {
            _ if key.contains("/voip/") => vec![FlowReport {
                group: "call".into(),
                voice: Some(VoiceReport {
                    mouth_to_ear_ms: 50.0,
                    r_factor: match (is_text, is_ncq) {
                        (false, _) => 89.0,
                        (true, false) => 54.0,
                        (true, true) => 74.0,
                    },
                    mos: 3.0,
                }),
                ..FlowReport::default()
            }],
            "50" => {
                let done = match (is_text, is_ncq) {
                    (false, _) => 30,
                    (true, false) => 7,
                    (true, true) => 10,
                };
                let time = |n| if n < done { 20.0 } else { 40.0 };
                (0..50).map(|n| task("long", time(n), 1e5)).collect()
            }
            "80" => vec![task("short", 10.0, if is_ncq { 10_430.0 } else { 1000.0 })],
            _ => vec![task("long", if is_ncq { 100.0 } else { 124.8 }, 1e5)],
        };
        made_up(300.0, flows, vec![])
    }

    fn results(fits: impl Fn(&str) -> bool) -> Results {
        let cells = cells().into_iter();
        cells
            .map(|cell| {
                let path = cell.key.path();
                let report = report(path, fits(path));
                (cell.key, vec![report; RUNS])
            })
            .collect()
    }

    #[test]
    fn the_region_is_where_all_figures_are_met_and_nowhere_else() {
        let fits = results(|path| path.starts_with("search/10/20/100/"));
        let tables = tables(&fits);
        assert_eq!(tables.len(), 2 * FORMS.len());
        for (map, best) in [(&tables[0], &tables[1]), (&tables[2], &tables[3])] {
            let region = format!("all 6 are met at {}", FITS.says());
            assert!(map.title.ends_with(&region), "{}", map.title);
            assert_eq!(map.rows.len(), RATES.len() * DELAYS.len());
            let cells = map.rows.iter().flat_map(|row| &row[1..]);
            assert_eq!(cells.filter(|cell| *cell == "6").count(), 1);
            let row = |of: &str| best.rows.iter().find(|row| row[2] == of).unwrap();
            assert!(row("meet it")[3..].iter().all(|cell| cell == "1 of 64"));
            assert!(row("rates, Mbit/s")[3..].iter().all(|cell| cell == "10"));
            assert!(
                row("buffers, packets")[3..]
                    .iter()
                    .all(|cell| cell == "100")
            );
        }
        let nowhere = super::tables(&results(|_| false));
        let none = "no point meets all 6, the most that one meets is 0";
        assert!(nowhere[0].title.ends_with(none), "{}", nowhere[0].title);
    }

    #[test]
    fn a_point_without_figures_is_not_measured() {
        let mut r = results(|_| false);
        for kind in ["ftp", "voip"] {
            let key = format!("search/2/5/20/{kind}/0.01/50");
            r.runs_mut(&key)
                .iter_mut()
                .for_each(|run| run.flows.clear());
        }
        let tables = tables(&r);
        let pushing = &tables[2];
        assert_eq!(pushing.rows[0][1], "0, 2 not measured");
        assert_eq!(tables[0].rows[0][1], "0");
    }
}
