// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two ends of a DCCP connection over a link that loses, spoils and forges packets: no panic, every output is a packet, and the backlog is
//! bounded.
//!
//! The first byte chooses CCIDs. Then each step has a byte for the action, one for the time since the last and the amount sent, one
//! for a length, and that number of bytes.

use std::collections::VecDeque;

use bytes::Bytes;
use makeway_core::rate::ccid2::Ccid2Params;
use makeway_core::rate::tfrc::TfrcParams;
use makeway_core::send::Datagram;
use makeway_core::send::fifo::Fifo;
use makeway_core::units::{Duration, Instant};
use makeway_transport::dccp::connection::Config;
use makeway_transport::dccp::wire::{Coverage, Kind, Packet, Pseudo, Reset};
use makeway_transport::dccp::{Ccid, Connection, Ends, Seq};

const SERVICE: u32 = 7;
/// Packets under way at most; the oldest are lost.
const UNDER_WAY: usize = 64;

struct Link {
    ends: [Connection<Fifo>; 2],
    /// The end that they are for.
    packets: VecDeque<(usize, Vec<u8>)>,
    /// Sequence number of the last packet that each end sent.
    seq: [Seq; 2],
    now: Instant,
}

fn ends(of: usize) -> Ends {
    Ends { local: 1 + of as u16, remote: 2 - of as u16, outward: Pseudo::Udp }
}

fn config(three: bool) -> Config {
    Config::new(SERVICE, match three {
        true => Ccid::Three(TfrcParams::default()),
        false => Ccid::Two(Ccid2Params::default()),
    })
}

pub fn run(input: &[u8]) {
    let Some((&head, mut rest)) = input.split_first() else {
        return;
    };
    let now = Instant::ZERO + Duration::from_secs(1);
    let mut client = Connection::client(config(head & 1 > 0), Fifo, ends(0), 10, now);
    let mut request = Vec::new();
    assert!(client.poll_transmit(now, &mut request));
    let server = Connection::accept(config(head & 2 > 0), Fifo, ends(1), 20, now, &request);
    let server = server.expect("a Request that we wrote");
    let mut link = Link { ends: [client, server], packets: VecDeque::new(), seq: [Seq::new(10), Seq::new(20)], now };
    link.send();
    while let [what, much, length, after @ ..] = rest {
        let (given, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        link.now += Duration::from_millis(u64::from(much & 31) * if what & 128 > 0 { 100 } else { 1 });
        link.step(what & 7, usize::from(what >> 3 & 1), given);
        if what & 16 > 0 {
            link.enqueue(usize::from(what >> 3 & 1), much >> 5);
        }
        for end in &mut link.ends {
            if end.poll_timeout().is_some_and(|at| at <= link.now) {
                end.handle_timeout(link.now);
            }
            if what & 32 > 0 {
                while end.poll_event().is_some() {}
            }
        }
        link.send();
    }
}

impl Link {
    fn step(&mut self, what: u8, to: usize, given: &[u8]) {
        match what {
            // Arrives, is lost, arrives with some bits changed.
            0..=2 => self.deliver(&[]),
            3 => drop(self.packets.pop_front()),
            4 => self.deliver(given),
            5 => self.ends[to].close(self.now),
            _ => self.forge(to, given),
        }
    }

    fn deliver(&mut self, changes: &[u8]) {
        let Some((to, mut packet)) = self.packets.pop_front() else {
            return;
        };
        for (byte, change) in packet.iter_mut().zip(changes) {
            *byte ^= change;
        }
        self.ends[to].handle_packet(self.now, &packet);
    }

    /// A packet that somebody sends who sees all others.
    fn forge(&mut self, to: usize, given: &[u8]) {
        let [number, ahead, behind, options @ ..] = given else {
            return;
        };
        let seq = self.seq[1 - to].plus(i64::from(*ahead as i8));
        let ack = self.seq[to].plus(i64::from(*behind as i8));
        let kind = match number % 10 {
            0 => Kind::Request { service: SERVICE },
            1 => Kind::Response { ack, service: SERVICE },
            2 => Kind::Data,
            3 => Kind::Ack { ack },
            4 => Kind::DataAck { ack },
            5 => Kind::CloseReq { ack },
            6 => Kind::Close { ack },
            7 => Kind::Reset { ack, code: Reset(*ahead), data: [0; 3] },
            8 => Kind::Sync { ack },
            _ => Kind::SyncAck { ack },
        };
        let from = ends(1 - to);
        let mut bytes = Vec::new();
        Packet {
            source: from.local,
            destination: from.remote,
            ccval: number >> 4,
            coverage: Coverage::default(),
            kind,
            seq,
            short: false,
            options,
            data: options,
        }
        .encode(&Pseudo::Udp, &mut bytes);
        self.ends[to].handle_packet(self.now, &bytes);
    }

    fn enqueue(&mut self, end: usize, count: u8) {
        for _ in 0..count {
            let datagram = Datagram { class: 0, len: 500, deadline: Instant::FAR_FUTURE, frame: None };
            // Before it is open and after it is over there is nowhere to put it.
            let _ = self.ends[end].enqueue(self.now, datagram, Bytes::from_static(&[0; 500]));
        }
    }

    fn send(&mut self) {
        let mut out = Vec::new();
        for (n, end) in self.ends.iter_mut().enumerate() {
            while end.poll_transmit(self.now, &mut out) {
                let packet = Packet::decode(&out, &Pseudo::Udp).expect("a packet");
                // A Reset of no connection has numbers of its own.
                if !matches!(packet.kind, Kind::Reset { .. }) {
                    self.seq[n] = packet.seq;
                }
                self.packets.push_back((1 - n, out.clone()));
            }
        }
        while self.packets.len() > UNDER_WAY {
            self.packets.pop_front();
        }
    }
}
