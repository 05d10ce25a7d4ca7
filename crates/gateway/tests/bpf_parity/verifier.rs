// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every qdisc loads under the oldest and the newest kernel, and what the verifier has to look at stays far below its
//! limit: `cargo test -p makeway-gateway --test bpf_parity -- --nocapture` prints the table of docs/kernel-verifier.md.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use makeway_core::sched::{Discipline, Limits};
use makeway_core::units::Bytes;
use makeway_gateway::bpf::{BpfError, Config, Qdisc, has_program};

/// Instructions that the verifier may look at in a program: a quarter of what the kernel allows.
const MOST: u32 = 250_000;

/// The rows of each discipline that was loaded; loading it is what takes the time.
static SEEN: Mutex<BTreeMap<&str, String>> = Mutex::new(BTreeMap::new());

/// Notes what the verifier looked at, while the programs of `discipline` are loaded.
pub fn looks_at(discipline: Discipline) {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    seen.entry(discipline.name())
        .or_insert_with(|| rows(discipline));
}

fn rows(discipline: Discipline) -> String {
    let options = ProgInfoQueryOptions::default()
        .include_xlated_prog_insns(true)
        .include_jited_prog_insns(true);
    let prefix = format!("{discipline}_qdisc_");
    let mut rows = Vec::new();
    for program in ProgInfoIter::with_query_opts(options) {
        // The kernel keeps 15 letters: names of two programs can be the same.
        let name = program.name.to_string_lossy().into_owned();
        if !name.starts_with(&prefix) {
            continue;
        }
        let (verified, xlated, jited) = (
            program.verified_insns,
            program.xlated_prog_insns.len(),
            program.jited_prog_insns.len(),
        );
        assert!(verified < MOST, "{name}: {verified} instructions");
        let row = format!("| {name} | {verified} | {xlated} | {jited} |\n");
        rows.push(row);
    }
    assert!(rows.len() >= 5, "{discipline}: {rows:?}");
    rows.sort();
    rows.concat()
}

/// Whether each discipline that has programs is in what a guest printed.
pub fn all_are_in(text: &str) -> bool {
    let mut all = Discipline::ALL.into_iter().filter(|one| has_program(*one));
    all.all(|one| text.contains(&format!("| {one}_qdisc_")))
}

#[test]
#[ignore = "takes a kernel with BPF qdiscs: run by another test in a guest"]
fn guest_loads_and_counts() {
    println!("\n| program | verified | xlated B | jited B |\n| --- | --: | --: | --: |");
    for discipline in Discipline::ALL {
        let is_seen = SEEN.lock().unwrap().contains_key(discipline.name());
        let limits = Limits {
            packets: 1000,
            bytes: Bytes::new(16 << 20),
            flows: 1000,
        };
        let config = Config::new(discipline.spec(), limits);
        if !is_seen {
            let _loaded = match Qdisc::load("makeway0", &config) {
                Err(BpfError::NoProgram(_)) => continue,
                loaded => loaded.unwrap(),
            };
            looks_at(discipline);
        }
        print!("{}", SEEN.lock().unwrap()[discipline.name()]);
    }
}
