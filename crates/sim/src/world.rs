// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network and its traffic, event by event.

#[cfg(test)]
mod contract;
mod radio;
mod senders;
mod sources;
#[cfg(test)]
mod starving;

pub use radio::{Cell, Mesh};

use std::sync::atomic::{AtomicBool, Ordering};

use makeway_core::packet::{Ecn, Handle, Tag};
use makeway_core::units::{Bytes, Duration, Instant, Rate};
use makeway_report::interval::Interval;
use makeway_scenario::departures::{Departure, HEADERS};
use makeway_scenario::model::Changes;

use crate::agenda::Agenda;
use crate::arena::{Arena, Body, Transit};
use crate::flow::{Ends, Kind};
use crate::port::Port;
use crate::step::Step;
use crate::tcp::Ack;
use crate::trace::{Trace, What};
use sources::{Event, Sources};

/// TTL of IP packets, as Linux sets it.
const TTL: u8 = 64;

/// Everything that a run changes.
pub struct World<T> {
    agenda: Agenda,
    arena: Arena,
    /// Every queue with its link.
    pub ports: Vec<Port>,
    /// Every flow's ways, step by step, each way ended by [`Step::END`].
    ways: Vec<Step>,
    changing: Vec<Changing>,
    /// Radio channels; their stations' ports come after those of links.
    pub cells: Vec<Cell>,
    /// How many ports are those of links.
    wired: u32,
    /// Every flow.
    pub flows: Vec<Ends>,
    interval: Interval,
    now: Instant,
    hash: u64,
    hops: u64,
    /// Is told what happens to packets.
    pub trace: T,
}

/// A port whose rate changes.
pub struct Changing {
    /// Its number.
    pub port: u32,
    /// To what and when.
    pub changes: Changes,
    /// Changes that were made.
    pub made: u64,
}

impl Changing {
    fn next(&self) -> Option<Instant> {
        let (at, _) = self.changes.nth(self.made)?;
        Some(Instant::ZERO + at)
    }
}

impl<T: Trace> World<T> {
    /// At time zero, with nothing under way.
    pub fn new(
        ports: Vec<Port>,
        ways: Vec<Step>,
        flows: Vec<Ends>,
        cells: Vec<Cell>,
        interval: Interval,
        trace: T,
    ) -> Self {
        let sources = Sources {
            ports: ports.len() as u32,
            flows: flows.len() as u32,
        };
        let far = 2 * flows.len() + 2 + 2 * cells.len();
        let mut agenda = Agenda::new(2 * ports.len(), far);
        agenda.set(sources.sample(), Instant::ZERO);
        for (flow, number) in flows.iter().zip(0..) {
            agenda.set(sources.send(number), flow.start);
        }
        for (place, cell) in cells.iter().enumerate() {
            agenda.set_or_clear(sources.air(place), cell.medium.next());
        }
        let wired = cells.first().map_or(sources.ports, |cell| cell.first);
        Self {
            agenda,
            arena: Arena::with_capacity(256),
            ports,
            ways,
            changing: Vec::new(),
            cells,
            wired,
            flows,
            interval,
            now: Instant::ZERO,
            hash: 0,
            hops: 0,
            trace,
        }
    }

    fn sources(&self) -> Sources {
        Sources {
            ports: self.ports.len() as u32,
            flows: self.flows.len() as u32,
        }
    }

    /// Has the rates of `changing` change in time.
    pub fn change_rates(&mut self, changing: Vec<Changing>) {
        self.changing = changing;
        self.await_change();
    }

    fn await_change(&mut self) {
        let next = self.changing.iter().filter_map(Changing::next).min();
        self.agenda.set_or_clear(self.sources().change(), next);
    }

    /// Goes on until `end`, or until `stop` is seen; packets are under way then.
    pub fn run_until(&mut self, end: Instant, stop: &AtomicBool) {
        let sources = self.sources();
        let mut events = 0u16;
        while let Some((now, source)) = self.agenda.next_before(end) {
            events = events.wrapping_add(1);
            if events == 0 && stop.load(Ordering::Relaxed) {
                return;
            }
            self.now = now;
            match sources.event(source) {
                Event::Transmit(port) => self.transmit(port),
                Event::Arrive(port) => self.arrive(port),
                Event::Send(flow) => self.sender_due(flow),
                Event::Receive(flow) => self.receiver_due(flow),
                Event::Sample => self.sample(),
                Event::Change => self.change(),
                Event::Air(cell) => self.air(cell as usize),
                Event::Find(cell) => self.find(cell as usize),
            }
        }
    }

    /// Goes on until everything that is under way has come to its end. Senders are silent.
    pub fn drain(&mut self, stop: &AtomicBool) {
        while !self.arena.is_empty()
            && !stop.load(Ordering::Relaxed)
            && let Some((next, _)) = self.agenda.next_before(Instant::FAR_FUTURE)
        {
            self.run_until(next + Duration::from_nanos(1), stop);
        }
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A number that is the same for the same run: of every arrival's time, port and packet.
    pub fn fingerprint(&self) -> u64 {
        self.hash
    }

    /// Packets that came to the far end of a link so far.
    pub fn hops(&self) -> u64 {
        self.hops
    }

    fn transmit(&mut self, number: u32) {
        if number >= self.wired {
            return self.offer(number);
        }
        let sources = self.sources();
        Port::hear(&mut self.ports, number);
        let port = &mut self.ports[number as usize];
        let waits = port.next_arrival().is_some();
        let (arena, trace, now) = (&mut self.arena, &mut self.trace, self.now);
        let next = port.transmit(now, |packet| {
            let marked = arena.carry(packet);
            if T::ON {
                let transit = arena.get(packet.handle);
                trace.note(now, number, What::Sent, packet.handle, transit);
            }
            marked
        });
        if !waits && let Some((at, _)) = port.next_arrival() {
            self.agenda.set(sources.arrive(number), at);
        }
        self.agenda.set_or_clear(sources.transmit(number), next);
        self.bury(number);
    }

    /// Makes the changes of rates that are due.
    fn change(&mut self) {
        let sources = self.sources();
        for changing in &mut self.changing {
            if changing.next().is_none_or(|at| at > self.now) {
                continue;
            }
            let number = changing.port;
            let port = &mut self.ports[number as usize];
            while let Some((at, rate)) = changing.changes.nth(changing.made)
                && Instant::ZERO + at <= self.now
            {
                port.set_rate(self.now, rate);
                changing.made += 1;
            }
            let (transmit, arrive) = (sources.transmit(number), sources.arrive(number));
            self.agenda
                .set_or_clear(arrive, port.next_arrival().map(|(at, _)| at));
            self.agenda.set_or_clear(transmit, port.next_departure());
        }
        self.await_change();
    }

    /// The port `number` has `rate` from `now` on, which is not before the last event.
    #[cold]
    pub fn set_rate(&mut self, now: Instant, number: u32, rate: Rate) {
        self.now = self.now.max(now);
        let sources = self.sources();
        let port = &mut self.ports[number as usize];
        port.set_rate(self.now, rate);
        await_port(&mut self.agenda, sources, number, port);
    }

    /// Forgets the packets that a port dropped, if there are any.
    #[inline(always)]
    fn bury(&mut self, number: u32) {
        if !self.ports[number as usize].lost.is_empty() {
            self.bury_all(number);
        }
    }

    fn bury_all(&mut self, number: u32) {
        while let Some((handle, why)) = self.ports[number as usize].lost.pop() {
            let transit = self.arena.remove(handle);
            if T::ON {
                let what = What::Dropped(why);
                self.trace.note(self.now, number, what, handle, &transit);
            }
        }
    }

    fn arrive(&mut self, number: u32) {
        let source = self.sources().arrive(number);
        let port = &mut self.ports[number as usize];
        let handle = port.arrive();
        match port.next_arrival() {
            Some((at, next)) => {
                self.agenda.set(source, at);
                // Of many packets under way it is not in the cache, and there is time until it comes.
                self.arena.fetch(next);
            }
            None => self.agenda.clear(source),
        }
        if let Some(handle) = handle {
            self.mark(number, handle);
            if T::ON {
                let transit = self.arena.get(handle);
                self.trace
                    .note(self.now, number, What::Received, handle, transit);
            }
            self.forward(handle);
        }
    }

    #[inline(always)]
    fn mark(&mut self, port: u32, handle: Handle) {
        let transit = self.arena.get_mut(handle);
        let word = self.now.as_nanos()
            ^ u64::from(port) << 48
            ^ u64::from(transit.flow) << 24
            ^ u64::from(transit.len);
        // FNV-1a's step, a word at a time, with rotation so that high bits count as well.
        self.hash = (self.hash.rotate_left(29) ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.hops += 1;
    }

    /// To the next port of its way, or to its end.
    fn forward(&mut self, handle: Handle) {
        let transit = self.arena.get_mut(handle);
        let step = self.ways[transit.step as usize];
        let port = step.port;
        if port == Step::END.port {
            let transit = self.arena.remove(handle);
            if T::ON {
                self.trace.delivered(handle, &transit);
            }
            return self.deliver(transit);
        }
        transit.step += 1;
        if T::ON {
            self.trace
                .note(self.now, port, What::Queued, handle, transit);
        }
        let queue = &mut self.ports[port as usize];
        let packet = queue.packet(self.now, handle, transit, &step);
        queue.enqueue(self.now, packet);
        if self.agenda.due(self.sources().transmit(port)).is_none() {
            self.transmit(port);
        } else {
            self.bury(port);
        }
    }

    fn send(&mut self, flow: u32, len: u32, ecn: Ecn, body: Body) {
        let back = body.is_back();
        let ends = &mut self.flows[flow as usize];
        let tag = match &mut ends.tags {
            Some(tags) if !back => {
                let is_heard_of = matches!(body, Body::Segment(_));
                tags.tag(self.now, Bytes::new(u64::from(len)), is_heard_of)
            }
            Some(tags) => tags.tag_ack(self.now),
            None => Tag(0),
        };
        let handle = self.arena.insert(Transit {
            flow,
            step: ends.ways[usize::from(back)],
            len,
            ecn,
            tag,
            ttl: TTL,
            body,
        });
        if T::ON {
            self.trace.created(self.now, handle);
        }
        self.forward(handle);
    }

    fn deliver(&mut self, transit: Transit) {
        let (number, now, interval) = (transit.flow, self.now, self.interval);
        let flow = &mut self.flows[number as usize];
        let is_data = !transit.body.is_back();
        if is_data && interval.measures(now.as_nanos()) {
            flow.ip_bytes += u64::from(transit.len);
        }
        match (&mut flow.kind, transit.body) {
            (Kind::Stream(stream), Body::Datagram { seq, sent, .. }) => {
                let payload = u64::from(transit.len) - HEADERS;
                let (sent, now) = (sent.as_nanos(), now.as_nanos());
                stream.received.count(interval, seq, payload, sent, now);
            }
            (Kind::Tcp(tcp), Body::Segment(segment)) => {
                let marked = transit.ecn == Ecn::Marked;
                if interval.measures(segment.sent_at.as_nanos()) {
                    tcp.delays
                        .count(now.saturating_since(segment.sent_at).as_nanos());
                }
                let ack = tcp.receiver.on_segment(now, &segment, marked);
                let delivered = tcp.receiver.delivered().get();
                tcp.bytes
                    .count(interval, delivered - tcp.delivered, now.as_nanos());
                tcp.delivered = delivered;
                if let Some(tasks) = &mut tcp.tasks {
                    tasks.deliver(now, delivered, interval);
                    let next = tasks.next;
                    let source = self.sources().send(number);
                    set_lazily(&mut self.agenda, source, next);
                }
                self.acknowledge(number, ack);
            }
            (Kind::Tcp(tcp), Body::Ack(ack)) => {
                let before = tcp.sender.acked();
                tcp.sender.on_ack(now, &ack);
                if let Some(tags) = &mut flow.tags {
                    let acked = tcp.sender.acked() - before;
                    tags.hear(now, transit.tag);
                    tags.on_acked(now, tcp.in_packets(acked.get()));
                }
                self.pump(number);
            }
            (Kind::Media(_), _) => self.deliver_media(transit),
            _ => {}
        }
    }

    /// Sends an acknowledgement, if there is one, and sets the receiver's timer.
    fn acknowledge(&mut self, number: u32, ack: Option<Ack>) {
        let source = self.sources().receive(number);
        let Kind::Tcp(tcp) = &self.flows[number as usize].kind else {
            return;
        };
        let headers = tcp.headers;
        set_lazily(&mut self.agenda, source, tcp.receiver.next_timeout());
        if let Some(ack) = ack {
            let len = headers + sack_len(&ack);
            self.send(number, len, Ecn::NotCapable, Body::Ack(ack));
        }
    }

    /// Sends what a TCP sender may send, and sets its timer.
    fn pump(&mut self, number: u32) {
        let source = self.sources().send(number);
        loop {
            let flow = &mut self.flows[number as usize];
            let Kind::Tcp(tcp) = &mut flow.kind else {
                return;
            };
            if self.now >= flow.stop {
                return self.agenda.clear(source);
            }
            match tcp.sender.poll_transmit(self.now) {
                Some(segment) => {
                    let len = segment.len + tcp.headers;
                    // RFC 3168 §6.1.5: what is sent again is not capable.
                    let ecn = match tcp.ecn && !segment.retransmitted {
                        true => Ecn::Capable,
                        false => Ecn::NotCapable,
                    };
                    self.send(number, len, ecn, Body::Segment(segment));
                }
                None => {
                    let due = tcp.next();
                    return set_lazily(&mut self.agenda, source, due);
                }
            }
        }
    }

    /// A flow begins, a packet of a stream is due, or a TCP sender's timer has run out.
    fn sender_due(&mut self, number: u32) {
        let source = self.sources().send(number);
        let flow = &mut self.flows[number as usize];
        match &mut flow.kind {
            Kind::Media(_) => self.wake_media(number),
            Kind::Tcp(tcp) => {
                if let Some(due) = tcp.next()
                    && due > self.now
                {
                    return self.agenda.set(source, due);
                }
                tcp.begin_task(self.now);
                tcp.sender.on_timeout(self.now);
                self.agenda.clear(source);
                self.pump(number);
            }
            Kind::Stream(stream) => {
                let start = flow.start;
                let due = |next: Departure| start + Duration::from_nanos(next.at);
                let ready = stream
                    .next
                    .filter(|next| due(*next) <= self.now && self.now < flow.stop);
                if ready.is_some() {
                    stream.next = stream.departures.next();
                    let sent = self.now.as_nanos();
                    stream.sent.count(self.interval, sent);
                }
                let next = stream.next.map(due).filter(|at| *at < flow.stop);
                self.agenda.set_or_clear(source, next);
                if let Some(departure) = ready {
                    let len = (departure.payload + HEADERS) as u32;
                    let body = Body::Datagram {
                        seq: departure.seq,
                        sent: self.now,
                        timestamp: departure.timestamp,
                        marker: departure.marker,
                    };
                    self.send(number, len, Ecn::NotCapable, body);
                }
            }
        }
    }

    fn receiver_due(&mut self, number: u32) {
        let source = self.sources().receive(number);
        let tcp = match &mut self.flows[number as usize].kind {
            Kind::Tcp(tcp) => tcp,
            Kind::Media(_) => return self.report_due(number),
            Kind::Stream(_) => return self.agenda.clear(source),
        };
        let ack = match tcp.receiver.next_timeout() {
            Some(due) if due > self.now => return self.agenda.set(source, due),
            Some(_) => tcp.receiver.on_timeout(self.now),
            None => None,
        };
        self.agenda.clear(source);
        self.acknowledge(number, ack);
    }

    fn sample(&mut self) {
        for port in &mut self.ports {
            let backlog = f64::from(port.backlog());
            if let Some(counts) = &mut port.counts {
                counts.backlog.push(backlog);
            }
        }
        for flow in &mut self.flows {
            if let Kind::Media(media) = &mut flow.kind {
                media.sample();
            }
        }
        let next = self.now + self.interval.step();
        let next = Some(next).filter(|next| next.as_nanos() < self.interval.to());
        self.agenda.set_or_clear(self.sources().sample(), next);
    }
}

/// Bytes of the SACK option: 4, and 8 for each block (RFC 2018 §3).
fn sack_len(ack: &Ack) -> u32 {
    match ack.sacked().count() as u32 {
        0 => 0,
        n => 4 + 8 * n,
    }
}

/// Puts down when the port `number`, whose rate has changed, sends next and when its packets arrive.
fn await_port(agenda: &mut Agenda, sources: Sources, number: u32, port: &Port) {
    let arrival = port.next_arrival().map(|(at, _)| at);
    agenda.set_or_clear(sources.arrive(number), arrival);
    agenda.set_or_clear(sources.transmit(number), port.next_departure());
}

/// A timer that moves on with every packet is moved in the agenda only when it runs out: one that is
/// woken early looks again.
#[inline(always)]
fn set_lazily(agenda: &mut Agenda, source: u32, due: Option<Instant>) {
    let Some(due) = due else {
        return;
    };
    if agenda.due(source).is_none_or(|set| due < set) {
        agenda.set(source, due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{Options, build};
    use crate::trace::Off;
    use std::path::Path;

    /// Nothing is lost but by a port that says so, at any time.
    #[test]
    fn every_packet_is_in_a_queue_or_on_a_link() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"));
        let text = std::fs::read_to_string(folder.join("call-and-downloads.toml")).unwrap();
        let scenario = makeway_scenario::parse(&text, "call", folder, &[]).unwrap();
        let interval = Interval::new(scenario.warmup, scenario.duration);
        let mut world = build(&scenario, interval, &Options::default(), Off).unwrap();
        for ms in (1..4000).step_by(7) {
            world.run_until(
                Instant::ZERO + Duration::from_millis(ms),
                &AtomicBool::new(false),
            );
            let held = world.ports.iter().map(|port| port.backlog() as usize);
            let flying = world.ports.iter().map(Port::on_the_way);
            assert_eq!(
                world.arena.len(),
                held.sum::<usize>() + flying.sum::<usize>()
            );
        }
        assert!(world.hops() > 1000);
    }
}
