// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams of datagrams: each gets the lesser of its demand and its share (section 4).

use super::{Due, cell, list, table, with};
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{largest, only, percent};
use crate::papers::pps::figures::{rates, worst};
use crate::papers::pps::runs::{OURS, PAPERS};

pub const DATAGRAMS: &str = "papers/pps/datagrams.toml";

pub const STREAMS: [Due; 3] = [
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

/// The window of both links, whose queues are not among those that [`PAPERS`] sets.
pub const AS_PRINTED: &[&str] = &[
    "link.line.queue.tred.window=60s",
    "link.last.queue.tred.window=60s",
];

/// Streams that are changed, as those of the verdict.
pub const JUDGED: [&Due; 2] = [&STREAMS[0], &STREAMS[2]];

/// Streams as printed with one thing changed: its name, for the report, a part of the settings that are left out, and those that are added.
pub const CHANGED: [(&str, &str, Option<&str>, &[&str]); 7] = [
    (
        "16-bits",
        "as printed, tags of 16 bits",
        None,
        &["tags.bits=16"],
    ),
    (
        "logarithmic",
        "as printed, logarithmic codes",
        Some("tags.scale"),
        &[],
    ),
    (
        "unpoliced",
        "as printed, no policing",
        Some("tags.policing"),
        &[],
    ),
    (
        "window-1s",
        "as printed, the links' window of 1 s",
        Some("tred.window"),
        &[],
    ),
    // It differs only where the average is from 80 to 160 packets.
    (
        "not-gentle",
        "as printed, RED that is not gentle",
        None,
        &[
            "link.line.queue.red.gentle=false",
            "link.last.queue.red.gentle=false",
        ],
    ),
    (
        "shorter",
        "as printed, RED from 10 to 40 packets, not 20 to 80",
        None,
        &[
            "link.line.queue.red.min=10",
            "link.line.queue.red.max=40",
            "link.last.queue.red.min=10",
            "link.last.queue.red.max=40",
        ],
    ),
    (
        "even",
        "as printed, packets at an even rate, not at random",
        None,
        &["flow.A.kind=cbr", "flow.B.kind=cbr", "flow.C.kind=cbr"],
    ),
];

pub fn changed(name: &str, due: &Due) -> Key {
    due.key(&format!("printed-{name}"))
}

/// Ours with other tags: the bits and the scale.
pub const OURS_CHANGED: [(&str, &str, &[&str]); 3] = [
    ("16-bits", "ours, tags of 16 bits", &["tags.bits=16"]),
    ("linear", "ours, linear codes", &["tags.scale=linear"]),
    (
        "16-bits-linear",
        "ours, linear codes of 16 bits",
        &["tags.bits=16", "tags.scale=linear"],
    ),
];

pub fn ours_changed(name: &str, due: &Due) -> Key {
    due.key(&format!("ours-{name}"))
}

/// Cells of the streams with one thing changed in each.
pub fn cells() -> impl Iterator<Item = Cell> {
    JUDGED.into_iter().flat_map(|due| {
        let ours = OURS_CHANGED.map(|(name, _, set)| {
            let set = [with(due.set), with(set)].concat();
            cell(ours_changed(name, due), DATAGRAMS, set)
        });
        let printed = CHANGED.map(|(name, _, without, instead)| {
            let mut set = with(due.set);
            set.extend(PAPERS.settings(due.queues));
            set.extend(with(AS_PRINTED));
            set.retain(|set| without.is_none_or(|without| !set.contains(without)));
            set.extend(with(instead));
            cell(changed(name, due), DATAGRAMS, set)
        });
        printed.into_iter().chain(ours)
    })
}

/// Whether each stream gets min(demand, share), behind a second link as well.
pub fn claim(r: &Results) -> Claim {
    let farthest = largest(STREAMS.iter().map(|due| due.distance(r, &OURS)));
    let place = match STREAMS[2].distance(r, &OURS) >= farthest {
        true => ", behind the second link",
        false => "",
    };
    let column = |variant| {
        let [over, _, again] = STREAMS
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
        said: format!("The farthest flow is {} from that{place}", percent(farthest)),
        ideal: "min(demand, share)".into(),
        why: "A test of the discipline counts the tickets behind the link: 600, 400, 200 a second within 3 %. The least code is one ticket, so that a flow with more packets than tickets has one on each packet; linear codes of more bits reach below one. The part of a share that a flow leaves unused is not divided by tickets alone.".into(),
        setup: "three streams of 600, 400, 200 tickets/s over 1.2 Mbit/s, discipline harvest",
        from: &["udp/"],
        tables: vec![table("Streams", &STREAMS, r), one_changed(r)],
        ..Claim::default()
    }
}

/// Which change moves the shares.
fn one_changed(r: &Results) -> Table {
    let means = |key: Key| -> Vec<f64> { rates(&r[key]).iter().map(|x| x.mean).collect() };
    let row = |says: &str, key: &dyn Fn(&Due) -> Key| {
        let of = |due: &Due| {
            let rates = means(key(due));
            [list(&rates), percent(worst(rates, due.ideal))]
        };
        let cells = JUDGED.map(of).concat();
        [says.to_owned()].into_iter().chain(cells).collect()
    };
    let mut rows: Vec<Vec<String>> = vec![row("as printed", &|due| due.key(PAPERS.name))];
    rows.extend(CHANGED.map(|(name, says, ..)| row(says, &|due| changed(name, due))));
    rows.push(row("ours", &|due| due.key(OURS.name)));
    rows.extend(OURS_CHANGED.map(|(name, says, _)| row(says, &|due| ours_changed(name, due))));
    let head = [
        "",
        "1.2 Mbit/s each: Mbit/s",
        "farthest",
        "behind the second link: Mbit/s",
        "farthest",
    ];
    Table {
        title: "Streams with one thing changed".into(),
        head: head.map(Into::into).into(),
        rows,
    }
}
