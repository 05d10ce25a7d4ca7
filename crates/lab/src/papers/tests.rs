// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of every paper.

use std::collections::BTreeSet;

use makeway_report::model::{FORMAT, FlowReport, QueueReport, Report};

use super::*;
use makeway::builtin;

/// A report of that many seconds in simulated time, from made-up figures.
pub fn made_up(seconds: f64, flows: Vec<FlowReport>, queues: Vec<QueueReport>) -> Report {
    Report {
        format: FORMAT,
        title: "made up".into(),
        world: "sim".into(),
        environment: Default::default(),
        set: Default::default(),
        lateness: None,
        warnings: Vec::new(),
        seed: 1,
        seconds,
        complete: true,
        asi: None,
        flows,
        radios: Vec::new(),
        queues,
    }
}

fn all_cells() -> impl Iterator<Item = (&'static Paper, Vec<Cell>)> {
    PAPERS.iter().flat_map(|paper| {
        let worlds = paper.worlds.iter();
        worlds.flat_map(move |world| [false, true].map(|full| (paper, (paper.cells)(full, *world))))
    })
}

#[test]
fn every_cell_is_a_scenario_of_its_paper_that_reads_and_has_a_name_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    builtin::unpack(folder.path()).unwrap();
    let mut read = BTreeSet::new();
    for (paper, cells) in all_cells() {
        let mut names = BTreeSet::new();
        for cell in cells {
            assert!(names.insert(cell.key.clone()), "{} twice", cell.key);
            // An RFC is no paper.
            let home = format!("{}/", paper.id);
            let file = cell.file.strip_prefix("papers/").unwrap_or(cell.file);
            assert!(file.starts_with(&home), "{}", cell.file);
            if read.insert((cell.file, cell.settings())) {
                let file = folder.path().join(cell.file);
                makeway_scenario::load(&file, &cell.settings()).unwrap();
            }
        }
    }
}

#[test]
fn ids_tell_papers_apart_and_each_has_a_world() {
    let ids: BTreeSet<_> = PAPERS.iter().map(|paper| paper.id).collect();
    assert_eq!(ids.len(), PAPERS.len());
    assert!(PAPERS.iter().all(|paper| !paper.worlds.is_empty()));
}
