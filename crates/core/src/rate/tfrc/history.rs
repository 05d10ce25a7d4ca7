// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loss intervals and their average: the loss event rate p (RFC 5348 §5.3 to §5.5).
//!
//! | RFC | here |
//! | --- | --- |
//! | n | [`LossHistory::N`] |
//! | S_A, S_C | `current`, the argument `highest` |
//! | I_0 | what [`LossHistory::current_length`] says |
//! | I_1 .. I_n, DF_i | `past`, the latest first |
//! | DF | [`LossHistory::discount`] |

/// A loss interval: from the first lost or marked packet of a loss event to that of the next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossInterval {
    /// Packets from its first to its last lost or marked one, both included: the lossy part (RFC 4342 §6.1).
    pub lossy: u64,
    /// Packets after those.
    pub lossless: u64,
    /// Its length in the average. That of the very first one is computed (RFC 5348 §6.3.1).
    pub length: f64,
}

/// The loss intervals that count.
#[derive(Clone, Debug)]
pub struct LossHistory {
    past: [(LossInterval, f64); Self::N],
    len: usize,
    /// First and last lost or marked packet of the current loss event.
    current: Option<(u64, u64)>,
    discounting: bool,
}

impl LossHistory {
    /// Loss intervals in the average, n of RFC 5348 §5.4.
    pub const N: usize = 8;

    /// RFC 5348 §5.5: DF is never below.
    const THRESHOLD: f64 = 0.25;

    /// No loss so far. `discounting` gives the older intervals less weight in a long one without loss (RFC 5348 §5.5).
    pub fn new(discounting: bool) -> Self {
        Self {
            past: [(LossInterval::default(), 1.0); Self::N],
            len: 0,
            current: None,
            discounting,
        }
    }

    /// Whether there was a loss event.
    pub fn is_empty(&self) -> bool {
        self.current.is_none()
    }

    /// A loss event begins with packet `first`. `initial` is the length of the interval before it, if this is the first event.
    pub fn begin(&mut self, first: u64, initial: impl FnOnce() -> f64) {
        let ended = match self.current {
            Some((start, last)) => {
                let df = self.discount((first - start) as f64);
                for (_, discount) in &mut self.past {
                    *discount *= df;
                }
                LossInterval {
                    lossy: last - start + 1,
                    lossless: first - last - 1,
                    length: (first - start) as f64,
                }
            }
            None => LossInterval {
                lossy: 0,
                lossless: first,
                length: initial(),
            },
        };
        self.past.rotate_right(1);
        self.past[0] = (ended, 1.0);
        self.len = (self.len + 1).min(Self::N);
        self.current = Some((first, first));
    }

    /// Packet `last` is lost or marked too, in the loss event that has begun.
    pub fn extend(&mut self, last: u64) {
        if let Some((_, end)) = &mut self.current {
            *end = last.max(*end);
        }
    }

    /// The loss event rate p, where `highest` is the highest sequence number received; 0 before the first loss event.
    pub fn rate(&self, highest: u64) -> f64 {
        let Some((start, _)) = self.current else {
            return 0.0;
        };
        let current = Self::current_length(start, highest);
        let df = self.discount(current);
        let (mut total0, mut weight0) = (current, 1.0);
        let (mut total1, mut weight1) = (0.0, 0.0);
        for (i, (interval, df_i)) in (1..).zip(&self.past[..self.len]) {
            // The oldest of k intervals counts only where the current one does not.
            if i < self.len {
                total0 += interval.length * weight(i) * df_i * df;
                weight0 += weight(i) * df_i * df;
            }
            total1 += interval.length * weight(i - 1) * df_i;
            weight1 += weight(i - 1) * df_i;
        }
        (weight0 / total0).min(weight1 / total1).min(1.0)
    }

    /// All that count, the latest first, with the current one, where `highest` is the highest sequence number received.
    pub fn intervals(&self, highest: u64) -> impl Iterator<Item = LossInterval> + '_ {
        let current = self.current.map(|(start, last)| LossInterval {
            lossy: last - start + 1,
            lossless: highest.saturating_sub(last),
            length: Self::current_length(start, highest),
        });
        let past = self.past[..self.len].iter().map(|(interval, _)| *interval);
        current.into_iter().chain(past)
    }

    /// I_0 (RFC 5348 §5.3).
    fn current_length(start: u64, highest: u64) -> f64 {
        (highest.max(start) - start + 1) as f64
    }

    /// DF while the current interval is `current` long (RFC 5348 §5.5).
    fn discount(&self, current: f64) -> f64 {
        let (mut total, mut weights) = (0.0, 0.0);
        for (i, (interval, df_i)) in self.past[..self.len].iter().enumerate() {
            total += interval.length * weight(i) * df_i;
            weights += weight(i) * df_i;
        }
        let mean = total / weights;
        if !self.discounting || current <= 2.0 * mean {
            return 1.0;
        }
        (2.0 * mean / current).max(Self::THRESHOLD)
    }
}

/// w_i (RFC 5348 §5.4).
fn weight(i: usize) -> f64 {
    const N: usize = LossHistory::N;
    if i < N / 2 {
        1.0
    } else {
        2.0 * (N - i) as f64 / (N + 2) as f64
    }
}

/// The loss event rate of intervals of these lengths, the latest and unfinished one first, without discounting (RFC 5348 §5.4):
/// what a sender computes from CCID 3's Loss Intervals option (RFC 4342 §8.6). 0 with fewer than two.
pub fn loss_event_rate(lengths: impl IntoIterator<Item = f64>) -> f64 {
    let mut lengths = lengths.into_iter();
    let Some(current) = lengths.next() else {
        return 0.0;
    };
    let mut history = LossHistory::new(false);
    for (place, length) in history.past.iter_mut().zip(lengths) {
        place.0.length = length;
        history.len += 1;
    }
    if history.len == 0 {
        return 0.0;
    }
    history.current = Some((0, 0));
    history.rate((current as u64).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lengths: &[f64]) -> f64 {
        loss_event_rate(lengths.iter().copied())
    }

    #[test]
    fn rfc_5348_5_4_weights_of_eight_intervals() {
        let weights: Vec<f64> = (0..8).map(weight).collect();
        assert_eq!(weights, [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2]);
    }

    #[test]
    fn rfc_5348_5_4_a_short_current_interval_does_not_count() {
        let mut lengths = [100.0; 9];
        lengths[0] = 10.0;
        assert!((1.0 / of(&lengths) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn rfc_5348_5_4_a_long_current_interval_counts() {
        let mut lengths = [100.0; 9];
        lengths[0] = 400.0;
        assert!((1.0 / of(&lengths) - 150.0).abs() < 1e-9);
    }

    #[test]
    fn rfc_5348_5_4_fewer_than_n_intervals() {
        assert!((1.0 / of(&[50.0, 20.0, 80.0]) - 50.0).abs() < 1e-9);
        assert_eq!(of(&[50.0]), 0.0);
        assert_eq!(of(&[]), 0.0);
    }

    /// Loss events 100 packets apart, the first interval 100 too; then 400 packets without loss.
    fn after_a_long_interval(discounting: bool) -> LossHistory {
        let mut history = LossHistory::new(discounting);
        for event in 1..=8 {
            history.begin(100 * event, || 100.0);
        }
        history
    }

    #[test]
    fn rfc_5348_5_5_discounting() {
        let p = after_a_long_interval(true).rate(800 + 399);
        assert!((p - 0.005385).abs() < 5e-7, "{p}");
        let p = after_a_long_interval(false).rate(800 + 399);
        assert!((1.0 / p - 150.0).abs() < 1e-9, "{p}");
    }

    /// DF is 0.25 at a current interval of 800 or more: (1 + 5 / 4) / (I_0 + 500 / 4).
    #[test]
    fn rfc_5348_5_5_discounting_has_a_threshold() {
        let p = after_a_long_interval(true).rate(800 + 1999);
        assert!((p - 2.25 / 2125.0).abs() < 1e-12, "{p}");
    }

    /// After the interval of 400, DF 0.5 stays with the older ones: W = 1 + 0.5 (1 + 1 + 1 + 0.8 + 0.6 + 0.4 + 0.2), I = 400 + 0.5 * 500.
    #[test]
    fn rfc_5348_5_5_a_discount_stays_with_its_interval() {
        let mut history = after_a_long_interval(true);
        history.begin(1200, || unreachable!());
        let p = history.rate(1200);
        assert!((p - 3.5 / 650.0).abs() < 1e-12, "{p}");
    }

    #[test]
    fn rfc_4342_6_1_lossy_and_lossless_parts() {
        // RFC 4342 §8.6.2: losses at 10, 19 to 21, 23 and 32 of 43 packets, the last two of which may still be lost.
        let mut history = LossHistory::new(true);
        history.begin(10, || 15.0);
        history.begin(19, || unreachable!());
        history.extend(23);
        history.begin(32, || unreachable!());
        let parts: Vec<_> = history
            .intervals(42)
            .map(|i| (i.lossless, i.lossy, i.length))
            .collect();
        assert_eq!(
            parts,
            [(10, 1, 11.0), (8, 5, 13.0), (8, 1, 9.0), (10, 0, 15.0)]
        );
    }
}
