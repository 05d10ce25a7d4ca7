// SPDX-License-Identifier: MIT OR Apache-2.0
//! The router on real Linux: NFQUEUE datapath, shaper, rules, control.
//!
//! - [`autorate`]: sets the rates of an instance by the delay that the link shows;
//! - `bpf`: disciplines in the kernel, as BPF qdiscs;
//! - [`control`]: one running instance for each interface, and how others talk to it;
//! - [`datapath`]: takes packets from the kernel's packet queue and gives them back in our order;
//! - [`interface`]: a network interface of this machine;
//! - [`limit`]: queue limits, as they are asked for;
//! - [`protocol`]: the JSON lines between an instance and its clients;
//! - [`rules`]: the rules of nftables or iptables that send packets there;
//! - [`socket`]: options of sockets.

pub mod autorate;
#[cfg(feature = "bpf")]
pub mod bpf;
#[cfg(not(feature = "bpf"))]
#[path = "bpf/absent.rs"]
pub mod bpf;
pub mod control;
pub mod datapath;
pub mod events;
mod folder;
pub mod interface;
pub mod limit;
mod place;
pub mod protocol;
pub mod rules;
pub mod socket;
#[cfg(test)]
mod stranger;
mod text;
mod tool;
