// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of the whole tree: each source file names its licence, dependencies are those that `deny.toml` lets in, and tests that a page names
//! are there.

#![allow(clippy::unwrap_used)] // a test may panic

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use spdx::{Expression, ParseMode};

const OURS: &str = "SPDX-License-Identifier: MIT OR Apache-2.0";
/// Licence of programs that the kernel loads, which has to be compatible with its own.
const OF_BPF: &str = "SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */";

/// Folders of what is built, fetched or fuzzed, and of criteria: each change to one has a line in their history.txt.
const NOT_OURS: [&str; 7] = [
    "target",
    "out",
    ".git",
    "corpus",
    "criteria",
    "__pycache__",
    "node_modules",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The sources under `folder`: of programs, scripts, builds, scenarios and units.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name().into_string().unwrap();
        if path.is_dir() {
            if !NOT_OURS.contains(&name.as_str()) {
                sources(&path, found);
            }
            continue;
        }
        let is_script = || fs::read(&path).is_ok_and(|bytes| bytes.starts_with(b"#!"));
        match path.extension().and_then(|ending| ending.to_str()) {
            Some(
                "rs" | "c" | "h" | "py" | "sh" | "tcl" | "js" | "html" | "css" | "toml" | "service"
                | "example",
            ) => found.push(path),
            None if name == "Makefile" || is_script() => found.push(path),
            _ => {}
        }
    }
}

#[test]
fn every_source_file_names_its_licence() {
    let mut found = Vec::new();
    sources(&root(), &mut found);
    assert!(found.len() > 400, "{} files", found.len());
    let names_it = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let mut first = text.lines().take(3);
        let is_rust = path.extension().is_some_and(|ending| ending == "rs");
        match path.starts_with(root().join("bpf")) && !is_rust {
            true => first.any(|line| line.ends_with(OF_BPF)),
            false => first.any(|line| line.trim_end_matches(" */").ends_with(OURS)),
        }
    };
    let without: Vec<_> = found.iter().filter(|path| !names_it(path)).collect();
    assert!(without.is_empty(), "no `{OURS}` at the top of {without:#?}");
}

#[test]
fn every_licence_is_there_in_full() {
    for (file, title, end) in [
        ("LICENSE-MIT", "MIT License", "SOFTWARE."),
        (
            "LICENSE-APACHE",
            "Apache License",
            "limitations under the License.",
        ),
        (
            "LICENSE-GPL-2.0",
            "GNU GENERAL PUBLIC LICENSE",
            "Public License instead of this License.",
        ),
    ] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        assert!(
            text.lines().take(3).any(|line| line.contains(title)),
            "{file}"
        );
        assert!(
            text.trim_end().ends_with(end),
            "{file} does not end with `{end}`"
        );
    }
    // The licence that the kernel is told, which the GPL is there for.
    let told = fs::read_to_string(root().join("bpf/qdisc.h")).unwrap();
    assert!(told.contains(r#"SEC("license") = "Dual MIT/GPL""#));
}

#[test]
fn dependencies_are_those_that_deny_toml_lets_in() {
    let rules = fs::read_to_string(root().join("deny.toml")).unwrap();
    let rules: toml::Table = rules.parse().unwrap();
    let list = |section: &str, key: &str| rules[section][key].as_array().unwrap().clone();
    let allowed = list("licenses", "allow");
    let allowed: BTreeSet<&str> = allowed.iter().map(|one| one.as_str().unwrap()).collect();
    let banned = list("bans", "deny");
    // Those that some crates may bring are cargo-deny's to judge.
    let banned: BTreeSet<&str> = (banned.iter())
        .filter(|one| one.get("wrappers").is_none())
        .map(|one| one["crate"].as_str().unwrap())
        .collect();

    // Of what is built here, so that nothing is fetched.
    let version = Command::new("rustc").arg("-vV").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let mut lines = version.lines();
    let host = lines.find_map(|line| line.strip_prefix("host: ")).unwrap();
    let told = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        .args(["--filter-platform", host])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        told.status.success(),
        "{}",
        String::from_utf8_lossy(&told.stderr)
    );
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    let each = |list: &serde_json::Value| list.as_array().unwrap().clone();
    let built: BTreeSet<String> = each(&told["resolve"]["nodes"])
        .iter()
        .map(|node| node["id"].to_string())
        .collect();
    assert!(built.len() > 100, "{} crates", built.len());
    for package in each(&told["packages"]) {
        if !built.contains(&package["id"].to_string()) {
            continue;
        }
        let name = package["name"].as_str().unwrap();
        assert!(!banned.contains(name), "{name} is banned by deny.toml");
        let source = package["source"].as_str();
        let registry = "registry+https://github.com/rust-lang/crates.io-index";
        assert!(
            source.is_none_or(|from| from == registry),
            "{name}: {source:?}"
        );
        let licence = package["license"].as_str().unwrap_or_default();
        let expression = Expression::parse_mode(licence, ParseMode::LAX)
            .unwrap_or_else(|error| panic!("{name}: licence `{licence}`: {error}"));
        let fits = expression.evaluate(|one| allowed.contains(one.to_string().as_str()));
        assert!(fits, "{name}: deny.toml does not let in `{licence}`");
    }
}

/// The same and more by the program that the rules are written for, where it is installed.
#[test]
fn cargo_deny_agrees() {
    let deny = |args: &[&str]| {
        let mut deny = Command::new(env!("CARGO"));
        deny.arg("deny").args(args).current_dir(root()).output()
    };
    if !deny(&["--version"]).is_ok_and(|told| told.status.success()) {
        // No skip: what it would say of licences, bans and sources, the test above says too.
        return eprintln!("cargo-deny is not installed");
    }
    let told = deny(&[
        "--offline",
        "--locked",
        "check",
        "bans",
        "licenses",
        "sources",
    ])
    .unwrap();
    assert!(
        told.status.success(),
        "{}",
        String::from_utf8_lossy(&told.stderr)
    );
}

/// `make fuzz` is no part of the tests, and was without its profile for a day.
#[test]
fn profiles_that_scripts_build_with_are_defined() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let is_defined = |name: &str| {
        ["release", "dev", "test"].contains(&name)
            || manifest.contains(&format!("[profile.{name}]\n"))
    };
    let mut named = 0;
    for script in fs::read_dir(root().join("scripts")).unwrap().flatten() {
        let Ok(text) = fs::read_to_string(script.path()) else {
            continue;
        };
        for rest in text.split("--profile ").skip(1) {
            let name = rest.split_whitespace().next().unwrap();
            assert!(
                is_defined(name),
                "{}: no profile {name} in Cargo.toml",
                script.path().display()
            );
            named += 1;
        }
    }
    assert!(named > 0, "no script names a profile any more");
}

#[test]
fn a_cargo_that_is_too_old_is_named_before_anything_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let cargo = folder.path().join("cargo");
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    for (version, is_old) in [
        ("1.63.0", true),
        ("1.9.0", true),
        ("1.89.0", false),
        ("1.100.0", false),
    ] {
        fs::write(&cargo, format!("#!/bin/sh\necho cargo {version}\n")).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let mut setup = Command::new(root().join("scripts/setup"));
        let told = setup
            .arg("cargo=cargo")
            .env("PATH", &path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&told.stderr);
        assert_eq!(told.status.success(), !is_old, "{version}: {said}");
        assert_eq!(
            said.contains("or newer is needed"),
            is_old,
            "{version}: {said}"
        );
    }
}

#[test]
fn setup_waits_for_another_apt() {
    let folder = tempfile::tempdir().unwrap();
    let program = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let path = format!(
        "{}:{}",
        folder.path().display(),
        std::env::var("PATH").unwrap()
    );
    // It is root for `id`, and apt-get is locked the first time.
    program("id", "echo 0");
    let locked = "d=$(dirname \"$0\"); [ -e \"$d/asked\" ] && exit 0; touch \"$d/asked\"";
    let said = "echo 'E: Could not get lock /var/lib/dpkg/lock-frontend.' >&2; exit 100";
    let setup = |seconds: &str| {
        program("apt-get", &format!("{locked}; {said}"));
        let mut setup = Command::new(root().join("scripts/setup"));
        setup
            .arg("no-such-program=no-such-package")
            .env("PATH", &path)
            .env("SETUP_PATIENCE", seconds);
        let told = setup.output().unwrap();
        (
            told.status.success(),
            String::from_utf8_lossy(&told.stderr).into_owned(),
        )
    };
    let (is_well, said) = setup("30");
    assert!(is_well, "{said}");
    // Of the 30 s a busy machine has spent some.
    let rest = said.split_once("waiting for another apt to end, ");
    let rest = rest.and_then(|(_, rest)| rest.split_once(" s at most: E: Could not get lock"));
    let seconds = rest.and_then(|(seconds, _)| seconds.parse::<u32>().ok());
    assert!(seconds.is_some_and(|s| (1..=30).contains(&s)), "{said}");
    // Without patience it says what apt said.
    fs::remove_file(folder.path().join("asked")).unwrap();
    let (is_well, said) = setup("0");
    assert!(!is_well && said.contains("Could not get lock"), "{said}");
}

#[test]
fn each_test_that_the_page_of_bugs_names_is_in_its_file() {
    let page = fs::read_to_string(root().join("docs/sender-bugs.md")).unwrap();
    let is_row = |line: &&str| {
        let rest = line.strip_prefix("| ");
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let rows: Vec<&str> = page.lines().filter(is_row).collect();
    assert_eq!(rows.len(), 13);
    for row in rows {
        let cell = row.split(" | ").nth(3).unwrap();
        let (mut file, mut tests) = (String::new(), 0);
        for name in cell.split('`').skip(1).step_by(2) {
            if name.ends_with(".rs") {
                file = fs::read_to_string(root().join("crates").join(name)).unwrap();
                continue;
            }
            assert!(file.contains(&format!("fn {name}(")), "{name}: {row}");
            tests += 1;
        }
        assert!(tests > 0, "{row}");
    }
}

#[test]
fn figures_of_runs_are_written_into_their_pages_by_a_script() {
    for option in ["--self-test", "--check"] {
        let mut renew = Command::new(root().join("scripts/renew"));
        let told = renew.arg(option).output().unwrap();
        let said = [&told.stdout[..], &told.stderr[..]].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(told.status.success(), "{option}: {said}");
    }
}

#[test]
fn notebooks_become_pages_of_the_book() {
    let mut notebooks = Command::new(root().join("scripts/notebooks"));
    let told = notebooks.arg("--self-test").output().unwrap();
    let said = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success(), "{said}");
}
