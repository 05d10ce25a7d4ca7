// SPDX-License-Identifier: MIT OR Apache-2.0
//! The congestion window: slow start, and its growth beyond.

mod cubic;
mod hystart;
mod ledbat;
mod reno;

use super::{Config, Variant};
use cubic::Cubic;
use hystart::HyStart;
use ledbat::Ledbat;
use makeway_core::units::{Duration, Instant};
use reno::Reno;

/// The window and its threshold, in bytes, and the rule of growth.
#[derive(Clone, Debug)]
pub struct Window {
    /// cwnd. In Reno's and NewReno's fast recovery it is inflated, RFC 5681 §3.2.
    pub cwnd: u64,
    pub ssthresh: u64,
    /// Result of the last reduction: cwnd after a recovery.
    pub reduced: u64,
    mss: u64,
    /// The most that one acknowledgement adds in slow start.
    limit: u64,
    initial: u64,
    whole: bool,
    /// Acknowledged and not grown by yet, where segments are whole.
    counted: u64,
    growth: Growth,
    /// Where slow start may end before a loss.
    hystart: Option<HyStart>,
}

#[derive(Clone, Debug)]
enum Growth {
    Reno(Reno),
    Cubic(Cubic),
    Ledbat(Ledbat),
}

impl Window {
    pub fn new(config: &Config) -> Self {
        let mss = u64::from(config.mss);
        let limit = u64::from(config.growth_limit.max(1)) * mss;
        let initial = u64::from(config.initial_window.max(1)) * mss;
        let growth = match config.variant {
            Variant::Cubic => Growth::Cubic(Cubic::new(mss, config.cubic_catches_up)),
            Variant::Ledbat => Growth::Ledbat(Ledbat::new(mss)),
            _ => Growth::Reno(Reno::new(mss, limit)),
        };
        Self {
            cwnd: initial,
            ssthresh: match config.variant {
                // It has no slow start.
                Variant::Ledbat => 0,
                _ => config.initial_ssthresh.get(),
            },
            reduced: initial,
            mss,
            limit,
            initial,
            whole: config.whole_segments,
            counted: 0,
            growth,
            hystart: (config.hystart && config.variant == Variant::Cubic).then(HyStart::new),
        }
    }

    /// `acked` new bytes were acknowledged, outside of a recovery, and the window was in use.
    #[inline]
    pub fn grow(&mut self, acked: u64, now: Instant, srtt: Option<Duration>) {
        if let Growth::Ledbat(ledbat) = &mut self.growth {
            self.cwnd = ledbat.window(self.cwnd, acked);
            return;
        }
        if self.whole {
            self.grow_whole(acked, now, srtt);
            return;
        }
        if self.cwnd < self.ssthresh {
            // RFC 5681 eq. (2), with RFC 3465 §2.2: cwnd += min(N, L * SMSS).
            self.cwnd += acked.min(self.limit);
            return;
        }
        self.cwnd += match &mut self.growth {
            Growth::Reno(reno) => reno.growth(self.cwnd, acked),
            Growth::Cubic(cubic) => {
                cubic.growth(self.cwnd, acked, now, srtt.unwrap_or(Duration::ZERO))
            }
            // Above.
            Growth::Ledbat(_) => 0,
        };
    }

    /// Linux's `tcp_slow_start` and `tcp_cong_avoid_ai` (`net/ipv4/tcp_cong.c`), with `snd_cwnd_cnt` in
    /// bytes; CUBIC's growth is paid in segments.
    #[inline]
    fn grow_whole(&mut self, acked: u64, now: Instant, srtt: Option<Duration>) {
        let mut acked = acked.min(self.limit);
        if self.cwnd < self.ssthresh {
            let slow = acked.min(self.ssthresh - self.cwnd) / self.mss * self.mss;
            self.cwnd += slow;
            acked -= slow;
            if acked == 0 {
                return;
            }
        }
        match &mut self.growth {
            Growth::Reno(_) => {
                if self.counted >= self.cwnd {
                    self.counted = 0;
                    self.cwnd += self.mss;
                }
                self.counted += acked;
                if self.counted >= self.cwnd {
                    let segments = self.counted / self.cwnd;
                    self.counted -= segments * self.cwnd;
                    self.cwnd += segments * self.mss;
                }
            }
            Growth::Cubic(cubic) => {
                self.counted += cubic.growth(self.cwnd, acked, now, srtt.unwrap_or(Duration::ZERO));
                let segments = self.counted / self.mss;
                self.counted -= segments * self.mss;
                self.cwnd += segments * self.mss;
            }
            Growth::Ledbat(_) => {}
        }
    }

    /// An acknowledgement up to `una` measured a round trip, with data sent up to `nxt`.
    #[inline]
    pub fn on_round_trip(&mut self, now: Instant, rtt: Duration, una: u64, nxt: u64) {
        if let Growth::Ledbat(ledbat) = &mut self.growth {
            return ledbat.on_round_trip(now, rtt);
        }
        if self.cwnd >= self.ssthresh {
            return;
        }
        if let Some(hystart) = &mut self.hystart
            && hystart.update(now, rtt, una, nxt, self.cwnd / self.mss)
        {
            self.ssthresh = self.cwnd;
        }
    }

    /// A loss or a mark while `flight` bytes were outstanding: sets the threshold, not the window.
    pub fn reduce(&mut self, flight: u64) {
        let reduced = match &mut self.growth {
            // RFC 5681 eq. (4).
            Growth::Reno(reno) => reno.reduced(flight),
            // RFC 9438 §4.6.
            Growth::Cubic(cubic) => cubic.reduced(flight),
            // RFC 6817 §2.4.1.
            Growth::Ledbat(ledbat) => ledbat.reduced(flight),
        };
        self.counted = 0;
        let reduced = match self.whole {
            true => reduced / self.mss * self.mss,
            false => reduced,
        };
        self.reduced = reduced.max(2 * self.mss);
        // Slow start ends at whole segments, as in ns-2 and Linux.
        self.ssthresh = match self.growth {
            Growth::Ledbat(_) => 0,
            _ => self.reduced / self.mss * self.mss,
        };
    }

    /// The timer has expired: the loss window of one segment (RFC 5681 §3.1).
    pub fn collapse(&mut self) {
        self.cwnd = self.mss;
        if let Growth::Cubic(cubic) = &mut self.growth {
            cubic.on_timeout();
        }
    }

    /// Nothing was sent for `idle`, more than a timeout (RFC 5681 §4.1): the restart window.
    pub fn restart(&mut self, idle: Duration) {
        self.cwnd = self.cwnd.min(self.initial);
        if let Growth::Cubic(cubic) = &mut self.growth {
            cubic.on_idle(idle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_segments_grow_by_one_when_a_window_is_acknowledged_and_leave_no_fraction() {
        let mss = 1448;
        let mut window = Window::new(&Config::linux(Variant::Sack));
        window.reduce(5 * mss);
        window.cwnd = window.reduced;
        assert_eq!((window.cwnd, window.ssthresh), (2 * mss, 2 * mss));
        let mut grown = |acked| {
            window.grow(acked * mss, Instant::ZERO, None);
            window.cwnd / mss
        };
        assert_eq!([1, 1, 1, 1, 1, 5].map(&mut grown), [2, 3, 3, 3, 4, 5]);
        // The count starts anew at a reduction: one of five is left from before.
        window.reduce(window.cwnd);
        window.cwnd = 2 * mss;
        window.grow(mss, Instant::ZERO, None);
        assert_eq!(window.cwnd, 2 * mss);
        // CUBIC's 0.7, rounded down.
        let mut cubic = Window::new(&Config::linux(Variant::Cubic));
        cubic.reduce(9 * mss);
        assert_eq!(cubic.reduced, 6 * mss);
    }
}
