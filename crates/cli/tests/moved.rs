// SPDX-License-Identifier: MIT OR Apache-2.0
//! Subcommands that `makeway-lab` has now: `makeway` says so.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::process::Command;

#[test]
fn what_the_lab_has_now_is_named_in_one_line() {
    for line in [
        "papers",
        "papers sqf --world sim",
        "validate --only RED",
        "bench core",
        "senders --help",
    ] {
        let mut makeway = Command::new(env!("CARGO_BIN_EXE_makeway"));
        let output = makeway.args(line.split(' ')).output().unwrap();
        let name = line.split(' ').next().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            format!("makeway: `makeway {name}` is now `makeway-lab {name}`\n")
        );
        assert!(output.stdout.is_empty());
    }
}
