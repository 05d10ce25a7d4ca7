// SPDX-License-Identifier: MIT OR Apache-2.0
//! A balanced search tree linked by index: any number of small exact sets in one array.
//!
//! Source: treaps, C. R. Aragon, R. G. Seidel, "Randomized search trees", FOCS 1989. Each insertion
//! draws a new priority from a generator whose seed is in the configuration. Cost: expected O(log n) for
//! each operation, about 1.4 log2 n nodes deep, for any choice of the keys: no answer of a tree depends on
//! its shape, so nothing that comes out tells of the priorities, and a changed key has a new one.

use super::{NIL, Order, Position};
use crate::random::Rng;
use alloc::vec;
use alloc::vec::Vec;

/// Records that can be nodes of a [`Treap`].
pub trait Nodes {
    /// Orders the nodes; no two nodes of a tree have equal keys.
    type Key: Ord + Copy;
    fn key(&self, node: u32) -> Self::Key;
    /// Random, drawn before each insertion.
    fn priority(&self, node: u32) -> u32;
    fn child(&self, node: u32, side: usize) -> u32;
    fn set_child(&mut self, node: u32, side: usize, child: u32);
}

/// A tree: no more than its root.
#[derive(Clone, Copy, Debug)]
pub struct Treap {
    root: u32,
}

/// Where a node hangs: the root, or a side of another.
#[derive(Clone, Copy)]
enum Hook {
    Root,
    Child(u32, usize),
}

impl Treap {
    pub const EMPTY: Self = Self { root: NIL };

    /// Adds `node`, which is in no tree.
    pub fn insert<N: Nodes + ?Sized>(&mut self, nodes: &mut N, node: u32) {
        let key = nodes.key(node);
        let mut hook = Hook::Root;
        let mut at = self.root;
        while at != NIL && nodes.priority(at) >= nodes.priority(node) {
            let side = usize::from(nodes.key(at) < key);
            hook = Hook::Child(at, side);
            at = nodes.child(at, side);
        }
        self.set(nodes, hook, node);
        // The former subtree is split by the key, and hangs below the node.
        let mut open = [Hook::Child(node, 0), Hook::Child(node, 1)];
        while at != NIL {
            let less = nodes.key(at) < key;
            let (mine, inner) = if less { (0, 1) } else { (1, 0) };
            self.set(nodes, open[mine], at);
            open[mine] = Hook::Child(at, inner);
            at = nodes.child(at, inner);
        }
        for hook in open {
            self.set(nodes, hook, NIL);
        }
    }

    /// Removes `node`, which went in under the key `old`, regardless of its record now.
    pub fn remove<N: Nodes + ?Sized>(&mut self, nodes: &mut N, node: u32, old: N::Key) {
        let mut hook = Hook::Root;
        let mut at = self.root;
        while at != node {
            let side = usize::from(nodes.key(at) < old);
            hook = Hook::Child(at, side);
            at = nodes.child(at, side);
        }
        // Its two subtrees are merged in its place.
        let mut below = [nodes.child(node, 0), nodes.child(node, 1)];
        while below[0] != NIL && below[1] != NIL {
            let [less, more] = below;
            if nodes.priority(less) >= nodes.priority(more) {
                self.set(nodes, hook, less);
                hook = Hook::Child(less, 1);
                below[0] = nodes.child(less, 1);
            } else {
                self.set(nodes, hook, more);
                hook = Hook::Child(more, 0);
                below[1] = nodes.child(more, 0);
            }
        }
        let rest = if below[0] == NIL { below[1] } else { below[0] };
        self.set(nodes, hook, rest);
    }

    pub fn is_empty(&self) -> bool {
        self.root == NIL
    }

    /// The node with the least key.
    pub fn first<N: Nodes + ?Sized>(&self, nodes: &N) -> Option<u32> {
        self.end(nodes, 0)
    }

    /// The node with the greatest key.
    pub fn last<N: Nodes + ?Sized>(&self, nodes: &N) -> Option<u32> {
        self.end(nodes, 1)
    }

    fn end<N: Nodes + ?Sized>(&self, nodes: &N, side: usize) -> Option<u32> {
        let mut at = self.root;
        let mut end = None;
        while at != NIL {
            end = Some(at);
            at = nodes.child(at, side);
        }
        end
    }

    fn set<N: Nodes + ?Sized>(&mut self, nodes: &mut N, hook: Hook, to: u32) {
        match hook {
            Hook::Root => self.root = to,
            Hook::Child(node, side) => nodes.set_child(node, side, to),
        }
    }
}

/// Flows with their backlogs, each in one tree at most.
#[derive(Clone, Debug)]
pub struct Forest {
    flows: Vec<Node>,
    changes: u64,
    priorities: Rng,
}

#[derive(Clone, Debug)]
struct Node {
    bytes: u32,
    priority: u32,
    links: [u32; 2],
    since: u64,
}

impl Nodes for Forest {
    type Key = (u32, u64);
    fn key(&self, node: u32) -> (u32, u64) {
        let Node { bytes, since, .. } = self.flows[node as usize];
        (bytes, since)
    }
    fn priority(&self, node: u32) -> u32 {
        self.flows[node as usize].priority
    }
    fn child(&self, node: u32, side: usize) -> u32 {
        self.flows[node as usize].links[side]
    }
    fn set_child(&mut self, node: u32, side: usize, child: u32) {
        self.flows[node as usize].links[side] = child;
    }
}

impl Forest {
    /// For nodes below `nodes`, none of them in a tree; `seed` is that of the priorities.
    pub fn new(nodes: u32, seed: u64) -> Self {
        let flow = Node {
            bytes: 0,
            priority: 0,
            links: [NIL; 2],
            since: 0,
        };
        Self {
            flows: vec![flow; nodes as usize],
            changes: 0,
            priorities: Rng::new(seed),
        }
    }

    /// As [`Order::update`], of a flow of `tree`.
    pub fn update(&mut self, tree: &mut Treap, old: Position, new: Position) {
        if old.bytes > 0 {
            tree.remove(self, old.node, self.key(old.node));
        }
        if new.bytes > 0 {
            self.begin(new);
            tree.insert(self, new.node);
        }
    }

    /// Before a flow goes in at `position`.
    fn begin(&mut self, position: Position) {
        self.changes += 1;
        let flow = &mut self.flows[position.node as usize];
        (flow.bytes, flow.since) = (position.bytes, self.changes);
        flow.priority = self.priorities.next_u32();
    }

    /// The flow of `tree` with the most bytes; among equals, the one that has had them for longest.
    pub fn longest(&self, tree: &Treap) -> Option<Position> {
        let (most, _) = self.key(tree.last(self)?);
        let mut at = tree.root;
        let mut found = None;
        while at != NIL {
            if self.key(at).0 < most {
                at = self.child(at, 1);
            } else {
                found = Some(at);
                at = self.child(at, 0);
            }
        }
        found.map(|node| self.position(node))
    }

    /// Where `node`, which is in a tree, is.
    pub fn position(&self, node: u32) -> Position {
        let (bytes, _) = self.key(node);
        Position { node, bytes }
    }
}

/// Every active flow in one tree.
#[derive(Clone, Debug)]
pub struct Tree {
    forest: Forest,
    root: Treap,
}

impl Order for Tree {
    fn new(nodes: u32, _bytes: u32, seed: u64) -> Self {
        Self {
            forest: Forest::new(nodes, seed),
            root: Treap::EMPTY,
        }
    }

    fn update(&mut self, old: Position, new: Position) {
        self.forest.update(&mut self.root, old, new);
    }

    fn shortest(&self) -> Option<Position> {
        Some(self.forest.position(self.root.first(&self.forest)?))
    }

    fn longest(&self) -> Option<Position> {
        self.forest.longest(&self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Counts the links that each operation follows.
    struct Counted {
        forest: Forest,
        followed: Cell<u32>,
    }

    impl Nodes for Counted {
        type Key = (u32, u64);
        fn key(&self, node: u32) -> (u32, u64) {
            self.forest.key(node)
        }
        fn priority(&self, node: u32) -> u32 {
            self.forest.priority(node)
        }
        fn child(&self, node: u32, side: usize) -> u32 {
            self.followed.set(self.followed.get() + 1);
            self.forest.child(node, side)
        }
        fn set_child(&mut self, node: u32, side: usize, child: u32) {
            self.forest.set_child(node, side, child);
        }
    }

    const NODES: u32 = 4096;

    /// The most links that an operation follows while nodes of these bytes come, in this order, and go again.
    fn most_followed(bytes: &[u32], seed: u64) -> u32 {
        let mut tree = Treap::EMPTY;
        let mut counted = Counted {
            forest: Forest::new(NODES, seed),
            followed: Cell::new(0),
        };
        let mut most = 0;
        for (node, &bytes) in (0..).zip(bytes) {
            counted.forest.begin(Position { node, bytes });
            tree.insert(&mut counted, node);
            most = most.max(counted.followed.take());
        }
        for node in 0..bytes.len() as u32 {
            let key = counted.key(node);
            tree.remove(&mut counted, node, key);
            most = most.max(counted.followed.take());
        }
        assert!(tree.is_empty());
        most
    }

    /// 4 log2 n.
    const MOST: u32 = 4 * NODES.ilog2();

    #[test]
    fn bytes_chosen_by_the_public_hash_of_an_index_make_no_deep_tree() {
        // The former priorities.
        let known = |node: u32| {
            let h = node.wrapping_add(1).wrapping_mul(0x9e37_79b1);
            (h ^ h >> 15).wrapping_mul(0x85eb_ca77)
        };
        let mut by_priority: Vec<u32> = (0..NODES).collect();
        by_priority.sort_by_key(|node| std::cmp::Reverse(known(*node)));
        let mut bytes = vec![0; NODES as usize];
        for (rank, node) in (1..).zip(by_priority) {
            bytes[node as usize] = rank;
        }
        let most = most_followed(&bytes, 1);
        assert!(most <= MOST, "{most} links, at most {MOST}");
    }

    #[test]
    fn no_order_of_arrival_makes_a_deep_tree() {
        let up: Vec<u32> = (1..=NODES).collect();
        let down: Vec<u32> = up.iter().rev().copied().collect();
        let ends = (0..NODES).map(|i| if i % 2 == 0 { i / 2 } else { NODES - 1 - i / 2 });
        let ends: Vec<u32> = ends.map(|bytes| bytes + 1).collect();
        let equal = vec![1; NODES as usize];
        for bytes in [up, down, ends, equal] {
            for seed in 0..20 {
                let most = most_followed(&bytes, seed);
                assert!(most <= MOST, "{most} links, at most {MOST}");
            }
        }
    }
}
