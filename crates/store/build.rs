// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives the crate the fingerprint of the code that decides the result of a run.

#![allow(clippy::expect_used)] // without it there is no fingerprint

#[path = "src/code.rs"]
mod code;

fn main() {
    for path in code::paths() {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rustc-env=MAKEWAY_SIMULATOR={}", code::fingerprint());
}
