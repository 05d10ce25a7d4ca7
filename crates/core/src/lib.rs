// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]
//! # Modules
//!
//! - [`units`]: instants, durations, bytes and rates as integers;
//! - [`packet`]: a packet as a scheduler sees it;
//! - [`flow`]: which packets belong together;
//! - [`param`]: parameters that people write, with their ranges;
//! - [`framing`]: what a packet costs on the wire;
//! - [`sched`]: the disciplines, one file each;
//! - [`shaper`]: a discipline on a link of a rate;
//! - [`autorate`]: a rate for the shaper where the link's is unknown or changes;
//! - [`send`]: which datagram a sender sends next;
//! - [`rate`]: how fast it may send;
//! - [`loss`]: random loss on a link;
//! - [`fetch`]: asking for memory ahead of time;
//! - [`random`]: random numbers that a seed repeats;
//! - [`ticket`]: shares of a link that packets carry;
//! - `workload`: made-up traffic, the same for the same seed (feature `workload`, for benches and tests);
//! - [`measure`]: what receivers and queues measure;
//! - [`theory`]: the papers' closed forms.

#![cfg_attr(not(any(test, feature = "std")), no_std)]

extern crate alloc;

#[cfg(not(any(feature = "std", feature = "libm")))]
compile_error!(
    "makeway-core computes with f64: enable its feature `std`, or `libm` where there is no std"
);

pub mod autorate;
pub mod fetch;
pub mod flow;
pub mod framing;
mod heap;
pub mod loss;
pub mod measure;
pub mod packet;
pub mod param;
pub mod random;
pub mod rate;
pub mod sched;
pub mod send;
pub mod shaper;
pub mod theory;
pub mod ticket;
pub mod units;
#[cfg(feature = "workload")]
pub mod workload;
