// SPDX-License-Identifier: MIT OR Apache-2.0
//! Baseline of the benches, used by no discipline: an indexed min-heap and an indexed max-heap ([`Heap`]).
//!
//! Cost: O(log n) for each change, O(1) to look.

use super::{Order, Position};
use crate::heap::Heap;
use core::cmp::Reverse;

/// Exact shortest and longest by two heaps.
#[derive(Clone, Debug)]
pub struct Heaps {
    least: Heap<(u32, u64)>,
    most: Heap<(Reverse<u32>, u64)>,
    changes: u64,
}

impl Order for Heaps {
    fn new(nodes: u32, _bytes: u32, _seed: u64) -> Self {
        Self {
            least: Heap::with_capacity(nodes),
            most: Heap::with_capacity(nodes),
            changes: 0,
        }
    }

    fn update(&mut self, old: Position, new: Position) {
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

    fn shortest(&self) -> Option<Position> {
        let ((bytes, _), node) = self.least.first()?;
        Some(Position { node, bytes })
    }

    fn longest(&self) -> Option<Position> {
        let ((Reverse(bytes), _), node) = self.most.first()?;
        Some(Position { node, bytes })
    }
}
