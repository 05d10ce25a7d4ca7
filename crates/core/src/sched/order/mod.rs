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
pub(super) use tree::{Nodes, Treap};

/// No flow, no packet.
pub(super) const NIL: u32 = u32::MAX;

/// The backlog of a flow and since when it has it: unique, so the order is total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Bytes held; zero for a flow that is not active.
    pub(super) bytes: u32,
    /// Counts changes of any backlog.
    pub(super) since: u64,
}

/// A flow's queue: half a cache line, so that two fit in one and none lies across two.
#[derive(Clone, Debug)]
#[repr(align(32))]
pub struct Queue {
    pub(super) key: Key,
    /// First and last packet, as slots of the pool.
    pub(super) head: u32,
    pub(super) tail: u32,
    /// Neighbours in a bucket's list, or children in a tree.
    links: [u32; 2],
}

impl Queue {
    pub(super) const EMPTY: Self = Self {
        key: Key { bytes: 0, since: 0 },
        head: NIL,
        tail: NIL,
        links: [NIL; 2],
    };
}

/// A structure that keeps the active flows in order of backlog.
pub trait Order {
    /// For at most `flows` flows whose backlogs sum to `bytes`; allocates all that it ever needs.
    fn new(flows: u32, bytes: u32) -> Self;

    /// The key of `flow` was `old` and is now what `queues` says; zero bytes mean not active.
    fn update(&mut self, queues: &mut [Queue], flow: u32, old: Key);

    /// The active flow with the least bytes.
    fn shortest(&self, queues: &[Queue]) -> Option<u32>;

    /// The active flow with the most bytes.
    fn longest(&self, queues: &[Queue]) -> Option<u32>;
}
