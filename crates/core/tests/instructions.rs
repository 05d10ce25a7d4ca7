//! Instructions of a fixed run, counted by callgrind: they do not depend on the machine's load.
//!
//! The bounds are for the profile that `cargo test` builds (`opt-level = 1`), with bounds checks; a
//! release build needs about half. They guard against a change of kind, so they leave a fifth of room.

use makeway_core::sched::{Discipline, Drops, build};
use makeway_core::workload::{Bench, Case};
use std::process::Command;

const PAIRS: u64 = 20_000;

#[test]
#[ignore = "the run that `sqf_stays_within_its_instructions` counts"]
fn counted() {
    let mut bench = Bench::new(Case::Pairs, 1024, 1);
    let mut sqf = build(&bench.config(Discipline::Sqf)).unwrap();
    bench.prefill(&mut *sqf);
    bench.run(&mut *sqf, &mut Drops::default(), PAIRS);
}

#[test]
fn sqf_stays_within_its_instructions() {
    let out = std::env::temp_dir().join(format!("makeway-callgrind-{}", std::process::id()));
    let counted = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg("--toggle-collect=*makeway_core*Bench*run*")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "counted", "--ignored", "--test-threads=1"])
        .output();
    let Ok(counted) = counted else {
        eprintln!("skipped: no valgrind here to count instructions with");
        return;
    };
    let _ = std::fs::remove_file(out);
    let log = String::from_utf8_lossy(&counted.stderr);
    assert!(counted.status.success(), "{log}");
    let total = log
        .lines()
        .find_map(|line| {
            line.split_once("Collected : ")?
                .1
                .trim()
                .parse::<u64>()
                .ok()
        })
        .unwrap_or_else(|| panic!("callgrind says no count: {log}"));
    let pair = total / PAIRS;
    eprintln!("sqf: {pair} instructions for each pair");
    assert!(
        (50..=BOUND).contains(&pair),
        "{pair} instructions, at most {BOUND} are allowed"
    );
}

/// Instructions for each pair, making the packet included.
const BOUND: u64 = 520;
