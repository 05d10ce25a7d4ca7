// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sender, a bottleneck with a fixed delay, a receiver: the least network that TCP can be tested in.

use makeway_core::units::{Bytes, Duration, Instant, Rate};
use makeway_sim::tcp::{Ack, Config, Receiver, Segment, Sender};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Fate of a packet on its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    pub lost: bool,
    pub marked: bool,
    /// Arrives this much later than its turn.
    pub late: Duration,
    /// Arrives a second time, this much later.
    pub again: Option<Duration>,
}

pub const LOST: Fate = Fate {
    lost: true,
    marked: false,
    late: Duration::ZERO,
    again: None,
};

pub struct Pipe<D, A> {
    pub sender: Sender,
    pub receiver: Receiver,
    pub now: Instant,
    /// Every data segment sent, and when.
    pub sent: Vec<(Instant, Segment)>,
    pub acks: Vec<(Instant, Ack)>,
    rate: Rate,
    delay: Duration,
    busy_until: Instant,
    data: D,
    ack: A,
    events: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    arrivals: Vec<Arrival>,
    mss: u64,
}

#[derive(Clone, Copy)]
enum Arrival {
    Data(Segment, bool),
    Ack(Ack),
}

/// A fate that depends on nothing.
type Always<T> = fn(usize, &T) -> Fate;

impl Pipe<Always<Segment>, Always<Ack>> {
    /// Everything arrives.
    pub fn lossless(config: &Config, rate: Rate, delay: Duration) -> Self {
        Self::new(config, rate, delay, |_, _| Fate::default(), untouched)
    }
}

impl<D, A> Pipe<D, A>
where
    D: FnMut(usize, &Segment) -> Fate,
    A: FnMut(usize, &Ack) -> Fate,
{
    /// `data` and `ack` decide each packet's fate, by its number from 0 in order of sending.
    pub fn new(config: &Config, rate: Rate, delay: Duration, data: D, ack: A) -> Self {
        Self {
            sender: Sender::new(config),
            receiver: Receiver::new(config),
            now: Instant::ZERO,
            sent: Vec::new(),
            acks: Vec::new(),
            rate,
            delay,
            busy_until: Instant::ZERO,
            data,
            ack,
            events: BinaryHeap::new(),
            arrivals: Vec::new(),
            mss: u64::from(config.mss),
        }
    }

    /// Until everything is acknowledged or `end` is reached; true if it is.
    pub fn run(&mut self, end: Instant) -> bool {
        self.transmit();
        while !self.sender.is_done() {
            let arrival = self.events.peek().map(|Reverse(e)| e.0);
            let timers = [
                arrival,
                self.sender.next_timeout(),
                self.receiver.next_timeout(),
            ];
            let Some(next) = timers.into_iter().flatten().min() else {
                panic!("nothing is under way and no timer runs");
            };
            if next > end {
                return false;
            }
            self.now = next;
            if arrival == Some(next) {
                let Some(Reverse((_, _, n))) = self.events.pop() else {
                    unreachable!("an arrival was there");
                };
                self.arrive(self.arrivals[n]);
            } else {
                self.sender.on_timeout(next);
                if let Some(ack) = self.receiver.on_timeout(next) {
                    self.send_ack(ack);
                }
            }
            self.transmit();
        }
        true
    }

    fn arrive(&mut self, what: Arrival) {
        match what {
            Arrival::Data(segment, ce) => {
                if let Some(ack) = self.receiver.on_segment(self.now, &segment, ce) {
                    self.send_ack(ack);
                }
            }
            Arrival::Ack(ack) => self.sender.on_ack(self.now, &ack),
        }
    }

    fn transmit(&mut self) {
        while let Some(segment) = self.sender.poll_transmit(self.now) {
            let fate = (self.data)(self.sent.len(), &segment);
            self.sent.push((self.now, segment));
            assert!(segment.len > 0 && u64::from(segment.len) <= self.mss);
            // A lost packet takes its time on the link, too.
            let time = Bytes::new(u64::from(segment.len)) / self.rate;
            self.busy_until = self.busy_until.max(self.now) + time;
            self.put(
                self.busy_until + self.delay,
                fate,
                Arrival::Data(segment, fate.marked),
            );
        }
        assert!(self.sender.next_timeout().is_some() || self.sender.in_flight() == Bytes::ZERO);
    }

    fn send_ack(&mut self, ack: Ack) {
        let fate = (self.ack)(self.acks.len(), &ack);
        self.acks.push((self.now, ack));
        self.put(self.now + self.delay, fate, Arrival::Ack(ack));
    }

    fn put(&mut self, at: Instant, fate: Fate, arrival: Arrival) {
        if fate.lost {
            return;
        }
        let copies = [Some(Duration::ZERO), fate.again];
        for extra in copies.into_iter().flatten() {
            let n = self.arrivals.len();
            self.arrivals.push(arrival);
            let at = at + fate.late + extra;
            self.events.push(Reverse((at, n as u64, n)));
        }
    }
}

/// No packet is lost, late or doubled.
pub fn untouched(_: usize, _: &Ack) -> Fate {
    Fate::default()
}

/// Loses the first transmission of the segments named, counted from 0.
pub fn drops(mss: u32, segments: &'static [u64]) -> impl FnMut(usize, &Segment) -> Fate {
    move |_, s| match !s.retransmitted && segments.contains(&(s.seq / u64::from(mss))) {
        true => LOST,
        false => Fate::default(),
    }
}
