//! A balanced search tree linked by index: any number of small exact sets in one array.
//!
//! Source: treaps, C. R. Aragon, R. G. Seidel, "Randomized search trees", FOCS 1989. A node's
//! priority is a hash of its index, so that nothing is stored for it and equal histories give equal
//! trees. Cost: expected O(log n) for each operation, about 1.4 log2 n nodes deep.

use super::{NIL, Order};

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

    fn set<N: Nodes + ?Sized>(&mut self, nodes: &mut N, place: Place, to: u32) {
        match place {
            Place::Root => self.root = to,
            Place::Child(node, side) => nodes.set_child(node, side, to),
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
    /// For flows below `flows`, all of them without backlog.
    pub fn new(flows: u32) -> Self {
        let flow = Flow {
            bytes: 0,
            links: [NIL; 2],
            since: 0,
        };
        Self {
            flows: vec![flow; flows as usize],
            changes: 0,
        }
    }

    /// Gives `flow`, which is in `tree` unless its backlog is zero, a new backlog there.
    pub fn update(&mut self, tree: &mut Treap, flow: u32, bytes: u32) {
        let old = self.key(flow);
        if old.0 > 0 {
            tree.remove(self, flow, old);
        }
        self.changes += 1;
        self.flows[flow as usize].bytes = bytes;
        self.flows[flow as usize].since = self.changes;
        if bytes > 0 {
            tree.insert(self, flow);
        }
    }

    /// Of the flows of `tree` with the most bytes, the one that has had them for longest.
    pub fn longest(&self, tree: &Treap) -> Option<u32> {
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
        found
    }
}

/// Every active flow in one tree.
#[derive(Clone, Debug)]
pub struct Tree {
    forest: Forest,
    root: Treap,
}

impl Order for Tree {
    fn new(flows: u32, _bytes: u32) -> Self {
        Self {
            forest: Forest::new(flows),
            root: Treap::EMPTY,
        }
    }

    fn update(&mut self, flow: u32, _old: u32, new: u32) {
        self.forest.update(&mut self.root, flow, new);
    }

    fn shortest(&self) -> Option<u32> {
        self.root.first(&self.forest)
    }

    fn longest(&self) -> Option<u32> {
        self.forest.longest(&self.root)
    }
}
