// SPDX-License-Identifier: MIT OR Apache-2.0
//! A paper to be run again.

use std::path::Path;

use super::claim::Claim;
use crate::experiment::{Cell, Results, World};

/// A paper: one module and a folder of scenarios, listed in [`super::PAPERS`] and `builtin.rs`.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// `sqf`: its name on the command line, among scenarios and before the dot of its claims.
    pub id: &'static str,
    /// Over its part of the page.
    pub title: &'static str,
    /// Authors, and place of publication.
    pub source: &'static str,
    /// Where it can be run; the first is chosen if nobody says.
    pub worlds: &'static [World],
    /// A sentence on how long runs are.
    pub shortened: &'static str,
    /// The same with `--full`.
    pub full: &'static str,
    /// Cells, shortened or in full.
    pub cells: fn(bool, World) -> Vec<Cell>,
    /// Its statements in their order, as far as `cells` were run that tell of them.
    pub claims: fn(&Results) -> Vec<Claim>,
    /// Measurement besides the cells, kept in a folder and with a limit of runs, and its effect on the claims.
    pub beside: Option<Beside>,
}

impl Paper {
    /// Whether this world is the one that is chosen if nobody says.
    pub fn is_first(&self, world: World) -> bool {
        self.worlds[0] == world
    }
}

/// See [`Paper::beside`]. After an error the claims say that it was not measured, and why.
pub type Beside = fn(&mut [Claim], &Path, Option<u32>) -> anyhow::Result<()>;
