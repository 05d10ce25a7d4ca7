// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bits of a tag: how many are enough (section 3.9).

use makeway_report::model::Report;

use super::cell;
use crate::experiment::{Cell, Key, Results};
use crate::papers::claim::{Claim, Column, Table};
use crate::papers::figures::{largest, only, percent, smallest};
use crate::papers::pps::figures::rates;
use crate::papers::pps::runs::{FIG5, PAPERS, PRINTED_LOGARITHMIC, TABLES};

/// Bits that are tried.
const BITS: [u32; 7] = [2, 3, 4, 5, 6, 8, 16];
/// By hops and flows.
pub const SETUPS: [(&str, &str, &str, &[f64]); 3] = [
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

pub fn key(setup: &str, codes: &str, bits: u32) -> Key {
    Key::new(format!("bits/{setup}/{codes}/{bits}"))
}

/// Linear codes with all else as printed.
const AS_PRINTED: &str = "printed";
/// The other codes with all else as printed.
const BUT_FOR_CODES: &str = PRINTED_LOGARITHMIC.name;
const CODES: [&str; 4] = [AS_PRINTED, BUT_FOR_CODES, "linear", "logarithmic"];

pub fn codes_and_bits() -> impl Iterator<Item = (&'static str, u32)> {
    CODES
        .into_iter()
        .flat_map(|codes| BITS.map(|bits| (codes, bits)))
}

/// Each number of bits with each of the codes.
pub fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (name, _, file, _) in SETUPS {
        for (codes, bits) in codes_and_bits() {
            let mut set = match codes {
                AS_PRINTED => PAPERS.settings(&["line"]),
                BUT_FOR_CODES => PRINTED_LOGARITHMIC.settings(&["line"]),
                scale => vec![format!("tags.scale={scale}")],
            };
            set.push(format!("tags.bits={bits}"));
            cells.push(Cell {
                runs: Some(3),
                ..cell(key(name, codes, bits), file, set)
            });
        }
    }
    cells
}

/// The mean over flows of the relative distance to the ideal share of what all flows have.
fn mean_distance(runs: &[Report], ideal: &[f64]) -> f64 {
    let rates: Vec<f64> = rates(runs).iter().map(|x| x.mean).collect();
    let due = rates.iter().sum::<f64>() / ideal.iter().sum::<f64>();
    let far = |(rate, ideal): (&f64, &f64)| (rate / (ideal * due) - 1.0).abs();
    rates.iter().zip(ideal).map(far).sum::<f64>() / rates.len() as f64
}

/// Whether eight bits are enough, for any number of hops and flows.
pub fn claim(r: &Results) -> Claim {
    let distance = |name: &str, codes: &str, bits: u32, ideal: &[f64]| {
        mean_distance(&r[key(name, codes, bits)], ideal)
    };
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    for codes in CODES {
        let (mut needed, mut finer) = (Vec::new(), Vec::new());
        for (name, says, _, ideal) in SETUPS {
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
        why: "Linear codes are coarse where a packet carries few tickets: the table has logarithmic ones with all else as printed, and linear ones with all else ours. Over six hops a test in the simulator finds the same figures as over one.".into(),
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
