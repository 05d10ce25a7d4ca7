// SPDX-License-Identifier: MIT OR Apache-2.0
//! An indexed heap: the item with the least key, where items come, change their key and go in any order.
//!
//! Source: J. W. J. Williams, "Algorithm 232: Heapsort", CACM 7, 1964; four children for each node as in D. B. Johnson, "Priority
//! queues with update and finding minimum spanning trees", Information Processing Letters 4, 1975.
//!
//! Cost: O(log n) for each change, O(1) to look; an insertion of the largest key O(1).

use alloc::vec;
use alloc::vec::Vec;

/// No item.
const NIL: u32 = u32::MAX;

/// Four children: one or two cache lines of keys.
const ARITY: usize = 4;

/// Items are small numbers, each here once at most.
#[derive(Clone, Debug)]
pub struct Heap<K> {
    /// Keys beside the items: a comparison does not leave the heap.
    nodes: Vec<(K, u32)>,
    /// Where each item is in `nodes`.
    place: Vec<u32>,
}

impl<K: Ord + Copy> Heap<K> {
    /// With room for items below `items`; others make it grow.
    pub fn with_capacity(items: u32) -> Self {
        Self {
            nodes: Vec::with_capacity(items as usize),
            place: vec![NIL; items as usize],
        }
    }

    /// Adds an item that is not there.
    pub fn insert(&mut self, item: u32, key: K) {
        if self.place.len() <= item as usize {
            self.place.resize(item as usize + 1, NIL);
        }
        self.nodes.push((key, item));
        self.rise(self.nodes.len() - 1);
    }

    /// Replaces `old`, which is there, by `new`, which is not there or is `old`.
    pub fn replace(&mut self, old: u32, new: u32, key: K) {
        let at = core::mem::replace(&mut self.place[old as usize], NIL) as usize;
        self.nodes[at] = (key, new);
        self.settle(at);
    }

    /// Takes out an item that is there.
    pub fn remove(&mut self, item: u32) {
        let at = core::mem::replace(&mut self.place[item as usize], NIL) as usize;
        self.nodes.swap_remove(at);
        if at < self.nodes.len() {
            self.settle(at);
        }
    }

    /// The item with the least key.
    pub fn first(&self) -> Option<(K, u32)> {
        self.nodes.first().copied()
    }

    /// Moves the node at `at` up or down to where it belongs.
    fn settle(&mut self, at: usize) {
        if self.rise(at) == at {
            self.sink(at);
        }
    }

    fn rise(&mut self, mut at: usize) -> usize {
        let node = self.nodes[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.nodes[parent].0 <= node.0 {
                break;
            }
            self.put(at, self.nodes[parent]);
            at = parent;
        }
        self.put(at, node);
        at
    }

    fn sink(&mut self, mut at: usize) {
        let node = self.nodes[at];
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_first_is_the_least_of_a_map(
            ops in proptest::collection::vec((0u32..40, 0u32..100, any::<bool>()), 1..300),
        ) {
            let (mut heap, mut map) = (Heap::with_capacity(4), BTreeMap::new());
            for (item, key, add) in ops {
                // Keys that differ, so that the least is one.
                let key = (key, item);
                match (map.contains_key(&item), add) {
                    (true, true) => heap.replace(item, item, key),
                    (true, false) => heap.remove(item),
                    (false, true) => heap.insert(item, key),
                    (false, false) => continue,
                }
                if add { map.insert(item, key); } else { map.remove(&item); }
                prop_assert_eq!(heap.first().map(|(key, _)| key), map.values().min().copied());
            }
        }
    }
}
