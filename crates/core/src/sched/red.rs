// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random early detection over a drop-tail FIFO: arriving packets are dropped by chance while the average
//! queue is between two thresholds, the likelier the longer it is, and all of them above.
//!
//! Source: S. Floyd, V. Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM
//! Transactions on Networking 1(4), 1993, Fig. 2; the gentle mode is S. Floyd, "Recommendation on using the
//! `gentle_` variant of RED", 2000; `wait` and the mode by bytes are those of her RED in ns-2.
//!
//! | paper | here |
//! | --- | --- |
//! | `avg`, `w_q` | [`Average`], `weight` |
//! | `min_th`, `max_th`, `max_p` | `min`, `max`, `max_p` |
//! | `p_b`, `p_a` | [`RedParams::p_b`], [`RedParams::p_a`] |
//! | `count`, -1 below `min_th` | `count`, `None` |
//! | `q_time`, `m = f(time - q_time)` | `idle_since`, `Early::idle_packets` |
//! | mark | mark with `ecn`, else drop: [`DropReason::Early`]; or [`DropReason::Forced`] |
//!
//! No float: the average has 48 bits behind the binary point, probabilities have 64. With weights of 2^-20 or
//! more the average stays within 2^-29 of a packet (or byte) of the real number, and `(1 - w_q)^m` by
//! repeated squaring within 10^-12 of its value while that matters.
//!
//! Cost per packet: O(1): a multiplication for the average; between the thresholds two divisions of 128
//! bits and a random number more; after an idle time about 2 log2(m) multiplications.
//!
//! Departures from the paper: a packet that finds the queue empty counts as a sample of the empty queue,
//! beside the idle time, as in ns-2: else an average above the thresholds would last while packets come
//! faster than the link's rate. The idle time begins again with such a packet if it is dropped. A packet that
//! the full buffer refuses sets `count` to 0 (ns-2). By bytes, `count` is bytes over the mean packet's and
//! it is `p_a` that the packet's size scales (ns-2; the paper counts packets and scales `p_b`). Above the
//! upper threshold what could be marked is dropped (RFC 3168 §7). From ns-2 it departs where that drops nothing early while the queue holds at
//! most one packet, nor the first packet above `min_th`, and where it cuts `count` in bytes to whole packets.

mod average;

use super::fifo::Fifo;
use super::spec::{self, Describe};
use super::{Backlog, Drops, Env, Scheduler};
use crate::packet::{DropReason, Packet};
use crate::param::{Choice, Ranged, Slot, Visitor, flag};
use crate::random::Rng;
use crate::units::{Bytes, Duration, Fraction, Instant, Rate};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

pub use average::Average;
pub(super) use average::ONE;

/// How RED drops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedParams {
    /// Below this average nothing is dropped early: packets, or packets of mean size by bytes; at least 1.
    pub min: u32,
    /// Above this average every packet is dropped, or from twice of it in gentle mode; above `min`.
    pub max: u32,
    /// Weight of the queue now in its average; 2^-20 to 1.
    pub weight: Fraction,
    /// Probability of a drop at `max`; above 0.
    pub max_p: Fraction,
    /// Between `max` and twice `max` the probability grows from `max_p` to 1, not at once.
    pub gentle: bool,
    /// Drops are 1/p to 2/p packets apart, not 1 to 1/p.
    pub wait: bool,
    /// Counts bytes and not packets; a small packet is dropped more rarely than a large one.
    pub by_bytes: bool,
    /// Size of a usual packet, 1 B to 16 MiB.
    pub mean_packet: Bytes,
    /// ECN-capable packets are marked instead of dropped early.
    pub ecn: bool,
}

impl Default for RedParams {
    /// Floyd's own in ns-2: 5 and 15 packets, w_q 0.002, max_p 0.1, gentle, `wait`, by packets, 500 B.
    /// No marks.
    fn default() -> Self {
        Self {
            min: 5,
            max: 15,
            weight: Fraction::ratio(2, 1000),
            max_p: Fraction::ratio(1, 10),
            gentle: true,
            wait: true,
            by_bytes: false,
            mean_packet: Bytes::new(500),
            ecn: false,
        }
    }
}

impl RedParams {
    /// Size of a packet in the unit of the thresholds: bytes, or 1.
    pub fn unit(&self) -> u64 {
        if self.by_bytes {
            self.mean_packet.get()
        } else {
            1
        }
    }

    fn threshold(&self, packets: u64) -> Average {
        Average::of(packets * self.unit())
    }

    fn is_below(&self, avg: Average) -> bool {
        avg < self.threshold(self.min.into())
    }

    fn is_above(&self, avg: Average) -> bool {
        let packets = u64::from(self.max) * if self.gentle { 2 } else { 1 };
        avg >= self.threshold(packets)
    }

    /// The probability that belongs to an average between the thresholds, in steps of 2^-64.
    ///
    /// `p_b = max_p (avg - min_th) / (max_th - min_th)`, and in gentle mode above `max_th`
    /// `max_p + (1 - max_p) (avg - max_th) / max_th`.
    pub fn p_b(&self, avg: Average) -> u128 {
        let (min, max) = (u64::from(self.min), u64::from(self.max));
        let max_p = self.max_p.scaled();
        let (base, height, from, over) = if avg < self.threshold(max) {
            (0, max_p, min, max - min)
        } else {
            (max_p, Fraction::ONE.scaled() - max_p, max, max)
        };
        // An average is below 2^32: the product is below 2^(80 + 48), in steps of 2^-96.
        let rise = avg.0.saturating_sub(self.threshold(from).0) * u128::from(height);
        let rise = rise / u128::from(over * self.unit());
        (u128::from(base) << 16) + (rise >> 32)
    }

    /// The probability to drop a packet of `len`, the `count`-th since the last drop (or the end of
    /// `count` bytes), in steps of 2^-64.
    ///
    /// `p_a = p_b / (1 - count p_b)`, which spaces drops uniformly; with `wait` 0 while `count p_b < 1`,
    /// then `p_b / (2 - count p_b)`.
    pub fn p_a(&self, p_b: u128, count: u64, len: Bytes) -> u128 {
        let unit = u128::from(self.unit());
        let counted = p_b.saturating_mul(u128::from(count)) / unit;
        if self.wait && counted < ONE {
            return 0;
        }
        let rest = (if self.wait { 2 * ONE } else { ONE }).saturating_sub(counted);
        if p_b >= rest {
            return ONE;
        }
        let p_a = (p_b << 64) / rest;
        if self.by_bytes {
            (p_a * u128::from(len.get()) / unit).min(ONE)
        } else {
            p_a
        }
    }

    /// Transmission time of a packet of mean size.
    pub fn packet_time(&self, rate: Option<Rate>) -> Option<Duration> {
        rate.map(|rate| self.mean_packet / rate)
    }
}

/// Whether an arriving packet is dropped early: an average and its chances, over somebody's queue.
#[derive(Clone, Debug)]
pub(super) struct Early {
    params: RedParams,
    /// Transmission time of a packet of mean size. `None`: idle time is not made up for.
    packet_time: Option<Duration>,
    average: Average,
    /// Packets or bytes since the last drop; `None` while the average is below the thresholds.
    count: Option<u64>,
    /// When the queue became empty, or was last found so.
    idle_since: Instant,
    rng: Rng,
}

impl Early {
    pub fn new(env: &Env, params: RedParams) -> Self {
        Self {
            packet_time: params.packet_time(env.rate),
            average: Average::default(),
            count: None,
            idle_since: Instant::ZERO,
            rng: Rng::new(env.seed),
            params,
        }
    }

    /// Fig. 2, "calculate the new average queue size", for a packet that finds `held`.
    pub fn estimate(&mut self, now: Instant, held: Backlog) {
        let weight = self.params.weight;
        if held.packets == 0 {
            let m = self.idle_packets(now);
            self.average.decay(weight, m);
            self.idle_since = now;
        }
        let q = if self.params.by_bytes {
            held.bytes.get()
        } else {
            held.packets.into()
        };
        self.average.sample(weight, q);
    }

    /// `m`: how many packets of mean size the link would have sent since it became idle.
    fn idle_packets(&self, now: Instant) -> u64 {
        let idle = now.saturating_since(self.idle_since);
        self.packet_time
            .map_or(0, |time| idle.as_nanos() / time.as_nanos())
    }

    /// Whether the average is above the lower threshold.
    pub fn is_on(&self) -> bool {
        !self.params.is_below(self.average)
    }

    /// Whether it is above the upper one, where everything goes.
    pub fn is_over(&self) -> bool {
        self.params.is_above(self.average)
    }

    /// Fig. 2, the rest: whether the arriving packet goes.
    pub fn judge(&mut self, len: Bytes) -> Option<DropReason> {
        self.weighed(len, |p_b| p_b, |p_a| p_a)
    }

    /// The same, where `before` is given `p_b`, from 0 to 2^64, and says what it is for this packet, and `after` likewise `p_a`.
    /// A packet that is certain to go by the first goes however short ago the last drop was.
    pub fn weighed(
        &mut self,
        len: Bytes,
        before: impl FnOnce(u128) -> u128,
        after: impl FnOnce(u128) -> u128,
    ) -> Option<DropReason> {
        if self.params.is_below(self.average) {
            self.count = None;
            return None;
        }
        if self.params.is_above(self.average) {
            self.count = Some(0);
            return Some(DropReason::Forced);
        }
        let one = if self.params.by_bytes { len.get() } else { 1 };
        let count = self.count.map_or(0, |count| count.saturating_add(one));
        let p_b = before(self.params.p_b(self.average));
        let p_a = match p_b {
            ONE.. => ONE,
            p_b => after(self.params.p_a(p_b, count, len)),
        };
        let drop = u128::from(self.rng.next_u64()) < p_a;
        self.count = Some(if drop { 0 } else { count });
        drop.then_some(DropReason::Early)
    }

    /// Marks the packet instead of dropping it for `reason`, if allowed.
    pub fn marks(&self, pkt: &mut Packet, reason: DropReason) -> bool {
        reason == DropReason::Early && self.params.ecn && pkt.mark()
    }

    /// The buffer had no room for a packet that chance let in.
    pub fn refused(&mut self) {
        self.count = self.count.map(|_| 0);
    }

    /// The last packet of the queue is being sent.
    pub fn emptied(&mut self, now: Instant) {
        self.idle_since = now;
    }
}

impl RedParams {
    /// The parameters of `table`, all but `ecn`.
    pub(super) fn fields(&mut self, table: &str, visit: &mut Visitor<'_>) {
        let mut field = |key: &str, about, slot: &mut dyn Slot| {
            visit(&format!("{table}.{key}"), about, slot);
        };
        let thresholds = 1..=1 << 30;
        field(
            "min",
            "average queue, in packets, below which nothing is dropped early",
            &mut Ranged(&mut self.min, thresholds.clone()),
        );
        field(
            "max",
            "average queue, in packets, from which every packet is dropped; with `gentle` from twice as much",
            &mut Ranged(&mut self.max, thresholds),
        );
        // The range for which `red` says how exact its average is.
        let weights = Fraction::ratio(1, 1 << 20)..=Fraction::ONE;
        field(
            "weight",
            "weight of the queue length in its moving average",
            &mut Ranged(&mut self.weight, weights),
        );
        let chances = Fraction::ratio(1, 1_000_000_000_000)..=Fraction::ONE;
        field(
            "max_p",
            "drop probability at `max`",
            &mut Ranged(&mut self.max_p, chances),
        );
        field(
            "gentle",
            "from `max` to twice `max` the probability grows from `max_p` to 1",
            &mut flag(&mut self.gentle),
        );
        field(
            "wait",
            "drops are 1/p to 2/p packets apart, instead of 1 to 1/p",
            &mut flag(&mut self.wait),
        );
        field(
            "by",
            "what the average counts",
            &mut Choice(&mut self.by_bytes, &[("packets", false), ("bytes", true)]),
        );
        field(
            "mean_packet",
            "packet by which an idle time and bytes are counted",
            &mut Ranged(&mut self.mean_packet, Bytes::new(1)..=Packet::MAX_LEN),
        );
    }

    /// As [`RedParams::fields`] of `red`, with `ecn`.
    pub(super) fn all_fields(&mut self, visit: &mut Visitor<'_>) {
        self.fields("red", visit);
        spec::ecn(&mut self.ecn, visit);
    }

    /// The thresholds of `table`.
    pub(super) fn check(&self, table: &str) -> Result<(), String> {
        let Self { min, max, .. } = self;
        match min < max {
            true => Ok(()),
            false => Err(format!(
                "`{table}.min` is {min} and `{table}.max` {max}: the lower threshold must be below the upper"
            )),
        }
    }
}

impl Describe for RedParams {
    const NAME: &'static str = "red";
    const ABOUT: &'static str = "packets in order of arrival, some dropped early";

    fn fields(&mut self, visit: &mut Visitor<'_>) {
        self.all_fields(visit);
    }

    fn check(&self) -> Result<(), String> {
        Self::check(self, "red")
    }

    fn build(&self, env: &Env) -> Box<dyn Scheduler + Send> {
        Box::new(Red::new(env, self.clone()))
    }
}

/// Random early detection.
#[derive(Clone, Debug)]
pub struct Red {
    fifo: Fifo,
    early: Early,
}

impl Red {
    /// An empty queue.
    pub fn new(env: &Env, params: RedParams) -> Self {
        Self {
            fifo: Fifo::new(env.limits),
            early: Early::new(env, params),
        }
    }

    /// The average queue.
    pub fn average(&self) -> Average {
        self.early.average
    }

    /// Takes `pkt`, whose probability to be dropped early is what `before` makes of RED's before RED spaces its drops, and
    /// `after` of the one after.
    pub(super) fn offer(
        &mut self,
        now: Instant,
        mut pkt: Packet,
        drops: &mut Drops,
        before: impl FnOnce(u128) -> u128,
        after: impl FnOnce(u128) -> u128,
    ) {
        let refusal = self.fifo.refusal(&pkt);
        if refusal == Some(DropReason::TooLarge) {
            return drops.push(pkt, DropReason::TooLarge);
        }
        self.early.estimate(now, self.fifo.backlog());
        if let Some(reason) = self.early.weighed(pkt.len(), before, after)
            && !self.early.marks(&mut pkt, reason)
        {
            return drops.push(pkt, reason);
        }
        if let Some(reason) = refusal {
            self.early.refused();
            return drops.push(pkt, reason);
        }
        self.fifo.enqueue(now, pkt, drops);
    }
}

impl Scheduler for Red {
    fn enqueue(&mut self, now: Instant, pkt: Packet, drops: &mut Drops) {
        self.offer(now, pkt, drops, |p_b| p_b, |p_a| p_a);
    }

    fn dequeue(&mut self, now: Instant, _drops: &mut Drops) -> Option<Packet> {
        let sent = self.fifo.pop()?;
        if self.fifo.backlog().packets == 0 {
            self.early.emptied(now);
        }
        Some(sent)
    }

    fn next_departure(&self) -> Option<Instant> {
        self.fifo.next_departure()
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}

#[cfg(test)]
mod tests;
