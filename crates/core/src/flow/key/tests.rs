// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use etherparse::{IpFragOffset, Ipv4Header, Ipv6FragmentHeader, Ipv6Header};
use proptest::prelude::*;

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 0, 0, 2];

fn ipv4(protocol: u8, offset: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    let mut header =
        Ipv4Header::new(payload.len() as u16, 64, IpNumber(protocol), A, B).expect("short payload");
    header.fragment_offset = IpFragOffset::try_new(offset).expect("13 bits");
    header.more_fragments = more;
    let mut packet = header.to_bytes().to_vec();
    packet.extend_from_slice(payload);
    packet
}

/// IPv6 with `extensions` before `payload`; `next` is the first header's number.
fn ipv6(next: u8, extensions: &[u8], payload: &[u8]) -> Vec<u8> {
    let header = Ipv6Header {
        payload_length: (extensions.len() + payload.len()) as u16,
        next_header: IpNumber(next),
        source: [0xfd; 16],
        destination: [0xfe; 16],
        ..Default::default()
    };
    [&header.to_bytes()[..], extensions, payload].concat()
}

fn fragment(next: u8, offset: u16, more: bool) -> Vec<u8> {
    let offset = IpFragOffset::try_new(offset).expect("13 bits");
    Ipv6FragmentHeader::new(IpNumber(next), offset, more, 7)
        .to_bytes()
        .to_vec()
}

/// 5004 > 4000 and some more.
const UDP: [u8; 12] = [0x13, 0x8c, 0x0f, 0xa0, 0, 12, 0, 0, 1, 2, 3, 4];

fn five(packet: &[u8]) -> FlowKey {
    FlowKey::from_ip(Identity::FiveTuple, packet)
}

#[test]
fn a_udp_packet_gives_its_five_tuple() {
    let key = five(&ipv4(17, 0, false, &UDP));
    assert_eq!(key.to_string(), "udp 10.0.0.1:5004 > 10.0.0.2:4000");
    assert_eq!(
        key,
        FlowKey::new(Identity::FiveTuple, A.into(), B.into(), 17, 5004, 4000)
    );
}

#[test]
fn each_identity_keeps_its_fields_only() {
    let packet = ipv4(17, 0, false, &UDP);
    let shown = Identity::ALL.map(|identity| FlowKey::from_ip(identity, &packet).to_string());
    assert_eq!(
        shown,
        [
            "udp 10.0.0.1:5004 > 10.0.0.2:4000",
            "udp 10.0.0.1:5004 > any",
            "10.0.0.1 > any",
            "any > 10.0.0.2",
            "10.0.0.1 > 10.0.0.2",
        ]
    );
}

#[test]
fn all_fragments_of_an_ipv4_datagram_share_one_key() {
    let first = five(&ipv4(17, 0, true, &UDP));
    let middle = five(&ipv4(17, 185, true, &[0xff; 40]));
    let last = five(&ipv4(17, 370, false, &[7]));
    assert_eq!(first.to_string(), "udp 10.0.0.1 > 10.0.0.2");
    assert_eq!([first, first], [middle, last]);
}

#[test]
fn all_fragments_of_an_ipv6_datagram_share_one_key_behind_other_headers() {
    // Destination options follow the fragment header: only the first fragment holds them.
    let options = [17, 0, 1, 4, 0, 0, 0, 0];
    let first = [&fragment(60, 0, true)[..], &options].concat();
    let first = five(&ipv6(44, &first, &UDP));
    // A later fragment whose data happens to look like such a header.
    let later = five(&ipv6(
        44,
        &fragment(60, 100, false),
        &[6, 0, 9, 9, 9, 9, 9, 9, 1, 2, 3, 4],
    ));
    assert_eq!(first, later);
    assert_eq!(first.sport(), 0);
    assert_eq!(first.protocol(), 60);
}

#[test]
fn ipv6_ports_are_found_behind_extension_headers() {
    let hop_by_hop = [60, 0, 1, 4, 0, 0, 0, 0];
    let options = [17, 0, 1, 4, 0, 0, 0, 0];
    let key = five(&ipv6(0, &[hop_by_hop, options].concat(), &UDP));
    assert_eq!((key.protocol(), key.sport(), key.dport()), (17, 5004, 4000));
    // An atomic fragment is a whole datagram (RFC 6946).
    let key = five(&ipv6(44, &fragment(17, 0, false), &UDP));
    assert_eq!((key.protocol(), key.sport(), key.dport()), (17, 5004, 4000));
}

#[test]
fn a_packet_cut_inside_its_transport_header_keeps_its_ports() {
    let mut tcp = ipv4(6, 0, false, &[0x01, 0xbb, 0x80, 0x00, 9, 9, 9, 9, 9, 9]);
    tcp[3] = 200; // The length field says more than is there.
    assert_eq!(five(&tcp).to_string(), "tcp 10.0.0.1:443 > 10.0.0.2:32768");
    assert_eq!(five(&tcp[..22]).to_string(), "tcp 10.0.0.1:443 > 10.0.0.2");
}

#[test]
fn vlan_stacks_and_pppoe_are_looked_through() {
    let ip = ipv4(17, 0, false, &UDP);
    let plain = five(&ip);
    let macs = [2u8; 12];
    let frame = |middle: &[u8]| {
        FlowKey::from_ethernet(Identity::FiveTuple, &[&macs[..], middle, &ip].concat())
    };
    assert_eq!(frame(&[0x08, 0x00]), plain);
    assert_eq!(frame(&[0x81, 0x00, 0, 5, 0x08, 0x00]), plain);
    let many = [
        0x88, 0xa8, 0, 1, 0x81, 0x00, 0, 2, 0x81, 0x00, 0, 3, 0x81, 0x00, 0, 4, 0x08, 0x00,
    ];
    assert_eq!(frame(&many), plain);
    let pppoe = [
        0x81, 0x00, 0, 7, 0x88, 0x64, 0x11, 0, 0, 1, 0, 42, 0x00, 0x21,
    ];
    assert_eq!(frame(&pppoe), plain);
}

#[test]
fn what_is_not_ip_shares_one_key() {
    let arp = [&[2u8; 12][..], &[0x08, 0x06], &[0; 28]].concat();
    let key = FlowKey::from_ethernet(Identity::FiveTuple, &arp);
    assert_eq!(key, FlowKey::OTHER);
    assert_eq!(key.to_string(), "not IP");
    assert_eq!(five(&[]), FlowKey::OTHER);
    assert_eq!(five(&[0x45]), FlowKey::OTHER);
}

#[test]
fn icmp_and_unknown_protocols_have_no_ports() {
    assert_eq!(
        five(&ipv4(1, 0, false, &UDP)).to_string(),
        "icmp 10.0.0.1 > 10.0.0.2"
    );
    assert_eq!(
        five(&ipv4(200, 0, false, &UDP)).to_string(),
        "proto-200 10.0.0.1 > 10.0.0.2"
    );
}

proptest! {
    #[test]
    fn any_bytes_give_a_key(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
        for identity in Identity::ALL {
            let _ = FlowKey::from_ip(identity, &bytes).to_string();
            let _ = FlowKey::from_ethernet(identity, &bytes).to_string();
        }
    }

    #[test]
    fn bytes_behind_the_first_64_do_not_change_the_key(
        payload in proptest::collection::vec(any::<u8>(), 8..200),
        protocol: u8,
    ) {
        let packet = ipv4(protocol, 0, false, &payload);
        // AH (51) alone may be longer than that.
        prop_assume!(protocol != 51);
        prop_assert_eq!(five(&packet), five(&packet[..packet.len().min(64)]));
    }
}
