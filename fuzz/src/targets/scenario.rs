// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text as a scenario: it is read or refused with one line, never a panic.
use std::path::Path;

pub fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    if let Err(error) = makeway_scenario::parse(text, "fuzz.toml", Path::new("/nonexistent"), &[]) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}
