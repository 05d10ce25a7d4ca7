// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clocks.

use makeway_core::units::Instant;
use rustix::time::{ClockId, clock_gettime};

const NS_PER_S: i64 = 1_000_000_000;

fn clock(id: ClockId) -> i64 {
    let t = clock_gettime(id);
    t.tv_sec as i64 * NS_PER_S + t.tv_nsec as i64
}

/// CLOCK_MONOTONIC.
pub fn now() -> Instant {
    Instant::from_nanos(clock(ClockId::Monotonic) as u64)
}

/// CLOCK_REALTIME less CLOCK_MONOTONIC, in ns.
pub fn offset() -> i64 {
    // Between two looks at the other clock, so that a thread that waits between them does not show as a step.
    let [before, real, after] =
        [ClockId::Monotonic, ClockId::Realtime, ClockId::Monotonic].map(clock);
    real - (before + after) / 2
}

/// Processor time of this thread.
pub fn cpu_seconds() -> f64 {
    clock(ClockId::ThreadCPUTime) as f64 / 1e9
}
