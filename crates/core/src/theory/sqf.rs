// SPDX-License-Identifier: MIT OR Apache-2.0
//! The point at which a stream loses its priority under SQF: the closed forms of Bonald, Muscariello, Ostallo,
//! "Self-Prioritization of Audio and Video Traffic", ICC 2011, section IV.
//!
//! | paper | here |
//! | --- | --- |
//! | C | [`Bottleneck::capacity`], packet/s |
//! | B | [`Bottleneck::buffer`], packets |
//! | n | [`Bottleneck::downloads`] |
//! | lambda | `rate`, packet/s |
//! | p(T) | [`Bottleneck::deprioritised`] |
//! | T-bar | [`Bottleneck::prioritised_time`] |
//!
//! Departures from the paper: none in `p`. T-bar is found as `1 / r`, where `r` is the rate at which
//! intervals of the worst length violate eq. (1); it equals the integral of `1 - p(t)` as long as
//! T-bar is much longer than that interval.

use alloc::vec::Vec;

use super::poisson::at_least;
#[cfg(not(feature = "std"))]
use num_traits::Float as _;

/// A bottleneck with `downloads` TCP flows that keep its buffer full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bottleneck {
    /// Packet/s, above 0.
    pub capacity: f64,
    /// Packets, above 0.
    pub buffer: f64,
    /// TCP flows, 0 or more.
    pub downloads: u32,
}

impl Bottleneck {
    /// The video may hold fewer packets than this: eq. (1), `B / (n + 1)`.
    pub fn allowance(&self) -> f64 {
        self.buffer / (f64::from(self.downloads) + 1.0)
    }

    /// The highest rate that fair queueing serves in full, packet/s: `C / (n + 1)`.
    pub fn fair_share(&self) -> f64 {
        self.capacity / (f64::from(self.downloads) + 1.0)
    }

    /// `p(T)`, eq. (2): the probability that a Poisson stream of `rate` packet/s is de-prioritised
    /// within `seconds`. The streams of several senders count as one of the sum of their rates
    /// (section IV.B).
    pub fn deprioritised(&self, rate: f64, seconds: f64) -> f64 {
        self.deprioritised_from(rate, seconds, 0.0)
    }

    /// The same, of intervals of at least `shortest` seconds only: eq. (2) where the maximum is not taken over all k.
    pub fn deprioritised_from(&self, rate: f64, seconds: f64, shortest: f64) -> f64 {
        // The threshold of q(t) acts as a whole number of arrivals. Of all k with the same number
        // the smallest has the longest interval and the largest q_k: one candidate for each number.
        let exponent = self.worst(shortest, |count| {
            let k = (self.capacity * seconds / (count - self.allowance())).ceil();
            (k >= 2.0).then(|| -k * (-at_least(count as u64, rate * seconds / k)).ln_1p())
        });
        // k = 1: the whole period.
        let count = (self.capacity * seconds + self.allowance()).ceil();
        let whole = at_least(count as u64, rate * seconds);
        whole.max(-(-exponent).exp_m1())
    }

    /// T-bar in seconds: the mean time until the stream is de-prioritised.
    pub fn prioritised_time(&self, rate: f64) -> f64 {
        self.prioritised_time_from(rate, 0.0)
    }

    /// The same, of intervals of at least `shortest` seconds only.
    pub fn prioritised_time_from(&self, rate: f64, shortest: f64) -> f64 {
        1.0 / self.worst(shortest, |count| {
            let t = (count - self.allowance()) / self.capacity;
            Some(-(-at_least(count as u64, rate * t)).ln_1p() / t)
        })
    }

    /// The largest value of `of` over whole numbers of arrivals above the allowance, until it
    /// gives none or has long been falling (it has one summit but for rounding).
    fn worst(&self, shortest: f64, of: impl Fn(f64) -> Option<f64>) -> f64 {
        let (mut worst, mut falling) = (0.0f64, 0);
        let mut count = (self.allowance() + self.capacity * shortest).floor() + 1.0;
        while let Some(value) = of(count) {
            falling = if value > worst { 0 } else { falling + 1 };
            worst = worst.max(value);
            if falling > 1000 {
                break;
            }
            // Far out the values change little from one count to the next. Those too small for a
            // float are passed over quickly: the summit is far from them.
            let step = if worst > 0.0 { 1e-4 } else { 1e-2 };
            count += (count * step).ceil();
        }
        worst
    }

    /// The mean time in seconds until a Poisson stream of `rate` packet/s, alone at the server that prefers it, has as many
    /// packets in the system as eq. (1) forbids, from an empty one: that of the M/D/1 queue, where the last service counts
    /// in full. Where it is long, it is as good as exponential: [`Bottleneck::hit`].
    pub fn hitting_time(&self, rate: f64) -> f64 {
        let (most, service) = (self.allowance().ceil() as usize, 1.0 / self.capacity);
        if most <= 1 {
            return 1.0 / rate;
        }
        let mut arrivals = Vec::with_capacity(most);
        arrivals.push((-rate * service).exp());
        for n in 1..most {
            arrivals.push(arrivals[n - 1] * rate * service / n as f64);
        }
        // h(0) = 1 / rate + h(1), and h(j) = service + the sum over n < most - j of P(n) h(j + n - 1): rows of a matrix with
        // the right side last.
        let mut rows = alloc::vec![alloc::vec![0.0; most + 1]; most];
        rows[0][..2].copy_from_slice(&[1.0, -1.0]);
        rows[0][most] = 1.0 / rate;
        for j in 1..most {
            rows[j][j] = 1.0;
            rows[j][most] = service;
            for n in 0..most - j {
                rows[j][j + n - 1] -= arrivals[n];
            }
        }
        // Elimination needs no exchange of rows: none is smaller than the sum of the others.
        for pivot in 0..most {
            let (above, below) = rows.split_at_mut(pivot + 1);
            let from = &above[pivot];
            for row in below {
                let factor = row[pivot] / from[pivot];
                for (x, y) in row[pivot..].iter_mut().zip(&from[pivot..]) {
                    *x -= factor * y;
                }
            }
        }
        for pivot in (1..most).rev() {
            let value = rows[pivot][most] / rows[pivot][pivot];
            for row in &mut rows[..pivot] {
                row[most] -= row[pivot] * value;
            }
        }
        rows[0][most] / rows[0][0]
    }

    /// The probability that this happens within `seconds`.
    pub fn hit(&self, rate: f64, seconds: f64) -> f64 {
        -(-seconds / self.hitting_time(rate)).exp_m1()
    }

    /// The highest rate in packet/s that is de-prioritised within `seconds` with a probability of at
    /// most `risk` (0 to 1), to one part in 10 000.
    pub fn safe_rate(&self, seconds: f64, risk: f64) -> f64 {
        let (mut low, mut high) = (0.0, self.capacity);
        while high - low > self.capacity * 1e-4 {
            let middle = (low + high) / 2.0;
            if self.deprioritised(middle, seconds) <= risk {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 Mbit/s of 1250 B packets and 200 of buffer, as in Fig. 3 and 4.
    fn paper(downloads: u32) -> Bottleneck {
        Bottleneck {
            capacity: 1000.0,
            buffer: 200.0,
            downloads,
        }
    }

    #[test]
    fn probabilities_of_fig_3_are_those_of_equations_1_and_2() {
        // Computed independently of this project from the equations as printed; T = 600 s.
        // They took the maximum over a grid of k: over all k it is larger by as much as 3 %.
        for (n, mbit, p) in [
            (20, 5.0, 0.0392),
            (20, 5.5, 0.1506),
            (20, 6.0, 0.4487),
            (20, 6.5, 0.8629),
            (10, 5.0, 2.67e-7),
            (10, 7.0, 6.15e-3),
            (10, 8.0, 0.320),
            (5, 8.0, 2.15e-4),
            (5, 9.0, 0.2156),
        ] {
            let got = paper(n).deprioritised(mbit * 100.0, 600.0);
            assert!(
                (-0.002..0.03).contains(&(got / p - 1.0)),
                "n {n}, {mbit} Mbit/s: {got} for {p}"
            );
        }
    }

    #[test]
    fn the_time_until_a_queue_is_long_is_that_of_a_simulated_one() {
        // Slots of a service; 3 downloads leave 5 of 20 packets, at 600 of 1000 packet/s.
        let line = Bottleneck {
            capacity: 1000.0,
            buffer: 20.0,
            downloads: 3,
        };
        let mut rng = crate::random::Rng::new(1);
        let mut uniform = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut exponential = |mean: f64| -mean * (1.0 - uniform()).ln();
        let runs = 20_000;
        let mut total = 0.0;
        for _ in 0..runs {
            let (mut now, mut waiting, mut next) = (0.0, 0, exponential(1.0 / 600.0));
            loop {
                if waiting == 0 {
                    (now, waiting) = (next, 1);
                    next = now + exponential(1.0 / 600.0);
                }
                let end = now + 1e-3;
                while next < end {
                    waiting += 1;
                    next += exponential(1.0 / 600.0);
                }
                now = end;
                if waiting >= 5 {
                    break;
                }
                waiting -= 1;
            }
            total += now;
        }
        let (got, simulated) = (line.hitting_time(600.0), total / f64::from(runs));
        assert!((got / simulated - 1.0).abs() < 0.03, "{got} {simulated}");
        let hit = line.hit(600.0, got);
        assert!((hit - (1.0 - (-1f64).exp())).abs() < 1e-12);
    }

    #[test]
    fn longer_intervals_only_are_fewer_and_so_is_their_maximum() {
        let line = paper(20);
        let p = |shortest| line.deprioritised_from(590.0, 600.0, shortest);
        assert_eq!(p(0.0), line.deprioritised(590.0, 600.0));
        // By trying each number of arrivals with its longest interval, in another program.
        for (shortest, expected) in [(0.038, 0.0385), (0.040, 0.0302)] {
            let ratio = p(shortest) / expected;
            assert!((0.98..1.02).contains(&ratio), "{shortest}: {}", p(shortest));
        }
        let time = |shortest| line.prioritised_time_from(590.0, shortest) / 60.0;
        assert!(
            time(0.0) < 30.0 && (253.0..256.0).contains(&time(0.038)),
            "{} {}",
            time(0.0),
            time(0.038)
        );
    }

    #[test]
    fn the_maximum_over_all_k_is_found() {
        // By trying each k from 1 to 200 000, T = 600 s, n = 20.
        for (mbit, p) in [
            (5.0, 0.039980),
            (5.5, 0.152087),
            (6.0, 0.452994),
            (6.5, 0.866168),
        ] {
            let got = paper(20).deprioritised(mbit * 100.0, 600.0);
            assert!((got / p - 1.0).abs() < 1e-4, "{mbit} Mbit/s: {got} for {p}");
        }
    }

    #[test]
    fn a_summit_far_from_the_first_k_is_found() {
        // 2000 packets to spare: over the first thousand k no float holds the probability.
        let line = Bottleneck {
            buffer: 12_000.0,
            ..paper(5)
        };
        let got = line.prioritised_time(999.9);
        assert!((1e3..1e7).contains(&got), "{got} s");
        assert_eq!(line.prioritised_time(1.0), f64::INFINITY);
    }

    #[test]
    fn mean_times_of_fig_4_are_those_of_the_integral() {
        // As above, in minutes.
        for (mbit, minutes) in [(5.0, 248.9), (5.5, 61.3), (6.0, 16.8)] {
            let got = paper(20).prioritised_time(mbit * 100.0) / 60.0;
            assert!(
                (got / minutes - 1.0).abs() < 0.02,
                "{mbit} Mbit/s: {got} min for {minutes}"
            );
        }
    }

    #[test]
    fn fair_queueing_serves_one_share_of_n_plus_one() {
        assert!((paper(20).fair_share() * 10.0 - 476.19).abs() < 0.01);
    }

    #[test]
    fn more_downloads_leave_less_room() {
        let safe = |n| paper(n).safe_rate(600.0, 0.01);
        assert!(safe(5) > safe(10) && safe(10) > safe(20));
    }

    #[test]
    fn an_overload_is_lost_for_certain() {
        assert!(paper(5).deprioritised(1200.0, 600.0) > 0.999_999);
    }
}
