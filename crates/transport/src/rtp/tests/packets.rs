// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames in the packets of the application's packetiser.

use makeway_core::send::{FrameError, FrameId, UNREAD, sbpn1::Sbpn1};
use rtcp_types::{Compound, Packet};

use super::*;

fn sending() -> Sending<Fixed, Listening, Sbpn1> {
    // 1200 B take 10 ms.
    let fixed = Fixed::new(Rate::from_bps(960_000));
    let policy = Sbpn1::default();
    Sending::new(sending_config(), fixed, Listening::default(), policy).unwrap()
}

/// Frame of the video, with 100 ms from `ms` on.
fn frame(ms: u64, lens: &[usize], depends_on: &[FrameId]) -> PacketFrame {
    PacketFrame {
        stream: 1,
        rtp_timestamp: Some(0xffff_ff00_u32.wrapping_add(90 * ms as u32)),
        capture: Some(at_ms(ms)),
        class: None,
        deadline: at_ms(ms + 100),
        packets: lens
            .iter()
            .map(|len| vec![*len as u8; *len].into())
            .collect(),
        marker: true,
        depends_on: depends_on.to_vec(),
    }
}

#[test]
fn packets_leave_as_the_application_made_them() {
    let mut sending = sending();
    let lens = [7, 1200, 300];
    sending
        .send_packets(at_ms(30), &frame(10, &lens, &[]))
        .unwrap();
    let unmarked = PacketFrame {
        marker: false,
        ..frame(20, &[50], &[FrameId(0)])
    };
    sending.send_packets(at_ms(30), &unmarked).unwrap();
    let mut out = Vec::new();
    let mut packets = Vec::new();
    for ms in 30..60 {
        while sending.poll_transmit(at_ms(ms), &mut out).is_some() {
            packets.push(out.clone());
        }
    }
    let read = packets
        .iter()
        .map(|packet| RtpPacket::parse(packet).unwrap());
    let read: Vec<_> = read
        .map(|p| {
            (
                p.payload_len(),
                p.timestamp(),
                p.marker_bit(),
                p.payload()[0],
            )
        })
        .collect();
    let first = 0xffff_ff00_u32.wrapping_add(900);
    let second = 0xffff_ff00_u32.wrapping_add(1800);
    assert_eq!(
        read,
        [
            (7, first, false, 7),
            (1200, first, false, 176),
            (300, first, true, 44),
            (50, second, false, 50),
        ]
    );
    assert_eq!(sending.stats().streams[1].packets, 4);
    let frames = std::iter::from_fn(|| sending.poll_event());
    let frames: Vec<_> = frames
        .filter_map(|event| match event {
            Event::Frame(id, Outcome::Sent { late: false, .. }) => Some(id.0),
            _ => None,
        })
        .collect();
    assert_eq!(frames, [0, 1]);
}

/// Twelve packets of 10 ms end after 110; the frame after them needs them.
#[test]
fn a_frame_that_is_refused_takes_its_descendants_with_it() {
    let mut sending = sending();
    let (first, _) = sending
        .send_packets(at_ms(0), &frame(0, &[1200; 2], &[]))
        .unwrap();
    let (second, _) = sending
        .send_packets(at_ms(0), &frame(0, &[1200; 12], &[first]))
        .unwrap();
    let small = PacketFrame {
        class: Some(7),
        ..frame(1, &[100], &[second])
    };
    sending.send_packets(at_ms(1), &small).unwrap();
    let outcomes = sending.stats().streams[1].outcomes;
    assert_eq!(
        (outcomes.expired, outcomes.orphaned),
        (12, 1),
        "all classes of a stream"
    );
    assert_eq!(sending.backlog().packets, 2);
}

/// The time stamp that a sender report gives for its instant is that of the application's clock.
#[test]
fn sender_reports_follow_the_applications_time_stamps() {
    let mut sending = sending();
    let mut out = Vec::new();
    sending
        .send_packets(at_ms(30), &frame(10, &[100], &[]))
        .unwrap();
    sending.poll_transmit(at_ms(30), &mut out).unwrap();
    sending.close();
    let now = at_ms(1010);
    sending.poll_transmit(now, &mut out).unwrap();
    let reports = Compound::parse(&out)
        .unwrap()
        .filter_map(|packet| match packet {
            Ok(Packet::Sr(report)) => Some((report.ssrc(), report.rtp_timestamp())),
            _ => None,
        });
    let told: Vec<u32> = reports
        .filter(|(ssrc, _)| *ssrc == VIDEO.ssrc)
        .map(|r| r.1)
        .collect();
    assert_eq!(told, [0xffff_ff00_u32.wrapping_add(90 * 1010)]);
}

#[test]
fn a_frame_of_packets_that_cannot_be_is_an_error() {
    let mut sending = sending();
    let mut error = |change: fn(&mut PacketFrame)| {
        let mut wrong = frame(0, &[100], &[]);
        change(&mut wrong);
        sending.send_packets(at_ms(0), &wrong).unwrap_err()
    };
    let stream = PacketFrameError::Stream {
        stream: 2,
        streams: 2,
    };
    assert_eq!(error(|f| f.stream = 2), stream);
    let class = PacketFrameError::Class {
        class: 0,
        stream: 1,
        of: 0,
    };
    assert_eq!(error(|f| f.class = Some(0)), class);
    assert_eq!(error(|f| f.packets.clear()), FrameError::Empty.into());
    let unknown = FrameError::Unknown(FrameId(3));
    assert_eq!(error(|f| f.depends_on = vec![FrameId(3)]), unknown.into());
    assert_eq!(sending.backlog().packets, 0);
    // A class belongs to the stream that had it first.
    let video = PacketFrame {
        class: Some(5),
        ..frame(0, &[100], &[])
    };
    sending.send_packets(at_ms(0), &video).unwrap();
    let audio = PacketFrame { stream: 0, ..video };
    let of = PacketFrameError::Class {
        class: 5,
        stream: 0,
        of: 1,
    };
    assert_eq!(sending.send_packets(at_ms(0), &audio), Err(of));
    assert_eq!(sending.largest(), 1400);
    sending.follow_mtu(1200);
    assert_eq!(sending.largest(), 1200 - 32);
}

/// More of them than the events that a sender keeps for an application that does not read them.
#[test]
fn each_packet_of_a_refused_frame_is_logged_with_its_outcome_however_many_there_are() {
    let mut config = sending_config();
    config.queue.packets = 4;
    let fixed = Fixed::new(Rate::from_bps(960_000));
    let policy = Sbpn1::default();
    let mut sending = Sending::new(config, fixed, Listening::default(), policy).unwrap();
    sending.start_recording();
    let lens = [1; 4 + UNREAD + 10];
    let taken = sending.send_packets(at_ms(0), &frame(0, &lens, &[]));
    assert_eq!(taken.unwrap().1.0, 0);
    sending.record_end(at_ms(1));
    let records = std::iter::from_fn(|| sending.poll_record(at_ms(1)));
    let ended: Vec<_> = records
        .filter_map(|record| match record {
            Record::Packet(_, packet, fate) => Some((packet.id.0, fate.name())),
            Record::State(..) => None,
        })
        .collect();
    let all: Vec<_> = (0..lens.len() as u64).map(|n| (n, "too-large")).collect();
    assert_eq!(ended, all, "none waits");
}
