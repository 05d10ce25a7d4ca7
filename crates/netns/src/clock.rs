// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clocks of a run: departures keep to the monotonic clock, stamps are of the real-time clock,
//! since the kernel stamps arriving packets with that one.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::ClockId;
use rustix::time::Timespec;

/// The start of traffic, on both clocks, in ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch {
    monotonic: u64,
    real: u64,
}

/// Waits are cut in pieces of this, so that a stop is seen.
const PIECE: u64 = 50_000_000;

impl Epoch {
    /// The instant `ahead` ns from now.
    pub(crate) fn after(ahead: u64) -> Self {
        Self {
            monotonic: read(ClockId::Monotonic) + ahead,
            real: read(ClockId::Realtime) + ahead,
        }
    }

    /// Ns since the epoch by the monotonic clock; zero before it.
    pub(crate) fn elapsed(&self) -> u64 {
        read(ClockId::Monotonic).saturating_sub(self.monotonic)
    }

    /// Ns since the epoch by the clock of the stamps.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp_of(read(ClockId::Realtime))
    }

    /// The same of a time that the kernel gave, in ns since 1970.
    pub(crate) fn stamp_of(&self, real: u64) -> u64 {
        real.saturating_sub(self.real)
    }

    /// Ns since the epoch by the monotonic clock of a time that the kernel gave a moment ago, in ns since 1970.
    pub(crate) fn elapsed_at(&self, real: u64) -> u64 {
        let ago = read(ClockId::Realtime).saturating_sub(real);
        self.elapsed().saturating_sub(ago)
    }

    /// Sleeps until `at` ns after the epoch. False if `stop` was set before.
    pub(crate) fn sleep_until(&self, at: u64, stop: &AtomicBool) -> bool {
        let target = self.monotonic + at;
        loop {
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            let now = read(ClockId::Monotonic);
            if now >= target {
                return true;
            }
            let until = target.min(now + PIECE);
            let request = Timespec {
                tv_sec: (until / 1_000_000_000) as i64,
                tv_nsec: (until % 1_000_000_000) as i64,
            };
            // An interrupted sleep is looked at again above.
            let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &request);
        }
    }
}

fn read(clock: ClockId) -> u64 {
    let t = rustix::time::clock_gettime(match clock {
        ClockId::Realtime => rustix::time::ClockId::Realtime,
        _ => rustix::time::ClockId::Monotonic,
    });
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Makes the calling thread wake on time: timer slack of 1 ns (50 us otherwise) and, where the
/// machine allows it, the lowest real-time priority, like the datapath's. Both are best effort; the
/// report tells of lateness.
pub(crate) fn be_punctual() {
    // SAFETY: both calls take plain numbers or a pointer to a live value, for this thread alone.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0);
        let param = libc::sched_param { sched_priority: 1 };
        if libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) == 0 {
            return;
        }
    }
    be_quick();
}

/// Puts the calling thread before ordinary work, where the machine allows it.
pub(crate) fn be_quick() {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    // SAFETY: plain numbers; on Linux a thread has a priority of its own.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, thread as libc::id_t, -10) };
}
