// SPDX-License-Identifier: MIT OR Apache-2.0
use proptest::prelude::*;

use super::*;

/// An IPv4 header that tells `length`, and no more.
fn ipv4(length: u16) -> Vec<u8> {
    let mut ip = vec![0x45, 0];
    ip.extend(length.to_be_bytes());
    ip.resize(20, 0);
    ip
}

fn ipv6(payload: u16) -> Vec<u8> {
    let mut ip = vec![0x60, 0, 0, 0];
    ip.extend(payload.to_be_bytes());
    ip.resize(40, 0);
    ip
}

/// A little-endian pcap: packets by time (seconds, fraction), data, original length.
fn pcap_file(magic: u32, linktype: u32, packets: &[(u32, u32, Vec<u8>, u32)]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [magic, 2 | 4 << 16, 0, 0, 65_535, linktype] {
        file.extend(word.to_le_bytes());
    }
    for (s, fraction, data, original) in packets {
        for word in [*s, *fraction, data.len() as u32, *original] {
            file.extend(word.to_le_bytes());
        }
        file.extend(data);
    }
    file
}

/// A pcapng block of `body`, which has whole words.
fn block(kind: u32, body: &[u8], big: bool) -> Vec<u8> {
    let word = |n: u32| {
        if big {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }
    };
    let len = word(body.len() as u32 + 12);
    [&word(kind)[..], &len, body, &len].concat()
}

/// A pcapng of one Ethernet interface with this `if_tsresol`; packets by units of time.
fn pcapng_file(tsresol: u8, big: bool, packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let word = |n: u32| {
        if big {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }
    };
    let half = |n: u16| {
        if big {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }
    };
    let head = [&word(0x1a2b_3c4d)[..], &half(1), &half(0), &[0xff; 8]].concat();
    let mut file = block(0x0a0d_0d0a, &head, big);
    let option = [&half(9)[..], &half(1), &[tsresol, 0, 0, 0], &[0; 4]].concat();
    let interface = [&half(1)[..], &half(0), &word(0), &option].concat();
    file.extend(block(1, &interface, big));
    for (at, data) in packets {
        let mut body = Vec::new();
        let len = data.len() as u32;
        for n in [0, (at >> 32) as u32, *at as u32, len, len] {
            body.extend(word(n));
        }
        body.extend(data);
        body.resize(body.len().next_multiple_of(4), 0);
        file.extend(block(6, &body, big));
    }
    file
}

fn ethernet(ethertype: u16, payload: Vec<u8>) -> Vec<u8> {
    [vec![0; 12], ethertype.to_be_bytes().to_vec(), payload].concat()
}

fn lengths(packets: &[Captured]) -> Vec<(u64, u64)> {
    let pair = |p: &Captured| (p.at.as_nanos(), p.bytes.get());
    packets.iter().map(pair).collect()
}

#[test]
fn both_resolutions_of_pcap_give_the_same_times() {
    let packets = |unit: u32| {
        [
            (100, 999_999 * unit, ipv4(1500), 1500),
            (101, unit, ipv4(52), 52),
        ]
    };
    for (magic, unit) in [(0xa1b2_c3d4, 1), (0xa1b2_3c4d, 1000)] {
        let file = pcap_file(magic, 101, &packets(unit));
        assert_eq!(lengths(&parse(&file).unwrap()), [(0, 1500), (2000, 52)]);
    }
}

#[test]
fn the_length_is_the_ip_headers_whatever_the_link_adds() {
    // An acknowledgement of 40 B is padded to 60 on Ethernet; a tag is no part of it; ARP is none of ours.
    let mut padded = ethernet(0x0800, ipv4(40));
    padded.resize(60, 0);
    let tagged = ethernet(0x8100, [vec![0, 7, 0x86, 0xdd], ipv6(1000)].concat());
    let arp = ethernet(0x0806, vec![0; 28]);
    // An offload's packet: cut to its headers, and too long for its own field.
    let large = ethernet(0x0800, ipv4(0));
    let file = pcap_file(
        0xa1b2_c3d4,
        1,
        &[
            (1, 0, padded, 60),
            (1, 0, arp, 42),
            (2, 0, tagged, 1058),
            (3, 0, large, 64_014),
        ],
    );
    let all: Vec<u64> = parse(&file)
        .unwrap()
        .iter()
        .map(|p| p.bytes.get())
        .collect();
    assert_eq!(all, [40, 1040, 64_000]);
}

#[test]
fn every_link_type_of_tcpdump_is_read() {
    let cooked = |at: usize, len: usize| {
        let mut header = vec![0; len];
        header[at..at + 2].copy_from_slice(&[8, 0]);
        [header, ipv4(77)].concat()
    };
    let framed = [
        (0, [vec![2, 0, 0, 0], ipv4(77)].concat()),
        (1, ethernet(0x0800, ipv4(77))),
        (101, ipv4(77)),
        (228, ipv4(77)),
        (113, cooked(14, 16)),
        (276, cooked(0, 20)),
    ];
    for (linktype, data) in framed {
        let len = data.len() as u32;
        let file = pcap_file(0xa1b2_c3d4, linktype, &[(5, 0, data, len)]);
        assert_eq!(lengths(&parse(&file).unwrap()), [(0, 77)], "{linktype}");
    }
}

#[test]
fn pcapng_is_read_in_both_orders_and_any_resolution() {
    for big in [false, true] {
        for (tsresol, second) in [(6, 1_000_000), (9, 1_000_000_000), (0x8a, 1024), (3, 1000)] {
            let packet = || ethernet(0x0800, ipv4(300));
            // The later one comes first.
            let file = pcapng_file(
                tsresol,
                big,
                &[(9 * second, packet()), (8 * second, packet())],
            );
            let read = parse(&file).unwrap();
            assert_eq!(
                lengths(&read),
                [(0, 300), (1_000_000_000, 300)],
                "{tsresol:x}"
            );
        }
    }
}

#[test]
fn the_last_packet_lasts_as_long_as_the_others() {
    let at = |ms| Captured {
        at: Duration::from_millis(ms),
        bytes: Bytes::new(100),
    };
    assert_eq!(period(&[at(0), at(10), at(40)]), Duration::from_millis(60));
    assert_eq!(period(&[at(0)]), Duration::from_millis(1));
}

#[test]
fn headers_that_were_cut_off_are_no_packets() {
    let whole = [ethernet(0x0800, ipv4(300)), ethernet(0x86dd, ipv6(260))];
    for (data, needed) in whole.into_iter().zip([14 + 4, 14 + 6]) {
        for captured in 0..data.len() {
            let packet = (1, 0, data[..captured].to_vec(), 314);
            let read = parse(&pcap_file(0xa1b2_c3d4, 1, &[packet]));
            assert_eq!(read.is_ok(), captured >= needed, "{captured}");
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let good = pcap_file(
        0xa1b2_c3d4,
        101,
        &[(1, 0, ipv4(60), 60), (2, 0, ipv4(60), 60)],
    );
    let arp = pcap_file(0xa1b2_c3d4, 1, &[(1, 0, ethernet(0x0806, vec![0; 28]), 42)]);
    let long = pcap_file(0xa1b2_c3d4, 101, &[(1, 0, ipv4(0), 2_000_000)]);
    let years = pcap_file(
        0xa1b2_c3d4,
        101,
        &[(1, 0, ipv4(60), 60), (u32::MAX, 0, ipv4(60), 60)],
    );
    let bluetooth = pcap_file(0xa1b2_c3d4, 201, &[(1, 0, vec![0; 9], 9)]);
    let ng = pcapng_file(6, false, &[(1, ethernet(0x0800, ipv4(60)))]);
    let fine = pcapng_file(100, false, &[]);
    let other = [ng.clone(), block(6, &[&[9][..], &[0; 19]].concat(), false)].concat();
    for (file, said) in [
        (b"time_ms,kind,bytes\n".to_vec(), "no capture"),
        (Vec::new(), "no capture"),
        (
            good[..good.len() - 1].to_vec(),
            "after the first 1 (`tcpdump",
        ),
        (good[..45].to_vec(), "after the first 0 (`tcpdump"),
        (ng[..ng.len() - 4].to_vec(), "cut off"),
        (arp, "no IP packet among its 1 records"),
        (long, "packet 1 is said to be 2000000 B"),
        (years, "days lie between"),
        (bluetooth, "link type 201"),
        (fine, "resolution of time 0x64"),
        (other, "of interface 9,"),
    ] {
        let error = parse(&file).unwrap_err();
        assert!(error.contains(said), "{said}: {error}");
    }
}

proptest! {
    /// For any bytes, reading ends, and its result can be played.
    #[test]
    fn no_file_panics(
        ng in any::<bool>(),
        big in any::<bool>(),
        tsresol in any::<u8>(),
        times in proptest::collection::vec(any::<u32>(), 0..6),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..12),
        keep in any::<proptest::sample::Index>(),
        cut in any::<bool>(),
        captured in 0..60_usize,
    ) {
        let mut data = ethernet(0x0800, ipv4(300));
        data.truncate(captured);
        let mut file = match ng {
            true => {
                let packets: Vec<_> = times.iter().map(|t| (u64::from(*t), data.clone())).collect();
                pcapng_file(tsresol, big, &packets)
            }
            false => {
                let packets: Vec<_> = times.iter().map(|t| (*t, 0, data.clone(), 314)).collect();
                pcap_file(0xa1b2_c3d4, 1, &packets)
            }
        };
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if cut {
            file.truncate(keep.index(file.len()));
        }
        if let Ok(packets) = parse(&file) {
            prop_assert!(!packets.is_empty() && packets[0].at == Duration::ZERO);
            prop_assert!(packets.is_sorted_by_key(|p| p.at));
            prop_assert!(period(&packets) > Duration::ZERO);
        }
    }

    #[test]
    fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), magic in 0..4_usize) {
        let magics = [0xa1b2_c3d4_u32, 0x4d3c_b2a1, 0x0a0d_0d0a, 0xa1b2_cd34];
        bytes.splice(0..bytes.len().min(4), magics[magic].to_le_bytes());
        let _ = parse(&bytes);
    }
}

#[test]
fn records_come_in_the_order_of_the_file_with_their_headers() {
    let packets = [
        (1_500, ethernet(0x0800, ipv4(300))),
        (1_000, ethernet(0x0800, ipv4(40))),
    ];
    let file = pcapng_file(3, false, &packets);
    let mut seen = Vec::new();
    let records = read(&file, |record| {
        seen.push((record.ns, record.interface, record.length, record.ip[0]));
        Ok(())
    });
    assert_eq!(records, Ok(2));
    let expected = [(1_500_000_000, 0, 300, 0x45), (1_000_000_000, 0, 40, 0x45)];
    assert_eq!(seen, expected);
    let refused = read(&file, |_| Err("enough".into()));
    assert_eq!(refused, Err("packet 1: enough".into()));
}

#[test]
fn a_block_shorter_than_its_frame_is_refused() {
    for big in [false, true] {
        let word = |n: u32| {
            if big {
                n.to_be_bytes()
            } else {
                n.to_le_bytes()
            }
        };
        let mut file = [
            SECTION,
            word(28),
            word(0x1a2b_3c4d),
            word(0),
            [0xff; 4],
            [0xff; 4],
            word(28),
        ]
        .concat();
        // Process information, of which the parser subtracts 12.
        file.extend([word(0x8000_0001), word(11), [0; 4], [0; 4], [0; 4]].concat());
        let error = parse(&file).unwrap_err();
        assert_eq!(
            error,
            "its block at byte 28 has a length of 11: 12 is the least"
        );
    }
}
