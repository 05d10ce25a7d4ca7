// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round robin lists that share one array of links.

use super::order::NIL;
use alloc::vec;
use alloc::vec::Vec;

/// Links of indices that are each in one list at most. A list is a ring held by its tail, 4 bytes; so is a link.
#[derive(Clone, Debug)]
pub(super) struct Turns(Vec<u32>);

/// A list over [`Turns`]: its tail, whose link is the head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn(u32);

impl Turn {
    pub const EMPTY: Self = Self(NIL);
}

impl Turns {
    /// For indices below `n`.
    pub fn new(n: u32) -> Self {
        Self(vec![NIL; n as usize])
    }

    pub fn head(&self, list: Turn) -> Option<u32> {
        (list.0 != NIL).then(|| self.0[list.0 as usize])
    }

    /// Puts `i`, which is in no list, first.
    pub fn push_front(&mut self, list: &mut Turn, i: u32) {
        if list.0 == NIL {
            list.0 = i;
            self.0[i as usize] = i;
        } else {
            self.0[i as usize] = core::mem::replace(&mut self.0[list.0 as usize], i);
        }
    }

    /// Takes the head out.
    pub fn pop(&mut self, list: &mut Turn) {
        let head = self.0[list.0 as usize];
        if head == list.0 {
            *list = Turn::EMPTY;
        } else {
            self.0[list.0 as usize] = self.0[head as usize];
        }
    }

    /// Moves the head to the end.
    pub fn rotate(&self, list: &mut Turn) {
        list.0 = self.0[list.0 as usize];
    }
}
