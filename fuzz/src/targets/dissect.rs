// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any frame: the kernel's dissector and core's read the same key, and its hash is SipHash-1-3 of it.
//!
//! The first two bytes are the identity and the seed; the others follow the addresses of a frame, from its Ethernet type on.

use std::hash::Hasher;
use std::net::IpAddr;

use makeway_core::flow::{FlowKey, Identity};
use siphasher::sip::SipHasher13;

/// `struct answer` of `native/dissect.c`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
struct Answer {
    src: [u8; 16],
    dst: [u8; 16],
    sport: u32,
    dport: u32,
    protocol: u32,
    /// 4, 6, or 0 for what is not IP.
    family: u32,
    hash: u64,
}

unsafe extern "C" {
    fn makeway_dissect(packet: *const u8, len: u32, ether_type: u32, identity: u32, seed: u64, answer: *mut Answer);
}

/// Behind more VLAN tags the kernel's sees no IP; core's sees it behind any number.
const TAGS: usize = 8;
/// Of a packet: the kernel's looks behind more extension headers than fit in there.
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

    let key = FlowKey::from_ethernet(identity, &[&[2; 12][..], &ether_type, packet].concat());
    let mut expected = Answer {
        src: octets(key.src()),
        dst: octets(key.dst()),
        sport: key.sport().into(),
        dport: key.dport().into(),
        protocol: key.protocol().into(),
        family: key.src().map_or(0, |src| if src.is_ipv4() { 4 } else { 6 }),
        hash: 0,
    };
    let mut hasher = SipHasher13::new_with_keys(seed, 0);
    hasher.write(&expected.src);
    hasher.write(&expected.dst);
    hasher.write(&key.sport().to_le_bytes());
    hasher.write(&key.dport().to_le_bytes());
    hasher.write(&[key.protocol(), expected.family as u8]);
    expected.hash = u64::from(hasher.finish() as u32);

    let mut answer = Answer::default();
    let ether_type = u16::from_be_bytes(ether_type).into();
    // SAFETY: `packet` is as long as said, and the function writes one answer, which has the layout that it expects.
    unsafe { makeway_dissect(packet.as_ptr(), packet.len() as u32, ether_type, identity as u32, seed, &mut answer) };
    assert_eq!(answer, expected, "{identity}");
}

fn octets(address: Option<IpAddr>) -> [u8; 16] {
    let mut octets = [0; 16];
    match address {
        Some(IpAddr::V4(address)) => octets[..4].copy_from_slice(&address.octets()),
        Some(IpAddr::V6(address)) => octets = address.octets(),
        None => {}
    }
    octets
}
