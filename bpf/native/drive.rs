// SPDX-License-Identifier: MIT OR Apache-2.0
//! Structures and numbers of drive.c, whose static assertions have the same sizes and places. Tests of the programs and the bench of floods
//! include this file.

#![allow(dead_code)] // Not everybody needs all of it.

#[path = "../../crates/gateway/src/bpf/layout/config.rs"]
mod config;

use std::mem::offset_of;

use bytemuck::{Pod, Zeroable};
pub use config::Config;

const _: () = {
    assert!(size_of::<Config>() == 40);
    assert!(offset_of!(Config, overhead) == 16 && offset_of!(Config, weights) == 36);
};

/// Hosts that can have a weight.
pub const HOSTS: usize = 8;

/// `struct setup`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Setup {
    pub config: Config,
    pub slots: u32,
    pub chains: u32,
    pub kinds: u32,
    pub chain_seed: u32,
    pub random: u64,
    /// Bytes of the parameters, which follow.
    pub params: u64,
    pub weights: [u32; HOSTS],
    pub flows: u32,
    pub users: u32,
    pub flows_by: u32,
    pub tickets: u32,
}

const _: () = {
    assert!(size_of::<Setup>() == 120);
    assert!(offset_of!(Setup, random) == 56 && offset_of!(Setup, flows) == 104);
};

/// `struct op`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Op {
    pub now: u64,
    pub rate: u64,
    pub what: u32,
    pub packet: u32,
    pub hash: u32,
    pub len: u32,
    pub headers: u32,
    pub gso_size: u32,
    pub gso_segs: u32,
    /// Number of the flow, for core; the C does not read it.
    pub flow: u32,
    pub bytes: [u8; 64],
}

const _: () = {
    assert!(size_of::<Op>() == 112);
    assert!(offset_of!(Op, headers) == 32 && offset_of!(Op, bytes) == 48);
};

/// `enum what`.
pub const ENQUEUE: u32 = 0;
pub const DEQUEUE: u32 = 1;
pub const SET_RATE: u32 = 2;
pub const RESET: u32 = 3;
pub const CONFIGURE: u32 = 4;
pub const WEIGH: u32 = 5;
pub const STAMP: u32 = 6;

/// `WORD`.
pub const WORD: u64 = 7;

/// `struct event`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Event {
    pub told: u32,
    pub packet: u32,
    pub value: u64,
}

const _: () = assert!(size_of::<Event>() == 16 && offset_of!(Event, value) == 8);

/// `enum told`. The last event of each operation is `BUSY`.
pub const ANSWER: u32 = 0;
pub const LEFT: u32 = 1;
pub const DROPPED: u32 = 2;
pub const FREED: u32 = 3;
pub const HELD: u32 = 4;
pub const BUSY: u32 = 5;
pub const WATCHDOG: u32 = 6;
pub const DROPS: u32 = 7;
pub const NCQ: u32 = 8;
pub const STEPS: u32 = 9;
pub const STANDING: u32 = 10;
pub const STOOD: u32 = 11;
pub const EXPECTED: u32 = 12;
