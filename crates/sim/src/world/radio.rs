// SPDX-License-Identifier: MIT OR Apache-2.0
//! Radio channels: from a station's queue to the medium, over other stations if need be, and off it again.

use makeway_core::packet::{Handle, Packet};
use makeway_core::random::Rng;
use makeway_core::units::{Bytes, Duration, Instant};

use super::World;
use crate::agenda::Agenda;
use crate::aodv::{Message, Router};
use crate::port::FRAMING;
use crate::step::Step;
use crate::trace::Trace;
use crate::wlan::{BROADCAST, Event, Frame, Medium};

/// Instead of a packet: the frame has a message of its sender's router.
const MESSAGE: Handle = Handle(u32::MAX);

/// A channel with its stations.
pub struct Cell {
    /// Frames on the air.
    pub medium: Medium,
    /// The port of its first station; the others' follow.
    pub first: u32,
    /// How many there are.
    pub stations: u16,
    /// Routers over other stations, where there is no access point.
    pub mesh: Option<Mesh>,
}

/// The routers of a channel's stations.
pub struct Mesh {
    routers: Vec<Router>,
    /// Transmission of each.
    on_air: Vec<Option<Message>>,
    /// When each has something to do.
    agenda: Agenda,
}

impl Mesh {
    /// Mesh of this number of stations.
    pub fn new(stations: u16, seed: u64) -> Self {
        let mut seeds = Rng::new(seed);
        let count = usize::from(stations);
        let router = |id| Router::new(id, count, Rng::new(Rng::new(seeds.next_u64()).next_u64()));
        Self {
            routers: (0..stations).map(router).collect(),
            on_air: vec![None; count],
            agenda: Agenda::new(count, 0),
        }
    }

    /// The router of a station.
    pub fn router(&self, station: u16) -> &Router {
        &self.routers[usize::from(station)]
    }

    fn next(&self) -> Option<Instant> {
        let (at, _) = self.agenda.next_before(Instant::FAR_FUTURE)?;
        Some(at)
    }
}

impl<T: Trace> World<T> {
    /// A station's radio takes the next queued packet, if it may.
    #[cold]
    pub(super) fn offer(&mut self, number: u32) {
        let now = self.now;
        let of = |cell: &Cell| number - cell.first < u32::from(cell.stations);
        let Some(place) = self.cells.iter().position(of) else {
            return;
        };
        let station = (number - self.cells[place].first) as u16;
        if self.cells[place].medium.is_off(station) {
            while let Some(packet) = self.take(number) {
                self.ports[number as usize].lose(packet.handle, "off");
            }
        } else if self.cells[place].medium.is_ready(station)
            && let Some(frame) = self.next_frame(place, station)
        {
            self.cells[place].medium.send(now, station, frame);
        }
        if let Some(mesh) = &mut self.cells[place].mesh {
            let next = mesh.router(station).next(now);
            mesh.agenda.set_or_clear(u32::from(station), next);
        }
        self.note(place);
        self.bury(number);
    }

    /// Puts down when a channel and its routers have something to do.
    fn note(&mut self, place: usize) {
        let (sources, cell) = (self.sources(), &self.cells[place]);
        let find = cell.mesh.as_ref().and_then(Mesh::next);
        self.agenda.set_or_clear(sources.find(place), find);
        self.agenda
            .set_or_clear(sources.air(place), cell.medium.next());
    }

    /// The next packet of `station`: messages of its router first, as ns-2 has it, then packets that waited for a route.
    fn next_frame(&mut self, place: usize, station: u16) -> Option<Frame> {
        let (now, number) = (self.now, self.cells[place].first + u32::from(station));
        if self.cells[place].mesh.is_none() {
            let packet = self.take(number)?;
            let to = self.step_of(packet.handle).to;
            return Some(frame(to, packet.handle, packet.len()));
        }
        loop {
            let mesh = self.cells[place].mesh.as_mut()?;
            let router = &mut mesh.routers[usize::from(station)];
            if let Some((to, message)) = router.poll(now) {
                mesh.on_air[usize::from(station)] = Some(message);
                let bytes = FRAMING.wire(Bytes::new(u64::from(message.bytes())));
                return Some(frame(to.unwrap_or(BROADCAST), MESSAGE, bytes));
            }
            if let Some((handle, next)) = router.release(now) {
                let len = Bytes::new(u64::from(self.arena.get(handle).len));
                return Some(frame(next, handle, FRAMING.wire(len)));
            }
            let packet = self.take(number)?;
            let step = self.step_of(packet.handle);
            let router = self.router(place, station)?;
            if let Some(next) = router.route(now, step.to) {
                return Some(frame(next, packet.handle, packet.len()));
            }
            if step.port == number {
                router.hold(now, step.to, packet.handle);
                self.forsake(place, station);
            } else {
                router.no_route(now, step.to);
                self.ports[number as usize].lose(packet.handle, "no-route");
            }
        }
    }

    fn router(&mut self, place: usize, station: u16) -> Option<&mut Router> {
        let mesh = self.cells[place].mesh.as_mut()?;
        Some(&mut mesh.routers[usize::from(station)])
    }

    /// The step on which a packet is.
    fn step_of(&self, handle: Handle) -> Step {
        self.ways[self.arena.get(handle).step as usize - 1]
    }

    /// The next packet of a station's queue.
    fn take(&mut self, number: u32) -> Option<Packet> {
        let (arena, port) = (&mut self.arena, &mut self.ports[number as usize]);
        port.take(self.now, |packet| arena.carry(packet))
    }

    /// Drops the packets that the router of a station dropped.
    fn forsake(&mut self, place: usize, station: u16) {
        let number = self.cells[place].first + u32::from(station);
        while let Some(handle) = self.router(place, station).and_then(Router::lost) {
            self.ports[number as usize].lose(handle, "no-route");
        }
        self.bury(number);
    }

    /// Something happens on a channel.
    pub(super) fn air(&mut self, place: usize) {
        self.cells[place].medium.advance(self.now);
        while let Some(event) = self.cells[place].medium.poll() {
            let first = self.cells[place].first;
            let station = match event {
                Event::Ready { station } => station,
                Event::Received {
                    station,
                    from,
                    frame,
                } => {
                    self.received(place, station, from, frame);
                    station
                }
                Event::GivenUp { station, frame } => {
                    self.given_up(place, station, frame);
                    station
                }
                Event::Off { station, frame } => {
                    self.off(place, station, frame);
                    station
                }
            };
            self.offer(first + u32::from(station));
        }
        self.note(place);
    }

    /// Something is due at routers of a channel.
    pub(super) fn find(&mut self, place: usize) {
        let (now, first) = (self.now, self.cells[place].first);
        while let Some(mesh) = &mut self.cells[place].mesh
            && let Some((_, station)) = mesh.agenda.next_before(now + Duration::from_nanos(1))
        {
            mesh.routers[station as usize].advance(now);
            self.forsake(place, station as u16);
            self.offer(first + station);
        }
    }

    fn received(&mut self, place: usize, station: u16, from: u16, frame: Frame) {
        let (now, first) = (self.now, self.cells[place].first);
        if frame.handle == MESSAGE {
            if let Some(mesh) = &mut self.cells[place].mesh
                && let Some(message) = mesh.on_air[usize::from(from)]
            {
                mesh.routers[usize::from(station)].receive(now, from, &message);
            }
            return;
        }
        self.mark(first + u32::from(from), frame.handle);
        let step = self.step_of(frame.handle);
        if let Some(router) = self.router(place, station) {
            router.carried(now, (step.port - first) as u16, from);
        }
        if step.to == station {
            return self.forward(frame.handle);
        }
        let number = first + u32::from(station);
        let transit = self.arena.get_mut(frame.handle);
        transit.ttl -= 1;
        match transit.ttl {
            0 => {
                self.ports[number as usize].lose(frame.handle, "ttl");
                self.bury(number);
            }
            _ => {
                let (transit, port) = (
                    self.arena.get(frame.handle),
                    &mut self.ports[number as usize],
                );
                let packet = port.packet(now, frame.handle, transit, &step);
                port.enqueue(now, packet);
                self.bury(number);
            }
        }
    }

    /// After its last try: the neighbour is gone. A packet's own source looks for another way.
    fn given_up(&mut self, place: usize, station: u16, frame: Frame) {
        let (now, number) = (self.now, self.cells[place].first + u32::from(station));
        if let Some(router) = self.router(place, station) {
            router.broken(now, frame.to);
        }
        if frame.handle == MESSAGE {
            return;
        }
        let step = self.step_of(frame.handle);
        match self.router(place, station) {
            Some(router) if step.port == number => {
                router.hold(now, step.to, frame.handle);
                self.forsake(place, station);
            }
            _ => {
                self.ports[number as usize].lose(frame.handle, "retries");
                self.bury(number);
            }
        }
    }

    fn off(&mut self, place: usize, station: u16, frame: Option<Frame>) {
        let number = self.cells[place].first + u32::from(station);
        if let Some(router) = self.router(place, station) {
            router.switch_off();
            self.forsake(place, station);
        }
        if let Some(frame) = frame.filter(|frame| frame.handle != MESSAGE) {
            self.ports[number as usize].lose(frame.handle, "off");
            self.bury(number);
        }
    }
}

fn frame(to: u16, handle: Handle, bytes: Bytes) -> Frame {
    Frame {
        to,
        handle,
        bytes: bytes.get() as u32,
    }
}
