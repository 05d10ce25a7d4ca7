// SPDX-License-Identifier: MIT OR Apache-2.0
//! One direction of a link: queue, transmitter, then the path to the far end.

use std::collections::{BTreeMap, VecDeque};

use makeway_core::framing::{Cells, Framing};
use makeway_core::loss::LossyLink;
use makeway_core::measure::Histogram;
use makeway_core::packet::{Ecn, Handle, Packet, Tag};
use makeway_core::sched::{self, Drops, Scheduler};
use makeway_core::shaper::Shaper;
use makeway_core::ticket::{ACK, Relabeller, TicketRate};
use makeway_core::units::{Bytes, Duration, Instant, Rate};
use makeway_report::interval::Interval;
use rand_distr::{Distribution, StandardNormal, StandardUniform};
use rand_pcg::Pcg64Mcg;

use crate::arena::Transit;
use crate::step::Step;

/// Framing of 802.11 data: LLC 8 bytes, MAC header 24, check sequence 4 (IEEE 802.11-2020 9.3.2.1).
pub const FRAMING: Framing = Framing {
    overhead: 36,
    mpu: 0,
    cells: Cells::None,
};

/// The number of the port at an end of a link, counted as in the scenario.
pub fn port_number(link: usize, end: usize) -> u32 {
    (2 * link + end) as u32
}

/// Impairments between the transmitter and the far end.
#[derive(Clone, Debug)]
pub struct Way {
    /// Propagation delay.
    pub delay: Duration,
    /// Standard deviation of the delay, Gaussian, in ns; order is kept.
    pub jitter: f64,
    /// Random loss.
    pub loss: LossyLink,
    /// The random stream of this port.
    pub rng: Pcg64Mcg,
}

/// Tickets as the far end of a link knows them.
#[derive(Clone, Debug)]
pub struct Currency {
    /// Trades those of data.
    pub data: Option<Relabeller>,
    /// Trades those of acknowledgements, where tickets are the receivers'; what is issued is theirs then.
    pub acks: Option<Relabeller>,
    /// When it is issued another rate, the last first.
    pub changes: Vec<(Instant, TicketRate)>,
}

impl Currency {
    fn trade(&mut self, now: Instant, packet: Packet) -> Packet {
        while let Some((_, rate)) = self.changes.pop_if(|(at, _)| *at <= now) {
            if let Some(relabeller) = self.acks.as_mut().or(self.data.as_mut()) {
                relabeller.issue(rate);
            }
        }
        let (relabeller, len) = match packet.is_control() {
            true => (&mut self.acks, ACK),
            false => (&mut self.data, packet.len()),
        };
        let Some(relabeller) = relabeller else {
            return packet;
        };
        packet.with_tag(relabeller.relabel(now, packet.tag(), len))
    }
}

/// A queue with its link.
pub struct Port {
    shaper: Shaper,
    /// Queued packets leave at multiples of this only.
    tick: Option<Duration>,
    framing: Framing,
    way: Way,
    currency: Option<Box<Currency>>,
    /// Packets on their way to the far end, in order, with the time of their arrival there.
    pipe: VecDeque<(Instant, Handle)>,
    /// Whether the last of them is the one that was sent last, and its delay.
    last_is_carried: bool,
    last_delay: Duration,
    drops: Drops,
    /// Packets dropped since the owner last looked, with reasons.
    pub lost: Vec<(Handle, &'static str)>,
    /// Kept where somebody wants to know.
    pub counts: Option<Box<Counts>>,
}

/// Counters of a measured port.
#[derive(Clone, Debug)]
pub struct Counts {
    interval: Interval,
    /// Packets that came.
    pub packets_in: u64,
    /// Packets that the link sent.
    pub packets_out: u64,
    /// Bytes on the wire that the link sent inside the measured interval.
    pub bytes_measured: u64,
    /// Packets that were marked here.
    pub marks: u64,
    /// Dropped packets by reason.
    pub drops: BTreeMap<&'static str, u64>,
    /// Time from arrival to the start of transmission.
    pub sojourn: Histogram,
    /// Backlog in packets at the beginning of each step.
    pub backlog: Vec<f64>,
}

impl Counts {
    /// Nothing yet.
    pub fn new(interval: Interval) -> Self {
        Self {
            interval,
            packets_in: 0,
            packets_out: 0,
            bytes_measured: 0,
            marks: 0,
            drops: BTreeMap::new(),
            sojourn: Histogram::new(),
            backlog: Vec::with_capacity(interval.steps().len()),
        }
    }

    #[inline(always)]
    fn sent(&mut self, now: Instant, packet: &Packet, marked: bool) {
        self.packets_out += 1;
        self.marks += u64::from(marked);
        self.sojourn.record(now.saturating_since(packet.arrived));
        if self.interval.measures(now.as_nanos()) {
            self.bytes_measured += packet.len().get();
        }
    }

    fn dropped(&mut self, reason: &'static str) {
        *self.drops.entry(reason).or_default() += 1;
    }
}

impl Port {
    /// An idle port.
    pub fn new(
        shaper: Shaper,
        tick: Option<Duration>,
        framing: Framing,
        way: Way,
        currency: Option<Box<Currency>>,
    ) -> Self {
        Self {
            shaper,
            tick,
            framing,
            way,
            currency,
            // Longer ways hold more and grow it at once.
            pipe: VecDeque::with_capacity(16),
            last_is_carried: false,
            last_delay: Duration::ZERO,
            drops: Drops::with_capacity(8),
            lost: Vec::with_capacity(8),
            counts: None,
        }
    }

    /// Tickets on acknowledgements to the port `number` decide those on its data, where tickets are the receivers'.
    #[inline(always)]
    pub fn hear(ports: &mut [Self], number: u32) {
        if ports[number as usize].currency.is_none() {
            return;
        }
        let [a, b] = &mut ports[number as usize / 2 * 2..][..2] else {
            return;
        };
        let (own, other) = if number.is_multiple_of(2) {
            (a, b)
        } else {
            (b, a)
        };
        if let (Some(own), Some(other)) = (&mut own.currency, &other.currency)
            && let (Some(data), Some(acks)) = (&mut own.data, &other.acks)
        {
            data.hear(acks);
        }
    }

    /// A packet under way as a queue sees it, of `flow` there.
    #[inline(always)]
    pub fn packet(&self, now: Instant, handle: Handle, transit: &Transit, at: &Step) -> Packet {
        let wire = self.framing.wire(Bytes::new(u64::from(transit.len)));
        let mut packet = Packet::new(now, handle, at.flow, at.user, wire);
        if transit.ecn != Ecn::NotCapable {
            packet = packet.with_ecn(transit.ecn);
        }
        if transit.body.is_back() {
            packet = packet.with_control();
        }
        if transit.tag != Tag(0) {
            packet = packet.with_tag(transit.tag);
        }
        packet
    }

    /// A packet comes to the queue.
    // The world is compiled twice, with traces and without, and inlines what has one caller only.
    #[inline(always)]
    pub fn enqueue(&mut self, now: Instant, packet: Packet) {
        if let Some(counts) = &mut self.counts {
            counts.packets_in += 1;
        }
        self.shaper.enqueue(now, packet, &mut self.drops);
        if !self.drops.is_empty() {
            self.give_up();
        }
    }

    /// Begins to send every packet that may be sent at `now`; when there may be more. `sent` hears of each, and says
    /// whether it was marked here.
    pub fn transmit(
        &mut self,
        now: Instant,
        mut sent: impl FnMut(&Packet) -> bool,
    ) -> Option<Instant> {
        while let Some(mut packet) = self.shaper.dequeue(now, &mut self.drops) {
            if let Some(currency) = &mut self.currency {
                packet = currency.trade(now, packet);
            }
            let marked = sent(&packet);
            let leaves = match self.shaper.rate() {
                // A bucket has the tokens of a whole packet before it leaves.
                Some(_) if self.tick.is_none() => self.shaper.busy_until(),
                _ => now,
            };
            if let Some(counts) = &mut self.counts {
                counts.sent(now, &packet, marked);
            }
            self.carry(leaves, packet.handle);
        }
        if !self.drops.is_empty() {
            self.give_up();
        }
        self.next_departure()
    }

    /// The next packet, for a radio, which has its own way of sending. `sent` says whether it was marked here.
    pub fn take(&mut self, now: Instant, sent: impl FnOnce(&Packet) -> bool) -> Option<Packet> {
        let packet = self.shaper.dequeue(now, &mut self.drops);
        if !self.drops.is_empty() {
            self.give_up();
        }
        let packet = packet?;
        let marked = sent(&packet);
        if let Some(counts) = &mut self.counts {
            counts.sent(now, &packet, marked);
        }
        Some(packet)
    }

    /// Drops a packet that has left the queue.
    pub fn lose(&mut self, handle: Handle, why: &'static str) {
        self.lost.push((handle, why));
        if let Some(counts) = &mut self.counts {
            counts.dropped(why);
        }
    }

    /// The link has `rate` from now on; what is left of the packet being sent goes at it.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) {
        let before = self.shaper.busy_until();
        self.shaper.set_rate(now, Some(rate));
        let after = self.shaper.busy_until();
        if before <= now || !self.last_is_carried {
            return;
        }
        let earliest = match self.pipe.len() {
            0 | 1 => now,
            n => self.pipe[n - 2].0,
        };
        if let Some((at, _)) = self.pipe.back_mut() {
            *at = (after + self.last_delay).max(earliest);
        }
    }

    /// When a packet may leave next.
    #[inline(always)]
    pub fn next_departure(&self) -> Option<Instant> {
        let next = self.shaper.next_departure()?;
        Some(match self.tick {
            Some(tick) => next.next_multiple_of(tick),
            None => next,
        })
    }

    /// When the next packet comes to the far end, and which.
    #[inline]
    pub fn next_arrival(&self) -> Option<(Instant, Handle)> {
        self.pipe.front().copied()
    }

    /// The packet that comes to the far end now.
    #[inline]
    pub fn arrive(&mut self) -> Option<Handle> {
        self.pipe.pop_front().map(|(_, handle)| handle)
    }

    /// Its rate; `None`: not limited.
    pub fn rate(&self) -> Option<Rate> {
        self.shaper.rate()
    }

    /// Packets and bytes in the queue.
    pub fn waiting(&self) -> sched::Backlog {
        self.shaper.backlog()
    }

    /// When the packet that is being sent has left.
    pub fn busy_until(&self) -> Instant {
        self.shaper.busy_until()
    }

    /// Packets in the queue.
    pub fn backlog(&self) -> u32 {
        self.shaper.backlog().packets
    }

    /// Counters of its discipline.
    pub fn discipline_counts(&self) -> sched::Counts {
        self.shaper.counts()
    }

    /// How its discipline regards a flow by its behaviour.
    #[cfg(test)]
    pub fn standing(&self, flow: makeway_core::packet::FlowId) -> Option<sched::Standing> {
        self.shaper.standing(flow)
    }

    /// Packets on the link.
    #[cfg(test)]
    pub fn on_the_way(&self) -> usize {
        self.pipe.len()
    }

    #[inline(always)]
    fn carry(&mut self, sent: Instant, handle: Handle) {
        let way = &mut self.way;
        let rng = &mut way.rng;
        self.last_is_carried = !way.loss.loses(|| StandardUniform.sample(rng));
        if !self.last_is_carried {
            return self.lose(handle, "loss");
        }
        let mut delay = way.delay;
        if way.jitter > 0.0 {
            let normal: f64 = StandardNormal.sample(&mut way.rng);
            let ns = delay.as_nanos() as f64 + normal * way.jitter;
            delay = Duration::from_nanos(ns.max(0.0) as u64);
        }
        self.last_delay = delay;
        let mut at = sent + delay;
        if let Some((last, _)) = self.pipe.back() {
            at = at.max(*last);
        }
        self.pipe.push_back((at, handle));
    }

    #[cold]
    fn give_up(&mut self) {
        for (packet, reason) in self.drops.drain() {
            let why = reason.name();
            self.lost.push((packet.handle, why));
            if let Some(counts) = &mut self.counts {
                counts.dropped(why);
            }
        }
    }
}
