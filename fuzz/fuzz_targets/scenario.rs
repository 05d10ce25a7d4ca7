//! Any text as a scenario: it is read or refused with one line, never a panic.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = makeway_scenario::parse(text, "fuzz.toml", Path::new("/nonexistent"), &[]) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
});
