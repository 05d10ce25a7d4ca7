// SPDX-License-Identifier: MIT OR Apache-2.0
//! An order of waiting datagrams, of which only the two ends are read.
//!
//! Blocks, each of positions that are all less than those of the next. Only a block that is looked into is sorted: in the others a new position
//! goes to the end, so that it touches one cache line of what may be many megabytes. A datagram that goes stays until it comes to an end
//! or until half as many have gone as there are slots.
//!
//! Cost: O(log n) amortized for each datagram; beyond some hundred thousand the index of blocks costs O(n / `B`^2) more.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::queue::Slot;

/// A datagram in an order. No two of one order are equal in `major` and `minor`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    /// The upper half, the lower one: a u128 would make it larger by half.
    major: [u64; 2],
    minor: u64,
    pub slot: Slot,
}

impl Position {
    pub fn new(major: u128, minor: u64, slot: Slot) -> Self {
        let major = [(major >> 64) as u64, major as u64];
        Self { major, minor, slot }
    }

    #[inline(always)]
    fn major(&self) -> u128 {
        u128::from(self.major[0]) << 64 | u128::from(self.major[1])
    }

    /// Without a branch for each part: it would be mispredicted in every second comparison.
    #[inline(always)]
    fn is_before(&self, other: &Self) -> bool {
        let (major, others) = (self.major(), other.major());
        (major < others) | ((major == others) & (self.minor < other.minor))
    }
}

impl PartialEq for Position {
    fn eq(&self, other: &Self) -> bool {
        (self.major() == other.major()) & (self.minor == other.minor)
    }
}

impl Eq for Position {}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    #[inline(always)]
    fn lt(&self, other: &Self) -> bool {
        self.is_before(other)
    }

    #[inline(always)]
    fn le(&self, other: &Self) -> bool {
        !other.is_before(self)
    }
}

impl Ord for Position {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.major(), self.minor).cmp(&(other.major(), other.minor))
    }
}

/// With blocks of at most `B` positions, at least 2.
#[derive(Clone, Debug)]
pub(super) struct Order<const B: usize = 128> {
    /// No position of a block is less than its bound, nor one of the block before it as large.
    bounds: VecDeque<Position>,
    blocks: VecDeque<Block>,
    spare: Vec<Block>,
    /// How many of all positions are left.
    gone: usize,
    /// The most that wait at once.
    slots: usize,
}

/// Positions in one piece, so that a search in them is one of a slice. Those that go in front leave a gap, which is closed once there is no room
/// behind: there is room for twice as many as a block holds.
#[derive(Clone, Debug, Default)]
struct Block {
    all: Vec<Position>,
    /// Length of the gap in front.
    gap: usize,
    is_unsorted: bool,
}

impl<const B: usize> Default for Order<B> {
    fn default() -> Self {
        Self {
            bounds: VecDeque::new(),
            blocks: VecDeque::new(),
            spare: Vec::new(),
            gone: 0,
            slots: 0,
        }
    }
}

impl<const B: usize> Order<B> {
    /// Makes room for this number of waiting datagrams.
    pub fn reserve(&mut self, slots: usize) {
        self.slots = slots;
        // One comes to its new position before it has left the old one.
        let positions = slots + slots / 2 + 1;
        // Of three blocks in a row, those at the ends apart, the positions fill one: halves of a block beside what a sweep left.
        let blocks = if positions <= B {
            1
        } else {
            3 * positions / B + 4
        };
        let missing = blocks.saturating_sub(self.blocks.len() + self.spare.len());
        self.spare.extend((0..missing).map(|_| Block {
            all: Vec::with_capacity(2 * B),
            ..Block::default()
        }));
        self.blocks.reserve(self.spare.len());
        self.bounds.reserve(self.spare.len());
        self.spare.reserve(self.blocks.len());
    }

    /// Adds a datagram.
    pub fn push(&mut self, position: Position) {
        if self.blocks.is_empty() {
            self.bounds.push_back(position);
            let block = self.block();
            self.blocks.push_back(block);
        }
        // A key below all bounds goes to the first block.
        let mut at = match self.blocks.len() {
            1 => 0,
            _ => {
                let below = self.bounds.partition_point(|bound| *bound <= position);
                below.saturating_sub(1)
            }
        };
        if self.blocks[at].len() >= B {
            let bound = self.split(at);
            at += usize::from(bound <= position);
        }
        let is_end = at == 0 || at + 1 == self.blocks.len();
        self.bounds[at] = self.bounds[at].min(position);
        self.blocks[at].push(position, is_end);
    }

    /// One has left its position: `is_there` says of each whether it is there still.
    pub fn leave(&mut self, is_there: impl Fn(&Position) -> bool) {
        self.gone += 1;
        if self.gone > self.slots / 2 {
            self.sweep(is_there);
        }
    }

    /// The least of those that are there still.
    pub fn first(&mut self, is_there: impl Fn(&Position) -> bool) -> Option<Slot> {
        loop {
            let block = self.blocks.front_mut()?;
            block.sort();
            while let Some(position) = block.positions().first() {
                if is_there(position) {
                    return Some(position.slot);
                }
                block.gap += 1;
                self.gone -= 1;
            }
            self.bounds.pop_front();
            self.spare.extend(self.blocks.pop_front());
        }
    }

    /// The datagram `after` others behind the first, if it is known yet; it may have gone.
    pub fn soon(&self, after: usize) -> Option<Slot> {
        let position = self.blocks.front()?.positions().get(after)?;
        Some(position.slot)
    }

    /// The largest of those that are there still.
    pub fn last(&mut self, is_there: impl Fn(&Position) -> bool) -> Option<Slot> {
        loop {
            let block = self.blocks.back_mut()?;
            block.sort();
            while let Some(position) = block.positions().last() {
                if is_there(position) {
                    return Some(position.slot);
                }
                block.all.pop();
                self.gone -= 1;
            }
            self.bounds.pop_back();
            self.spare.extend(self.blocks.pop_back());
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.spare.extend(self.blocks.drain(..));
        self.bounds.clear();
        self.gone = 0;
    }

    /// Moves the larger half of a block to a new one behind it, and says its bound.
    fn split(&mut self, at: usize) -> Position {
        let mut larger = self.block();
        let block = &mut self.blocks[at];
        block.close();
        let (_, bound, _) = block.all.select_nth_unstable(B / 2);
        let bound = *bound;
        larger.all.extend(block.all.drain(B / 2..));
        (block.is_unsorted, larger.is_unsorted) = (true, true);
        self.bounds.insert(at + 1, bound);
        self.blocks.insert(at + 1, larger);
        bound
    }

    /// Takes out what is gone, and makes one of two blocks where it fits.
    fn sweep(&mut self, is_there: impl Fn(&Position) -> bool) {
        self.gone = 0;
        for block in &mut self.blocks {
            block.close();
            block.all.retain(&is_there);
        }
        let mut kept = 0;
        for at in 1..self.blocks.len() {
            let mut block = core::mem::take(&mut self.blocks[at]);
            let last = &mut self.blocks[kept];
            if last.len() + block.len() <= B {
                last.all.append(&mut block.all);
                last.is_unsorted |= block.is_unsorted;
                self.spare.push(block);
            } else {
                kept += 1;
                self.blocks[kept] = block;
                self.bounds[kept] = self.bounds[at];
            }
        }
        self.blocks.truncate(kept + 1);
        self.bounds.truncate(kept + 1);
    }

    /// An empty one.
    fn block(&mut self) -> Block {
        let Block { mut all, .. } = self.spare.pop().unwrap_or_default();
        all.clear();
        Block {
            all,
            ..Block::default()
        }
    }
}

impl Block {
    #[inline(always)]
    fn positions(&self) -> &[Position] {
        &self.all[self.gap..]
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.all.len() - self.gap
    }

    /// Closes the gap.
    fn close(&mut self) {
        self.all.drain(..core::mem::take(&mut self.gap));
    }

    #[inline(always)]
    fn push(&mut self, position: Position, is_looked_into: bool) {
        if self.all.len() == self.all.capacity() {
            self.close();
        }
        let is_last = self.positions().last().is_none_or(|last| *last < position);
        if self.is_unsorted || is_last {
            self.all.push(position);
        } else if is_looked_into {
            let at = self.positions().partition_point(|other| *other < position);
            self.all.insert(self.gap + at, position);
        } else {
            self.all.push(position);
            self.is_unsorted = true;
        }
    }

    #[inline(always)]
    fn sort(&mut self) {
        if core::mem::take(&mut self.is_unsorted) {
            self.all[self.gap..].sort_unstable();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Clone, Copy, Debug)]
    enum Op {
        Push(u8),
        Leave(u8),
        First,
        Last,
        Clear,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            200 => any::<u8>().prop_map(Op::Push),
            150 => any::<u8>().prop_map(Op::Leave),
            50 => Just(Op::First),
            50 => Just(Op::Last),
            1 => Just(Op::Clear),
        ]
    }

    #[test]
    fn those_behind_the_first_are_known_once_it_was_asked_for() {
        let mut order = Order::<8>::default();
        for slot in [3, 1, 4, 0, 2] {
            let (major, minor) = (u128::from(slot) * 10, slot.into());
            order.push(Position::new(major, minor, slot));
        }
        assert_eq!(order.first(|_| true), Some(0));
        let soon: Vec<_> = (0..6).map(|after| order.soon(after)).collect();
        assert_eq!(soon, [Some(0), Some(1), Some(2), Some(3), Some(4), None]);
    }

    proptest! {
        #[test]
        fn the_ends_are_those_of_a_set_and_memory_is_what_was_reserved(
            ops in proptest::collection::vec(op(), 1..2000),
        ) {
            const SLOTS: usize = 100;
            let (mut order, mut set) = (Order::<4>::default(), BTreeSet::new());
            order.reserve(SLOTS);
            let blocks = order.spare.len();
            let mut minor = 0;
            for op in ops {
                match op {
                    Op::Push(major) if set.len() < SLOTS => {
                        minor += 1;
                        let major = u128::from(major);
                        let position = Position::new(major, minor, minor as Slot);
                        set.insert((major, minor));
                        order.push(position);
                    }
                    Op::Leave(n) if !set.is_empty() => {
                        let left = *set.iter().nth(usize::from(n) % set.len()).expect("one of them");
                        set.remove(&left);
                        order.leave(|position| set.contains(&(position.major(), position.minor)));
                    }
                    Op::First => prop_assert_eq!(
                        order.first(|position| set.contains(&(position.major(), position.minor))),
                        set.first().map(|position| position.1 as Slot)
                    ),
                    Op::Last => prop_assert_eq!(
                        order.last(|position| set.contains(&(position.major(), position.minor))),
                        set.last().map(|position| position.1 as Slot)
                    ),
                    Op::Clear => {
                        set.clear();
                        order.clear();
                    }
                    _ => {}
                }
                prop_assert_eq!(order.blocks.len() + order.spare.len(), blocks);
                prop_assert!(order.spare.iter().chain(&order.blocks).all(|block| block.all.capacity() == 8));
            }
        }
    }
}
