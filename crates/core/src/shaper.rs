// SPDX-License-Identifier: MIT OR Apache-2.0
//! A discipline on a link of a rate: departures are spaced by the time that each packet takes.
//!
//! The shaper keeps one virtual clock, `next_free`: when the link has sent what was given to it. A
//! packet that starts at `t` moves it to `t + len / rate`. While packets wait, the next one starts at
//! `next_free` even if the owner woke late, so late timers cost no rate; a link that was idle starts
//! at `now`, so idle time gives no credit. After a stall longer than [`CATCH_UP`] only that much is
//! made good: the burst behind the shaper is never above `rate * CATCH_UP` and one packet.
//!
//! Lengths are bytes on the wire already (see [`crate::framing`]). Fractions of a nanosecond are
//! carried to the next packet, so the rate is exact over time.

use crate::packet::{FlowId, Packet, UserId};
use crate::sched::{Backlog, Counts, Drops, Scheduler, Standing};
use crate::units::{Bytes, Duration, Instant, Rate};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// How far a backlogged shaper that woke late goes back: 10 ms, chosen by us. It covers the latency
/// of a busy machine's timers; a longer stall would put a burst in the modem's buffer behind us.
pub const CATCH_UP: Duration = Duration::from_millis(10);

/// A scheduler whose packets leave at a rate, or at once where there is none.
///
/// ```
/// use makeway_core::packet::{FlowId, Handle, Packet, UserId};
/// use makeway_core::sched::{Discipline, Drops, Env, Limits, Scheduler, build};
/// use makeway_core::shaper::Shaper;
/// use makeway_core::units::{Bytes, Duration, Instant, Rate};
///
/// let limits = Limits { packets: 10, bytes: Bytes::new(15_000), flows: 1 };
/// let queue = build(&Discipline::Fifo.spec(), &Env::new(limits))?;
/// let mut link = Shaper::new(Some(Rate::from_bps(12_000_000)), queue);
/// let (now, mut drops) = (Instant::ZERO, Drops::default());
/// for n in 0..2 {
///     let packet = Packet::new(now, Handle(n), FlowId(0), UserId(0), Bytes::new(1500));
///     link.enqueue(now, packet, &mut drops);
/// }
/// // The first packet departs at once. For 1 ms the link is busy with it.
/// assert!(link.dequeue(now, &mut drops).is_some());
/// assert!(link.dequeue(now, &mut drops).is_none());
/// assert_eq!(link.next_departure(), Some(now + Duration::from_millis(1)));
/// # Ok::<(), makeway_core::sched::SpecError>(())
/// ```
pub struct Shaper {
    scheduler: Box<dyn Scheduler + Send>,
    rate: Option<Rate>,
    next_free: Instant,
    /// Bit-nanoseconds below one nanosecond's worth, left over from the last packet.
    carry: u64,
}

impl Shaper {
    /// `scheduler` behind a link of `rate`; `None` means that the link is never busy.
    ///
    /// # Panics
    /// If the rate is zero: a link of no rate is refused where it is configured.
    pub fn new(rate: Option<Rate>, scheduler: Box<dyn Scheduler + Send>) -> Self {
        Self {
            scheduler,
            rate: rate.inspect(check),
            next_free: Instant::ZERO,
            carry: 0,
        }
    }

    /// The rate now.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// When the link has sent the packets that were given to it; no later than now if it is idle.
    pub fn busy_until(&self) -> Instant {
        self.next_free
    }

    /// Changes the rate from `now` on. The rest of the packet in transmission goes at the new rate.
    ///
    /// # Panics
    /// If the rate is zero.
    pub fn set_rate(&mut self, now: Instant, rate: Option<Rate>) {
        let rate = rate.inspect(check);
        if self.rate.is_none() {
            self.next_free = now;
        }
        let left = self.next_free.saturating_since(now).as_nanos();
        if left > 0 {
            let left = match (self.rate, rate) {
                (Some(old), Some(new)) => {
                    let left = u128::from(left) * u128::from(old.bps()) / u128::from(new.bps());
                    u64::try_from(left).unwrap_or(u64::MAX)
                }
                _ => 0,
            };
            self.next_free = now + Duration::from_nanos(left);
        }
        self.carry = 0;
        self.rate = rate;
    }

    /// Replaces the discipline by `new` and moves every packet to it, in the order of
    /// arrival, including drops of the old one while it is emptied. Packets that `new` cannot
    /// hold are given to `drops`; with limits that are no smaller there are none, unless it drops
    /// before it is full. Returns the old discipline, empty.
    pub fn replace(
        &mut self,
        now: Instant,
        new: Box<dyn Scheduler + Send>,
        drops: &mut Drops,
    ) -> Box<dyn Scheduler + Send> {
        let mut old = core::mem::replace(&mut self.scheduler, new);
        let mut moved = Vec::with_capacity(old.backlog().packets as usize);
        let mut given_up = Drops::default();
        while let Some(pkt) = old.dequeue(now, &mut given_up) {
            moved.extend(given_up.drain().map(|(pkt, _)| pkt));
            moved.push(pkt);
        }
        // Stable: packets of one flow that came together stay in order.
        moved.sort_by_key(|pkt| pkt.arrived);
        for pkt in moved {
            self.scheduler.enqueue(now, pkt, drops);
        }
        old
    }

    #[inline]
    fn send(&mut self, len: Bytes, rate: Rate) {
        // A packet is below 2^24 bytes, so this is below 2^57, and with a carry near 2^64 still well.
        let bits = (len.get() * 8_000_000_000).saturating_add(self.carry);
        self.carry = bits % rate.bps();
        self.next_free += Duration::from_nanos(bits / rate.bps());
    }
}

fn check(rate: &Rate) {
    assert!(rate.bps() > 0, "the rate of a shaper is not zero");
}

impl Scheduler for Shaper {
    #[inline]
    fn enqueue(&mut self, now: Instant, pkt: Packet, drops: &mut Drops) {
        let idle = self.next_free < now && self.scheduler.backlog().packets == 0;
        if idle {
            self.next_free = now;
            self.carry = 0;
        }
        self.scheduler.enqueue(now, pkt, drops);
    }

    // The simulator has two callers, one of them for every hop.
    #[inline(always)]
    fn dequeue(&mut self, now: Instant, drops: &mut Drops) -> Option<Packet> {
        let Some(rate) = self.rate else {
            return self.scheduler.dequeue(now, drops);
        };
        if now < self.next_free {
            return None;
        }
        let pkt = self.scheduler.dequeue(now, drops)?;
        self.next_free = self.next_free.max(now - CATCH_UP);
        self.send(pkt.len(), rate);
        Some(pkt)
    }

    #[inline]
    fn next_departure(&self) -> Option<Instant> {
        let ready = self.scheduler.next_departure()?;
        Some(match self.rate {
            Some(_) => ready.max(self.next_free),
            None => ready,
        })
    }

    fn backlog(&self) -> Backlog {
        self.scheduler.backlog()
    }

    fn counts(&self) -> Counts {
        self.scheduler.counts()
    }

    fn forget(&mut self, flow: FlowId) {
        self.scheduler.forget(flow);
    }

    fn set_weight(&mut self, user: UserId, weight: u32) -> bool {
        self.scheduler.set_weight(user, weight)
    }

    fn standing(&self, flow: FlowId) -> Option<Standing> {
        self.scheduler.standing(flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::fifo::Fifo;
    use crate::sched::testing::{limits, packet};

    const MBIT10: Rate = Rate::from_bps(10_000_000);

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    /// Ten packets of 1250 bytes, 1 ms each at 10 Mbit/s, all there at `start`.
    fn loaded(start: Instant) -> (Shaper, Drops) {
        let mut shaper = Shaper::new(Some(MBIT10), Box::new(Fifo::new(limits(10, 20_000))));
        let mut drops = Drops::default();
        for n in 0..10 {
            shaper.enqueue(start, packet(n, 0, 1250), &mut drops);
        }
        (shaper, drops)
    }

    #[test]
    fn departures_are_spaced_by_the_time_each_packet_takes() {
        let (mut shaper, mut drops) = loaded(at(500));
        let mut times = Vec::new();
        while let Some(t) = shaper.next_departure() {
            assert!(
                t == at(500)
                    || shaper
                        .dequeue(t - Duration::from_nanos(1), &mut drops)
                        .is_none()
            );
            shaper.dequeue(t, &mut drops).unwrap();
            times.push(t);
        }
        assert_eq!(
            times,
            (0..10).map(|n| at(500 + 1000 * n)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn waking_late_loses_no_rate_while_packets_wait() {
        let (mut shaper, mut drops) = loaded(at(0));
        for n in 0..10 {
            // Each wake-up is 0.7 ms late; the last packet is still sent in its own millisecond.
            let due = shaper.next_departure().unwrap();
            assert_eq!(due, at(1000 * n));
            shaper
                .dequeue(due + Duration::from_micros(700), &mut drops)
                .unwrap();
        }
    }

    #[test]
    fn after_a_stall_no_more_than_the_catch_up_is_made_good() {
        let (mut shaper, mut drops) = loaded(at(0));
        let late = at(1_000_000);
        for _ in 0..3 {
            shaper.dequeue(late, &mut drops).unwrap();
        }
        assert_eq!(
            shaper.next_departure(),
            Some(late - CATCH_UP + Duration::from_millis(3))
        );
    }

    #[test]
    fn idle_time_gives_no_credit() {
        let (mut shaper, mut drops) = loaded(at(0));
        while let Some(t) = shaper.next_departure() {
            shaper.dequeue(t, &mut drops);
        }
        let later = at(5_000_000);
        shaper.enqueue(later, packet(10, 0, 1250), &mut drops);
        shaper.enqueue(later, packet(11, 0, 1250), &mut drops);
        assert!(shaper.dequeue(later, &mut drops).is_some());
        assert!(shaper.dequeue(later, &mut drops).is_none());
        assert_eq!(
            shaper.next_departure(),
            Some(later + Duration::from_millis(1))
        );
    }

    #[test]
    fn the_rate_is_exact_where_a_packet_takes_no_whole_nanoseconds() {
        let rate = Rate::from_bps(10_000_000_000);
        let mut shaper = Shaper::new(Some(rate), Box::new(Fifo::new(limits(1000, 100_000))));
        let mut drops = Drops::default();
        for n in 0..1000 {
            shaper.enqueue(at(0), packet(n, 0, 64), &mut drops);
        }
        while let Some(t) = shaper.next_departure() {
            shaper.dequeue(t, &mut drops);
        }
        // 51.2 ns each.
        assert_eq!(shaper.next_free, Instant::from_nanos(51_200));
    }

    #[test]
    fn a_new_rate_holds_for_what_is_left_of_the_packet_being_sent() {
        let (mut shaper, mut drops) = loaded(at(0));
        shaper.dequeue(at(0), &mut drops);
        shaper.set_rate(at(500), Some(Rate::from_bps(5_000_000)));
        assert_eq!(shaper.next_departure(), Some(at(1500)));
        shaper.set_rate(at(500), None);
        assert!(shaper.dequeue(at(500), &mut drops).is_some());
    }

    #[test]
    fn what_a_discipline_would_give_up_while_it_is_emptied_moves_too() {
        use crate::sched::{CoDelParams, codel::CoDel};
        let codel = CoDel::new(limits(50, 50_000), CoDelParams::default());
        let mut shaper = Shaper::new(Some(MBIT10), Box::new(codel));
        let mut drops = Drops::default();
        for n in 0..40 {
            shaper.enqueue(at(0), packet(n, 0, 1250), &mut drops);
        }
        // Above CoDel's target for longer than its interval, then nothing for a second.
        shaper.dequeue(at(50_000), &mut drops);
        shaper.dequeue(at(160_000), &mut drops);
        let held = shaper.backlog().packets;
        assert!(drops.drain().count() > 0);
        let fifo = Box::new(Fifo::new(limits(50, 50_000)));
        shaper.replace(at(1_000_000), fifo, &mut drops);
        assert!(drops.is_empty());
        assert_eq!(shaper.backlog().packets, held);
    }

    #[test]
    fn replacing_the_discipline_loses_no_packet_and_no_order() {
        let (mut shaper, mut drops) = loaded(at(0));
        let old = shaper.replace(at(1), Box::new(Fifo::new(limits(10, 20_000))), &mut drops);
        assert_eq!(old.backlog(), Backlog::default());
        assert!(drops.is_empty());
        let mut sent = Vec::new();
        while let Some(t) = shaper.next_departure() {
            sent.push(shaper.dequeue(t, &mut drops).unwrap().handle.0);
        }
        assert_eq!(sent, (0..10).collect::<Vec<_>>());
    }
}
