// SPDX-License-Identifier: MIT OR Apache-2.0
//! The retransmission timeout, of TCP and of CCID 2.
//!
//! Source: V. Paxson, M. Allman, J. Chu, M. Sargent, "Computing TCP's Retransmission Timer", RFC 6298.
//!
//! | RFC | here |
//! | --- | --- |
//! | SRTT, RTTVAR | `srtt` / 8, `rttvar` / 4, in ticks, as in V. Jacobson, SIGCOMM 1988, appendix A |
//! | G | [`RtoParams::tick`] |
//! | alpha, beta, K | 1/8, 1/4, 4 |
//!
//! Departures: the least and largest timeout are configured, where the RFC says 1 s and 60 s or more.
//! With a coarse clock a measurement is the number of its ticks between sending and acknowledgement,
//! and at least one: so does ns-2.

use crate::units::{Duration, Instant};

/// Bounds of the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoParams {
    /// Before a measurement.
    pub initial: Duration,
    /// The least.
    pub min: Duration,
    /// The largest.
    pub max: Duration,
    /// The least that it is above SRTT.
    pub margin: Duration,
    /// Granularity of the sender's clock; zero counts as a nanosecond.
    pub tick: Duration,
}

impl Default for RtoParams {
    /// RFC 6298: 1 s at first and at least, 60 s at most; a fine clock.
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            min: Duration::from_secs(1),
            max: Duration::from_secs(60),
            margin: Duration::ZERO,
            tick: Duration::from_nanos(1),
        }
    }
}

/// Estimator of the round-trip time, and the timeout that follows from it.
#[derive(Clone, Debug)]
pub struct Rto {
    /// 8 SRTT in ticks; zero before the first measurement.
    srtt: u64,
    /// 4 RTTVAR in ticks.
    rttvar: u64,
    /// Nanoseconds in a tick.
    tick: u64,
    value: Duration,
    min: Duration,
    max: Duration,
    margin: Duration,
}

impl Rto {
    /// Nothing measured yet.
    pub fn new(params: RtoParams) -> Self {
        Self {
            srtt: 0,
            rttvar: 0,
            tick: params.tick.as_nanos().max(1),
            // (2.1)
            value: params.initial,
            min: params.min,
            max: params.max,
            margin: params.margin,
        }
    }

    /// A segment sent at `sent` was acknowledged at `now`. Ends a back-off (§5, last paragraph).
    #[inline]
    pub fn sample(&mut self, sent: Instant, now: Instant) {
        let r = (self.ticks(now).saturating_sub(self.ticks(sent))).max(1);
        if self.srtt == 0 {
            // (2.2): SRTT <- R, RTTVAR <- R/2.
            self.srtt = r * 8;
            self.rttvar = r * 2;
        } else {
            // (2.3): RTTVAR before SRTT.
            let srtt = self.srtt / 8;
            self.rttvar = self.rttvar - self.rttvar / 4 + srtt.abs_diff(r);
            self.srtt = self.srtt - srtt + r;
        }
        // RTO <- SRTT + max(G, K * RTTVAR), (2.4), (2.5).
        let margin = Duration::from_nanos(self.rttvar.max(1) * self.tick).max(self.margin);
        let rto = Duration::from_nanos(self.srtt / 8 * self.tick) + margin;
        self.value = rto.max(self.min).min(self.max);
    }

    /// (5.5): the timer has expired.
    pub fn back_off(&mut self) {
        self.value = (self.value * 2).min(self.max);
    }

    /// The timeout to set now.
    #[inline]
    pub fn value(&self) -> Duration {
        self.value
    }

    /// SRTT, after a first measurement.
    #[inline]
    pub fn srtt(&self) -> Option<Duration> {
        (self.srtt > 0).then(|| Duration::from_nanos(self.srtt * self.tick / 8))
    }

    /// RTTVAR, after a first measurement.
    #[cfg(test)]
    pub fn rttvar(&self) -> Option<Duration> {
        (self.srtt > 0).then(|| Duration::from_nanos(self.rttvar * self.tick / 4))
    }

    #[inline]
    fn ticks(&self, at: Instant) -> u64 {
        match self.tick {
            1 => at.as_nanos(),
            tick => at.as_nanos() / tick,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// The clock of ns-2's TCP.
    fn coarse() -> RtoParams {
        RtoParams {
            tick: Duration::from_millis(100),
            ..RtoParams::default()
        }
    }

    #[test]
    fn estimates_follow_rfc_6298_by_hand() {
        // Samples 1, 1.2, 0.9 s, worked out from (2.2) and (2.3).
        let mut rto = Rto::new(RtoParams::default());
        let mut seen = Vec::new();
        for ms in [1000, 1200, 900] {
            rto.sample(Instant::ZERO, at_ms(ms));
            seen.push((
                rto.srtt().unwrap().as_nanos(),
                rto.rttvar().unwrap().as_nanos(),
                rto.value().as_nanos(),
            ));
        }
        let expected = [
            (1_000_000_000, 500_000_000, 3_000_000_000),
            (1_025_000_000, 425_000_000, 2_725_000_000),
            (1_009_375_000, 350_000_000, 2_409_375_000),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn the_timeout_starts_at_its_initial_value_doubles_and_stays_in_its_bounds() {
        let mut rto = Rto::new(RtoParams::default());
        assert_eq!(rto.value(), Duration::from_secs(1));
        rto.sample(Instant::ZERO, at_ms(10));
        assert_eq!(rto.value(), Duration::from_secs(1));
        for _ in 0..3 {
            rto.back_off();
        }
        assert_eq!(rto.value(), Duration::from_secs(8));
        for _ in 0..10 {
            rto.back_off();
        }
        assert_eq!(rto.value(), Duration::from_secs(60));
        rto.sample(Instant::ZERO, at_ms(10));
        assert_eq!(rto.value(), Duration::from_secs(1));
    }

    #[test]
    fn a_steady_round_trip_keeps_the_margin() {
        // Linux: SRTT + 200 ms, however steady.
        let mut rto = Rto::new(RtoParams {
            min: Duration::from_millis(200),
            margin: Duration::from_millis(200),
            ..RtoParams::default()
        });
        for n in 0..200 {
            rto.sample(at_ms(n * 100), at_ms(n * 100 + 100));
        }
        assert_eq!(rto.value(), Duration::from_millis(300));
    }

    #[test]
    fn a_coarse_clock_counts_its_own_ticks() {
        // ns-2, 0.1 s: sent at 0.19 s in tick 1, acknowledged at 0.41 s in tick 4.
        let mut rto = Rto::new(coarse());
        rto.sample(at_ms(190), at_ms(410));
        assert_eq!(rto.srtt(), Some(Duration::from_millis(300)));
        // SRTT + 4 RTTVAR = 3 + 6 ticks, below the least timeout of 1 s.
        assert_eq!(rto.value(), Duration::from_secs(1));
        let mut rto = Rto::new(coarse());
        rto.sample(at_ms(190), at_ms(200 + 500));
        assert_eq!(rto.value(), Duration::from_millis(1800));
        assert_eq!(rto.rttvar(), Some(Duration::from_millis(300)));
    }
}
