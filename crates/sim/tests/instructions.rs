// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instructions of a small run, counted by callgrind: they do not depend on the machine's load.
//!
//! The bound is for the profile that `cargo test` builds (`opt-level = 1`), with overflow checks; a
//! release build needs about half. It is a twentieth above what was counted when it was set (1674, rustc 1.95): a
//! change that needs more raises it and says why. 1758 became 1765 when a small packet began to count 256 B in the order of SQF.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;

use makeway_sim::{Options, run_in_full};

#[path = "../../core/tests/callgrind/mod.rs"]
mod callgrind;

/// Ten downloads and a call through SQF for five seconds: packets that come to the end of a link.
fn hops() -> u64 {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"));
    let text = include_str!("../../../scenarios/call-and-downloads.toml");
    let set = ["duration=5s".into(), "warmup=0s".into()];
    let scenario = makeway_scenario::parse(text, "call.toml", folder, &set).unwrap();
    let outcome = run_in_full(&scenario, &Options::default(), |_| {});
    outcome.unwrap().hops
}

#[test]
#[ignore = "the run that `a_hop_stays_within_its_instructions` counts"]
fn counted() {
    hops();
}

#[test]
fn a_hop_stays_within_its_instructions() {
    let collect = "*makeway_sim*world*World*run_until*";
    let Some(total) = callgrind::instructions(collect) else {
        return;
    };
    let hop = total / hops();
    eprintln!("{hop} instructions for each hop");
    assert!(
        (100..=BOUND).contains(&hop),
        "{hop} instructions, at most {BOUND} are allowed"
    );
}

/// Instructions for each hop, TCP's and the sources' share included.
const BOUND: u64 = 1770;
