// SPDX-License-Identifier: MIT OR Apache-2.0
//! The controller of a sender whose transport decides: [`PathRate`].

use makeway_core::rate::{Feedback, FeedbackError, RateController};
use makeway_core::units::{Bytes, Duration, Instant, Rate};
use quinn::Connection;

use super::AHEAD;

/// Rate that quinn's congestion control (NewReno, CUBIC or BBR, as configured there) allows on its path. It does not say
/// when: the feeder of quinn asks for a datagram when quinn has room.
#[derive(Clone, Debug)]
pub struct PathRate {
    connection: Connection,
    rate: Rate,
    /// The longest RTT of late.
    peak: Duration,
    next_look: Instant,
}

/// From one look at quinn's path to the next. Chosen by us: as often as an encoder may follow.
const LOOK: Duration = Duration::from_millis(100);

/// Part of its way down to the RTT that the peak goes from look to look: half of it in 2.2 s, some periods of a window that fills a queue
/// and yields. Chosen by us.
const DECAY: u64 = 32;

impl PathRate {
    /// Path rate of this connection, after its handshake.
    pub fn new(connection: Connection) -> Self {
        Self {
            rate: window_per_rtt(&connection),
            peak: connection.rtt().into(),
            connection,
            next_look: Instant::ZERO,
        }
    }

    /// Smoothed and shortest round-trip time, and the congestion window in bytes.
    pub fn metrics(&self) -> (Duration, Duration, u64) {
        let path = self.connection.stats().path;
        let min_rtt = self.connection.min_rtt();
        (path.rtt.into(), min_rtt.into(), path.cwnd)
    }
}

impl RateController for PathRate {
    fn next_send(&self) -> Option<Instant> {
        Some(Instant::ZERO)
    }

    fn on_sent(&mut self, _now: Instant, _sequence: u64, _bytes: u32) {}

    /// Acknowledgements are quinn's.
    fn on_feedback(&mut self, _now: Instant, _feedback: &Feedback) -> Result<(), FeedbackError> {
        Err(FeedbackError::WrongKind)
    }

    fn next_timeout(&self) -> Option<Instant> {
        Some(self.next_look)
    }

    fn on_timeout(&mut self, now: Instant) {
        self.rate = window_per_rtt(&self.connection);
        let rtt = Duration::from(self.connection.rtt()).as_nanos();
        let peak = self.peak.as_nanos();
        let lower = peak - peak.saturating_sub(rtt) / DECAY;
        self.peak = Duration::from_nanos(lower.max(rtt));
        self.next_look = now + LOOK;
    }

    fn rate(&self) -> Rate {
        self.rate
    }

    fn rtt(&self) -> Option<Duration> {
        Some(self.connection.rtt().into())
    }

    /// Half of the shortest round trip, the surplus of the longest of late, and a packet that quinn holds: the backlog is on the
    /// path there, where the data are.
    fn one_way(&self) -> Option<Duration> {
        let least = Duration::from(self.connection.min_rtt());
        let queueing = self.peak.as_nanos().saturating_sub(least.as_nanos());
        let held = Bytes::new(AHEAD as u64) / self.rate.max(Rate::from_bps(1));
        Some(least / 2 + Duration::from_nanos(queueing) + held)
    }
}

/// A congestion window per round trip, less what a packet has besides a datagram.
fn window_per_rtt(connection: &Connection) -> Rate {
    let path = connection.stats().path;
    let payload = connection.max_datagram_size().unwrap_or(0) as u128;
    let bits = 8 * u128::from(path.cwnd) * payload / u128::from(path.current_mtu.max(1));
    let bps = bits * 1_000_000_000 / path.rtt.as_nanos().max(1);
    Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}
