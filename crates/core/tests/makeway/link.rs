// SPDX-License-Identifier: MIT OR Apache-2.0
//! A link in virtual time, streams and downloads over it.

use makeway_core::packet::{FlowId, Handle, Packet, UserId};
use makeway_core::sched::{Discipline, Drops, Env, Limits, Scheduler, build};
use makeway_core::units::{Bytes, Instant};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
pub const LEN: u32 = 1500;
pub const QUANTUM: u64 = 1538;
pub const WINDOW_BITS: u32 = 29;

/// The traffic of a flow.
#[derive(Clone, Debug)]
pub enum Source {
    /// `burst` packets of `len` every `period` ns, from `from` to `to`.
    Stream {
        burst: u32,
        len: u32,
        period: u64,
        from: u64,
        to: u64,
    },
    /// Packets in each of the discipline's windows of 2^29 ns, evenly; the last number goes on.
    Windows(&'static [u64]),
    /// A window that grows by a packet in a round trip of `rtt` and halves when packets are lost, from `from` on; after
    /// `packets` it is done, and another flow begins.
    Download { rtt: u64, from: u64, packets: u32 },
}

/// A download's state.
#[derive(Clone, Default)]
pub struct Window {
    size: f64,
    under_way: u32,
    /// Until when losses belong to the one that halved it.
    recovering: u64,
    sent: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    Departure,
    Tick(u32),
    Acknowledged(u32),
    Lost(u32),
}

pub struct Sender {
    source: Source,
    user: u32,
    pub id: u32,
    /// Bytes of a download's packets.
    pub len: u32,
    window: Window,
    /// When each packet was sent, and its delay if it came.
    pub came: Vec<(u64, Option<u64>)>,
    bytes: Vec<(u64, u32)>,
}

pub struct Link {
    pub scheduler: Box<dyn Scheduler + Send>,
    pub flows: Vec<Sender>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    /// Rates in bit/s from their times on.
    rates: Vec<(u64, u64)>,
    owners: Vec<(u32, u32)>,
    busy: bool,
    ids: u32,
    now: u64,
}

impl Link {
    pub fn new(packets: u32, rates: &[(u64, u64)]) -> Self {
        let limits = Limits {
            packets,
            bytes: Bytes::new(u64::from(packets) * 9000),
            flows: 4096,
        };
        Self {
            scheduler: build(&Discipline::Makeway.spec(), &Env::new(limits)).unwrap(),
            flows: Vec::new(),
            events: BinaryHeap::new(),
            rates: rates.to_vec(),
            owners: Vec::new(),
            busy: false,
            ids: 0,
            now: 0,
        }
    }

    /// Adds a flow of `user`; its number here.
    pub fn flow(&mut self, user: u32, source: Source) -> usize {
        let at = match source {
            Source::Stream { from, .. } | Source::Download { from, .. } => from,
            Source::Windows(_) => 0,
        };
        let number = self.flows.len();
        self.events.push(Reverse((at, Event::Tick(number as u32))));
        self.flows.push(Sender {
            source,
            user,
            id: self.ids,
            len: LEN,
            window: Window {
                size: 2.0,
                ..Window::default()
            },
            came: Vec::new(),
            bytes: Vec::new(),
        });
        self.ids += 1;
        number
    }

    pub fn rate(&self) -> u64 {
        let now = self.rates.iter().rev().find(|(from, _)| *from <= self.now);
        now.unwrap().1
    }

    pub fn send(&mut self, number: u32, len: u32) {
        let flow = &mut self.flows[number as usize];
        let handle = self.owners.len() as u32;
        self.owners.push((number, flow.came.len() as u32));
        flow.came.push((self.now, None));
        let (id, user) = (FlowId(flow.id), UserId(flow.user));
        let now = Instant::from_nanos(self.now);
        let pkt = Packet::new(now, Handle(handle), id, user, Bytes::new(len.into()));
        let mut drops = Drops::default();
        self.scheduler.enqueue(now, pkt, &mut drops);
        self.lost(&mut drops);
        if !self.busy && self.scheduler.backlog().packets > 0 {
            self.busy = true;
            self.events.push(Reverse((self.now, Event::Departure)));
        }
    }

    pub fn lost(&mut self, drops: &mut Drops) {
        for (pkt, _) in drops.drain() {
            let number = self.owners[pkt.handle.0 as usize].0;
            if let Source::Download { rtt, .. } = self.flows[number as usize].source {
                let at = self.now + rtt;
                self.events.push(Reverse((at, Event::Lost(number))));
            }
        }
    }

    pub fn fill(&mut self, number: u32) {
        loop {
            let Sender { source, window, .. } = &mut self.flows[number as usize];
            let Source::Download { packets, .. } = *source else {
                return;
            };
            if f64::from(window.under_way) >= window.size {
                return;
            }
            if window.sent == packets {
                if window.under_way == 0 {
                    *window = Window {
                        size: 2.0,
                        ..Window::default()
                    };
                    self.flows[number as usize].id = self.ids % 4096;
                    self.ids += 1;
                    continue;
                }
                return;
            }
            window.under_way += 1;
            window.sent += 1;
            let len = self.flows[number as usize].len;
            self.send(number, len);
        }
    }

    pub fn run(&mut self, until: u64) {
        while let Some(&Reverse((at, event))) = self.events.peek()
            && at < until
        {
            self.events.pop();
            self.now = at;
            match event {
                Event::Departure => self.depart(),
                Event::Tick(number) => self.tick(number),
                Event::Acknowledged(number) => {
                    let window = &mut self.flows[number as usize].window;
                    window.under_way -= 1;
                    window.size += 1.0 / window.size;
                    self.fill(number);
                }
                Event::Lost(number) => {
                    let Sender { source, window, .. } = &mut self.flows[number as usize];
                    window.under_way -= 1;
                    if let Source::Download { rtt, .. } = source
                        && self.now >= window.recovering
                    {
                        window.size = (window.size / 2.0).max(1.0);
                        window.recovering = self.now + *rtt;
                    }
                    self.fill(number);
                }
            }
        }
        self.now = until;
    }

    pub fn tick(&mut self, number: u32) {
        match self.flows[number as usize].source {
            Source::Stream {
                burst,
                len,
                period,
                to,
                ..
            } => {
                for _ in 0..burst {
                    self.send(number, len);
                }
                if self.now + period < to {
                    let next = self.now + period;
                    self.events.push(Reverse((next, Event::Tick(number))));
                }
            }
            Source::Windows(packets) => {
                self.send(number, LEN);
                let window = (self.now >> WINDOW_BITS) as usize;
                let each = packets.get(window).or(packets.last()).unwrap();
                let next = self.now + (1 << WINDOW_BITS) / each;
                self.events.push(Reverse((next, Event::Tick(number))));
            }
            Source::Download { .. } => self.fill(number),
        }
    }

    pub fn depart(&mut self) {
        let mut drops = Drops::default();
        let now = Instant::from_nanos(self.now);
        let sent = self.scheduler.dequeue(now, &mut drops);
        self.lost(&mut drops);
        let Some(pkt) = sent else {
            self.busy = false;
            return;
        };
        let (number, n) = self.owners[pkt.handle.0 as usize];
        let flow = &mut self.flows[number as usize];
        // In the queue, without its own time on the link.
        flow.came[n as usize].1 = Some(self.now - pkt.arrived.as_nanos());
        flow.bytes.push((self.now, pkt.len().get() as u32));
        if let Source::Download { rtt, .. } = flow.source {
            let at = self.now + rtt;
            self.events.push(Reverse((at, Event::Acknowledged(number))));
        }
        let takes = pkt.len().get() * 8 * SECOND / self.rate();
        self.events
            .push(Reverse((self.now + takes, Event::Departure)));
    }

    /// Share of the packets sent in a time that left within `most` ns.
    pub fn on_time(&self, flow: usize, from: u64, to: u64, most: u64) -> f64 {
        let of = |p: &&(u64, Option<u64>)| (from..to).contains(&p.0);
        let sent = self.flows[flow].came.iter().filter(of);
        let good = sent
            .clone()
            .filter(|p| p.1.is_some_and(|delay| delay <= most));
        good.count() as f64 / sent.count() as f64
    }

    /// Bit/s that left in a time.
    pub fn goodput(&self, flow: usize, from: u64, to: u64) -> f64 {
        let sent = self.flows[flow].bytes.iter();
        let bytes = sent.filter(|(at, _)| (from..to).contains(at));
        let bits: u64 = bytes.map(|(_, len)| u64::from(*len) * 8).sum();
        bits as f64 * SECOND as f64 / (to - from) as f64
    }
}
