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

/// IEEE 754 defines the square root to the last bit; these are the C library's, and a run is to be the same with each.
#[test]
fn rate_controllers_use_no_function_of_the_c_library() {
    let rate = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rate");
    let mut files = Vec::new();
    sources(&rate, &mut files);
    files.retain(|file| !file.starts_with(rate.join("tests")));
    assert!(files.len() > 10);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        // Tests come last.
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for word in [
            ".powf(", ".powi(", ".exp(", ".exp2(", ".exp_m1(", ".ln(", ".ln_1p(", ".log2(",
            ".log10(", ".cbrt(", ".sin(", ".cos(", ".tanh(",
        ] {
            assert!(!text.contains(word), "{} has `{word}`", file.display());
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
