// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time sliding window: a rate estimate that decays with time.
//!
//! Source: D. Clark, W. Fang, "Explicit Allocation of Best-Effort Packet Delivery Service", IEEE/ACM
//! Transactions on Networking 6(4), 1998; as in section 2.3 of the paper on tickets.
//!
//! | paper | here |
//! | --- | --- |
//! | `WinLength`, `TswFront` | `window`, `front` |
//! | `AvgRate × WinLength` | [`Tsw::in_window`] |

use crate::units::{Duration, Instant};

/// A rate of any counted quantity: bytes, tickets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tsw {
    window: Duration,
    front: Instant,
    /// In steps of 2^-16.
    in_window: u128,
}

impl Tsw {
    /// Bits behind the binary point of [`Tsw::in_window`].
    pub const BITS: u32 = 16;
    /// The window of the paper's experiments.
    pub const WINDOW: Duration = Duration::from_secs(60);
    /// An hour; with it all products stay within 128 bits.
    pub const MOST_WINDOW: Duration = Duration::from_secs(3600);
    /// Above this the estimate stays.
    const MOST: u128 = 1 << 84;

    /// Nothing seen so far. `window` above zero, up to [`Tsw::MOST_WINDOW`].
    pub fn new(window: Duration) -> Self {
        Self {
            window: window.clamp(Duration::from_nanos(1), Self::MOST_WINDOW),
            front: Instant::ZERO,
            in_window: 0,
        }
    }

    /// `n` more have come at `now`.
    ///
    /// `AvgRate <- (AvgRate WinLength + n) / (now - TswFront + WinLength)`.
    pub fn count(&mut self, now: Instant, n: u64) {
        let window = u128::from(self.window.as_nanos());
        let since = u128::from(now.saturating_since(self.front).as_nanos());
        let sum = (self.in_window + (u128::from(n) << Self::BITS)).min(Self::MOST);
        self.in_window = sum * window / (since + window);
        self.front = now;
    }

    /// The estimated rate times one window, in steps of 2^-16.
    pub fn in_window(&self) -> u128 {
        self.in_window
    }

    /// The same as of `now`, with the time since the last count.
    pub fn in_window_at(&self, now: Instant) -> u128 {
        let mut then = self.clone();
        then.count(now, 0);
        then.in_window
    }

    /// The window.
    pub fn window(&self) -> Duration {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn an_even_stream_is_estimated_at_its_rate() {
        // 1000 B each 10 ms. Once settled V = (V + 1000) 60 / 60.01, so V = 6 MB: 100 kB/s. From zero the
        // rest after n steps is (60 / 60.01)^n; n = 60 000, ten windows: 4.55e-5.
        let mut tsw = Tsw::new(Tsw::WINDOW);
        for n in 1..=60_000 {
            tsw.count(at(10 * n), 1000);
        }
        let expected = 100_000.0 * (1.0 - 4.5513e-5);
        let in_window = tsw.in_window() as f64 / (1u64 << Tsw::BITS) as f64;
        let per_second = in_window / tsw.window().as_secs_f64();
        assert!((per_second / expected - 1.0).abs() < 1e-7, "{tsw:?}");
    }

    #[test]
    fn a_silence_of_a_window_halves_the_estimate() {
        let mut tsw = Tsw::new(Duration::from_secs(1));
        tsw.count(at(0), 1000);
        assert_eq!(tsw.in_window_at(at(1000)) >> Tsw::BITS, 500);
        assert_eq!(tsw.in_window() >> Tsw::BITS, 1000);
        tsw.count(at(1000), 0);
        assert_eq!(tsw.in_window() >> Tsw::BITS, 500);
    }

    proptest! {
        #[test]
        fn the_estimate_is_the_real_one(
            window in 1u64..3_600_000_000_000,
            steps in proptest::collection::vec((0u64..1 << 36, 0u64..1 << 40), 1..200),
        ) {
            let mut tsw = Tsw::new(Duration::from_nanos(window));
            let (mut now, mut real) = (Instant::ZERO, 0.0);
            for (ns, n) in steps {
                now += Duration::from_nanos(ns);
                tsw.count(now, n);
                let w = window as f64;
                real = (real + n as f64) * w / (ns as f64 + w);
                let fixed = tsw.in_window() as f64 / 65_536.0;
                prop_assert!((fixed - real).abs() <= 1e-9 * real + 0.01, "{fixed} {real}");
            }
        }

        #[test]
        fn nothing_makes_it_overflow(
            steps in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..200),
        ) {
            let mut tsw = Tsw::new(Tsw::MOST_WINDOW);
            for (ns, n) in steps {
                tsw.count(Instant::from_nanos(ns), n);
            }
        }
    }
}
