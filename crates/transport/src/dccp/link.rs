// SPDX-License-Identifier: MIT OR Apache-2.0
//! A network of one process, before a wire: delay, a rate with a queue, and loss, in both directions. Others may share the queue.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use super::driver::{Clock, Wire};
use super::wire::IP_HEADER;
use makeway_core::units::{Bytes, Duration, Instant, Rate};

/// The queue at the ingress of a link: packets depart in order of arrival, and one that finds it full is dropped. A clone is the same queue.
#[derive(Clone, Debug)]
pub struct Queue(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    rate: Rate,
    most: usize,
    /// Departure of the last packet.
    idle: Instant,
    /// Departures of the packets that wait.
    waiting: VecDeque<Instant>,
}

impl Queue {
    /// Empty queue of a link of that rate, with room for `most` packets.
    pub fn new(rate: Rate, most: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            rate,
            most,
            idle: Instant::ZERO,
            waiting: VecDeque::new(),
        })))
    }

    /// Departure of an IP packet of `bytes` that arrives now; `None`: it is dropped.
    pub fn departure(&self, now: Instant, bytes: u64) -> Option<Instant> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while state.waiting.front().is_some_and(|at| *at <= now) {
            state.waiting.pop_front();
        }
        if state.waiting.len() >= state.most {
            return None;
        }
        let departs = state.idle.max(now) + Bytes::new(bytes) / state.rate;
        state.idle = departs;
        state.waiting.push_back(departs);
        Some(departs)
    }
}

/// Packets under way, in the order of their arrivals.
#[derive(Debug, Default)]
pub struct UnderWay(VecDeque<(Instant, Vec<u8>)>);

impl UnderWay {
    /// Adds one that arrives no sooner than those before it.
    pub fn push(&mut self, at: Instant, packet: &[u8]) {
        self.0.push_back((at, packet.into()));
    }

    /// The next that has arrived.
    pub fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        let is_due = self.next_arrival().is_some_and(|at| at <= now);
        is_due.then(|| self.0.pop_front().map(|(_, packet)| packet))?
    }

    /// When the next arrives.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.0.front().map(|(at, _)| *at)
    }
}

/// One direction.
#[derive(Debug)]
pub struct Way {
    /// For all packets.
    pub delay: Duration,
    /// Queue before the link, which others may share.
    pub queue: Option<Queue>,
    /// Loses each packet whose number this is a divisor of; 0: none.
    pub lose_each: u64,
    /// Packets so far.
    pub packets: u64,
    /// Packets lost so far, those included that the queue dropped.
    pub lost: u64,
    under_way: UnderWay,
}

impl Way {
    fn new(delay: Duration) -> Self {
        Self {
            delay,
            queue: None,
            lose_each: 0,
            packets: 0,
            lost: 0,
            under_way: UnderWay::default(),
        }
    }

    fn push(&mut self, now: Instant, packet: &[u8]) {
        self.packets += 1;
        let departs = match &self.queue {
            Some(queue) => queue.departure(now, packet.len() as u64 + IP_HEADER),
            None => Some(now),
        };
        let is_lost = self.lose_each > 0 && self.packets.is_multiple_of(self.lose_each);
        match departs {
            Some(at) if !is_lost => self.under_way.push(at + self.delay, packet),
            _ => self.lost += 1,
        }
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
    /// With the same delay both ways, and nothing else; `clock` is that of the user, and of all users of its queues.
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
        while let Some(packet) = self.there.under_way.pop(now) {
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
        let packet = self.back.under_way.pop(self.clock.now());
        Ok(packet.map(|packet| *into = packet).is_some())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.wire.descriptor()
    }

    fn next_timeout(&self) -> Option<Instant> {
        let ways = [&self.there, &self.back];
        let arrivals = ways.map(|way| way.under_way.next_arrival());
        arrivals.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn users_of_a_queue_wait_for_each_other_and_one_that_finds_it_full_is_lost() {
        // 1000 B take 8 ms.
        let call = Queue::new(Rate::from_bps(1_000_000), 2);
        let download = call.clone();
        assert_eq!(call.departure(ms(0), 1000), Some(ms(8)));
        assert_eq!(download.departure(ms(0), 500), Some(ms(12)));
        assert_eq!(call.departure(ms(1), 1000), None);
        assert_eq!(call.departure(ms(8), 1000), Some(ms(20)));
        assert_eq!(download.departure(ms(100), 1000), Some(ms(108)));
    }

    #[test]
    fn a_packet_arrives_when_it_is_due_and_not_before() {
        let mut under_way = UnderWay::default();
        under_way.push(ms(5), &[7]);
        assert_eq!(under_way.next_arrival(), Some(ms(5)));
        assert_eq!(under_way.pop(Instant::ZERO), None);
        assert_eq!(under_way.pop(ms(5)), Some(vec![7]));
        assert_eq!(under_way.pop(ms(5)), None);
    }

    #[test]
    fn packets_of_a_direction_wait_in_its_queue_and_are_lost_by_number() {
        let mut way = Way::new(Duration::from_millis(40));
        let packet = [0; 1000 - IP_HEADER as usize];
        way.push(ms(0), &packet);
        assert_eq!(way.under_way.next_arrival(), Some(ms(40)));
        way.under_way.pop(ms(40));

        // 1000 B take 8 ms; the fourth packet takes its time at the link, and is lost behind it.
        way.queue = Some(Queue::new(Rate::from_bps(1_000_000), 3));
        way.lose_each = 4;
        for _ in 0..5 {
            way.push(ms(100), &packet);
        }
        assert_eq!((way.packets, way.lost), (6, 3));
        for at in [148, 156] {
            assert_eq!(way.under_way.next_arrival(), Some(ms(at)));
            way.under_way.pop(ms(at));
        }
        assert_eq!(way.under_way.next_arrival(), None);
    }
}
