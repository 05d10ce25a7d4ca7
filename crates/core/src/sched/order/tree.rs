//! A balanced search tree in the flows' own records: small exact sets without an array for each.
//!
//! Source: treaps, C. R. Aragon, R. G. Seidel, "Randomized search trees", FOCS 1989. A node's
//! priority is a hash of its index, so that nothing is stored for it and equal histories give equal
//! trees. Cost: expected O(log n) for each operation, about 1.4 log2 n nodes deep.

use super::{Key, NIL, Order, Queue};

/// Records that can be nodes of a [`Treap`].
pub trait Nodes {
    /// Orders the nodes; no two nodes of a tree have equal keys.
    type Key: Ord + Copy;
    fn key(&self, node: u32) -> Self::Key;
    fn child(&self, node: u32, side: usize) -> u32;
    fn set_child(&mut self, node: u32, side: usize, child: u32);
}

impl Nodes for [Queue] {
    type Key = Key;
    fn key(&self, node: u32) -> Key {
        self[node as usize].key
    }
    fn child(&self, node: u32, side: usize) -> u32 {
        self[node as usize].links[side]
    }
    fn set_child(&mut self, node: u32, side: usize, child: u32) {
        self[node as usize].links[side] = child;
    }
}

/// A tree: no more than its root.
#[derive(Clone, Copy, Debug)]
pub struct Treap {
    root: u32,
}

/// Where a node hangs: the root, or a side of another.
#[derive(Clone, Copy)]
enum Place {
    Root,
    Child(u32, usize),
}

impl Treap {
    pub const EMPTY: Self = Self { root: NIL };

    /// Adds `node`, which is in no tree.
    pub fn insert<N: Nodes + ?Sized>(&mut self, nodes: &mut N, node: u32) {
        let key = nodes.key(node);
        let mut place = Place::Root;
        let mut at = self.root;
        while at != NIL && priority(at) >= priority(node) {
            let side = usize::from(nodes.key(at) < key);
            place = Place::Child(at, side);
            at = nodes.child(at, side);
        }
        self.set(nodes, place, node);
        // What was here is split by the key, and hangs below the node.
        let mut open = [Place::Child(node, 0), Place::Child(node, 1)];
        while at != NIL {
            let less = nodes.key(at) < key;
            let (mine, inner) = if less { (0, 1) } else { (1, 0) };
            self.set(nodes, open[mine], at);
            open[mine] = Place::Child(at, inner);
            at = nodes.child(at, inner);
        }
        for place in open {
            self.set(nodes, place, NIL);
        }
    }

    /// Removes `node`, which went in under the key `old`, whatever its record says now.
    pub fn remove<N: Nodes + ?Sized>(&mut self, nodes: &mut N, node: u32, old: N::Key) {
        let mut place = Place::Root;
        let mut at = self.root;
        while at != node {
            let side = usize::from(nodes.key(at) < old);
            place = Place::Child(at, side);
            at = nodes.child(at, side);
        }
        // Its two subtrees are merged in its place.
        let mut below = [nodes.child(node, 0), nodes.child(node, 1)];
        while below[0] != NIL && below[1] != NIL {
            let [less, more] = below;
            if priority(less) >= priority(more) {
                self.set(nodes, place, less);
                place = Place::Child(less, 1);
                below[0] = nodes.child(less, 1);
            } else {
                self.set(nodes, place, more);
                place = Place::Child(more, 0);
                below[1] = nodes.child(more, 0);
            }
        }
        let rest = if below[0] == NIL { below[1] } else { below[0] };
        self.set(nodes, place, rest);
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

    fn set<N: Nodes + ?Sized>(&mut self, nodes: &mut N, place: Place, to: u32) {
        match place {
            Place::Root => self.root = to,
            Place::Child(node, side) => nodes.set_child(node, side, to),
        }
    }
}

impl Treap {
    /// Of the queues with the most bytes, the one that has had them for longest.
    pub fn longest(&self, queues: &[Queue]) -> Option<u32> {
        let most = queues.key(self.last(queues)?).bytes;
        let mut at = self.root;
        let mut found = None;
        while at != NIL {
            if queues.key(at).bytes < most {
                at = queues.child(at, 1);
            } else {
                found = Some(at);
                at = queues.child(at, 0);
            }
        }
        found
    }
}

/// Knuth's multiplicative hash with the high bits folded in; injective, so no two are equal.
fn priority(node: u32) -> u32 {
    let h = node.wrapping_add(1).wrapping_mul(0x9e37_79b1);
    (h ^ h >> 15).wrapping_mul(0x85eb_ca77)
}

/// Every active flow in one tree.
#[derive(Clone, Debug)]
pub struct Tree(Treap);

impl Order for Tree {
    fn new(_flows: u32, _bytes: u32) -> Self {
        Self(Treap::EMPTY)
    }

    fn update(&mut self, queues: &mut [Queue], flow: u32, old: Key) {
        if old.bytes > 0 {
            self.0.remove(queues, flow, old);
        }
        if queues[flow as usize].key.bytes > 0 {
            self.0.insert(queues, flow);
        }
    }

    fn shortest(&self, queues: &[Queue]) -> Option<u32> {
        self.0.first(queues)
    }

    fn longest(&self, queues: &[Queue]) -> Option<u32> {
        self.0.longest(queues)
    }
}
