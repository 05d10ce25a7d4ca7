// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gain and cost of priority for small packets: the closed forms of Mamatas, Tsaoussidis,
//! "Differentiating Services with Non-Congestive Queuing (NCQ)", section 4.
//!
//! | paper | here |
//! | --- | --- |
//! | lambda1, lambda2 | [`Classes::rates`], packet/s |
//! | T_S1, T_S2 | [`Classes::services`], s |
//! | lambda1 / lambda | [`Classes::share`] |
//! | u1, u2 | [`Classes::small_load`], [`Classes::load`] |
//! | T_W1, T_W2; T_Q1, T_Q2 | [`Delays::waits`], [`Delays::delays`], s |
//! | T_W, T_Q | [`Delays::mean_wait`], [`Delays::mean_delay`], s |
//! | ncqthresh, kthresh | `threshold`, `favoured` |
//!
//! Departures from the paper, each with the printed form beside it:
//! - Section 4.1, case 3: `kthresh = (lambda1 / lambda) ncqthresh` is upside down. The favoured packets are
//!   `ncqthresh` of *all* packets at most, so [`Classes::favoured`] is `min(1, ncqthresh lambda / lambda1)`.
//! - Eq. (9) has the square of the mean service time for the mean square (Pollaczek, Khinchine), and so is
//!   too small; set beside eq. (2), which is right, it invents a cost of priority.
//! - Eq. (13), (14) do it again: `T'_S2` is the mean over two kinds of packets. The packet in service when
//!   another comes does not depend on the order, so its mean rest is that of eq. (1) in all three cases.
//! - Eq. (7) says `u1 = u2`; it means the load, `u2` of Table 1.
//!
//! Eq. (13), (14) are exact where a coin favours. NCQ's counters favour when enough packets have come since
//! the last one, so the small packets that they refuse find a shorter queue than others, and small packets
//! wait up to an eighth less than (15) says (`crates/sim/tests/ncq.rs`).

#[cfg(not(feature = "std"))]
use num_traits::Float as _;

pub mod strategies;

/// Two classes of Poisson arrivals at one server, the small packets first; each class has one service time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Classes {
    /// Packet/s of the small and of the large, above 0.
    pub rates: [f64; 2],
    /// Seconds that a small and a large packet is served, above 0.
    pub services: [f64; 2],
}

/// Mean times of both classes. Where the load is 1 or more there are none: NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delays {
    /// From arrival to the beginning of service, s.
    pub waits: [f64; 2],
    /// From arrival to the end of service, s: the paper's queuing delay, eq. (4), (5).
    pub delays: [f64; 2],
    /// Wait of all packets, s: eq. (3).
    pub mean_wait: f64,
    /// Delay of all packets, s: eq. (6).
    pub mean_delay: f64,
}

impl Classes {
    /// Classes of these `services` (s) that together have `load` (0 to 1); `share` (0 to 1) of the packets
    /// are small.
    pub fn of_load(load: f64, share: f64, services: [f64; 2]) -> Self {
        let all = load / (share * services[0] + (1.0 - share) * services[1]);
        Self {
            rates: [share * all, (1.0 - share) * all],
            services,
        }
    }

    /// `lambda1 / lambda`: the small among all packets.
    pub fn share(&self) -> f64 {
        self.rates[0] / (self.rates[0] + self.rates[1])
    }

    /// `u1`: how much of the time small packets are served.
    pub fn small_load(&self) -> f64 {
        self.rates[0] * self.services[0]
    }

    /// `u2` of Table 1: how much of the time the server is busy.
    pub fn load(&self) -> f64 {
        self.small_load() + self.rates[1] * self.services[1]
    }

    /// Case 1, eq. (1)-(6): small packets first, non-preemptive (Cobham).
    pub fn priority(&self) -> Delays {
        self.delays([
            self.rest() / (1.0 - self.small_load()),
            self.rest() / ((1.0 - self.small_load()) * self.idle()),
        ])
    }

    /// Case 2, eq. (10)-(12): in order of arrival, with the mean square that eq. (9) lacks.
    pub fn fifo(&self) -> Delays {
        self.delays([self.rest() / self.idle(); 2])
    }

    /// Case 2 with eq. (7)-(9) as printed.
    pub fn fifo_as_printed(&self) -> Delays {
        let mean = self.mean_of(self.services); // (8)
        self.delays([self.load() * mean / (2.0 * self.idle()); 2])
    }

    /// `kthresh` as it has to be: the share of the small packets that NCQ favours at `threshold` (0 to 1, a
    /// share of all packets).
    pub fn favoured(&self, threshold: f64) -> f64 {
        (threshold / self.share()).min(1.0)
    }

    /// `kthresh` as printed, upside down.
    pub fn favoured_as_printed(&self, threshold: f64) -> f64 {
        self.share() * threshold
    }

    /// Case 3, eq. (15)-(19): the share `favoured` (0 to 1) of the small packets goes first, the rest waits
    /// with the large, with the mean square that eq. (13), (14) lack.
    pub fn threshold(&self, favoured: f64) -> Delays {
        self.partly(favoured, self.rest())
    }

    /// Case 3 with eq. (13), (14) as printed.
    pub fn threshold_as_printed(&self, favoured: f64) -> Delays {
        let first = favoured * self.rates[0]; // lambda'1
        let left = self.rates[0] - first;
        let second = left + self.rates[1]; // lambda'2
        let mixed = (left * self.services[0] + self.rates[1] * self.services[1]) / second; // T'_S2
        let rest = (first * self.services[0].powi(2) + second * mixed.powi(2)) / 2.0;
        self.partly(favoured, rest)
    }

    fn partly(&self, favoured: f64, rest: f64) -> Delays {
        let before = 1.0 - favoured * self.small_load(); // 1 - u'1
        let first = rest / before; // (13)
        let second = rest / (before * self.idle()); // (14)
        self.delays([favoured * first + (1.0 - favoured) * second, second]) // (15), (16)
    }

    /// Mean rest of the service under way that an arrival finds: the numerator of eq. (1), halved.
    fn rest(&self) -> f64 {
        let both = self.rates.iter().zip(&self.services);
        both.map(|(rate, service)| rate * service * service)
            .sum::<f64>()
            / 2.0
    }

    /// `1 - u2`.
    fn idle(&self) -> f64 {
        1.0 - self.load()
    }

    /// Mean over all packets of what is `of` each class.
    fn mean_of(&self, of: [f64; 2]) -> f64 {
        self.share() * of[0] + (1.0 - self.share()) * of[1]
    }

    fn delays(&self, waits: [f64; 2]) -> Delays {
        let waits = match self.load() < 1.0 {
            true => waits,
            false => [f64::NAN; 2],
        };
        let delays = [waits[0] + self.services[0], waits[1] + self.services[1]];
        Delays {
            waits,
            delays,
            mean_wait: self.mean_of(waits),
            mean_delay: self.mean_of(delays),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Section 4.1: 0.5 and 5 ms, 10 % or 20 % small.
    fn paper(load: f64, share: f64) -> Classes {
        Classes::of_load(load, share, [0.5e-3, 5e-3])
    }

    fn ms(delays: Delays) -> [f64; 2] {
        delays.delays.map(|s| s * 1e3)
    }

    fn near(got: [f64; 2], expected: [f64; 2]) {
        for (got, expected) in got.into_iter().zip(expected) {
            assert!((got - expected).abs() < 0.0006, "{got} for {expected}");
        }
    }

    #[test]
    fn delays_of_fig_1_and_2_are_those_of_the_equations() {
        // Computed independently of this project: load 0.6, 10 % small, ms.
        let paper = paper(0.6, 0.1);
        near(ms(paper.priority()), [1.995, 8.738]);
        near(ms(paper.fifo_as_printed()), [3.913, 8.412]);
        near(ms(paper.fifo()), [4.213, 8.713]);
        let printed = paper.threshold_as_printed(paper.favoured_as_printed(0.05));
        near(ms(printed), [3.904, 8.414]);
    }

    #[test]
    fn waits_of_a_line_are_cobhams() {
        // 100 B at load 0.1 and 1500 B at 0.7 on 10 Mbit/s.
        let classes = Classes {
            rates: [1250.0, 583.333_333],
            services: [80e-6, 1.2e-3],
        };
        let got = classes.priority().waits.map(|s| s * 1e3);
        assert!((got[0] - 0.4711).abs() < 5e-5 && (got[1] - 2.3556).abs() < 5e-5);
        assert!((classes.fifo().mean_wait * 1e3 - 2.12).abs() < 5e-5);
    }

    #[test]
    fn fig_1_costs_the_large_little_and_the_cost_from_0_3_on_is_that_of_eq_9() {
        let cost = |load, share, fifo: fn(&Classes) -> Delays| {
            let classes = paper(load, share);
            classes.priority().delays[1] / fifo(&classes).delays[1] - 1.0
        };
        // The text on Fig. 1: visible above 0.6 with 10 %, above 0.3 with 20 %.
        let printed = Classes::fifo_as_printed;
        assert!(cost(0.6, 0.1, printed) > 0.035 && cost(0.3, 0.2, printed) > 0.029);
        // Computed: with 10 % under 0.3 % at 0.6, with 20 % 0.1 % at 0.3 and 1.8 % at 0.9.
        let right = Classes::fifo;
        assert!(cost(0.6, 0.1, right) < 0.003);
        assert!(cost(0.3, 0.2, right) < 0.0014);
        assert!((0.016..0.019).contains(&cost(0.9, 0.2, right)));
        // The gain of the small is large all the same: at 0.6 they wait for less than half as long.
        let [before, now] = [paper(0.6, 0.1).fifo(), paper(0.6, 0.1).priority()];
        assert!(now.delays[0] < 0.5 * before.delays[0]);
    }

    #[test]
    fn fig_1_leaves_the_mean_of_all_packets_as_it_was() {
        for share in [0.1, 0.2] {
            for tenths in 1..=9 {
                let classes = paper(f64::from(tenths) / 10.0, share);
                let ratio = classes.priority().mean_delay / classes.fifo().mean_delay;
                // Short ones first: the mean falls, by 14 % at most (20 % small, load 0.9).
                assert!((0.85..1.0).contains(&ratio), "{share} {tenths}: {ratio}");
                if share < 0.15 && tenths <= 6 {
                    assert!(ratio > 0.97, "{tenths}: {ratio}");
                }
            }
        }
    }

    #[test]
    fn fig_2_gains_with_load_and_threshold_at_no_cost_if_kthresh_is_right() {
        let gain = |load: f64, threshold: f64| {
            let classes = paper(load, 0.1);
            let ncq = classes.threshold(classes.favoured(threshold));
            let fifo = classes.fifo();
            assert!(ncq.delays[1] < 1.005 * fifo.delays[1], "{load} {threshold}");
            1.0 - ncq.delays[0] / fifo.delays[0]
        };
        for tenths in 1..=8 {
            let load = f64::from(tenths) / 10.0;
            for thresholds in [[0.01, 0.03], [0.03, 0.05]] {
                assert!(gain(load, thresholds[0]) < gain(load, thresholds[1]));
            }
            assert!(gain(load, 0.05) < gain(load + 0.1, 0.05));
        }
        // The text has nothing below a load of 0.23; there is a little.
        assert!(gain(0.23, 0.01) < 0.015 && gain(0.23, 0.05) < 0.07);
        assert!(gain(0.6, 0.05) > 0.26);
    }

    #[test]
    fn as_printed_kthresh_gains_nothing_that_fig_2_could_show() {
        for share in [0.1, 0.2] {
            for percent in 1..100 {
                let classes = paper(f64::from(percent) / 100.0, share);
                let favoured = classes.favoured_as_printed(0.05);
                let ncq = classes.threshold(favoured).delays[0];
                assert!(ncq > 0.99 * classes.fifo().delays[0]);
            }
        }
    }

    #[test]
    fn an_overload_has_no_delays() {
        let classes = paper(1.001, 0.1);
        for delays in [classes.priority(), classes.fifo(), classes.threshold(0.5)] {
            assert!(delays.mean_delay.is_nan() && delays.waits[0].is_nan());
        }
    }

    proptest! {
        #[test]
        fn work_that_waits_is_the_same_whatever_the_order(
            load in 0.01f64..0.99, share in 0.01f64..0.99,
            small in 1e-5f64..1e-2, large in 1e-5f64..1e-2, favoured in 0.0f64..=1.0,
        ) {
            // Kleinrock's conservation law: sum of load times wait.
            let classes = Classes::of_load(load, share, [small, large]);
            let work = |d: Delays| {
                let loads = [classes.small_load(), classes.load() - classes.small_load()];
                loads[0] * d.waits[0] + loads[1] * d.waits[1]
            };
            let fifo = work(classes.fifo());
            for delays in [classes.priority(), classes.threshold(favoured)] {
                prop_assert!((work(delays) / fifo - 1.0).abs() < 1e-9);
            }
        }

        #[test]
        fn no_favour_is_fifo_and_all_favour_is_priority(
            load in 0.01f64..0.99, share in 0.01f64..0.99, small in 1e-5f64..1e-2, large in 1e-5f64..1e-2,
        ) {
            let classes = Classes::of_load(load, share, [small, large]);
            let close = |a: Delays, b: Delays| {
                let all = a.delays.iter().zip(&b.delays);
                all.chain([(&a.mean_wait, &b.mean_wait)]).all(|(a, b)| (a / b - 1.0).abs() < 1e-9)
            };
            let none = classes.threshold(classes.favoured(0.0));
            prop_assert!(close(none, classes.fifo()));
            prop_assert!(close(classes.threshold_as_printed(0.0), classes.fifo_as_printed()));
            let all = classes.threshold(classes.favoured(1.0));
            prop_assert!(close(all, classes.priority()));
            prop_assert!(close(classes.threshold_as_printed(1.0), classes.priority()));
        }

        #[test]
        fn eq_9_waits_too_little_unless_all_packets_are_alike(
            load in 0.01f64..0.99, share in 0.01f64..0.99, small in 1e-5f64..1e-2, large in 1e-5f64..1e-2,
        ) {
            let classes = Classes::of_load(load, share, [small, large]);
            let (printed, right) = (classes.fifo_as_printed().mean_wait, classes.fifo().mean_wait);
            prop_assert!(printed <= right * (1.0 + 1e-12));
            let alike = Classes::of_load(load, share, [large, large]);
            prop_assert!((alike.fifo_as_printed().mean_wait / alike.fifo().mean_wait - 1.0).abs() < 1e-12);
        }

        #[test]
        fn priority_costs_the_large_no_more_than_the_load_of_the_small(
            load in 0.01f64..0.99, share in 0.01f64..0.99, small in 1e-5f64..1e-2, large in 1e-5f64..1e-2,
        ) {
            let classes = Classes::of_load(load, share, [small, large]);
            let ratio = classes.priority().waits[1] / classes.fifo().waits[1];
            prop_assert!((ratio * (1.0 - classes.small_load()) - 1.0).abs() < 1e-9);
        }
    }
}
