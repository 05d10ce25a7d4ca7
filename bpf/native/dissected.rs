// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer that dissected.h should give: core's dissection of the same frame, and SipHash-1-3 of the crate `siphasher`. Tests and fuzz targets
//! include this file.

use std::hash::Hasher;
use std::net::IpAddr;

use bytemuck::{Pod, Zeroable};
use makeway_core::flow::{FlowKey, Identity};
use siphasher::sip::SipHasher13;

/// `struct answer`: `struct key` of `bpf/dissect.h`, and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Answer {
    src: [u8; 16],
    dst: [u8; 16],
    sport: u32,
    dport: u32,
    protocol: u32,
    /// 4, 6, or 0 for what is not IP.
    family: u32,
    pub hash: u64,
}

/// Answer that core gives for a frame from its Ethernet type on.
pub fn expected(identity: Identity, frame: &[u8], seed: u64) -> Answer {
    let key = FlowKey::from_ethernet(identity, &[&[2; 12], frame].concat());
    let mut answer = Answer {
        src: octets(key.src()),
        dst: octets(key.dst()),
        sport: key.sport().into(),
        dport: key.dport().into(),
        protocol: key.protocol().into(),
        family: key.src().map_or(0, |src| if src.is_ipv4() { 4 } else { 6 }),
        hash: 0,
    };
    let mut hasher = SipHasher13::new_with_keys(seed, 0);
    hasher.write(&answer.src);
    hasher.write(&answer.dst);
    hasher.write(&key.sport().to_le_bytes());
    hasher.write(&key.dport().to_le_bytes());
    hasher.write(&[key.protocol(), answer.family as u8]);
    answer.hash = u64::from(hasher.finish() as u32);
    answer
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
