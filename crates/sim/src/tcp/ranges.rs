// SPDX-License-Identifier: MIT OR Apache-2.0
//! A set of byte ranges in order: what has arrived beyond a gap.

use std::collections::VecDeque;

/// Ranges `start..end` in ascending order, none touching another. There is a most; a further one is
/// refused, which TCP survives. Memory is for a few and grows to that: of many connections few lose much.
#[derive(Clone, Debug)]
pub struct Ranges {
    list: VecDeque<(u64, u64)>,
    most: usize,
}

impl Ranges {
    pub fn new(most: usize) -> Self {
        Self {
            list: VecDeque::with_capacity(most.min(8)),
            most,
        }
    }

    /// Becomes equal to `other`, in the memory that it has.
    pub fn copy(&mut self, other: &Self) {
        self.list.clone_from(&other.list);
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn first(&self) -> Option<(u64, u64)> {
        self.list.front().copied()
    }

    pub fn last(&self) -> Option<(u64, u64)> {
        self.list.back().copied()
    }

    /// From the highest range downward.
    pub fn descending(&self) -> impl Iterator<Item = (u64, u64)> {
        self.list.iter().rev().copied()
    }

    /// Adds `start..end`. Returns the range it is part of now, and the bytes that were not there
    /// before; nothing if there is no room.
    pub fn insert(&mut self, start: u64, end: u64) -> Option<((u64, u64), u64)> {
        // The ranges `from..to` overlap or touch the new one.
        let from = self.list.partition_point(|r| r.1 < start);
        let mut to = from;
        let mut known = 0;
        let mut merged = (start, end);
        while let Some(&(s, e)) = self.list.get(to).filter(|r| r.0 <= end) {
            merged = (merged.0.min(s), merged.1.max(e));
            known += e - s;
            to += 1;
        }
        let added = merged.1 - merged.0 - known;
        if from == to {
            if self.list.len() == self.most {
                return None;
            }
            self.list.insert(from, merged);
        } else {
            self.list[from] = merged;
            if to > from + 1 {
                self.list.drain(from + 1..to);
            }
        }
        Some((merged, added))
    }

    /// Takes away everything before `at`; returns how many bytes that were.
    pub fn remove_below(&mut self, at: u64) -> u64 {
        let mut removed = 0;
        while let Some((start, end)) = self.list.front_mut() {
            if *end > at {
                if *start < at {
                    removed += at - *start;
                    *start = at;
                }
                break;
            }
            removed += *end - *start;
            self.list.pop_front();
        }
        removed
    }

    /// Takes away `start..end`, all of which is in the set, and which may leave one range too many.
    pub fn remove(&mut self, start: u64, end: u64) {
        let at = self.list.partition_point(|r| r.1 <= start);
        let Some(&(s, e)) = self.list.get(at) else {
            return;
        };
        match (s < start, end < e) {
            (true, true) => {
                self.list[at].1 = start;
                self.list.insert(at + 1, (end, e));
            }
            (true, false) => self.list[at].1 = start,
            (false, true) => self.list[at].0 = end,
            (false, false) => drop(self.list.remove(at)),
        }
    }

    /// Bytes of `start..end` that are in the set.
    pub fn covered(&self, start: u64, end: u64) -> u64 {
        let from = self.list.partition_point(|r| r.1 <= start);
        let inside = self.list.range(from..).take_while(|r| r.0 < end);
        inside.map(|r| r.1.min(end) - r.0.max(start)).sum()
    }

    /// The first gap at or after `at`, or what is missing from there to `end`; empty if nothing is.
    pub fn missing(&self, at: u64, end: u64) -> (u64, u64) {
        let (start, stop) = self.gap(at).unwrap_or_else(|| {
            let top = self.last().map_or(at, |r| r.1);
            (at.max(top), end)
        });
        (start, stop.min(end).max(start))
    }

    /// The first gap at or after `at` that a range follows.
    pub fn gap(&self, at: u64) -> Option<(u64, u64)> {
        let next = self.list.partition_point(|r| r.1 <= at);
        let &(start, end) = self.list.get(next)?;
        if at < start {
            return Some((at, start));
        }
        let &(after, _) = self.list.get(next + 1)?;
        Some((end, after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_the_bytes_put_in(
            ops in proptest::collection::vec((0u64..60, 1u64..12, 0u8..3), 1..60)
        ) {
            let mut ranges = Ranges::new(40);
            let mut bytes = [false; 80];
            let mut floor = 0;
            for (start, len, cut) in ops {
                let (start, end) = (start.max(floor), (start + len).max(floor + 1));
                if cut == 0 {
                    floor = floor.max(start.min(floor + 5));
                    let gone = bytes[..floor as usize].iter().filter(|b| **b).count() as u64;
                    bytes[..floor as usize].fill(false);
                    prop_assert_eq!(ranges.remove_below(floor), gone);
                } else if cut == 1 && bytes[start as usize..end as usize].iter().all(|b| *b) {
                    bytes[start as usize..end as usize].fill(false);
                    ranges.remove(start, end);
                } else {
                    let before = bytes.iter().filter(|b| **b).count() as u64;
                    bytes[start as usize..end as usize].fill(true);
                    let after = bytes.iter().filter(|b| **b).count() as u64;
                    let ((s, e), added) = ranges.insert(start, end).unwrap();
                    prop_assert_eq!(added, after - before);
                    prop_assert!(s <= start && end <= e);
                }
                let list: Vec<_> = ranges.descending().collect();
                prop_assert!(list.windows(2).all(|w| w[1].1 < w[0].0));
                for at in 0..80u64 {
                    let held = list.iter().any(|r| r.0 <= at && at < r.1);
                    prop_assert_eq!(held, bytes[at as usize]);
                    let covered = bytes[at as usize..].iter().filter(|b| **b).count() as u64;
                    prop_assert_eq!(ranges.covered(at, 80), covered);
                    let gap = (at..80).find(|&n| !bytes[n as usize]).and_then(|s| {
                        let e = (s..80).find(|&n| bytes[n as usize])?;
                        Some((s, e))
                    });
                    prop_assert_eq!(ranges.gap(at), gap);
                }
            }
        }
    }

    #[test]
    fn a_full_set_refuses_what_it_would_have_to_keep_apart() {
        let mut ranges = Ranges::new(2);
        assert!(ranges.insert(10, 20).is_some());
        assert!(ranges.insert(30, 40).is_some());
        assert_eq!(ranges.insert(50, 60), None);
        assert_eq!(ranges.insert(20, 30), Some(((10, 40), 10)));
    }
}
