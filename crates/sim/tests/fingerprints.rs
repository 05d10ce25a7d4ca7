// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs whose every packet is known: a number that changes here is a change of results, which the
//! commit has to explain. `MAKEWAY_BLESS=1 cargo test -p makeway-sim --test fingerprints` writes them anew.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;

use makeway_sim::{Options, run_in_full};

fn fingerprint(file: &str, set: &[&str]) -> u64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../scenarios")
        .join(file);
    let set: Vec<String> = set.iter().map(|s| (*s).into()).collect();
    let scenario = makeway_scenario::load(&path, &set).unwrap();
    run_in_full(&scenario, &Options::default(), |_| {})
        .unwrap()
        .fingerprint
}

#[test]
fn every_scenario_runs_as_it_ran() {
    let testbed = |discipline: &str| {
        let set = format!("link.line.queue.discipline={discipline}");
        fingerprint(
            "papers/sqf/testbed.toml",
            &[&set, "duration=20s", "warmup=0s"],
        )
    };
    let runs = [
        ("call", fingerprint("call-and-downloads.toml", &[])),
        ("fifo", testbed("fifo")),
        ("fq", testbed("fq")),
        ("pfq", testbed("pfq")),
        ("sqf", testbed("sqf")),
        (
            "jitter",
            fingerprint("papers/sqf/jitter.toml", &["duration=20s"]),
        ),
        (
            "streams",
            fingerprint("papers/sqf/streams.toml", &["duration=20s"]),
        ),
        (
            "users",
            fingerprint("papers/sqf/users.toml", &["duration=20s"]),
        ),
        (
            "video-call",
            fingerprint("examples/video-call.toml", &["duration=20s"]),
        ),
    ];
    let text: String = runs
        .iter()
        .map(|(name, hash)| format!("{name} {hash:016x}\n"))
        .collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fingerprints.txt");
    if std::env::var_os("MAKEWAY_BLESS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(file).unwrap());
}
