// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of dependencies in ARCHITECTURE.md is that of the manifests.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

type Uses = BTreeMap<String, BTreeSet<String>>;

/// Our crates under `[dependencies]` of each manifest, by folder.
fn manifests(crates: &Path) -> Uses {
    let mut uses = Uses::new();
    for entry in fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap();
        let name = folder.file_name().into_string().unwrap();
        let Ok(text) = fs::read_to_string(folder.path().join("Cargo.toml")) else {
            continue;
        };
        let section = text.split("\n[dependencies]\n").nth(1).unwrap_or_default();
        let lines = section.lines().take_while(|line| !line.starts_with('['));
        let ours =
            lines.filter_map(|line| line.split(['.', ' ', '=']).next()?.strip_prefix("makeway"));
        let folders = ours.map(|rest| match rest.strip_prefix('-') {
            Some(name) => name.to_owned(),
            None => "cli".into(),
        });
        uses.insert(name, folders.collect());
    }
    uses
}

/// `| `a`, `b` | `c` |`: the names in each half.
fn listed(page: &str) -> Uses {
    let table = page
        .split("| crate | uses |\n| --- | --- |\n")
        .nth(1)
        .unwrap();
    let mut uses = Uses::new();
    for row in table.lines().take_while(|line| line.starts_with('|')) {
        let [_, crates, used, _] = row.split('|').collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        let names = |text: &str| -> BTreeSet<String> {
            text.split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect()
        };
        for one in names(crates) {
            assert_eq!(uses.insert(one, names(used)), None, "{row}");
        }
    }
    uses
}

#[test]
fn dependencies_are_those_that_architecture_lists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    assert_eq!(listed(&page), manifests(&root.join("crates")));
}
