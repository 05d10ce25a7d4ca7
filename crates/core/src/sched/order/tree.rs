// SPDX-License-Identifier: MIT OR Apache-2.0
//! A balanced search tree linked by index: any number of small exact sets in one array.
//!
//! Source: treaps, C. R. Aragon, R. G. Seidel, "Randomized search trees", FOCS 1989. A node's
//! priority is a hash of its index, so that nothing is stored for it and equal histories give equal
//! trees. Cost: expected O(log n) for each operation, about 1.4 log2 n nodes deep.

use super::{NIL, Order, Place};

/// Records that can be nodes of a [`Treap`].
pub trait Nodes {
    /// Orders the nodes; no two nodes of a tree have equal keys.
    type Key: Ord + Copy;
    fn key(&self, node: u32) -> Self::Key;
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
        while at != NIL && priority(at) >= priority(node) {
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
            if priority(less) >= priority(more) {
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

/// Knuth's multiplicative hash with the high bits folded in; injective, so no two are equal.
fn priority(node: u32) -> u32 {
    let h = node.wrapping_add(1).wrapping_mul(0x9e37_79b1);
    (h ^ h >> 15).wrapping_mul(0x85eb_ca77)
}

/// Flows with their backlogs, each in one tree at most.
#[derive(Clone, Debug)]
pub struct Forest {
    flows: Vec<Flow>,
    changes: u64,
}

#[derive(Clone, Debug)]
struct Flow {
    bytes: u32,
    links: [u32; 2],
    since: u64,
}

impl Nodes for Forest {
    type Key = (u32, u64);
    fn key(&self, node: u32) -> (u32, u64) {
        let Flow { bytes, since, .. } = self.flows[node as usize];
        (bytes, since)
    }
    fn child(&self, node: u32, side: usize) -> u32 {
        self.flows[node as usize].links[side]
    }
    fn set_child(&mut self, node: u32, side: usize, child: u32) {
        self.flows[node as usize].links[side] = child;
    }
}

impl Forest {
    /// For nodes below `nodes`, none of them in a tree.
    pub fn new(nodes: u32) -> Self {
        let flow = Flow {
            bytes: 0,
            links: [NIL; 2],
            since: 0,
        };
        Self {
            flows: vec![flow; nodes as usize],
            changes: 0,
        }
    }

    /// As [`Order::update`], of a flow of `tree`.
    pub fn update(&mut self, tree: &mut Treap, old: Place, new: Place) {
        if old.bytes > 0 {
            tree.remove(self, old.node, self.key(old.node));
        }
        if new.bytes > 0 {
            self.changes += 1;
            let flow = &mut self.flows[new.node as usize];
            (flow.bytes, flow.since) = (new.bytes, self.changes);
            tree.insert(self, new.node);
        }
    }

    /// Of the flows of `tree` with the most bytes, the one that has had them for longest.
    pub fn longest(&self, tree: &Treap) -> Option<Place> {
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
        found.map(|node| self.place(node))
    }

    /// Where `node`, which is in a tree, is.
    pub fn place(&self, node: u32) -> Place {
        let (bytes, _) = self.key(node);
        Place { node, bytes }
    }
}

/// Every active flow in one tree.
#[derive(Clone, Debug)]
pub struct Tree {
    forest: Forest,
    root: Treap,
}

impl Order for Tree {
    fn new(nodes: u32, _bytes: u32) -> Self {
        Self {
            forest: Forest::new(nodes),
            root: Treap::EMPTY,
        }
    }

    fn update(&mut self, old: Place, new: Place) {
        self.forest.update(&mut self.root, old, new);
    }

    fn shortest(&self) -> Option<Place> {
        Some(self.forest.place(self.root.first(&self.forest)?))
    }

    fn longest(&self) -> Option<Place> {
        self.forest.longest(&self.root)
    }
}
