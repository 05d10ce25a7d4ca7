// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exact order of flows by backlog: which has the least bytes, which the most.
//!
//! Every discipline with longest queue drop asks for the longest, SQF for the shortest as well, on
//! every packet. Two structures answer, and a third in benches, all exactly and with the same ties:
//!
//! | structure | per packet | used by |
//! | --- | --- | --- |
//! | [`Buckets`] | O(1) | `sqf`, `fq`, `pfq`, `fq-codel`, `cake`, `makeway` |
//! | [`Tree`] | O(log n) | `hier` (a small set for each user), [`Buckets`] beyond its window |
//! | `Heaps` | O(log n) | no discipline: the published baseline of `makeway-lab bench core` (feature `workload`) |
//!
//! Ties: of equal backlogs, the one that has stood at that value for longest comes first, both as the
//! shortest and as the longest.

mod bitmap;
mod buckets;
#[cfg(any(test, feature = "workload"))]
mod heaps;
mod tree;

pub use buckets::Buckets;
#[cfg(any(test, feature = "workload"))]
pub use heaps::Heaps;
pub use tree::Tree;
pub(super) use tree::{Forest, Nodes, Treap};

/// No flow, no packet.
pub(super) const NIL: u32 = u32::MAX;

/// A flow's position in an order: the number it has there, and its backlog. Without backlog it has no
/// position, and the number means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(8))]
pub struct Position {
    /// See [`Order`].
    pub node: u32,
    /// Bytes.
    pub bytes: u32,
}

impl Position {
    /// The position of a flow without backlog.
    pub const NONE: Self = Self {
        node: NIL,
        bytes: 0,
    };
}

/// A structure that keeps the active flows in order of backlog.
///
/// A flow is known here by a *node*: any number that no other active flow has at the time. It may
/// have another after each change, so a pool names a flow by the slot of its last packet, and a flow
/// without packets costs no memory here and no cache miss.
pub trait Order {
    /// For nodes below `nodes` whose backlogs sum to about `bytes`; allocates all that it ever needs. Its shape, and no
    /// answer, follows `seed`.
    fn new(nodes: u32, bytes: u32, seed: u64) -> Self;

    /// A flow that was at `old` is now at `new`.
    fn update(&mut self, old: Position, new: Position);

    /// The position of the active flow with the least bytes.
    fn shortest(&self) -> Option<Position>;

    /// The position of the active flow with the most bytes.
    fn longest(&self) -> Option<Position>;

    /// A guess at which node is the shortest once `shortest` is empty; asks the processor to fetch what the
    /// structure keeps of it.
    fn fetch_after(&self, _shortest: u32) -> Option<u32> {
        None
    }
}

#[cfg(test)]
mod tests;
