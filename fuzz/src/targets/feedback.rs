// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any feedback to any controller: it is believed, or it is counted and changes nothing.
//!
//! The first byte chooses the controller, the others are operations, sixteen bytes each.

#[path = "../../../crates/core/tests/reference/feedback.rs"]
#[allow(dead_code)] // The tests of core use all of it.
mod reference;

use makeway_core::rate::Config;
use makeway_core::rate::abrc::AbrcParams;
use makeway_core::rate::ccid2::Ccid2Params;
use makeway_core::rate::tfrc::TfrcParams;

pub fn run(bytes: &[u8]) {
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
}
