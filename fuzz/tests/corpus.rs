// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the committed corpora: what fuzzing has found to matter, each time the tests run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use makeway_fuzz::TARGETS;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("plain names");
    entries
        .map(|entry| name(entry.expect("readable")))
        .collect()
}

/// Says on a panic which input it was.
struct Now(PathBuf);

impl Drop for Now {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input is {}", self.0.display());
        }
    }
}

#[test]
fn every_committed_input_of_every_target_passes() {
    for (name, run) in TARGETS {
        let folder = corpus().join(name);
        let inputs = names(&folder);
        assert!(!inputs.is_empty(), "{} is empty", folder.display());
        for input in inputs {
            let now = Now(folder.join(input));
            run(&fs::read(&now.0).expect("readable"));
        }
    }
}

#[test]
fn every_corpus_has_its_target() {
    let targets = TARGETS.iter().map(|(name, _)| String::from(*name));
    assert_eq!(names(&corpus()), targets.collect());
}
