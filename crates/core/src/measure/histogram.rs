// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log-linear histogram of durations.

use crate::units::Duration;
use alloc::boxed::Box;
use alloc::vec;
#[cfg(not(feature = "std"))]
use num_traits::Float as _;

/// Buckets in each power of two: `2^BITS`.
const BITS: u32 = 7;
const SUB: u64 = 1 << BITS;
/// Values from here on (2^43 ns, 2.4 hours) share the last bucket; the maximum stays exact.
const TOP: u32 = 43;
const BUCKETS: usize = ((TOP - BITS + 1) as usize) << BITS;

/// Durations, counted in buckets. Exact below 128 ns; above, a quantile is within
/// [`Histogram::RELATIVE_ERROR`] of the sample that has its rank. Mean and maximum are exact.
///
/// 37 KiB each, taken when it is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    sum: f64,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Half a bucket over its lower edge: 1/256.
    pub const RELATIVE_ERROR: f64 = 0.5 / SUB as f64;

    /// An empty histogram.
    pub fn new() -> Self {
        Self {
            buckets: vec![0; BUCKETS].into_boxed_slice(),
            count: 0,
            sum: 0.0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// Counts one sample.
    #[inline]
    pub fn record(&mut self, sample: Duration) {
        let ns = sample.as_nanos();
        self.buckets[index(ns)] += 1;
        self.count += 1;
        self.sum += ns as f64;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Adds the samples of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (a, b) in self.buckets.iter_mut().zip(&other.buckets) {
            *a += b;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets all samples and keeps the memory.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        (self.count, self.sum, self.min, self.max) = (0, 0.0, u64::MAX, 0);
    }

    /// Samples counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of the samples in nanoseconds.
    pub fn sum_ns(&self) -> f64 {
        self.sum
    }

    /// Samples below each of `bounds`, which ascend. Exact for powers of two in nanoseconds; elsewhere a sample of the bound's own
    /// bucket counts as above.
    pub fn counts_below<const N: usize>(&self, bounds: [Duration; N]) -> [u64; N] {
        let (mut at, mut seen) = (0, 0);
        bounds.map(|bound| {
            let end = index(bound.as_nanos()).max(at);
            seen += self.buckets[at..end].iter().sum::<u64>();
            at = end;
            seen
        })
    }

    /// The mean; zero without samples.
    pub fn mean(&self) -> Duration {
        if self.count == 0 {
            return Duration::ZERO;
        }
        Duration::from_nanos((self.sum / self.count as f64).round() as u64)
    }

    /// The largest sample; zero without samples.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The smallest sample; zero without samples.
    pub fn min(&self) -> Duration {
        Duration::from_nanos(if self.count == 0 { 0 } else { self.min })
    }

    /// The `q`-quantile by nearest rank, `q` from 0 to 1; zero without samples.
    pub fn quantile(&self, q: f64) -> Duration {
        if self.count == 0 {
            return Duration::ZERO;
        }
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).clamp(1, self.count);
        if rank == self.count {
            return self.max();
        }
        let mut seen = 0;
        for (i, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return Duration::from_nanos(middle(i).clamp(self.min, self.max));
            }
        }
        self.max()
    }
}

#[inline]
fn index(ns: u64) -> usize {
    if ns < SUB {
        return ns as usize;
    }
    let exponent = 63 - ns.leading_zeros();
    if exponent >= TOP {
        return BUCKETS - 1;
    }
    let shift = exponent - BITS;
    (((shift as u64 + 1) << BITS) + ((ns >> shift) - SUB)) as usize
}

fn middle(index: usize) -> u64 {
    let i = index as u64;
    if i < SUB {
        return i;
    }
    let shift = (i >> BITS) - 1;
    let low = (SUB + (i & (SUB - 1))) << shift;
    low + ((1 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_below_powers_of_two_are_exact() {
        let mut h = Histogram::new();
        let bounds = [10, 16, 20, 42].map(|power| Duration::from_nanos(1 << power));
        assert_eq!(h.counts_below(bounds), [0; 4]);
        for power in [10, 16, 20] {
            h.record(Duration::from_nanos((1 << power) - 1));
            h.record(Duration::from_nanos(1 << power));
        }
        assert_eq!(h.counts_below(bounds), [1, 3, 5, 6]);
        assert_eq!(
            h.sum_ns(),
            f64::from(2 * ((1 << 10) + (1 << 16) + (1 << 20)) - 3)
        );
    }

    #[test]
    fn small_values_are_exact() {
        let mut h = Histogram::new();
        for ns in [1, 2, 3, 4, 100] {
            h.record(Duration::from_nanos(ns));
        }
        assert_eq!(h.quantile(0.5), Duration::from_nanos(3));
        assert_eq!(h.mean(), Duration::from_nanos(22));
        assert_eq!(h.max(), Duration::from_nanos(100));
        assert_eq!(h.min(), Duration::from_nanos(1));
    }

    #[test]
    fn empty_is_zero_everywhere() {
        let h = Histogram::new();
        assert_eq!(
            (h.mean(), h.max(), h.min(), h.quantile(0.99)),
            (
                Duration::ZERO,
                Duration::ZERO,
                Duration::ZERO,
                Duration::ZERO
            )
        );
    }

    proptest! {
        #[test]
        fn quantiles_keep_the_stated_error(
            mut samples in prop::collection::vec(0u64..(1 << TOP), 1..300),
            q in 0.0f64..=1.0,
        ) {
            let mut h = Histogram::new();
            for &ns in &samples {
                h.record(Duration::from_nanos(ns));
            }
            samples.sort_unstable();
            let rank = ((q * samples.len() as f64).ceil() as usize).clamp(1, samples.len());
            let exact = samples[rank - 1] as f64;
            let got = h.quantile(q).as_nanos() as f64;
            prop_assert!((got - exact).abs() <= exact * Histogram::RELATIVE_ERROR, "{got} {exact}");
        }

        #[test]
        fn merging_equals_recording_together(
            a in prop::collection::vec(any::<u64>(), 0..50),
            b in prop::collection::vec(any::<u64>(), 0..50),
        ) {
            let of = |s: &[u64]| {
                let mut h = Histogram::new();
                for &ns in s {
                    h.record(Duration::from_nanos(ns >> 1));
                }
                h
            };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let whole = of(&[a, b].concat());
            prop_assert_eq!(&merged.buckets, &whole.buckets);
            prop_assert_eq!((merged.count, merged.min, merged.max), (whole.count, whole.min, whole.max));
        }
    }
}
