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

/// Streams behind a second link as printed, with one thing changed: its name, a part of the settings that are left out, and those that are added.
pub const CHANGED: [(&str, &str, Option<&str>, &[&str]); 4] = [
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
];

pub fn changed(name: &str) -> Key {
    Key::new(format!("udp/printed-{name}/again"))
}

/// Ours behind a second link with other tags: the bits and the scale.
pub const OURS_CHANGED: [(&str, &str, &[&str]); 3] = [
    ("16-bits", "ours, tags of 16 bits", &["tags.bits=16"]),
    ("linear", "ours, linear codes", &["tags.scale=linear"]),
    (
        "16-bits-linear",
        "ours, linear codes of 16 bits",
        &["tags.bits=16", "tags.scale=linear"],
    ),
];

pub fn ours_changed(name: &str) -> Key {
    Key::new(format!("udp/ours-{name}/again"))
}

/// Cells of the streams behind a second link, with one thing changed in each.
pub fn cells() -> impl Iterator<Item = Cell> {
    let ours = OURS_CHANGED.into_iter().map(|(name, _, set)| {
        let set = [with(STREAMS[2].set), with(set)].concat();
        cell(ours_changed(name), DATAGRAMS, set)
    });
    let printed = CHANGED.into_iter().map(|(name, _, without, instead)| {
        let again = &STREAMS[2];
        let mut set = with(again.set);
        set.extend(PAPERS.settings(again.queues));
        set.extend(with(AS_PRINTED));
        set.retain(|set| without.is_none_or(|without| !set.contains(without)));
        set.extend(with(instead));
        cell(changed(name), DATAGRAMS, set)
    });
    printed.chain(ours)
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

/// Which change moves the shares behind a second link.
fn one_changed(r: &Results) -> Table {
    let again = &STREAMS[2];
    let row = |says: &str, rates: Vec<f64>| {
        let farthest = percent(worst(rates.clone(), again.ideal));
        vec![says.to_owned(), list(&rates), farthest]
    };
    let means = |key: Key| rates(&r[key]).iter().map(|x| x.mean).collect();
    let printed = CHANGED.map(|(name, says, ..)| row(says, means(changed(name))));
    let ours = OURS_CHANGED.map(|(name, says, _)| row(says, means(ours_changed(name))));
    Table {
        title: "Streams behind the second link, one thing changed".into(),
        head: ["", "Mbit/s", "farthest"].map(Into::into).into(),
        rows: [row("as printed", again.rates(r, &PAPERS))]
            .into_iter()
            .chain(printed)
            .chain([row("ours", again.rates(r, &OURS))])
            .chain(ours)
            .collect(),
    }
}
