// SPDX-License-Identifier: MIT OR Apache-2.0
//! A statement of a paper, and its result here.

use makeway_report::chart::Chart;
use makeway_report::estimate::Estimate;

pub use crate::experiment::Verdict;

/// One of the two columns of a statement: figures by name, and what [`super::criteria`] makes of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    figures: Vec<(String, Estimate)>,
    /// How it fared.
    pub verdict: Verdict,
    /// The figures that decided it.
    pub value: String,
}

impl Column {
    /// With these figures, not judged yet.
    pub fn of<N: Into<String>>(figures: impl IntoIterator<Item = (N, Estimate)>) -> Self {
        let empty = Self::default();
        let figures = figures.into_iter();
        figures.fold(empty, |column, (name, x)| column.with(name, x))
    }

    /// With another figure, instead of one of its name.
    pub fn with(mut self, name: impl Into<String>, x: Estimate) -> Self {
        let name = name.into();
        self.figures.retain(|(other, _)| *other != name);
        self.figures.push((name, x));
        self
    }

    /// With the figures of another.
    pub fn and(self, other: Self) -> Self {
        let figures = other.figures.into_iter();
        figures.fold(self, |column, (name, x)| column.with(name, x))
    }

    /// A figure by its name.
    pub fn figure(&self, name: &str) -> Option<Estimate> {
        let found = self.figures.iter().find(|(other, _)| other == name);
        found.map(|(_, x)| *x)
    }
}

/// A statement, the set-up it was made in, and the figures of both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    /// `sqf.fig6.sqf`.
    pub id: &'static str,
    /// The paper's algorithm, parameters and set-up, against the paper's figures.
    pub printed: Column,
    /// This project's defaults, against the ideal.
    pub ours: Column,
    /// The criterion of both, in words.
    pub criterion: String,
    /// The paper's statement, in our words, with its figures.
    pub paper: String,
    /// Figures measured or computed here, those that decide nothing too.
    pub said: String,
    /// Figures of a perfect system, if known.
    pub ideal: String,
    /// Why it differs, or what to keep in mind.
    pub why: String,
    /// Where it was tried.
    pub setup: &'static str,
    /// Beginnings of the names of the cells that it is judged by; none: a closed form.
    pub from: &'static [&'static str],
    /// The paper's figure in its own axes.
    pub charts: Vec<Chart>,
    /// The paper's table.
    pub tables: Vec<Table>,
}

/// A table of a paper with both figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Over it, with what its cells are.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// As many cells each as there are columns.
    pub rows: Vec<Vec<String>>,
}
