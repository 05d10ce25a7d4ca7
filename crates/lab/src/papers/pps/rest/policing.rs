// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policing of a source that issues more tickets than are its own (section 2.8).

use makeway_report::model::Report;

use super::{Due, table};
use crate::experiment::Results;
use crate::papers::claim::{Claim, Column};
use crate::papers::figures::{mean, only};
use crate::papers::pps::runs::{OURS, PAPERS, Variant};

const LIAR: &[&str] = &["flow.A.tickets=4000"];
const POLICED: &[&str] = &[
    "flow.A.tickets=4000",
    "link.a.tickets={ at = \"a\", rate = 400 }",
    "link.b.tickets={ at = \"b\", rate = 400 }",
    "link.c.tickets={ at = \"c\", rate = 400 }",
    "tags.policing=true",
];

pub const POLICING: [Due; 3] = [
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

/// Whether policing holds a source to its tickets.
pub fn claim(r: &Results) -> Claim {
    let [free, traded, policed] = &POLICING;
    let by_liar = |due: &Due, variant: &Variant| {
        let liar = |run: &Report| run.flows[0].ip_bps.unwrap_or(f64::NAN) / 1e6;
        mean(&r[due.key(variant.name)], liar).mean
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
        why: "Policing holds at links. At the source the formula as printed, Out/Avg times Out/Actual, settles where its square is the excess: a source that would issue twice its tickets issues 1.41 times as many (a test of the tagger).".into(),
        setup: "three TCP flows share 1.2 Mbit/s, each link from a source is due 400 tickets/s",
        from: &["policing/"],
        tables: vec![table("A issues 4000 tickets/s for 400", &POLICING, r)],
        ..Claim::default()
    }
}
