// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys read from headers against core's, and their hashes against SipHash-1-3 of the crate `siphasher`.

#[path = "../../../../bpf/native/dissected.rs"]
mod dissected;

use std::net::IpAddr;
use std::sync::LazyLock;

use bytemuck::{Pod, Zeroable, bytes_of};
use makeway_core::flow::Identity;
use makeway_gateway::bpf::weights::user_hash;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::Native;
use dissected::{Answer, expected};

/// `struct question` of `bpf/native/keys.c`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Question {
    seed: u64,
    len: u32,
    ether_type: u32,
    identity: u32,
    unused: u32,
    bytes: [u8; 256],
}

/// TCP, UDP, what has ports beside them, and extension headers, some of which are unknown to core.
const PROTOCOLS: [u8; 14] = [6, 17, 33, 132, 136, 1, 58, 51, 44, 60, 43, 0, 59, 50];

fn protocol() -> impl Strategy<Value = u8> {
    select(&PROTOCOLS[..])
}

/// A length field: that of the packet, if it is as long, none, or another.
fn length() -> impl Strategy<Value = u16> {
    prop_oneof![Just(0), 8u16..80, 180u16..240]
}

fn ipv4() -> impl Strategy<Value = Vec<u8>> {
    let words = prop_oneof![7 => 5u8..8, 1 => 0u8..16];
    // Flags and offset: whole, may not be fragmented, a fragment.
    let fragment =
        prop_oneof![2 => select(&[[0, 0], [0x40, 0], [0x80, 0]][..]), 1 => any::<[u8; 2]>()];
    let fields = (words, length(), fragment, protocol(), protocol(), 0u8..4);
    (fields, vec(any::<u8>(), 40)).prop_map(
        |((words, length, fragment, protocol, next, units), noise)| {
            let mut packet = vec![0x40 | words, 0];
            packet.extend(length.to_be_bytes());
            packet.extend([0, 7]);
            packet.extend(fragment);
            packet.extend([64, protocol]);
            packet.extend(&noise[..10]);
            packet.extend(vec![1; usize::from(words.saturating_sub(5)) * 4]);
            if protocol == 51 {
                packet.extend([next, units]);
                packet.extend(&noise[..6 + 4 * usize::from(units)]);
            }
            packet
        },
    )
}

fn ipv6() -> impl Strategy<Value = Vec<u8>> {
    let first = (length(), protocol(), any::<[u8; 32]>());
    // Each header's number of the next, its length field, and the fragment's offset and flag.
    let offset = prop_oneof![
        select(&[[0, 0], [0, 1], [0, 2], [0, 6], [0, 8]][..]),
        any::<[u8; 2]>()
    ];
    let extensions = vec((protocol(), 0u8..4, offset), 0..5);
    (first, extensions).prop_map(|((length, mut protocol, addresses), extensions)| {
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend(length.to_be_bytes());
        packet.extend([protocol, 64]);
        packet.extend(addresses);
        for (next, units, offset) in extensions {
            let size = match protocol {
                0 | 60 | 43 => 8 * usize::from(units) + 8,
                51 => 4 * usize::from(units) + 8,
                44 => 8,
                _ => break,
            };
            packet.extend([next, units]);
            packet.extend(offset);
            packet.extend(vec![9; size - 4]);
            protocol = next;
        }
        packet
    })
}

/// A frame after its addresses, from its Ethernet type on, whole or cut off.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let tag = (
        select(&[[0x81, 0], [0x88, 0xa8], [0x91, 0]][..]),
        any::<[u8; 2]>(),
    );
    let pppoe = select(&[[0, 0x21], [0, 0x57], [0xc0, 0x21]][..])
        .prop_map(|protocol| [&[0x88, 0x64, 0x11, 0, 0, 1, 0, 9][..], &protocol].concat());
    let announced = prop_oneof![
        4 => select(&[[8, 0], [0x86, 0xdd]][..]).prop_map(Vec::from),
        2 => pppoe,
        1 => any::<[u8; 2]>().prop_map(Vec::from),
    ];
    let packet = prop_oneof![
        4 => ipv4(),
        4 => ipv6(),
        1 => vec(any::<u8>(), 0..64),
    ];
    let parts = (vec(tag, 0..4), announced, packet, vec(any::<u8>(), 0..40));
    (parts, prop_oneof![3 => Just(256), 1 => 2usize..120]).prop_map(
        |((tags, announced, packet, payload), cut)| {
            let tags = tags.into_iter().flat_map(|(kind, tag)| [kind, tag]);
            let mut frame: Vec<u8> = tags.flatten().collect();
            frame.extend([announced, packet, payload].concat());
            frame.truncate(cut);
            frame
        },
    )
}

static NATIVE: LazyLock<Native> = LazyLock::new(|| Native::compile("keys", "keys.c", &[]));

/// A packet from `host` to itself, behind its Ethernet type: UDP with ports.
fn packet_of(host: IpAddr) -> (u32, Vec<u8>) {
    let (ether_type, header) = match host {
        IpAddr::V4(host) => {
            let octets = host.octets();
            let first: [u8; 12] = [0x45, 0, 0, 28, 0, 7, 0, 0, 64, 17, 0, 0];
            (0x0800, [&first[..], &octets, &octets].concat())
        }
        IpAddr::V6(host) => {
            let octets = host.octets();
            let first: [u8; 8] = [0x60, 0, 0, 0, 0, 8, 17, 64];
            (0x86dd, [&first[..], &octets, &octets].concat())
        }
    };
    (
        ether_type,
        [&header[..], &[4, 1, 19, 136, 0, 8, 0, 0]].concat(),
    )
}

fn host() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The loader writes a weight under the hash that the programs look it up by.
    #[test]
    fn the_hash_of_a_user_is_that_of_its_packets(hosts in vec(host(), 50), seed: u64) {
        const USERS: [Identity; 3] = [Identity::SrcHost, Identity::DstHost, Identity::HostPair];
        let each = || hosts.iter().flat_map(|host| USERS.map(|identity| (*host, identity)));
        let questions = each().map(|(host, identity)| {
            let (ether_type, packet) = packet_of(host);
            let mut bytes = [0; 256];
            bytes[..packet.len()].copy_from_slice(&packet);
            Question {
                seed,
                len: packet.len() as u32,
                ether_type,
                identity: identity as u32,
                unused: 0,
                bytes,
            }
        });
        let questions: Vec<u8> = questions.flat_map(|one| bytes_of(&one).to_vec()).collect();
        let answers: Vec<Answer> = NATIVE.run(questions);
        prop_assert_eq!(answers.len(), 150);
        for ((host, identity), answer) in each().zip(answers) {
            let hash = user_hash(seed, identity, host);
            prop_assert_eq!(answer.hash, u64::from(hash), "{} {}", identity, host);
        }
    }

    #[test]
    fn keys_are_cores(frames in vec(frame(), 200), seed: u64) {
        let each = || frames.iter().flat_map(|frame| Identity::ALL.map(|identity| (frame, identity)));
        let questions = each().zip(0..).map(|((frame, identity), n)| {
            let mut bytes = [0; 256];
            bytes[..frame.len() - 2].copy_from_slice(&frame[2..]);
            Question {
                seed: seed ^ n,
                len: frame.len() as u32 - 2,
                ether_type: u16::from_be_bytes([frame[0], frame[1]]).into(),
                identity: identity as u32,
                unused: 0,
                bytes,
            }
        });
        let questions: Vec<u8> = questions.flat_map(|one| bytes_of(&one).to_vec()).collect();
        let answers: Vec<Answer> = NATIVE.run(questions);
        prop_assert_eq!(answers.len(), 1000);
        for (((frame, identity), n), answer) in each().zip(0..).zip(answers) {
            prop_assert_eq!(answer, expected(identity, frame, seed ^ n), "{} {:02x?}", identity, frame);
        }
    }
}
