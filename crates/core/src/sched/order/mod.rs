//! The exact order of flows by backlog: which has the least bytes, which the most.
//!
//! Every discipline with longest queue drop asks for the longest, SQF for the shortest as well, on
//! every packet. Three structures answer, all exactly and with the same ties:
//!
//! | structure | per packet | used by |
//! | --- | --- | --- |
//! | [`Buckets`] | O(1) | `sqf`, `fq`, `pfq` |
//! | [`Tree`] | O(log n) | `hier` (a small set for each user), [`Buckets`] beyond its window |
//! | [`Heaps`] | O(log n) | nobody: the published baseline of `makeway bench core` |
//!
//! Ties: of equal backlogs, the one that has stood at that value for longest comes first, both as the
//! shortest and as the longest.

mod bitmap;
mod buckets;
mod heaps;
mod tree;

pub use buckets::Buckets;
pub use heaps::Heaps;
pub use tree::Tree;
pub(super) use tree::{Forest, Nodes, Treap};

/// No flow, no packet.
pub(super) const NIL: u32 = u32::MAX;

/// A structure that keeps the active flows in order of backlog.
pub trait Order {
    /// For flows below `flows` whose backlogs sum to `bytes`; allocates all that it ever needs.
    fn new(flows: u32, bytes: u32) -> Self;

    /// The backlog of `flow` was `old` bytes and is now `new`; zero means that it is not active.
    fn update(&mut self, flow: u32, old: u32, new: u32);

    /// The active flow with the least bytes.
    fn shortest(&self) -> Option<u32>;

    /// The active flow with the most bytes.
    fn longest(&self) -> Option<u32>;
}

#[cfg(test)]
mod tests;
