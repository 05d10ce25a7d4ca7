// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of the PPS paper in its own axes, and its tables.

use makeway_report::chart::{Chart, Series};
use makeway_report::model::Report;

use super::figures::{self, least_utilisation, mean_distance, rates};
use super::runs::{
    FIG5, OURS, PAPERS, PRINTED_RED, PROFILE_CHANGES, Setup, TABLES, VARIANTS, as_printed, diffserv,
};
use crate::experiment::{Key, Results};
use crate::papers::claim::Table;
use crate::papers::figures::{mean, percent, plain, share, with_intervals};

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

/// Figures of the tables that differ as printed, with one thing changed, or two: how much of the full links is used, and rates of flows.
pub fn printed(r: &Results) -> Table {
    // Table 3, flow B; Table 6 (b), the two of the longest round trips.
    const FLOWS: [(&Setup, usize, &str); 3] = [
        (&TABLES[2], 1, "table3, B"),
        (&TABLES[6], 8, "table6b, flow 9"),
        (&TABLES[6], 9, "table6b, flow 10"),
    ];
    let row = |says: &str, variant: &str| {
        let is_run = |setup: &Setup| r.has(&setup.key(variant));
        let used = TABLES.iter().map(|setup| match is_run(setup) {
            true => percent(setup.utilisation(r, variant)),
            false => String::new(),
        });
        let of_flow = |(setup, flow, _): (&Setup, usize, &str)| {
            let runs = r.get(&setup.key(variant));
            runs.map_or_else(String::new, |runs| plain(&rates(runs)[flow]))
        };
        let used = [says.to_owned()].into_iter().chain(used);
        used.chain(FLOWS.map(of_flow)).collect::<Vec<_>>()
    };
    let paper = FLOWS.map(|(setup, flow, _)| setup.paper[flow].to_string());
    let paper = ["the paper".to_owned()]
        .into_iter()
        .chain(TABLES.map(|_| String::new()))
        .chain(paper);
    let variants = as_printed().chain(&PRINTED_RED).chain([&OURS]);
    let rows = variants.map(|variant| row(variant.says, variant.name));
    let head = TABLES.map(|setup| format!("{}, used", setup.name));
    let flows = FLOWS.map(|(_, _, name)| format!("{name}, Mbit/s"));
    Table {
        title: "As printed with one thing changed, or two where the row says so: the least used of the full links, and flows that are not where the paper has them".into(),
        head: ["with".to_owned()].into_iter().chain(head).chain(flows).collect(),
        rows: [paper.collect()].into_iter().chain(rows).collect(),
    }
}

/// Packets of poor flows near the least tickets, as printed with one thing changed, or two.
pub fn near_the_least(r: &Results, within: impl Fn(&Report) -> f64) -> Table {
    let variants = as_printed().chain([&OURS]);
    let rows = variants.map(|variant| {
        let runs = &r[FIG5.key(variant.name)];
        vec![variant.says.to_owned(), share(&mean(runs, &within))]
    });
    Table {
        title: "Packets with tickets from MinTkt to 1.4 MinTkt, with one thing changed, or two where the row says so".into(),
        head: ["with", "share"].map(String::from).into(),
        rows: rows.collect(),
    }
}

/// Table 9 under DiffServ with one thing changed.
pub fn profiles(r: &Results) -> Table {
    let row = |says: &str, name: &str| {
        let rates = rates(&r[diffserv(name)]);
        let rates = rates.iter().map(plain);
        let rates = [says.to_owned()].into_iter().chain(rates);
        rates.collect::<Vec<String>>()
    };
    let changed = PROFILE_CHANGES.map(|(name, says, _)| row(says, name));
    let first = ["the paper", "0.41", "0.42", "0.37"].map(String::from);
    Table {
        title: "DiffServ with profiles of twice the link, one thing changed, Mbit/s".into(),
        head: ["with", "A", "B", "C"].map(String::from).into(),
        rows: [Vec::from(first), row("nothing changed", "table9")]
            .into_iter()
            .chain(changed)
            .collect(),
    }
}
