// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dependencies point in one direction: between crates as ARCHITECTURE.md lists them, between files of different folders at all.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

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

/// A source file: its path, its module, and the modules that it names.
struct Source {
    path: PathBuf,
    module: Vec<String>,
    names: Vec<Vec<String>>,
}

impl Source {
    fn read(src: &Path, path: PathBuf) -> Self {
        let inside = path.strip_prefix(src).unwrap().with_extension("");
        let parts = inside.iter().map(|part| part.to_str().unwrap().to_owned());
        let mut module: Vec<String> = parts.collect();
        module.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let code: Vec<&str> = code
            .lines()
            .map(|line| line.split("//").next().unwrap())
            .collect();
        let code = code.join("\n");
        let mut names = Vec::new();
        for (at, _) in code.match_indices("::") {
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let start = code[..at].rfind(|c| !word(c)).map_or(0, |i| i + 1);
            let first = &code[start..at];
            if code[..start].ends_with("::") {
                continue;
            }
            let mut base = match first {
                "crate" => Vec::new(),
                "self" => module.clone(),
                "super" => module.clone(),
                child => [&module[..], &[child.to_owned()]].concat(),
            };
            let mut rest = &code[at + 2..];
            if first == "super" {
                base.pop();
                while let Some(more) = rest.strip_prefix("super::") {
                    base.pop();
                    rest = more;
                }
            }
            names.push(base.clone());
            tree(&base, rest, &mut names);
        }
        Self {
            path,
            module,
            names,
        }
    }
}

/// Paths of a use-tree, `a::{b, c::d}`, below `base`; returns the text behind it.
fn tree<'t>(base: &[String], text: &'t str, paths: &mut Vec<Vec<String>>) -> &'t str {
    let mut text = text.trim_start();
    if let Some(inner) = text.strip_prefix('{') {
        text = inner.trim_start();
        while !text.is_empty() && !text.starts_with('}') {
            let behind = tree(base, text, paths).trim_start();
            text = behind.trim_start_matches([',', '*']).trim_start();
            if behind.len() == text.len() && !text.starts_with('}') {
                // Not a use-tree, or an alias: what follows is another's.
                return text.split_once([',', '}']).map_or("", |(_, rest)| rest);
            }
        }
        return text.strip_prefix('}').unwrap_or_default();
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let (word, rest) = text.split_at(end.unwrap_or(text.len()));
    let path = [base, &[word.to_owned()]].concat();
    paths.push(path.clone());
    match rest.strip_prefix("::") {
        Some(rest) => tree(&path, rest, paths),
        None => rest,
    }
}

fn sources(src: &Path, folder: &Path, found: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.is_dir() && !is_test {
            sources(src, &path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && !is_test {
            found.push(Source::read(src, path));
        }
    }
}

/// Files that reach each other, in different folders. That a file uses the modules around it is no cycle.
fn cycles(files: &[Source]) -> Vec<String> {
    let file_of = |name: &Vec<String>| {
        let prefixes = (0..=name.len()).rev().map(|n| &name[..n]);
        let mut owners = prefixes.filter_map(|p| files.iter().position(|f| f.module == p));
        owners.next()
    };
    let direct = files.iter().map(|file| {
        let named = file.names.iter().filter_map(file_of);
        let around = |to: &usize| file.module.starts_with(&files[*to].module);
        named.filter(|to| !around(to)).collect()
    });
    let direct: Vec<BTreeSet<usize>> = direct.collect();
    let reached: Vec<BTreeSet<usize>> = (0..files.len())
        .map(|from| {
            let mut reached = direct[from].clone();
            let mut new: Vec<usize> = reached.iter().copied().collect();
            while let Some(at) = new.pop() {
                new.extend(direct[at].iter().filter(|to| reached.insert(**to)));
            }
            reached
        })
        .collect();
    let mut all = Vec::new();
    for from in 0..files.len() {
        for &to in reached[from].iter().filter(|to| **to > from) {
            let [a, b] = [from, to].map(|i| files[i].path.as_path());
            if reached[to].contains(&from) && a.parent() != b.parent() {
                all.push(format!("{} and {}", a.display(), b.display()));
            }
        }
    }
    all
}

#[test]
fn no_two_files_of_different_folders_name_each_other() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = 0;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(crates).unwrap() {
        let src = entry.unwrap().path().join("src");
        let mut own = Vec::new();
        sources(&src, &src, &mut own);
        files += own.len();
        found.extend(cycles(&own));
    }
    assert!(files > 300, "{files}");
    assert!(found.is_empty(), "cycles of imports:\n{}", found.join("\n"));
}

/// Texts that the sources below `folder` include, with the file that includes them.
fn included(folder: &Path, found: &mut Vec<(PathBuf, PathBuf)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            included(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let behind = text.split("include_").skip(1);
            for file in behind.filter_map(|rest| rest.split_once("!(\"")?.1.split('"').next()) {
                let file = path.parent().unwrap().join(file);
                found.push((path.clone(), file));
            }
        }
    }
}

/// A packed crate has the files of its own folder only.
#[test]
fn crates_that_others_can_use_include_no_file_of_another_folder() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    for name in [
        "core",
        "scenario",
        "report",
        "endpoints",
        "sim",
        "quinn",
        "transport",
    ] {
        let folder = crates.join(name).canonicalize().unwrap();
        let mut found = Vec::new();
        included(&folder.join("src"), &mut found);
        for (source, file) in found {
            let file = file.canonicalize().unwrap();
            assert!(
                file.starts_with(&folder),
                "{}: {}",
                source.display(),
                file.display()
            );
            seen += 1;
        }
    }
    assert!(seen > 6, "{seen}");
}

/// A reader finds a part in a file of its own, also a part of the tests.
#[test]
fn no_source_file_has_more_than_600_lines() {
    fn check(folder: &Path, seen: &mut usize) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                check(&path, seen);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let lines = fs::read_to_string(&path).unwrap().lines().count();
                assert!(lines <= 600, "{} has {lines} lines", path.display());
                *seen += 1;
            }
        }
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    for entry in fs::read_dir(crates).unwrap() {
        let one = entry.unwrap().path();
        for part in ["src", "tests", "benches", "examples"].map(|part| one.join(part)) {
            if part.is_dir() {
                check(&part, &mut seen);
            }
        }
    }
    assert!(seen > 700, "{seen}");
}
