// SPDX-License-Identifier: MIT OR Apache-2.0
//! Retransmission (RFC 4588) in simulated time.

use makeway_core::send::sbpn1::Sbpn1;
use makeway_core::send::{DatagramId, again};
use makeway_core::units::Bytes as Size;

use super::*;

const RTX: Rtx = Rtx {
    ssrc: 0x0505_0505,
    payload_type: 97,
    media_ssrc: VIDEO.ssrc,
    media_payload_type: 96,
};

fn config(bytes: u64) -> SendingConfig {
    SendingConfig {
        rtx: RtxConfig {
            streams: vec![RTX],
            bytes: Size::new(bytes),
        },
        ..sending_config()
    }
}

/// 1000 B take 8 ms; no report says how far the receiver is.
fn sending(bytes: u64) -> Sending<Fixed, Listening, Sbpn1> {
    let fixed = Fixed::new(Rate::from_bps(1_000_000));
    let policy = Sbpn1::default();
    Sending::new(config(bytes), fixed, Listening::default(), policy).unwrap()
}

fn receiving() -> Receiving {
    Receiving::new(ReceivingConfig {
        rtx: vec![RTX],
        ..receiving_config(FeedbackKind::Twcc)
    })
}

/// One packet of video, of 1000 B, each of them `number`.
fn video(sending: &mut Sending<Fixed, Listening, Sbpn1>, ms: u64, number: u8) -> DatagramId {
    let frame = Frame {
        stream: 1,
        deadline: at_ms(ms + 100),
        payload: Bytes::from(vec![number; 1000]),
    };
    sending.send(at_ms(ms), &frame).unwrap().0
}

fn transmit(sending: &mut Sending<Fixed, Listening, Sbpn1>, ms: u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    sending.poll_transmit(at_ms(ms), &mut out)?;
    Some(out)
}

/// RFC 4585 §6.2.1, from the receiver with the SSRC 5.
fn nack(media: u32, numbers: &[u16]) -> Vec<u8> {
    let mut bytes = vec![0x81, 205, 0, 2 + numbers.len() as u8];
    bytes.extend(5_u32.to_be_bytes());
    bytes.extend(media.to_be_bytes());
    for number in numbers {
        bytes.extend(number.to_be_bytes());
        bytes.extend([0, 0]);
    }
    bytes
}

fn number(packet: &[u8]) -> u16 {
    RtpPacket::parse(packet).unwrap().sequence_number()
}

/// Ten packets, of which the fourth is lost, until 60 ms later.
#[test]
fn a_lost_packet_is_sent_again_once_it_is_asked_for_and_comes_under_its_own_number() {
    let (mut sending, mut receiving) = (sending(1 << 20), receiving());
    let mut given = Vec::new();
    let mut originals = Vec::new();
    let mut out = Vec::new();
    for ms in 0..160 {
        if ms % 10 == 0 && ms < 100 {
            video(&mut sending, ms, ms as u8 / 10);
        }
        while let Some(datagram) = transmit(&mut sending, ms) {
            originals.push(datagram.clone());
            if originals.len() != 4
                && let Some((received, packet)) = receiving.handle(at_ms(ms), &datagram, 0)
            {
                assert_eq!((received.ssrc, packet.ssrc()), (VIDEO.ssrc, VIDEO.ssrc));
                assert_eq!(packet.payload_type(), 96);
                given.push((
                    packet.sequence_number(),
                    packet.payload()[0],
                    packet.payload_len(),
                ));
            }
        }
        while receiving.poll_transmit(at_ms(ms), &mut out) {
            sending.handle(at_ms(ms), &out);
        }
        while sending.poll_request().is_some() {}
    }
    assert_eq!(sending.stats().last_rejected, None);
    let rtx = originals.iter().filter(|d| d[1] & 0x7f == 97).count();
    assert_eq!((originals.len(), rtx), (11, 1));
    let (first, lost) = (number(&originals[0]), number(&originals[3]));
    assert_eq!(
        given.iter().position(|g| g.0 == lost),
        Some(4),
        "after one more"
    );
    given.sort_unstable_by_key(|g| g.0.wrapping_sub(first));
    let all: Vec<_> = (0..10)
        .map(|n| (first.wrapping_add(n), n as u8, 1000))
        .collect();
    assert_eq!(given, all);
    let video = receiving.streams().next().unwrap();
    assert_eq!((video.repaired, video.repeated), (1, 0));
    assert_eq!(video.sequence.received(), 9, "the path lost one");
    let stats = sending.stats();
    assert_eq!((stats.rtx.requests.asked, stats.rtx.requests.sent), (1, 1));
    assert_eq!(stats.rtx.bytes, Size::new(1002));
    assert_eq!(stats.streams[1].outcomes.sent, 10);
}

/// The same but for SSRC, payload type, number, OSN and the number among all.
#[test]
fn an_rtx_packet_is_its_original_behind_two_bytes() {
    let mut sending = sending(1 << 20);
    video(&mut sending, 0, 7);
    let original = transmit(&mut sending, 0).unwrap();
    sending.handle(at_ms(30), &nack(VIDEO.ssrc, &[number(&original)]));
    let again = transmit(&mut sending, 30).unwrap();
    let (original, again) = (
        RtpPacket::parse(&original).unwrap(),
        RtpPacket::parse(&again).unwrap(),
    );
    assert_eq!((again.ssrc(), again.payload_type()), (RTX.ssrc, 97));
    assert_eq!(again.timestamp(), original.timestamp());
    assert_eq!(again.marker_bit(), original.marker_bit());
    assert_eq!(
        again.payload()[..2],
        original.sequence_number().to_be_bytes()
    );
    assert_eq!(again.payload()[2..], *original.payload());
    let [first, second] = [original, again].map(|packet| extension::Extensions::of(&packet));
    assert_eq!((first.sequence, second.sequence), (Some(0), Some(1)));
    assert_eq!(
        (first.capture, first.playout),
        (second.capture, second.playout)
    );
}

#[test]
fn a_copy_is_in_the_log_with_its_own_stream_and_number() {
    let mut sending = sending(1 << 20);
    sending.start_recording();
    let id = video(&mut sending, 0, 7);
    let original = transmit(&mut sending, 0).unwrap();
    sending.record_events(at_ms(0));
    sending.handle(at_ms(30), &nack(VIDEO.ssrc, &[number(&original)]));
    let again = transmit(&mut sending, 30).unwrap();
    let mut packets = Vec::new();
    while let Some(record) = sending.poll_record(at_ms(30)) {
        if let Record::Packet(at, packet, fate) = record {
            let (_, sequence, rtp) = packet.sent.unwrap();
            assert_eq!((packet.id, packet.deadline), (id, at_ms(100)));
            packets.push((at, packet.ssrc, packet.bytes, sequence, rtp, fate.name()));
        }
    }
    let [first, second] = [&original, &again].map(|packet| number(packet));
    assert_eq!(
        packets,
        [
            (at_ms(0), VIDEO.ssrc, 1000, 0, first, "sent"),
            (at_ms(30), RTX.ssrc, 1002, 1, second, "again"),
        ]
    );
}

/// At 30 ms the queue takes 8 ms for each packet: with eight originals before it it arrives at 94 ms, with nine at 102 ms, of 100.
#[test]
fn a_packet_that_would_be_late_is_not_sent_again() {
    for (originals, sent) in [(8, 1), (9, 0)] {
        let mut sending = sending(1 << 20);
        video(&mut sending, 0, 0);
        let lost = transmit(&mut sending, 0).unwrap();
        for n in 0..originals {
            video(&mut sending, 30, n);
        }
        sending.handle(at_ms(30), &nack(VIDEO.ssrc, &[number(&lost)]));
        let requests = sending.stats().rtx.requests;
        assert_eq!((requests.asked, requests.late), (1, 1 - sent));
        let packets = (30..200).filter(|ms| transmit(&mut sending, *ms).is_some());
        assert_eq!(packets.count() as u64, u64::from(originals) + sent);
    }
}

/// It is asked for in time; originals that come then take the time.
#[test]
fn originals_leave_first() {
    let mut sending = sending(1 << 20);
    video(&mut sending, 0, 0);
    let lost = transmit(&mut sending, 0).unwrap();
    video(&mut sending, 30, 1);
    video(&mut sending, 30, 2);
    sending.handle(at_ms(30), &nack(VIDEO.ssrc, &[number(&lost)]));
    let mut left = Vec::new();
    for ms in 30..80 {
        if ms == 40 {
            video(&mut sending, 40, 3);
        }
        assert!(sending.poll_timeout().is_some_and(|at| at <= at_ms(ms + 8)) || ms > 54);
        left.extend(transmit(&mut sending, ms).map(|d| (ms, d[1] & 0x7f)));
    }
    assert_eq!(left, [(30, 96), (38, 96), (46, 96), (54, 97)]);
    // The controller heard of it: the next is due after its 1002 B.
    assert_eq!(
        sending.change_rate(at_ms(80), |fixed| {
            makeway_core::rate::RateController::next_send(fixed)
        }),
        Some(Instant::from_nanos(62_016_000))
    );
}

#[test]
fn a_thousand_equal_nacks_cost_one_packet() {
    let mut sending = sending(1 << 20);
    video(&mut sending, 0, 0);
    let lost = number(&transmit(&mut sending, 0).unwrap());
    let mut packets = 0;
    for n in 0..1000 {
        // 50 ms, and each NACK names it 17 times; then all numbers that there are.
        let ms = 20 + n / 20;
        let random = (n as u16).wrapping_mul(64_499);
        sending.handle(at_ms(ms), &nack(VIDEO.ssrc, &[lost; 17]));
        sending.handle(
            at_ms(ms),
            &nack(VIDEO.ssrc, &[random.max(1).wrapping_add(lost)]),
        );
        packets += u64::from(transmit(&mut sending, ms).is_some());
    }
    let again::Stats {
        asked,
        sent,
        repeated,
        unknown,
        ..
    } = sending.stats().rtx.requests;
    assert_eq!((packets, sent), (1, 1));
    assert_eq!((asked, repeated, unknown), (18_000, 16_999, 1000));
    assert_eq!(std::iter::from_fn(|| sending.poll_request()).count(), 1024);
}

#[test]
fn memory_of_sent_packets_is_bounded_and_without_rtx_nothing_is_kept() {
    for (bytes, sent) in [(3000, 2), (0, 0)] {
        let mut sending = sending(bytes);
        let mut numbers = Vec::new();
        for n in 0..5 {
            video(&mut sending, n * 10, n as u8);
            numbers.push(number(&transmit(&mut sending, n * 10).unwrap()));
        }
        sending.handle(at_ms(60), &nack(VIDEO.ssrc, &numbers));
        let packets = (60..100).filter(|ms| transmit(&mut sending, *ms).is_some());
        assert_eq!(packets.count(), sent);
        assert_eq!(sending.stats().rtx.requests.unknown, 5 - sent as u64);
    }
    // A stream that has none.
    let mut sending = sending(1 << 20);
    let frame = Frame {
        stream: 0,
        deadline: at_ms(100),
        payload: Bytes::from_static(b"audio"),
    };
    sending.send(at_ms(0), &frame).unwrap();
    let audio = number(&transmit(&mut sending, 0).unwrap());
    sending.handle(at_ms(30), &nack(AUDIO.ssrc, &[audio]));
    assert_eq!(transmit(&mut sending, 30), None);
    assert_eq!(sending.stats().rtx, RtxStats::default());
    assert!(
        sending.poll_request().is_some(),
        "the application hears of it"
    );
}

/// Both copies, in either order.
#[test]
fn a_packet_that_comes_both_ways_is_given_once() {
    for original_first in [true, false] {
        let (mut sending, mut receiving) = (sending(1 << 20), receiving());
        video(&mut sending, 0, 0);
        let before = transmit(&mut sending, 0).unwrap();
        video(&mut sending, 10, 1);
        let original = transmit(&mut sending, 10).unwrap();
        sending.handle(at_ms(30), &nack(VIDEO.ssrc, &[number(&original)]));
        let again = transmit(&mut sending, 30).unwrap();
        let mut both = [original, again.clone(), again];
        if !original_first {
            both.swap(0, 1);
        }
        assert!(receiving.handle(at_ms(30), &before, 0).is_some());
        let given = both.map(|d| receiving.handle(at_ms(30), &d, 0).is_some());
        assert_eq!(given, [true, false, false]);
        let video = receiving.streams().next().unwrap();
        assert_eq!(video.repeated, 1, "the third is no new RTX packet");
        assert_eq!(video.repaired, u64::from(!original_first));
        assert_eq!((video.on_time, video.bytes), (2, Size::new(2000)));
        assert_eq!(receiving.refused(), 0);
    }
}

#[test]
fn rtx_packets_that_cannot_be_are_refused_and_counted() {
    let mut receiving = receiving();
    let packet = |ssrc, payload_type, sequence, payload: &[u8]| {
        let builder = rtp_types::RtpPacketBuilder::<&[u8], &[u8]>::new();
        let builder = builder.ssrc(ssrc).payload_type(payload_type);
        builder
            .sequence_number(sequence)
            .payload(payload)
            .write_vec()
            .unwrap()
    };
    let mut handle = |bytes: Vec<u8>| {
        let given = receiving.handle(at_ms(1), &bytes, 0).is_some();
        (given, receiving.refused())
    };
    let early = packet(RTX.ssrc, 97, 1, &[0, 9, 1]);
    assert_eq!(handle(early), (false, 1), "before any original");
    assert_eq!(handle(packet(VIDEO.ssrc, 96, 10, &[0; 9])), (true, 1));
    assert_eq!(handle(packet(RTX.ssrc, 97, 2, &[])), (false, 2), "no OSN");
    assert_eq!(
        handle(packet(RTX.ssrc, 97, 2, &[0])),
        (false, 3),
        "half of it"
    );
    assert_eq!(handle(packet(99, 97, 3, &[0, 9, 1])), (false, 4), "SSRC");
    assert_eq!(
        handle(packet(RTX.ssrc, 96, 4, &[0, 9, 1])),
        (false, 5),
        "type"
    );
    let far = packet(RTX.ssrc, 97, 5, &[0x20, 0, 1]);
    assert_eq!(handle(far), (false, 6), "8182 ahead");
    assert_eq!(
        handle(packet(RTX.ssrc, 97, 6, &[0, 9])),
        (true, 6),
        "an empty payload"
    );
    assert_eq!(
        handle(packet(RTX.ssrc, 97, 7, &[0, 9, 1])),
        (false, 6),
        "again"
    );
    assert_eq!(receiving.streams().map(|s| s.repaired).sum::<u64>(), 1);
}

#[test]
fn rtx_streams_that_cannot_be_are_refused_with_a_reason() {
    let made = |config| {
        let fixed = Fixed::new(Rate::from_bps(1));
        Sending::new(config, fixed, Listening::default(), Fifo)
    };
    let refused = |change: fn(&mut Rtx)| {
        let mut config = config(1);
        change(&mut config.rtx.streams[0]);
        made(config).unwrap_err().to_string()
    };
    assert!(refused(|rtx| rtx.media_ssrc = 1).contains("0x00000001"));
    assert!(refused(|rtx| rtx.media_payload_type = 111).contains("payload type 111"));
    assert!(refused(|rtx| rtx.ssrc = AUDIO.ssrc).contains("SSRC"));
    assert!(refused(|rtx| rtx.payload_type = 96).contains("payload type 96"));
    assert!(refused(|rtx| rtx.payload_type = 72).contains("payload type 72"));
    let mut twice = config(1);
    twice.rtx.streams.push(Rtx { ssrc: 9, ..RTX });
    assert!(made(twice).is_err());
    assert!(made(config(1)).is_ok());
}

/// Frames of three packets, 50 a second, RTT 40 ms and 2 % loss there: the share of frames that are whole within 100 ms.
fn on_time(rtx: bool, feedback: FeedbackKind, delay: u64, patience: u64) -> (f64, RtxStats) {
    let fixed = Fixed::new(Rate::from_bps(4_000_000));
    let config = if rtx {
        config(1 << 20)
    } else {
        sending_config()
    };
    let policy = Sbpn1::default();
    let mut sending = Sending::new(config, fixed, Listening::default(), policy).unwrap();
    let mut receiving = Receiving::new(ReceivingConfig {
        rtx: if rtx { vec![RTX] } else { Vec::new() },
        ..receiving_config(feedback)
    });
    let mut rng = Rng::new(7);
    let (mut there, mut back) = (VecDeque::new(), VecDeque::new());
    let (mut out, mut frames, mut made) = (Vec::new(), BTreeMap::<u32, usize>::new(), 0);
    let mut numbers = std::collections::BTreeSet::new();
    for ms in 0..60_000 {
        let now = at_ms(ms);
        if ms % 20 == 0 && ms < 59_000 {
            let deadline = now + Duration::from_millis(patience);
            let payload = Bytes::from(vec![0; 3000]);
            sending
                .send(
                    now,
                    &Frame {
                        stream: 1,
                        deadline,
                        payload,
                    },
                )
                .unwrap();
            made += 1;
        }
        while there.front().is_some_and(|(at, _)| *at <= now) {
            let (_, datagram): (_, Vec<u8>) = there.pop_front().unwrap();
            if let Some((_, packet)) = receiving.handle(now, &datagram, 0) {
                assert!(numbers.insert((packet.timestamp(), packet.sequence_number())));
                let said = extension::Extensions::of(&packet);
                let took = rtcp::ntp_between(said.capture.unwrap(), ntp().at(now)) as u64;
                if took <= patience * 1_000_000 {
                    *frames.entry(packet.timestamp()).or_default() += 1;
                }
            }
        }
        while back.front().is_some_and(|(at, _)| *at <= now) {
            let (_, datagram): (_, Vec<u8>) = back.pop_front().unwrap();
            sending.handle(now, &datagram);
        }
        sending.handle_timeout(now);
        while sending.poll_transmit(now, &mut out).is_some() {
            if rtcp::is_rtcp(&out) || rng.below(100) >= 2 {
                there.push_back((now + Duration::from_millis(delay), out.clone()));
            }
        }
        while receiving.poll_transmit(now, &mut out) {
            back.push_back((now + Duration::from_millis(delay), out.clone()));
        }
        while sending.poll_event().is_some() {}
        while sending.poll_request().is_some() {}
    }
    assert_eq!(sending.stats().last_rejected, None);
    assert_eq!(receiving.refused(), 0);
    let whole = frames.values().filter(|packets| **packets == 3).count();
    (whole as f64 / made as f64, sending.stats().rtx)
}

/// Without: 0.98^3 = 94.1 %. With: of a lost packet, its retransmission is lost in one of fifty cases, and a second one would be late; and the
/// last packet before a pause is missed with the next frame.
#[test]
fn more_frames_are_on_time_with_retransmission() {
    for feedback in [FeedbackKind::Twcc, FeedbackKind::Rfc8888] {
        let (without, none) = on_time(false, feedback, 20, 100);
        let (with, rtx) = on_time(true, feedback, 20, 100);
        eprintln!(
            "2 % loss, RTT 40 ms, {feedback:?}: {without:.4} of frames on time without RTX, {with:.4} with; {rtx:?}"
        );
        assert_eq!(none, RtxStats::default());
        assert!((0.92..0.96).contains(&without), "{without}");
        assert!(with > 0.99, "{with}");
        assert!(rtx.arrived * 100 > rtx.requests.sent * 94, "{rtx:?}");
    }
}

/// The receiver's RTT is 120 ms, its patience 100 ms: no retransmission can be in time, and once that is known none is sent.
#[test]
fn nothing_is_sent_again_where_the_path_is_too_long() {
    let (_, rtx) = on_time(true, FeedbackKind::Rfc8888, 60, 150);
    assert!(rtx.requests.late > 100, "{rtx:?}");
    assert!(rtx.requests.sent * 50 < rtx.requests.late, "{rtx:?}");
}
