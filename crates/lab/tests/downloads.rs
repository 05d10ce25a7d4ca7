// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real TCP through `makeway up --discipline makeway`: some of the cells of `makeway-lab downloads`, with their bars.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;
use std::process::Command;

use makeway_testing::{in_real_time_or, skip};
use makeway_vm::again;
use serde_json::Value;

fn cells(line: &str) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_makeway-lab"));
    let output = command.args(line.split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}");
    let cells: Value = serde_json::from_slice(&output.stdout).unwrap();
    cells.as_array().unwrap().clone()
}

#[test]
fn downloads_share_evenly_and_none_stands_still() {
    let allowed = Command::new("unshare").args(["-rUn", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        return skip("`unshare -rUn` is not allowed on this machine");
    }
    for line in [
        "downloads --count 4 --tcp cubic --rtt 0ms --json",
        "downloads --count 4 --tcp reno --rtt 20ms --json",
    ] {
        let here = || {
            let cell = cells(line).remove(0);
            if let Some(why) = cell["skipped"].as_str() {
                return skip(why);
            }
            let figure = |key: &str| cell[key].as_f64().unwrap();
            let good = figure("jain") >= 0.95 && figure("silent_s") < 1.0;
            assert!(good && figure("total_mbps") > 8.5, "{line}: {cell}");
        };
        let program = Path::new(env!("CARGO_BIN_EXE_makeway-lab"));
        let test = "--exact downloads_share_evenly_and_none_stands_still";
        in_real_time_or(here, || again(test, &[program]));
    }
}

#[test]
fn an_unknown_congestion_control_is_skipped_with_those_that_there_are() {
    let allowed = Command::new("unshare").args(["-rUn", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        return skip("`unshare -rUn` is not allowed on this machine");
    }
    let cell = cells("downloads --count 2 --tcp none --rtt 0ms --seconds 2 --json").remove(0);
    let why = cell["skipped"].as_str().unwrap();
    assert!(
        why.contains("no congestion control none") && why.contains("cubic"),
        "{why}"
    );
    assert_eq!(cell["jain"], Value::Null);
}
