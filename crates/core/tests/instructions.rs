// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instructions of a fixed run, counted by callgrind: they do not depend on the machine's load.
//!
//! The bounds are for the profile that `cargo test` builds (`opt-level = 1`), with bounds checks; a
//! release build needs about half. They guard against a change of kind, so they leave a fifth of room.

use makeway_core::sched::{Discipline, Drops};
use makeway_core::workload::{Bench, Case};

mod callgrind;

const PAIRS: u64 = 20_000;

#[test]
#[ignore = "the run that `sqf_stays_within_its_instructions` counts"]
fn counted() {
    let mut bench = Bench::new(Case::Pairs, 1024, 1);
    let mut sqf = bench.build(Discipline::Sqf);
    bench.prefill(&mut *sqf);
    bench.run(&mut *sqf, &mut Drops::default(), PAIRS);
}

#[test]
fn sqf_stays_within_its_instructions() {
    let Some(total) = callgrind::instructions("*makeway_core*Bench*run*") else {
        return;
    };
    let pair = total / PAIRS;
    eprintln!("sqf: {pair} instructions for each pair");
    assert!(
        (50..=BOUND).contains(&pair),
        "{pair} instructions, at most {BOUND} are allowed"
    );
}

/// Instructions for each pair, making the packet included.
const BOUND: u64 = 520;
