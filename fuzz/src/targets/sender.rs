// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any operations on a sender's queue, against the reference.
//!
//! The first six bytes choose policy, limits and late keyframes, the others are operations, four bytes each.

#[path = "../../../crates/core/tests/reference/sender.rs"]
mod reference;

use makeway_core::send::{AnyPolicy, Config};
use makeway_core::units::{Bytes, Duration};
use reference::{Op, check};

pub fn run(bytes: &[u8]) {
    let Some((head, rest)) = bytes.split_first_chunk::<6>() else {
        return;
    };
    let policies = AnyPolicy::all();
    let config = Config {
        packets: 1 + u32::from(head[1]),
        bytes: Bytes::new(1 + (u64::from(head[2]) << (head[3] % 16))),
        one_way: (head[4] >= 128).then(|| Duration::from_millis(u64::from(head[4] - 128))),
        low: Bytes::new(u64::from(head[5]) * 16),
        late_keyframes: head[3] >= 128,
        ..Config::default()
    };
    check(config, policies[usize::from(head[0]) % policies.len()], &Op::read(rest));
}
