// SPDX-License-Identifier: MIT OR Apache-2.0
//! The received ranges of CCID 2's receiver, beside a plain set.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

proptest! {
    /// In ranges, the latest first, all that was received, as long as there are no more than 16.
    #[test]
    fn ranges_hold_what_was_received(sequences in proptest::collection::vec(0..120u64, 0..100)) {
        let mut ranges = AckRanges::default();
        let mut all = BTreeSet::new();
        let mut full = false;
        for sequence in sequences {
            ranges.insert(sequence);
            all.insert(sequence);
            prop_assert!(ranges.is_ordered());
            prop_assert_eq!(ranges.highest(), all.last().copied());
            let held: BTreeSet<u64> = ranges.iter().flat_map(|(first, last)| first..=last).collect();
            prop_assert!(held.is_subset(&all));
            let gaps = all.iter().zip(all.iter().skip(1)).filter(|(a, b)| *a + 1 < **b).count();
            // One too many is left out for good.
            full |= gaps + 1 > AckRanges::MOST;
            if !full {
                prop_assert_eq!(held, all.clone());
            }
        }
    }
}
