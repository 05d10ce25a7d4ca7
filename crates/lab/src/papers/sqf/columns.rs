// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs of both columns: the paper's SQF, under which a packet counts its own bytes, and ours.

use super::LONG;
use super::runs::{PRINTED, as_printed};
use crate::experiment::{Key, Results};
use crate::papers::claim::{Claim, Column};

/// Says which runs the printed column waits for.
const OWED: &str = "As printed it takes runs of 10 minutes under the paper's SQF: `makeway-lab papers sqf`, or with `--world netns --full`.";

/// Results by column.
pub struct Columns<'a> {
    /// Ours, with those of the paper's SQF beside them.
    pub ours: &'a Results,
    /// The paper's SQF instead of ours; `None` where a run is shorter than the paper's, or there is none of it.
    printed: Option<Results>,
}

impl<'a> Columns<'a> {
    pub fn of(r: &'a Results) -> Self {
        let has_all = is_long(r) && r.cells().any(|(key, _)| is_printed(key));
        Self {
            ours: r,
            printed: has_all.then(|| {
                let ours = || r.cells().filter(|(key, _)| !is_printed(key));
                // Behind ours, which they replace.
                let theirs = ours().filter_map(|(key, _)| Some((key, r.get(&as_printed(key))?)));
                let each = ours().chain(theirs);
                each.map(|(key, runs)| (key.clone(), runs.to_vec()))
                    .collect()
            }),
        }
    }

    /// A column of the paper's SQF.
    pub fn printed(&self, column: impl Fn(&Results) -> Column) -> Column {
        self.printed.as_ref().map_or_else(Column::default, column)
    }

    /// Figures that both columns have.
    pub fn both(&self, column: impl Fn(&Results) -> Column) -> [Column; 2] {
        [self.printed(&column), column(self.ours)]
    }
}

fn is_printed(key: &Key) -> bool {
    key.path().ends_with(PRINTED)
}

/// Whether all runs are as long as the paper's.
pub fn is_long(r: &Results) -> bool {
    r.runs().flatten().all(|run| run.seconds >= LONG)
}

/// A claim whose printed column has no runs says which command makes them.
pub fn say_what_is_owed(claim: &mut Claim) {
    if !claim.from.is_empty() && claim.printed == Column::default() {
        let space = if claim.why.is_empty() { "" } else { " " };
        claim.why += space;
        claim.why += OWED;
    }
}
