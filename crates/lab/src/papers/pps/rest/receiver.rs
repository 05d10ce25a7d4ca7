// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tickets that receivers issue, which come back on acknowledgements (section 2.7, Fig. 3).

use super::{Due, cell, list, table, with};
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{in_percent, largest, only, percent};
use crate::papers::pps::runs::{
    CHANGE, FAR, FIG5, FIG7_OURS, FIG7_PRINTED, FIG7_SET, FIG8_SET, OURS, PAPERS,
    PRINTED_LOGARITHMIC, PRINTED_POWER, PRINTED_SILENCE, PRINTED_WINDOW, TABLES, UNPOLICED,
    Variant, WINDOW_10, delays,
};
use crate::papers::pps::{ALL, MOVED, between, by_distance};

/// Fig. 3: Fig. 6 the other way round, with `more`.
macro_rules! fig_3 {
    ($($more:literal),*) => {
        &[
            "tags.by=receiver",
            "flow.A.from=s6",
            "flow.A.to=s0",
            "flow.B.from=s6",
            "flow.B.to=s1",
            "flow.C.from=s6",
            "flow.C.to=s2",
            "link.line.queue.at=s6",
            $($more),*
        ]
    };
}

const FIG_3: &[&str] = fig_3!();

/// Fig. 9 the other way round, with the rates of its last two links.
macro_rules! bottlenecks {
    ($q:literal, $r:literal) => {
        &[
            "tags.by=receiver",
            "flow.A.from=s8",
            "flow.A.to=s0",
            "flow.B.from=s7",
            "flow.B.to=s1",
            "flow.C.from=s8",
            "flow.C.to=s2",
            "link.x.queue.at=s5",
            "link.y.queue.at=s5",
            "link.q.queue.at=s7",
            "link.r.queue.at=s8",
            concat!("link.q.rate=", $q, "mbit"),
            concat!("link.r.rate=", $r, "mbit"),
        ]
    };
}

/// Ten alike, whose receivers issue the tickets.
const BY_RECEIVER: Due = Due {
    name: "",
    says: "",
    file: "",
    set: &["tags.by=receiver"],
    queues: &["line"],
    ideal: &[0.1; 10],
};

/// Two bottlenecks on the path of one flow.
const OF_BOTTLENECKS: Due = Due {
    file: "papers/pps/bottlenecks.toml",
    queues: &["x", "y", "q", "r"],
    ..BY_RECEIVER
};

pub const RECEIVER: [Due; 9] = [
    Due {
        name: "receiver/fig5",
        says: "Fig. 5",
        file: "papers/pps/one-hop.toml",
        ideal: FIG5.ideal,
        ..BY_RECEIVER
    },
    Due {
        name: "receiver/table1",
        says: "Table 1 (Fig. 3)",
        file: "papers/pps/multi-hop.toml",
        set: FIG_3,
        ideal: TABLES[0].ideal,
        ..BY_RECEIVER
    },
    // A stream hears nothing of its receiver's tickets: a download over a slow link of its own does.
    Due {
        name: "receiver/table2",
        says: "Table 2, B held by its link",
        file: "papers/pps/multi-hop.toml",
        set: fig_3!("link.b.rate=160kbit"),
        ideal: TABLES[1].ideal,
        ..BY_RECEIVER
    },
    Due {
        name: "receiver/table3",
        says: "Table 3",
        set: bottlenecks!("1", "10"),
        ideal: TABLES[2].ideal,
        ..OF_BOTTLENECKS
    },
    Due {
        name: "receiver/table4",
        says: "Table 4",
        set: bottlenecks!("10", "1"),
        ideal: TABLES[3].ideal,
        ..OF_BOTTLENECKS
    },
    Due {
        name: "receiver/table5",
        says: "Table 5",
        set: bottlenecks!("1", "1"),
        ideal: TABLES[4].ideal,
        ..OF_BOTTLENECKS
    },
    Due {
        name: "receiver/table6a",
        says: "Table 6 (a)",
        file: "papers/pps/rtt-equal.toml",
        ..BY_RECEIVER
    },
    Due {
        name: "receiver/table6b",
        says: "Table 6 (b)",
        file: "papers/pps/rtt.toml",
        ..BY_RECEIVER
    },
    Due {
        name: "receiver/table7",
        says: "Tables 7 to 9",
        file: "papers/pps/diffserv.toml",
        ideal: &[0.6, 0.4, 0.2],
        ..BY_RECEIVER
    },
];

/// Fig. 7, Fig. 8 and the round trips, with tickets of receivers.
pub fn cells(variant: &Variant) -> Vec<Cell> {
    let over_time = [("fig7", &FIG7_SET[..]), ("fig8", &FIG8_SET[..])];
    let mut cells = over_time
        .map(|(figure, more)| moving(figure, more, variant))
        .to_vec();
    for far in FAR {
        let set = delays(far).chain(variant.settings(&["line"]));
        let set = set.chain(["tags.by=receiver".to_owned()]).collect();
        cells.push(cell(rtt(variant, far), "papers/pps/one-hop.toml", set));
    }
    cells
}

/// Fig. 5 as printed with one choice of ours.
pub const FIG5_CHANGED: [Variant; 5] = [
    UNPOLICED,
    PRINTED_WINDOW,
    PRINTED_POWER,
    PRINTED_LOGARITHMIC,
    PRINTED_SILENCE,
];

/// Fig. 5 and 7 with one thing changed.
pub fn changed() -> Vec<Cell> {
    let fig7 = FIG7_PRINTED.into_iter().chain(FIG7_OURS);
    let fig7 = fig7.map(|variant| moving("fig7", &FIG7_SET, &variant));
    let fig5 = FIG5_CHANGED.map(|variant| RECEIVER[0].cell(&variant));
    fig7.chain(fig5).collect()
}

/// Rates of Fig. 5, and those of Fig. 7 from 330 to 360 s, with one thing changed.
fn changes(r: &Results) -> Table {
    let row = |figure: &str, variant: &Variant, rates: &[f64], distance: f64| {
        let says = format!("{figure}, {}", variant.says);
        vec![says, list(rates), percent(distance)]
    };
    let fig5 = [PAPERS].into_iter().chain(FIG5_CHANGED).chain([OURS]);
    let fig5 = fig5.map(|variant| {
        let due = &RECEIVER[0];
        let rates = due.rates(r, &variant);
        row("Fig. 5", &variant, &rates, due.distance(r, &variant))
    });
    let fig7 = [PAPERS].into_iter().chain(FIG7_PRINTED);
    let fig7 = fig7.chain([OURS]).chain(FIG7_OURS);
    let fig7 = fig7.map(|variant| {
        let runs = &r[over_time("fig7", &variant)];
        let (rates, distance) = between(runs, CHANGE + 30.0, CHANGE + 60.0, &ALL);
        row("Fig. 7", &variant, &rates, distance)
    });
    Table {
        title: "Fig. 5, and Fig. 7 from 330 to 360 s, with one thing changed".into(),
        head: ["with", "Mbit/s", "farthest"].map(String::from).into(),
        rows: fig5.chain(fig7).collect(),
    }
}

fn moving(figure: &str, more: &[&str], variant: &Variant) -> Cell {
    let set = [with(FIG_3), with(more), variant.settings(&["line"])].concat();
    Cell {
        series: true,
        ..cell(over_time(figure, variant), "papers/pps/multi-hop.toml", set)
    }
}

pub fn over_time(figure: &str, variant: &Variant) -> Key {
    Key::new(format!("receiver/{}/{figure}", variant.name))
}

pub fn rtt(variant: &Variant, far: Option<u32>) -> Key {
    let far = far.map_or("all".into(), |far| far.to_string());
    Key::new(format!("receiver/{}/rtt/{far}", variant.name))
}

/// Whether shares are those of tickets that receivers issue.
pub fn claim(r: &Results) -> Claim {
    let farthest = |variant| largest(RECEIVER.iter().map(|due| due.distance(r, variant)));
    let column = |variant: &'static Variant| {
        let tables = RECEIVER.iter().map(|due| {
            let name = due
                .says
                .split([',', '('])
                .next()
                .unwrap_or_default()
                .trim_end();
            let name = match due.name.strip_prefix("receiver/table6") {
                Some(part) => format!("{name} ({part})"),
                None => name.to_owned(),
            };
            let name = format!("{name}, the farthest flow from its share, %");
            (name, due.distance(r, variant))
        });
        let farthest_in = |figure: &str, from: f64, due: &[f64; 3]| {
            let to = if figure == "fig7" {
                CHANGE + 60.0
            } else {
                600.0
            };
            between(&r[over_time(figure, variant)], from, to, due).1
        };
        let rest = [
            (
                "Fig. 7, farthest from 330 to 360 s, %",
                farthest_in("fig7", CHANGE + 30.0, &ALL),
            ),
            (
                "Fig. 8, farthest from 360 to 600 s, %",
                farthest_in("fig8", CHANGE + 60.0, &MOVED),
            ),
        ];
        let rest = rest.map(|(name, x)| (name.to_owned(), x));
        let far = by_distance(|far| &r[rtt(variant, far)]);
        Column::of(tables.chain(rest).map(|(name, x)| (name, only(x * 100.0))))
            .with(
                "Fig. 11 and 12, flow 9 loses more than flow 1 by, Mbit/s",
                far[0][0],
            )
            .with(
                "Fig. 11 and 12, flow 9 loses of what it has, %",
                in_percent(far[1][2]),
            )
    };
    let runs = &r[over_time("fig7", &WINDOW_10)];
    let shorter = between(runs, CHANGE + 30.0, CHANGE + 60.0, &ALL);
    Claim {
        id: "pps.receiver",
        printed: column(&PAPERS),
        ours: column(&OURS),
        paper: "No qualitative difference between sender-based and receiver-based.".into(),
        said: format!(
            "No flow of the tables is farther than {} from its share when tickets are its receiver's and come back on acknowledgements; as printed {}",
            percent(farthest(&OURS)),
            percent(farthest(&PAPERS))
        ),
        ideal: "the same shares".into(),
        why: format!(
            "Figures with tickets of links are run with sender and receiver exchanged, as Fig. 3 does with Fig. 2. Table 2's flow of a fixed rate is a download here, limited to that rate by a link of its own. Fig. 7 with a window of 10 s at sources: {}, at most {} from what is due.",
            list(&shorter.0),
            percent(shorter.1)
        ),
        setup: "every experiment above, receiver-based",
        from: &["receiver/"],
        tables: vec![
            table("Shares by tickets of receivers", &RECEIVER, r),
            changes(r),
        ],
        ..Claim::default()
    }
}
