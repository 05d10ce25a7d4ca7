// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lift of a bulk flow's target: CoDel's 20 ms double, twice at most, if the link idles after a *cut* of the flow: a drop by
//! CoDel, or a packet that leaves marked.
//!
//! A flow whose window of packets is smaller than the bandwidth-delay product of its path and 20 ms of the link empties the link
//! after each cut, and keeps it busy with a deeper queue. Where the link does not idle a deeper queue is delay alone.

use super::record::{WINDOW_BITS, window};
use crate::units::{Duration, Instant};
use core::num::NonZeroU64;

/// CoDel's target for a bulk flow's queue without a lift. Each step of the lift doubles it.
pub const TARGET: Duration = Duration::from_millis(20);
const STEPS: u64 = 2;
/// A lift has a step less 8 s after it had its last one, and another 8 s later.
const LASTS: Duration = Duration::from_secs(8);
/// Time after a cut in which the link has to idle, for more than this part of a window.
const WITHIN: Duration = Duration::from_secs(2);
const IDLE_OF: u64 = 16;

/// One flow's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lift {
    /// When the last of its steps ends.
    until: Instant,
    /// The flow's last cut, in ns; `None` if it was lifted since.
    cut: Option<NonZeroU64>,
}

impl Lift {
    /// CoDel dropped a packet, or one leaves marked.
    pub fn on_cut(&mut self, now: Instant) {
        self.cut = NonZeroU64::new(now.as_nanos());
    }

    /// The flow's target, as a packet of it is to leave.
    pub fn target(&mut self, now: Instant, idle: &IdleTime) -> Duration {
        let mut steps = self.steps(now);
        if self.is_due(now, idle) {
            steps = (steps + 1).min(STEPS);
            self.until = now + LASTS * steps;
            self.cut = None;
        }
        TARGET * (1u64 << steps)
    }

    /// Steps that it has.
    fn steps(&self, now: Instant) -> u64 {
        u64::from(now < self.until) + u64::from(now + LASTS < self.until)
    }

    /// Whether the link idles after the cut.
    fn is_due(&self, now: Instant, idle: &IdleTime) -> bool {
        let Some(cut) = self.cut else {
            return false;
        };
        let cut = Instant::from_nanos(cut.get());
        let is_within = idle.empty > cut && idle.empty.saturating_since(cut) <= WITHIN;
        is_within && idle.is_long(now)
    }
}

/// The link's idle times: the buffer was empty, and no packet was being sent. Each counts in the window in which it began, so that it is
/// forgotten after a window without packets: senders had none.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdleTime {
    /// When the buffer was empty last.
    empty: Instant,
    /// The window in which the latest began, and ns of those that began in it and in the one before.
    window: u32,
    now: u64,
    last: u64,
}

impl IdleTime {
    /// The last packet of the buffer leaves.
    pub fn begin(&mut self, now: Instant) {
        self.empty = now;
    }

    /// A packet comes to an empty buffer. The one that left last was being sent for `frame`, the time of a full one, at most.
    pub fn end(&mut self, now: Instant, frame: Duration) {
        let at = window(self.empty);
        if at != self.window {
            self.last = if at == self.window + 1 { self.now } else { 0 };
            (self.window, self.now) = (at, 0);
        }
        let empty = now.saturating_since(self.empty).as_nanos();
        self.now += empty.saturating_sub(frame.as_nanos()).min(1 << WINDOW_BITS);
        // Also if this packet is dropped, so that no time counts twice.
        self.empty = now;
    }

    /// Whether the link was idle for a sixteenth of this window or of the one before.
    fn is_long(&self, now: Instant) -> bool {
        let longest = match window(now).wrapping_sub(self.window) {
            0 => self.now.max(self.last),
            1 => self.now,
            _ => 0,
        };
        longest * IDLE_OF >= 1 << WINDOW_BITS
    }
}

#[cfg(test)]
mod tests {
    use super::super::Makeway;
    use super::*;
    use crate::packet::{Ecn, FlowId};
    use crate::sched::testing::{limits, packet};
    use crate::sched::{Drops, Scheduler};
    use crate::units::Bytes;

    const FRAME: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// A link whose buffer is empty from and to these ms.
    fn empty(times: &[(u64, u64)]) -> IdleTime {
        let mut idle = IdleTime::default();
        for &(from, to) in times {
            idle.begin(at(from));
            idle.end(at(to), FRAME);
        }
        idle
    }

    /// The target in ms at `now` of a flow with a cut at 10 s, if the buffer is empty in these times.
    fn target(times: &[(u64, u64)], now: u64) -> u64 {
        let mut lift = Lift::default();
        lift.on_cut(at(10_000));
        target_of(&mut lift, &empty(times), now)
    }

    fn target_of(lift: &mut Lift, idle: &IdleTime, now: u64) -> u64 {
        lift.target(at(now), idle).as_nanos() / 1_000_000
    }

    /// A flow with cuts at these s, after each of which the link idles; its targets 0.2 s after them.
    fn lifted(cuts: &[u64]) -> (Lift, Vec<u64>) {
        let mut lift = Lift::default();
        let targets = cuts.iter().map(|s| {
            let ms = s * 1000;
            lift.on_cut(at(ms));
            target_of(&mut lift, &empty(&[(ms + 100, ms + 200)]), ms + 200)
        });
        let targets = targets.collect();
        (lift, targets)
    }

    #[test]
    fn the_target_doubles_if_the_link_idles_within_two_seconds_after_a_cut() {
        assert_eq!(target(&[(10_100, 10_200)], 10_200), 40);
        assert_eq!(target(&[(11_900, 12_000)], 12_000), 40);
        assert_eq!(target(&[(11_901, 12_001)], 12_001), 20);
        // Before it, and without one.
        assert_eq!(target(&[(9_900, 10_000)], 10_010), 20);
        let idle = empty(&[(100, 200)]);
        assert_eq!(target_of(&mut Lift::default(), &idle, 200), 20);
    }

    #[test]
    fn a_link_that_is_busy_for_fifteen_sixteenths_of_a_window_does_not_idle() {
        assert_eq!(target(&[], 10_200), 20);
        // A sixteenth is 33.55 ms. A frame of 1 ms is still being sent.
        assert_eq!(target(&[(10_100, 10_134)], 10_134), 20);
        assert_eq!(target(&[(10_100, 10_135)], 10_135), 40);
        let twice = |ms: u64| [(10_300, 10_300 + ms), (10_500, 10_500 + ms)];
        assert_eq!(target(&twice(17), 10_520), 20);
        assert_eq!(target(&twice(18), 10_520), 40);
    }

    /// Windows begin at 10.201, 10.737, 11.274 and 11.811 s.
    #[test]
    fn idle_times_count_in_the_window_in_which_they_begin_and_in_the_next() {
        let first = (10_600, 10_700);
        assert_eq!(target(&[first], 11_270), 40);
        assert_eq!(target(&[first], 11_280), 20);
        assert_eq!(target(&[first, (10_800, 10_801)], 11_270), 40);
        assert_eq!(target(&[first, (11_300, 11_301)], 11_310), 20);
        // In two windows, each for less.
        assert_eq!(target(&[(10_700, 10_720), (10_760, 10_780)], 10_780), 20);
        // The next has no packet, or one at its end.
        assert_eq!(target(&[(10_600, 11_280)], 11_280), 20);
        assert_eq!(target(&[(10_600, 11_270)], 11_270), 40);
    }

    #[test]
    fn no_time_counts_twice() {
        let mut idle = empty(&[(10_100, 10_118)]);
        // The packet that came was dropped.
        idle.end(at(10_120), Duration::ZERO);
        let mut lift = Lift::default();
        lift.on_cut(at(10_000));
        assert_eq!(target_of(&mut lift, &idle, 10_120), 20);
        idle.end(at(10_135), Duration::ZERO);
        assert_eq!(target_of(&mut lift, &idle, 10_135), 40);
    }

    #[test]
    fn the_target_is_80_ms_at_most() {
        let (_, targets) = lifted(&[10, 12, 14, 16]);
        assert_eq!(targets, [40, 80, 80, 80]);
    }

    #[test]
    fn a_cut_lifts_once() {
        let (mut lift, _) = lifted(&[10]);
        let idle = empty(&[(10_300, 10_400)]);
        assert_eq!(target_of(&mut lift, &idle, 10_400), 40);
        lift.on_cut(at(10_350));
        assert_eq!(target_of(&mut lift, &idle, 10_400), 80);
    }

    #[test]
    fn the_target_halves_eight_seconds_after_the_last_lift_and_again() {
        let (mut lift, _) = lifted(&[10, 12]);
        let busy = IdleTime::default();
        let steps = [(20_199, 80), (20_200, 40), (28_199, 40), (28_200, 20)];
        for (now, target) in steps {
            assert_eq!(target_of(&mut lift, &busy, now), target, "{now}");
        }
        // At most already, it stays there for longer.
        let (mut lift, _) = lifted(&[10, 12, 18]);
        assert_eq!(target_of(&mut lift, &busy, 26_199), 80);
        assert_eq!(target_of(&mut lift, &busy, 26_200), 40);
    }

    #[test]
    fn a_mark_is_a_cut() {
        let mut makeway = Makeway::new(limits(10, 10_000), 1, Bytes::new(1538), 1);
        let mut drops = Drops::default();
        // Its queue stands, so that it is bulk.
        for ms in [0, 260, 260, 260, 260, 260, 260] {
            let mut pkt = packet(0, 0, 1000).with_ecn(Ecn::Capable);
            pkt.arrived = at(ms);
            makeway.enqueue(at(ms), pkt, &mut drops);
        }
        for (ms, cut) in [(290, None), (400, Some(400))] {
            makeway.dequeue(at(ms), &mut drops).unwrap();
            let last = makeway.rests[0].lift.cut;
            assert_eq!(last.map(|cut| cut.get() / 1_000_000), cut);
        }
        assert!(drops.is_empty());
    }

    #[test]
    fn a_flow_that_is_forgotten_has_no_lift() {
        let mut makeway = Makeway::new(limits(10, 10_000), 1, Bytes::new(1538), 1);
        let mut drops = Drops::default();
        let (lift, _) = lifted(&[10, 12]);
        let mut pass = |makeway: &mut Makeway, ms| {
            makeway.enqueue(at(ms), packet(0, 0, 1000), &mut drops);
            makeway.dequeue(at(ms), &mut drops).unwrap();
        };
        pass(&mut makeway, 13_000);
        makeway.rests[0].lift = lift.clone();
        pass(&mut makeway, 14_000);
        assert_eq!(makeway.rests[0].lift, lift);
        // It is not known after 3 s.
        pass(&mut makeway, 17_001);
        assert_eq!(makeway.rests[0].lift, Lift::default());
        // Its number is another's.
        makeway.rests[0].lift = lift;
        makeway.forget(FlowId(0));
        assert_eq!(makeway.rests[0].lift, Lift::default());
    }
}
