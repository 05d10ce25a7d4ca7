// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packets that come, and what becomes of them under one of core's disciplines.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use makeway_core::flow::{FlowKey, FlowTable, Identity};
use makeway_core::packet::{Handle, Packet, UserId};
use makeway_core::random::Rng;
use makeway_core::sched::{Discipline, Drops, Env, Limits, Scheduler, build};
use makeway_core::shaper::Shaper;
use makeway_core::units::{Bytes, Instant, Rate};

pub const RATE: Rate = Rate::from_bps(10_000_000);
/// The limit of `makeway up` for this rate: 200 ms of full packets.
const PACKETS: u32 = 166;
const FULL: u32 = 1500;
/// As many as `makeway up` knows.
const FLOWS: u32 = 1024;
const HOSTS: u32 = 8;

const MS: u64 = 1_000_000;
/// 20 ms of G.711 with the headers of RTP, UDP and IPv4.
const VOICE_BYTES: u32 = 200;
const VOICE_PERIOD: u64 = 20 * MS;
/// RTT of the bulk transfer, without the queue.
const ROUND_TRIP: u64 = 40 * MS;
const BULK_BEGINS: u64 = 500 * MS;
/// Earlier arrivals are not counted.
const WARM: u64 = 2000 * MS;
/// Later arrivals are not counted: they may still be held at the end.
const LATE: u64 = 9000 * MS;
const END: u64 = 10_000 * MS;

/// A flood of 1.2 times the link's rate.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    pub flows: u32,
    /// Bytes of each packet, IP header included.
    pub bytes: u32,
    /// IPv6, each packet with another flow label.
    pub v6: bool,
}

/// A measurement.
#[derive(Clone, Debug)]
pub struct Kept {
    pub voice_loss: f64,
    pub voice_p99_ms: Option<f64>,
    pub bulk_share: f64,
}

/// Senders: the call, the bulk transfer, and the flows of the flood.
const VOICE: u32 = 0;
const BULK: u32 = 1;

/// A packet that came; its handle is its place in [`Run::packets`].
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    source: u32,
    at: u64,
    pub len: u32,
    /// Its first bytes, from the IP header on.
    pub bytes: [u8; 64],
}

/// An operation of the discipline, at a time in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    Enqueue(u64, u32),
    Dequeue(u64),
}

/// A run under one of core's disciplines.
pub struct Run {
    pub kept: Kept,
    pub limits: Limits,
    pub packets: Vec<Sent>,
    pub asked: Vec<Asked>,
}

impl Run {
    pub fn of(discipline: Discipline, flood: Flood) -> Self {
        let limits = Limits {
            packets: PACKETS,
            bytes: Bytes::new(u64::from(PACKETS * FULL)),
            flows: FLOWS,
        };
        let env = Env {
            users: HOSTS,
            rate: Some(RATE),
            ..Env::new(limits)
        };
        let scheduler = build(&discipline.spec(), &env).expect("the configuration is in range");
        let mut link = Link {
            shaper: Shaper::new(Some(RATE), scheduler),
            drops: Drops::default(),
            flows: FlowTable::new(FLOWS, 1),
            hosts: FlowTable::new(HOSTS, 1),
            flood,
            packets: Vec::new(),
            asked: Vec::new(),
            left: Vec::new(),
        };
        link.run();
        Self {
            kept: kept(&link.packets, &link.left),
            limits,
            packets: link.packets,
            asked: link.asked,
        }
    }

    /// The measurement, if these packets left when they did.
    pub fn kept(&self, left: &[(u64, u32)]) -> Kept {
        kept(&self.packets, left)
    }
}

/// Measurement from the packets that came and those that left, each with its time.
fn kept(packets: &[Sent], left: &[(u64, u32)]) -> Kept {
    let counted = |sent: &&Sent| sent.source == VOICE && (WARM..LATE).contains(&sent.at);
    let came = packets.iter().filter(counted).count();
    let mut delays = Vec::new();
    let mut bulk = 0u64;
    for &(at, handle) in left {
        let sent = packets[handle as usize];
        if counted(&&sent) {
            delays.push(at - sent.at + transmission(sent.len));
        } else if sent.source == BULK && at >= WARM {
            bulk += u64::from(sent.len);
        }
    }
    delays.sort_unstable();
    let last = delays.len().saturating_sub(1);
    let p99 = delays.get((delays.len() * 99 / 100).min(last));
    // The call needs less than a third; the other two halve the rest.
    let voice = f64::from(VOICE_BYTES) * 8e9 / VOICE_PERIOD as f64;
    let fair = (RATE.bps() as f64 - voice) / 2.0;
    Kept {
        voice_loss: 1.0 - delays.len() as f64 / came as f64,
        voice_p99_ms: p99.map(|ns| *ns as f64 / 1e6),
        bulk_share: bulk as f64 * 8e9 / (END - WARM) as f64 / fair,
    }
}

fn transmission(len: u32) -> u64 {
    u64::from(len) * 8_000_000_000 / RATE.bps()
}

struct Link {
    shaper: Shaper,
    drops: Drops,
    flows: FlowTable<FlowKey>,
    hosts: FlowTable<FlowKey, UserId>,
    flood: Flood,
    packets: Vec<Sent>,
    asked: Vec<Asked>,
    left: Vec<(u64, u32)>,
}

impl Link {
    fn run(&mut self) {
        let Flood { flows, bytes, .. } = self.flood;
        let mut rng = Rng::new(1);
        let period = transmission(bytes) * u64::from(flows) * 10 / 12;
        let mut due = BinaryHeap::from([Reverse((MS, VOICE))]);
        for flow in 0..flows {
            due.push(Reverse((rng.next_u64() % period, BULK + 1 + flow)));
        }
        let mut bulk = Bulk::default();
        loop {
            let sends = due.peek().map_or(END, |Reverse((at, _))| *at);
            let told = bulk.told.peek().map_or(END, |Reverse((at, ..))| *at);
            let departs = self.shaper.next_departure();
            let now = self.asked.last().map_or(0, Asked::at);
            let departs = departs.map_or(END, |at| at.as_nanos().max(now));
            let now = sends.min(told).min(departs);
            if now >= END {
                return;
            }
            if now == departs {
                self.depart(now, &mut bulk);
            } else if now == sends {
                let Some(Reverse((_, source))) = due.pop() else {
                    return;
                };
                let (len, next) = match source {
                    VOICE => (VOICE_BYTES, VOICE_PERIOD),
                    // Within 1 %, so that flows do not keep step.
                    _ => (bytes, period * 99 / 100 + rng.next_u64() % (period / 50)),
                };
                due.push(Reverse((now + next, source)));
                self.arrive(now, source, len, &mut bulk);
            } else {
                bulk.hear();
            }
            while now >= BULK_BEGINS && bulk.may_send() {
                bulk.out += 1;
                self.arrive(now, BULK, FULL, &mut bulk);
            }
        }
    }

    fn arrive(&mut self, now: u64, source: u32, len: u32, bulk: &mut Bulk) {
        let handle = self.packets.len() as u32;
        let bytes = headers(source, len, handle, self.flood.v6 && source > BULK);
        self.asked.push(Asked::Enqueue(now, handle));
        self.packets.push(Sent {
            source,
            at: now,
            len,
            bytes,
        });
        let [flow, host] = [Identity::FiveTuple, Identity::DstHost]
            .map(|identity| FlowKey::from_ip(identity, &bytes));
        let flow = self.flows.hold(&flow).expect("more flows than packets");
        let host = self.hosts.hold(&host).expect("three hosts");
        let at = Instant::from_nanos(now);
        let packet = Packet::new(at, Handle(handle), flow.id, host.id, Bytes::new(len.into()));
        self.shaper.enqueue(at, packet, &mut self.drops);
        self.forget_drops(now, bulk);
    }

    fn depart(&mut self, now: u64, bulk: &mut Bulk) {
        self.asked.push(Asked::Dequeue(now));
        if let Some(packet) = self
            .shaper
            .dequeue(Instant::from_nanos(now), &mut self.drops)
        {
            self.left.push((now, packet.handle.0));
            self.release(packet);
            if self.packets[packet.handle.0 as usize].source == BULK {
                bulk.told
                    .push(Reverse((now + ROUND_TRIP, packet.handle.0, false)));
            }
        }
        self.forget_drops(now, bulk);
    }

    fn forget_drops(&mut self, now: u64, bulk: &mut Bulk) {
        let drops: Vec<Packet> = self.drops.drain().map(|(packet, _)| packet).collect();
        for packet in drops {
            self.release(packet);
            if self.packets[packet.handle.0 as usize].source == BULK {
                // The packets behind it tell.
                bulk.told
                    .push(Reverse((now + ROUND_TRIP, packet.handle.0, true)));
            }
        }
    }

    fn release(&mut self, packet: Packet) {
        self.flows.release(packet.flow);
        self.hosts.release(packet.user());
    }
}

impl Asked {
    fn at(&self) -> u64 {
        match *self {
            Self::Enqueue(at, _) | Self::Dequeue(at) => at,
        }
    }
}

/// A window as NewReno's with selective acknowledgements: slow start, one packet more for each round trip, half of it for a loss.
struct Bulk {
    window: f64,
    threshold: f64,
    out: u32,
    /// Losses of packets below this one are known.
    recover: u32,
    /// When the sender hears of a packet, which, and whether it was lost.
    told: BinaryHeap<Reverse<(u64, u32, bool)>>,
}

impl Default for Bulk {
    fn default() -> Self {
        Self {
            window: 10.0,
            threshold: f64::MAX,
            out: 0,
            recover: 0,
            told: BinaryHeap::new(),
        }
    }
}

impl Bulk {
    /// Chosen by us: more than link and buffer hold.
    const MOST: f64 = 1000.0;

    fn may_send(&self) -> bool {
        f64::from(self.out) < self.window.floor()
    }

    fn hear(&mut self) {
        let Some(Reverse((_, handle, was_lost))) = self.told.pop() else {
            return;
        };
        self.out -= 1;
        if !was_lost {
            let more = if self.window < self.threshold {
                1.0
            } else {
                1.0 / self.window
            };
            self.window = (self.window + more).min(Self::MOST);
        } else if handle >= self.recover {
            // Once for all that was under way.
            let newest = self
                .told
                .iter()
                .map(|Reverse((_, handle, _))| *handle)
                .max();
            self.recover = newest.unwrap_or(handle) + 1;
            self.window = (self.window / 2.0).max(1.0);
            self.threshold = self.window;
        }
    }
}

/// IPv4 or IPv6, and UDP. The call, the bulk transfer and the flood are of different hosts.
fn headers(source: u32, len: u32, label: u32, v6: bool) -> [u8; 64] {
    let mut bytes = [0; 64];
    let host = source.min(BULK + 1) as u8 + 1;
    let port = (1024 + source as u16).to_be_bytes();
    let [high, low] = (len as u16).to_be_bytes();
    let at = if v6 {
        let [high, low] = (len as u16 - 40).to_be_bytes();
        let [_, a, b, c] = label.wrapping_mul(0x9e37_79b1).to_be_bytes();
        bytes[..8].copy_from_slice(&[0x60, a & 15, b, c, high, low, 17, 64]);
        (bytes[8], bytes[23], bytes[24], bytes[39]) = (0xfd, 9, 0xfd, host);
        40
    } else {
        bytes[..10].copy_from_slice(&[0x45, 0, high, low, 0, 0, 0, 0, 64, 17]);
        bytes[12..20].copy_from_slice(&[10, 1, 0, 9, 10, 0, 0, host]);
        20
    };
    bytes[at..at + 2].copy_from_slice(&port);
    bytes[at + 2..at + 4].copy_from_slice(&[19, 136]);
    bytes
}
