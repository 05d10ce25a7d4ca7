//! Any operations on any discipline, against the reference: `cargo +nightly fuzz run operations`.
//!
//! The first eight bytes choose discipline and limits, the others are operations, five bytes each.

#![no_main]

#[path = "../../crates/core/tests/reference/mod.rs"]
mod reference;

use libfuzzer_sys::fuzz_target;
use makeway_core::packet::UserId;
use makeway_core::sched::{Config, Discipline, DropFrom, Limits, build};
use makeway_core::units::Bytes;
use reference::{Op, check};

fuzz_target!(|bytes: &[u8]| {
    let Some((head, rest)) = bytes.split_first_chunk::<8>() else {
        return;
    };
    let discipline = Discipline::ALL[head[0] as usize % Discipline::ALL.len()];
    let limits = Limits {
        packets: 1 + u32::from(head[1]),
        bytes: Bytes::new(1 + (u64::from(head[2]) << (head[3] % 16))),
        flows: 1 + u32::from(head[4] % 32),
    };
    let users = 1 + u32::from(head[5] % 8);
    let config = Config {
        drop_from: if head[3] < 128 { DropFrom::Head } else { DropFrom::Tail },
        quantum: Bytes::new(64 + u64::from(head[6]) * 8),
        users,
        weights: vec![(UserId(u32::from(head[7]) % users), 1 + u32::from(head[7] / 8))],
        ..Config::new(discipline, limits)
    };
    let scheduler = build(&config).expect("a good configuration");
    check(&config, scheduler, &Op::read(rest, &config));
});
