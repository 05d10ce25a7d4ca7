// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of the PPS paper in its own axes, and its tables.

use makeway_report::chart::{Chart, Series};
use makeway_report::model::Report;

use super::figures::{self, least_utilisation, mean_distance, rates};
use super::runs::{FIG5, OURS, PAPERS, Setup, TABLES, VARIANTS};
use crate::experiment::{Key, Results};
use crate::papers::claim::Table;
use crate::papers::figures::{percent, plain, with_intervals};

/// `0.50, 0.25, 0.25`.
pub fn list(rates: &[f64]) -> String {
    let digits = if rates.iter().all(|x| *x < 0.15) {
        3
    } else {
        2
    };
    let texts: Vec<String> = rates.iter().map(|x| format!("{x:.digits$}")).collect();
    texts.join(", ")
}

/// Throughput by tickets of one-hop flows, in each of `cells`.
pub fn by_tickets(r: &Results, title: &str, cells: &[(Key, &str)]) -> Chart {
    let tickets = |i: usize| (i + 1) as u32 * 100;
    let mut series: Vec<Series> = cells
        .iter()
        .map(|(cell, name)| {
            let rates = rates(&r[cell.clone()]).into_iter().enumerate();
            let points: Vec<_> = rates.map(|(i, x)| (tickets(i), x)).collect();
            with_intervals(*name, &points, 1.0)
        })
        .collect();
    let ideal = FIG5.ideal.iter().enumerate();
    let ideal = ideal.map(|(i, x)| (f64::from(tickets(i)), *x)).collect();
    series.push(Series::dashed("in proportion", ideal));
    Chart {
        title: title.into(),
        x: "tickets/s".into(),
        y: "Mbit/s".into(),
        series,
        ..Chart::default()
    }
}

/// A, B and C over time, in steps of 10 s.
pub fn over_time(runs: &[Report], title: &str) -> Chart {
    let flows = ["A", "B", "C"].into_iter().enumerate();
    Chart {
        title: title.into(),
        x: "s".into(),
        y: "Mbit/s".into(),
        series: flows
            .map(|(flow, name)| Series::line(name, figures::over_time(runs, flow, 10.0)))
            .collect(),
        ..Chart::default()
    }
}

/// Each flow's rate: ideal, the paper's, ours with its interval, and with the paper's parameters.
pub fn table(r: &Results, setup: &Setup) -> Table {
    let of = |variant: &str| rates(&r[setup.key(variant)]);
    let names = r[setup.key(OURS.name)].first();
    let names = names.map_or_else(Vec::new, |run| {
        run.flows.iter().map(|flow| flow.name.clone()).collect()
    });
    let (ours, papers) = (of(OURS.name), of(PAPERS.name));
    let rows = names.into_iter().enumerate().map(|(i, name)| {
        vec![
            name,
            format!("{:.3}", setup.ideal[i]),
            format!("{}", setup.paper[i]),
            plain(&ours[i]),
            plain(&papers[i]),
        ]
    });
    let head = ["flow", "ideal", "paper", "ours", "as printed"];
    Table {
        title: format!("{}, Mbit/s", setup.name),
        head: head.map(String::from).into(),
        rows: rows.collect(),
    }
}

/// The worst distance to the ideal in each table, by choice of parameters.
pub fn variants(r: &Results) -> Table {
    let all = || [&FIG5].into_iter().chain(&TABLES);
    let mut rows = vec![
        [String::from("the paper, as printed"), String::new()]
            .into_iter()
            .chain(TABLES.iter().map(|setup| percent(setup.paper_distance())))
            .chain([
                percent(
                    TABLES.iter().map(Setup::paper_distance).sum::<f64>() / TABLES.len() as f64,
                ),
                String::from("98 %"),
            ])
            .collect::<Vec<_>>(),
    ];
    rows.extend(VARIANTS.iter().map(|variant| {
        [variant.says.to_string()]
            .into_iter()
            .chain(all().map(|setup| percent(setup.distance(r, variant.name))))
            .chain([
                percent(mean_distance(r, variant.name)),
                percent(least_utilisation(r, variant.name)),
            ])
            .collect()
    }));
    let names = all().map(|setup| setup.name.to_string());
    let ends = ["mean of tables", "least used link"].map(String::from);
    Table {
        title: "The worst flow's distance to its ideal, means over runs".into(),
        head: [String::from("with")]
            .into_iter()
            .chain(names)
            .chain(ends)
            .collect(),
        rows,
    }
}
