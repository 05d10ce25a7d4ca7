// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's statements on receivers, datagrams, policing and bits (sections 2.7, 2.8, 3.9, 4).

mod bits;
mod policing;
pub mod receiver;
mod streams;

use super::figures::{rates, worst};
use super::runs::{COLUMNS, OURS, PAPERS, Variant};
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::{Claim, Table};
use crate::papers::figures::percent;
use policing::POLICING;
use receiver::RECEIVER;
use streams::STREAMS;

/// Duration of the paper's runs.
const SECONDS: u64 = 600;

/// An experiment with the rates that are due in it, Mbit/s.
pub struct Due {
    name: &'static str,
    says: &'static str,
    file: &'static str,
    set: &'static [&'static str],
    /// Links whose queue is by tickets.
    queues: &'static [&'static str],
    ideal: &'static [f64],
}

/// Cells of these statements.
pub fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for variant in &COLUMNS {
        cells.extend(all_due().map(|due| due.cell(variant)));
        cells.extend(receiver::cells(variant));
    }
    cells.extend(receiver::changed());
    cells.extend(streams::cells());
    cells.extend(bits::cells());
    cells
}

/// The statements, in the order of `claims.toml`.
pub fn claims(r: &Results) -> Vec<Claim> {
    vec![
        receiver::claim(r),
        bits::claim(r),
        streams::claim(r),
        policing::claim(r),
    ]
}

fn all_due() -> impl Iterator<Item = &'static Due> {
    const ALL: [&[Due]; 3] = [&RECEIVER, &STREAMS, &POLICING];
    ALL.into_iter().flatten()
}

fn cell(key: Key, file: &'static str, set: Vec<String>) -> Cell {
    Cell {
        set,
        runs: Some(10),
        ..Cell::new(key, file, SECONDS)
    }
}

fn with(set: &[&str]) -> Vec<String> {
    set.iter().map(|set| set.to_string()).collect()
}

impl Due {
    fn key(&self, variant: &str) -> Key {
        let (kind, name) = self.name.split_once('/').unwrap_or((self.name, ""));
        Key::new(format!("{kind}/{variant}/{name}"))
    }

    fn cell(&self, variant: &Variant) -> Cell {
        let mut set = with(self.set);
        set.extend(variant.settings(self.queues));
        if variant.name == PAPERS.name {
            if self.file == streams::DATAGRAMS {
                set.extend(with(streams::AS_PRINTED));
            }
            // Where policing is what is asked, the experiment says whether it is on.
            if self.name.starts_with("policing/") && !self.set.contains(&"tags.policing=true") {
                set.retain(|set| set != "tags.policing=true");
            }
        }
        cell(self.key(variant.name), self.file, set)
    }

    fn rates(&self, r: &Results, variant: &Variant) -> Vec<f64> {
        let rates = rates(&r[self.key(variant.name)]);
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

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Cells, with the rates of a world where the paper is right.
    pub fn perfect() -> impl Iterator<Item = (Key, &'static [f64])> {
        let of_liar = |due: &Due| match due.name {
            "policing/free" => &[1.0, 0.1, 0.1],
            _ => due.ideal,
        };
        let due = COLUMNS.iter().flat_map(move |variant| {
            all_due().map(move |due| (due.key(variant.name), of_liar(due)))
        });
        let bits = bits::SETUPS.into_iter().flat_map(|(name, _, _, ideal)| {
            let name = move |(codes, bits)| (bits::key(name, codes, bits), ideal);
            bits::codes_and_bits().map(name)
        });
        let fig5 = receiver::FIG5_CHANGED
            .map(|variant| (RECEIVER[0].key(variant.name), RECEIVER[0].ideal));
        let changed = streams::JUDGED.into_iter().flat_map(|due| {
            let changed = streams::CHANGED;
            let changed = changed.map(|(name, ..)| (streams::changed(name, due), due.ideal));
            let ours = streams::OURS_CHANGED;
            let ours = ours.map(|(name, ..)| (streams::ours_changed(name, due), due.ideal));
            changed.into_iter().chain(ours)
        });
        due.chain(bits).chain(fig5).chain(changed)
    }
}
