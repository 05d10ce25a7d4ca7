// SPDX-License-Identifier: MIT OR Apache-2.0
//! A list of dense indices, each in it once at most, that any of them can leave.

use super::order::NIL;
use alloc::vec;
use alloc::vec::Vec;

/// A value of `prev`: not in the list.
const OUT: u32 = NIL - 1;

/// Doubly linked; 8 bytes for each index, allocated when made.
#[derive(Clone, Debug)]
pub struct Ring {
    links: Vec<[u32; 2]>,
    head: u32,
    tail: u32,
}

impl Ring {
    /// For indices below `n`, none in it.
    pub fn new(n: u32) -> Self {
        Self {
            links: vec![[OUT, NIL]; n as usize],
            head: NIL,
            tail: NIL,
        }
    }

    pub fn contains(&self, i: u32) -> bool {
        self.links[i as usize][0] != OUT
    }

    pub fn head(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    /// Adds `i`, which is not in the list, at its end.
    pub fn push(&mut self, i: u32) {
        let last = self.tail;
        self.links[i as usize] = [last, NIL];
        match last {
            NIL => self.head = i,
            last => self.links[last as usize][1] = i,
        }
        self.tail = i;
    }

    /// Takes out `i`, which is in the list.
    pub fn remove(&mut self, i: u32) {
        let [prev, next] = self.links[i as usize];
        match prev {
            NIL => self.head = next,
            prev => self.links[prev as usize][1] = next,
        }
        match next {
            NIL => self.tail = prev,
            next => self.links[next as usize][0] = prev,
        }
        self.links[i as usize][0] = OUT;
    }

    /// Moves the head to the end.
    pub fn rotate(&mut self) {
        if self.head != self.tail {
            let head = self.head;
            self.remove(head);
            self.push(head);
        }
    }
}
