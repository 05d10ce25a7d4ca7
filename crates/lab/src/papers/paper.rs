// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a paper gives to be run again.

use std::path::Path;

use clap::ValueEnum;

use super::claim::Claim;
use super::grid::{Cell, Results};

/// A paper: one module and a folder of scenarios, listed in [`super::PAPERS`] and `builtin.rs`.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// `sqf`: its name on the command line, among scenarios and before the dot of its claims.
    pub id: &'static str,
    /// Over its part of the page.
    pub title: &'static str,
    /// Who wrote it, and where it appeared.
    pub source: &'static str,
    /// Where it can be run; the first is chosen if nobody says.
    pub worlds: &'static [World],
    /// A sentence on how long runs are.
    pub shortened: &'static str,
    /// The same with `--full`.
    pub full: &'static str,
    /// What is run, shortened or in full.
    pub cells: fn(bool, World) -> Vec<Cell>,
    /// Its statements in their order, as far as `cells` were run that tell of them.
    pub claims: fn(&Results) -> Vec<Claim>,
    /// What is measured besides the cells, in a folder that keeps it and with so many runs at most, and what it does to the claims.
    pub beside: Option<Beside>,
}

/// See [`Paper::beside`].
pub type Beside = fn(&mut [Claim], &Path, Option<u32>) -> anyhow::Result<()>;

/// Where scenarios run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum World {
    /// Network namespaces of this machine, with its kernel's TCP.
    Netns,
    /// Simulated time, with a model of TCP.
    Sim,
    /// A guest with Debian's newest kernel, whose own qdiscs queue.
    Vm,
}

impl World {
    /// As reports have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Netns => "netns",
            Self::Sim => "sim",
            Self::Vm => "vm",
        }
    }
}
