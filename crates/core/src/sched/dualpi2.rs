// SPDX-License-Identifier: MIT OR Apache-2.0
//! DualPI2: two FIFOs, one for scalable senders (L4S), one for classic ones; a controller of the classic queue's delay
//! decides how often packets of both are marked or dropped.
//!
//! Source: K. De Schepper, B. Briscoe, G. White, "Dual-Queue Coupled Active Queue Management (AQM) for Low Latency, Low
//! Loss, and Scalable Throughput (L4S)", RFC 9332, 2023, appendix A. The square of PI's probability: K. De Schepper and others,
//! "PI2: A Linearized AQM for both Classic and Scalable TCP", CoNEXT 2016.
//!
//! | RFC | here |
//! | --- | --- |
//! | `lq`, `cq` | `queues`, by [`SCALABLE`] and [`CLASSIC`] |
//! | `target`, `RTT_max` | [`DualPi2Params`] |
//! | `Tupdate`, `alpha`, `beta` | [`DualPi2Params::period`]; `alpha = 0.1 Tupdate / RTT_max^2`, `beta = 0.3 / RTT_max` in [`Control`] |
//! | `p'`, `p_C`, `p_CL`, `k` | `base`, [`Control::classic`], [`Control::coupled`], [`COUPLING`] |
//! | `p_Cmax`, `p_Lmax` | where `p_CL` is 1: [`Control::overloads`] |
//! | `laqm`, `minTh`, `range`, `Th_len` | [`DualPi2::ramp`], [`RAMP_FROM`], [`RAMP`], a packet |
//! | `recur`, `q.count` | [`Lane::recurs`] |
//!
//! Probabilities are in 2^-32, the gains exact fractions of the times.
//!
//! Cost per packet: O(1), and a step of the controller for each period that has passed.
//!
//! Departures and choices where the RFC leaves one: the scheduler (§2.5.1, §4.1) is a weighted round robin that
//! gives classic packets a tenth of the link while scalable ones wait, as Linux's `dualpi2` does. Without a timer, steps of the
//! controller are made up at the next packet, each with the delay that the queue had then; after [`STEPS`] the others are
//! skipped.

use super::fifo::Fifo;
use super::spec::Describe;
use super::{Backlog, Drops, Env, Limits, Scheduler};
use crate::packet::{DropReason, Ecn, Packet};
use crate::param::{Ranged, Visitor};
use crate::units::{Duration, Instant};
use alloc::boxed::Box;

/// Delay of the classic queue that is aimed at, and the longest usual round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DualPi2Params {
    /// Delay of the classic queue that is aimed at; 1 ms to 1 s.
    pub target: Duration,
    /// The longest usual round trip, for which the controller is stable; 1 ms to 4 s.
    pub rtt: Duration,
}

impl Default for DualPi2Params {
    /// 15 ms and 100 ms (RFC 9332 appendix A.1).
    fn default() -> Self {
        Self {
            target: Duration::from_millis(15),
            rtt: Duration::from_millis(100),
        }
    }
}

impl DualPi2Params {
    /// `Tupdate`, between two steps of the controller.
    fn period(&self) -> Duration {
        self.target.min(self.rtt / 3)
    }
}

impl Describe for DualPi2Params {
    const NAME: &'static str = "dualpi2";
    const ABOUT: &'static str =
        "packets of scalable senders (ECT(1)), then in order of arrival, dropped by delay";

    fn fields(&mut self, visit: &mut Visitor<'_>) {
        let least = Duration::from_millis(1);
        visit(
            "dualpi2.target",
            "delay of the classic queue that is aimed at",
            &mut Ranged(&mut self.target, least..=Duration::from_secs(1)),
        );
        visit(
            "dualpi2.rtt",
            "longest usual RTT",
            &mut Ranged(&mut self.rtt, least..=Duration::from_secs(4)),
        );
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        Box::new(DualPi2::new(env.limits, *self))
    }
}

const SCALABLE: usize = 0;
const CLASSIC: usize = 1;
/// A probability of 1.
const ONE: u64 = 1 << 32;
/// `k`, Table 1: a scalable flow then has about the rate of a classic one.
const COUPLING: u64 = 2;
/// Native AQM of the scalable queue (appendix A.1): marks from the first delay on, all of them a `RAMP` later.
const RAMP_FROM: Duration = Duration::from_micros(800);
const RAMP: Duration = Duration::from_micros(400);
/// While both queues have packets, classic ones have one byte of this number.
const CLASSIC_ONE_OF: i64 = 10;
/// Steps of the controller that are made up for at most, 15 s.
const STEPS: u32 = 1024;

/// The controller (appendix A.1, `dualpi2_update`).
#[derive(Clone, Copy, Debug)]
struct Control {
    params: DualPi2Params,
    /// `p'`.
    base: u64,
    before: Duration,
    due: Instant,
}

impl Control {
    /// A step with the delay that a queue has now.
    fn step(&mut self, delay: Duration) {
        let [target, rtt, period] = [self.params.target, self.params.rtt, self.params.period()]
            .map(|time| i128::from(time.as_nanos()));
        let [delay_ns, before] = [delay, self.before].map(|time| i128::from(time.as_nanos()));
        // alpha (delay - target) + beta (delay - before), times 10 RTT_max^2. All times are below 2^32 s, so each product
        // is below 2^127.
        let tenths = period * (delay_ns - target) + 3 * rtt * (delay_ns - before);
        let change = tenths * i128::from(ONE) / (10 * rtt * rtt);
        // Within 0 and ONE.
        self.base = (i128::from(self.base) + change).clamp(0, i128::from(ONE)) as u64;
        self.before = delay;
    }

    /// `p_C`: of classic packets.
    fn classic(&self) -> u64 {
        let base = u128::from(self.base);
        // No more than ONE.
        ((base * base) >> 32) as u64
    }

    /// `p_CL`: of scalable ones.
    fn coupled(&self) -> u64 {
        (self.base * COUPLING).min(ONE)
    }

    /// §4.2.3: marks say no more, so both queues drop.
    fn overloads(&self) -> bool {
        self.base * COUPLING >= ONE
    }
}

/// A queue, and what its next packet has come to.
#[derive(Clone, Debug)]
struct Lane {
    fifo: Fifo,
    count: u64,
}

impl Lane {
    /// `recur`: true for that part of the calls, evenly.
    fn recurs(&mut self, part: u64) -> bool {
        self.count += part;
        let is_due = self.count > ONE;
        if is_due {
            self.count -= ONE;
        }
        is_due
    }

    fn delay(&self, at: Instant) -> Duration {
        let head = self.fifo.head();
        head.map_or(Duration::ZERO, |pkt| at.saturating_since(pkt.arrived))
    }
}

/// Two coupled queues.
#[derive(Clone, Debug)]
pub struct DualPi2 {
    lanes: [Lane; 2],
    limits: Limits,
    control: Control,
    /// Bytes that the classic queue is behind (negative: ahead of) its part of the link, times [`CLASSIC_ONE_OF`].
    owed: i64,
}

impl DualPi2 {
    /// No packets; both queues together hold no more than `limits`.
    pub fn new(limits: Limits, params: DualPi2Params) -> Self {
        let lane = || Lane {
            fifo: Fifo::new(limits),
            count: 0,
        };
        Self {
            lanes: [lane(), lane()],
            limits,
            control: Control {
                params,
                base: 0,
                before: Duration::ZERO,
                due: Instant::ZERO,
            },
            owed: 0,
        }
    }

    /// Steps of the controller that were due before `now`. It takes the longer delay of the two (appendix A.2).
    fn update(&mut self, now: Instant) {
        let period = self.control.params.period();
        for _ in 0..STEPS {
            if now < self.control.due {
                return;
            }
            let at = self.control.due;
            let [scalable, classic] = [0, 1].map(|lane: usize| self.lanes[lane].delay(at));
            self.control.step(scalable.max(classic));
            self.control.due += period;
        }
        self.control.due = now + period;
    }

    /// The queue whose turn it is, if there is a packet.
    fn turn(&self) -> Option<usize> {
        match [SCALABLE, CLASSIC].map(|lane| self.lanes[lane].fifo.head().is_some()) {
            [false, false] => None,
            [true, false] => Some(SCALABLE),
            [false, true] => Some(CLASSIC),
            [true, true] => Some(if self.owed > 0 { CLASSIC } else { SCALABLE }),
        }
    }

    /// A packet of `lane` has left beside the other's.
    fn charge(&mut self, lane: usize, pkt: &Packet) {
        let len = i64::from(pkt.len_u32());
        let waits = |lane: usize| self.lanes[lane].fifo.head().is_some();
        self.owed = match lane {
            CLASSIC if waits(SCALABLE) => self.owed - len * (CLASSIC_ONE_OF - 1),
            SCALABLE if waits(CLASSIC) => self.owed + len,
            _ => 0,
        };
    }

    /// `laqm`: by the delay that the packet which has left had, if another is behind it.
    fn ramp(&self, sojourn: Duration) -> u64 {
        if self.lanes[SCALABLE].fifo.head().is_none() {
            return 0;
        }
        let over = sojourn.as_nanos().saturating_sub(RAMP_FROM.as_nanos());
        // Below 2^20 ns * 2^32.
        (over.min(RAMP.as_nanos()) << 32) / RAMP.as_nanos()
    }

    /// Whether a packet of `lane` is dropped; it may be marked else.
    fn drops(&mut self, lane: usize, now: Instant, pkt: &mut Packet) -> bool {
        let control = self.control;
        if lane == CLASSIC {
            let is_due = self.lanes[CLASSIC].recurs(control.classic());
            return is_due && (control.overloads() || !pkt.mark());
        }
        let part = match control.overloads() {
            true if self.lanes[SCALABLE].recurs(control.classic()) => return true,
            true => control.coupled(),
            false => {
                let ramp = self.ramp(now.saturating_since(pkt.arrived));
                ramp.max(control.coupled())
            }
        };
        if self.lanes[SCALABLE].recurs(part) {
            pkt.mark();
        }
        false
    }
}

impl Scheduler for DualPi2 {
    fn enqueue(&mut self, now: Instant, pkt: Packet, drops: &mut Drops) {
        self.update(now);
        if let Some(reason) = self.limits.refusal(self.backlog(), &pkt) {
            return drops.push(pkt, reason);
        }
        // §2.3: by ECT(1) and CE.
        let lane = match pkt.ecn() {
            Ecn::Scalable | Ecn::Marked => SCALABLE,
            Ecn::NotCapable | Ecn::Capable => CLASSIC,
        };
        self.lanes[lane].fifo.push(pkt);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops) -> Option<Packet> {
        self.update(now);
        loop {
            let lane = self.turn()?;
            let mut pkt = self.lanes[lane].fifo.pop()?;
            if self.drops(lane, now, &mut pkt) {
                drops.push(pkt, DropReason::Early);
                continue;
            }
            self.charge(lane, &pkt);
            return Some(pkt);
        }
    }

    fn next_departure(&self) -> Option<Instant> {
        (self.backlog().packets > 0).then_some(Instant::ZERO)
    }

    fn backlog(&self) -> Backlog {
        let [scalable, classic] = [SCALABLE, CLASSIC].map(|lane| self.lanes[lane].fifo.backlog());
        Backlog {
            packets: scalable.packets + classic.packets,
            bytes: scalable.bytes + classic.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::{limits, packet};

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn control() -> Control {
        DualPi2::new(limits(1000, 1_500_000), DualPi2Params::default()).control
    }

    fn come(queue: &mut DualPi2, ms: u64, n: u32, ecn: Ecn) {
        let mut pkt = packet(n, 0, 1000).with_ecn(ecn);
        pkt.arrived = at(ms);
        let mut drops = Drops::default();
        queue.enqueue(at(ms), pkt, &mut drops);
        assert!(drops.is_empty());
    }

    #[test]
    fn a_step_of_the_controller_is_the_rfcs() {
        // Tupdate 15 ms: alpha 0.15 Hz, beta 3 Hz. From 0 to 35 ms: 0.15 * 0.02 + 3 * 0.035.
        let mut control = control();
        control.step(Duration::from_millis(35));
        // Within a millionth; ONE is 1.
        let is = |p: u64, millionths: u64| (p * 1_000_000).abs_diff(millionths * ONE) <= ONE;
        assert!(is(control.base, 108_000), "{}", control.base);
        control.step(Duration::from_millis(35));
        assert!(is(control.base, 111_000), "{}", control.base);
        // p_C is its square, p_CL twice.
        assert!(is(control.classic(), 12_321), "{}", control.classic());
        assert!(is(control.coupled(), 222_000), "{}", control.coupled());
        // Within 0 and 1 for any delay.
        control.step(Duration::from_secs(3600));
        assert_eq!(control.base, ONE);
        assert_eq!((control.classic(), control.coupled()), (ONE, ONE));
        control.step(Duration::ZERO);
        assert_eq!(control.base, 0);
    }

    #[test]
    fn a_queue_that_stands_is_dropped_from_more_and_more_and_one_below_the_target_is_not() {
        // A packet each millisecond, each of which waits for so long.
        let dropped = |wait: u64| {
            let mut queue = DualPi2::new(limits(1000, 1_500_000), DualPi2Params::default());
            let (mut drops, mut halves) = (Drops::default(), [0; 2]);
            for ms in 0..4000 {
                while queue.backlog().packets <= wait as u32 {
                    come(&mut queue, ms, 0, Ecn::NotCapable);
                }
                queue.dequeue(at(ms), &mut drops);
                halves[ms as usize / 2000] += drops.drain().count();
            }
            halves
        };
        assert_eq!(dropped(10), [0, 0]);
        let [first, second] = dropped(40);
        assert!(first > 50 && second > 4 * first, "{first}, {second}");
    }

    #[test]
    fn scalable_packets_go_first_and_classic_ones_have_a_tenth() {
        let mut queue = DualPi2::new(limits(1000, 1_500_000), DualPi2Params::default());
        for n in 0..200 {
            come(&mut queue, 0, n, Ecn::NotCapable);
            come(&mut queue, 0, n, Ecn::Scalable);
        }
        let mut drops = Drops::default();
        let first: Vec<bool> = (0..100)
            .map(|_| queue.dequeue(at(0), &mut drops).unwrap().ecn() == Ecn::NotCapable)
            .collect();
        assert!(!first[0]);
        assert_eq!(first.iter().filter(|classic| **classic).count(), 10);
    }

    #[test]
    fn a_scalable_packet_is_marked_once_its_own_queue_has_waited() {
        let marked = |us: u64, behind: u32| {
            let mut queue = DualPi2::new(limits(1000, 1_500_000), DualPi2Params::default());
            for n in 0..=behind {
                come(&mut queue, 0, n, Ecn::Scalable);
            }
            // Every mark is due at a whole one.
            queue.lanes[SCALABLE].count = 1;
            let now = Instant::ZERO + Duration::from_micros(us);
            queue.dequeue(now, &mut Drops::default()).unwrap().ecn() == Ecn::Marked
        };
        assert!(!marked(800, 1) && !marked(1100, 1) && marked(1200, 1));
        // Not where it is alone (Th_len).
        assert!(!marked(5000, 0));
    }

    #[test]
    fn marks_are_for_those_that_understand_them_until_the_queue_overloads() {
        let outcome = |ecn: Ecn, base: u64| {
            let mut queue = DualPi2::new(limits(1000, 1_500_000), DualPi2Params::default());
            (queue.control.base, queue.control.due) = (base, at(1000));
            let (mut drops, mut marks) = (Drops::default(), 0);
            for n in 0..1000 {
                come(&mut queue, 0, n, ecn);
            }
            while let Some(pkt) = queue.dequeue(at(0), &mut drops) {
                marks += u32::from(pkt.ecn() == Ecn::Marked);
            }
            (drops.drain().count(), marks)
        };
        // p_C is 1/16 at p' = 1/4, and 1/4 at 1/2, where p_CL is 1.
        assert_eq!(outcome(Ecn::NotCapable, ONE / 4), (62, 0));
        assert_eq!(outcome(Ecn::Capable, ONE / 4), (0, 62));
        assert_eq!(outcome(Ecn::Scalable, ONE / 4), (0, 499));
        assert_eq!(outcome(Ecn::Capable, ONE / 2), (249, 0));
        let (dropped, marked) = outcome(Ecn::Scalable, ONE / 2);
        assert!((200..=250).contains(&dropped), "{dropped}");
        assert_eq!(dropped + marked as usize, 1000);
    }

    #[test]
    fn after_a_long_silence_the_controller_begins_anew() {
        let mut queue = DualPi2::new(limits(10, 15_000), DualPi2Params::default());
        queue.control.base = ONE;
        come(&mut queue, 3_600_000, 0, Ecn::NotCapable);
        assert_eq!(queue.control.base, 0);
        assert!(queue.control.due > at(3_600_000));
    }
}
