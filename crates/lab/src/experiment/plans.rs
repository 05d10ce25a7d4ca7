// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cells as plans of sweeps: files from which any machine with the same simulator makes their runs, with Python on a cluster too, into a
//! store that this program then takes them from.

use std::path::Path;

use anyhow::{Context, ensure};
use makeway_scenario::Scenario;
use makeway_store::plan::{Detail, Plan, Source, digest};

use super::keep;

/// Replications of a run: number of the first, and how many.
#[derive(Clone, Copy, Debug)]
pub struct Replications {
    pub first: u64,
    pub count: u64,
}

/// Writes the plan of `scenario`, which `source` is to give when it is read, to `folder/NAME.json`.
///
/// # Errors
/// `source` gives another scenario, or the file cannot be written.
pub fn write(
    folder: &Path,
    name: &str,
    source: Source,
    scenario: &Scenario,
    runs: Replications,
    detail: Detail,
) -> anyhow::Result<()> {
    let plan = Plan::new(source, Vec::new(), runs.count)?;
    let plan = plan.with_first(runs.first)?.keeping(detail);
    ensure!(
        digest(&plan.scenario(0)?) == digest(scenario),
        "{name} cannot be written as settings of its file: leave it out, and run it here"
    );
    let file = folder.join(format!("{}.json", name.replace('/', "-")));
    keep(&file, &plan.json()).with_context(|| format!("cannot write {}", file.display()))
}
