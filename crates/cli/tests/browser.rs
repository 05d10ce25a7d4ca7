// SPDX-License-Identifier: MIT OR Apache-2.0
//! `make browser`: two Chromiums hold a call through `makeway up`, beside TCP downloads.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use makeway_testing::{in_real_time, skip};
use serde_json::Value;

const MAKEWAY: &str = env!("CARGO_BIN_EXE_makeway");

/// Its folder, if this machine has the programs that it needs.
fn browser() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../browser");
    for (program, version) in [
        ("node", "--version"),
        ("chromium", "--version"),
        ("ffmpeg", "-version"),
    ] {
        let found = Command::new(program)
            .arg(version)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if found.is_err() {
            skip(format_args!("no {program}"));
            return None;
        }
    }
    if !folder.join("node_modules/playwright-core").exists() {
        skip("no playwright-core: npm ci --prefix browser");
        return None;
    }
    Some(folder)
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("node");
    command.arg(folder.join("main.js")).args(arguments);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn its_options_and_figures_are_right() {
    let Some(folder) = browser() else { return };
    let tests = Command::new("node")
        .arg("--test")
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(tests.status.success(), "{}", text(&tests.stdout));
}

#[test]
fn arguments_are_checked_before_anything_starts() {
    let Some(folder) = browser() else { return };
    for (line, said) in [
        (
            ["--rate", "4"],
            "--rate is `4`: a rate from 100kbit to 1gbit, for example 4mbit",
        ),
        (
            ["--makeway", "/nowhere/makeway"],
            "no program `/nowhere/makeway`",
        ),
    ] {
        let output = run(&folder, &line);
        assert!(!output.status.success());
        assert!(
            text(&output.stderr).contains(said),
            "{}",
            text(&output.stderr)
        );
    }
    let help = run(&folder, &["--help"]);
    assert!(help.status.success() && text(&help.stdout).contains("Examples:"));
}

#[test]
fn a_call_stands_beside_four_downloads_under_makeway() {
    let Some(folder) = browser() else { return };
    let out = tempfile::tempdir().unwrap();
    let json = out.path().join("call.json");
    let line = [
        "--makeway",
        MAKEWAY,
        "--out",
        out.path().to_str().unwrap(),
        "--json",
        json.to_str().unwrap(),
        "--disciplines",
        "makeway",
        "--rate",
        "4mbit",
        "--downloads",
        "4",
        "--seconds",
        "12",
    ];
    let measured = in_real_time(|| {
        let output = run(&folder, &line);
        // 3: disturbed by the machine. A call that is good all the same is good.
        let code = output.status.code();
        assert!(
            matches!(code, Some(0 | 3)),
            "{code:?} {}",
            text(&output.stderr)
        );
        let told: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        let call = &told[0]["runs"][0];
        assert_eq!(call["freezes"], 0, "{call}");
        assert!(call["kbps"].as_f64() > Some(500.0), "{call}");
        assert!(call["downloads_mbps"].as_f64() > Some(0.5), "{call}");
        assert!(call["display_p95_ms"].as_f64() < Some(500.0), "{call}");
        assert_eq!(told[0]["rate"], 4_000_000);
    });
    if measured.is_some() {
        let page = fs::read_to_string(out.path().join("index.html")).unwrap();
        assert_eq!(page.matches("data:image/jpeg;base64,").count(), 6);
    }
}
