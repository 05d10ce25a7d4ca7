// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway demo`, as a person runs it, with a shorter call.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::process::Command;
use std::time::{Duration, Instant};

use makeway_testing::skip;
use tempfile::TempDir;

const DISCIPLINES: [&str; 4] = ["fifo", "fq-codel", "sqf", "makeway"];

#[test]
fn all_disciplines_run_at_the_same_time_and_each_has_its_report() {
    let out = TempDir::new().unwrap();
    let begin = Instant::now();
    let ended = Command::new(env!("CARGO_BIN_EXE_makeway"))
        .args(["demo", "--set=duration=5s", "--set=warmup=2s", "--out"])
        .arg(out.path())
        .output()
        .unwrap();
    let took = begin.elapsed();
    let [said, complaint] = [&ended.stdout, &ended.stderr].map(|b| String::from_utf8_lossy(b));
    if complaint.contains("user namespaces") {
        return skip(complaint);
    }
    assert!(ended.status.success(), "{said}{complaint}");

    let rows = DISCIPLINES.map(|name| said.find(&format!("\n {} ", name.to_uppercase())));
    assert!(
        rows.iter().all(Option::is_some) && rows.is_sorted(),
        "{said}"
    );
    for name in DISCIPLINES {
        let report = std::fs::read(out.path().join(format!("{name}.json"))).unwrap();
        let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
        assert_eq!(report["complete"], true, "{name}: {report:#}");
        assert_eq!(report["set"]["link.line.queue.discipline"], name);
    }
    let page = std::fs::read_to_string(out.path().join("demo.html")).unwrap();
    assert!(
        DISCIPLINES
            .iter()
            .all(|name| page.contains(&name.to_uppercase()))
    );
    // One after the other they take 20 s; a run that the machine disturbed is made again.
    assert!(
        took < Duration::from_secs(15) || said.contains("again"),
        "{took:?}: {said}"
    );
}
