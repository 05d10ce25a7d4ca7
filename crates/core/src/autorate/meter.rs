// SPDX-License-Identifier: MIT OR Apache-2.0
//! A rate over the last ticks.

use crate::units::{Bytes, Duration, Instant, Rate};

/// Ticks that are remembered: 1.6 s of them.
const TICKS: usize = 32;

/// Bytes so far, as they were at the last ticks.
#[derive(Clone, Debug)]
pub struct Meter {
    total: Bytes,
    ticks: [(Instant, Bytes); TICKS],
    /// Place of the newest.
    newest: usize,
}

impl Meter {
    pub fn new(now: Instant) -> Self {
        Self {
            total: Bytes::ZERO,
            ticks: [(now, Bytes::ZERO); TICKS],
            newest: 0,
        }
    }

    pub fn add(&mut self, bytes: Bytes) {
        self.total += bytes;
    }

    pub fn tick(&mut self, now: Instant) {
        self.newest = (self.newest + 1) % TICKS;
        self.ticks[self.newest] = (now, self.total);
    }

    /// The mean rate from the latest tick that is `window` or more before the newest one; zero before two ticks.
    pub fn over(&self, window: Duration) -> Rate {
        let (now, total) = self.ticks[self.newest];
        let before = (1..TICKS).map(|back| self.ticks[(self.newest + TICKS - back) % TICKS]);
        let mut from = (now, total);
        for tick in before {
            from = tick;
            if now.saturating_since(tick.0) >= window {
                break;
            }
        }
        per(total - from.1, now.saturating_since(from.0))
    }
}

/// `bytes` in `time`; zero in no time.
fn per(bytes: Bytes, time: Duration) -> Rate {
    let bits = u128::from(bytes.get()) * 8_000_000_000;
    let bps = bits.checked_div(u128::from(time.as_nanos()));
    Rate::from_bps(bps.map_or(0, |bps| u64::try_from(bps).unwrap_or(u64::MAX)))
}
