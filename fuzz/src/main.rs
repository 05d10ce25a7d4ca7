// SPDX-License-Identifier: MIT OR Apache-2.0
//! libFuzzer's program for all targets: `MAKEWAY_FUZZ` names the one to run, see `scripts/fuzz`.

#![no_main]

use std::env;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use makeway_fuzz::TARGETS;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = env::var("MAKEWAY_FUZZ").unwrap_or_default();
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    let names: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
    found
        .unwrap_or_else(|| panic!("MAKEWAY_FUZZ=`{name}` is no target: {}", names.join(", ")))
        .1
});

fuzz_target!(|bytes: &[u8]| TARGET(bytes));
