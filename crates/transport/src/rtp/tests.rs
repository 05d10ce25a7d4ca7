// SPDX-License-Identifier: MIT OR Apache-2.0
//! Both sides of a call over a path in simulated time.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use makeway_core::random::Rng;
use makeway_core::rate::{
    AnyController, AnyReporter, Arrival, Config, Feedback, Reporter, fixed::Fixed,
};
use makeway_core::send::{Event, Outcome, fifo::Fifo};
use makeway_core::units::{Duration, Instant, Rate};
use proptest::prelude::*;
use rtp_types::RtpPacket;

use super::*;

mod bottleneck;
mod calls;
mod hostile;
mod packets;
mod path;
mod rtx;

use path::{Listening, Path};

const AUDIO: Stream = Stream {
    ssrc: 0xa0a0_a0a0,
    payload_type: 111,
    clock_rate: 48_000,
    class: 0,
};
const VIDEO: Stream = Stream {
    ssrc: 0x0b0b_0b0b,
    payload_type: 96,
    clock_rate: 90_000,
    class: 1,
};

fn ntp() -> NtpEpoch {
    NtpEpoch::since_unix(std::time::Duration::from_secs(1_790_000_000))
}

fn sending_config() -> SendingConfig {
    SendingConfig {
        streams: vec![AUDIO, VIDEO],
        queue: Default::default(),
        cname: "sender@test".into(),
        rtx: Default::default(),
        ntp: ntp(),
        seed: 1,
    }
}

fn receiving_config(feedback: FeedbackKind) -> ReceivingConfig {
    ReceivingConfig {
        ssrc: 5,
        cname: "receiver@test".into(),
        rtx: Vec::new(),
        feedback,
        interval: Duration::from_millis(50),
        ntp: ntp(),
        seed: 2,
    }
}

fn at_ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn one_in_ten(number: u64) -> bool {
    number % 10 == 3
}

#[test]
fn the_sender_hears_of_each_packet_that_came_and_of_no_other() {
    for feedback in [FeedbackKind::Twcc, FeedbackKind::Rfc8888] {
        let mut path = Path::new(feedback, Duration::from_millis(30), one_in_ten);
        path.run(20_000, 21_000);
        let stats = path.sending.stats();
        assert_eq!((stats.rejected, &stats.last_rejected), (0, &None));
        assert!(stats.feedback > 300, "{}", stats.feedback);
        let [audio, video] = &stats.streams[..] else {
            panic!()
        };
        assert_eq!((audio.outcomes.sent, video.outcomes.sent), (1000, 2000));
        let received: Vec<_> = path.receiving.streams().collect();
        assert_eq!(received.len(), 2);
        for (stream, received) in [audio, video].into_iter().zip(received) {
            assert_eq!(stream.arrived, received.sequence.received());
        }
        let arrived = audio.arrived + video.arrived;
        assert_eq!(arrived + path.lost, 3000);
        assert!(path.lost > 250, "{}", path.lost);
    }
}

/// Half of the reports are lost, and of the media nothing, or one in ten: the controller hears of no other loss, and the statistics of
/// no arrival that nobody told.
#[test]
fn a_lost_report_is_no_lost_media() {
    for feedback in [FeedbackKind::Twcc, FeedbackKind::Rfc8888] {
        for loses in [(|_| false) as fn(u64) -> bool, one_in_ten] {
            let mut path = Path::new(feedback, Duration::from_millis(30), loses);
            path.loses_report = |number| number / 2 % 2 == 0;
            path.run(20_000, 21_000);
            let stats = path.sending.stats();
            assert_eq!((stats.rejected, &stats.last_rejected), (0, &None));
            let told: u64 = stats.streams.iter().map(|stream| stream.arrived).sum();
            let heard = &path.sending.reporter().0;
            let mut numbers: Vec<u64> = heard.iter().map(|(_, sequence)| *sequence).collect();
            assert!(heard.is_sorted_by_key(|(at, _)| *at));
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), heard.len(), "each once");
            let unheard = 3000 - heard.len() as u64;
            // The last report may be lost, with nothing after it.
            assert!(unheard <= path.lost + 40, "{unheard} of {}", path.lost);
            assert!(told < heard.len() as u64 * 3 / 4, "{told}");
            if path.lost > 0 {
                assert!(unheard > path.lost / 4, "{unheard} of {}", path.lost);
            }
        }
    }
}

/// A frame each 150 ms, and 20 ms each way. TWCC does not say for how long the receiver has held its report: of single packets it is made at
/// once. Of a frame in several packets there is one report, and not another one of the first.
#[test]
fn packets_one_by_one_are_reported_at_once_and_frames_are_reported_whole() {
    for len in [5, 5000] {
        let delay = Duration::from_millis(20);
        let mut path = Path::new(FeedbackKind::Twcc, delay, |_| false);
        while path.ms < 9_000 {
            let now = at_ms(path.ms);
            let frame = Frame {
                stream: 1,
                deadline: now + Duration::from_millis(100),
                payload: Bytes::from(vec![7; len]),
            };
            path.sending.send(now, &frame).unwrap();
            path.run(0, path.ms + 150);
        }
        assert_eq!(path.sending.stats().feedback, 60, "{len} B");
        if len == 5 {
            let one_way = path.sending.one_way(at_ms(9_000)).unwrap();
            assert!(one_way < Duration::from_millis(25), "{one_way}");
        }
    }
}

/// A receiver that is started again has another clock: after two of its reports the call goes on.
#[test]
fn a_receiver_may_be_started_again() {
    for feedback in [FeedbackKind::Twcc, FeedbackKind::Rfc8888] {
        let mut path = Path::new(feedback, Duration::from_millis(30), |_| false);
        path.run(5_000, 5_000);
        let before = path.sending.stats();
        let ntp = NtpEpoch::since_unix(std::time::Duration::from_secs(1_700_000_000));
        path.receiving = Receiving::new(ReceivingConfig {
            ntp,
            ..receiving_config(feedback)
        });
        path.ahead = Duration::from_secs(1000);
        path.run(10_000, 10_000);
        let after = path.sending.stats();
        assert!(after.rejected - before.rejected <= 2, "{after:?}");
        let [first, second] = [before.feedback, after.feedback - before.feedback];
        assert!(second * 10 > first * 9, "{first}, then {second}");
    }
}

/// Our machine sleeps for 5 s, in which our clock stands still.
#[test]
fn a_sender_that_slept_takes_nothing_for_late() {
    for feedback in [FeedbackKind::Twcc, FeedbackKind::Rfc8888] {
        let mut path = Path::new(feedback, Duration::from_millis(30), |_| false);
        // All is reported before.
        path.run(4_800, 5_000);
        path.ahead = Duration::from_secs(5);
        path.run(6_000, 6_000);
        let one_way = path.sending.one_way(at_ms(6_000)).unwrap();
        assert!(one_way < Duration::from_millis(100), "{one_way}");
        // Two reports, and one by RTCP's clock that answers a sender report of before.
        let stats = path.sending.stats();
        assert!(stats.rejected <= 3, "{stats:?}");
    }
}

/// The compound of a receiver that answers an old sender report, or none that was sent, has TWCC behind it.
#[test]
fn what_one_packet_of_a_compound_says_wrong_is_no_reason_against_the_next() {
    for (last, rejected) in [(1, 0), (u32::MAX / 2, 1)] {
        let (mut path, twcc) = twcc();
        let now = at_ms(600);
        path.sending.close();
        let mut out = Vec::new();
        path.sending.poll_transmit(now, &mut out).unwrap();
        let ours = rtcp::compact(ntp().at(now));
        let block = rtcp_types::ReportBlock::builder(AUDIO.ssrc)
            .last_sender_report_timestamp(ours.wrapping_add(last).wrapping_sub(2))
            .delay_since_last_sender_report_timestamp(1);
        let report = rtcp_types::ReceiverReport::builder(5).add_report_block(block);
        let mut compound = Vec::new();
        rtcp::append(&mut compound, &report).unwrap();
        compound.extend(twcc);
        let before = path.sending.stats();
        path.sending.handle(now, &compound);
        path.sending.handle_timeout(now);
        let after = path.sending.stats();
        assert_eq!(after.streams[0].arrived, before.streams[0].arrived + 1);
        assert_eq!(after.rejected - before.rejected, rejected);
    }
}

/// The marks of a link are in the reports of a receiver on a socket.
#[test]
fn a_receiver_reports_the_marks_of_the_network() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let config = ReceiverConfig {
            ssrc: 5,
            cname: "receiver@test".into(),
            rtx: Vec::new(),
            feedback: FeedbackKind::Rfc8888,
            interval: Duration::from_millis(20),
            seed: 2,
        };
        let receiver = Receiver::bind(address.parse().unwrap(), config, |_, _| {}).unwrap();
        let socket = std::net::UdpSocket::bind(address).unwrap();
        socket.connect(receiver.address()).unwrap();
        let patience = Some(std::time::Duration::from_secs(10));
        socket.set_read_timeout(patience).unwrap();
        let fixed = Fixed::new(Rate::from_bps(20_000_000));
        let mut sending =
            Sending::new(sending_config(), fixed, Listening::default(), Fifo).unwrap();
        let mut out = Vec::new();
        for (ms, bits) in [(1, 0), (2, 3), (3, 2), (4, 1)] {
            crate::network::send_bits(&socket, bits).unwrap();
            let frame = Frame {
                stream: 0,
                deadline: at_ms(100),
                payload: Bytes::from_static(b"audio"),
            };
            sending.send(at_ms(ms), &frame).unwrap();
            sending.poll_transmit(at_ms(ms), &mut out).unwrap();
            socket.send(&out).unwrap();
        }
        let mut told = Vec::new();
        while told.len() < 4 {
            let mut input = [0; 2000];
            let len = socket.recv(&mut input).expect("it reports");
            let Ok(report) = ccfb::Ccfb::parse(&input[..len]) else {
                continue;
            };
            for block in report.blocks() {
                told.extend(block.metrics().map(|metric| match metric {
                    ccfb::Metric::Received { ecn, .. } => ecn,
                    ccfb::Metric::Lost => 9,
                }));
            }
        }
        assert_eq!(told, [0, 3, 2, 1], "{address}");
    }
}

/// Bytes of RFC 4585 §6.2.1 and §6.3.1 and RFC 5104 §4.3.1, from the receiver with the SSRC 5.
#[test]
fn requests_of_a_receiver_reach_the_application() {
    let fixed = Fixed::new(Rate::from_bps(1_000_000_000));
    let mut sending = Sending::new(sending_config(), fixed, Listening::default(), Fifo).unwrap();
    let frame = Frame {
        stream: 1,
        deadline: at_ms(100),
        payload: Bytes::from(vec![0; 4000]),
    };
    let (first, _) = sending.send(at_ms(0), &frame).unwrap();
    let mut numbers = Vec::new();
    for ms in 1..=3 {
        let mut out = Vec::new();
        sending.poll_transmit(at_ms(ms), &mut out).unwrap();
        numbers.push(RtpPacket::parse(&out).unwrap().sequence_number());
    }
    let message = |head: [u8; 4], media: u32, rest: &[u8]| {
        let mut bytes = head.to_vec();
        bytes.extend(5_u32.to_be_bytes());
        bytes.extend(media.to_be_bytes());
        bytes.extend(rest);
        bytes
    };
    // The second packet, and by the bitmask the third.
    let [high, low] = numbers[1].to_be_bytes();
    let nack = message([0x81, 205, 0, 3], VIDEO.ssrc, &[high, low, 0, 1]);
    let pli = message([0x81, 206, 0, 2], VIDEO.ssrc, &[]);
    let ssrc = AUDIO.ssrc.to_be_bytes();
    let fir = |n| {
        let entry = [ssrc[0], ssrc[1], ssrc[2], ssrc[3], n, 0, 0, 0];
        message([0x84, 206, 0, 4], 0, &entry)
    };
    let missing = |n| {
        let id = makeway_core::send::DatagramId(first.0 + n);
        Request::Missing { stream: 1, id }
    };
    let keyframe = |stream| Request::Keyframe { stream };
    let mut asked = |datagrams: &[Vec<u8>]| {
        for datagram in datagrams {
            sending.handle(at_ms(10), datagram);
        }
        assert_eq!(sending.stats().last_rejected, None);
        std::iter::from_fn(|| sending.poll_request()).collect::<Vec<_>>()
    };
    assert_eq!(asked(&[]), []);
    assert_eq!(asked(&[nack]), [missing(1), missing(2)]);
    assert_eq!(asked(&[pli.clone(), pli.clone()]), [keyframe(1)]);
    assert_eq!(asked(&[pli]), [keyframe(1)]);
    assert_eq!(asked(&[fir(7), fir(7)]), [keyframe(0)]);
    assert_eq!(asked(&[fir(7)]), [], "the same again");
    assert_eq!(asked(&[fir(8)]), [keyframe(0)]);
    sending.handle(at_ms(10), &message([0x81, 206, 0, 2], 99, &[]));
    let other = Some(Rejected::OtherStream(99));
    assert_eq!(sending.stats().last_rejected, other);
    assert_eq!(sending.poll_request(), None);
}

/// A socket of the application's, from a port that it has chosen; without a receiver it is refused.
#[test]
fn a_call_takes_a_socket_of_the_application() {
    let config = || CallConfig {
        streams: vec![AUDIO, VIDEO],
        queue: Default::default(),
        policy: Default::default(),
        rate: Config::Fixed(Rate::from_bps(1_000_000)),
        cname: "sender@test".into(),
        rtx: Default::default(),
        seed: 1,
        ecn: Ecn::NotEct,
    };
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(Call::over(socket.try_clone().unwrap(), config()).is_err());
    socket.connect(receiver.local_addr().unwrap()).unwrap();
    let ours = socket.local_addr().unwrap();
    let call = Call::over(socket, config()).unwrap();
    // Later than any stall of the machine.
    call.send(0, Duration::from_secs(40), vec![0; 100]);
    let patience = Some(std::time::Duration::from_secs(10));
    receiver.set_read_timeout(patience).unwrap();
    let (len, from) = receiver.recv_from(&mut [0; 2000]).unwrap();
    assert_eq!((len, from), (100 + 32, ours));
    // A PLI from there is a request.
    let mut pli = vec![0x81, 206, 0, 2, 0, 0, 0, 5];
    pli.extend(VIDEO.ssrc.to_be_bytes());
    receiver.send_to(&pli, ours).unwrap();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let asked = loop {
        let asked = call.try_request();
        if asked.is_some() || std::time::Instant::now() > end {
            break asked;
        }
    };
    assert_eq!(asked, Some(Request::Keyframe { stream: 1 }));
}

#[test]
fn arrival_times_come_back_as_exactly_as_the_feedback_can_say() {
    for (feedback, unit) in [
        (FeedbackKind::Twcc, Duration::from_micros(250)),
        (
            FeedbackKind::Rfc8888,
            Duration::from_nanos(1_000_000_000 / 1024),
        ),
    ] {
        let mut path = Path::new(feedback, Duration::from_millis(30), |_| false);
        path.run(2_000, 3_000);
        let heard = &path.sending.reporter().0;
        assert_eq!(heard.len(), path.arrived.len());
        let zero = heard[0].0.as_nanos() as i64 - path.arrived[0].0.as_nanos() as i64;
        for ((heard, _), (came, _)) in heard.iter().zip(&path.arrived) {
            let off = heard.as_nanos() as i64 - came.as_nanos() as i64 - zero;
            assert!(off.unsigned_abs() <= 2 * unit.as_nanos(), "{off} ns");
        }
    }
}

#[test]
fn receivers_measure_delay_loss_and_lateness() {
    let mut path = Path::new(FeedbackKind::Twcc, Duration::from_millis(150), one_in_ten);
    path.run(20_000, 21_000);
    let audio = path.receiving.streams().next().unwrap();
    assert_eq!((audio.ssrc, audio.payload_type), (AUDIO.ssrc, 111));
    // Deadlines are 100 ms after capture.
    assert_eq!(
        (audio.on_time, audio.with_deadline),
        (0, audio.sequence.received())
    );
    assert!(audio.delay.min() >= Duration::from_millis(149));
    let expected = audio.sequence.expected();
    assert!((990..=1000).contains(&expected), "{expected}");
    let lost = path.sending.stats().streams[0].outcomes.sent - audio.sequence.received();
    assert_eq!(
        expected - audio.sequence.received(),
        lost - (1000 - expected)
    );
    let mut quick = Path::new(FeedbackKind::Rfc8888, Duration::from_millis(30), |_| false);
    quick.run(2_000, 3_000);
    let audio = quick.receiving.streams().next().unwrap();
    assert_eq!((audio.on_time, audio.sequence.received()), (100, 100));
}

#[test]
fn reports_of_rtcp_give_the_round_trip_time_and_the_loss() {
    let mut path = Path::new(FeedbackKind::Twcc, Duration::from_millis(70), one_in_ten);
    path.run(20_000, 21_000);
    let stats = path.sending.stats();
    // 140 ms, and the millisecond in which each side looks.
    let rtt = stats.rtcp_rtt.unwrap().as_millis_f64();
    assert!((139.0..143.0).contains(&rtt), "{rtt}");
    let loss = stats.streams[1].loss.unwrap();
    assert!((0.05..0.15).contains(&loss), "{loss}");
}

#[test]
fn bye_ends_both_sides() {
    let mut path = Path::new(FeedbackKind::Twcc, Duration::from_millis(5), |_| false);
    path.run(1_000, 1_000);
    path.sending.close();
    path.receiving.close();
    path.run(0, 1_020);
    assert!(path.receiving.has_ended() && path.sending.stats().bye);
}

/// The sender keeps 1028 outcomes for an application that does not ask.
#[test]
fn a_log_has_each_packet_of_a_frame_that_is_longer_than_the_queue() {
    let mut config = sending_config();
    config.queue.packets = 4;
    let fixed = Fixed::new(Rate::from_bps(960_000));
    let mut sending = Sending::new(config, fixed, Listening::default(), Fifo).unwrap();
    sending.start_recording();
    let frame = Frame {
        stream: 1,
        deadline: at_ms(60_000),
        payload: vec![0; 4_000_000].into(),
    };
    let (_, packets) = sending.send(at_ms(1), &frame).unwrap();
    sending.record_end(at_ms(2));
    let mut fates = BTreeMap::<_, u64>::new();
    while let Some(record) = sending.poll_record(at_ms(2)) {
        if let Record::Packet(_, _, fate) = record {
            *fates.entry(fate.name()).or_default() += 1;
        }
    }
    assert!(packets > 2000);
    // Its first packets waited, and went with those that found no room.
    assert_eq!(fates, BTreeMap::from([("evicted", packets)]));
}

#[test]
fn a_frame_is_cut_evenly_and_its_last_packet_is_marked() {
    let fixed = Fixed::new(Rate::from_bps(1_000_000_000));
    let mut sending = Sending::new(sending_config(), fixed, Listening::default(), Fifo).unwrap();
    let payload: Bytes = (0..3000).map(|n| n as u8).collect();
    let frame = Frame {
        stream: 1,
        deadline: at_ms(100),
        payload: payload.clone(),
    };
    let (_, packets) = sending.send(at_ms(0), &frame).unwrap();
    assert_eq!(packets, 3);
    let (mut out, mut whole) = (Vec::new(), Vec::new());
    let mut markers = Vec::new();
    for ms in 1..=3 {
        sending.poll_transmit(at_ms(ms), &mut out).unwrap();
        let packet = RtpPacket::parse(&out).unwrap();
        assert_eq!((packet.ssrc(), packet.payload_type()), (VIDEO.ssrc, 96));
        assert_eq!(packet.payload_len(), 1000);
        whole.extend_from_slice(packet.payload());
        markers.push(packet.marker_bit());
    }
    assert!(whole == payload && markers == [false, false, true]);
    let sent = |event| {
        matches!(
            event,
            Event::Outcome(_, _, Outcome::Sent { late: false, .. })
        )
    };
    assert!((0..3).all(|_| sending.poll_event().is_some_and(sent)));
    assert_eq!(sending.stats().streams[1].outcomes.sent, 3);
}

#[test]
fn what_cannot_be_sent_is_refused_with_a_reason() {
    let refused = |change: fn(&mut SendingConfig)| {
        let mut config = sending_config();
        change(&mut config);
        let fixed = Fixed::new(Rate::from_bps(1));
        let made = Sending::new(config, fixed, Listening::default(), Fifo);
        made.unwrap_err().to_string()
    };
    assert!(refused(|c| c.streams.clear()).contains("1 to 31"));
    assert!(refused(|c| c.streams[1].ssrc = AUDIO.ssrc).contains("SSRC"));
    assert!(refused(|c| c.streams[1].class = 0).contains("class 0"));
    assert!(refused(|c| c.streams[1].payload_type = 72).contains("payload type 72"));
    assert!(refused(|c| c.cname = "x".repeat(256)).contains("256"));
}

/// One report of TWCC on the packets of a second.
fn twcc() -> (Path, Vec<u8>) {
    let mut path = Path::new(FeedbackKind::Twcc, Duration::from_millis(10), |_| false);
    path.run(200, 400);
    let mut receiving = Receiving::new(receiving_config(FeedbackKind::Twcc));
    let mut out = Vec::new();
    let now = at_ms(401);
    let frame = Frame {
        stream: 0,
        deadline: now,
        payload: Bytes::from_static(b"new"),
    };
    path.sending.send(now, &frame).unwrap();
    path.sending.poll_transmit(now, &mut out).unwrap();
    receiving.handle(now, &out, 0).unwrap();
    assert!(receiving.poll_transmit(at_ms(500), &mut out));
    (path, out)
}
