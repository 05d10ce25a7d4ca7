//! What happens next: at most one moment for each source of events.
//!
//! A simulator of many packets has few things that can happen next: a link's transmitter or its far
//! end, a flow's timer. Each is a *source* with one moment or none, so the agenda is as long as the
//! network is large, however many packets are under way. An indexed heap of four children (D. B.
//! Johnson, "Priority queues with update and finding minimum spanning trees", Information Processing
//! Letters 4, 1975) keeps them; nothing is allocated after it is made.
//!
//! Simultaneous events happen in the order in which they were put down, so a run is the same
//! everywhere.

use makeway_core::units::Instant;

const ARITY: usize = 4;
/// Not in the heap.
const OUT: u32 = u32::MAX;

/// An agenda of numbered sources.
#[derive(Clone, Debug)]
pub struct Agenda {
    heap: Vec<Entry>,
    /// Where each source is in `heap`.
    place: Vec<u32>,
    /// Moments put down so far.
    written: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The time in ns above, the number of the writing below: one comparison, and no two are equal.
    key: u128,
    source: u32,
}

impl Entry {
    fn at(&self) -> Instant {
        Instant::from_nanos((self.key >> 64) as u64)
    }
}

impl Agenda {
    /// For sources below `sources`, all of them idle.
    pub fn new(sources: usize) -> Self {
        Self {
            heap: Vec::with_capacity(sources),
            place: vec![OUT; sources],
            written: 0,
        }
    }

    /// `source` is due at `at`, whatever it was before.
    #[inline]
    pub fn set(&mut self, source: u32, at: Instant) {
        self.written += 1;
        let entry = Entry {
            key: u128::from(at.as_nanos()) << 64 | u128::from(self.written),
            source,
        };
        match self.place[source as usize] {
            OUT => {
                self.heap.push(entry);
                self.rise(self.heap.len() - 1, entry);
            }
            place => {
                let place = place as usize;
                if entry.key < self.heap[place].key {
                    self.rise(place, entry);
                } else {
                    self.sink(place, entry);
                }
            }
        }
    }

    /// `source` is due at `at`, or at nothing.
    #[inline]
    pub fn set_or_clear(&mut self, source: u32, at: Option<Instant>) {
        match at {
            Some(at) => self.set(source, at),
            None => self.clear(source),
        }
    }

    /// `source` is idle.
    pub fn clear(&mut self, source: u32) {
        let place = std::mem::replace(&mut self.place[source as usize], OUT);
        if place == OUT {
            return;
        }
        let place = place as usize;
        let Some(last) = self.heap.pop() else {
            return;
        };
        if place < self.heap.len() {
            if last.key < self.heap[place].key {
                self.rise(place, last);
            } else {
                self.sink(place, last);
            }
        }
    }

    /// When `source` is due.
    #[inline]
    pub fn due(&self, source: u32) -> Option<Instant> {
        match self.place[source as usize] {
            OUT => None,
            place => Some(self.heap[place as usize].at()),
        }
    }

    /// The next event, if it is before `end`. Its source stays due until it is set anew or cleared.
    #[inline]
    pub fn next_before(&self, end: Instant) -> Option<(Instant, u32)> {
        let first = self.heap.first().filter(|first| first.at() < end)?;
        Some((first.at(), first.source))
    }

    fn rise(&mut self, mut at: usize, entry: Entry) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.heap[parent].key < entry.key {
                break;
            }
            self.put(at, self.heap[parent]);
            at = parent;
        }
        self.put(at, entry);
    }

    fn sink(&mut self, mut at: usize, entry: Entry) {
        loop {
            let children = at * ARITY + 1;
            let end = self.heap.len().min(children + ARITY);
            if children >= end {
                break;
            }
            // Without a branch: which child is the least cannot be predicted.
            let mut least = children;
            let mut key = self.heap[children].key;
            for child in children + 1..end {
                let other = self.heap[child].key;
                let less = other < key;
                least = if less { child } else { least };
                key = if less { other } else { key };
            }
            if entry.key < key {
                break;
            }
            self.put(at, self.heap[least]);
            at = least;
        }
        self.put(at, entry);
    }

    fn put(&mut self, at: usize, entry: Entry) {
        self.heap[at] = entry;
        self.place[entry.source as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn simultaneous_events_come_in_the_order_in_which_they_were_put_down() {
        let mut agenda = Agenda::new(4);
        for source in [2, 0, 3, 1] {
            agenda.set(source, at(7));
        }
        agenda.set(2, at(7));
        let mut order = Vec::new();
        while let Some((_, source)) = agenda.next_before(at(8)) {
            order.push(source);
            agenda.clear(source);
        }
        assert_eq!(order, [0, 3, 1, 2]);
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_sorted_list(
            ops in proptest::collection::vec((0u32..20, proptest::option::of(0u64..50)), 0..300),
        ) {
            let mut agenda = Agenda::new(20);
            let mut list: Vec<(u64, usize, u32)> = Vec::new();
            for (n, (source, when)) in ops.into_iter().enumerate() {
                agenda.set_or_clear(source, when.map(at));
                list.retain(|(.., s)| *s != source);
                list.extend(when.map(|when| (when, n, source)));
                let first = list.iter().min().map(|(when, _, source)| (at(*when), *source));
                prop_assert_eq!(agenda.next_before(at(50)), first);
                prop_assert_eq!(agenda.due(source), when.map(at));
            }
        }
    }
}
