// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instructions that a datagram costs a sender, as `instructions.rs` counts those of a scheduler.

use makeway_core::send::sbpn2::Sbpn2;
use makeway_core::workload::{SendBench, SendCase};

mod callgrind;

const WAITING: u32 = 1000;
const DATAGRAMS: u64 = 20_000;

#[test]
#[ignore = "the run that `sbpn2_stays_within_its_instructions` counts"]
fn counted() {
    SendBench::new(SendCase::Pairs, Sbpn2::default(), WAITING, 1).run(DATAGRAMS);
}

#[test]
fn sbpn2_stays_within_its_instructions() {
    let Some(total) = callgrind::instructions("*SendBench*run*") else {
        return;
    };
    // Making the bench lets four queues of datagrams come to their end.
    let each = total / (DATAGRAMS + 4 * u64::from(WAITING));
    eprintln!("sbpn2: {each} instructions for each datagram");
    assert!(
        (100..=BOUND).contains(&each),
        "{each} instructions, at most {BOUND} are allowed"
    );
}

/// Instructions for each datagram that comes and ends, making it included.
const BOUND: u64 = 1800;
