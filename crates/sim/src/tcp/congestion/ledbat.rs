// SPDX-License-Identifier: MIT OR Apache-2.0
//! A window that keeps its own queueing delay at a target, so that other traffic goes before it.
//!
//! Source: S. Shalunov, G. Hazel, J. Iyengar, M. Kuehlewind, "Low Extra Delay Background Transport (LEDBAT)", RFC 6817,
//! section 2.4.
//!
//! | RFC | here |
//! | --- | --- |
//! | TARGET, GAIN, MIN_CWND | [`TARGET`], 1, [`LEAST`] |
//! | `base_delays`, BASE_HISTORY | `base`, the least of each of the last [`HISTORY`] minutes |
//! | `current_delays`, CURRENT_FILTER | `current`, the least of the last four |
//!
//! Departures: delays are round trips, as in LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus), since acknowledgements carry no
//! one-way delay; they need a way back without a queue. No slow start (§2.4.1 allows one); a loss halves the window as Reno's.

use makeway_core::units::{Duration, Instant};

/// Target of queueing delay: no more than 100 ms (§2.4.2 allows less).
const TARGET: f64 = 0.1;
/// In segments.
const LEAST: u64 = 2;
/// Minutes for which the least delay is known.
const HISTORY: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Longer than any round trip.
const NEVER: Duration = Duration::from_secs(3600);

/// The growth of LEDBAT's window.
#[derive(Clone, Debug)]
pub struct Ledbat {
    mss: f64,
    base: [Duration; HISTORY],
    /// When the first of `base` began.
    minute: Option<Instant>,
    current: [Duration; 4],
    /// Growth below a byte, either way.
    credit: f64,
}

impl Ledbat {
    pub fn new(mss: u64) -> Self {
        Self {
            mss: mss as f64,
            base: [NEVER; HISTORY],
            minute: None,
            current: [NEVER; 4],
            credit: 0.0,
        }
    }

    pub fn on_round_trip(&mut self, now: Instant, rtt: Duration) {
        let minute = *self.minute.get_or_insert(now);
        if now.saturating_since(minute) >= MINUTE {
            self.base.rotate_right(1);
            self.base[0] = rtt;
            self.minute = Some(now);
        }
        self.base[0] = self.base[0].min(rtt);
        self.current.rotate_right(1);
        self.current[0] = rtt;
    }

    /// The window after `acked` new bytes: `cwnd += GAIN off_target acked MSS / cwnd`.
    pub fn window(&mut self, cwnd: u64, acked: u64) -> u64 {
        let least = |delays: &[Duration]| {
            let least = delays.iter().min().copied().unwrap_or(NEVER);
            least.as_secs_f64()
        };
        let queueing = (least(&self.current) - least(&self.base)).max(0.0);
        let off_target = (TARGET - queueing) / TARGET;
        let change = off_target * acked as f64 * self.mss / cwnd.max(1) as f64;
        // A whole window of acknowledgements takes no more than the window away.
        self.credit += change.max(-(cwnd as f64));
        let bytes = self.credit.trunc();
        self.credit -= bytes;
        let least = LEAST * self.mss as u64;
        (cwnd as i64 + bytes as i64).max(least as i64) as u64
    }

    /// Half of the outstanding bytes.
    pub fn reduced(&mut self, flight: u64) -> u64 {
        self.credit = 0.0;
        flight / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The window after 100 round trips of which each queues `queue` ms, from 20 segments.
    fn after(queue: u64) -> u64 {
        let mut ledbat = Ledbat::new(MSS);
        ledbat.on_round_trip(Instant::ZERO, ms(50));
        let mut cwnd = 20 * MSS;
        for n in 0..100 {
            (0..4).for_each(|_| ledbat.on_round_trip(Instant::ZERO + ms(n), ms(50 + queue)));
            cwnd = ledbat.window(cwnd, cwnd);
        }
        cwnd
    }

    #[test]
    fn the_window_grows_by_a_segment_below_and_falls_above_the_target() {
        // Without a queue by a whole segment each round trip, at half the target by half of one.
        assert_eq!(after(0), 120 * MSS);
        assert_eq!(after(50), 70 * MSS);
        assert_eq!(after(100), 20 * MSS);
        // To the byte that rounding leaves.
        assert!(after(110).abs_diff(10 * MSS) <= 1);
        assert_eq!(after(200), 2 * MSS);
    }

    #[test]
    fn one_late_acknowledgement_is_no_queue_and_a_base_is_forgotten_after_ten_minutes() {
        let mut ledbat = Ledbat::new(MSS);
        (0..4).for_each(|_| ledbat.on_round_trip(Instant::ZERO, ms(50)));
        ledbat.on_round_trip(Instant::ZERO, ms(400));
        assert_eq!(ledbat.window(10 * MSS, MSS), 10 * MSS + 100);
        // A longer path: a queue for ten minutes, and then none.
        let grown = |ledbat: &mut Ledbat, minute: u64| {
            let now = Instant::ZERO + MINUTE * minute;
            (0..4).for_each(|_| ledbat.on_round_trip(now, ms(250)));
            ledbat.window(10 * MSS, MSS) > 10 * MSS
        };
        let grows: Vec<bool> = (1..=10).map(|minute| grown(&mut ledbat, minute)).collect();
        assert_eq!(
            grows,
            [
                false, false, false, false, false, false, false, false, false, true
            ]
        );
    }
}
