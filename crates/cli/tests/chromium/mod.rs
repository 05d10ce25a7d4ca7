// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of `browser/`, which tests run with real Chromiums.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use makeway_testing::{in_real_time, skip};
use serde_json::Value;

/// The `makeway` that is tested.
pub const MAKEWAY: &str = env!("CARGO_BIN_EXE_makeway");

/// The folder, if this machine has the programs that it needs.
pub fn folder() -> Option<PathBuf> {
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

/// An example of another crate, built with the tests of the workspace.
#[allow(dead_code)] // The call has none.
pub fn example(name: &str) -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let example = this.ancestors().nth(2).unwrap().join("examples").join(name);
    if !example.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--locked", "--quiet", "--workspace"])
            .args(["--example", name])
            .env_remove("CARGO_MANIFEST_DIR")
            .status();
        assert!(built.unwrap().success());
    }
    example
}

pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn run(program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("node");
    command.arg(program).args(arguments).output().unwrap()
}

/// Asserts that `program` refuses each of the lines with these words before it starts anything, and that its help has examples.
pub fn checks_its_arguments(program: &Path, refused: &[(&[&str], &str)]) {
    for (line, said) in refused {
        let output = run(program, line);
        let error = text(&output.stderr);
        assert!(!output.status.success(), "{line:?}");
        assert!(error.contains(said), "{line:?}: {error}");
    }
    let help = run(program, &["--help"]);
    assert!(help.status.success() && text(&help.stdout).contains("Examples:"));
}

/// Runs `program` until `judge` accepts the figures that it writes for `line`; files are in the folder, which is `None` if the
/// machine never was calm enough. Figures that are good on a machine that disturbs the program (exit status 3) are good.
pub fn measured(
    program: &Path,
    line: &[&str],
    judge: impl Fn(&Value),
) -> Option<tempfile::TempDir> {
    let out = tempfile::tempdir().unwrap();
    let json = out.path().join("figures.json");
    let own = ["--makeway", MAKEWAY, "--out", out.path().to_str().unwrap()];
    let line = [&own[..], &["--json", json.to_str().unwrap()], line].concat();
    let measured = in_real_time(|| {
        let output = run(program, &line);
        let (code, error) = (output.status.code(), text(&output.stderr));
        assert!(matches!(code, Some(0 | 3)), "{code:?} {error}");
        judge(&serde_json::from_slice(&fs::read(&json).unwrap()).unwrap());
    });
    measured.map(|()| out)
}
