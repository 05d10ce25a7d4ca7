// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments as a library: cells, their results and a verdict, without the program.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use makeway_lab::experiment::{Cell, Grid, Key, Results, Verdict, World};

#[test]
fn a_grid_of_cells_runs_and_its_results_are_kept_by_key() {
    let folder = tempfile::tempdir().unwrap();
    let cells = ["fifo", "sqf"].map(|discipline| Cell {
        set: vec![
            format!("link.line.queue.discipline={discipline}"),
            "warmup=1s".into(),
        ],
        ..Cell::new(Key::new(discipline), "call-and-downloads.toml", 3)
    });
    let grid = Grid {
        cells: &cells,
        folder: folder.path(),
        jobs: Some(1),
        runs: 2,
    };
    let results: Results = grid.run(World::Sim).unwrap().unwrap();
    for cell in &cells {
        assert_eq!(results[cell.key.clone()].len(), 2, "{}", cell.key);
    }
    let kept = grid.run(World::Sim).unwrap().unwrap();
    assert!(cells.iter().all(|cell| kept.has(&cell.key)));
    assert_eq!(Verdict::default().name(), "not measured");
}
