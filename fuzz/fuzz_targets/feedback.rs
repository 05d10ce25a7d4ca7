//! Any feedback to any controller: it is believed, or it is counted and changes nothing: `cargo +nightly fuzz run feedback`.
//!
//! The first byte chooses the controller, the others are operations, sixteen bytes each.

#![no_main]

#[path = "../../crates/core/tests/reference/feedback.rs"]
mod reference;

use libfuzzer_sys::fuzz_target;
use makeway_core::rate::Config;
use makeway_core::rate::abrc::AbrcParams;
use makeway_core::rate::ccid2::Ccid2Params;
use makeway_core::rate::tfrc::TfrcParams;

fuzz_target!(|bytes: &[u8]| {
    let Some((which, rest)) = bytes.split_first() else {
        return;
    };
    let mut path = reference::Path::new(match which % 3 {
        0 => Config::Tfrc(TfrcParams::default()),
        1 => Config::Ccid2(Ccid2Params::default()),
        _ => Config::Abrc(AbrcParams::default()),
    });
    for op in reference::read(rest) {
        path.run(op);
    }
});
