//! Any bytes give a key: `cargo +nightly fuzz run flow_key`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use makeway_core::flow::{FlowKey, Identity};

fuzz_target!(|bytes: &[u8]| {
    for identity in Identity::ALL {
        let _ = FlowKey::from_ip(identity, bytes).to_string();
        let _ = FlowKey::from_ethernet(identity, bytes).to_string();
    }
});
