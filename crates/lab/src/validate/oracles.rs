// SPDX-License-Identifier: MIT OR Apache-2.0
//! The oracles, one file for each family.

mod itself;
pub mod ns2;
pub mod ns3;
mod queues;
pub mod red;
mod throughput;
mod worlds;

use super::oracle::Case;

/// All of them, in the order of docs/validation.md.
pub fn all(worlds: bool) -> Vec<Case> {
    let families = [
        queues::cases(),
        throughput::cases(),
        ns2::cases(),
        red::cases(),
        ns3::cases(),
        worlds::cases(worlds),
        itself::cases(),
    ];
    families.into_iter().flatten().collect()
}
