// SPDX-License-Identifier: MIT OR Apache-2.0
//! A statement of a paper, and what became of it here.

use makeway_report::chart::Chart;
use serde::Serialize;

use super::figures::NOT_MEASURED;

/// How a statement fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// It holds here.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// The figures are not the paper's, and nearer to the known ideal.
    #[serde(rename = "closer to the ideal")]
    CloserToIdeal,
    /// It does not hold here.
    #[default]
    #[serde(rename = "differs")]
    Differs,
    /// A figure that it is judged by is missing: nothing is said of it.
    #[serde(rename = "not measured")]
    NotMeasured,
}

impl Verdict {
    /// As it is written in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::CloserToIdeal => "closer to the ideal",
            Self::Differs => "differs",
            Self::NotMeasured => NOT_MEASURED,
        }
    }

    /// [`Verdict::Reproduced`] if `holds`.
    pub const fn of(holds: bool) -> Self {
        if holds {
            Self::Reproduced
        } else {
            Self::Differs
        }
    }
}

/// A statement, the set-up it was made in, and the figures of both.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Claim {
    /// `sqf.fig6.sqf`.
    pub id: &'static str,
    /// How it fared, by the measured figures only.
    pub verdict: Verdict,
    /// The paper's statement, in our words, with its figures.
    pub paper: String,
    /// Figures measured or computed here.
    pub ours: String,
    /// Figures of a perfect system, if known.
    pub ideal: String,
    /// Why it differs, or what to keep in mind.
    pub why: String,
    /// Where it was tried.
    pub setup: &'static str,
    /// Beginnings of the names of the cells that it is judged by; none: a closed form.
    #[serde(skip)]
    pub from: &'static [&'static str],
    /// The paper's figure in its own axes.
    pub charts: Vec<Chart>,
    /// The paper's table.
    pub tables: Vec<Table>,
}

impl Claim {
    /// The claim as it is published: one of whose figures is missing is not judged.
    pub fn judged(mut self) -> Self {
        if self.ours.contains(NOT_MEASURED) || self.ours.contains("NaN") {
            self.verdict = Verdict::NotMeasured;
        }
        self
    }
}

/// A table of a paper with both figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    /// Over it, with what its cells are.
    pub title: String,
    /// Of the columns.
    pub head: Vec<String>,
    /// As many cells each as there are columns.
    pub rows: Vec<Vec<String>>,
}
