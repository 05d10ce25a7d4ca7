// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fingerprint of the code that decides the result of a run in simulated time: the sources of our crates that the simulator consists of,
//! and names, versions and checksums of the crates that these use, from the lock file. Other crates of the lock file, those of tests
//! included, do not count. `build.rs` computes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates of the simulator, beside this one.
const CRATES: [&str; 5] = ["core", "endpoints", "report", "scenario", "sim"];

/// Files and folders that it depends on, from this crate's folder.
pub fn paths() -> Vec<String> {
    let crates = CRATES
        .iter()
        .flat_map(|name| [format!("../{name}/src"), format!("../{name}/Cargo.toml")]);
    crates.chain(["../../Cargo.lock".to_owned()]).collect()
}

/// 32 hexadecimal digits.
pub fn fingerprint() -> String {
    let mut hasher = blake3::Hasher::new();
    let mut used = BTreeSet::new();
    for name in CRATES {
        let folder = Path::new("..").join(name);
        let files = files(&folder.join("src"));
        assert!(!files.is_empty(), "{} has no source", folder.display());
        for file in files {
            let bytes = fs::read(&file).expect("a file of our own can be read");
            hasher.update(file.to_string_lossy().as_bytes());
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(&bytes);
        }
        let manifest = fs::read_to_string(folder.join("Cargo.toml"));
        used.extend(dependencies(&manifest.expect("a crate has a manifest")));
    }
    let lock = fs::read_to_string("../../Cargo.lock").expect("the workspace has a lock file");
    for line in locked(&lock, used) {
        hasher.update(line.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// All files under `path`, in order.
fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else {
        return vec![path.into()];
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().flat_map(|path| files(path)).collect()
}

/// Names under `[dependencies]` of a manifest.
fn dependencies(manifest: &str) -> Vec<String> {
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or("");
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A line for each locked crate from a registry that `used` reaches: name, version, checksum.
fn locked(lock: &str, used: BTreeSet<String>) -> BTreeSet<String> {
    let mut packages: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in lock.split("[[package]]\n").skip(1) {
        let name = value(package, "name").unwrap_or_default();
        packages.entry(name).or_default().push(package);
    }
    let (mut lines, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut open: Vec<String> = used.into_iter().collect();
    while let Some(name) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        for package in packages.get(name.as_str()).into_iter().flatten() {
            // Our own crates: their sources count, and the lock file lists what their tests use.
            let Some(checksum) = value(package, "checksum") else {
                continue;
            };
            let version = value(package, "version").unwrap_or_default();
            lines.insert(format!("{name} {version} {checksum}\n"));
            let inside = package.split("dependencies = [").nth(1).unwrap_or("");
            let names = inside
                .lines()
                .filter_map(|line| line.trim().strip_prefix('"'));
            open.extend(names.filter_map(|line| Some(line.split([' ', '"']).next()?.to_owned())));
        }
    }
    lines
}

fn value<'a>(package: &'a str, key: &str) -> Option<&'a str> {
    let lines = package.lines();
    let mut found = lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
    found.next()?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"
[[package]]
name = "deep"
version = "1.0.0"
checksum = "aa"

[[package]]
name = "makeway-sim"
version = "0.1.0"
dependencies = [
 "used",
 "of-tests",
]

[[package]]
name = "of-tests"
version = "2.0.0"
checksum = "bb"

[[package]]
name = "used"
version = "3.0.0"
checksum = "cc"
dependencies = [
 "deep 1.0.0",
]
"#;

    #[test]
    fn crates_that_only_tests_use_do_not_count() {
        let manifest = "[package]\nname = \"x\"\n\n[dependencies]\nused.workspace = true\nmakeway-sim = \"1\"\n\n[dev-dependencies]\nof-tests = \"2\"\n";
        let used = dependencies(manifest);
        assert_eq!(used, ["used", "makeway-sim"]);
        let lines = locked(LOCK, used.into_iter().collect());
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(lines, ["deep 1.0.0 aa\n", "used 3.0.0 cc\n"]);
    }

    #[test]
    fn each_crate_of_ours_that_the_simulator_uses_counts() {
        for name in CRATES {
            let manifest = fs::read_to_string(format!("../{name}/Cargo.toml")).unwrap();
            for used in dependencies(&manifest) {
                let ours = used.strip_prefix("makeway-");
                let counts = ours.is_none_or(|ours| CRATES.contains(&ours));
                assert!(counts, "{name} uses {used}");
            }
        }
    }

    #[test]
    fn a_change_of_each_file_is_noticed_by_the_build() {
        for path in paths() {
            assert!(fs::exists(&path).unwrap(), "{path}");
        }
    }

    #[test]
    fn the_fingerprint_is_the_one_that_was_compiled_in() {
        assert_eq!(fingerprint(), crate::CODE);
    }
}
