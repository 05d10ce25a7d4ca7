//! Baseline of the benches, used by no discipline: an indexed min-heap and an indexed max-heap.
//!
//! Source: J. W. J. Williams, "Algorithm 232: Heapsort", CACM 7, 1964; four children for each node
//! as in D. B. Johnson, "Priority queues with update and finding minimum spanning trees",
//! Information Processing Letters 4, 1975. Cost: O(log n) for each change, O(1) to look.

use super::{NIL, Order};
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
    /// Where each flow is in `nodes`.
    place: Vec<u32>,
}

impl<K: Ord + Copy> Heap<K> {
    fn new(flows: u32) -> Self {
        Self {
            nodes: Vec::with_capacity(flows as usize),
            place: vec![NIL; flows as usize],
        }
    }

    fn set(&mut self, flow: u32, key: K) {
        let at = match self.place[flow as usize] {
            NIL => {
                self.nodes.push((key, flow));
                self.nodes.len() - 1
            }
            at => at as usize,
        };
        self.nodes[at] = (key, flow);
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

    fn first(&self) -> Option<u32> {
        self.nodes.first().map(|(_, flow)| *flow)
    }
}

impl Order for Heaps {
    fn new(flows: u32, _bytes: u32) -> Self {
        Self {
            least: Heap::new(flows),
            most: Heap::new(flows),
            changes: 0,
        }
    }

    fn update(&mut self, flow: u32, old: u32, new: u32) {
        self.changes += 1;
        if new > 0 {
            self.least.set(flow, (new, self.changes));
            self.most.set(flow, (Reverse(new), self.changes));
        } else if old > 0 {
            self.least.remove(flow);
            self.most.remove(flow);
        }
    }

    fn shortest(&self) -> Option<u32> {
        self.least.first()
    }

    fn longest(&self) -> Option<u32> {
        self.most.first()
    }
}
