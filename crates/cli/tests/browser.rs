// SPDX-License-Identifier: MIT OR Apache-2.0
//! `make browser`: two Chromiums hold a call through `makeway up`, beside TCP downloads.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

mod chromium;

use std::fs;
use std::process::Command;

use chromium::{checks_its_arguments, folder, measured, text};

#[test]
fn its_options_and_figures_are_right() {
    let Some(folder) = folder() else { return };
    let tests = Command::new("node")
        .arg("--test")
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(tests.status.success(), "{}", text(&tests.stdout));
}

#[test]
fn arguments_are_checked_before_anything_starts() {
    let Some(folder) = folder() else { return };
    checks_its_arguments(
        &folder.join("main.js"),
        &[
            (
                &["--rate", "4"],
                "--rate is `4`: a rate from 100kbit to 1gbit, for example 4mbit",
            ),
            (
                &["--makeway", "/nowhere/makeway"],
                "no program `/nowhere/makeway`",
            ),
        ],
    );
}

#[test]
fn a_call_stands_beside_four_downloads_under_makeway() {
    let Some(folder) = folder() else { return };
    let program = folder.join("main.js");
    let line = "--disciplines makeway --rate 4mbit --downloads 4 --seconds 8";
    let line: Vec<&str> = line.split(' ').collect();
    let out = measured(&program, &line, |told| {
        let call = &told[0]["runs"][0];
        assert_eq!(call["freezes"], 0, "{call}");
        assert!(call["kbps"].as_f64() > Some(500.0), "{call}");
        assert!(call["downloads_mbps"].as_f64() > Some(0.5), "{call}");
        assert!(call["display_p95_ms"].as_f64() < Some(500.0), "{call}");
        assert_eq!(told[0]["rate"], 4_000_000);
    });
    if let Some(out) = out {
        let page = fs::read_to_string(out.path().join("index.html")).unwrap();
        assert_eq!(page.matches("data:image/jpeg;base64,").count(), 6);
    }
}
