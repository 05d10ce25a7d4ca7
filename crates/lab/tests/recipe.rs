// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recipe of docs/add-a-discipline.md, measured on LIFO: its own file and its line in the list are all that names it, in tests as in
//! sources. Simulated time and the bench run it here; the contract in core/tests/contract.rs, `makeway up` in its own tests (cli/src/commands/up.rs)
//! and behind a packet queue in gateway/src/datapath/pipeline/contract.rs, as they run every discipline.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::fs;
use std::path::{Path, PathBuf};

use makeway_core::sched::{Discipline, Drops};
use makeway_core::workload::{Bench, Case};
use makeway_sim::Options;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|e| e == "rs") => found.push(path),
            false => {}
        }
    }
}

#[test]
fn a_discipline_is_one_file_and_one_line() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for one in fs::read_dir(&crates).unwrap() {
        let one = one.unwrap().path();
        for part in ["src", "tests", "benches", "examples"].map(|part| one.join(part)) {
            if part.is_dir() {
                sources(&part, &mut files);
            }
        }
    }
    assert!(files.len() > 100);
    let mut lines = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let own = ["core/src/sched/lifo.rs", "lab/tests/recipe.rs"];
        let is_own = own.iter().any(|own| file.ends_with(own));
        let named = text.lines().map(str::trim);
        let named = named.filter(|line| line.to_lowercase().contains("lifo") && !is_own);
        lines.extend(named.map(str::to_owned));
    }
    assert_eq!(lines, ["Lifo(lifo::LifoParams),"]);
}

const SCENARIO: &str = r#"
duration = "20s"
[node.server]
[node.client]
[link.line]
between = ["server", "client"]
rate = "1mbit"
queue = { at = "server", discipline = "fifo", limit = "50 packets" }
[flow.flood]
kind = "cbr"
from = "server"
to = "client"
rate = "2mbit"
"#;

#[test]
fn it_runs_in_simulated_time() {
    let p50 = |discipline: &str| {
        let set = [format!("link.line.queue.discipline={discipline}")];
        let scenario =
            makeway_scenario::parse(SCENARIO, "flood.toml", Path::new(""), &set).unwrap();
        let report = makeway_sim::run(&scenario, &Options::default(), |_| {}).unwrap();
        assert_eq!(report.queues[0].discipline, discipline);
        report.flows[0].datagrams.as_ref().unwrap().delay_ms.p50
    };
    // The packet that came last goes at once; in order of arrival all wait for the whole buffer.
    let [fifo, lifo] = ["fifo", "lifo"].map(p50);
    assert!(lifo * 5.0 < fifo, "{lifo} ms, {fifo} ms");
}

#[test]
fn it_is_measured() {
    let mut bench = Bench::new(Case::Waves, 64, 1);
    let mut lifo = bench.build(Discipline::Lifo);
    bench.prefill(&mut *lifo);
    assert!(bench.run(&mut *lifo, &mut Drops::default(), 1000) >= 1000);
    assert_eq!(lifo.backlog().packets, 0);
}
