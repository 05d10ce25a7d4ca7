// SPDX-License-Identifier: MIT OR Apache-2.0
//! Variants of a scenario side by side, run with common random numbers: replication by replication the
//! same sources and the same luck, so that what is left of a difference is the variant's.

use serde::Serialize;

use super::{FORMAT, Figure, Replications, html, table};

/// Replications of each variant, and what each one differs by from the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// [`FORMAT`].
    pub format: u32,
    /// `link.line.queue.discipline`.
    pub key: String,
    /// Its values, in the order of `variants`.
    pub values: Vec<String>,
    /// As many runs of each.
    pub variants: Vec<Replications>,
    /// Differences of each variant but the first.
    pub differences: Vec<Difference>,
}

/// A variant less the first one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The variant's value.
    pub value: String,
    /// The first one's.
    pub than: String,
    /// Means of the differences within each pair of runs.
    pub figures: Vec<Figure>,
}

impl Comparison {
    /// Comparison of variants that were run equally often. `values` names them.
    pub fn new(key: String, values: Vec<String>, mut variants: Vec<Replications>) -> Self {
        // The key is what they differ in: a setting of none of them.
        for variant in &mut variants {
            variant.set.remove(&key);
        }
        let differences = match (values.first(), variants.first()) {
            (Some(than), Some(first)) => values
                .iter()
                .zip(&variants)
                .skip(1)
                .map(|(value, variant)| Difference {
                    value: value.clone(),
                    than: than.clone(),
                    figures: paired(first, variant),
                })
                .collect(),
            _ => Vec::new(),
        };
        Self {
            format: FORMAT,
            key,
            values,
            variants,
            differences,
        }
    }

    /// False when fewer runs were made than were asked for.
    pub fn complete(&self) -> bool {
        self.variants.iter().all(|variant| variant.complete)
    }

    /// As a table for a terminal.
    pub fn table(&self) -> String {
        table::comparison(self)
    }

    /// As a page.
    pub fn html(&self) -> String {
        html::comparison(self)
    }

    /// As JSON, ending in a newline.
    pub fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("it holds only plain values");
        text + "\n"
    }
}

/// Figures that both have.
fn paired(first: &Replications, other: &Replications) -> Vec<Figure> {
    let mut differences = Vec::new();
    for a in &first.figures {
        let same = |b: &&Figure| b.of == a.of && b.figure == a.figure;
        if let Some(b) = other.figures.iter().find(same) {
            let pairs = a.values.iter().zip(&b.values);
            let values = pairs.map(|(a, b)| Some((*b)? - (*a)?)).collect();
            differences.push(Figure::new(a.of.clone(), a.figure, values));
        }
    }
    differences
}

/// Verdict on a difference.
pub(super) fn verdict(difference: &Figure) -> &'static str {
    match difference.estimate {
        d if !d.certain() => "not shown",
        d if d.mean > 0.0 => "higher",
        _ => "lower",
    }
}
