// SPDX-License-Identifier: MIT OR Apache-2.0
//! A window that is a cubic function of the time since the last reduction.
//!
//! Source: L. Xu, S. Ha, I. Rhee, V. Goel, L. Eggert, "CUBIC for Fast and Long-Distance Networks",
//! RFC 9438, section 4.
//!
//! | RFC | here |
//! | --- | --- |
//! | W_max, K, cwnd_prior | `w_max`, `k` (seconds), `prior` |
//! | W_est, epoch_start | `w_est`, `epoch` |
//! | W_cubic(t), target | [`Cubic::w_cubic`], in [`Cubic::growth`] |
//! | beta_cubic, alpha_cubic, C | [`BETA`], [`ALPHA`], [`C`] |
//!
//! Windows are in segments, as floats. Every operation on them is one that IEEE 754 defines to the
//! last bit, the cube root included, so that a run is the same on every machine.
//!
//! Departures: the reduction is of the bytes outstanding at most (§4.6 allows that), the least window
//! that of RFC 5681. HyStart instead of HyStart++ (§4.10), as Linux has it; no undoing of a spurious reduction (§4.9).

use makeway_core::units::{Duration, Instant};

/// Multiplicative decrease, §4.6.
const BETA: f64 = 0.7;
/// Aggressiveness, in segments / s^3, §5.
const C: f64 = 0.4;
/// Additive increase of the Reno-friendly window: 3 (1 - beta) / (1 + beta), §4.3.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The growth of CUBIC's window.
#[derive(Clone, Debug)]
pub struct Cubic {
    mss: f64,
    /// alpha once W_est has made up for the reduction: 1 in §4.3.
    alpha_later: f64,
    w_max: f64,
    k: f64,
    w_est: f64,
    prior: f64,
    /// Start of the current congestion avoidance; nothing before its first acknowledgement.
    epoch: Option<Instant>,
    /// Growth below a byte.
    credit: f64,
}

impl Cubic {
    pub fn new(mss: u64, catches_up: bool) -> Self {
        Self {
            mss: mss as f64,
            alpha_later: if catches_up { 1.0 } else { ALPHA },
            w_max: 0.0,
            k: 0.0,
            w_est: 0.0,
            prior: f64::INFINITY,
            epoch: None,
            credit: 0.0,
        }
    }

    /// Bytes that the window grows by for `acked` new bytes, in congestion avoidance.
    #[inline]
    pub fn growth(&mut self, cwnd: u64, acked: u64, now: Instant, rtt: Duration) -> u64 {
        let w = cwnd as f64 / self.mss;
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin(now, w),
        };
        let t = now.saturating_since(epoch).as_secs_f64();
        // Eq. (4).
        let alpha = if self.w_est < self.prior {
            ALPHA
        } else {
            self.alpha_later
        };
        let segments = acked as f64 / self.mss;
        self.w_est += alpha * segments / w;
        let growth = if self.w_cubic(t) < self.w_est {
            // §4.3, Reno-friendly: cwnd = W_est.
            self.w_est - w
        } else {
            // §4.4, §4.5: (target - cwnd) / cwnd for each segment, target within [cwnd, 1.5 cwnd].
            let target = self.w_cubic(t + rtt.as_secs_f64()).clamp(w, 1.5 * w);
            (target - w) / w * segments
        };
        self.credit += growth.max(0.0) * self.mss;
        let bytes = self.credit as u64;
        self.credit -= bytes as f64;
        bytes
    }

    /// §4.6, §4.7: beta of the outstanding bytes; W_max with fast convergence.
    pub fn reduced(&mut self, flight: u64) -> u64 {
        let w = flight as f64 / self.mss;
        self.prior = w;
        self.w_max = if w < self.w_max {
            w * (1.0 + BETA) / 2.0
        } else {
            w
        };
        self.epoch = None;
        self.credit = 0.0;
        (flight as f64 * BETA).round() as u64
    }

    /// §4.8: the next congestion avoidance starts at its plateau.
    pub fn on_timeout(&mut self) {
        self.epoch = None;
        self.w_max = 0.0;
    }

    /// §4.2, §5.8: time without data does not count.
    pub fn on_idle(&mut self, idle: Duration) {
        if let Some(epoch) = &mut self.epoch {
            *epoch += idle;
        }
    }

    /// Eq. (2), and K = 0 where the window is at W_max already.
    fn begin(&mut self, now: Instant, w: f64) -> Instant {
        self.epoch = Some(now);
        self.w_max = self.w_max.max(w);
        self.k = cube_root((self.w_max - w) / C);
        self.w_est = w;
        now
    }

    /// Eq. (1): W_cubic(t) = C (t - K)^3 + W_max.
    #[inline]
    fn w_cubic(&self, t: f64) -> f64 {
        let d = t - self.k;
        C * (d * d * d) + self.w_max
    }
}

/// The cube root of a number that is not negative, by Newton's method: the standard library's may
/// differ in the last bit from machine to machine.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    // A third of the exponent: W. Kahan's first guess, within 6 %. Each step squares the error; four
    // bring it below the last bit.
    let mut y = f64::from_bits(x.to_bits() / 3 + (715_094_163 << 32));
    for _ in 0..5 {
        y = (2.0 * y + x / (y * y)) / 3.0;
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1448;

    /// Windows at the end of each round trip of acknowledgements, in segments.
    fn windows(cubic: &mut Cubic, mut cwnd: u64, rtt: Duration, rounds: u64) -> Vec<(f64, f64)> {
        let mut seen = Vec::new();
        let mut now = Instant::from_nanos(1_000_000_000);
        for _ in 0..rounds {
            let acks = cwnd / MSS;
            for _ in 0..acks {
                now += rtt / acks;
                cwnd += cubic.growth(cwnd, MSS, now, rtt);
            }
            let epoch = cubic.epoch.unwrap();
            let t = now.saturating_since(epoch).as_secs_f64();
            seen.push((t, cwnd as f64 / MSS as f64));
        }
        seen
    }

    #[test]
    fn the_cube_root_is_within_a_bit_or_two() {
        for x in [1e-9, 0.001, 0.3, 1.0, 8.0, 27.0, 75.0, 1e6, 1e15] {
            let root = cube_root(x);
            assert!((root * root * root / x - 1.0).abs() < 1e-15 * 4.0, "{x}");
        }
        assert_eq!(cube_root(0.0), 0.0);
        assert_eq!(cube_root(27.0), 3.0);
    }

    #[test]
    fn the_window_follows_the_cubic_function() {
        // W_max 1000 segments: K = cbrt(1000 * 0.3 / 0.4) = 9.086 s.
        let mut cubic = Cubic::new(MSS, true);
        let cwnd = cubic.reduced(1000 * MSS);
        assert_eq!(cwnd, 700 * MSS);
        let rtt = Duration::from_millis(100);
        let seen = windows(&mut cubic, cwnd, rtt, 150);
        assert!((cubic.k - 9.0856).abs() < 1e-4, "{}", cubic.k);
        for (t, w) in seen {
            let d: f64 = t - 750f64.powf(1.0 / 3.0);
            let expected = 0.4 * d.powi(3) + 1000.0;
            // The window of the round trip before: it aims a round trip ahead.
            assert!(
                (w / expected - 1.0).abs() < 0.01,
                "{t}: {w}, not {expected}"
            );
        }
    }

    #[test]
    fn over_short_paths_it_grows_as_reno_would() {
        // 1 ms and 20 segments: the cubic function hardly moves in 0.2 s. 14 segments after the
        // reduction; 0.529 each round trip, the whole of one from 20 segments on.
        let mut cubic = Cubic::new(MSS, true);
        let cwnd = cubic.reduced(20 * MSS);
        let seen = windows(&mut cubic, cwnd, Duration::from_millis(1), 30);
        let (_, at_10) = seen[9];
        assert!((at_10 - (14.0 + 10.0 * ALPHA)).abs() < 0.4, "{at_10}");
        let slope = seen[29].1 - seen[24].1;
        assert!((slope - 5.0).abs() < 0.3, "{slope}");
    }

    #[test]
    fn after_a_timeout_the_window_starts_at_its_plateau() {
        let mut cubic = Cubic::new(MSS, true);
        cubic.reduced(1000 * MSS);
        cubic.on_timeout();
        cubic.growth(700 * MSS, MSS, Instant::ZERO, Duration::ZERO);
        assert_eq!((cubic.k, cubic.w_max), (0.0, 700.0));
    }

    #[test]
    fn idle_time_moves_the_curve() {
        let mut cubic = Cubic::new(MSS, true);
        let cwnd = cubic.reduced(1000 * MSS);
        cubic.growth(cwnd, MSS, Instant::ZERO, Duration::ZERO);
        let mut rested = cubic.clone();
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        rested.on_idle(minute);
        let then = Instant::ZERO + second;
        assert_eq!(
            cubic.growth(cwnd, MSS, then, Duration::ZERO),
            rested.growth(cwnd, MSS, then + minute, Duration::ZERO)
        );
    }

    #[test]
    fn a_shrinking_share_is_given_up_faster() {
        let mut cubic = Cubic::new(MSS, true);
        cubic.reduced(100 * MSS);
        assert_eq!(cubic.w_max, 100.0);
        cubic.reduced(80 * MSS);
        assert!((cubic.w_max - 80.0 * 0.85).abs() < 1e-9);
    }
}
