// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configuration of a program. `bpf/native/drive.rs` includes this file, since the bench of floods runs the programs without the feature `bpf`.

use bytemuck::{Pod, Zeroable};
use makeway_core::framing::{Cells, Framing};

/// `struct config` of `bpf/qdisc.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)] // The C has it.
pub struct Config {
    /// Bit/s; 0: not limited.
    pub rate: u64,
    pub limit_packets: u32,
    pub limit_bytes: u32,
    pub overhead: i32,
    pub mpu: u32,
    pub cells: u32,
    pub drop_tail: u32,
    pub quantum: u32,
    /// Changes with each write of weights; 0: never written.
    pub weights: u32,
}

impl Config {
    /// Writes the three fields of it.
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
