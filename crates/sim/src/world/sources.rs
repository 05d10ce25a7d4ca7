// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events by the numbers of their sources in the agenda.

/// Sources of the agenda, in this order: for each port its transmitter and its far end, for each
/// flow its sender and its receiver, then the clock of the series and the changes of rates, then for
/// each radio channel its medium and its routers.
#[derive(Clone, Copy)]
pub struct Sources {
    pub ports: u32,
    pub flows: u32,
}

pub enum Event {
    Transmit(u32),
    Arrive(u32),
    Send(u32),
    Receive(u32),
    Sample,
    Change,
    Air(u32),
    Find(u32),
}

impl Sources {
    pub fn transmit(self, port: u32) -> u32 {
        2 * port
    }

    pub fn arrive(self, port: u32) -> u32 {
        2 * port + 1
    }

    pub fn send(self, flow: u32) -> u32 {
        2 * self.ports + 2 * flow
    }

    pub fn receive(self, flow: u32) -> u32 {
        2 * self.ports + 2 * flow + 1
    }

    pub fn sample(self) -> u32 {
        2 * (self.ports + self.flows)
    }

    pub fn change(self) -> u32 {
        self.sample() + 1
    }

    pub fn air(self, cell: usize) -> u32 {
        self.sample() + 2 + 2 * cell as u32
    }

    pub fn find(self, cell: usize) -> u32 {
        self.air(cell) + 1
    }

    #[cold]
    pub fn other(self, place: u32, second: bool) -> Event {
        match (place, second) {
            (0, false) => Event::Sample,
            (0, true) => Event::Change,
            (cell, false) => Event::Air(cell - 1),
            (cell, true) => Event::Find(cell - 1),
        }
    }

    #[inline(always)]
    pub fn event(self, source: u32) -> Event {
        let (index, second) = (source / 2, source % 2 == 1);
        match (index.checked_sub(self.ports), second) {
            (None, false) => Event::Transmit(index),
            (None, true) => Event::Arrive(index),
            (Some(flow), false) if flow < self.flows => Event::Send(flow),
            (Some(flow), true) if flow < self.flows => Event::Receive(flow),
            (Some(other), second) => self.other(other - self.flows, second),
        }
    }
}
