// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any frame: the kernel's dissector and core's read the same key, and its hash is SipHash-1-3 of it.
//!
//! The first two bytes are the identity and the seed; the others follow the addresses of a frame, from its Ethernet type on.

#[path = "../../../bpf/native/dissected.rs"]
mod dissected;

use bytemuck::Zeroable;
use dissected::{Answer, expected};
use makeway_core::flow::Identity;

unsafe extern "C" {
    fn makeway_dissect(packet: *const u8, len: u32, ether_type: u32, identity: u32, seed: u64, answer: *mut Answer);
}

/// Behind more VLAN tags the kernel's sees no IP; core's sees it behind any number.
const TAGS: usize = 8;
/// Bytes of a packet: the kernel's looks behind more extension headers than fit in there.
const MOST: usize = 128;

pub fn run(input: &[u8]) {
    let [identity, seed, high, low, packet @ ..] = input else {
        return;
    };
    let packet = &packet[..packet.len().min(MOST)];
    let ether_type = [*high, *low];
    let types = std::iter::once(ether_type).chain(packet.chunks_exact(4).map(|tag| [tag[2], tag[3]]));
    let is_tag = |kind: &[u8; 2]| matches!(u16::from_be_bytes(*kind), 0x8100 | 0x88a8 | 0x9100);
    if types.take_while(is_tag).count() > TAGS {
        return;
    }
    let identity = Identity::ALL[usize::from(*identity) % Identity::ALL.len()];
    let seed = u64::from(*seed);

    let expected = expected(identity, &[&ether_type, packet].concat(), seed);
    let mut answer = Answer::zeroed();
    let ether_type = u16::from_be_bytes(ether_type).into();
    // SAFETY: `packet` is as long as said, and the function writes one answer, which has the layout that it expects.
    unsafe { makeway_dissect(packet.as_ptr(), packet.len() as u32, ether_type, identity as u32, seed, &mut answer) };
    assert_eq!(answer, expected, "{identity}");
}
