// SPDX-License-Identifier: MIT OR Apache-2.0
//! The module in a real Python: its own tests, its types, its style.
//!
//! Cargo has built the compiled half as a library for this test; beside a copy of `python/makeway` it is what a wheel installs.

#![allow(clippy::unwrap_used)] // a test may panic

use std::env::current_exe;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use makeway_testing::{note, skip};
use tempfile::TempDir;

const SKIPPED: &str =
    "no Python with the libraries of crates/python/requirements.txt: `make test` installs them";

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Libraries of `make test`.
fn libraries() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("python")
}

/// Whether `module` is there.
fn has(module: &str) -> bool {
    let mut import = Command::new("python3");
    import.env("PYTHONPATH", libraries()).stderr(Stdio::null());
    let status = import.args(["-c", &format!("import {module}")]).status();
    status.is_ok_and(|status| status.success())
}

/// A folder with the module, as a wheel installs it, and Python with it.
fn installed() -> (TempDir, Command) {
    let folder = tempfile::tempdir().unwrap();
    let module = folder.path().join("makeway");
    fs::create_dir(&module).unwrap();
    for entry in fs::read_dir(here().join("python/makeway"))
        .unwrap()
        .flatten()
    {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), module.join(entry.file_name())).unwrap();
        }
    }
    let tests = current_exe().unwrap();
    let built = tests.with_file_name("lib_makeway.so");
    fs::copy(&built, module.join("_makeway.abi3.so")).unwrap();
    let mut python = Command::new("python3");
    let path = [folder.path().to_owned(), libraries()];
    python
        .env("PYTHONPATH", std::env::join_paths(path).unwrap())
        .env("JUPYTER_PATH", libraries().join("share/jupyter"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("MPLBACKEND", "Agg")
        .current_dir(here());
    (folder, python)
}

fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{command:?}\n{said}");
    said
}

#[test]
fn its_own_tests_pass() {
    let libraries = "pytest, polars, pandas, pyarrow, duckdb, distributed, matplotlib, altair, nbclient, gymnasium, flent";
    if !has(libraries) {
        return skip(SKIPPED);
    }
    let (_folder, mut python) = installed();
    let said = succeeds(python.args(PYTEST));
    assert!(!result(&said).contains("skipped"), "{said}");
}

const PYTEST: [&str; 5] = ["-m", "pytest", "-p", "no:cacheprovider", "-rs"];

/// The last line of pytest, which is told.
fn result(said: &str) -> &str {
    let mut lines = said.lines().rev();
    let result = lines.find(|line| line.contains(" passed")).unwrap();
    note(format_args!("pytest: {result}"));
    result
}

/// Whether this user may make namespaces.
fn may_unshare() -> bool {
    let allowed = Command::new("unshare")
        .args(["-rUnm", "ip", "link", "set", "lo", "up"])
        .stderr(Stdio::null())
        .status();
    allowed.is_ok_and(|status| status.success())
}

/// The program, built for tests of its own crate, in the folder above that of test binaries.
fn program() -> Option<PathBuf> {
    let tests = current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("makeway");
    program.exists().then_some(program)
}

const NO_PROGRAM: &str = "no program makeway: `cargo build --bin makeway` builds it";

#[test]
fn the_program_has_the_same_stores_figures_and_errors() {
    if !has("pytest") {
        return skip(SKIPPED);
    }
    let Some(program) = program() else {
        return skip(NO_PROGRAM);
    };
    let (_folder, mut python) = installed();
    python.env("MAKEWAY_PROGRAM", program);
    let said = succeeds(python.args(PYTEST).arg("tests/program"));
    assert!(!result(&said).contains("skipped"), "{said}");
}

#[test]
fn a_scenario_runs_in_namespaces_with_the_kernels_tcp() {
    if !has("pytest") {
        return skip(SKIPPED);
    }
    let Some(program) = program() else {
        return skip(NO_PROGRAM);
    };
    if !may_unshare() {
        return skip("`unshare -rUnm` is not allowed: no run in namespaces");
    }
    let (_folder, mut python) = installed();
    python.env("MAKEWAY_PROGRAM", program);
    let said = succeeds(python.args(PYTEST).arg("tests/netns"));
    assert!(!result(&said).contains("skipped"), "{said}");
}

#[test]
fn sweeps_survive_faults_of_processes_links_and_disks() {
    if !has("pytest, distributed") {
        return skip(SKIPPED);
    }
    let (_folder, mut python) = installed();
    if !may_unshare() || !Path::new("/dev/net/tun").exists() {
        result(&succeeds(python.args(PYTEST).arg("tests/faults")));
        return skip(
            "`unshare -rUnm` is not allowed, or there is no /dev/net/tun: links and disks",
        );
    }
    let mut inside = Command::new("unshare");
    inside
        .args(["-rUnm", "sh", "-c"])
        .arg("ip link set lo up && exec python3 \"$@\"")
        .arg("python3")
        .args(PYTEST)
        .arg("tests/faults");
    for (name, value) in python.get_envs() {
        inside.env(name, value.unwrap());
    }
    inside.env("MAKEWAY_NAMESPACES", "1").current_dir(here());
    let said = succeeds(&mut inside);
    assert!(!result(&said).contains("skipped"), "{said}");
}

#[test]
fn its_types_are_right() {
    if !has("pyright") {
        return skip(SKIPPED);
    }
    let (_folder, mut python) = installed();
    // It fetches the program of its version from npm at first use.
    succeeds(
        python
            .args(["-m", "pyright", "--pythonpath"])
            .arg(python_path()),
    );
}

/// The interpreter itself.
fn python_path() -> String {
    succeeds(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]))
        .trim()
        .to_owned()
}

#[test]
fn its_style_is_right() {
    let ruff = libraries().join("bin/ruff");
    if !ruff.exists() {
        return skip(SKIPPED);
    }
    // Of scripts/ those that its ruff.toml names.
    for folder in [here(), &here().join("../../scripts")] {
        for arguments in [
            &["check", "--no-cache", "."][..],
            &["format", "--no-cache", "--check", "."],
        ] {
            succeeds(Command::new(&ruff).args(arguments).current_dir(folder));
        }
    }
}

#[test]
fn the_compiled_half_has_no_bpf_and_needs_no_library_of_python() {
    let (folder, _) = installed();
    let bytes = fs::read(folder.path().join("makeway/_makeway.abi3.so")).unwrap();
    let has = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
    assert!(has(b"PyInit__makeway"));
    for word in [&b"libbpf"[..], b"libelf", b"libpython3"] {
        assert!(!has(word), "{}", String::from_utf8_lossy(word));
    }
}
