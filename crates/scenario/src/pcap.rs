// SPDX-License-Identifier: MIT OR Apache-2.0
//! Captures: pcap and pcapng files, and their IP packets. Of a source each packet's time and length count.

use makeway_core::units::{Bytes, Duration};
use pcap_parser::nom;
use pcap_parser::pcap::{
    parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified, parse_pcap_header,
};
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, PcapBlockOwned, PcapNGSlice};

use crate::model::Captured;

/// A capture is held in memory while it is read; cut to headers this is a million packets.
pub(crate) const LARGEST_CAPTURE: u64 = 256_000_000;
/// Longest time from the first packet to the last: a year. More is a broken clock.
const LONGEST: u64 = 366 * 86_400 * 1_000_000_000;
/// Longest packet: what offloads make is below 1 MB.
const LARGEST_PACKET: u64 = 1_000_000;
/// Begins a pcapng file.
const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// An IP packet of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Nanoseconds since 1970.
    pub ns: u128,
    /// Number of the interface in its section of the file, from 0.
    pub interface: u32,
    /// Name of the interface, if the file has it.
    pub name: Option<&'a str>,
    /// Length from the IP header on, of which the file may have the beginning only.
    pub length: u64,
    /// The captured part, from the IP header on.
    pub ip: &'a [u8],
}

/// Reads a capture: its IP packets by time, the first at zero. On error: what is wrong.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Captured>, String> {
    let mut packets = Vec::new();
    let records = read(bytes, |record| {
        packets.push((record.ns, record.length));
        Ok(())
    })?;
    by_time(packets, records)
}

/// Gives `each` the IP packets of a capture, in the order of the file; an error of it is that of the file. Returns the number of
/// records, those of other protocols included.
pub(crate) fn read(
    bytes: &[u8],
    each: impl FnMut(&Record<'_>) -> Result<(), String>,
) -> Result<usize, String> {
    let mut reader = Reader { each, records: 0 };
    if bytes.starts_with(&SECTION) {
        pcapng(bytes, &mut reader)?;
    } else {
        pcap(bytes, &mut reader)?;
    }
    Ok(reader.records)
}

/// Period after which a capture begins again: its last packet lasts as long as the mean of the others;
/// a millisecond at least.
pub(crate) fn period(packets: &[Captured]) -> Duration {
    let span = packets.last().map_or(Duration::ZERO, |last| last.at);
    let gaps = packets.len().saturating_sub(1).max(1) as u64;
    (span + span / gaps).max(Duration::from_millis(1))
}

/// `packets`, time in ns since 1970 and length, by time.
fn by_time(mut packets: Vec<(u128, u64)>, records: usize) -> Result<Vec<Captured>, String> {
    // Packets of several interfaces may be a little out of order.
    packets.sort_by_key(|(at, _)| *at);
    let (Some((first, _)), Some((last, _))) = (packets.first(), packets.last()) else {
        return Err(format!("there is no IP packet among its {records} records"));
    };
    let first = *first;
    if last - first > u128::from(LONGEST) {
        return Err(format!(
            "{} days lie between its first packet and its last: a year is the most",
            (last - first) / (86_400 * 1_000_000_000)
        ));
    }
    let packets = packets.into_iter();
    Ok(packets
        .map(|(at, length)| Captured {
            at: Duration::from_nanos((at - first) as u64),
            bytes: Bytes::new(length),
        })
        .collect())
}

/// An interface of a capture.
struct Interface {
    number: u32,
    name: Option<String>,
    linktype: i32,
    /// Units of time in a second.
    units: u128,
}

/// Reads records one after the other.
struct Reader<F> {
    each: F,
    /// Records so far, those of other protocols included.
    records: usize,
}

impl<F: FnMut(&Record<'_>) -> Result<(), String>> Reader<F> {
    fn add(&mut self, ns: u128, on: &Interface, data: &[u8], original: u32) -> Result<(), String> {
        self.records += 1;
        let Some(start) = network_header(on.linktype, data)
            .map_err(|e| format!("packet {}: {e}", self.records))?
        else {
            return Ok(());
        };
        let ip = &data[start..];
        let Some(length) = ip_length(ip, u64::from(original), start as u64) else {
            return Ok(());
        };
        if length > LARGEST_PACKET {
            return Err(format!(
                "packet {} is said to be {length} B long: 1 MB is the most",
                self.records
            ));
        }
        (self.each)(&Record {
            ns,
            interface: on.number,
            name: on.name.as_deref(),
            length,
            ip,
        })
        .map_err(|error| format!("packet {}: {error}", self.records))
    }

    /// Why the file cannot be read on.
    fn broken(&self, error: &nom::Err<pcap_parser::PcapError<&[u8]>>) -> String {
        match error {
            nom::Err::Incomplete(_) => format!(
                "it is cut off, or broken, in the record after the first {} (`tcpdump -r FILE -w WHOLE` keeps what is whole)",
                self.records
            ),
            _ => format!("the record after the first {} is broken", self.records),
        }
    }
}

fn pcap<F>(bytes: &[u8], reader: &mut Reader<F>) -> Result<(), String>
where
    F: FnMut(&Record<'_>) -> Result<(), String>,
{
    let (mut rest, header) = parse_pcap_header(bytes)
        .map_err(|_| "it is no capture: neither pcap nor pcapng begins so".to_owned())?;
    let unit = if header.is_nanosecond_precision() {
        1
    } else {
        1000
    };
    let only = Interface {
        number: 0,
        name: None,
        // The upper bits say how long a checksum frames have.
        linktype: header.network.0 & 0x0fff_ffff,
        units: 1_000_000_000 / unit,
    };
    while !rest.is_empty() {
        let read = if header.is_modified_format() {
            parse_pcap_frame_modified(rest)
        } else if header.is_bigendian() {
            parse_pcap_frame_be(rest)
        } else {
            parse_pcap_frame(rest)
        };
        let (after, packet) = read.map_err(|error| reader.broken(&error))?;
        rest = after;
        let ns = u128::from(packet.ts_sec) * 1_000_000_000 + u128::from(packet.ts_usec) * unit;
        reader.add(ns, &only, packet.data, packet.origlen)?;
    }
    Ok(())
}

fn pcapng<F>(bytes: &[u8], reader: &mut Reader<F>) -> Result<(), String>
where
    F: FnMut(&Record<'_>) -> Result<(), String>,
{
    lengths(bytes)?;
    let blocks = PcapNGSlice::from_slice(bytes).map_err(|error| reader.broken(&error))?;
    // Those of the section.
    let mut interfaces: Vec<Interface> = Vec::new();
    for block in blocks {
        let block = block.map_err(|error| reader.broken(&error))?;
        match block {
            PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                interfaces.push(Interface {
                    number: interfaces.len() as u32,
                    name: (interface.if_name())
                        .and_then(Result::ok)
                        .map(|name| name.trim_end_matches('\0').to_owned()),
                    linktype: interface.linktype.0,
                    units: resolution(interface.if_tsresol)?,
                });
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let Some(on) = interfaces.get(packet.if_id as usize) else {
                    return Err(format!(
                        "the record after the first {} is of interface {}, which it does not describe",
                        reader.records, packet.if_id
                    ));
                };
                let at = u128::from(packet.ts_high) << 32 | u128::from(packet.ts_low);
                let ns = at * 1_000_000_000 / on.units;
                reader.add(ns, on, packet.packet_data(), packet.origlen)?;
            }
            PcapBlockOwned::NG(Block::SimplePacket(_)) => {
                return Err(
                    "it has packets without a time (simple packet blocks): capture with tcpdump or dumpcap".into(),
                );
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether each block is as long as its own frame, type and two lengths: the parser takes that for granted.
fn lengths(bytes: &[u8]) -> Result<(), String> {
    const LEAST: u32 = 12;
    let word = |at: usize| bytes.get(at..)?.first_chunk::<4>().copied();
    let (mut at, mut is_big) = (0, false);
    while let (Some(kind), Some(length)) = (word(at), word(at + 4)) {
        if kind == SECTION {
            is_big = word(at + 8) == Some([0x1a, 0x2b, 0x3c, 0x4d]);
        }
        let length = match is_big {
            true => u32::from_be_bytes(length),
            false => u32::from_le_bytes(length),
        };
        if length < LEAST {
            return Err(format!(
                "its block at byte {at} has a length of {length}: {LEAST} is the least"
            ));
        }
        at += length as usize;
    }
    Ok(())
}

/// `if_tsresol`: units in a second, a power of 10 or of 2.
fn resolution(option: u8) -> Result<u128, String> {
    let exponent = u32::from(option & 0x7f);
    let units = match option & 0x80 {
        0 => 10_u128.checked_pow(exponent),
        _ => 2_u128.checked_pow(exponent),
    };
    units.ok_or_else(|| format!("its resolution of time {option:#04x} is finer than any clock"))
}

/// Where the IP header is in a packet of a link type; nothing if it has none.
fn network_header(linktype: i32, data: &[u8]) -> Result<Option<usize>, String> {
    let u16_at = |at: usize| Some(u16::from_be_bytes([*data.get(at)?, *data.get(at + 1)?]));
    Ok(match linktype {
        // Ethernet, with VLAN tags.
        1 => {
            let mut at = 12;
            while let Some(0x8100 | 0x88a8 | 0x9100) = u16_at(at) {
                at += 4;
            }
            is_ip(u16_at(at)).then_some(at + 2)
        }
        // BSD's loopback: a word with the family, of either order.
        0 | 108 => Some(4),
        // Linux's "any", two versions.
        113 => is_ip(u16_at(14)).then_some(16),
        276 => is_ip(u16_at(0)).then_some(20),
        // Raw IP, by all its numbers.
        12 | 14 | 101 | 228 | 229 => Some(0),
        _ => {
            return Err(format!(
                "its link type {linktype} is unknown here: capture Ethernet, raw IP, loopback or Linux's `any`"
            ));
        }
    }
    .filter(|start| *start <= data.len()))
}

fn is_ip(ethertype: Option<u16>) -> bool {
    matches!(ethertype, Some(0x0800 | 0x86dd))
}

/// The length that an IP header tells, padding of the link left out. Offloads leave it zero where it
/// does not fit: then what was captured says it.
fn ip_length(ip: &[u8], original: u64, start: u64) -> Option<u64> {
    let field = |at: usize| {
        Some(u64::from(u16::from_be_bytes([
            *ip.get(at)?,
            *ip.get(at + 1)?,
        ])))
    };
    let told = match ip.first()? >> 4 {
        4 => field(2)?,
        6 => match field(4)? {
            0 => 0,
            payload => payload + 40,
        },
        _ => return None,
    };
    match told {
        0 => Some(original.saturating_sub(start)),
        told => Some(told),
    }
}

#[cfg(test)]
mod tests;
