// SPDX-License-Identifier: MIT OR Apache-2.0
//! COBALT, the queue management of CAKE: CoDel, which answers to senders that slow down, and BLUE, which drops by
//! chance from those that do not.
//!
//! Source: `sch_cake.c` of Linux (T. Hoeiland-Joergensen et al., LANMAN 2018, and tc-cake(8) name it and say little); BLUE: W. Feng, D. Kandlur, D. Saha,
//! K. Shin, "BLUE: A New Class of Active Queue Management Algorithms", University of Michigan CSE-TR-387-99, 1999.
//!
//! | there | here |
//! | --- | --- |
//! | `target`, `interval`, `mtu_time` | [`Law`] |
//! | `count`, `drop_next`, `dropping` | the same |
//! | `rec_inv_sqrt` | `spacing`, multiplied by the interval |
//! | `p_drop`, `p_inc`, `p_dec` | `p_drop`, [`P_INC`], [`P_DEC`], in 2^-32 |
//! | `blue_timer` | `blue_due`, a target later |
//! | `cobalt_queue_full`, `_queue_empty`, `_should_drop` | [`Cobalt::overflow`], [`Cobalt::empty`], [`Cobalt::drops`] |
//!
//! It differs from CoDel of RFC 8289 in what it remembers: the count of a cycle is not forgotten when the queue goes
//! below its target, but falls by one at each time at which a drop would have been due.
//!
//! Departures: the root is exact, where Linux has 16 of them in a table and improves the others by Newton's step.

use super::codel::spacing;
use crate::packet::{DropReason, Packet};
use crate::random::Rng;
use crate::units::{Duration, Instant};

/// Increment of BLUE's drop probability when the buffer overflows: 1/256.
const P_INC: u32 = 1 << 24;

/// Its decrement when the queue is found empty: 1/4096.
const P_DEC: u32 = 1 << 20;

/// Parameters of every queue.
#[derive(Clone, Debug)]
pub(super) struct Law {
    /// Sojourn time that a standing queue may have; the time between two steps of BLUE.
    pub target: Duration,
    /// Between the first two drops; at most [`super::CoDelParams::MOST_INTERVAL`].
    pub interval: Duration,
    /// Transmission time of the largest packet on the link; four of them may stand in any case.
    pub mtu_time: Duration,
    /// CoDel marks what understands it.
    pub ecn: bool,
}

/// State of one queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Cobalt {
    count: u32,
    dropping: bool,
    /// BLUE's chance of a drop, in 2^-32.
    p_drop: u32,
    /// When the next drop is due; with a count of 0, until when the queue was lately used.
    drop_next: Instant,
    /// Interval over the root of `count` since that last changed. As in Linux, zero until then: the first
    /// drop from a queue that was never above its target follows at once.
    spacing: Duration,
    /// From when on BLUE may take its next step.
    blue_due: Instant,
}

impl Cobalt {
    /// The buffer was full, and a packet of this queue was dropped.
    pub fn overflow(&mut self, now: Instant, law: &Law) {
        if now > self.blue_due {
            self.p_drop = self.p_drop.saturating_add(P_INC);
            self.blue_due = now + law.target;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// It was this queue's turn, and it was empty. Whether the queue may be forgotten: it has come to rest.
    pub fn empty(&mut self, now: Instant, law: &Law) -> bool {
        if self.p_drop > 0 && now > self.blue_due {
            self.p_drop = self.p_drop.saturating_sub(P_DEC);
            self.blue_due = now + law.target;
        }
        self.dropping = false;
        if self.is_due(now) {
            self.count_to(self.count - 1, law);
        }
        self.p_drop == 0 && self.count == 0 && now >= self.drop_next
    }

    /// Why `pkt`, which has come to the head, should be dropped; else it is sent, and may be marked by now.
    pub fn drops(
        &mut self,
        now: Instant,
        law: &Law,
        pkt: &mut Packet,
        rng: &mut Rng,
    ) -> Option<DropReason> {
        let sojourn = now.saturating_since(pkt.arrived);
        let is_due = self.is_due(now);
        // Whether the drop that comes next is late.
        let mut late = now > self.drop_next;
        let mut why = None;

        let stands = sojourn > law.target && sojourn > law.mtu_time * 4;
        if stands && !self.dropping {
            self.drop_next = now + self.spacing;
        }
        self.dropping = stands;
        if stands {
            self.count = self.count.max(1);
        }
        if is_due && stands {
            why = (!(law.ecn && pkt.mark())).then_some(DropReason::Sojourn);
            self.count_to(self.count.saturating_add(1), law);
            late = now > self.drop_next;
        } else if is_due {
            // As many steps as there were drops.
            while self.is_due(now) {
                self.count_to(self.count - 1, law);
            }
            late = now > self.drop_next;
        }

        // BLUE never marks: who does not slow down could say that it understands marks.
        if self.p_drop > 0 && ((rng.next_u64() >> 32) as u32) < self.p_drop {
            why = why.or(Some(DropReason::Early));
        }

        if self.count == 0 {
            self.drop_next = now + law.interval;
        } else if late && why.is_none() {
            self.drop_next = now;
        }
        why
    }

    /// Whether a drop is due.
    fn is_due(&self, now: Instant) -> bool {
        self.count > 0 && now >= self.drop_next
    }

    /// Another count, and the drop after the one that was due.
    fn count_to(&mut self, count: u32, law: &Law) {
        self.count = count;
        self.spacing = spacing(law.interval, count.max(1));
        self.drop_next += self.spacing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Ecn, FlowId, Handle, UserId};
    use crate::units::Bytes;

    fn law() -> Law {
        Law {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            mtu_time: Duration::ZERO,
            ecn: true,
        }
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn waited(ms: u64, sojourn: u64) -> Packet {
        let len = Bytes::new(1000);
        Packet::new(at(ms - sojourn), Handle(0), FlowId(0), UserId(0), len)
    }

    /// When packets are dropped if one leaves each millisecond after `sojourn`.
    fn drop_times(cobalt: &mut Cobalt, ms: std::ops::Range<u64>, sojourn: u64) -> Vec<u64> {
        let drops = |ms: &u64| {
            let mut pkt = waited(*ms, sojourn);
            let why = cobalt.drops(at(*ms), &law(), &mut pkt, &mut Rng::new(1));
            why == Some(DropReason::Sojourn)
        };
        ms.filter(drops).collect()
    }

    #[test]
    fn drops_come_at_the_interval_over_the_root_of_the_count() {
        // The first is due at once, at 1000 ms; then 70.71, 57.74, 50, 44.72, 40.82 ms.
        let times = drop_times(&mut Cobalt::default(), 1000..1270, 6);
        assert_eq!(times, [1001, 1071, 1129, 1179, 1224, 1264]);
    }

    #[test]
    fn a_queue_that_has_come_to_rest_may_stand_for_an_interval() {
        let mut cobalt = Cobalt::default();
        assert_eq!(drop_times(&mut cobalt, 1000..1002, 6), [1001]);
        assert!(drop_times(&mut cobalt, 1002..3000, 4).is_empty());
        assert_eq!(
            drop_times(&mut cobalt, 3000..3172, 6),
            [3100, 3171],
            "100 and 70.71 ms"
        );
    }

    #[test]
    fn a_pause_costs_the_count_one_step_for_each_drop_that_would_have_been_due() {
        let mut cobalt = Cobalt::default();
        assert_eq!(drop_times(&mut cobalt, 1000..1225, 6).len(), 5);
        // Six, due at 1263.9 ms; then 44.72, 50, 57.74 ms later.
        assert!(drop_times(&mut cobalt, 1225..1420, 4).is_empty());
        assert_eq!(cobalt.count, 2);
        // In 70.71 ms, and 57.74 ms later.
        assert_eq!(drop_times(&mut cobalt, 1420..1550, 6), [1491, 1549]);
    }

    #[test]
    fn no_more_than_the_target_and_four_packets_times_may_stand() {
        let stands = |sojourn_us: u64, mtu_us| {
            let law = Law {
                mtu_time: Duration::from_micros(mtu_us),
                ..law()
            };
            let mut cobalt = Cobalt::default();
            let now = at(1000);
            let mut pkt = waited(1000, 0);
            pkt.arrived = now - Duration::from_micros(sojourn_us);
            cobalt.drops(now, &law, &mut pkt, &mut Rng::new(1));
            cobalt.dropping
        };
        assert!(!stands(5000, 0) && stands(5001, 0));
        assert!(!stands(8000, 2000) && stands(8001, 2000));
    }

    #[test]
    fn codel_marks_what_understands_it_and_blue_drops_it_all_the_same() {
        let mut cobalt = Cobalt::default();
        let mut rng = Rng::new(1);
        let mut marked = 0;
        for ms in 1000..1270 {
            let mut pkt = waited(ms, 6).with_ecn(Ecn::Capable);
            assert_eq!(cobalt.drops(at(ms), &law(), &mut pkt, &mut rng), None);
            marked += u32::from(pkt.ecn() == Ecn::Marked);
        }
        assert_eq!(marked, 6);
        cobalt.p_drop = u32::MAX;
        let mut pkt = waited(1270, 0).with_ecn(Ecn::Capable);
        let why = cobalt.drops(at(1270), &law(), &mut pkt, &mut rng);
        assert_eq!(why, Some(DropReason::Early));
    }

    #[test]
    fn blues_chance_rises_by_a_256th_and_falls_by_a_4096th_in_a_target() {
        let mut cobalt = Cobalt::default();
        // Full each millisecond: a step each 6 ms, of which the first is at 1 ms.
        for ms in 1..=100 {
            cobalt.overflow(at(ms), &law());
        }
        assert_eq!(u64::from(cobalt.p_drop), 17 << 24);
        let mut rng = Rng::new(1);
        let chosen = |_: &u32| {
            let mut pkt = waited(110, 0);
            cobalt.drops(at(110), &law(), &mut pkt, &mut rng).is_some()
        };
        let dropped = (0..100_000).filter(chosen).count();
        // 17/256 of them, sd 79.
        assert!((6640 - 240..6640 + 240).contains(&dropped), "{dropped}");
        let rests = (0..2000)
            .map(|n| cobalt.empty(at(120 + 6 * n), &law()))
            .take_while(|rests| !rests);
        assert_eq!(rests.count() + 1, 17 * 16);
    }
}
