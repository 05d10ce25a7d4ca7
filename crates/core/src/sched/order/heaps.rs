//! Baseline of the benches, used by no discipline: an indexed min-heap and an indexed max-heap.
//!
//! Source: J. W. J. Williams, "Algorithm 232: Heapsort", CACM 7, 1964; four children for each node
//! as in D. B. Johnson, "Priority queues with update and finding minimum spanning trees",
//! Information Processing Letters 4, 1975. Cost: O(log n) for each change, O(1) to look.

use super::{NIL, Order, Place};
use std::cmp::Reverse;

/// Four children: one cache line of keys.
const ARITY: usize = 4;

/// Exact shortest and longest by two heaps.
#[derive(Clone, Debug)]
pub struct Heaps {
    least: Heap<(u32, u64)>,
    most: Heap<(Reverse<u32>, u64)>,
    changes: u64,
}

#[derive(Clone, Debug)]
struct Heap<K> {
    /// Keys beside the flows: a comparison does not leave the heap.
    nodes: Vec<(K, u32)>,
    /// Where each flow, by its node in the order, is in `nodes`.
    place: Vec<u32>,
}

impl<K: Ord + Copy> Heap<K> {
    fn new(nodes: u32) -> Self {
        Self {
            nodes: Vec::with_capacity(nodes as usize),
            place: vec![NIL; nodes as usize],
        }
    }

    fn insert(&mut self, flow: u32, key: K) {
        self.nodes.push((key, flow));
        self.settle(self.nodes.len() - 1);
    }

    /// Gives a flow another node and key.
    fn replace(&mut self, old: u32, new: u32, key: K) {
        let at = std::mem::replace(&mut self.place[old as usize], NIL) as usize;
        self.nodes[at] = (key, new);
        self.settle(at);
    }

    fn remove(&mut self, flow: u32) {
        let at = self.place[flow as usize] as usize;
        self.place[flow as usize] = NIL;
        self.nodes.swap_remove(at);
        if at < self.nodes.len() {
            self.settle(at);
        }
    }

    /// Moves the node at `at` up or down to where it belongs.
    fn settle(&mut self, mut at: usize) {
        let node = self.nodes[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.nodes[parent].0 <= node.0 {
                break;
            }
            self.put(at, self.nodes[parent]);
            at = parent;
        }
        loop {
            let children = at * ARITY + 1;
            let end = self.nodes.len().min(children + ARITY);
            let Some(least) = (children..end).min_by_key(|c| self.nodes[*c].0) else {
                break;
            };
            if node.0 <= self.nodes[least].0 {
                break;
            }
            self.put(at, self.nodes[least]);
            at = least;
        }
        self.put(at, node);
    }

    fn put(&mut self, at: usize, node: (K, u32)) {
        self.nodes[at] = node;
        self.place[node.1 as usize] = at as u32;
    }

    fn first(&self) -> Option<(K, u32)> {
        self.nodes.first().copied()
    }
}

impl Order for Heaps {
    fn new(nodes: u32, _bytes: u32) -> Self {
        Self {
            least: Heap::new(nodes),
            most: Heap::new(nodes),
            changes: 0,
        }
    }

    fn update(&mut self, old: Place, new: Place) {
        self.changes += 1;
        let least = (new.bytes, self.changes);
        let most = (Reverse(new.bytes), self.changes);
        match (old.bytes, new.bytes) {
            (0, 0) => {}
            (0, _) => {
                self.least.insert(new.node, least);
                self.most.insert(new.node, most);
            }
            (_, 0) => {
                self.least.remove(old.node);
                self.most.remove(old.node);
            }
            _ => {
                self.least.replace(old.node, new.node, least);
                self.most.replace(old.node, new.node, most);
            }
        }
    }

    fn shortest(&self) -> Option<Place> {
        let ((bytes, _), node) = self.least.first()?;
        Some(Place { node, bytes })
    }

    fn longest(&self) -> Option<Place> {
        let ((Reverse(bytes), _), node) = self.most.first()?;
        Some(Place { node, bytes })
    }
}
