// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets as they are on the wire (RFC 4340 §5).

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Seq;

/// DCCP's number among the protocols of IP.
pub const PROTOCOL: u8 = 33;
/// An IPv4 header without options, in bytes.
pub const IP_HEADER: u64 = 20;
/// The longest header, options included: its length is told in one byte, in words of four.
pub const LONGEST_HEADER: usize = 255 * 4;

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The port that sent it.
    pub source: u16,
    /// The port it is for.
    pub destination: u16,
    /// CCVal, 0 to 15: what the sender's CCID tells the receiver's.
    pub ccval: u8,
    /// Coverage of the checksum.
    pub coverage: Coverage,
    /// Its type, and what only this type has.
    pub kind: Kind,
    /// Its number.
    pub seq: Seq,
    /// Whether its numbers have 24 bits: of Data, Ack and DataAck they may (X = 0).
    pub short: bool,
    /// Options, encoded, see [`super::option`].
    pub options: &'a [u8],
    /// Application data.
    pub data: &'a [u8],
}

/// A packet's type (§5.1, Table 1), with the fields that only it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "`ack` is the acknowledgement number, `service` the Service Code of the application"
)]
pub enum Kind {
    /// The client's first.
    Request { service: u32 },
    /// The server's answer.
    Response { ack: Seq, service: u32 },
    /// Data alone.
    Data,
    /// An acknowledgement alone.
    Ack { ack: Seq },
    /// Both.
    DataAck { ack: Seq },
    /// The server asks the client to close.
    CloseReq { ack: Seq },
    /// One end closes.
    Close { ack: Seq },
    /// The connection is no more.
    Reset {
        ack: Seq,
        code: Reset,
        data: [u8; 3],
    },
    /// Asks whether both still agree on numbers.
    Sync { ack: Seq },
    /// They do.
    SyncAck { ack: Seq },
}

impl Kind {
    /// Type in the header.
    pub const fn number(self) -> u8 {
        match self {
            Self::Request { .. } => 0,
            Self::Response { .. } => 1,
            Self::Data => 2,
            Self::Ack { .. } => 3,
            Self::DataAck { .. } => 4,
            Self::CloseReq { .. } => 5,
            Self::Close { .. } => 6,
            Self::Reset { .. } => 7,
            Self::Sync { .. } => 8,
            Self::SyncAck { .. } => 9,
        }
    }

    /// The acknowledgement number; Request and Data have none.
    pub const fn ack(self) -> Option<Seq> {
        match self {
            Self::Request { .. } | Self::Data => None,
            Self::Response { ack, .. }
            | Self::Ack { ack }
            | Self::DataAck { ack }
            | Self::CloseReq { ack }
            | Self::Close { ack }
            | Self::Reset { ack, .. }
            | Self::Sync { ack }
            | Self::SyncAck { ack } => Some(ack),
        }
    }

    /// Whether it carries the application's data in the middle of a connection: Data or DataAck.
    pub const fn is_data(self) -> bool {
        matches!(self, Self::Data | Self::DataAck { .. })
    }

    const fn may_be_short(number: u8) -> bool {
        matches!(number, 2..=4)
    }
}

/// Why a connection was reset (§5.6, Table 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset(pub u8);

#[expect(missing_docs, reason = "names of the RFC's table")]
impl Reset {
    pub const CLOSED: Self = Self(1);
    pub const ABORTED: Self = Self(2);
    pub const NO_CONNECTION: Self = Self(3);
    pub const PACKET_ERROR: Self = Self(4);
    pub const OPTION_ERROR: Self = Self(5);
    pub const MANDATORY_ERROR: Self = Self(6);
    pub const CONNECTION_REFUSED: Self = Self(7);
    pub const BAD_SERVICE_CODE: Self = Self(8);
}

/// Which part of the data the checksum covers (§9.2): CsCov, 0 to 15. Header and options are always covered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage(pub u8);

impl Coverage {
    /// Bytes of data that are covered, if there are as many as it says.
    fn of(self, data: usize) -> Option<usize> {
        match self.0 {
            0 => Some(data),
            n => Some((usize::from(n) - 1) * 4).filter(|&covered| covered <= data),
        }
    }
}

/// Input of the checksum from the layer below (§9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pseudo {
    /// IPv4, source and destination.
    V4(Ipv4Addr, Ipv4Addr),
    /// IPv6, source and destination.
    V6(Ipv6Addr, Ipv6Addr),
    /// UDP (RFC 6773): its checksum covers the whole packet, so DCCP's own field is zero and is not read.
    Udp,
}

/// Why bytes are no packet. Such packets are ignored (§8.5, step 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Shorter than its header.
    #[error("is shorter than the header that it should have")]
    Truncated,
    /// A type that no RFC defines.
    #[error("has the reserved type {0}")]
    UnknownType(u8),
    /// Data Offset lies in the header or outside of the packet.
    #[error("has a data offset of {0} bytes: inside its header or outside the packet")]
    Offset(usize),
    /// Short sequence numbers on a type that must not have them.
    #[error("has short sequence numbers, which the type {0} must not have")]
    ShortNumbers(u8),
    /// The checksum is wrong.
    #[error("has a wrong checksum")]
    Checksum,
    /// CsCov covers more data than there is.
    #[error("has a checksum that covers more than its data")]
    Coverage,
}

impl<'a> Packet<'a> {
    /// Reads a packet and checks its checksum. Numbers of 24 bits come out as they are: see [`Seq::extend`].
    pub fn decode(bytes: &'a [u8], pseudo: &Pseudo) -> Result<Self, WireError> {
        let at = |n: usize| bytes.get(n).copied().ok_or(WireError::Truncated);
        let number = |from: usize, len: usize| {
            let field = bytes.get(from..from + len).ok_or(WireError::Truncated)?;
            Ok(field.iter().fold(0u64, |n, &byte| n << 8 | u64::from(byte)))
        };
        let kind = at(8)? >> 1 & 15;
        let short = at(8)? & 1 == 0;
        if kind > 9 {
            return Err(WireError::UnknownType(kind));
        }
        if short && !Kind::may_be_short(kind) {
            return Err(WireError::ShortNumbers(kind));
        }
        let (seq, mut end) = match short {
            true => (number(9, 3)?, 12),
            false => (number(10, 6)?, 16),
        };
        let ack = match (kind, short) {
            (0 | 2, _) => 0,
            (_, true) => {
                end += 4;
                number(end - 3, 3)?
            }
            (_, false) => {
                end += 8;
                number(end - 6, 6)?
            }
        };
        let ack = Seq::new(ack);
        let mut word = || {
            end += 4;
            number(end - 4, 4).map(|word| word as u32)
        };
        let kind = match kind {
            0 => Kind::Request { service: word()? },
            1 => Kind::Response {
                ack,
                service: word()?,
            },
            2 => Kind::Data,
            3 => Kind::Ack { ack },
            4 => Kind::DataAck { ack },
            5 => Kind::CloseReq { ack },
            6 => Kind::Close { ack },
            7 => {
                let [code, data @ ..] = word()?.to_be_bytes();
                let code = Reset(code);
                Kind::Reset { ack, code, data }
            }
            8 => Kind::Sync { ack },
            _ => Kind::SyncAck { ack },
        };
        let offset = usize::from(at(4)?) * 4;
        if offset < end || offset > bytes.len() {
            return Err(WireError::Offset(offset));
        }
        let coverage = Coverage(at(5)? & 15);
        let covered = coverage.of(bytes.len() - offset);
        let covered = offset + covered.ok_or(WireError::Coverage)?;
        if *pseudo != Pseudo::Udp && checksum(bytes, covered, pseudo) != 0 {
            return Err(WireError::Checksum);
        }
        Ok(Self {
            source: number(0, 2)? as u16,
            destination: number(2, 2)? as u16,
            ccval: at(5)? >> 4,
            coverage,
            kind,
            seq: Seq::new(seq),
            short,
            options: &bytes[end..offset],
            data: &bytes[offset..],
        })
    }

    /// Writes the packet, its checksum included, over the content of `out`.
    ///
    /// Options are filled up to a multiple of four bytes; header and options must not be longer than [`LONGEST_HEADER`].
    pub fn encode(&self, pseudo: &Pseudo, out: &mut Vec<u8>) {
        out.clear();
        out.extend(self.source.to_be_bytes());
        out.extend(self.destination.to_be_bytes());
        out.extend([0, self.ccval << 4 | self.coverage.0, 0, 0]);
        let short = self.short && Kind::may_be_short(self.kind.number());
        out.push(self.kind.number() << 1 | u8::from(!short));
        let put = |out: &mut Vec<u8>, seq: Seq| match short {
            true => out.extend(&seq.short().to_be_bytes()[1..]),
            false => {
                out.extend([0; 1]);
                out.extend(&seq.get().to_be_bytes()[2..]);
            }
        };
        put(out, self.seq);
        if let Some(ack) = self.kind.ack() {
            out.push(0);
            put(out, ack);
        }
        match self.kind {
            Kind::Request { service } | Kind::Response { service, .. } => {
                out.extend(service.to_be_bytes());
            }
            Kind::Reset { code, data, .. } => {
                out.push(code.0);
                out.extend(data);
            }
            _ => {}
        }
        out.extend(self.options);
        out.resize(out.len().next_multiple_of(4), 0);
        debug_assert!(out.len() <= LONGEST_HEADER);
        out[4] = (out.len() / 4) as u8;
        let covered = out.len() + self.coverage.of(self.data.len()).unwrap_or(0);
        out.extend(self.data);
        if *pseudo != Pseudo::Udp {
            let sum = checksum(out, covered, pseudo);
            out[6..8].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// The Internet checksum (RFC 1071) of the first `covered` bytes and the pseudo-header; 0 where a packet's own is right.
fn checksum(packet: &[u8], covered: usize, pseudo: &Pseudo) -> u16 {
    let words = |bytes: &[u8]| {
        let chunks = bytes.chunks(2);
        let word = |c: &[u8]| u64::from(c[0]) << 8 | u64::from(c.get(1).copied().unwrap_or(0));
        chunks.map(word).sum::<u64>()
    };
    let addresses = match pseudo {
        Pseudo::V4(from, to) => words(&from.octets()) + words(&to.octets()),
        Pseudo::V6(from, to) => words(&from.octets()) + words(&to.octets()),
        Pseudo::Udp => 0,
    };
    let below = addresses + packet.len() as u64 + u64::from(PROTOCOL);
    let mut sum = below + words(&packet[..covered]);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    pub fn kinds() -> impl Strategy<Value = Kind> {
        let parts = (0..10u8, any::<u64>(), any::<u32>(), any::<[u8; 4]>());
        parts.prop_map(|(number, ack, service, [code, data @ ..])| {
            let ack = Seq::new(ack);
            match number {
                0 => Kind::Request { service },
                1 => Kind::Response { ack, service },
                2 => Kind::Data,
                3 => Kind::Ack { ack },
                4 => Kind::DataAck { ack },
                5 => Kind::CloseReq { ack },
                6 => Kind::Close { ack },
                7 => {
                    let code = Reset(code);
                    Kind::Reset { ack, code, data }
                }
                8 => Kind::Sync { ack },
                _ => Kind::SyncAck { ack },
            }
        })
    }

    fn pseudos() -> impl Strategy<Value = Pseudo> {
        prop_oneof![
            any::<[[u8; 4]; 2]>().prop_map(|[a, b]| Pseudo::V4(a.into(), b.into())),
            any::<[[u8; 16]; 2]>().prop_map(|[a, b]| Pseudo::V6(a.into(), b.into())),
            Just(Pseudo::Udp),
        ]
    }

    proptest! {
        #[test]
        fn a_packet_is_read_as_it_was_written(
            kind in kinds(),
            seq: u64,
            [source, destination] in any::<[u16; 2]>(),
            (ccval, cscov, short) in (0..16u8, 0..16u8, any::<bool>()),
            words in 0..200usize,
            data in proptest::collection::vec(any::<u8>(), 56..100),
            pseudo in pseudos(),
            spoilt: proptest::sample::Index,
        ) {
            let short = short && Kind::may_be_short(kind.number());
            let cut = |seq: Seq| if short { Seq::new(seq.short().into()) } else { seq };
            let kind = match kind {
                Kind::Ack { ack } => Kind::Ack { ack: cut(ack) },
                Kind::DataAck { ack } => Kind::DataAck { ack: cut(ack) },
                kind => kind,
            };
            let options = vec![7; words * 4];
            let packet = Packet {
                source, destination, ccval, coverage: Coverage(cscov), kind, short,
                seq: cut(Seq::new(seq)), options: &options, data: &data,
            };
            let mut bytes = Vec::new();
            packet.encode(&pseudo, &mut bytes);
            prop_assert_eq!(Packet::decode(&bytes, &pseudo), Ok(packet));

            let covered = bytes.len() - data.len() + packet.coverage.of(data.len()).unwrap();
            let at = spoilt.index(bytes.len());
            bytes[at] ^= 0x40;
            if pseudo != Pseudo::Udp && at < covered {
                prop_assert!(Packet::decode(&bytes, &pseudo).is_err());
            }
        }

        #[test]
        fn hostile_bytes_are_an_error_or_a_packet(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(packet) = Packet::decode(&bytes, &Pseudo::Udp) {
                prop_assert!(packet.options.len() + packet.data.len() + 12 <= bytes.len());
            }
        }
    }
}
