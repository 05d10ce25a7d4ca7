// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's statements on receivers, datagrams, policing and bits (sections 2.7, 2.8, 3.9, 4).

use makeway_report::model::Report;

use super::figures::{rates, worst};
use super::runs::{
    CHANGE, COLUMNS, FAR, FIG5, FIG7_SET, FIG8_SET, OURS, PAPERS, TABLES, Variant, WINDOW_10,
    delays,
};
use super::{ALL, MOVED, between, by_distance};
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{in_percent, largest, mean, only, percent, smallest};

/// Of the paper's runs.
const SECONDS: u64 = 600;

/// An experiment with the rates that are due in it, Mbit/s.
pub struct Due {
    pub name: &'static str,
    says: &'static str,
    file: &'static str,
    set: &'static [&'static str],
    /// Links whose queue is by tickets.
    queues: &'static [&'static str],
    pub ideal: &'static [f64],
}

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

const RECEIVER: [Due; 9] = [
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
        file: "papers/pps/bottlenecks.toml",
        set: bottlenecks!("1", "10"),
        ideal: TABLES[2].ideal,
        queues: OF_BOTTLENECKS,
    },
    Due {
        name: "receiver/table4",
        says: "Table 4",
        file: "papers/pps/bottlenecks.toml",
        set: bottlenecks!("10", "1"),
        ideal: TABLES[3].ideal,
        queues: OF_BOTTLENECKS,
    },
    Due {
        name: "receiver/table5",
        says: "Table 5",
        file: "papers/pps/bottlenecks.toml",
        set: bottlenecks!("1", "1"),
        ideal: TABLES[4].ideal,
        queues: OF_BOTTLENECKS,
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

const OF_BOTTLENECKS: &[&str] = &["x", "y", "q", "r"];
const DATAGRAMS: &str = "papers/pps/datagrams.toml";

const UDP: [Due; 3] = [
    Due {
        name: "udp/over",
        says: "1.2 Mbit/s each",
        file: DATAGRAMS,
        queues: &[],
        set: &[],
        ideal: &[0.6, 0.4, 0.2],
    },
    Due {
        name: "udp/under",
        says: "0.60, 0.16, 0.20 Mbit/s",
        file: DATAGRAMS,
        queues: &[],
        set: &[
            "flow.A.rate=600kbit",
            "flow.B.rate=160kbit",
            "flow.C.rate=200kbit",
        ],
        ideal: &[0.6, 0.16, 0.2],
    },
    // A flow that came to the first link with five shares or two has the same tickets behind it, so shares are the same.
    Due {
        name: "udp/again",
        says: "0.8, 1.2, 2 Mbit/s, and a link of 0.6 Mbit/s behind the first",
        file: DATAGRAMS,
        queues: &[],
        set: &[
            "flow.A.rate=800kbit",
            "flow.C.rate=2mbit",
            "link.last.rate=600kbit",
        ],
        ideal: &[0.3, 0.2, 0.1],
    },
];

const LIAR: &[&str] = &["flow.A.tickets=4000"];
const POLICED: &[&str] = &[
    "flow.A.tickets=4000",
    "link.a.tickets={ at = \"a\", rate = 400 }",
    "link.b.tickets={ at = \"b\", rate = 400 }",
    "link.c.tickets={ at = \"c\", rate = 400 }",
    "tags.policing=true",
];

const POLICING: [Due; 3] = [
    Due {
        name: "policing/free",
        says: "A issues ten times its tickets",
        file: "papers/pps/policing.toml",
        queues: &["line"],
        set: LIAR,
        ideal: &[0.4; 3],
    },
    Due {
        name: "policing/traded",
        says: "the router trades what comes over its link",
        file: "papers/pps/policing.toml",
        queues: &["line"],
        set: POLICED.split_at(4).0,
        ideal: &[0.4; 3],
    },
    Due {
        name: "policing/policed",
        says: "and polices it",
        file: "papers/pps/policing.toml",
        queues: &["line"],
        set: POLICED,
        ideal: &[0.4; 3],
    },
];

/// Bits that are tried.
const BITS: [u32; 7] = [2, 3, 4, 5, 6, 8, 16];
/// By hops and flows.
const BIT_SETUPS: [(&str, &str, &str, &[f64]); 3] = [
    (
        "one-hop",
        "9 flows, no hop before",
        "papers/pps/one-hop.toml",
        FIG5.ideal,
    ),
    (
        "multi-hop",
        "3 flows, two hops before",
        "papers/pps/multi-hop.toml",
        TABLES[0].ideal,
    ),
    (
        "rtt-equal",
        "10 flows, one hop before",
        "papers/pps/rtt-equal.toml",
        &[0.1; 10],
    ),
];
/// Bits are enough where rates are so near to those of 16 bits: the mean over flows of the distances from their ideal.
const ENOUGH: f64 = 0.02;

fn all_due() -> impl Iterator<Item = &'static Due> {
    const ALL: [&[Due]; 3] = [&RECEIVER, &UDP, &POLICING];
    ALL.into_iter().flatten()
}

/// Cells of these statements.
pub fn cells() -> Vec<Cell> {
    let cell = |key: Key, file, set: Vec<String>| Cell {
        set,
        runs: Some(10),
        ..Cell::new(key, file, SECONDS)
    };
    let with = |set: &[&str]| set.iter().map(|set| set.to_string()).collect::<Vec<_>>();
    let mut cells = Vec::new();
    for variant in &COLUMNS {
        for due in all_due() {
            let mut set = with(due.set);
            set.extend(variant.settings(due.queues));
            if variant.name == PAPERS.name {
                // Of the file: 16 bits and a window of 1 s.
                if due.file == DATAGRAMS {
                    set.extend(with(DATAGRAMS_AS_PRINTED));
                }
                // Where policing is what is asked, the experiment says whether it is on.
                if due.name.starts_with("policing/") && !due.set.contains(&"tags.policing=true") {
                    set.retain(|set| set != "tags.policing=true");
                }
            }
            cells.push(cell(due.key(variant), due.file, set));
        }
        for (figure, more) in [("fig7", &FIG7_SET[..]), ("fig8", &FIG8_SET[..])] {
            let set = [with(FIG_3), with(more), variant.settings(&["line"])].concat();
            let key = receiver_over_time(figure, variant);
            cells.push(Cell {
                series: true,
                ..cell(key, "papers/pps/multi-hop.toml", set)
            });
        }
        for far in FAR {
            let set = delays(far).chain(variant.settings(&["line"]));
            let set = set.chain(["tags.by=receiver".to_owned()]).collect();
            let key = receiver_rtt(variant, far);
            cells.push(cell(key, "papers/pps/one-hop.toml", set));
        }
    }
    let set = [with(FIG_3), with(&FIG7_SET), WINDOW_10.settings(&["line"])].concat();
    cells.push(Cell {
        series: true,
        ..cell(
            receiver_over_time("fig7", &WINDOW_10),
            "papers/pps/multi-hop.toml",
            set,
        )
    });
    let again = &UDP[2];
    for (name, _, without) in STREAMS_CHANGED {
        let mut set = with(again.set);
        set.extend(PAPERS.settings(again.queues));
        set.extend(with(DATAGRAMS_AS_PRINTED));
        set.retain(|set| !set.contains(without));
        cells.push(cell(stream_changed(name), DATAGRAMS, set));
    }
    for (name, _, file, _) in BIT_SETUPS {
        for codes in codes_and_bits() {
            let (codes, bits) = codes;
            let mut set = match codes {
                AS_PRINTED => PAPERS.settings(&["line"]),
                scale => vec![format!("tags.scale={scale}")],
            };
            set.push(format!("tags.bits={bits}"));
            cells.push(Cell {
                runs: Some(3),
                ..cell(key_of_bits(name, codes, bits), file, set)
            });
        }
    }
    cells
}

const DATAGRAMS_AS_PRINTED: &[&str] = &[
    "tags.bits=8",
    "link.line.queue.tred.window=60s",
    "link.last.queue.tred.window=60s",
];

/// Streams behind a second link as printed, with one choice of ours: its name, and what the settings contain that are left out.
const STREAMS_CHANGED: [(&str, &str, &str); 4] = [
    ("16-bits", "as printed, tags of 16 bits", "tags.bits"),
    ("logarithmic", "as printed, logarithmic codes", "tags.scale"),
    ("unpoliced", "as printed, no policing", "tags.policing"),
    (
        "window-1s",
        "as printed, the links' window of 1 s",
        "tred.window",
    ),
];

fn stream_changed(name: &str) -> Key {
    Key::new(format!("udp/printed-{name}/again"))
}

pub fn receiver_over_time(figure: &str, variant: &Variant) -> Key {
    Key::new(format!("receiver/{}/{figure}", variant.name))
}

pub fn receiver_rtt(variant: &Variant, far: Option<u32>) -> Key {
    let far = far.map_or("all".into(), |far| far.to_string());
    Key::new(format!("receiver/{}/rtt/{far}", variant.name))
}

fn key_of_bits(setup: &str, codes: &str, bits: u32) -> Key {
    Key::new(format!("bits/{setup}/{codes}/{bits}"))
}

/// Linear codes with all else as printed.
const AS_PRINTED: &str = "printed";
const CODES: [&str; 3] = [AS_PRINTED, "linear", "logarithmic"];

fn codes_and_bits() -> impl Iterator<Item = (&'static str, u32)> {
    CODES
        .into_iter()
        .flat_map(|codes| BITS.map(|bits| (codes, bits)))
}

/// The statements, in the order of `claims.toml`.
pub fn claims(r: &Results) -> Vec<Claim> {
    vec![receiver(r), bits(r), udp(r), policing(r)]
}

impl Due {
    fn key(&self, variant: &Variant) -> Key {
        let (kind, name) = self.name.split_once('/').unwrap_or((self.name, ""));
        Key::new(format!("{kind}/{}/{name}", variant.name))
    }

    fn rates(&self, r: &Results, variant: &Variant) -> Vec<f64> {
        let rates = rates(&r[self.key(variant)]);
        rates.iter().map(|x| x.mean).collect()
    }

    /// The largest relative distance of a mean rate from what is due.
    fn distance(&self, r: &Results, variant: &Variant) -> f64 {
        worst(self.rates(r, variant), self.ideal)
    }

    fn row(&self, r: &Results) -> Vec<String> {
        vec![
            self.says.into(),
            list(self.ideal),
            list(&self.rates(r, &OURS)),
            percent(self.distance(r, &OURS)),
            list(&self.rates(r, &PAPERS)),
            percent(self.distance(r, &PAPERS)),
        ]
    }
}

fn list(rates: &[f64]) -> String {
    let texts: Vec<String> = rates.iter().map(|x| format!("{x:.3}")).collect();
    texts.join(", ")
}

fn table(title: &str, of: &[Due], r: &Results) -> Table {
    Table {
        title: title.into(),
        head: [
            "",
            "due, Mbit/s",
            "ours",
            "farthest",
            "as printed",
            "farthest",
        ]
        .map(Into::into)
        .into(),
        rows: of.iter().map(|due| due.row(r)).collect(),
    }
}

fn receiver(r: &Results) -> Claim {
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
        let over_time = |figure: &str, from: f64, due: &[f64; 3]| {
            let to = if figure == "fig7" {
                CHANGE + 60.0
            } else {
                600.0
            };
            between(&r[receiver_over_time(figure, variant)], from, to, due).1
        };
        let rest = [
            (
                "Fig. 7, farthest from 330 to 360 s, %",
                over_time("fig7", CHANGE + 30.0, &ALL),
            ),
            (
                "Fig. 8, farthest from 360 to 600 s, %",
                over_time("fig8", CHANGE + 60.0, &MOVED),
            ),
        ];
        let rest = rest.map(|(name, x)| (name.to_owned(), x));
        let far = by_distance(|far| &r[receiver_rtt(variant, far)]);
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
    let runs = &r[receiver_over_time("fig7", &WINDOW_10)];
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
            "Figures with tickets of links are run the other way round, as Fig. 3 is Fig. 2; Table 2's flow of a fixed rate is a download here that its own link holds to it. Fig. 7 with a window of 10 s at sources: {}, at most {} from what is due.",
            list(&shorter.0),
            percent(shorter.1)
        ),
        setup: "every experiment above, receiver-based",
        from: &["receiver/"],
        tables: vec![table("Shares by tickets of receivers", &RECEIVER, r)],
        ..Claim::default()
    }
}

/// The mean over flows of the relative distance to the ideal share of what all flows have.
fn mean_distance(runs: &[Report], ideal: &[f64]) -> f64 {
    let rates: Vec<f64> = rates(runs).iter().map(|x| x.mean).collect();
    let due = rates.iter().sum::<f64>() / ideal.iter().sum::<f64>();
    let far = |(rate, ideal): (&f64, &f64)| (rate / (ideal * due) - 1.0).abs();
    rates.iter().zip(ideal).map(far).sum::<f64>() / rates.len() as f64
}

fn bits(r: &Results) -> Claim {
    let distance = |name: &str, codes: &str, bits: u32, ideal: &[f64]| {
        mean_distance(&r[key_of_bits(name, codes, bits)], ideal)
    };
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    for codes in CODES {
        let (mut needed, mut finer) = (Vec::new(), Vec::new());
        for (name, says, _, ideal) in BIT_SETUPS {
            let all = BITS.map(|bits| distance(name, codes, bits, ideal));
            let [fewest, .., most] = all;
            finer.push(fewest - most);
            let enough = (0..BITS.len()).find(|i| all[*i..].iter().all(|x| x - most <= ENOUGH));
            let enough = enough.map_or(f64::NAN, |i| f64::from(BITS[i]));
            needed.push(enough);
            let mut row = vec![format!("{codes}; {says}")];
            row.extend(all.map(percent));
            row.push(enough.to_string());
            rows.push(row);
        }
        let [one, multi, ten] = [needed[0], needed[1], needed[2]];
        columns.push([
            smallest(finer) * 100.0,
            largest(needed),
            multi - one,
            ten - one,
        ]);
    }
    let column = |codes: &str| {
        let of = CODES
            .iter()
            .position(|name| *name == codes)
            .unwrap_or_default();
        let names = [
            "mean distance with 2 bits less that with 16, least set-up, points",
            "bits that are enough, most",
            "bits that are enough over three hops less those over one",
            "bits that are enough for ten flows less those for nine",
        ];
        Column::of(names.into_iter().zip(columns[of].map(only)))
    };
    let most = |codes: &str| {
        column(codes)
            .figure("bits that are enough, most")
            .map_or(f64::NAN, |x| x.mean)
    };
    let mut head = vec![String::new()];
    head.extend(BITS.map(|bits| format!("{bits} bits")));
    head.push("enough".into());
    Claim {
        id: "pps.bits",
        printed: column(AS_PRINTED),
        ours: column("logarithmic"),
        paper: "More bits differentiate finer; the number needed does not grow with hops or flows. Eight are enough.".into(),
        said: format!(
            "With logarithmic codes {} bits are enough for nine flows of nine shares, three flows over three hops and ten equal flows over two; as printed, with linear codes, {}",
            most("logarithmic"),
            most(AS_PRINTED)
        ),
        ideal: "shares in proportion to tickets".into(),
        why: "The number of tickets on a packet decides: linear codes are coarse where they are few. Over six hops a test in the simulator finds the figures of one.".into(),
        setup: "the mean distance of flows from their shares, with tags of 2 to 16 bits",
        from: &["bits/"],
        tables: vec![Table {
            title: "Mean distance from the share".into(),
            head,
            rows,
        }],
        ..Claim::default()
    }
}

fn udp(r: &Results) -> Claim {
    let farthest = largest(UDP.iter().map(|due| due.distance(r, &OURS)));
    let column = |variant| {
        let [over, _, again] = UDP
            .each_ref()
            .map(|due| only(due.distance(r, variant) * 100.0));
        Column::of([
            (
                "farthest from min(demand, share), all above their shares, %",
                over,
            ),
            (
                "farthest from min(demand, share), behind a second link, %",
                again,
            ),
        ])
    };
    Claim {
        id: "pps.udp",
        printed: column(&PAPERS),
        ours: column(&OURS),
        paper: "Each UDP flow gets exactly min(demand, share) and its tickets/s are the same after the link.".into(),
        said: format!("No flow is farther than {} from that, on a second link either, whose shares are those of the tickets that came through the first", percent(farthest)),
        ideal: "min(demand, share)".into(),
        why: "A test of the discipline counts the tickets behind the link: 600, 400, 200 a second within 3 %. With tags of whole tickets a flow of more packets than tickets has one on each; and what a flow leaves of its share is not shared by tickets alone.".into(),
        setup: "three streams of 600, 400, 200 tickets/s over 1.2 Mbit/s, discipline harvest",
        from: &["udp/"],
        tables: vec![table("Streams", &UDP, r), streams_changed(r)],
        ..Claim::default()
    }
}

/// Which choice as printed moves the shares behind a second link.
fn streams_changed(r: &Results) -> Table {
    let again = &UDP[2];
    let row = |says: &str, rates: Vec<f64>| {
        let farthest = percent(worst(rates.clone(), again.ideal));
        vec![says.to_owned(), list(&rates), farthest]
    };
    let changed = STREAMS_CHANGED.map(|(name, says, _)| {
        let rates = rates(&r[stream_changed(name)]);
        row(says, rates.iter().map(|x| x.mean).collect())
    });
    Table {
        title: "Streams behind the second link, one thing changed".into(),
        head: ["", "Mbit/s", "farthest"].map(Into::into).into(),
        rows: [row("as printed", again.rates(r, &PAPERS))]
            .into_iter()
            .chain(changed)
            .collect(),
    }
}

fn policing(r: &Results) -> Claim {
    let [free, traded, policed] = &POLICING;
    let by_liar = |due: &Due, variant: &Variant| {
        let liar = |run: &Report| run.flows[0].ip_bps.unwrap_or(f64::NAN) / 1e6;
        mean(&r[due.key(variant)], liar).mean
    };
    let of_liar = |due: &Due| by_liar(due, &OURS);
    let column = |variant| {
        Column::of([
            (
                "the farthest flow from its share with policing, %",
                only(policed.distance(r, variant) * 100.0),
            ),
            (
                "the over-issuing flow by its share without policing",
                only(by_liar(free, variant) / 0.4),
            ),
        ])
    };
    Claim {
        id: "pps.policing",
        printed: column(&PAPERS),
        ours: column(&OURS),
        paper: "Policing holds its ticket rate to OutTktRate.".into(),
        said: format!(
            "A source that issues ten times its tickets gets {:.2} Mbit/s for 0.40; {:.2} where the router trades what comes over its link, {:.2} where it polices that too",
            of_liar(free),
            of_liar(traded),
            of_liar(policed)
        ),
        ideal: "0.40 Mbit/s each".into(),
        why: "Policing holds at links. At the source the formula as printed, Out/Avg times Out/Actual, settles where its square is the excess: who would issue twice its tickets issues 1.41 times (a test of the tagger).".into(),
        setup: "three TCP flows share 1.2 Mbit/s, each link from a source is due 400 tickets/s",
        from: &["policing/"],
        tables: vec![table("A issues 4000 tickets/s for 400", &POLICING, r)],
        ..Claim::default()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Cells, with the rates of a world where the paper is right.
    pub fn perfect() -> impl Iterator<Item = (Key, &'static [f64])> {
        let of_liar = |due: &Due| match due.name {
            "policing/free" => &[1.0, 0.1, 0.1],
            _ => due.ideal,
        };
        let due = COLUMNS
            .iter()
            .flat_map(move |variant| all_due().map(move |due| (due.key(variant), of_liar(due))));
        let bits = BIT_SETUPS.into_iter().flat_map(|(name, _, _, ideal)| {
            let name = move |(codes, bits)| (key_of_bits(name, codes, bits), ideal);
            codes_and_bits().map(name)
        });
        let changed = STREAMS_CHANGED.map(|(name, ..)| (stream_changed(name), UDP[2].ideal));
        due.chain(bits).chain(changed)
    }
}
