// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives the program the commit that it was built from, and fingerprints of what results depend on.

use std::process::Command;

#[path = "src/fingerprint.rs"]
mod fingerprint;

use fingerprint::{DRIVES, SIMULATES};

fn git(args: &[&str]) -> Option<String> {
    // Without the locks that are optional: `describe --dirty` would write the index, whose change is a cause to run this again.
    let git = Command::new("git")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .args(args)
        .output();
    let output = git.ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string())
}

fn main() {
    let commit = git(&[
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ]);
    println!(
        "cargo::rustc-env=MAKEWAY_COMMIT={}",
        commit.as_deref().unwrap_or("unknown")
    );
    for file in ["HEAD", "index"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", file]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    for path in [SIMULATES, DRIVES].concat() {
        println!("cargo::rerun-if-changed={path}");
    }
    let all = fingerprint::of([SIMULATES, DRIVES].concat());
    println!("cargo::rustc-env=MAKEWAY_CODE_OF_WORLDS={all:016x}");
}
