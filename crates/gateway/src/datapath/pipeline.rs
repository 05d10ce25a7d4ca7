// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a packet's arrival to its verdict, with no clock and no socket: classify, schedule, shape,
//! impair, count.

mod account;
mod order;
mod users;

use std::mem;

use makeway_core::flow::{FlowKey, FlowTable, Identity, ecn, is_control};
use makeway_core::framing::Framing;
use makeway_core::measure::Histogram;
use makeway_core::packet::{Ecn, FlowId, Packet, UserId};
use makeway_core::sched::{self, Counts, Drops, Env, Limits, Needs, Scheduler, Spec, SpecError};
use makeway_core::shaper::Shaper;
use makeway_core::units::{Bytes, Duration, Instant, Rate};

use super::impair::{DelayLine, Fate};
use super::message::Queued;
use super::nfqueue::{BATCH, Verdicts};
use super::stats::{Sojourn, SojournCounts, Stats};
use super::tags::Tags;
use super::{Change, DatapathConfig, Translated};
pub(super) use account::SeenFlow;
use account::{Cause, Counters, FlowAccount};
use order::Order;
use users::Users;

/// A packet behind the scheduler.
#[derive(Clone, Copy, Debug)]
struct Sent {
    handle: u32,
    is_marked: bool,
}

/// Sojourn times over the last one to two seconds: the running second and the one before.
struct Recent {
    windows: [Histogram; 2],
    since: Instant,
}

/// One direction of one interface.
pub(super) struct Pipeline {
    started: Instant,
    /// As it was started.
    started_with: Spec,
    spec: Spec,
    needs: Needs,
    env: Env,
    shaper: Shaper,
    framing: Framing,
    identity: Identity,
    keys: FlowTable<FlowKey>,
    users: Users,
    tags: Tags,
    flows: Vec<FlowAccount>,
    flows_seen: u64,
    line: DelayLine<Sent>,
    /// The fwmark that a rule behind the queue turns into a mark of congestion.
    marking: Option<u32>,
    total: Counters,
    sojourns: Histogram,
    recent: Recent,
    largest: u64,
    refused: u64,
    /// Counts of disciplines that were replaced.
    counts: Counts,
    drops: Drops,
    order: Order,
}

/// Why the discipline cannot run here. `writes`: whether it may write tags.
pub(super) fn check_place(spec: &Spec, rate: Option<Rate>, writes: bool) -> Result<(), SpecError> {
    let needs = spec.needs();
    let why = if needs.link_rate && rate.is_none() {
        "it needs the rate of its link: give one, like 20mbit"
    } else if needs.writes_tags && !writes {
        "it writes tags on packets, and was not started to do so: start it again with that discipline"
    } else {
        return Ok(());
    };
    Err(SpecError::NotHere(spec.discipline(), why))
}

impl Pipeline {
    pub fn new(now: Instant, config: &DatapathConfig) -> Result<Self, SpecError> {
        let mut env = config.env();
        let flows = config.flows();
        env.limits.flows = flows;
        env.users = config.known_users();
        let spec = config.spec.clone();
        let needs = spec.needs();
        // A configuration says itself whether tags are written.
        check_place(&spec, env.rate, true)?;
        let mut users = Users::new(config);
        users.prepare(needs, &mut env);
        let mut tags = Tags::new(&config.tags, flows, config.seed);
        tags.read_by(spec.codec(config.tags.codec));
        let line = DelayLine::new(config.impairments, config.rate, config.seed);
        Ok(Self {
            started: now,
            shaper: Shaper::new(config.rate, sched::build(&spec, &env)?),
            framing: config.framing,
            identity: config.identity,
            keys: FlowTable::new(flows, config.seed),
            users,
            tags,
            flows: Vec::with_capacity(flows as usize),
            flows_seen: 0,
            line,
            marking: None,
            total: Counters::default(),
            sojourns: Histogram::new(),
            recent: Recent {
                windows: [Histogram::new(), Histogram::new()],
                since: now,
            },
            largest: 0,
            refused: 0,
            counts: Counts::default(),
            drops: Drops::with_capacity(BATCH),
            order: Order::default(),
            started_with: spec.clone(),
            spec,
            needs,
            env,
        })
    }

    /// Takes a packet from the kernel.
    pub fn arrive(&mut self, now: Instant, queued: &Queued<'_>, verdicts: &mut Verdicts) {
        self.order.came(queued.id);
        let key = key(self.identity, queued);
        let bytes = self.framing.wire(Bytes::new(u64::from(queued.len)));
        self.total.packets_in += 1;
        self.total.bytes_in += bytes.get();
        self.largest = self.largest.max(bytes.get());
        let Some(held) = self.keys.hold_at(now, &key) else {
            return self.refuse(queued.id, verdicts);
        };
        let index = held.id.0 as usize;
        if held.is_new {
            self.flows_seen += 1;
            match self.flows.get_mut(index) {
                Some(flow) => {
                    *flow = FlowAccount::new();
                    self.shaper.forget(held.id);
                }
                None => self.flows.push(FlowAccount::new()),
            }
        }
        let Some(user) = self.users.hold(queued) else {
            self.keys.release(held.id);
            return self.refuse(queued.id, verdicts);
        };
        let flow = &mut self.flows[index];
        flow.counters.packets_in += 1;
        flow.counters.bytes_in += bytes.get();
        flow.backlog_packets += 1;
        flow.backlog_bytes += bytes.get();
        flow.last_seen = now;
        let (handle, tag) = self.tags.arrive(now, queued, bytes, self.needs.reads_tags);
        let ecn = self.ecn(queued);
        self.total.marked_in += u64::from(ecn == Ecn::Marked);
        let mut packet = Packet::new(now, handle, held.id, user, bytes)
            .with_tag(tag)
            .with_ecn(ecn);
        // Nobody else asks, and it is a second look at the headers.
        if self.needs.control && is_control(queued.headers) {
            packet = packet.with_control();
        }
        self.shaper.enqueue(now, packet, &mut self.drops);
        self.give_up(now, verdicts);
        // A packet that arrives at an idle link departs at once: a burst must not fill the buffer before it.
        self.depart(now, usize::MAX, verdicts);
    }

    /// Sends the packets that may depart at `now`, at most `most`; returns their number.
    pub fn depart(&mut self, now: Instant, most: usize, verdicts: &mut Verdicts) -> usize {
        let mut n = 0;
        while n < most {
            let Some(packet) = self.shaper.dequeue(now, &mut self.drops) else {
                break;
            };
            n += 1;
            self.sent(now, &packet, verdicts);
        }
        if !self.drops.is_empty() {
            self.give_up(now, verdicts);
        }
        while let Some(sent) = self.line.leave(now) {
            n += 1;
            self.accept(sent, verdicts);
        }
        n
    }

    /// Begins a round of arrivals and departures.
    pub fn begin_round(&mut self, verdicts: &Verdicts) {
        // Verdicts that could not be written yet cannot become part of a range.
        self.order.begin(verdicts.is_empty());
    }

    /// Ends it: verdicts that are one range become one verdict.
    pub fn finish_round(&mut self, verdicts: &mut Verdicts) {
        if verdicts.len() > 1
            && let Some(last) = self.order.range()
        {
            verdicts.clear();
            verdicts.accept_up_to(last);
        }
    }

    /// The next time at which [`Pipeline::depart`] has something to do.
    pub fn next_departure(&self) -> Option<Instant> {
        match (self.shaper.next_departure(), self.line.next_departure()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Sends everything, regardless of rate and delay.
    pub fn drain(&mut self, now: Instant, verdicts: &mut Verdicts) {
        self.shaper.set_rate(now, None);
        while self.depart(now, usize::MAX, verdicts) > 0 {}
        while let Some(sent) = self.line.leave(Instant::FAR_FUTURE) {
            self.accept(sent, verdicts);
        }
    }

    /// The kernel did not know the packet of a verdict.
    pub fn verdict_refused(&mut self) {
        self.refused += 1;
    }

    /// Changes what runs; packets that are held stay held.
    pub fn change(
        &mut self,
        now: Instant,
        change: &Change,
        verdicts: &mut Verdicts,
    ) -> Result<(), SpecError> {
        let before = change
            .weights
            .as_ref()
            .map(|_| self.users.weights().to_vec());
        let weights = change.weights.as_ref();
        let reweighed = weights.map_or_else(Vec::new, |weights| self.users.reweigh(weights));
        if let Some(spec) = self.made_anew(change, &reweighed)
            && let Err(error) = self.make_anew(now, spec, change, verdicts)
        {
            let again = before.map_or_else(Vec::new, |before| self.users.reweigh(&before));
            for (user, weight) in again {
                self.shaper.set_weight(user, weight);
            }
            return Err(error);
        }
        if let Some(rate) = change.rate {
            self.shaper.set_rate(now, rate);
        }
        if let Some(framing) = change.framing {
            self.framing = framing;
        }
        if let Some(tickets) = change.tickets {
            self.tags.issue(tickets);
        }
        if let Some(marking) = change.marking {
            self.marking = marking;
        }
        Ok(())
    }

    /// The discipline that a change makes anew, if it does: one that takes other weights has them now.
    fn made_anew(&mut self, change: &Change, reweighed: &[(UserId, u32)]) -> Option<Spec> {
        if let Some(spec) = &change.spec {
            return Some(spec.clone());
        }
        if let Some(discipline) = change.discipline {
            return Some(match discipline == self.started_with.discipline() {
                true => self.started_with.clone(),
                false => discipline.on_a_link(),
            });
        }
        let mut users = reweighed.iter();
        let is_weighed = !self.needs.weights
            || users.all(|&(user, weight)| self.shaper.set_weight(user, weight));
        (change.limits.is_some() || !is_weighed).then(|| self.spec.clone())
    }

    /// Makes the discipline anew; the packets of the old one move to it.
    fn make_anew(
        &mut self,
        now: Instant,
        spec: Spec,
        change: &Change,
        verdicts: &mut Verdicts,
    ) -> Result<(), SpecError> {
        let (discipline, needs) = (spec.discipline(), spec.needs());
        let old = self.env.limits;
        let limits = change.limits.map_or(old, |limits| Limits {
            flows: old.flows,
            ..limits
        });
        if limits.packets >= limits.flows {
            let why = "its tables are smaller than that limit: start it again with it";
            return Err(SpecError::NotHere(discipline, why));
        }
        // A running discipline keeps the rate and the framing that it was made with.
        let mut env = Env {
            limits,
            rate: change.rate.unwrap_or(self.shaper.rate()),
            framing: change.framing.unwrap_or(self.framing),
            ..self.env.clone()
        };
        check_place(&spec, env.rate, self.tags.writes_as_scheduled())?;
        self.users.prepare(needs, &mut env);
        let new = sched::build(&spec, &env)?;
        let old = self.shaper.replace(now, new, &mut self.drops);
        self.counts += old.counts();
        self.tags.read_by(spec.codec(self.env.codec));
        (self.spec, self.needs, self.env) = (spec, needs, env);
        self.give_up(now, verdicts);
        Ok(())
    }

    /// Packets that the kernel holds for us at most.
    pub fn most_held(&self) -> u32 {
        let line = u32::try_from(self.line.capacity()).unwrap_or(u32::MAX);
        self.env.limits.packets.saturating_add(line)
    }

    /// At most `most` flows from number `first` on; fewer are the last.
    pub fn seen_flows(&self, first: u32, most: usize) -> Vec<SeenFlow> {
        let seen = (first..self.keys.len()).take(most).filter_map(|index| {
            let key = *self.keys.key(FlowId(index))?;
            let flow = self.flows[index as usize].clone();
            let standing = self.shaper.standing(FlowId(index));
            Some(SeenFlow {
                key,
                flow,
                standing,
            })
        });
        seen.collect()
    }

    /// Rate, bytes that arrived, bytes that left, and bytes that wait, at next to no cost.
    pub fn traffic(&self) -> [u64; 4] {
        let rate = self.shaper.rate().map_or(0, Rate::bps);
        let backlog = self.shaper.backlog().bytes.get();
        [rate, self.total.bytes_in, self.total.bytes_out, backlog]
    }

    /// Counters so far.
    pub fn stats(&self, now: Instant) -> Stats {
        let mut flows = self.seen_flows(0, usize::MAX);
        flows.sort_unstable_by_key(|flow| std::cmp::Reverse(flow.size()));
        Stats {
            flows: flows.iter().map(|flow| flow.told(now)).collect(),
            ..self.totals(now)
        }
    }

    /// Likewise, without the flows.
    pub fn totals(&self, now: Instant) -> Stats {
        let backlog = self.shaper.backlog();
        let mut counts = self.counts;
        counts += self.shaper.counts();
        let mut recent = self.recent.windows[0].clone();
        recent.merge(&self.recent.windows[1]);
        if now.saturating_since(self.recent.since) > Duration::from_secs(2) {
            recent.clear();
        }
        Stats {
            discipline: Some(self.spec.discipline()),
            rate_bps: self.shaper.rate().map(Rate::bps),
            seconds: now.saturating_since(self.started).as_secs_f64(),
            cpu_seconds: 0.0,
            late_max_ms: 0.0,
            packets_in: self.total.packets_in,
            bytes_in: self.total.bytes_in,
            largest_bytes: self.largest,
            packets_out: self.total.packets_out,
            bytes_out: self.total.bytes_out,
            drops: self.total.drop_names(),
            backlog_packets: u64::from(backlog.packets),
            backlog_bytes: backlog.bytes.get(),
            delayed_packets: self.line.len() as u64,
            verdicts_refused: self.refused,
            marked_in: self.total.marked_in,
            marked_out: self.total.marked_out,
            favoured: counts.favoured,
            reordered: counts.reordered,
            expected: counts.expected,
            tags: self.tags.stats(),
            sojourn: sojourn(&self.sojourns),
            sojourn_counts: sojourn_counts(&self.sojourns),
            sojourn_recent: sojourn(&recent),
            flows_seen: self.flows_seen,
            flows: Vec::new(),
        }
    }

    fn sent(&mut self, now: Instant, packet: &Packet, verdicts: &mut Verdicts) {
        let sojourn = now.saturating_since(packet.arrived);
        self.sojourns.record(sojourn);
        self.recent.record(now, sojourn);
        let bytes = packet.len().get();
        let flow = &mut self.flows[packet.flow.0 as usize];
        flow.backlog_packets -= 1;
        flow.backlog_bytes -= bytes;
        flow.sojourns.record(sojourn);
        self.tags.leave(now, packet);
        let sent = Sent {
            handle: packet.handle.0,
            is_marked: packet.ecn() == Ecn::Marked,
        };
        let fate = self.line.enter(now, sent);
        let cause = match fate {
            Fate::Now | Fate::Kept => {
                flow.counters.packets_out += 1;
                flow.counters.bytes_out += bytes;
                self.total.bytes_out += bytes;
                self.total.marked_out += u64::from(sent.is_marked);
                None
            }
            Fate::Lost => Some(Cause::Loss),
            Fate::Full => Some(Cause::DelayLine),
        };
        if let Some(cause) = cause {
            flow.counters.drops[cause.index()] += 1;
            self.total.drops[cause.index()] += 1;
        }
        self.release(now, packet.flow, packet.user());
        match fate {
            Fate::Now => self.accept(sent, verdicts),
            Fate::Kept => {}
            Fate::Lost | Fate::Full => self.discard(packet.handle.0, verdicts),
        }
    }

    /// Gives the scheduler's drops up.
    fn give_up(&mut self, now: Instant, verdicts: &mut Verdicts) {
        if self.drops.is_empty() {
            return;
        }
        let mut drops = mem::take(&mut self.drops);
        for (packet, reason) in drops.drain() {
            let cause = Cause::Scheduler(reason).index();
            let flow = &mut self.flows[packet.flow.0 as usize];
            flow.backlog_packets -= 1;
            flow.backlog_bytes -= packet.len().get();
            flow.counters.drops[cause] += 1;
            self.total.drops[cause] += 1;
            self.release(now, packet.flow, packet.user());
            self.discard(packet.handle.0, verdicts);
        }
        self.drops = drops;
    }

    fn refuse(&mut self, id: u32, verdicts: &mut Verdicts) {
        self.total.drops[Cause::Flows.index()] += 1;
        self.order.changed(id);
        verdicts.drop(id);
    }

    /// The ECN field of a packet, if a mark of ours would reach it: without a fwmark of its own, which would be lost, and
    /// where no verdict changes it.
    fn ecn(&self, queued: &Queued<'_>) -> Ecn {
        let can_be_marked = self.marking.is_some() && queued.mark == 0 && !self.tags.writes_any();
        match can_be_marked {
            true => ecn(queued.headers),
            false => Ecn::NotCapable,
        }
    }

    fn accept(&mut self, sent: Sent, verdicts: &mut Verdicts) {
        self.total.packets_out += 1;
        let mark = self.marking.filter(|_| sent.is_marked);
        match self.tags.release(sent.handle) {
            (id, None) if let Some(mark) = mark => {
                self.order.changed(id);
                verdicts.accept_marked(id, mark);
            }
            (id, None) => {
                self.order.accepted(id);
                verdicts.accept(id);
            }
            (id, Some(payload)) => {
                self.order.changed(id);
                verdicts.rewrite(id, payload);
            }
        }
    }

    fn discard(&mut self, handle: u32, verdicts: &mut Verdicts) {
        let id = self.tags.forget(handle);
        self.order.changed(id);
        verdicts.drop(id);
    }

    fn release(&mut self, now: Instant, flow: FlowId, user: UserId) {
        let is_idle = self.keys.release(flow);
        if is_idle
            && let Some(sched::Standing { class, .. }) = self.shaper.standing(flow)
            && class.goes_first()
        {
            // Its record counts from its last packet that left, too.
            self.keys.keep(flow, now + class.remembered());
        }
        self.users.release(user);
    }
}

/// Whether a key has a host as the destination, and no port that would be translated with it.
pub(super) fn names_destination(identity: Identity) -> bool {
    matches!(identity, Identity::DstHost | Identity::HostPair)
}

/// The key of a packet, with the host behind address translation as its destination.
fn key(identity: Identity, queued: &Queued<'_>) -> FlowKey {
    let key = FlowKey::from_ip(identity, queued.headers);
    match queued.translated {
        Some(Translated { from, to }) if names_destination(identity) => key.redirected(from, to),
        _ => key,
    }
}

impl Recent {
    fn record(&mut self, now: Instant, sojourn: Duration) {
        if now.saturating_since(self.since) >= Duration::from_secs(1) {
            self.since = now;
            self.windows.swap(0, 1);
            self.windows[0].clear();
        }
        self.windows[0].record(sojourn);
    }
}

fn sojourn(histogram: &Histogram) -> Sojourn {
    Sojourn {
        mean_ms: histogram.mean().as_millis_f64(),
        p50_ms: histogram.quantile(0.5).as_millis_f64(),
        p99_ms: histogram.quantile(0.99).as_millis_f64(),
        max_ms: histogram.max().as_millis_f64(),
    }
}

fn sojourn_counts(histogram: &Histogram) -> SojournCounts {
    SojournCounts {
        below: histogram.counts_below(SojournCounts::bounds_ns().map(Duration::from_nanos)),
        packets: histogram.count(),
        sum_s: histogram.sum_ns() / 1e9,
    }
}

#[cfg(test)]
mod contract;
#[cfg(test)]
mod tests;
