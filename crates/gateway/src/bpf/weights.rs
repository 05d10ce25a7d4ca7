// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weights of users as the programs look them up: by the hash of the user's key.

use std::hash::Hasher;
use std::net::IpAddr;

use makeway_core::flow::{FlowKey, Identity};
use siphasher::sip::SipHasher13;

/// Hash of the key that packets of the user at `address` have under `seed`: `key_hash` of `bpf/dissect.h`.
pub fn user_hash(seed: u64, users: Identity, address: IpAddr) -> u32 {
    let key = FlowKey::new(users, address, address, 0, 0, 0);
    let mut hasher = SipHasher13::new_with_keys(seed, 0);
    hasher.write(&octets(key.src()));
    hasher.write(&octets(key.dst()));
    hasher.write(&key.sport().to_le_bytes());
    hasher.write(&key.dport().to_le_bytes());
    let family = match address {
        IpAddr::V4(_) => 4,
        IpAddr::V6(_) => 6,
    };
    hasher.write(&[key.protocol(), family]);
    // The program has the lower half.
    hasher.finish() as u32
}

/// As they lie in a packet, and zeros behind those of IPv4.
fn octets(address: Option<IpAddr>) -> [u8; 16] {
    let mut octets = [0; 16];
    match address {
        Some(IpAddr::V4(address)) => octets[..4].copy_from_slice(&address.octets()),
        Some(IpAddr::V6(address)) => octets = address.octets(),
        None => {}
    }
    octets
}
