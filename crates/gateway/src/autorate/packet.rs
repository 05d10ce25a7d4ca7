// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that tell of delay: TCP segments with timestamps, datagrams of calls, and probes of ICMP. Reads any bytes; no clock, no
//! socket.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Milliseconds in a day, the range of timestamps of ICMP (RFC 792).
pub const DAY_MS: u32 = 86_400_000;
/// Two options that do nothing, then timestamps: their usual place, as RFC 7323, appendix A, has it.
pub const OPTIONS: u32 = 0x0101_080a;

const ECHO: (u8, u8) = (8, 0);
const TIMESTAMP: (u8, u8) = (13, 14);
const ECHO_V6: (u8, u8) = (128, 129);
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;

/// A packet of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// A segment with timestamps (RFC 7323).
    Tcp {
        connection: Connection,
        /// Clock of its sender.
        value: u32,
        /// Latest clock of its receiver that the sender has seen.
        echo: u32,
        /// Whether it carries data: then it left when its sender had some, else as an answer.
        has_data: bool,
    },
    /// A datagram of UDP, as far as it was read.
    Udp {
        connection: Connection,
        payload: &'a [u8],
    },
    /// A probe of ours on its way out.
    Probe { to: IpAddr, number: u16 },
    /// Its answer.
    Answer {
        from: IpAddr,
        number: u16,
        /// Milliseconds of the day at which the reflector received the probe, and sent the answer.
        stamps: Option<[u32; 2]>,
    },
}

/// Ends of a connection, as the link's far side sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connection {
    pub remote: (IpAddr, u16),
    pub local: (IpAddr, u16),
}

/// Reads a packet from its network header on; `None` for one that tells nothing.
pub fn parse(bytes: &[u8], is_outgoing: bool) -> Option<Seen<'_>> {
    let (source, destination, protocol, length, rest) = match bytes.first()? >> 4 {
        4 => {
            let header = usize::from(bytes[0] & 15) * 4;
            (header >= 20).then_some(())?;
            let address = |at| array::<4>(bytes, at).map(|a| IpAddr::from(Ipv4Addr::from(a)));
            let length = usize::from(u16::from_be_bytes(array(bytes, 2)?));
            (
                address(12)?,
                address(16)?,
                *bytes.get(9)?,
                length.saturating_sub(header),
                bytes.get(header..)?,
            )
        }
        6 => {
            let address = |at| array::<16>(bytes, at).map(|a| IpAddr::from(Ipv6Addr::from(a)));
            let length = usize::from(u16::from_be_bytes(array(bytes, 4)?));
            (
                address(8)?,
                address(24)?,
                *bytes.get(6)?,
                length,
                bytes.get(40..)?,
            )
        }
        _ => return None,
    };
    let (local, remote) = match is_outgoing {
        true => (source, destination),
        false => (destination, source),
    };
    let word = |at| array(rest, at).map(u32::from_be_bytes);
    let half = |at| array(rest, at).map(u16::from_be_bytes);
    let connection = || {
        let (from, to) = (half(0)?, half(2)?);
        let (there, here) = if is_outgoing { (to, from) } else { (from, to) };
        Some(Connection {
            remote: (remote, there),
            local: (local, here),
        })
    };
    match protocol {
        TCP => {
            let connection = connection()?;
            (word(20)? == OPTIONS).then_some(())?;
            let header = usize::from(*rest.get(12)? >> 4) * 4;
            Some(Seen::Tcp {
                has_data: length > header,
                connection,
                value: word(24)?,
                echo: word(28)?,
            })
        }
        UDP => Some(Seen::Udp {
            connection: connection()?,
            // Ethernet pads short ones.
            payload: rest.get(8..rest.len().min(length))?,
        }),
        ICMP | ICMP_V6 => {
            let kind = *rest.first()?;
            let number = half(6)?;
            let is = |kinds: &[(u8, u8)], answer: bool| {
                let mut all = kinds.iter();
                all.any(|(ask, told)| kind == if answer { *told } else { *ask })
            };
            let kinds: &[_] = match protocol {
                ICMP => &[ECHO, TIMESTAMP],
                _ => &[ECHO_V6],
            };
            if is_outgoing && is(kinds, false) {
                return Some(Seen::Probe { to: remote, number });
            }
            (!is_outgoing && is(kinds, true)).then_some(())?;
            let stamps = match kind == TIMESTAMP.1 && protocol == ICMP {
                true => Some([word(12)?, word(16)?]),
                false => None,
            };
            Some(Seen::Answer {
                from: remote,
                number,
                stamps,
            })
        }
        _ => None,
    }
}

/// A probe from its ICMP header on; one with `stamp`, in ms of the day, asks for timestamps.
pub fn probe(to: IpAddr, identifier: u16, number: u16, stamp: Option<u32>) -> Vec<u8> {
    let kind = match (to, stamp) {
        (IpAddr::V6(_), _) => ECHO_V6.0,
        (IpAddr::V4(_), None) => ECHO.0,
        (IpAddr::V4(_), Some(_)) => TIMESTAMP.0,
    };
    let mut bytes = vec![kind, 0, 0, 0];
    bytes.extend(identifier.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    // An echo as long as a request for timestamps.
    bytes.extend(stamp.unwrap_or(0).to_be_bytes());
    bytes.extend([0; 8]);
    // That of ICMPv6 covers addresses, and is the kernel's.
    if to.is_ipv4() {
        let sum = checksum(&bytes).to_be_bytes();
        bytes[2..4].copy_from_slice(&sum);
    }
    bytes
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let pairs = bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)])));
    let mut sum: u32 = pairs.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: [u8; 4] = [10, 0, 0, 1];
    const THERE: [u8; 4] = [192, 0, 2, 9];

    fn v4(protocol: u8, from: [u8; 4], to: [u8; 4], rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![
            0x46,
            0,
            0,
            24 + rest.len() as u8,
            0,
            0,
            0,
            0,
            64,
            protocol,
            0,
            0,
        ];
        bytes.extend(from);
        bytes.extend(to);
        // An option: the header is 24 bytes.
        bytes.extend([1, 1, 1, 0]);
        bytes.extend(rest);
        bytes
    }

    fn segment(from: u16, to: u16) -> Vec<u8> {
        let mut bytes = from.to_be_bytes().to_vec();
        bytes.extend(to.to_be_bytes());
        bytes.extend([0; 8]);
        bytes.extend([0x80, 0x10, 0, 0, 0, 0, 0, 0]);
        bytes.extend(OPTIONS.to_be_bytes());
        bytes.extend(7u32.to_be_bytes());
        bytes.extend(9u32.to_be_bytes());
        bytes
    }

    #[test]
    fn a_segment_has_the_same_ends_on_its_way_out_and_in() {
        let connection = Connection {
            remote: (IpAddr::from(THERE), 443),
            local: (IpAddr::from(HERE), 5000),
        };
        let seen = Some(Seen::Tcp {
            connection,
            value: 7,
            echo: 9,
            has_data: false,
        });
        let out = v4(TCP, HERE, THERE, &segment(5000, 443));
        assert_eq!(parse(&out, true), seen);
        let back = v4(TCP, THERE, HERE, &segment(443, 5000));
        assert_eq!(parse(&back, false), seen);
        let mut longer = back.clone();
        longer[3] += 1;
        let told = parse(&longer, false);
        assert!(
            matches!(told, Some(Seen::Tcp { has_data: true, .. })),
            "{told:?}"
        );
        // Without timestamps at their place, and cut at every length.
        let mut other = segment(443, 5000);
        other[21] = 5;
        assert_eq!(parse(&v4(TCP, THERE, HERE, &other), false), None);
        for cut in 0..back.len() {
            assert_eq!(parse(&back[..cut], false), None, "{cut}");
        }
    }

    #[test]
    fn a_datagram_ends_with_its_packet_and_not_with_its_frame() {
        let connection = Connection {
            remote: (IpAddr::from(THERE), 5004),
            local: (IpAddr::from(HERE), 40_000),
        };
        let [there, here] = [5004u16, 40_000].map(u16::to_be_bytes);
        let datagram = [&there[..], &here, &[0, 11, 0, 0], b"abc"].concat();
        let mut packet = v4(UDP, THERE, HERE, &datagram);
        packet.extend([0; 9]);
        let payload = &b"abc"[..];
        let seen = Seen::Udp {
            connection,
            payload,
        };
        assert_eq!(parse(&packet, false), Some(seen));
        // Cut, it is shorter; without its header it is none.
        for cut in 0..35 {
            let told = parse(&packet[..cut], false);
            assert_eq!(told.is_some(), cut >= 32, "{cut}");
        }
        // A header of IPv4 that ends before its addresses.
        for words in 0..5 {
            packet[0] = 0x40 | words;
            assert_eq!(parse(&packet, false), None, "{words}");
        }
    }

    #[test]
    fn probes_read_as_they_are_written_and_answers_have_stamps() {
        let to = IpAddr::from(THERE);
        for stamp in [None, Some(77)] {
            let bytes = probe(to, 3, 500, stamp);
            assert_eq!(checksum(&bytes), 0);
            let packet = v4(ICMP, HERE, THERE, &bytes);
            assert_eq!(parse(&packet, true), Some(Seen::Probe { to, number: 500 }));
            assert_eq!(parse(&packet, false), None);
        }
        let mut answer = probe(to, 3, 500, Some(77));
        answer[0] = TIMESTAMP.1;
        answer[12..16].copy_from_slice(&80u32.to_be_bytes());
        answer[16..20].copy_from_slice(&81u32.to_be_bytes());
        let told = Seen::Answer {
            from: to,
            number: 500,
            stamps: Some([80, 81]),
        };
        let packet = v4(ICMP, THERE, HERE, &answer);
        assert_eq!(parse(&packet, false), Some(told));
    }

    #[test]
    fn an_echo_of_ipv6_is_read() {
        let to: IpAddr = "2001:db8::9".parse().unwrap();
        let mut packet = vec![0x60, 0, 0, 0, 0, 20, ICMP_V6, 64];
        packet.extend([0; 16]);
        if let IpAddr::V6(address) = to {
            packet.extend(address.octets());
        }
        packet.extend(probe(to, 3, 8, None));
        assert_eq!(parse(&packet, true), Some(Seen::Probe { to, number: 8 }));
        // One word of the header is missing.
        assert_eq!(parse(&packet[..44], true), None);
    }
}
