// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exact table of flows: every key has its own dense index, and no two share one.
//!
//! Open addressing with linear probing at half load at most, removal by shifting back (Knuth, TAOCP
//! vol. 3, 6.4, algorithm R): no tombstones, so no rehash ever stalls a packet. Keys are hashed by
//! SipHash-1-3 (Aumasson, Bernstein 2012) under a seed, so that nobody who does not know it can
//! choose keys that collide. Cost per packet: one hash and two cache lines on average.

use crate::packet::FlowId;
use crate::units::Instant;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use siphasher::sip::SipHasher13;

const NIL: u32 = u32::MAX;

/// A map from keys to dense ids below its capacity, allocated once.
///
/// An entry is *held* while its owner has packets of it, *idle* otherwise. A new key takes a fresh
/// id while there are any, then that of the entry idle for longest, of those that are not *kept* if there
/// is one. With a capacity above the most packets that can be held, there is always one.
///
/// At most half of the capacity is kept, so that keys that come once do not take the ids of those worth
/// keeping, and nor do those take all ids.
///
/// ```
/// use makeway_core::flow::FlowTable;
///
/// let mut flows: FlowTable<&str> = FlowTable::new(2, 1);
/// let call = flows.hold(&"call").expect("two ids are free");
/// let download = flows.hold(&"download").expect("one id is free");
/// assert!(call.is_new && call.id != download.id);
/// // Both are held: a third key has no id until the packets of one have departed.
/// assert!(flows.hold(&"page").is_none());
/// flows.release(call.id);
/// assert_eq!(flows.hold(&"page").map(|page| page.id), Some(call.id));
/// ```
#[derive(Clone, Debug)]
pub struct FlowTable<K, I = FlowId> {
    entries: Vec<Entry<K>>,
    /// Index of an entry in `entries` and a part of its hash, at its home or behind it.
    slots: Vec<Slot>,
    capacity: u32,
    seed: u64,
    /// Idle entries from the one idle for longest to the newest: those not kept, and those kept.
    idle: [Ends; 2],
    /// Number of idle entries that are kept.
    kept: u32,
    id: PhantomData<I>,
}

#[derive(Clone, Debug)]
struct Entry<K> {
    key: K,
    hash: u32,
    holds: u32,
    /// Which list it is in while it is idle.
    is_kept: bool,
    /// End of the time for which it is kept.
    until: Instant,
    prev: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    entry: u32,
    hash: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
}

/// Result of [`FlowTable::hold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held<I> {
    /// The id of the key.
    pub id: I,
    /// Whether the key is new: the id was never used, or was another key's until now.
    pub is_new: bool,
}

impl<K: Copy + Eq + Hash, I: From<u32> + Into<u32>> FlowTable<K, I> {
    /// Room for `capacity` keys. `seed` is to be secret and random where keys come from strangers.
    ///
    /// # Panics
    /// If `capacity` is zero or above 2^30.
    pub fn new(capacity: u32, seed: u64) -> Self {
        assert!(
            (1..=1 << 30).contains(&capacity),
            "capacity {capacity} of a flow table is outside 1 to 2^30"
        );
        let empty = Slot {
            entry: NIL,
            hash: 0,
        };
        Self {
            entries: Vec::with_capacity(capacity as usize),
            slots: vec![empty; (capacity as usize * 2).next_power_of_two()],
            capacity,
            seed,
            idle: [Ends {
                head: NIL,
                tail: NIL,
            }; 2],
            kept: 0,
            id: PhantomData,
        }
    }

    /// The most keys it can have.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Keys that have an id now, held or idle.
    pub fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Whether no key was seen yet.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Finds or makes the id of `key` and holds it once more, for one packet.
    ///
    /// `None` only if the key is new and every entry is held.
    pub fn hold(&mut self, key: &K) -> Option<Held<I>> {
        self.hold_at(Instant::ZERO, key)
    }

    /// As [`hold`](Self::hold), at `now`: an entry that was kept until an earlier time is the first to be forgotten.
    pub fn hold_at(&mut self, now: Instant, key: &K) -> Option<Held<I>> {
        let hash = self.hash(key);
        let (entry, is_new) = match self.find(key, hash) {
            Some(entry) => (entry, false),
            None => (self.insert(now, *key, hash)?, true),
        };
        if !is_new && self.entries[entry as usize].holds == 0 {
            self.unlink(entry);
        }
        self.entries[entry as usize].holds += 1;
        Some(Held {
            id: entry.into(),
            is_new,
        })
    }

    /// Gives one hold of `id` back, as its packet departs or is dropped; whether it is idle now, and not kept.
    ///
    /// # Panics
    /// If `id` is not held.
    pub fn release(&mut self, id: I) -> bool {
        let entry = id.into();
        let e = &mut self.entries[entry as usize];
        assert!(e.holds > 0, "flow {entry} is released more often than held");
        e.holds -= 1;
        let is_idle = e.holds == 0;
        if is_idle {
            self.link(entry, false);
        }
        is_idle
    }

    /// Keeps idle `id` until it is held again, or until the time `until`. If that is more than half of the capacity, the one idle for longest of those
    /// kept becomes the newest of the others.
    ///
    /// # Panics
    /// If `id` is held.
    pub fn keep(&mut self, id: I, until: Instant) {
        let entry = id.into();
        assert!(
            self.entries[entry as usize].holds == 0,
            "flow {entry} is kept while it is held"
        );
        self.unlink(entry);
        self.link(entry, true);
        self.entries[entry as usize].until = until;
        if self.kept > self.capacity / 2 {
            let oldest = self.idle[1].head;
            self.unlink(oldest);
            self.link(oldest, false);
        }
    }

    /// The id of `key`, if it has one; its age does not change.
    pub fn find_id(&self, key: &K) -> Option<I> {
        self.find(key, self.hash(key)).map(I::from)
    }

    /// The key that has `id` now.
    pub fn key(&self, id: I) -> Option<&K> {
        self.entries.get(id.into() as usize).map(|e| &e.key)
    }

    /// Every id with its key, in the order of ids.
    pub fn iter(&self) -> impl Iterator<Item = (I, &K)> + '_ {
        (0..).zip(&self.entries).map(|(i, e)| (I::from(i), &e.key))
    }

    fn hash(&self, key: &K) -> u32 {
        let mut hasher = SipHasher13::new_with_keys(self.seed, !self.seed);
        key.hash(&mut hasher);
        hasher.finish() as u32
    }

    fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    fn find(&self, key: &K, hash: u32) -> Option<u32> {
        let mut at = hash as usize & self.mask();
        loop {
            let slot = self.slots[at];
            if slot.entry == NIL {
                return None;
            }
            if slot.hash == hash && self.entries[slot.entry as usize].key == *key {
                return Some(slot.entry);
            }
            at = (at + 1) & self.mask();
        }
    }

    /// An entry for a key that has none: not in the idle list, not held.
    fn insert(&mut self, now: Instant, key: K, hash: u32) -> Option<u32> {
        let fresh = Entry {
            key,
            hash,
            holds: 0,
            is_kept: false,
            until: Instant::ZERO,
            prev: NIL,
            next: NIL,
        };
        let entry = if self.len() < self.capacity {
            self.entries.push(fresh);
            self.len() - 1
        } else {
            let [other, kept] = self.idle.map(|ends| ends.head);
            let is_over = |entry: u32| self.entries[entry as usize].until < now;
            let oldest = match kept != NIL && (other == NIL || is_over(kept)) {
                true => kept,
                false => other,
            };
            if oldest == NIL {
                return None;
            }
            self.unlink(oldest);
            self.remove(oldest);
            self.entries[oldest as usize] = fresh;
            oldest
        };
        let mut at = hash as usize & self.mask();
        while self.slots[at].entry != NIL {
            at = (at + 1) & self.mask();
        }
        self.slots[at] = Slot { entry, hash };
        Some(entry)
    }

    fn remove(&mut self, entry: u32) {
        let mask = self.mask();
        let mut hole = self.entries[entry as usize].hash as usize & mask;
        while self.slots[hole].entry != entry {
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.entry == NIL {
                break;
            }
            // A slot may move back into the hole unless its home lies behind the hole.
            let home = slot.hash as usize & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole].entry = NIL;
    }

    fn link(&mut self, entry: u32, is_kept: bool) {
        self.kept += u32::from(is_kept);
        let ends = &mut self.idle[usize::from(is_kept)];
        let tail = core::mem::replace(&mut ends.tail, entry);
        match tail {
            NIL => ends.head = entry,
            tail => self.entries[tail as usize].next = entry,
        }
        let entry = &mut self.entries[entry as usize];
        (entry.is_kept, entry.prev, entry.next) = (is_kept, tail, NIL);
    }

    fn unlink(&mut self, entry: u32) {
        let Entry {
            is_kept,
            prev,
            next,
            ..
        } = self.entries[entry as usize];
        self.kept -= u32::from(is_kept);
        let ends = &mut self.idle[usize::from(is_kept)];
        match prev {
            NIL => ends.head = next,
            prev => self.entries[prev as usize].next = next,
        }
        match next {
            NIL => ends.tail = prev,
            next => self.entries[next as usize].prev = prev,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(held: Option<Held<FlowId>>) -> u32 {
        held.unwrap().id.0
    }

    #[test]
    fn ids_are_dense_and_stay() {
        let mut table = FlowTable::<u64>::new(8, 1);
        assert_eq!(id(table.hold(&70)), 0);
        assert_eq!(id(table.hold(&71)), 1);
        assert_eq!(id(table.hold(&70)), 0);
        assert_eq!(table.key(FlowId(1)), Some(&71));
        assert_eq!(table.find_id(&72), None);
    }

    #[test]
    fn the_entry_idle_for_longest_gives_its_id_up() {
        let mut table = FlowTable::<u64>::new(2, 1);
        let a = table.hold(&1).unwrap().id;
        let b = table.hold(&2).unwrap().id;
        table.release(b);
        table.release(a);
        // Key 2 became idle first, so it goes first.
        let c = table.hold(&3).unwrap();
        assert_eq!((c.id, c.is_new), (b, true));
        assert_eq!(table.find_id(&2), None);
        assert_eq!(table.find_id(&1), Some(a));
    }

    #[test]
    fn a_held_entry_is_never_taken() {
        let mut table = FlowTable::<u64>::new(2, 1);
        table.hold(&1);
        table.hold(&2);
        assert_eq!(table.hold(&3), None);
        table.hold(&1);
        table.release(FlowId(0));
        assert_eq!(table.hold(&3), None);
    }

    const LATER: Instant = Instant::from_nanos(1);

    #[test]
    fn a_kept_entry_is_taken_before_all_others_when_its_time_is_over() {
        let mut table = FlowTable::<u64>::new(4, 1);
        let ids = [1, 2, 3, 4].map(|key| table.hold(&key).unwrap().id);
        for id in ids {
            table.release(id);
        }
        table.keep(ids[2], LATER);
        let at = |nanos| Instant::from_nanos(nanos);
        assert_eq!(table.hold_at(at(1), &5).unwrap().id, ids[0]);
        assert_eq!(table.hold_at(at(2), &6).unwrap().id, ids[2]);
        assert_eq!(table.hold_at(at(2), &7).unwrap().id, ids[1]);
    }

    #[test]
    fn a_kept_entry_is_taken_after_all_others() {
        let mut table = FlowTable::<u64>::new(4, 1);
        let ids = [1, 2, 3, 4].map(|key| table.hold(&key).unwrap().id);
        for id in ids {
            assert!(table.release(id));
        }
        table.keep(ids[0], LATER);
        table.keep(ids[1], LATER);
        // Keys 3 and 4, and then those that came in their place.
        for key in 5..9 {
            let id = table.hold(&key).unwrap().id;
            assert!([ids[2], ids[3]].contains(&id));
            table.release(id);
        }
        // Half are kept: the third makes the first one as the others.
        table.hold(&8);
        table.release(ids[3]);
        table.keep(ids[3], LATER);
        assert_eq!(table.hold(&9).unwrap().id, ids[2]);
        assert_eq!(table.hold(&10).unwrap().id, ids[0]);
        // None but those kept is idle.
        assert_eq!(table.hold(&11).unwrap().id, ids[1]);
    }

    proptest! {
        /// Against lists of keys in the order of their last use.
        #[test]
        fn it_agrees_with_a_naive_table(
            capacity in 1u32..6,
            seed: u64,
            ops in proptest::collection::vec((0u64..12, 0u32..4), 0..200),
        ) {
            let mut table = FlowTable::<u64>::new(capacity, seed);
            let mut ids: Vec<u64> = Vec::new();
            let mut idle: Vec<u32> = Vec::new();
            let mut kept: Vec<(u32, Instant)> = Vec::new();
            let mut holds = vec![0u32; capacity as usize];
            for (now, (key, op)) in ops.into_iter().enumerate() {
                let now = now as u64;
                let known = ids.iter().position(|k| *k == key).map(|i| i as u32);
                if op < 2 {
                    if let Some(i) = known.filter(|i| holds[*i as usize] > 0) {
                        holds[i as usize] -= 1;
                        let is_idle = holds[i as usize] == 0;
                        prop_assert_eq!(table.release(FlowId(i)), is_idle);
                        if is_idle && op == 0 {
                            idle.push(i);
                        } else if is_idle {
                            let until = Instant::from_nanos(now + 5 * key);
                            table.keep(FlowId(i), until);
                            kept.push((i, until));
                        }
                        if kept.len() > capacity as usize / 2 {
                            idle.push(kept.remove(0).0);
                        }
                    }
                    continue;
                }
                let now = Instant::from_nanos(now);
                let expected = known.or_else(|| {
                    if ids.len() < capacity as usize {
                        ids.push(key);
                        return Some(ids.len() as u32 - 1);
                    }
                    let over = kept.first().filter(|(_, until)| *until < now);
                    let oldest = over.map(|(i, _)| *i).or(idle.first().copied());
                    let oldest = oldest.or(kept.first().map(|(i, _)| *i))?;
                    ids[oldest as usize] = key;
                    Some(oldest)
                });
                let got = table.hold_at(now, &key);
                prop_assert_eq!(got.map(|h| h.id.0), expected);
                if let Some(i) = expected {
                    prop_assert_eq!(got.map(|h| h.is_new), Some(known.is_none()));
                    idle.retain(|j| *j != i);
                    kept.retain(|(j, _)| *j != i);
                    holds[i as usize] += 1;
                }
                let listed: Vec<u64> = table.iter().map(|(_, k)| *k).collect();
                prop_assert_eq!(&listed, &ids);
                for (i, k) in ids.iter().enumerate() {
                    prop_assert_eq!(table.find_id(k), Some(FlowId(i as u32)));
                }
            }
        }
    }
}
