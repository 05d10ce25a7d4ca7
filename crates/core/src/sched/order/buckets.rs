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
//! Cost: a change of backlog writes the flow's neighbours in the old and the new list and reads
//! neither, so a cache miss there does not stall; a look-up reads three words of the bitmap and one
//! bucket. Memory: 8 bytes for each byte of the window (2 MiB at most), nothing for each flow.

use super::bitmap::Bitmap;
use super::tree::Treap;
use super::{Key, NIL, Order, Queue};

/// Exact shortest and longest in constant time.
#[derive(Clone, Debug)]
pub struct Buckets {
    lists: Vec<List>,
    occupied: Bitmap,
    /// Backlogs of the window and above.
    beyond: Treap,
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

impl Buckets {
    fn link(&mut self, queues: &mut [Queue], flow: u32) {
        let bytes = queues[flow as usize].key.bytes as usize;
        let Some(list) = self.lists.get_mut(bytes) else {
            return self.beyond.insert(queues, flow);
        };
        let last = list.tail;
        list.tail = flow;
        queues[flow as usize].links = [last, NIL];
        if last == NIL {
            list.head = flow;
            self.occupied.insert(bytes);
        } else {
            queues[last as usize].links[1] = flow;
        }
    }

    fn unlink(&mut self, queues: &mut [Queue], flow: u32, old: Key) {
        let bytes = old.bytes as usize;
        let Some(list) = self.lists.get_mut(bytes) else {
            return self.beyond.remove(queues, flow, old);
        };
        let [prev, next] = queues[flow as usize].links;
        if prev == NIL {
            list.head = next;
        } else {
            queues[prev as usize].links[1] = next;
        }
        if next == NIL {
            list.tail = prev;
        } else {
            queues[next as usize].links[0] = prev;
        }
        if prev == NIL && next == NIL {
            self.occupied.remove(bytes);
        }
    }
}

impl Order for Buckets {
    fn new(_flows: u32, bytes: u32) -> Self {
        let window = (bytes as usize + 1).next_power_of_two().min(Bitmap::MOST);
        let empty = List {
            head: NIL,
            tail: NIL,
        };
        Self {
            lists: vec![empty; window],
            occupied: Bitmap::new(window),
            beyond: Treap::EMPTY,
        }
    }

    #[inline]
    fn update(&mut self, queues: &mut [Queue], flow: u32, old: Key) {
        if old.bytes > 0 {
            self.unlink(queues, flow, old);
        }
        if queues[flow as usize].key.bytes > 0 {
            self.link(queues, flow);
        }
    }

    #[inline]
    fn shortest(&self, queues: &[Queue]) -> Option<u32> {
        match self.occupied.first() {
            Some(bytes) => Some(self.lists[bytes].head),
            None => self.beyond.first(queues),
        }
    }

    #[inline]
    fn longest(&self, queues: &[Queue]) -> Option<u32> {
        self.beyond
            .longest(queues)
            .or_else(|| Some(self.lists[self.occupied.last()?].head))
    }
}
