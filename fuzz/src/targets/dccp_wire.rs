// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes are a DCCP packet or an error, and a packet is written as it was read.

use std::net::{Ipv4Addr, Ipv6Addr};

use makeway_transport::dccp::wire::{LONGEST_HEADER, Packet, Pseudo};

pub fn run(input: &[u8]) {
    let v4 = Pseudo::V4(Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST);
    let v6 = Pseudo::V6(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
    for pseudo in [Pseudo::Udp, v4, v6] {
        let Ok(packet) = Packet::decode(input, &pseudo) else {
            continue;
        };
        assert!(packet.options.len() < LONGEST_HEADER);
        let mut written = Vec::new();
        // With a right checksum where the one of `input` was not looked at.
        packet.encode(&v4, &mut written);
        assert_eq!(Packet::decode(&written, &v4), Ok(packet));
    }
}
