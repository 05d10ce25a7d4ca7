// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any operations on any discipline, against the reference.
//!
//! The first sixteen bytes choose discipline, limits and parameters, the others are operations, five bytes
//! each.

#[path = "../../../crates/core/tests/reference/mod.rs"]
mod reference;

use makeway_core::packet::UserId;
use makeway_core::sched::{
    CakeParams, CoDelParams, ConfuciusParams, Discipline, DropFrom, Isolation, Limits, RedParams, build,
};
use makeway_core::units::{Bytes, Duration, Fraction, Rate};
use reference::{Config, Op, check};

pub fn run(bytes: &[u8]) {
    let Some((head, rest)) = bytes.split_first_chunk::<16>() else {
        return;
    };
    let discipline = Discipline::ALL[head[0] as usize % Discipline::ALL.len()];
    let limits = Limits {
        packets: 1 + u32::from(head[1]),
        bytes: Bytes::new(1 + (u64::from(head[2]) << (head[3] % 16))),
        flows: 1 + u32::from(head[4] % 32),
    };
    let users = 1 + u32::from(head[5] % 8);
    let interval = Duration::from_micros(1 + (u64::from(head[8]) << (head[9] % 14)));
    let codel = CoDelParams {
        target: Duration::from_nanos((interval.as_nanos() / (1 + u64::from(head[10]))).max(1000)),
        interval,
        mtu: (head[15] < 64).then(|| Bytes::new(u64::from(head[14]) * 16)),
        ecn: false,
    };
    let min = 1 + u32::from(head[11] % 16);
    let red = RedParams {
        min,
        max: min + 1 + u32::from(head[11] / 16),
        weight: Fraction::ratio(1, 1 << (head[12] % 21)),
        max_p: Fraction::ratio(1 + u64::from(head[13]), 256),
        gentle: head[12] & 32 > 0,
        wait: head[12] & 64 > 0,
        by_bytes: head[12] & 128 > 0,
        mean_packet: Bytes::new(1 + u64::from(head[14]) * 8),
        ..RedParams::default()
    };
    let cake = CakeParams {
        rtt: interval.max(Duration::from_micros(20)),
        isolation: if head[6] < 128 { Isolation::Dual } else { Isolation::Flows },
        ecn: false,
    };
    let config = Config {
        drop_from: if head[3] < 128 { DropFrom::Head } else { DropFrom::Tail },
        quantum: Bytes::new(64 + u64::from(head[6]) * 8),
        users,
        weights: vec![(UserId(u32::from(head[7]) % users), 1 + u32::from(head[7] / 8))],
        red,
        codel,
        cake,
        confucius: ConfuciusParams {
            doubling: Duration::from_millis(1 + u64::from(head[9])),
            memory: Duration::from_millis(1 + u64::from(head[10]) * 4),
            ..ConfuciusParams::default()
        },
        rate: (head[15] > 0).then(|| Rate::from_bps(u64::from(head[15]) * 1_000_000)),
        seed: u64::from(head[8]),
        ..Config::new(discipline, limits)
    };
    let scheduler = build(&config.spec(), &config.env()).expect("a good configuration");
    check(&config, scheduler, &Op::read(rest, &config));
}
