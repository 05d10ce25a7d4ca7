// SPDX-License-Identifier: MIT OR Apache-2.0
//! A set of integers below 2^18 with its least and greatest member in three find-first-set steps.
//!
//! Source: the hierarchical find-first-set bitmap of A. Saeed et al., "Eiffel: Efficient and Flexible
//! Software Packet Scheduling", NSDI 2019, section 3.1.1.

use alloc::vec;
use alloc::vec::Vec;

/// Three levels of 64: a bit above says that the word below is not zero.
#[derive(Clone, Debug)]
pub struct Bitmap {
    bits: Vec<u64>,
    words: [u64; 64],
    top: u64,
}

impl Bitmap {
    pub const MOST: usize = 64 * 64 * 64;

    /// For members below `n`, at most [`Bitmap::MOST`].
    pub fn new(n: usize) -> Self {
        assert!(n <= Self::MOST, "{n} is above the bitmap's 2^18");
        Self {
            bits: vec![0; n.div_ceil(64)],
            words: [0; 64],
            top: 0,
        }
    }

    #[inline]
    pub fn insert(&mut self, i: usize) {
        self.bits[i >> 6] |= 1 << (i & 63);
        self.words[i >> 12] |= 1 << (i >> 6 & 63);
        self.top |= 1 << (i >> 12);
    }

    /// Removes `i` if `gone`, without a branch: whether a list runs empty is hard to predict.
    #[inline]
    pub fn remove_if(&mut self, i: usize, gone: bool) {
        let bits = self.bits[i >> 6] & !(u64::from(gone) << (i & 63));
        self.bits[i >> 6] = bits;
        let words = self.words[i >> 12] & !(u64::from(bits == 0) << (i >> 6 & 63));
        self.words[i >> 12] = words;
        self.top &= !(u64::from(words == 0) << (i >> 12));
    }

    #[inline]
    pub fn first(&self) -> Option<usize> {
        if self.top == 0 {
            return None;
        }
        let a = self.top.trailing_zeros() as usize;
        let b = a << 6 | self.words[a].trailing_zeros() as usize;
        Some(b << 6 | self.bits[b].trailing_zeros() as usize)
    }

    #[inline]
    pub fn last(&self) -> Option<usize> {
        let a = self.top.checked_ilog2()? as usize;
        let b = a << 6 | self.words[a].ilog2() as usize;
        Some(b << 6 | self.bits[b].ilog2() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn first_and_last_are_those_of_a_set(
            ops in proptest::collection::vec((0..Bitmap::MOST, any::<bool>()), 1..100),
        ) {
            let (mut bitmap, mut set) = (Bitmap::new(Bitmap::MOST), BTreeSet::new());
            for (i, add) in ops {
                // Few values, so that some are removed again.
                let i = i / 4099 * 4099;
                if add {
                    bitmap.insert(i);
                    set.insert(i);
                } else {
                    bitmap.remove_if(i, false);
                    prop_assert_eq!(bitmap.first(), set.first().copied());
                    bitmap.remove_if(i, true);
                    set.remove(&i);
                }
                prop_assert_eq!(bitmap.first(), set.first().copied());
                prop_assert_eq!(bitmap.last(), set.last().copied());
            }
        }
    }
}
