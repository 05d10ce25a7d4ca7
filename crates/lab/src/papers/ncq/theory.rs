// SPDX-License-Identifier: MIT OR Apache-2.0
//! Section 4.1: closed forms, and the same two classes in simulated time. Fig. 1 and 2.

use makeway_core::theory::ncq::{Classes, Delays};
use makeway_report::chart::{Chart, Series};
use makeway_report::estimate::Estimate;
use makeway_report::model::Report;
use makeway_report::summary::group;

use super::corrections::{EACH, Forms};
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{largest, mean, only, percent, smallest};

const FILE: &str = "papers/ncq/analysis.toml";
const ANALYSIS: &str = "section 4.1: two classes of Poisson packets, 0.5 and 5 ms of service, the first 10 or 20 % of the packets; closed forms, and the simulator (2000 s)";
/// The paper's 0.5 and 5 ms.
const SERVICES: [f64; 2] = [0.5e-3, 5e-3];
/// Bits of a packet of each class at 2 Mbit/s.
const BITS: [f64; 2] = [1000.0, 10_000.0];
/// Share of the short packets, in percent.
const SHARES: [u32; 2] = [10, 20];
/// Loads that are simulated, in percent; below the first the paper sees no gain.
const LOADS: [u32; 7] = [23, 30, 50, 60, 70, 80, 90];
const THRESHOLDS: [&str; 3] = ["0.01", "0.03", "0.05"];
/// Priority without a threshold.
const ALL: &str = "1";

fn classes(load: f64, share: u32) -> Classes {
    Classes::of_load(load, f64::from(share) / 100.0, SERVICES)
}

pub fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for share in SHARES {
        for load in LOADS {
            let rates = classes(f64::from(load) / 100.0, share).rates;
            for queue in ["fifo", ALL].into_iter().chain(THRESHOLDS) {
                let rate = |class: usize| (rates[class] * BITS[class]).round();
                let set = vec![
                    super::queue_on("line", queue),
                    format!("flow.short.rate={}bit", rate(0)),
                    format!("flow.long.rate={}bit", rate(1)),
                ];
                cells.push(Cell {
                    set,
                    ..Cell::new(key(share, queue, load), FILE, 2000)
                });
            }
        }
    }
    cells
}

fn key(share: u32, queue: &str, load: u32) -> Key {
    Key::new(format!("analysis/{share}/{queue}/{load}"))
}

/// Mean time in the system of a class in ms, simulated.
fn delay(r: &Results, share: u32, queue: &str, load: u32, class: &str) -> Estimate {
    let of = |x: &Report| {
        group(x, class)
            .datagrams
            .map_or(f64::NAN, |d| d.delay_ms.mean)
    };
    mean(&r[key(share, queue, load)], of)
}

/// How far the simulator is from a closed form, at the worst load.
fn apart(r: &Results, queue: &str, form: impl Fn(&Classes) -> Delays) -> f64 {
    let mut all = Vec::new();
    for share in SHARES {
        for load in LOADS {
            let expected = form(&classes(f64::from(load) / 100.0, share)).delays;
            for (class, expected) in ["short", "long"].iter().zip(expected) {
                let seen = delay(r, share, queue, load, class).mean;
                all.push((seen / expected / 1e3 - 1.0).abs());
            }
        }
    }
    largest(all)
}

pub fn claims(r: &Results) -> Vec<Claim> {
    vec![fig1(r), fig2(r)]
}

/// Delays in ms of one class by load, as a line, and simulated ones, as dots.
fn curves(
    r: &Results,
    name: &str,
    share: u32,
    class: usize,
    queue: &str,
    form: impl Fn(&Classes) -> Delays,
) -> [Series; 2] {
    let at = |n: i32| f64::from(n) / 100.0;
    let line = (5..=90).map(|n| (at(n), form(&classes(at(n), share)).delays[class] * 1e3));
    let of = ["short", "long"][class];
    let dots = LOADS.map(|load| {
        let load_of = f64::from(load) / 100.0;
        (load_of, delay(r, share, queue, load, of).mean)
    });
    [
        Series::line(name, line.collect()),
        Series::dots(format!("{name}, simulated"), dots.into()),
    ]
}

fn chart(title: String, series: impl IntoIterator<Item = [Series; 2]>) -> Chart {
    Chart {
        title,
        x: "utilisation".into(),
        y: "queuing delay, ms".into(),
        series: series.into_iter().flatten().collect(),
        ..Chart::default()
    }
}

/// Largest cost of priority for the long packets up to a load of 0.9, as a part of their delay.
fn cost(share: u32, before: impl Fn(&Classes) -> Delays) -> f64 {
    let at = |n: i32| {
        let classes = classes(f64::from(n) / 100.0, share);
        classes.priority().delays[1] / before(&classes).delays[1] - 1.0
    };
    largest((1..=90).map(at))
}

/// Gain of the short packets at a load.
fn gain(load: f64, share: u32, after: impl Fn(&Classes) -> Delays) -> f64 {
    let classes = classes(load, share);
    1.0 - after(&classes).delays[0] / classes.fifo().delays[0]
}

fn fig1(r: &Results) -> Claim {
    let [ten, twenty] = SHARES.map(|share| cost(share, Classes::fifo));
    let simulated = {
        let of = |queue| delay(r, 20, queue, 90, "long").mean;
        of(ALL) / of("fifo") - 1.0
    };
    let printed = cost(20, Classes::fifo_as_printed);
    let system_by = |share: u32, before: fn(&Classes) -> Delays| {
        let at = |n: i32| {
            let classes = classes(f64::from(n) / 100.0, share);
            (1.0 - classes.priority().mean_delay / before(&classes).mean_delay).abs()
        };
        largest((1..=60).map(at))
    };
    let system = |share: u32| system_by(share, Classes::fifo);
    let gained = gain(0.6, 10, Classes::priority);
    let column = |before: fn(&Classes) -> Delays| {
        let classes = classes(0.6, 10);
        let gained = 1.0 - classes.priority().delays[0] / before(&classes).delays[0];
        let changes = largest(SHARES.map(|share| system_by(share, before)));
        let costs = SHARES.map(|share| cost(share, before));
        Column::of(
            [
                ("the short gain at 0.6 with 10 %, %", gained),
                ("the long lose up to 0.9 with 10 %, %", costs[0]),
                ("the long lose up to 0.9 with 20 %, %", costs[1]),
                ("the system's mean changes up to 0.6, %", changes),
            ]
            .map(|(name, x)| (name, only(x * 100.0))),
        )
    };
    Claim {
        id: "ncq.fig1",
        printed: column(Classes::fifo_as_printed),
        ours: column(Classes::fifo),
        paper: "With 10 % short packets a slight cost for the long above a load of 0.6 buys the short a large gain; with 20 % the cost shows above 0.3. The system's mean stays the same.".into(),
        said: format!(
            "the short gain {} at 0.6; the long lose {} at most with 10 %, {} with 20 % (up to a load of 0.9; simulated there: {}); the system's mean falls by {} and {} at most up to 0.6. The simulator is within {} of the closed forms",
            percent(gained), percent(ten), percent(twenty), percent(simulated), percent(system(10)), percent(system(20)),
            percent(largest([
                apart(r, "fifo", Classes::fifo),
                apart(r, ALL, Classes::priority),
            ]))
        ),
        ideal: "no cost for the long".into(),
        why: format!(
            "Eq. (9) has the square of the mean service time where Pollaczek and Khinchine have the mean square, so its wait without priority is too short: against that, priority seems to cost the long {} with 20 %. With the mean square the cost is 1 / (1 - u1) of the wait, which the simulator has too.",
            percent(printed)
        ),
        setup: ANALYSIS,
        from: &["analysis/10/fifo", "analysis/10/1/", "analysis/20/fifo", "analysis/20/1/"],
        charts: SHARES
            .map(|share| {
                chart(
                    format!("Fig. 1: {share} % of the packets are short"),
                    [
                        curves(r, "short, no priority", share, 0, "fifo", Classes::fifo),
                        curves(r, "short, priority", share, 0, ALL, Classes::priority),
                        curves(r, "long, no priority", share, 1, "fifo", Classes::fifo),
                        curves(r, "long, priority", share, 1, ALL, Classes::priority),
                    ],
                )
            })
            .into(),
        ..Claim::default()
    }
}

fn threshold(queue: &str) -> impl Fn(&Classes) -> Delays {
    let threshold = queue.parse().unwrap_or(f64::NAN);
    move |classes| classes.threshold(classes.favoured(threshold))
}

const GAIN_60: &str = "the short gain at 0.6 with 5 %, %";
const GAIN_23: &str = "the short gain at 0.23 with 5 %, %";
const STEP: &str = "the least step of the gain by threshold and load, points";
const LOSE: &str = "the long lose, most, %";

/// The least that a gain rises from a threshold to the next, and with 5 % from a load to the next.
fn least_step_of_gain(loads: &[f64], gain: impl Fn(f64, u32, &str) -> f64) -> f64 {
    let mut steps = Vec::new();
    for share in SHARES {
        for load in loads {
            let gains = THRESHOLDS.map(|queue| gain(*load, share, queue));
            steps.extend(gains.windows(2).map(|pair| pair[1] - pair[0]));
        }
        let by_load: Vec<f64> = loads
            .iter()
            .map(|load| gain(*load, share, "0.05"))
            .collect();
        steps.extend(by_load.windows(2).map(|pair| pair[1] - pair[0]));
    }
    smallest(steps)
}

fn fig2(r: &Results) -> Claim {
    let loads = LOADS.map(|load| f64::from(load) / 100.0);
    let mut costs = Vec::new();
    for share in SHARES {
        for load in LOADS {
            for queue in THRESHOLDS {
                let seen = |queue| delay(r, share, queue, load, "long").mean;
                costs.push(seen(queue) / seen("fifo") - 1.0);
            }
        }
    }
    let cost = largest(costs);
    // Gain of the short, cost of the long.
    let by = |forms: Forms, load: f64, share: u32, threshold: f64| {
        let classes = classes(load, share);
        let before = forms.fifo(&classes);
        let after = forms.ncq(&classes, threshold);
        let part = |class: usize| after.delays[class] / before.delays[class];
        [1.0 - part(0), part(1) - 1.0]
    };
    let of_form = |load: f64, share: u32, threshold: f64| by(EACH[0].1, load, share, threshold);
    let value = |queue: &str| queue.parse().unwrap_or(f64::NAN);
    let all = || {
        let loads = loads
            .iter()
            .flat_map(|load| SHARES.map(|share| (*load, share)));
        loads.flat_map(|(load, share)| THRESHOLDS.map(|queue| (load, share, queue)))
    };
    let dearest = |forms: Forms| {
        largest(all().map(|(load, share, queue)| by(forms, load, share, value(queue))[1]))
    };
    let printed = Column::of(
        [
            (GAIN_60, of_form(0.6, 10, 0.05)[0]),
            (GAIN_23, of_form(0.23, 10, 0.05)[0]),
            (
                STEP,
                least_step_of_gain(&loads, |load, share, queue| {
                    of_form(load, share, value(queue))[0]
                }),
            ),
            (LOSE, dearest(EACH[0].1)),
        ]
        .map(|(name, x)| (name, only(x * 100.0))),
    );
    let seen_gain = |load: f64, share: u32, queue: &str| {
        let of = |queue| delay(r, share, queue, (load * 100.0).round() as u32, "short").mean;
        1.0 - of(queue) / of("fifo")
    };
    let ours = Column::of(
        [
            (GAIN_60, seen_gain(0.6, 10, "0.05")),
            (STEP, least_step_of_gain(&loads, seen_gain)),
            (LOSE, cost),
        ]
        .map(|(name, x)| (name, only(x * 100.0))),
    );
    let seen = |load: u32, queue: &str| {
        let of = |queue| delay(r, 10, queue, load, "short").mean;
        1.0 - of(queue) / of("fifo")
    };
    let at = |load: u32| {
        THRESHOLDS
            .map(|queue| percent(seen(load, queue)))
            .join(", ")
    };
    let [gain_as_printed, _] = of_form(0.6, 10, 0.05);
    let row = |says: &str, figures: [f64; 3]| {
        let figures = figures.map(percent);
        [says.to_owned()]
            .into_iter()
            .chain(figures)
            .collect::<Vec<_>>()
    };
    let forms = EACH.iter().map(|(says, forms)| {
        let gain = |load: f64| by(*forms, load, 10, 0.05)[0];
        row(says, [gain(0.6), gain(0.23), dearest(*forms)])
    });
    let simulated = [seen(60, "0.05"), seen(23, "0.05"), cost];
    let rows = forms.chain([row("the simulator", simulated)]).collect();
    let head = [
        "with",
        "the short gain at 0.6",
        "at 0.23",
        "the long lose, most",
    ];
    let worst = largest(THRESHOLDS.map(|queue| apart(r, queue, threshold(queue))));
    Claim {
        id: "ncq.fig2",
        printed,
        ours,
        paper: "With thresholds of 1 to 5 % there is almost no cost for the congestive; the gain of the others grows with the load and the threshold, and is nothing below a load of 0.23.".into(),
        said: format!(
            "simulated: cost {} at most; gain with 1, 3, 5 % (10 % short): {} at 0.23; {} at 0.6; {} at 0.9. The simulator is within {} of the closed forms",
            percent(cost), at(23), at(60), at(90), percent(worst)
        ),
        ideal: "the gain of full priority without its cost".into(),
        why: format!(
            "kthresh is printed inverted: as printed, 5 % of all packets would be 0.5 % of the short ones, which would gain {} at 0.6. NCQ does the inverse, min(1, ncqthresh lambda / lambda1). Its counters refuse a short packet soon after they favoured one, when the queue is shorter than usual, so short packets gain up to an eighth more than by the closed form, which assumes that each is favoured by chance. Below 0.23 the gain is small but not zero.",
            percent(gain_as_printed)
        ),
        setup: ANALYSIS,
        from: &["analysis/"],
        tables: vec![Table {
            title: "Fig. 2: gain with 5 %, 10 % of the packets short, and cost over all loads and thresholds, with one equation corrected".into(),
            head: head.map(String::from).into(),
            rows,
        }],
        charts: SHARES
            .into_iter()
            .flat_map(|share| [(share, 0), (share, 1)])
            .map(|(share, class)| {
                let what = ["non-congestive", "congestive"][class];
                let fifo = curves(r, "no priority", share, class, "fifo", Classes::fifo);
                let ncq = THRESHOLDS.map(|queue| {
                    curves(r, &super::label(queue), share, class, queue, threshold(queue))
                });
                chart(
                    format!("Fig. 2: {what}, {share} % of the packets are short"),
                    [fifo].into_iter().chain(ncq),
                )
            })
            .collect(),
        ..Claim::default()
    }
}
