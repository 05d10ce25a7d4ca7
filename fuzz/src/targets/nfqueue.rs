// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes are a message of the kernel's packet queue; a packet's headers lie in them, and a translated destination is another one.

use makeway_gateway::datapath::{Message, parse_message};

pub fn run(input: &[u8]) {
    if let Message::Packet(packet) = parse_message(input) {
        assert!(input.as_ptr_range().contains(&packet.headers.as_ptr()) || packet.headers.is_empty());
        assert!(packet.headers.len() < input.len());
        assert!(packet.translated.is_none_or(|one| one.from != one.to));
    }
}
