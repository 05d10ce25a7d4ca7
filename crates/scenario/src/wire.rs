// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flows on the wire, the same in every world: addresses, ports, RTP headers.

use std::net::Ipv4Addr;

use crate::departures::EXTENSION;

/// Ports of flows: this and the flow's place in the scenario.
pub const FIRST_PORT: usize = 10_000;
/// Number of those ports: flows beyond it share one with another.
pub const PORTS: usize = 65_536 - FIRST_PORT;
/// RTP header (RFC 3550 section 5.1), without our extension.
pub const RTP_HEADER: usize = 12;
/// RTP header with our extension.
pub const PREFIX: usize = RTP_HEADER + EXTENSION;
/// A dynamic payload type (RFC 3551), for streams of zeros.
pub const PAYLOAD_TYPE: u8 = 96;
/// In the second byte: the last packet of a frame.
pub const MARKER: u8 = 0x80;
/// Where in a packet the stamp and the sequence number are.
pub const STAMP: usize = RTP_HEADER + 4;
/// As [`STAMP`].
pub const SEQUENCE: usize = STAMP + 8;
/// RTP version 2 with an extension.
const VERSION: u8 = 2 << 6 | 1 << 4;
/// Our extension's name, and its length in words of 32 bits.
const EXTENSION_HEADER: [u8; 4] = [b'm', b'w', 0, 4];

/// The address that a node is known by: 10.78.0.0/16.
pub fn node_address(node: usize) -> Ipv4Addr {
    address(78, node + 1)
}

/// The `n`-th address of 10.`second`.0.0/16.
pub fn address(second: u8, n: usize) -> Ipv4Addr {
    let [.., high, low] = n.to_be_bytes();
    Ipv4Addr::new(10, second, high, low)
}

/// The port of a flow, at both of its ends.
pub fn port(flow: usize) -> u16 {
    (FIRST_PORT + flow) as u16
}

/// The RTP header of a packet, with our extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtp {
    /// Place in the stream, from 0.
    pub seq: u64,
    /// RTP time of the frame.
    pub timestamp: u32,
    /// Last of its frame.
    pub marker: bool,
    /// The stream.
    pub ssrc: u32,
    /// When it was sent, in ns after the start of traffic.
    pub stamp: u64,
}

impl Rtp {
    /// The stream number of a flow.
    pub fn ssrc(flow: usize) -> u32 {
        flow as u32 + 1
    }

    /// As it is sent.
    pub fn to_bytes(&self) -> [u8; PREFIX] {
        let mut packet = [0; PREFIX];
        packet[0] = VERSION;
        packet[1] = PAYLOAD_TYPE | if self.marker { MARKER } else { 0 };
        packet[2..4].copy_from_slice(&(self.seq as u16).to_be_bytes());
        packet[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        packet[8..12].copy_from_slice(&self.ssrc.to_be_bytes());
        packet[RTP_HEADER..STAMP].copy_from_slice(&EXTENSION_HEADER);
        packet[STAMP..SEQUENCE].copy_from_slice(&self.stamp.to_be_bytes());
        packet[SEQUENCE..PREFIX].copy_from_slice(&self.seq.to_be_bytes());
        packet
    }
}
