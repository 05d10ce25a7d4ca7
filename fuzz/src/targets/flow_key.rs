// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes give a key.

use makeway_core::flow::{FlowKey, Identity};

pub fn run(bytes: &[u8]) {
    for identity in Identity::ALL {
        let _ = FlowKey::from_ip(identity, bytes).to_string();
        let _ = FlowKey::from_ethernet(identity, bytes).to_string();
    }
}
