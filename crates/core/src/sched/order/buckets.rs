// SPDX-License-Identifier: MIT OR Apache-2.0
//! One list of flows for each backlog in bytes, and a bitmap of the lists that are not empty.
//!
//! Exact, though it is a bucketed queue: a bucket is one byte wide. Backlogs below the window, at most
//! 256 KiB, are in lists; a backlog at or above it is in a tree. All backlogs together are no more
//! than the limit in bytes, so that tree never has more than `limit / window` flows: none for limits
//! below the window, 64 for 16 MiB.
//!
//! Source: bucketed integer priority queues with find-first-set bitmaps, A. Saeed et al., "Eiffel:
//! Efficient and Flexible Software Packet Scheduling", NSDI 2019. There buckets are coarse and the
//! range is circular; here they are exact, since backlogs, unlike deadlines, are bounded.
//!
//! Cost: a change of backlog takes the flow out of one list and puts it at the end of another without
//! a branch: every list is a ring through a sentinel, and the neighbours are written, never read, so a
//! cache miss there does not stall. A look-up reads three words of the bitmap and one sentinel.
//! Memory: 8 bytes for each byte of the window (2 MiB at most), 32 for each node, of which 24 are
//! touched beyond the window only.

use super::bitmap::Bitmap;
use super::tree::{Forest, Treap};
use super::{Order, Position};
use crate::fetch::fetch;
use alloc::vec::Vec;

/// Exact shortest and longest in constant time.
#[derive(Clone, Debug)]
pub struct Buckets {
    /// First the sentinels, one for each backlog in the window, then the nodes.
    rings: Vec<Ring>,
    window: u32,
    occupied: Bitmap,
    /// Backlogs of the window and above.
    beyond: Treap,
    forest: Forest,
}

#[derive(Clone, Copy, Debug)]
struct Ring {
    prev: u32,
    next: u32,
}

impl Buckets {
    #[inline]
    fn link(&mut self, Position { node, bytes }: Position) {
        let node = self.window + node;
        let last = self.rings[bytes as usize].prev;
        self.rings[bytes as usize].prev = node;
        self.rings[last as usize].next = node;
        self.rings[node as usize] = Ring {
            prev: last,
            next: bytes,
        };
        self.occupied.insert(bytes as usize);
    }

    /// The first of the list for `bytes`, which is not empty.
    #[inline]
    fn oldest(&self, bytes: usize) -> Position {
        Position {
            node: self.rings[bytes].next - self.window,
            // Below the window, 2^18.
            bytes: bytes as u32,
        }
    }

    #[inline]
    fn unlink(&mut self, Position { node, bytes }: Position) {
        let node = self.window + node;
        let Ring { prev, next } = self.rings[node as usize];
        self.rings[prev as usize].next = next;
        self.rings[next as usize].prev = prev;
        // Only the sentinel is left.
        self.occupied.remove_if(bytes as usize, prev == next);
    }
}

impl Order for Buckets {
    fn new(nodes: u32, bytes: u32, seed: u64) -> Self {
        let window = (bytes as usize + 1).next_power_of_two().min(Bitmap::MOST);
        let alone = |i| Ring { prev: i, next: i };
        // Fits: at most 2^18 and 2^30.
        let window = window as u32;
        Self {
            rings: (0..window + nodes).map(alone).collect(),
            window,
            occupied: Bitmap::new(window as usize),
            beyond: Treap::EMPTY,
            forest: Forest::new(nodes, seed),
        }
    }

    #[inline]
    fn update(&mut self, old: Position, new: Position) {
        if old.bytes >= self.window || new.bytes >= self.window {
            return self.update_beyond(old, new);
        }
        if old.bytes > 0 {
            self.unlink(old);
        }
        if new.bytes > 0 {
            self.link(new);
        }
    }

    #[inline]
    fn shortest(&self) -> Option<Position> {
        match self.occupied.first() {
            Some(bytes) => Some(self.oldest(bytes)),
            None => Some(self.forest.position(self.beyond.first(&self.forest)?)),
        }
    }

    #[inline]
    fn longest(&self) -> Option<Position> {
        if !self.beyond.is_empty() {
            return self.forest.longest(&self.beyond);
        }
        Some(self.oldest(self.occupied.last()?))
    }

    #[inline]
    fn fetch_after(&self, shortest: u32) -> Option<u32> {
        // The next in the ring, if that is not the sentinel.
        let next = self.rings[(self.window + shortest) as usize].next;
        fetch(&self.rings, next);
        next.checked_sub(self.window)
    }
}

impl Buckets {
    #[cold]
    fn update_beyond(&mut self, old: Position, new: Position) {
        let window = self.window;
        if (1..window).contains(&old.bytes) {
            self.unlink(old);
        }
        let beyond = |position: Position| Position {
            bytes: if position.bytes >= window {
                position.bytes
            } else {
                0
            },
            ..position
        };
        self.forest
            .update(&mut self.beyond, beyond(old), beyond(new));
        if (1..window).contains(&new.bytes) {
            self.link(new);
        }
    }
}
