// SPDX-License-Identifier: MIT OR Apache-2.0
//! The link of a call: a queue with a rate there, and delay both ways. Downloads may share the queue.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use makeway_core::units::{Bytes, Duration, Instant, Rate};
use makeway_transport::dccp::driver::{Clock, Wire};
use makeway_transport::dccp::wire::IP_HEADER;

/// One way.
pub const DELAY: Duration = Duration::from_millis(40);

/// The queue at the ingress of a link: packets leave in order of arrival, and one that finds it full is lost.
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

    /// Departure of an IP packet that arrives now; `None`: it is dropped.
    pub fn leaves(&self, now: Instant, bytes: u64) -> Option<Instant> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while state.waiting.front().is_some_and(|at| *at <= now) {
            state.waiting.pop_front();
        }
        if state.waiting.len() >= state.most {
            return None;
        }
        let leaves = state.idle.max(now) + Bytes::new(bytes) / state.rate;
        state.idle = leaves;
        state.waiting.push_back(leaves);
        Some(leaves)
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
        let is_due = self.next().is_some_and(|at| at <= now);
        is_due.then(|| self.0.pop_front().map(|(_, packet)| packet))?
    }

    /// When the next arrives.
    pub fn next(&self) -> Option<Instant> {
        self.0.front().map(|(at, _)| *at)
    }
}

/// The call's wire with a link before it.
#[derive(Debug)]
pub struct Line<W> {
    wire: W,
    clock: Clock,
    queue: Queue,
    there: UnderWay,
    back: UnderWay,
    buffer: Vec<u8>,
}

impl<W: Wire> Line<W> {
    /// `clock` is that of all users of the queue.
    pub fn new(wire: W, clock: Clock, queue: Queue) -> Self {
        Self {
            wire,
            clock,
            queue,
            there: UnderWay::default(),
            back: UnderWay::default(),
            buffer: Vec::new(),
        }
    }

    fn carry(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        while let Some(packet) = self.there.pop(now) {
            self.wire.send(&packet)?;
        }
        while self.wire.receive(&mut self.buffer)? {
            self.back.push(now + DELAY, &self.buffer);
        }
        Ok(())
    }
}

impl<W: Wire> Wire for Line<W> {
    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        let bytes = packet.len() as u64 + IP_HEADER;
        if let Some(leaves) = self.queue.leaves(self.clock.now(), bytes) {
            self.there.push(leaves + DELAY, packet);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_a_queue_wait_for_each_other_and_one_that_finds_it_full_is_lost() {
        let ms = |ms| Instant::ZERO + Duration::from_millis(ms);
        // 1000 B take 8 ms.
        let call = Queue::new(Rate::from_bps(1_000_000), 2);
        let download = call.clone();
        assert_eq!(call.leaves(ms(0), 1000), Some(ms(8)));
        assert_eq!(download.leaves(ms(0), 500), Some(ms(12)));
        assert_eq!(call.leaves(ms(1), 1000), None);
        assert_eq!(call.leaves(ms(8), 1000), Some(ms(20)));
        assert_eq!(download.leaves(ms(100), 1000), Some(ms(108)));
    }

    #[test]
    fn a_packet_arrives_when_it_is_due_and_not_before() {
        let at = Instant::ZERO + Duration::from_millis(5);
        let mut under_way = UnderWay::default();
        under_way.push(at, &[7]);
        assert_eq!(under_way.next(), Some(at));
        assert_eq!(under_way.pop(Instant::ZERO), None);
        assert_eq!(under_way.pop(at), Some(vec![7]));
        assert_eq!(under_way.pop(at), None);
    }
}
