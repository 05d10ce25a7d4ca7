// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]
//! # Modules
//!
//! - [`units`]: instants, durations, bytes and rates as integers;
//! - [`packet`]: a packet as a scheduler sees it;
//! - [`flow`]: flow keys of packets, and the table of flows;
//! - [`param`]: parameters that people write, with their ranges;
//! - [`framing`]: bytes of a packet on the wire;
//! - [`sched`]: the disciplines, one file each;
//! - [`shaper`]: a discipline on a link of a rate;
//! - [`autorate`]: rates of a shaper whose link rate is unknown or changes;
//! - [`send`]: queues of a sender, with classes and deadlines;
//! - [`rate`]: rate controllers of a sender;
//! - [`loss`]: random loss on a link;
//! - [`fetch`]: prefetching of memory;
//! - [`random`]: random numbers from a seed;
//! - [`ticket`]: shares of a link, carried by packets;
//! - `workload`: made-up traffic, the same for the same seed, and a baseline (feature `workload`, for benches and tests);
//! - [`measure`]: measures of receivers and queues;
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
#[cfg(any(test, feature = "workload"))]
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
