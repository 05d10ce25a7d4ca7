// SPDX-License-Identifier: MIT OR Apache-2.0
//! A network of one process, before a wire: delay, a rate with a queue, and loss, in both directions.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use super::driver::{Clock, Wire};
use super::wire::IP_HEADER;
use makeway_core::units::{Bytes, Duration, Instant, Rate};

/// One direction.
#[derive(Debug)]
pub struct Way {
    /// For all packets.
    pub delay: Duration,
    /// Rate, and the packets that wait for it at most.
    pub bottleneck: Option<(Rate, usize)>,
    /// Loses each packet whose number this is a divisor of; 0: none.
    pub lose_each: u64,
    /// Packets so far.
    pub packets: u64,
    /// Packets lost so far.
    pub lost: u64,
    idle: Instant,
    under_way: VecDeque<(Instant, Vec<u8>)>,
    /// Departures from the queue.
    waiting: VecDeque<Instant>,
}

impl Way {
    fn new(delay: Duration) -> Self {
        Self {
            delay,
            bottleneck: None,
            lose_each: 0,
            packets: 0,
            lost: 0,
            idle: Instant::ZERO,
            under_way: VecDeque::new(),
            waiting: VecDeque::new(),
        }
    }

    fn push(&mut self, now: Instant, packet: &[u8]) {
        self.packets += 1;
        let mut leaves = now;
        if let Some((rate, most)) = self.bottleneck {
            while self.waiting.front().is_some_and(|at| *at <= now) {
                self.waiting.pop_front();
            }
            if self.waiting.len() >= most {
                self.lost += 1;
                return;
            }
            leaves = self.idle.max(now) + Bytes::new(packet.len() as u64 + IP_HEADER) / rate;
            self.idle = leaves;
            self.waiting.push_back(leaves);
        }
        if self.lose_each > 0 && self.packets.is_multiple_of(self.lose_each) {
            self.lost += 1;
            return;
        }
        self.under_way
            .push_back((leaves + self.delay, packet.into()));
    }

    fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        let due = self.next().is_some_and(|at| at <= now);
        due.then(|| self.under_way.pop_front().map(|(_, packet)| packet))?
    }

    fn next(&self) -> Option<Instant> {
        self.under_way.front().map(|(at, _)| *at)
    }
}

/// A wire with a network before it.
#[derive(Debug)]
pub struct Link<W> {
    wire: W,
    clock: Clock,
    /// From the user into the wire.
    pub there: Way,
    /// From the wire to the user.
    pub back: Way,
    buffer: Vec<u8>,
}

impl<W: Wire> Link<W> {
    /// With the same delay both ways, and nothing else; `clock` is that of the user.
    pub fn new(wire: W, clock: Clock, delay: Duration) -> Self {
        Self {
            wire,
            clock,
            there: Way::new(delay),
            back: Way::new(delay),
            buffer: Vec::new(),
        }
    }

    fn carry(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        while let Some(packet) = self.there.pop(now) {
            self.wire.send(&packet)?;
        }
        while self.wire.receive(&mut self.buffer)? {
            self.back.push(now, &self.buffer);
        }
        Ok(())
    }
}

impl<W: Wire> Wire for Link<W> {
    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        self.there.push(self.clock.now(), packet);
        Ok(())
    }

    fn receive(&mut self, into: &mut Vec<u8>) -> io::Result<bool> {
        self.carry()?;
        let packet = self.back.pop(self.clock.now());
        Ok(packet.map(|packet| *into = packet).is_some())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.wire.descriptor()
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.there.next().into_iter().chain(self.back.next()).min()
    }
}
