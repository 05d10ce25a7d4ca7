// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes are a packet that autorate's tap sees, a packet of media, or reports of its receiver, or none of these; each part that is read
//! lies in them. Any datagrams of two connections give samples of the calls that are followed, with delays that clocks can show.
//!
//! Each datagram has a length byte, one with its connection, its direction and the time since the last, and its bytes.

use std::net::IpAddr;

use makeway_core::units::{Duration, Instant};
use makeway_gateway::autorate::calls::Calls;
use makeway_gateway::autorate::packet::{self, Connection, Seen};
use makeway_gateway::autorate::rtp::{self, Report};

/// Calls that are followed at a time.
const PLACES: usize = 2;

pub fn run(input: &[u8]) {
    read(input);
    follow(input);
}

fn read(input: &[u8]) {
    for is_outgoing in [true, false] {
        if let Some(Seen::Udp { payload, .. }) = packet::parse(input, is_outgoing) {
            // Behind the headers of IPv4 and UDP at least.
            assert!(payload.len() + 28 <= input.len());
        }
    }
    if let Some(media) = rtp::packet(input) {
        assert!(input.len() >= 12 && media.elements[0].is_none());
    }
    let reports: Vec<_> = rtp::reports(input).collect();
    assert!(reports.len() * 12 <= input.len());
    for report in reports {
        match report {
            Report::Twcc { body, .. } => read_twcc(body),
            Report::Ccfb { blocks, stamp } => read_blocks(blocks, stamp),
        }
    }
    read_twcc(input);
    read_blocks(input, u32::MAX);
}

fn read_twcc(body: &[u8]) {
    let Some(arrivals) = rtp::twcc(body) else {
        return;
    };
    // Two bytes can stand for 8191 packets; each that arrived has a byte of its own.
    let arrived = arrivals.at.iter().flatten().count();
    assert!(arrivals.at.len() <= 2048 && arrived + 8 <= body.len());
}

fn read_blocks(blocks: &[u8], stamp: u32) {
    let bytes = rtp::blocks(blocks, stamp).map(|(_, arrivals)| 8 + 2 * arrivals.at.len());
    assert!(bytes.sum::<usize>() <= blocks.len());
}

fn follow(input: &[u8]) {
    let connections = [2u8, 3].map(|network| Connection {
        remote: (IpAddr::from([192, 0, network, 9]), 5004),
        local: (IpAddr::from([10, 0, 0, 1]), 5004),
    });
    let mut calls = Calls::new(PLACES);
    let (mut now, mut samples) = (Instant::from_nanos(1_000_000_000), 0);
    let mut rest = input;
    while let [len, how, after @ ..] = rest {
        now += Duration::from_millis(u64::from(how & 63));
        let (datagram, after) = after.split_at(usize::from(*len).min(after.len()));
        rest = after;
        let connection = connections[usize::from((how >> 6) & 1)];
        match how >> 7 {
            0 => calls.departed(now, connection, datagram),
            _ => calls.arrived(now, connection, datagram),
        }
        calls.tick(
            now,
            |sample| {
                samples += 1;
                assert!(usize::from(sample.path) < PLACES && sample.voice.is_some());
                let [Some(up), None] = sample.one_way else {
                    panic!("{sample:?}");
                };
                // An hour, up to ten seconds more or less, and the drift of two clocks.
                assert!((3500.0..3700.0).contains(&up.as_secs_f64()), "{sample:?}");
                assert_eq!(sample.both, None);
            },
            |place| assert!(usize::from(place) < PLACES),
        );
        assert!(calls.count() <= PLACES);
        assert_eq!(calls.samples(), samples);
    }
}
