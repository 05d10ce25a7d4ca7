// SPDX-License-Identifier: MIT OR Apache-2.0
//! The agenda: at most one pending event for each source of events.
//!
//! A simulator of many packets has few things that can happen next: a link's transmitter or its far
//! end, a flow's timer. Each is a *source* with one moment or none, so the agenda is as long as the
//! network is large, however many packets are under way. A tree of matches keeps them, in which the
//! earlier of two goes on to the next round (D. E. Knuth, "The Art of Computer Programming" 3, section
//! 5.4.1): a new moment is played up to the root, without a branch that could be mistaken, and
//! nothing is allocated after it is made.
//!
//! There are two trees. The ports are few and have almost all of the events; the flows may be many,
//! and their timers seldom move. So what a packet costs does not depend on the number of flows.
//!
//! Simultaneous events happen in the order in which they were put down, so a run is the same
//! everywhere.

use makeway_core::units::Instant;

/// The time in ns above, the number of the writing below: one comparison, and no two are equal.
type Key = u128;

/// No moment.
const IDLE: Key = Key::MAX;

/// An agenda of numbered sources.
#[derive(Clone, Debug)]
pub struct Agenda {
    /// Sources from 0 on, of which most events come.
    near: Tree,
    /// All others.
    far: Tree,
    /// Moments put down so far.
    written: u64,
}

impl Agenda {
    /// For sources below `near + far`, all of them idle; those below `near` are the busy ones.
    pub fn new(near: usize, far: usize) -> Self {
        Self {
            near: Tree::new(near),
            far: Tree::new(far),
            written: 0,
        }
    }

    /// `source` is due at `at`, replacing its earlier time.
    #[inline]
    pub fn set(&mut self, source: u32, at: Instant) {
        self.written += 1;
        self.put(
            source,
            u128::from(at.as_nanos()) << 64 | u128::from(self.written),
        );
    }

    /// `source` is due at `at`, or at nothing.
    #[inline(always)]
    pub fn set_or_clear(&mut self, source: u32, at: Option<Instant>) {
        match at {
            Some(at) => self.set(source, at),
            None => self.clear(source),
        }
    }

    /// `source` is idle.
    #[inline]
    pub fn clear(&mut self, source: u32) {
        if self.due(source).is_some() {
            self.put(source, IDLE);
        }
    }

    /// When `source` is due.
    #[inline]
    pub fn due(&self, source: u32) -> Option<Instant> {
        let key = match self.far_index(source) {
            None => self.near.keys[source as usize],
            Some(index) => self.far.keys[index],
        };
        (key != IDLE).then(|| time(key))
    }

    /// The next event, if it is before `end`. Its source stays due until it is set anew or cleared.
    #[inline]
    pub fn next_before(&self, end: Instant) -> Option<(Instant, u32)> {
        let (near, far) = (self.near.first, self.far.first);
        let (key, source) = match near.0 < far.0 {
            true => near,
            false => (far.0, far.1 + self.near.keys.len() as u32),
        };
        // Idle is later than any end.
        let due = time(key);
        (due < end).then_some((due, source))
    }

    #[inline]
    fn put(&mut self, source: u32, key: Key) {
        match self.far_index(source) {
            None => self.near.put(source as usize, key),
            Some(index) => self.far.put(index, key),
        }
    }

    #[inline]
    fn far_index(&self, source: u32) -> Option<usize> {
        (source as usize).checked_sub(self.near.keys.len())
    }
}

#[inline(always)]
fn time(key: Key) -> Instant {
    Instant::from_nanos((key >> 64) as u64)
}

/// The earliest of a number of keys.
#[derive(Clone, Debug)]
struct Tree {
    /// The key of each source.
    keys: Vec<Key>,
    /// The source that won each match: the last is at node 1, those before node `n` are at `2n` and
    /// `2n + 1`, and the second half are the sources themselves.
    winners: Vec<u32>,
    /// Winner of the last match, with its key.
    first: (Key, u32),
}

impl Tree {
    fn new(sources: usize) -> Self {
        let mut winners = vec![0; 2 * sources];
        for node in (1..2 * sources).rev() {
            // All are idle, so either of two may win.
            winners[node] = match node.checked_sub(sources) {
                Some(source) => source as u32,
                None => winners[2 * node],
            };
        }
        Self {
            keys: vec![IDLE; sources],
            winners,
            first: (IDLE, 0),
        }
    }

    fn put(&mut self, source: usize, key: Key) {
        self.keys[source] = key;
        let mut node = self.keys.len() + source;
        let source = source as u32;
        let mut winner = (key, source);
        while node > 1 {
            let other = self.winners[node ^ 1];
            let other = (self.keys[other as usize], other);
            // Without a branch: it cannot be predicted.
            let less = other.0 < winner.0;
            winner.0 = if less { other.0 } else { winner.0 };
            winner.1 = if less { other.1 } else { winner.1 };
            node /= 2;
            let before = std::mem::replace(&mut self.winners[node], winner.1);
            if winner.1 != source && before != source {
                return;
            }
        }
        self.first = winner;
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
        let mut agenda = Agenda::new(2, 2);
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
            let mut agenda = Agenda::new(7, 13);
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
