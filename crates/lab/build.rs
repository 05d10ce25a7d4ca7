//! Gives the program the commit that it was built from, and a fingerprint of what simulates.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What decides the figures of a run in simulated time: crates, and the versions of what they use.
const SIMULATES: [&str; 5] = [
    "../core/src",
    "../scenario/src",
    "../report/src",
    "../sim/src",
    "../../Cargo.lock",
];

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string())
}

/// All files under `path`, or itself.
fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else {
        return vec![path.into()];
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().flat_map(|path| files(path)).collect()
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
    let mut code = DefaultHasher::new();
    for path in SIMULATES {
        println!("cargo::rerun-if-changed={path}");
        for file in files(Path::new(path)) {
            (&file, fs::read(&file).unwrap_or_default()).hash(&mut code);
        }
    }
    println!("cargo::rustc-env=MAKEWAY_CODE={:016x}", code.finish());
}
