// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faster restart: after a pause the rate may quadruple in an RTT, up to the receive rate before it.
//!
//! Source: E. Kohler, S. Floyd, A. Sathiaseelan, "Faster Restart for TCP Friendly Rate Control (TFRC)",
//! draft-ietf-dccp-tfrc-faster-restart-06, 2008, §3.
//!
//! | draft | here |
//! | --- | --- |
//! | X_active_recv, T_active_recv | `active`, `since` |
//! | DecayTime | [`DECAY`] |
//! | F | `share` |
//!
//! Departure: the draft's pseudocode divides by 2 minutes where its text has F run from 1 after one DecayTime to 0 after three;
//! here it divides by 4.

use crate::units::{Duration, Instant};

/// DecayTime.
const DECAY: Duration = Duration::from_secs(120);

/// Receive rate of the last active period, in bytes per second, and its time.
#[derive(Clone, Copy, Debug, Default)]
pub struct FasterRestart {
    active: f64,
    since: Instant,
}

impl FasterRestart {
    /// recv_limit with faster restart (§3.1). `congested`: feedback speaks of a loss or mark.
    pub fn limit(&mut self, now: Instant, received: f64, congested: bool, recv_limit: f64) -> f64 {
        let mut fast_max = self.interpolate(now);
        let achieved = !congested && received >= fast_max;
        if achieved || congested && received < fast_max {
            fast_max = if achieved { received } else { received / 2.0 };
            self.active = fast_max;
            self.since = now;
        }
        if recv_limit < fast_max {
            (2.0 * recv_limit).min(fast_max)
        } else {
            recv_limit
        }
    }

    /// X_fast_max: all of it for one DecayTime, none after three.
    fn interpolate(&self, now: Instant) -> f64 {
        let decay = DECAY.as_secs_f64();
        let age = now.saturating_since(self.since).as_secs_f64();
        let share = (3.0 * decay - age.clamp(decay, 3.0 * decay)) / (2.0 * decay);
        share * self.active
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::from_nanos(s * 1_000_000_000)
    }

    fn active(rate: f64) -> FasterRestart {
        let mut fast = FasterRestart::default();
        assert_eq!(fast.limit(at(1000), rate, false, 2.0 * rate), 2.0 * rate);
        fast
    }

    /// X_fast_max 50, X_recv 10: X 40; X_recv 20: 50; X_recv 30: 60.
    #[test]
    fn the_rate_quadruples_up_to_what_was_received_before() {
        for (received, limit) in [(10.0, 40.0), (20.0, 50.0), (30.0, 60.0)] {
            let mut fast = active(50.0);
            assert_eq!(fast.limit(at(1010), received, false, 2.0 * received), limit);
        }
    }

    #[test]
    fn it_is_forgotten_between_two_and_six_minutes() {
        for (age, limit) in [(120, 40.0), (240, 25.0), (360, 20.0), (3600, 20.0)] {
            let mut fast = active(50.0);
            assert_eq!(
                fast.limit(at(1000 + age), 10.0, false, 20.0),
                limit,
                "{age} s"
            );
        }
    }

    /// A loss at X_recv 12 leaves X_fast_max 6.
    #[test]
    fn a_loss_lowers_it_to_half_of_what_is_received() {
        let mut fast = active(50.0);
        assert_eq!(fast.limit(at(1010), 12.0, true, 24.0), 24.0);
        assert_eq!(fast.limit(at(1011), 2.0, false, 4.0), 6.0);
    }
}
