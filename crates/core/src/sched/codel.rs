// SPDX-License-Identifier: MIT OR Apache-2.0
//! Controlled delay: a drop-tail FIFO that drops packets at the head once none has left within a
//! target time for a whole interval, more and more often until one does.
//!
//! Source: K. Nichols, V. Jacobson, A. McGregor, J. Iyengar, "Controlled Delay Active Queue Management",
//! RFC 8289, 2018, section 5; first in K. Nichols, V. Jacobson, "Controlling queue delay", ACM Queue
//! 10(5), 2012.
//!
//! | RFC | here |
//! | --- | --- |
//! | `TARGET`, `INTERVAL` | [`CoDelParams`] |
//! | `deque`, `dodequeue` | [`Control::dequeue`], [`Control::next`] |
//! | `control_law` | [`spacing`] |
//! | `first_above_time_`, `drop_next_` | `first_above`, `drop_next` |
//! | `count_`, `lastcount_`, `dropping_` | `count`, `last_count`, `dropping` |
//! | `bytes()`, `MAXPACKET` | the bytes behind a packet, [`CoDelParams::mtu`] or `largest` |
//!
//! The control law is exact: `interval / sqrt(count)`, rounded down to a nanosecond, is the integer square
//! root of `interval^2 / count`. Linux keeps a reciprocal root of 16 bits and improves it by one Newton
//! step a drop, which saves a division and a root. Here they are paid for a drop only, some tens of
//! nanoseconds, and never for a packet that is sent.
//!
//! Cost per packet: O(1), as `fifo`, and a few comparisons.
//!
//! Departures from the RFC: unless it is given, the largest packet is the largest that was sent or dropped
//! so far, as in the authors' code for ns-2, since there is no interface to ask for its MTU. Of marks the RFC says nothing:
//! one counts as a drop, and the packet leaves, as in Linux.

use super::fifo::Fifo;
use super::spec::{self, Describe};
use super::{Backlog, Drops, Env, Limits, Scheduler};
use crate::packet::{DropReason, Packet};
use crate::param::{Optional, Ranged, Visitor};
use crate::units::{Bytes, Duration, Instant};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

/// CoDel's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelParams {
    /// Sojourn time that a standing queue may have; 1 us to the interval.
    pub target: Duration,
    /// How long it may have more: the longest usual round trip; 1 us to 4 s.
    pub interval: Duration,
    /// Nothing is dropped while no more than this is behind it; `None`: than the largest packet so far.
    pub mtu: Option<Bytes>,
    /// ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for CoDelParams {
    /// 5 ms in 100 ms (RFC 8289 §4.2, §4.3), the largest packet so far, without marks.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            mtu: None,
            ecn: false,
        }
    }
}

impl CoDelParams {
    /// The longest interval: its square in nanoseconds fits 64 bits.
    pub const MOST_INTERVAL: Duration = Duration::from_secs(4);

    /// When to drop next, after the drop that was due at `t` and made them `count`.
    fn control_law(&self, t: Instant, count: u32) -> Instant {
        t + spacing(self.interval, count)
    }
}

/// RFC 8289 §5.6: how long after one drop the next is due, when they are `count`, at least 1.
pub(super) fn spacing(interval: Duration, count: u32) -> Duration {
    let interval = interval.as_nanos();
    Duration::from_nanos((interval * interval / u64::from(count)).isqrt())
}

impl CoDelParams {
    /// Parameters of every queue with CoDel.
    pub(super) fn fields(&mut self, visit: &mut Visitor<'_>) {
        let least = Duration::from_micros(1);
        visit(
            "codel.target",
            "sojourn time that a standing queue may have, up to `interval`",
            &mut Ranged(&mut self.target, least..=Self::MOST_INTERVAL),
        );
        visit(
            "codel.interval",
            "longest usual RTT",
            &mut Ranged(&mut self.interval, least..=Self::MOST_INTERVAL),
        );
        visit(
            "codel.mtu",
            "bytes behind a packet up to which it is not dropped; none: the largest packet so far",
            &mut Optional(&mut self.mtu, Bytes::ZERO..=Limits::MOST_BYTES),
        );
        spec::ecn(&mut self.ecn, visit);
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let Self {
            target, interval, ..
        } = self;
        match target <= interval {
            true => Ok(()),
            false => Err(format!(
                "`codel.target` is {target} and `codel.interval` {interval}: the target may not exceed the interval"
            )),
        }
    }
}

impl Describe for CoDelParams {
    const NAME: &'static str = "codel";
    const ABOUT: &'static str = "packets in order of arrival, dropped after waiting too long";

    fn fields(&mut self, visit: &mut Visitor<'_>) {
        Self::fields(self, visit);
    }

    fn check(&self) -> Result<(), String> {
        Self::check(self)
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        Box::new(CoDel::new(env.limits, *self))
    }
}

/// Controlled delay over a drop-tail FIFO.
#[derive(Clone, Debug)]
pub struct CoDel {
    fifo: Fifo,
    law: Law,
    control: Control,
}

impl CoDel {
    /// An empty queue that holds no more than `limits`.
    pub fn new(limits: Limits, params: CoDelParams) -> Self {
        Self {
            fifo: Fifo::new(limits),
            law: Law::new(params),
            control: Control::default(),
        }
    }
}

impl Scheduler for CoDel {
    fn enqueue(&mut self, now: Instant, pkt: Packet, drops: &mut Drops) {
        self.fifo.enqueue(now, pkt, drops);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops) -> Option<Packet> {
        let fifo = &mut self.fifo;
        let pop = || Some((fifo.pop()?, fifo.backlog().bytes));
        self.control.dequeue(now, &mut self.law, pop, drops)
    }

    fn next_departure(&self) -> Option<Instant> {
        self.fifo.next_departure()
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}

/// Parameters of every queue of a discipline.
#[derive(Clone, Debug)]
pub(super) struct Law {
    params: CoDelParams,
    /// The largest packet that came to a head.
    largest: Bytes,
}

impl Law {
    pub fn new(params: CoDelParams) -> Self {
        Self {
            params,
            largest: Bytes::ZERO,
        }
    }

    /// The same with another target, and other bytes that may stand behind a packet.
    pub fn with(&self, target: Duration, mtu: Bytes) -> Self {
        Self {
            params: CoDelParams {
                target,
                mtu: Some(mtu),
                ..self.params
            },
            largest: self.largest,
        }
    }
}

/// CoDel's state of one queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Control {
    /// When sojourn times will have been above the target for an interval; `None` while below.
    first_above: Option<Instant>,
    /// When the next drop is due while `dropping`; else about when the last one was.
    drop_next: Instant,
    /// Drops of this cycle, and their number at its start.
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl Control {
    /// Drops nothing before `until`, and then only if the sojourn times have been above the target all the time.
    pub fn spare(&mut self, until: Instant) {
        self.first_above = Some(until);
        self.dropping = false;
    }

    /// RFC 8289 §5.5: the packet to send; those before it are dropped. `pop` takes the packet at the
    /// head and says how many bytes are left behind it.
    pub fn dequeue(
        &mut self,
        now: Instant,
        law: &mut Law,
        mut pop: impl FnMut() -> Option<(Packet, Bytes)>,
        drops: &mut Drops,
    ) -> Option<Packet> {
        let (mut pkt, mut ok_to_drop) = self.next(now, law, pop())?;
        if self.dropping {
            // Below the target: the dropping ends.
            self.dropping = ok_to_drop;
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if law.params.ecn && pkt.mark() {
                    self.drop_next = law.params.control_law(self.drop_next, self.count);
                    break;
                }
                drops.push(pkt, DropReason::Sojourn);
                (pkt, ok_to_drop) = self.next(now, law, pop())?;
                if ok_to_drop {
                    self.drop_next = law.params.control_law(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok_to_drop {
            if !(law.params.ecn && pkt.mark()) {
                drops.push(pkt, DropReason::Sojourn);
                (pkt, _) = self.next(now, law, pop())?;
            }
            self.dropping = true;
            // Soon after the last cycle, the rate of drops that it ended with is a good beginning.
            let delta = self.count.saturating_sub(self.last_count);
            let soon = now.saturating_since(self.drop_next) < law.params.interval * 16;
            self.count = if delta > 1 && soon { delta } else { 1 };
            self.last_count = self.count;
            self.drop_next = law.params.control_law(now, self.count);
        }
        Some(pkt)
    }

    /// RFC 8289 §5.6: the packet that `popped` brought, and whether it may be dropped. If so, more than
    /// a packet's bytes are behind it: drops never empty a queue.
    fn next(
        &mut self,
        now: Instant,
        law: &mut Law,
        popped: Option<(Packet, Bytes)>,
    ) -> Option<(Packet, bool)> {
        let Some((pkt, behind)) = popped else {
            self.first_above = None;
            self.dropping = false;
            return None;
        };
        law.largest = law.largest.max(pkt.len());
        let sojourn = now.saturating_since(pkt.arrived);
        let little = law.params.mtu.unwrap_or(law.largest);
        if sojourn < law.params.target || behind <= little {
            self.first_above = None;
            return Some((pkt, false));
        }
        let first_above = *self.first_above.get_or_insert(now + law.params.interval);
        Some((pkt, now >= first_above))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Ecn, FlowId, Handle, UserId};
    use crate::sched::testing::limits;

    fn codel() -> CoDel {
        CoDel::new(limits(10, 10_000), CoDelParams::default())
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// Packets dropped by a departure at `ms` from a queue of `n` packets that came `sojourn` ms before.
    fn depart(codel: &mut CoDel, ms: u64, n: u32, sojourn: u64) -> usize {
        let mut drops = Drops::default();
        codel.fifo = Fifo::new(limits(10, 10_000));
        let came = at(ms) - Duration::from_millis(sojourn);
        for _ in 0..n {
            let pkt = Packet::new(came, Handle(0), FlowId(0), UserId(0), Bytes::new(1000));
            codel.enqueue(came, pkt, &mut drops);
        }
        assert!(codel.dequeue(at(ms), &mut drops).is_some());
        drops
            .drain()
            .inspect(|(_, why)| assert_eq!(*why, DropReason::Sojourn))
            .count()
    }

    /// When packets are dropped if one leaves each millisecond of a queue that stands at `sojourn`.
    fn drop_times(codel: &mut CoDel, ms: std::ops::Range<u64>, sojourn: u64) -> Vec<u64> {
        ms.filter(|t| depart(codel, *t, 5, sojourn) > 0).collect()
    }

    #[test]
    fn a_standing_queue_is_dropped_from_at_the_interval_over_the_root_of_the_count() {
        // After the first, 100, 70.71, 57.74, 50, 44.72, 40.82 ms; a departure that is late for its
        // drop does not delay the next.
        let times = drop_times(&mut codel(), 1000..1470, 6);
        assert_eq!(times, [1100, 1200, 1271, 1329, 1379, 1424, 1464]);
    }

    #[test]
    fn the_control_law_is_exact_to_the_nanosecond() {
        let spacing = |interval, count| {
            let params = CoDelParams {
                interval,
                ..CoDelParams::default()
            };
            params.control_law(Instant::ZERO, count).as_nanos()
        };
        let ms100 = Duration::from_millis(100);
        // 10^8 / sqrt(n), rounded down.
        let known = [100_000_000, 70_710_678, 57_735_026, 50_000_000, 44_721_359];
        for (count, known) in (1..).zip(known) {
            assert_eq!(spacing(ms100, count), known);
        }
        assert_eq!(spacing(ms100, 1_000_000), 100_000);
        assert_eq!(spacing(Duration::from_secs(4), 2), 2_828_427_124);
        assert_eq!(spacing(Duration::from_secs(4), u32::MAX), 61_035);
    }

    #[test]
    fn nothing_is_dropped_below_the_target_or_above_it_for_less_than_an_interval() {
        let mut codel = codel();
        assert!(drop_times(&mut codel, 0..5000, 4).is_empty());
        for begin in (5000..10_000).step_by(100) {
            assert!(drop_times(&mut codel, begin..begin + 99, 50).is_empty());
            assert_eq!(depart(&mut codel, begin + 99, 5, 4), 0);
        }
        // At the target is not below it.
        assert_eq!(drop_times(&mut codel, 10_000..10_101, 5), [10_100]);
    }

    #[test]
    fn a_queue_of_no_more_than_a_packet_behind_the_head_is_left_alone() {
        let mut codel = codel();
        for ms in 0..1000 {
            assert_eq!(depart(&mut codel, ms, 1 + ms as u32 % 2, 500), 0);
        }
        assert_eq!(drop_times(&mut codel, 1000..1101, 500), [1100]);
    }

    #[test]
    fn what_may_stand_behind_a_packet_can_be_said() {
        let drops = |n, mtu| {
            let mut codel = codel();
            codel.law.params.mtu = Some(Bytes::new(mtu));
            let all = (1000..1102).map(|ms| depart(&mut codel, ms, n, 500));
            all.sum::<usize>()
        };
        // Of two packets, 1000 B are behind the first.
        assert_eq!((drops(2, 999), drops(2, 1000)), (1, 0));
        assert_eq!((drops(6, 4999), drops(6, 5000)), (1, 0));
    }

    #[test]
    fn a_cycle_soon_after_another_begins_at_the_rate_that_this_one_had_come_to() {
        // Six drops, the next due at 1464 ms; the first of the new cycle comes an interval after 1430.
        let mut first = codel();
        assert_eq!(drop_times(&mut first, 1000..1425, 6).len(), 6);
        assert_eq!(depart(&mut first, 1425, 5, 4), 0);
        let mut late = first.clone();
        // Five more than it began with: 100 / sqrt(5) = 44.72 ms.
        assert_eq!(drop_times(&mut first, 1430..1576, 6), [1530, 1575]);
        // Later than 1464 ms and 16 intervals.
        assert_eq!(drop_times(&mut late, 2970..3171, 6), [3070, 3170]);
    }

    #[test]
    fn what_understands_a_mark_is_marked_when_it_would_be_dropped_and_leaves() {
        let mut codel = codel();
        codel.law.params.ecn = true;
        let mut marked = |ms| {
            let mut drops = Drops::default();
            codel.fifo = Fifo::new(limits(10, 10_000));
            let came = at(ms) - Duration::from_millis(6);
            for _ in 0..5 {
                let pkt = Packet::new(came, Handle(0), FlowId(0), UserId(0), Bytes::new(1000));
                codel.enqueue(came, pkt.with_ecn(Ecn::Capable), &mut drops);
            }
            let pkt = codel.dequeue(at(ms), &mut drops).unwrap();
            assert!(drops.is_empty());
            pkt.ecn() == Ecn::Marked
        };
        let times: Vec<u64> = (1000..1470).filter(|ms| marked(*ms)).collect();
        assert_eq!(times, [1100, 1200, 1271, 1329, 1379, 1424, 1464]);
    }

    #[test]
    fn a_departure_that_comes_late_makes_up_for_the_drops_that_were_due() {
        let mut codel = codel();
        assert_eq!(drop_times(&mut codel, 1000..1101, 6), [1100]);
        // Due at 1200, 1270.7 and 1328.4 ms; two packets stay.
        assert_eq!(depart(&mut codel, 1329, 6, 200), 3);
    }
}
