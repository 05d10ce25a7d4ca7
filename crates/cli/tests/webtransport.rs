// SPDX-License-Identifier: MIT OR Apache-2.0
//! `make webtransport`: a live video to Chromium by WebTransport, beside TCP downloads over a link that loses packets.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use makeway_testing::{in_real_time, skip};
use serde_json::Value;

const MAKEWAY: &str = env!("CARGO_BIN_EXE_makeway");

/// The program, if this machine has what it needs.
fn program() -> Option<PathBuf> {
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
    Some(folder.join("webtransport.js"))
}

/// The server, an example of makeway-quinn: built with the tests of the workspace.
fn server() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let server = this
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples/webtransport");
    if !server.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--locked", "--quiet", "--workspace"])
            .args(["--example", "webtransport"])
            .env_remove("CARGO_MANIFEST_DIR")
            .status();
        assert!(built.unwrap().success());
    }
    server
}

fn run(program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("node");
    command.arg(program).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn arguments_are_checked_before_anything_starts() {
    let Some(program) = program() else { return };
    for (line, said) in [
        (
            ["--loss", "2"],
            "--loss is `2`: a share from 0 to 0.5, for example 0.01",
        ),
        (
            ["--senders", "makeway,tcp"],
            "--senders is `makeway,tcp`: makeway, quinn or both",
        ),
        (
            ["--server", "/nowhere/webtransport"],
            "no program `/nowhere/webtransport`",
        ),
    ] {
        let output = run(&program, &[&["--makeway", MAKEWAY][..], &line].concat());
        assert!(!output.status.success());
        assert!(
            text(&output.stderr).contains(said),
            "{}",
            text(&output.stderr)
        );
    }
    let help = run(&program, &["--help"]);
    assert!(help.status.success() && text(&help.stdout).contains("Examples:"));
}

#[test]
fn a_browser_is_shown_a_live_video_in_time_beside_two_downloads() {
    let Some(program) = program() else { return };
    let server = server();
    let out = tempfile::tempdir().unwrap();
    let json = out.path().join("figures.json");
    let line = [
        "--makeway",
        MAKEWAY,
        "--server",
        server.to_str().unwrap(),
        "--out",
        out.path().to_str().unwrap(),
        "--json",
        json.to_str().unwrap(),
        "--senders",
        "makeway",
        "--video",
        "400kbit",
        "--seconds",
        "4",
    ];
    let measured = in_real_time(|| {
        let output = run(&program, &line);
        // 3: disturbed by the machine. A video that is good all the same is good.
        let code = output.status.code();
        assert!(
            matches!(code, Some(0 | 3)),
            "{code:?} {}",
            text(&output.stderr)
        );
        let told: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        let [video] = &told.as_array().unwrap()[..] else {
            panic!("{told}")
        };
        let mut keys: Vec<&str> = video
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            ["age_p95_ms", "freezes", "kbps", "sender", "shown_200ms"]
        );
        assert_eq!(video["sender"], "makeway");
        assert!(video["shown_200ms"].as_f64() >= Some(0.9), "{video}");
        assert!(video["age_p95_ms"].as_f64() < Some(200.0), "{video}");
        assert!(video["kbps"].as_f64() > Some(300.0), "{video}");
        assert_eq!(video["freezes"], 0, "{video}");
    });
    if measured.is_some() {
        let picture = fs::read(out.path().join("makeway.png")).unwrap();
        assert!(picture.starts_with(b"\x89PNG") && picture.len() > 20_000);
    }
}
