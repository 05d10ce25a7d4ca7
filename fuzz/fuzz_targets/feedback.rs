//! Any feedback to any controller: it is believed, or it is counted and changes nothing: `cargo +nightly fuzz run feedback`.
//!
//! The first byte chooses the controller, the others are operations, sixteen bytes each.

#![no_main]

#[path = "../../crates/core/tests/reference/feedback.rs"]
mod reference;

use libfuzzer_sys::fuzz_target;
use makeway_core::rate::Config;
use makeway_core::rate::tfrc::TfrcParams;

fuzz_target!(|bytes: &[u8]| {
    let Some((_which, rest)) = bytes.split_first() else {
        return;
    };
    let mut path = reference::Path::new(Config::Tfrc(TfrcParams::default()));
    for op in reference::read(rest) {
        path.run(op);
    }
});
