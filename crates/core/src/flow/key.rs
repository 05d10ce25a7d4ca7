// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys read from packets: never a panic, always a key.
//!
//! Formats: RFC 791 (IPv4), RFC 8200 (IPv6 and its extension headers), RFC 2516 (PPPoE),
//! IEEE 802.1Q (VLAN). VLAN and PPPoE headers are skipped; they are no part of the key.
//! Fragments carry no ports except the first, so every fragment of a datagram is keyed by addresses
//! and protocol alone: they stay together and in order.

use super::Identity;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use etherparse::{IpNumber, Ipv6ExtensionSlice, LaxIpPayloadSlice, LaxIpSlice, LaxIpv6Slice};

/// The header fields that name a flow; those outside its [`Identity`] are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    src: [u8; 16],
    dst: [u8; 16],
    sport: u16,
    dport: u16,
    protocol: u8,
    family: Family,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Family {
    #[default]
    Other,
    V4,
    V6,
}

impl FlowKey {
    /// Everything that is not IP or cannot be read shares this key.
    pub const OTHER: Self = Self {
        src: [0; 16],
        dst: [0; 16],
        sport: 0,
        dport: 0,
        protocol: 0,
        family: Family::Other,
    };

    /// A key made of its parts, as [`FlowKey::from_ip`] would read it from a packet.
    ///
    /// Ports are host order, zero for protocols that have none. Addresses of two families give
    /// [`FlowKey::OTHER`].
    pub fn new(
        identity: Identity,
        src: IpAddr,
        dst: IpAddr,
        protocol: u8,
        sport: u16,
        dport: u16,
    ) -> Self {
        let key = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Self {
                src: widen(src.octets()),
                dst: widen(dst.octets()),
                family: Family::V4,
                ..Self::OTHER
            },
            (IpAddr::V6(src), IpAddr::V6(dst)) => Self {
                src: src.octets(),
                dst: dst.octets(),
                family: Family::V6,
                ..Self::OTHER
            },
            _ => return Self::OTHER,
        };
        Self {
            sport,
            dport,
            protocol,
            ..key
        }
        .keep(identity)
    }

    /// The key of an IP packet, of which `bytes` is all or a beginning (64 bytes are enough unless
    /// it has long extension headers; where the ports are cut off they are zero).
    pub fn from_ip(identity: Identity, bytes: &[u8]) -> Self {
        let Ok((ip, _)) = LaxIpSlice::from_slice(bytes) else {
            return Self::OTHER;
        };
        let (protocol, [sport, dport]) = match &ip {
            LaxIpSlice::Ipv4(v4) if v4.is_payload_fragmented() => (v4.header().protocol(), [0, 0]),
            LaxIpSlice::Ipv6(v6) if v6.is_payload_fragmented() => (fragmented(v6), [0, 0]),
            ip => (ip.payload_ip_number(), ports(ip.payload())),
        };
        let (src, dst) = (ip.source_addr(), ip.destination_addr());
        Self::new(identity, src, dst, protocol.0, sport, dport)
    }

    /// The key of an Ethernet frame, all or a beginning: any stack of VLAN tags, PPPoE sessions, IP.
    pub fn from_ethernet(identity: Identity, frame: &[u8]) -> Self {
        const IPV4: u16 = 0x0800;
        const IPV6: u16 = 0x86dd;
        const PPPOE_SESSION: u16 = 0x8864;
        // 802.1Q, 802.1ad, and the value in use before 802.1ad.
        const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
        // RFC 1332, RFC 5072.
        const PPP_IPV4: u16 = 0x0021;
        const PPP_IPV6: u16 = 0x0057;

        let mut at = 12;
        let mut ether_type = be16(frame, at);
        while ether_type.is_some_and(|t| VLAN.contains(&t)) {
            at += 4;
            ether_type = be16(frame, at);
        }
        let ip = match ether_type {
            Some(IPV4 | IPV6) => at + 2,
            // Six bytes of PPPoE header, then PPP's protocol number.
            Some(PPPOE_SESSION) => match be16(frame, at + 8) {
                Some(PPP_IPV4 | PPP_IPV6) => at + 10,
                _ => return Self::OTHER,
            },
            _ => return Self::OTHER,
        };
        Self::from_ip(identity, frame.get(ip..).unwrap_or_default())
    }

    /// The source address, unspecified where the identity leaves it out; `None` for what is not IP.
    pub fn src(&self) -> Option<IpAddr> {
        self.address(self.src)
    }

    /// The destination address, unspecified where the identity leaves it out; `None` if not IP.
    pub fn dst(&self) -> Option<IpAddr> {
        self.address(self.dst)
    }

    /// The source port, zero if there is none.
    pub fn sport(&self) -> u16 {
        self.sport
    }

    /// The destination port, zero if there is none.
    pub fn dport(&self) -> u16 {
        self.dport
    }

    /// The protocol over IP, an IANA number; zero where the identity leaves it out.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// The same key for a packet whose destination `from` is replaced by `to`, as by address translation; another destination stays.
    pub fn redirected(self, from: IpAddr, to: IpAddr) -> Self {
        let dst = match to {
            IpAddr::V4(v4) => widen(v4.octets()),
            IpAddr::V6(v6) => v6.octets(),
        };
        match self.dst() == Some(from) && from.is_ipv4() == to.is_ipv4() {
            true => Self { dst, ..self },
            false => self,
        }
    }

    fn address(&self, octets: [u8; 16]) -> Option<IpAddr> {
        match self.family {
            Family::Other => None,
            Family::V4 => {
                let [a, b, c, d, ..] = octets;
                Some(Ipv4Addr::new(a, b, c, d).into())
            }
            Family::V6 => Some(Ipv6Addr::from(octets).into()),
        }
    }

    fn keep(self, identity: Identity) -> Self {
        let none = Self {
            family: self.family,
            ..Self::OTHER
        };
        match identity {
            Identity::FiveTuple => self,
            Identity::SrcPort => Self {
                src: self.src,
                sport: self.sport,
                protocol: self.protocol,
                ..none
            },
            Identity::SrcHost => Self {
                src: self.src,
                ..none
            },
            Identity::DstHost => Self {
                dst: self.dst,
                ..none
            },
            Identity::HostPair => Self {
                src: self.src,
                dst: self.dst,
                ..none
            },
        }
    }
}

/// The protocol named by the fragment header: the one number that all fragments share.
fn fragmented(ip: &LaxIpv6Slice) -> IpNumber {
    ip.extensions()
        .clone()
        .into_iter()
        .find_map(|extension| match extension {
            Ipv6ExtensionSlice::Fragment(f) if f.is_fragmenting_payload() => Some(f.next_header()),
            _ => None,
        })
        .unwrap_or(ip.payload().ip_number)
}

fn ports(payload: &LaxIpPayloadSlice) -> [u16; 2] {
    // TCP, UDP, DCCP, SCTP, UDP-Lite: all begin with source and destination port.
    const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];
    if !WITH_PORTS.contains(&payload.ip_number.0) {
        return [0, 0];
    }
    [0, 2].map(|at| be16(payload.payload, at).unwrap_or(0))
}

fn widen([a, b, c, d]: [u8; 4]) -> [u8; 16] {
    let mut wide = [0; 16];
    wide[..4].copy_from_slice(&[a, b, c, d]);
    wide
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_be_bytes([pair[0], pair[1]]))
}

/// For people: `udp 10.0.0.1:5004 > 10.0.0.2:4000`; parts that are not in the key are left out.
impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(src), Some(dst)) = (self.src(), self.dst()) else {
            return f.write_str("not IP");
        };
        match self.protocol {
            0 => {}
            1 => f.write_str("icmp ")?,
            6 => f.write_str("tcp ")?,
            17 => f.write_str("udp ")?,
            33 => f.write_str("dccp ")?,
            58 => f.write_str("icmpv6 ")?,
            132 => f.write_str("sctp ")?,
            136 => f.write_str("udplite ")?,
            n => write!(f, "proto-{n} ")?,
        }
        end(f, src, self.sport)?;
        f.write_str(" > ")?;
        end(f, dst, self.dport)
    }
}

fn end(f: &mut fmt::Formatter<'_>, address: IpAddr, port: u16) -> fmt::Result {
    match (address.is_unspecified(), address, port) {
        (true, _, 0) => f.write_str("any"),
        (_, address, 0) => write!(f, "{address}"),
        (_, IpAddr::V6(address), port) => write!(f, "[{address}]:{port}"),
        (_, address, port) => write!(f, "{address}:{port}"),
    }
}

#[cfg(test)]
mod tests;
