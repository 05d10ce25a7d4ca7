// SPDX-License-Identifier: MIT OR Apache-2.0
//! Code that kept results depend on, as a number: with other code they are made again. `build.rs` computes it.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

/// Code that decides the figures of a run in simulated time: crates, and the versions of their dependencies. From this crate's folder.
pub const SIMULATES: &[&str] = &[
    "../core/src",
    "../endpoints/src",
    "../scenario/src",
    "../report/src",
    "../sim/src",
    "../../Cargo.lock",
];

/// Code that decides them in a world with a kernel besides: namespaces, the gateway, senders on sockets, guests and BPF, and the program
/// that drives them.
pub const DRIVES: &[&str] = &[
    "../cli/src",
    "../gateway/src",
    "../netns/src",
    "../quinn/src",
    "../transport/src",
    "../vm/src",
    "../../bpf",
];

/// The fingerprint of all files under `paths`, which are relative to the working directory.
pub fn of<'a>(paths: impl IntoIterator<Item = &'a str>) -> u64 {
    let mut code = DefaultHasher::new();
    for path in paths {
        for file in files(Path::new(path)) {
            (&file, fs::read(&file).unwrap_or_default()).hash(&mut code);
        }
    }
    code.finish()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_that_can_change_a_result_is_in_it() {
        // Code that judges results, that keeps and shows them, that measures a link, that writes event logs, that shows an interface's state,
        // and helpers of tests.
        let others = ["lab", "line", "log", "python", "store", "testing", "web"];
        let entries = fs::read_dir("..").unwrap().flatten();
        for entry in entries.filter(|entry| entry.path().join("Cargo.toml").exists()) {
            let name = entry.file_name().into_string().unwrap();
            let source = format!("../{name}/src");
            let listed = [SIMULATES, DRIVES].concat().contains(&source.as_str());
            assert_ne!(listed, others.contains(&name.as_str()), "{source}");
        }
        for path in [SIMULATES, DRIVES].concat() {
            assert!(fs::exists(path).unwrap(), "{path}");
        }
    }

    #[test]
    fn another_byte_in_a_file_makes_another_fingerprint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        fs::create_dir(folder.path().join("deep")).unwrap();
        let file = folder.path().join("deep/code.rs");
        fs::write(&file, "1").unwrap();
        let before = of([path]);
        assert_eq!(of([path]), before);
        fs::write(&file, "2").unwrap();
        assert_ne!(of([path]), before);
    }
}
