// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the programs and we both read and write, as `bpf/qdisc.h` lays it out.

use bytemuck::{Pod, Zeroable};
use makeway_core::flow::Identity;
use makeway_core::framing::{Cells, Framing};
use makeway_core::packet::DropReason;

/// `struct config`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Config {
    /// Bit/s; 0: not limited.
    pub rate: u64,
    pub limit_packets: u32,
    pub limit_bytes: u32,
    pub overhead: i32,
    pub mpu: u32,
    pub cells: u32,
    pub drop_tail: u32,
    pub quantum: u32,
    /// How often weights were written.
    pub weights: u32,
}

impl Config {
    pub fn set_framing(&mut self, framing: Framing) {
        self.overhead = framing.overhead;
        self.mpu = framing.mpu;
        self.cells = match framing.cells {
            Cells::None => 0,
            Cells::Atm => 1,
            Cells::Ptm => 2,
        };
    }
}

/// `struct keys`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Keys {
    pub seed: u64,
    pub flows_by: u32,
    pub users_by: u32,
    pub multipliers: [u64; 11],
}

/// `enum identity` of `bpf/dissect.h`.
pub(super) const fn identity(identity: Identity) -> u32 {
    match identity {
        Identity::FiveTuple => 0,
        Identity::SrcPort => 1,
        Identity::SrcHost => 2,
        Identity::DstHost => 3,
        Identity::HostPair => 4,
    }
}

/// Number of reasons for a drop.
pub(super) const REASONS: usize = DropReason::ALL.len() + 2;

/// `struct counters`. Packets and bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Counters {
    /// Packets that came.
    pub packets_in: u64,
    /// Bytes that came.
    pub bytes_in: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// Bytes that left.
    pub bytes_out: u64,
    drops: [u64; REASONS],
    /// The largest packet that came.
    pub largest: u64,
    /// Packets that were given priority (NCQ).
    pub favoured: u64,
    /// Packets that left behind a later one of their flow (NCQ).
    pub reordered: u64,
    /// Packets that came with less than K times the least tickets (TRED).
    pub expected: u64,
}

impl Counters {
    /// Packets given up, by reason; reasons that nothing was given up for are left out.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let reasons = DropReason::ALL.into_iter().map(DropReason::name);
        let named = reasons.chain(["flows", "reset"]).zip(self.drops);
        named.filter(|&(_, n)| n > 0)
    }
}

/// `struct pool` of `bpf/pool.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Pool {
    pub packets: u32,
    pub bytes: u32,
    _free_slot: u32,
    _used_slots: u32,
    _free_flow: u32,
    /// Entries of flows that were ever used, which are the first.
    pub used_flows: u32,
}

/// `struct flow` of `bpf/pool.h`, without what a discipline adds.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Flow {
    pub hash: u32,
    _links: [u32; 3],
    pub bytes: u32,
    pub packets: u32,
}

/// `struct sojourns` of `bpf/sojourn.h`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Sojourns {
    /// When it was copied, in ns of CLOCK_MONOTONIC.
    pub at: u64,
    pub sum: u64,
    pub max: u64,
    pub buckets: [u64; 128],
}
