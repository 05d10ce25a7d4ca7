// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round robin lists that share one array of links.

use super::order::NIL;
use alloc::vec;
use alloc::vec::Vec;

/// Links of indices that are each in one list at most. A list is a ring held by its tail, 4 bytes; links are 8.
#[derive(Clone, Debug)]
pub(super) struct Turns(Vec<Links>);

#[derive(Clone, Copy, Debug)]
struct Links {
    prev: u32,
    next: u32,
}

/// A list over [`Turns`]: its tail, which is followed by the head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn(u32);

impl Turn {
    pub const EMPTY: Self = Self(NIL);
}

impl Turns {
    /// For indices below `n`.
    pub fn new(n: u32) -> Self {
        let none = Links {
            prev: NIL,
            next: NIL,
        };
        Self(vec![none; n as usize])
    }

    pub fn head(&self, list: Turn) -> Option<u32> {
        (list.0 != NIL).then(|| self.0[list.0 as usize].next)
    }

    /// Puts `i`, which is in no list, first.
    pub fn push_front(&mut self, list: &mut Turn, i: u32) {
        if list.0 == NIL {
            list.0 = i;
            self.0[i as usize] = Links { prev: i, next: i };
            return;
        }
        let last = list.0;
        let first = core::mem::replace(&mut self.0[last as usize].next, i);
        self.0[first as usize].prev = i;
        self.0[i as usize] = Links {
            prev: last,
            next: first,
        };
    }

    /// Takes `i`, which is in the list, out.
    pub fn remove(&mut self, list: &mut Turn, i: u32) {
        let Links { prev, next } = self.0[i as usize];
        if next == i {
            *list = Turn::EMPTY;
            return;
        }
        self.0[prev as usize].next = next;
        self.0[next as usize].prev = prev;
        if list.0 == i {
            list.0 = prev;
        }
    }

    /// Moves the head to the end.
    pub fn rotate(&self, list: &mut Turn) {
        list.0 = self.0[list.0 as usize].next;
    }
}
