// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables 1 and 2, and the error of the estimate (4).

use makeway_report::chart::{Chart, Series};
use makeway_report::estimate::Estimate;
use makeway_report::model::Report;

use super::runs::{BUFFERS, ROWS, Row, buffer_key};
use super::variants::{EXACT, OURS, PRINTED, tried};
use super::{downloads, ratio, stream};
use crate::experiment::Results;
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{
    in_percent, largest, least, mean, only, percent, plain, share, smallest, with_intervals,
};

const SETUP: &str = "802.11b at 11 Mbit/s with a long preamble, control frames at 2 Mbit/s; one FIFO of 400 packets at the access point; a stream of packets of 1500 B by ABRC beside downloads (Reno, window 64 KB); five minutes after half a minute";

pub fn claims(r: &Results) -> Vec<Claim> {
    vec![
        Claim {
            charts: vec![chart(r)],
            tables: vec![rates(r, 1), variants(r), buffers(r)],
            ..table(r, 1, "abrc.table1")
        },
        Claim {
            tables: vec![rates(r, 2)],
            ..table(r, 2, "abrc.table2")
        },
        error(r),
    ]
}

fn of_table(table: u32) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.table == table)
}

fn figure(r: &Results, row: &Row, variant: &str, of: fn(&Report) -> f64) -> Estimate {
    mean(&r[row.key(variant)], of)
}

/// `0.98, 2.28, 3.09`.
fn list(values: impl Iterator<Item = String>) -> String {
    values.collect::<Vec<_>>().join(", ")
}

fn table(r: &Results, number: u32, id: &'static str) -> Claim {
    let ratios =
        |variant: &str| list(of_table(number).map(|row| plain(&figure(r, row, variant, ratio))));
    let total = |row: &Row, variant: &str| {
        figure(r, row, variant, stream).mean + figure(r, row, variant, downloads).mean
    };
    let column = |variant: &str| {
        let others = ["download", "downloads"][number as usize - 1];
        let ratios = of_table(number).map(|row| {
            let name = format!("stream by {others}, k_T = {}", row.k);
            (name, figure(r, row, variant, ratio))
        });
        let totals = || of_table(number).map(|row| total(row, variant));
        Column::of(ratios)
            .with("the least total, Mbit/s", only(smallest(totals())))
            .with("the largest total, Mbit/s", only(largest(totals())))
    };
    let ks = list(of_table(number).map(|row| row.k.to_string()));
    let papers = list(of_table(number).map(|row| format!("{:.2}", row.abrc / row.tcp)));
    Claim {
        id,
        printed: column(PRINTED),
        ours: column(OURS),
        paper: format!(
            "k_T of {ks} beside {}: the stream has {papers} times the downloads' rate; together 5.1 to 5.6 Mbit/s.",
            ["one download", "two downloads"][number as usize - 1]
        ),
        said: format!(
            "{}, together {} Mbit/s; as printed {}, with a timer that is exact {}",
            ratios(OURS),
            list(of_table(number).map(|row| format!("{:.2}", total(row, OURS)))),
            ratios(PRINTED),
            ratios(EXACT)
        ),
        ideal: ks,
        why: match number {
            1 => why(r),
            _ => "As for Table 1.".into(),
        },
        setup: SETUP,
        from: &[
            "ours/", "printed/", "exact/", "t-udp/", "pairs/", "acks/", "printed-", "ours-",
            "buffer/",
        ],
        ..Claim::default()
    }
}

/// Which T_UDP the paper's own rates ask for, and what ours is made of.
fn why(r: &Results) -> String {
    let theirs = ROWS.iter().map(|row| {
        // Packets of 1460 B; (6) with k = 1 / k_T.
        let t_mix = 1460.0 * 8.0 / row.abrc;
        format!("{:.1}", t_mix / (1.0 + 1.0 / row.k) / 1e3)
    });
    let pairs = list(
        ROWS.iter()
            .map(|row| plain(&figure(r, row, "pairs", ratio))),
    );
    format!(
        "The shortest time between two packets is that of a packet which drew no backoff, 1.62 ms; the mean is 1.93 ms. So (7) as printed sees too much TCP where backoff is drawn at random. With the mean of the times up to one and a half of the shortest, which two packets in succession have, the ratios are {pairs}; what is left are the downloads' acknowledgements, which (5) leaves out: they add 0.15 of a packet's time to each packet of TCP (one for two, 0.3 of its time). The default does both, and what the last row that begins with \"and\" says. The paper's own rates follow from (6) with a T_UDP of {} ms, row by row: the shortest time at its receiver is none that our radio has.",
        list(theirs)
    )
}

fn rates(r: &Results, number: u32) -> Table {
    let rows = of_table(number).map(|row| {
        let of = |figures: fn(&Report) -> f64| plain(&figure(r, row, OURS, figures));
        vec![
            row.k.to_string(),
            format!("{} and {}", row.abrc, row.tcp),
            format!("{:.2}", row.abrc / row.tcp),
            of(stream),
            of(downloads),
            of(ratio),
        ]
    });
    let head = [
        "k_T",
        "the paper's rates",
        "their ratio",
        "stream",
        "downloads",
        "ratio",
    ];
    Table {
        title: format!("Table {number}, payload in Mbit/s"),
        head: head.map(String::from).into(),
        rows: rows.collect(),
    }
}

fn variants(r: &Results) -> Table {
    let rows = tried().map(|variant| {
        let ratios = ROWS
            .iter()
            .map(|row| plain(&figure(r, row, variant.name, ratio)));
        let together = |run: &Report| stream(run) + downloads(run);
        let totals = of_table(1).map(|row| figure(r, row, variant.name, together).mean);
        let total = format!("{:.2}", largest(totals));
        [variant.says.to_owned()]
            .into_iter()
            .chain(ratios)
            .chain([total])
            .collect()
    });
    let head = ROWS
        .iter()
        .map(|row| format!("table {}, {}", row.table, row.k))
        .chain([String::from("table 1, the largest total, Mbit/s")]);
    Table {
        title:
            "The ratio by what (7) is computed with, one change after the other, then each alone"
                .into(),
        head: [String::from("with")].into_iter().chain(head).collect(),
        rows: rows.collect(),
    }
}

fn buffers(r: &Results) -> Table {
    let rows = BUFFERS.iter().map(|packets| {
        let of = |table: u32, figures: fn(&Report) -> f64| {
            let runs = &r[buffer_key(*packets, table)];
            mean(runs, figures)
        };
        vec![
            packets.to_string(),
            plain(&of(1, ratio)),
            share(&of(1, lost)),
            plain(&of(2, ratio)),
            share(&of(2, lost)),
        ]
    });
    let head = [
        "packets",
        "Table 1, 3: ratio",
        "lost",
        "Table 2, 2: ratio",
        "lost",
    ];
    Table {
        title: "The access point's buffer: the largest share of each table".into(),
        head: head.map(String::from).into(),
        rows: rows.collect(),
    }
}

/// Share of the access point's packets that it drops.
fn lost(report: &Report) -> f64 {
    let queue = report
        .queues
        .iter()
        .find(|queue| queue.name == "ap on cell");
    queue.map_or(f64::NAN, |queue| {
        queue.dropped() as f64 / queue.packets_in as f64
    })
}

fn chart(r: &Results) -> Chart {
    let series = |variant: &str, name: &str| {
        let of_one = of_table(1).map(|row| (row.k as u32, figure(r, row, variant, ratio)));
        with_intervals(name, &of_one.collect::<Vec<_>>(), 1.0)
    };
    let papers = of_table(1).map(|row| (row.k, row.abrc / row.tcp)).collect();
    Chart {
        title: "Table 1: requested and received rates".into(),
        x: "k_T".into(),
        y: "stream / download".into(),
        series: vec![
            series(OURS, "ours"),
            series(PRINTED, "as printed"),
            Series::marked("the paper", papers),
            Series::dashed("ideal", vec![(1.0, 1.0), (3.0, 3.0)]),
        ],
        ..Chart::default()
    }
}

const TYPICAL: &str = "the largest median error of the six rows, packets";
const NEAR: &str = "estimates wrong by two packets at most, least row, %";

fn error(r: &Results) -> Claim {
    let by =
        |variant: &str, row: &Row, figure: fn(&makeway_report::model::OccupancyReport) -> f64| {
            mean(&r[row.key(variant)], |run| {
                let media = run.flows.iter().find_map(|flow| flow.media.as_ref());
                let occupancy = media.and_then(|media| media.occupancy.as_ref());
                occupancy.map_or(f64::NAN, figure)
            })
        };
    let of = |row: &Row, figure| by(OURS, row, figure);
    let within = |row: &Row| of(row, |o| o.within_two);
    let column = |variant: &str| {
        let typical = ROWS
            .iter()
            .map(|row| by(variant, row, |o| o.error.p50).mean);
        let near: Vec<_> = ROWS
            .iter()
            .map(|row| (1, by(variant, row, |o| o.within_two)))
            .collect();
        Column::of([
            (TYPICAL, only(largest(typical))),
            (NEAR, in_percent(least(&near))),
        ])
    };
    let errors = tried().map(|variant| {
        let column = column(variant.name);
        let [median, near] = [TYPICAL, NEAR].map(|name| column.figure(name));
        let shown = |x: Option<Estimate>| x.map_or_else(String::new, |x| plain(&x));
        let near = format!("{} %", shown(near));
        vec![variant.says.to_owned(), shown(median), near]
    });
    Claim {
        id: "abrc.eq4.error",
        printed: column(PRINTED),
        ours: column(OURS),
        paper: "The error of the estimate (4) of the stream's packets at the access point is one or two packets.".into(),
        said: format!(
            "in the six rows the median of the error is {} packets, its mean {}; {} of the estimates are wrong by two packets at most",
            list(ROWS.iter().map(|row| plain(&of(row, |o| o.error.p50)))),
            list(ROWS.iter().map(|row| plain(&of(row, |o| o.mean_error)))),
            list(ROWS.iter().map(|row| percent(within(row).mean)))
        ),
        ideal: "0".into(),
        why: "Against the packets that wait at the access point or are on the air when feedback comes to the sender. Packets sent while feedback waits for the channel are counted in excess.".into(),
        setup: SETUP,
        from: &[
            "ours/", "printed/", "exact/", "t-udp/", "pairs/", "acks/", "printed-", "ours-",
        ],
        tables: vec![Table {
            title: "The error of the estimate by what (7) is computed with, in the worst of the six rows, one change after the other, then each alone".into(),
            head: ["with", "median, packets", "wrong by two packets at most"].map(String::from).into(),
            rows: errors.collect(),
        }],
        ..Claim::default()
    }
}
