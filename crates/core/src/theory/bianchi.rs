// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saturated stations of one 802.11 cell: G. Bianchi, "Performance analysis of the IEEE 802.11
//! distributed coordination function", IEEE JSAC 18(3), 2000.
//!
//! | paper | here |
//! | --- | --- |
//! | n | `stations` |
//! | W, m | `window`, `stages` |
//! | σ, T_s, T_c, E\[P\] | `slot`, `success`, `collision`, `payload` |
//! | τ, p | [`Dcf::attempts`], [`Dcf::collisions`] |
//!
//! The paper's chain counts a busy time as a slot for everybody, where the standard freezes the others:
//! with five to ten stations it is about 1 % above a DCF by the letter. Frames are tried for ever.

#[cfg(not(feature = "std"))]
use num_traits::Float as _;

/// A cell. All times have the same unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dcf {
    /// Stations that always have a frame, 1 or more.
    pub stations: u32,
    /// Values of the first backoff: CWmin + 1.
    pub window: u32,
    /// How often the window is doubled: CWmax + 1 = 2^m W.
    pub stages: u32,
    /// An idle slot.
    pub slot: f64,
    /// From the begin of a frame that succeeds until the next slot can begin: frame, SIFS, ACK and DIFS.
    pub success: f64,
    /// The same of frames that collide: the longest, and DIFS or EIFS.
    pub collision: f64,
    /// Payload of a frame, in the unit of the throughput times the unit of time.
    pub payload: f64,
}

impl Dcf {
    /// τ: the probability that a station begins a frame in a slot; eq. (7), with (9) by bisection.
    pub fn attempts(&self) -> f64 {
        // (7) falls where (9) rises, so they meet once.
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..100 {
            let tau = (low + high) / 2.0;
            if self.chain(self.met(tau)) > tau {
                low = tau;
            } else {
                high = tau;
            }
        }
        (low + high) / 2.0
    }

    /// p: the probability that a frame collides; eq. (9).
    pub fn collisions(&self) -> f64 {
        self.met(self.attempts())
    }

    /// S: payload carried in a unit of time; eq. (10), (11) and (13).
    pub fn throughput(&self) -> f64 {
        let (tau, n) = (self.attempts(), self.stations as i32);
        let idle = (1.0 - tau).powi(n);
        let alone = f64::from(n) * tau * (1.0 - tau).powi(n - 1);
        let collide = 1.0 - idle - alone;
        let slot = idle * self.slot + alone * self.success + collide * self.collision;
        alone * self.payload / slot
    }

    /// Eq. (7), with its fraction cleared so that p = 1/2 is no exception.
    fn chain(&self, p: f64) -> f64 {
        let w = f64::from(self.window);
        let doublings: f64 = (0..self.stages as i32).map(|i| (2.0 * p).powi(i)).sum();
        2.0 / (1.0 + w + p * w * doublings)
    }

    fn met(&self, tau: f64) -> f64 {
        1.0 - (1.0 - tau).powi(self.stations as i32 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 802.11b at 11 Mbit/s, 1500 B: times in us, throughput in Mbit/s.
    fn cell(stations: u32, ifs: f64) -> Dcf {
        Dcf {
            stations,
            window: 32,
            stages: 5,
            slot: 20.0,
            success: 1310.0 + 10.0 + 248.0 + 50.0,
            collision: 1310.0 + ifs,
            payload: 12_000.0,
        }
    }

    #[test]
    fn a_station_alone_waits_for_half_its_window() {
        // 15.5 slots of 20 us before each 1618 us.
        let alone = cell(1, 50.0);
        assert!((alone.throughput() - 12_000.0 / (310.0 + 1618.0)).abs() < 1e-9);
        assert!(alone.collisions().abs() < 1e-9);
    }

    #[test]
    fn saturation_throughput_is_that_of_others() {
        // Given by others for these cells; by what model is not known, so to 1 %.
        for (stations, ifs, mbit) in [
            (1, 50.0, 6.236),
            (5, 50.0, 6.473),
            (10, 50.0, 6.177),
            (5, 364.0, 6.382),
            (10, 364.0, 6.027),
        ] {
            let got = cell(stations, ifs).throughput();
            assert!((got / mbit - 1.0).abs() < 0.01, "{stations}, {ifs}: {got}");
        }
    }

    #[test]
    fn the_fixed_point_holds_on_both_sides() {
        for stations in [2, 3, 20, 200] {
            let cell = cell(stations, 50.0);
            let (tau, p) = (cell.attempts(), cell.collisions());
            // Eq. (7) as it is printed.
            let (w, m) = (32.0, 5);
            let printed = 2.0 * (1.0 - 2.0 * p)
                / ((1.0 - 2.0 * p) * (w + 1.0) + p * w * (1.0 - (2.0 * p).powi(m)));
            assert!((tau - printed).abs() < 1e-9, "{stations}: {tau} {printed}");
        }
    }
}
