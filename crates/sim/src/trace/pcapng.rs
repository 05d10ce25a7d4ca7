// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets as pcapng (draft-ietf-opsawg-pcapng), for Wireshark, tshark and tcpdump.
//!
//! Each end of a link is an interface, and a packet is there when its transmission begins, as on a real
//! machine's egress. Headers are real: IPv4, then TCP with timestamps and SACK, or UDP and RTP as the
//! world netns sends them; checksums are those of the whole packet, of whose payload, all zeros, only
//! the first bytes are kept. Drops of the queue were not sent: the next packet of the interface counts
//! it (`epb_dropcount`), and its statistics at the end do (`isb_ifdrop`).

use std::io::{self, Write};

use etherparse::{IpEcn, IpNumber, Ipv4Header, TcpHeader, TcpOptionElement, UdpHeader};
use makeway_core::packet::Ecn;
use makeway_core::units::Instant;
use makeway_scenario::departures::rtp_time;
use makeway_scenario::model::Scenario;
use makeway_scenario::wire::{PREFIX, Rtp};

use super::{Seen, Sink, What};
use crate::arena::Body;
use crate::port::port_number;
use crate::tcp::{Ack, Segment};

/// Time zero of every simulation, in seconds of Unix: 2000-01-01 00:00:00 UTC, chosen by us.
const EPOCH: u64 = 946_684_800;
/// Bytes kept of a packet: the longest headers are 80, tcpdump's old default is 96.
const SNAPLEN: usize = 96;
/// IPv4 and TCP without options.
const BARE_HEADERS: u32 = 40;
/// Header values of a sender's packets, as Linux.
const TTL: u8 = 64;
/// Windows go over the wire divided by 2^7, as Linux's default buffers make it (RFC 7323 §2). There is
/// no handshake to say so.
const WINDOW_SCALE: u32 = 7;
/// The first sequence number of data, as after a handshake from 0.
const FIRST: u32 = 1;
/// Largest IP packet.
const LARGEST: usize = 65_535;

/// Types of blocks: section header, interface description, interface statistics, enhanced packet.
const SHB: u32 = 0x0a0d_0d0a;
const IDB: u32 = 1;
const ISB: u32 = 5;
const EPB: u32 = 6;
/// In a section header, so that readers know the order of bytes.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Raw IPv4. Not 101, raw IP: of two such interfaces libpcap 1.10 says that they differ.
const LINKTYPE: u32 = 228;
/// Codes of options. They mean other things in other blocks.
const COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_SPEED: u16 = 8;
const IF_TSRESOL: u16 = 9;
const EPB_DROPCOUNT: u16 = 4;
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;
/// `if_tsresol`: a power of ten.
const NANOSECONDS: u8 = 9;

/// A file of packets.
pub(super) struct PcapNg {
    out: Box<dyn Write + Send>,
    interfaces: Vec<Interface>,
    /// The RTP header and zeros: the payload of each packet.
    payload: Vec<u8>,
    /// The packet that is being made.
    packet: Vec<u8>,
    /// The block that is being made.
    block: Block,
}

struct Interface {
    port: u32,
    sent: u64,
    dropped: u64,
    /// Dropped since the last packet.
    since: u64,
}

impl PcapNg {
    /// Begins the file.
    pub(super) fn new(
        scenario: &Scenario,
        ends: &[(usize, usize)],
        mut out: Box<dyn Write + Send>,
    ) -> io::Result<Self> {
        let mut block = Block::new(SHB, &[BYTE_ORDER]);
        // Version 1.0, and of a length that is not known yet.
        block.words(&[1, u32::MAX, u32::MAX]);
        let about = format!("{}, seed {}", scenario.title, scenario.seed);
        block.option(COMMENT, about.as_bytes());
        block.option(
            SHB_USERAPPL,
            concat!("makeway ", env!("CARGO_PKG_VERSION")).as_bytes(),
        );
        block.write(&mut out)?;
        for (link, end) in ends {
            let link = &scenario.links[*link];
            let egress = &link.egress[*end];
            let names = [link.ends[*end], link.ends[1 - *end]].map(|node| &scenario.nodes[node]);
            let name = format!("{} -> {}", names[0].name, names[1].name);
            let about = format!(
                "link {}, after {}",
                link.name,
                egress.queue.spec.discipline()
            );
            block.begin(IDB, &[LINKTYPE, SNAPLEN as u32]);
            block.option(IF_NAME, name.as_bytes());
            block.option(IF_DESCRIPTION, about.as_bytes());
            if let Some(rate) = egress.rate {
                block.option(IF_SPEED, &rate.bps().to_le_bytes());
            }
            block.option(IF_TSRESOL, &[NANOSECONDS]);
            block.write(&mut out)?;
        }
        let interface = |(link, end): &(usize, usize)| Interface {
            port: port_number(*link, *end),
            sent: 0,
            dropped: 0,
            since: 0,
        };
        Ok(Self {
            out,
            interfaces: ends.iter().map(interface).collect(),
            payload: vec![0; PREFIX + LARGEST],
            packet: Vec::with_capacity(2 * SNAPLEN),
            block,
        })
    }

    /// Makes `self.packet`: headers and all the payload that there is room for. Nothing for a packet
    /// that IPv4 does not know, which no scenario has.
    fn make(&mut self, seen: &Seen<'_>) -> Option<()> {
        let back = usize::from(seen.packet.body.is_back());
        let ends = seen.flow.addresses.map(|address| address.octets());
        let (from, to) = (ends[back], ends[1 - back]);
        let transport = (seen.packet.len as usize).checked_sub(Ipv4Header::MIN_LEN)?;
        let protocol = match seen.packet.body {
            Body::Segment(_) | Body::Ack(_) => IpNumber::TCP,
            _ => IpNumber::UDP,
        };
        // A router takes one off; the first is the sender itself.
        let ttl = (TTL + 1).saturating_sub(seen.label.hops);
        let mut ip = Ipv4Header::new(transport.try_into().ok()?, ttl, protocol, from, to).ok()?;
        ip.identification = seen.label.id as u16;
        ip.ecn = match seen.packet.ecn {
            Ecn::NotCapable => IpEcn::NotEct,
            Ecn::Capable => IpEcn::Ect0,
            Ecn::Scalable => IpEcn::Ect1,
            Ecn::Marked => IpEcn::CongestionExperienced,
        };
        ip.header_checksum = ip.calc_header_checksum();

        self.packet.clear();
        self.packet.extend_from_slice(&ip.to_bytes());
        let port = seen.flow.port;
        let mut tcp = match seen.packet.body {
            Body::Segment(segment) => data(seen, &segment),
            Body::Ack(ack) => acknowledgement(seen, &ack),
            _ => {
                let prefix = rtp(seen).map_or(0, |rtp| {
                    self.payload[..PREFIX].copy_from_slice(&rtp.to_bytes());
                    PREFIX
                });
                // Without an RTP header there are zeros only.
                let length = transport.checked_sub(UdpHeader::LEN)?;
                let payload = &self.payload[PREFIX - prefix..][..length];
                let udp = UdpHeader::with_ipv4_checksum(port, port, &ip, payload).ok()?;
                self.packet.extend_from_slice(&udp.to_bytes());
                self.keep(prefix.min(payload.len()), seen.packet.len as usize);
                return Some(());
            }
        };
        // The rest is zeros from behind the RTP header.
        let zeros = transport.checked_sub(tcp.header_len())?;
        let zeros = &self.payload[PREFIX..PREFIX + zeros];
        tcp.checksum = tcp.calc_checksum_ipv4_raw(from, to, zeros).ok()?;
        self.packet.extend_from_slice(&tcp.to_bytes());
        self.keep(0, seen.packet.len as usize);
        Some(())
    }

    /// Fills the packet up to its length `len` or what is kept, with `prefix` bytes of the RTP header.
    fn keep(&mut self, prefix: usize, len: usize) {
        self.packet.extend_from_slice(&self.payload[..prefix]);
        self.packet.resize(len.min(SNAPLEN), 0);
    }
}

/// Headers of a stream's packets; those of a sender of its own carry DCCP in a world with sockets, and RTP here.
fn rtp(seen: &Seen<'_>) -> Option<Rtp> {
    let (seq, sent, timestamp, marker) = match seen.packet.body {
        Body::Datagram {
            seq,
            sent,
            timestamp,
            marker,
        } => (seq, sent, timestamp, marker),
        Body::Media(packet) => {
            let created = rtp_time(packet.created.as_nanos());
            (packet.sequence, packet.sent, created, false)
        }
        _ => return None,
    };
    Some(Rtp {
        seq,
        timestamp,
        marker,
        ssrc: Rtp::ssrc(seen.flow.number as usize),
        stamp: sent.as_nanos(),
    })
}

fn data(seen: &Seen<'_>, segment: &Segment) -> TcpHeader {
    let flow = seen.flow;
    let mut tcp = TcpHeader::new(flow.port, flow.port, sequence(segment.seq), u16::MAX);
    tcp.ack = true;
    tcp.acknowledgment_number = FIRST;
    tcp.cwr = segment.cwr;
    let heard = flow.heard.map_or(0, timestamp);
    // A connection without timestamps has no options.
    if seen.packet.len > segment.len + BARE_HEADERS {
        options(&mut tcp, &[stamps(segment.sent_at, heard)]);
    }
    tcp
}

fn acknowledgement(seen: &Seen<'_>, ack: &Ack) -> TcpHeader {
    let window = (ack.window >> WINDOW_SCALE).min(u32::from(u16::MAX)) as u16;
    let mut tcp = TcpHeader::new(seen.flow.port, seen.flow.port, FIRST, window);
    tcp.ack = true;
    tcp.acknowledgment_number = sequence(ack.ack);
    tcp.ece = ack.ece;
    let heard = ack.echo().map(timestamp);
    let stamps = heard.map(|heard| stamps(seen.label.created, heard));
    let mut blocks = ack
        .sacked()
        .map(|(from, to)| (sequence(from), sequence(to)));
    match blocks.next() {
        None => options(&mut tcp, stamps.as_slice()),
        Some(first) => {
            let others = [blocks.next(), blocks.next(), None];
            let sack = TcpOptionElement::SelectiveAcknowledgement(first, others);
            match stamps {
                Some(stamps) => options(&mut tcp, &[stamps, sack]),
                None => options(&mut tcp, &[sack]),
            }
        }
    }
    tcp
}

/// Each option begins at a word, as Linux lays them out.
fn options(tcp: &mut TcpHeader, elements: &[TcpOptionElement]) {
    use TcpOptionElement::Noop;
    // Three words and seven: they fit.
    let _ = match elements {
        [only] => tcp.set_options(&[Noop, Noop, only.clone()]),
        [stamps, sack] => tcp.set_options(&[Noop, Noop, stamps.clone(), Noop, Noop, sack.clone()]),
        _ => Ok(()),
    };
}

fn stamps(now: Instant, echo: u32) -> TcpOptionElement {
    TcpOptionElement::Timestamp(timestamp(now), echo)
}

/// In ms from 1, as Linux counts them; 0 is for nothing heard.
fn timestamp(at: Instant) -> u32 {
    (at.as_nanos() / 1_000_000) as u32 + 1
}

/// Sequence numbers wrap after 4 GiB.
fn sequence(offset: u64) -> u32 {
    (offset as u32).wrapping_add(FIRST)
}

/// High and low half of a moment, in ns of Unix.
fn moment(at: Instant) -> [u32; 2] {
    let ns = EPOCH * 1_000_000_000 + at.as_nanos();
    [(ns >> 32) as u32, ns as u32]
}

/// A block in the making, little-endian: type, length, body, options, length again (section 3.1).
/// By hand, since libraries allocate for each packet; the tests read it with one.
struct Block {
    bytes: Vec<u8>,
    options: bool,
}

impl Block {
    fn new(kind: u32, words: &[u32]) -> Self {
        let mut block = Self {
            bytes: Vec::with_capacity(4 * SNAPLEN),
            options: false,
        };
        block.begin(kind, words);
        block
    }

    /// Another one, with the first words of its body.
    fn begin(&mut self, kind: u32, words: &[u32]) {
        self.bytes.clear();
        self.options = false;
        self.words(&[kind, 0]);
        self.words(words);
    }

    fn words(&mut self, words: &[u32]) {
        for word in words {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Filled up to a whole word.
    fn padded(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        // Its length has 16 bits: a longer title is left out.
        if let Ok(len) = u16::try_from(value.len()) {
            self.words(&[u32::from(len) << 16 | u32::from(code)]);
            self.padded(value);
            self.options = true;
        }
    }

    fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.options {
            // End of options.
            self.words(&[0]);
        }
        let len = self.bytes.len() as u32 + 4;
        self.bytes[4..8].copy_from_slice(&len.to_le_bytes());
        self.words(&[len]);
        out.write_all(&self.bytes)
    }
}

impl Sink for PcapNg {
    fn note(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        let place = self.interfaces.iter().position(|i| i.port == seen.port);
        let Some(place) = place else {
            return Ok(());
        };
        match seen.what {
            // It was sent, and is in the file.
            What::Dropped("loss") | What::Queued | What::Received => return Ok(()),
            What::Dropped(_) => {
                self.interfaces[place].dropped += 1;
                self.interfaces[place].since += 1;
                return Ok(());
            }
            What::Sent => {}
        }
        if self.make(seen).is_none() {
            return Ok(());
        }
        let interface = &mut self.interfaces[place];
        interface.sent += 1;
        let since = std::mem::take(&mut interface.since);
        let [high, low] = moment(seen.now);
        let (kept, len) = (self.packet.len() as u32, seen.packet.len);
        self.block.begin(EPB, &[place as u32, high, low, kept, len]);
        self.block.padded(&self.packet);
        if since > 0 {
            self.block.option(EPB_DROPCOUNT, &since.to_le_bytes());
        }
        self.block.write(&mut self.out)
    }

    fn finish(&mut self, now: Instant) -> io::Result<()> {
        let [high, low] = moment(now);
        for (index, interface) in self.interfaces.iter().enumerate() {
            self.block.begin(ISB, &[index as u32, high, low]);
            self.block.option(ISB_IFRECV, &interface.sent.to_le_bytes());
            self.block
                .option(ISB_IFDROP, &interface.dropped.to_le_bytes());
            self.block.write(&mut self.out)?;
        }
        self.out.flush()
    }
}
