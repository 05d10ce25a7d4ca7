// SPDX-License-Identifier: MIT OR Apache-2.0
//! The core stays pure: nothing in its sources asks a clock, keeps a global or depends on hash order.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a folder of ours") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn the_core_has_no_clock_no_global_no_hash_order_and_no_float_in_its_disciplines() {
    let everywhere = [
        "Instant::now",
        "SystemTime",
        "static mut",
        "HashMap",
        "HashSet",
    ];
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    assert!(files.len() > 10);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let in_sched = file.starts_with(src.join("sched"));
        let words = everywhere
            .iter()
            .chain(in_sched.then_some(&"f64"))
            .chain(in_sched.then_some(&"f32"));
        for word in words {
            assert!(!text.contains(word), "{} has `{word}`", file.display());
        }
    }
}
