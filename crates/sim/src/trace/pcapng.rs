//! Packets as pcapng (draft-ietf-opsawg-pcapng), for Wireshark, tshark and tcpdump.
//!
//! Each end of a link is an interface, and a packet is there when its transmission begins, as on a real
//! machine's egress. Headers are real: IPv4, then TCP with timestamps and SACK, or UDP and RTP as the
//! world netns sends them; checksums are those of the whole packet, of whose payload, all zeros, only
//! the first bytes are kept. What the queue dropped was not sent: the next packet of the interface counts
//! it (`epb_dropcount`), and its statistics at the end do (`isb_ifdrop`).

use std::borrow::Cow;
use std::io::{self, Write};

use etherparse::{IpNumber, Ipv4Header, TcpHeader, TcpOptionElement, UdpHeader};
use makeway_core::units::Instant;
use makeway_scenario::model::Scenario;
use makeway_scenario::wire::{PREFIX, Rtp};
use pcap_parser::pcapng::{
    BOM_MAGIC, EPB_MAGIC, EnhancedPacketBlock, IDB_MAGIC, ISB_MAGIC, InterfaceDescriptionBlock,
    InterfaceStatisticsBlock, OptionCode, PcapNGOption, SHB_MAGIC, SectionHeaderBlock,
};
use pcap_parser::{Linktype, ToVec};

use super::{Ends, Seen, Sink, What};
use crate::arena::Body;
use crate::build::port_number;
use crate::tcp::{Ack, Segment};

/// Time zero of every simulation, in seconds of Unix: 2000-01-01 00:00:00 UTC, chosen by us.
const EPOCH: u64 = 946_684_800;
/// Bytes kept of a packet: the longest headers are 80, tcpdump's old default is 96.
const SNAPLEN: usize = 96;
/// What a sender gives its packets, as Linux.
const TTL: u8 = 64;
/// Windows go over the wire divided by 2^7, as Linux's default buffers make it (RFC 7323 §2). There is
/// no handshake to say so.
const WINDOW_SCALE: u32 = 7;
/// The first sequence number of data, as after a handshake from 0.
const FIRST: u32 = 1;
/// Largest IP packet.
const LARGEST: usize = 65_535;

/// `epb_dropcount`, `isb_ifrecv` and `isb_ifdrop`.
const EPB_DROPCOUNT: OptionCode = OptionCode(4);
/// `if_tsresol`: powers of ten.
const NANOSECONDS: u8 = 9;

/// A file of packets.
pub(super) struct PcapNg {
    out: Box<dyn Write + Send>,
    interfaces: Vec<Interface>,
    /// The RTP header and zeros: the payload of each packet.
    payload: Vec<u8>,
    /// The packet that is being made.
    packet: Vec<u8>,
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
        let program = concat!("makeway ", env!("CARGO_PKG_VERSION"));
        let about = format!("{}, seed {}", scenario.title, scenario.seed);
        let mut head = SectionHeaderBlock {
            block_type: SHB_MAGIC,
            block_len1: 0,
            bom: BOM_MAGIC,
            major_version: 1,
            minor_version: 0,
            section_len: -1,
            options: vec![
                text(OptionCode::Comment, &about),
                text(OptionCode::ShbUserAppl, program),
            ],
            block_len2: 0,
        };
        write(&mut out, &mut head)?;
        for (link, end) in ends {
            let link = &scenario.links[*link];
            let egress = &link.egress[*end];
            let names = [link.ends[*end], link.ends[1 - *end]].map(|node| &scenario.nodes[node]);
            let name = format!("{} -> {}", names[0].name, names[1].name);
            let about = format!("link {}, after {}", link.name, egress.queue.discipline);
            let mut options = vec![
                text(OptionCode::IfName, &name),
                text(OptionCode::IfDescription, &about),
            ];
            if let Some(rate) = egress.rate {
                options.push(number(OptionCode::IfSpeed, rate.bps()));
            }
            let mut interface = InterfaceDescriptionBlock {
                block_type: IDB_MAGIC,
                block_len1: 0,
                // Not RAW: of two such interfaces libpcap 1.10 says that they differ.
                linktype: Linktype::IPV4,
                reserved: 0,
                snaplen: SNAPLEN as u32,
                options,
                block_len2: 0,
                if_tsresol: NANOSECONDS,
                if_tsoffset: 0,
            };
            write(&mut out, &mut interface)?;
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
        })
    }

    /// Makes `self.packet`: headers and all the payload that there is room for. Nothing for a packet
    /// that IPv4 does not know, which no scenario has.
    fn make(&mut self, seen: &Seen<'_>) -> Option<()> {
        let back = usize::from(matches!(seen.packet.body, Body::Ack(_)));
        let ends = seen.flow.addresses.map(|address| address.octets());
        let (from, to) = (ends[back], ends[1 - back]);
        let transport = (seen.packet.len as usize).checked_sub(Ipv4Header::MIN_LEN)?;
        let protocol = match seen.packet.body {
            Body::Datagram { .. } => IpNumber::UDP,
            _ => IpNumber::TCP,
        };
        // A router takes one off; the first is the sender itself.
        let ttl = (TTL + 1).saturating_sub(seen.label.hops);
        let mut ip = Ipv4Header::new(transport.try_into().ok()?, ttl, protocol, from, to).ok()?;
        ip.identification = seen.label.id as u16;
        ip.header_checksum = ip.calc_header_checksum();

        self.packet.clear();
        self.packet.extend_from_slice(&ip.to_bytes());
        let port = seen.flow.port;
        let mut tcp = match seen.packet.body {
            Body::Segment(segment) => data(seen.flow, &segment),
            Body::Ack(ack) => acknowledgement(seen, &ack),
            Body::Datagram {
                seq,
                sent,
                timestamp,
                marker,
            } => {
                let rtp = Rtp {
                    seq,
                    timestamp,
                    marker,
                    ssrc: Rtp::ssrc(seen.flow.number as usize),
                    stamp: sent.as_nanos(),
                };
                self.payload[..PREFIX].copy_from_slice(&rtp.to_bytes());
                let payload = &self.payload[..transport.checked_sub(UdpHeader::LEN)?];
                let udp = UdpHeader::with_ipv4_checksum(port, port, &ip, payload).ok()?;
                self.packet.extend_from_slice(&udp.to_bytes());
                self.keep(PREFIX.min(payload.len()), seen.packet.len as usize);
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

fn data(flow: &Ends, segment: &Segment) -> TcpHeader {
    let mut tcp = TcpHeader::new(flow.port, flow.port, sequence(segment.seq), u16::MAX);
    tcp.ack = true;
    tcp.acknowledgment_number = FIRST;
    tcp.cwr = segment.cwr;
    let heard = flow.heard.map_or(0, timestamp);
    options(&mut tcp, &[stamps(segment.sent_at, heard)]);
    tcp
}

fn acknowledgement(seen: &Seen<'_>, ack: &Ack) -> TcpHeader {
    let window = (ack.window >> WINDOW_SCALE).min(u32::from(u16::MAX)) as u16;
    let mut tcp = TcpHeader::new(seen.flow.port, seen.flow.port, FIRST, window);
    tcp.ack = true;
    tcp.acknowledgment_number = sequence(ack.ack);
    tcp.ece = ack.ece;
    let stamps = stamps(seen.label.created, ack.echo().map_or(0, timestamp));
    let mut blocks = ack
        .sacked()
        .map(|(from, to)| (sequence(from), sequence(to)));
    match blocks.next() {
        None => options(&mut tcp, &[stamps]),
        Some(first) => {
            let others = [blocks.next(), blocks.next(), None];
            let sack = TcpOptionElement::SelectiveAcknowledgement(first, others);
            options(&mut tcp, &[stamps, sack]);
        }
    }
    tcp
}

/// Each option begins at a word, as Linux lays them out.
fn options(tcp: &mut TcpHeader, elements: &[TcpOptionElement]) {
    use TcpOptionElement::Noop;
    // Three words and seven: they fit.
    let _ = match elements {
        [stamps] => tcp.set_options(&[Noop, Noop, stamps.clone()]),
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
fn moment(at: Instant) -> (u32, u32) {
    let ns = EPOCH * 1_000_000_000 + at.as_nanos();
    ((ns >> 32) as u32, ns as u32)
}

fn text(code: OptionCode, value: &str) -> PcapNGOption<'_> {
    // Its length has 16 bits; a title may be longer, and is left out then.
    let value = Some(value).filter(|v| v.len() < 10_000).unwrap_or_default();
    let value = value.as_bytes();
    PcapNGOption {
        code,
        len: value.len() as u16,
        value: Cow::Borrowed(value),
    }
}

fn number(code: OptionCode, value: u64) -> PcapNGOption<'static> {
    PcapNGOption {
        code,
        len: 8,
        value: Cow::Owned(value.to_le_bytes().to_vec()),
    }
}

fn write(out: &mut dyn Write, block: &mut impl ToVec) -> io::Result<()> {
    let bytes = block
        .to_vec()
        .map_err(|error| io::Error::other(error.to_string()))?;
    out.write_all(&bytes)
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
        let options = (since > 0).then(|| number(EPB_DROPCOUNT, since));
        let (ts_high, ts_low) = moment(seen.now);
        let mut block = EnhancedPacketBlock {
            block_type: EPB_MAGIC,
            block_len1: 0,
            if_id: place as u32,
            ts_high,
            ts_low,
            caplen: self.packet.len() as u32,
            origlen: seen.packet.len,
            data: &self.packet,
            options: options.into_iter().collect(),
            block_len2: 0,
        };
        write(&mut self.out, &mut block)
    }

    fn finish(&mut self, now: Instant) -> io::Result<()> {
        let (ts_high, ts_low) = moment(now);
        for (index, interface) in self.interfaces.iter().enumerate() {
            let mut block = InterfaceStatisticsBlock {
                block_type: ISB_MAGIC,
                block_len1: 0,
                if_id: index as u32,
                ts_high,
                ts_low,
                options: vec![
                    number(OptionCode::IsbIfRecv, interface.sent),
                    number(OptionCode::IsbIfDrop, interface.dropped),
                ],
                block_len2: 0,
            };
            write(&mut self.out, &mut block)?;
        }
        self.out.flush()
    }
}
