//! The network and its traffic, event by event.

use makeway_core::packet::{FlowId, Handle, UserId};
use makeway_core::units::{Duration, Instant};
use makeway_report::interval::Interval;
use makeway_scenario::departures::{Departure, HEADERS};

use crate::agenda::Agenda;
use crate::arena::{Arena, Body, Transit};
use crate::flow::{Flow, Kind};
use crate::port::Port;
use crate::tcp::{Ack, Segment};
use crate::trace::{Trace, What};

/// The end of a way.
pub const END: u32 = u32::MAX;
/// Headers of a TCP packet: IPv4 20, TCP 20, timestamps 12 bytes (RFC 7323).
pub const TCP_HEADERS: u32 = 52;

/// What each packet of a flow is to the ports: flow and user, by the flow's number and direction.
#[derive(Clone, Debug)]
pub struct Identities {
    /// The flow's id.
    pub flow: Vec<FlowId>,
    /// The user's id.
    pub user: Vec<UserId>,
}

/// Everything that a run changes.
pub struct World<T> {
    agenda: Agenda,
    arena: Arena,
    /// Every queue with its link.
    pub ports: Vec<Port>,
    /// For each port, what makes a flow there, as a place in `identities`.
    pub identity_of: Vec<u32>,
    /// The identities that occur.
    pub identities: Vec<Identities>,
    /// Ports in the order in which packets go through them, each way ended by [`END`].
    pub ways: Vec<u32>,
    /// Every flow.
    pub flows: Vec<Flow>,
    interval: Interval,
    now: Instant,
    hash: u64,
    hops: u64,
    /// Is told what happens to packets.
    pub trace: T,
}

/// Sources of the agenda, in this order: for each port its transmitter and its far end, for each
/// flow its sender and its receiver, then the clock of the series.
#[derive(Clone, Copy)]
struct Sources {
    ports: u32,
    flows: u32,
}

enum Event {
    Transmit(u32),
    Arrive(u32),
    Send(u32),
    Receive(u32),
    Sample,
}

impl Sources {
    fn transmit(self, port: u32) -> u32 {
        2 * port
    }

    fn arrive(self, port: u32) -> u32 {
        2 * port + 1
    }

    fn send(self, flow: u32) -> u32 {
        2 * self.ports + 2 * flow
    }

    fn receive(self, flow: u32) -> u32 {
        2 * self.ports + 2 * flow + 1
    }

    fn sample(self) -> u32 {
        2 * (self.ports + self.flows)
    }

    #[inline]
    fn event(self, source: u32) -> Event {
        let (index, second) = (source / 2, source % 2 == 1);
        match (index.checked_sub(self.ports), second) {
            (None, false) => Event::Transmit(index),
            (None, true) => Event::Arrive(index),
            (Some(flow), _) if flow == self.flows => Event::Sample,
            (Some(flow), false) => Event::Send(flow),
            (Some(flow), true) => Event::Receive(flow),
        }
    }
}

/// What goes through a network.
pub struct Network {
    /// Every queue with its link.
    pub ports: Vec<Port>,
    /// See [`World::identity_of`].
    pub identity_of: Vec<u32>,
    /// See [`World::identities`].
    pub identities: Vec<Identities>,
    /// See [`World::ways`].
    pub ways: Vec<u32>,
}

impl<T: Trace> World<T> {
    /// At time zero, with nothing under way.
    pub fn new(network: Network, flows: Vec<Flow>, interval: Interval, trace: T) -> Self {
        let sources = Sources {
            ports: network.ports.len() as u32,
            flows: flows.len() as u32,
        };
        let mut agenda = Agenda::new(sources.sample() as usize + 1);
        agenda.set(sources.sample(), Instant::ZERO);
        for (flow, number) in flows.iter().zip(0..) {
            agenda.set(sources.send(number), flow.start);
        }
        let Network {
            ports,
            identity_of,
            identities,
            ways,
        } = network;
        Self {
            agenda,
            arena: Arena::default(),
            ports,
            identity_of,
            identities,
            ways,
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

    /// Goes on until `end`; packets are under way then.
    pub fn run_until(&mut self, end: Instant) {
        let sources = self.sources();
        while let Some((now, source)) = self.agenda.next_before(end) {
            self.now = now;
            match sources.event(source) {
                Event::Transmit(port) => self.transmit(port),
                Event::Arrive(port) => self.arrive(port),
                Event::Send(flow) => self.sender_due(flow),
                Event::Receive(flow) => self.receiver_due(flow),
                Event::Sample => self.sample(),
            }
        }
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
        let sources = self.sources();
        let port = &mut self.ports[number as usize];
        let waits = port.next_arrival().is_some();
        let next = if T::ON {
            let (arena, trace, now) = (&self.arena, &mut self.trace, self.now);
            port.transmit(now, |handle| {
                trace.note(now, number, What::Sent, handle, arena.get(handle));
            })
        } else {
            port.transmit(self.now, |_| ())
        };
        if !waits && let Some(at) = port.next_arrival() {
            self.agenda.set(sources.arrive(number), at);
        }
        self.agenda.set_or_clear(sources.transmit(number), next);
        self.bury(number);
    }

    /// Forgets the packets that a port gave up.
    #[inline]
    fn bury(&mut self, number: u32) {
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
        self.agenda.set_or_clear(source, port.next_arrival());
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

    #[inline]
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
        let number = self.ways[transit.step as usize];
        if number == END {
            let transit = self.arena.remove(handle);
            if T::ON {
                self.trace.delivered(handle, &transit);
            }
            return self.deliver(transit);
        }
        transit.step += 1;
        let back = matches!(transit.body, Body::Ack(_));
        let index = 2 * transit.flow as usize + usize::from(back);
        let identities = &self.identities[self.identity_of[number as usize] as usize];
        let (flow, user) = (identities.flow[index], identities.user[index]);
        let len = transit.len;
        if T::ON {
            self.trace
                .note(self.now, number, What::Queued, handle, transit);
        }
        let port = &mut self.ports[number as usize];
        port.enqueue(self.now, handle, flow, user, len);
        if self.agenda.due(2 * number).is_none() {
            self.transmit(number);
        } else {
            self.bury(number);
        }
    }

    fn send(&mut self, flow: u32, len: u32, body: Body) {
        let back = matches!(body, Body::Ack(_));
        let handle = self.arena.insert(Transit {
            flow,
            step: self.flows[flow as usize].ways[usize::from(back)],
            len,
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
        match (&mut flow.kind, transit.body) {
            (Kind::Stream(stream), Body::Datagram { seq, sent, .. }) => {
                let payload = u64::from(transit.len) - HEADERS;
                let (sent, now) = (sent.as_nanos(), now.as_nanos());
                stream.received.count(interval, seq, payload, sent, now);
            }
            (Kind::Tcp(tcp), Body::Segment(segment)) => {
                let ack = tcp.receiver.on_segment(now, &segment, false);
                let delivered = tcp.receiver.delivered().get();
                tcp.bytes
                    .count(interval, delivered - tcp.delivered, now.as_nanos());
                tcp.delivered = delivered;
                self.acknowledge(number, ack);
            }
            (Kind::Tcp(tcp), Body::Ack(ack)) => {
                tcp.sender.on_ack(now, &ack);
                self.pump(number);
            }
            _ => {}
        }
    }

    /// Sends an acknowledgement, if there is one, and sets the receiver's timer.
    fn acknowledge(&mut self, number: u32, ack: Option<Ack>) {
        if let Some(ack) = ack {
            self.send(number, ack_len(&ack), Body::Ack(ack));
        }
        let source = self.sources().receive(number);
        if let Kind::Tcp(tcp) = &self.flows[number as usize].kind {
            let due = tcp.receiver.next_timeout();
            set_lazily(&mut self.agenda, source, due);
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
                    let len = segment_len(&segment);
                    self.send(number, len, Body::Segment(segment));
                }
                None => {
                    let due = tcp.sender.next_timeout();
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
            Kind::Tcp(tcp) => {
                match tcp.sender.next_timeout() {
                    Some(due) if due > self.now => return self.agenda.set(source, due),
                    Some(_) => tcp.sender.on_timeout(self.now),
                    None => {}
                }
                self.agenda.clear(source);
                self.pump(number);
            }
            Kind::Stream(stream) => {
                let start = flow.start;
                let due = |next: Departure| start + Duration::from_nanos(next.at);
                let ready = stream.next.filter(|next| due(*next) <= self.now);
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
                    self.send(number, len, body);
                }
            }
        }
    }

    fn receiver_due(&mut self, number: u32) {
        let source = self.sources().receive(number);
        let Kind::Tcp(tcp) = &mut self.flows[number as usize].kind else {
            return self.agenda.clear(source);
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
        let next = self.now + self.interval.step();
        self.agenda.set(self.sources().sample(), next);
    }
}

fn segment_len(segment: &Segment) -> u32 {
    segment.len + TCP_HEADERS
}

/// With SACK, 4 bytes and 8 for each block more (RFC 2018).
fn ack_len(ack: &Ack) -> u32 {
    match ack.sacked().count() as u32 {
        0 => TCP_HEADERS,
        n => TCP_HEADERS + 4 + 8 * n,
    }
}

/// A timer that moves on with every packet is moved in the agenda only when it runs out: whoever is
/// woken early looks again.
#[inline]
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
    use crate::build::build;
    use crate::trace::Off;
    use std::path::Path;

    /// Nothing is lost but by a port that says so, at any time.
    #[test]
    fn every_packet_is_in_a_queue_or_on_a_link() {
        let text = include_str!("../../../scenarios/call-and-downloads.toml");
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"));
        let scenario = makeway_scenario::parse(text, "call", folder, &[]).unwrap();
        let interval = Interval::new(scenario.warmup, scenario.duration);
        let mut world = build(&scenario, interval, None, Off).unwrap();
        for ms in (1..4000).step_by(7) {
            world.run_until(Instant::ZERO + Duration::from_millis(ms));
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
